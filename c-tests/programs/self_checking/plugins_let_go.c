/*
 * A program loads a provider plugin, which registers, and unloads it. The registration must not
 * dangle: the device list still works, twice.
 */
#include "check.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

static void list(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (list)
		ibv_free_device_list(list);
}

int main(void)
{
	struct link_map *map = dlopen("libpthread.so.0", RTLD_LAZY);
	char pattern[400];
	glob_t found;
	size_t i;

	expect(map != NULL);
	snprintf(pattern, sizeof(pattern), "%.*s/libibverbs/lib*-rdmav34.so",
		 (int)(strrchr(map->l_name, '/') - map->l_name), map->l_name);
	expect(!glob(pattern, 0, NULL, &found));
	for (i = 0; i < found.gl_pathc; i++) {
		void *plugin = dlopen(found.gl_pathv[i], RTLD_NOW);

		expect(plugin != NULL);
		expect(!dlclose(plugin));
	}
	list();
	for (i = 0; i < found.gl_pathc; i++) {
		void *plugin = dlopen(found.gl_pathv[i], RTLD_NOW);

		expect(plugin != NULL);
		list();
		expect(!dlclose(plugin));
	}
	list();
	out("%zu plugins came and went", found.gl_pathc);
	globfree(&found);
	return done();
}
