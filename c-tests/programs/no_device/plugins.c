/*
 * Every installed provider plugin loads, registers through the library, and
 * is unloaded. This program replaces the registration function, notes the name
 * and passes the call on to the library.
 */
#include "check.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

static char registered[64][32];
static unsigned int count;
static void (*pass_on)(const void *ops);

void verbs_register_driver_34(const void *ops);

/* The operations of a driver begin with its name. */
void verbs_register_driver_34(const void *ops)
{
	const char *const *name = ops;

	expect(count < ARRAY_LEN(registered));
	snprintf(registered[count++], sizeof(registered[0]), "%s", *name);
	pass_on(ops);
}

static void one_plugin(const char *path)
{
	const char *file = strrchr(path, '/') + 1;
	unsigned int before = count, i;
	void *plugin;

	plugin = dlopen(path, RTLD_NOW);
	if (!plugin) {
		fprintf(stderr, "%s\n", dlerror());
		fail_at(__FILE__, __LINE__, file);
	}
	for (i = before; i < count; i++)
		out("%s registered %s", file, registered[i]);
	expect(count > before);
	expect(!dlclose(plugin));
	/* No device list has made use of it, so it goes. */
	plugin = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
	out("%s is %s", file, plugin ? "still there" : "gone");
}

int main(void)
{
	struct link_map *map;
	char pattern[400];
	void *library;
	glob_t found;
	size_t i;

	library = dlopen("libibverbs.so.1", RTLD_NOW);
	expect(library != NULL);
	*(void **)&pass_on = dlvsym(library, "verbs_register_driver_34", "IBVERBS_PRIVATE_34");
	expect(pass_on && pass_on != verbs_register_driver_34);
	/* So that the library is needed, and in the global scope from the start. */
	out("status %s", ibv_wc_status_str(IBV_WC_SUCCESS));

	/* The plugins stand beside the C library's files of this architecture. */
	map = dlopen("libpthread.so.0", RTLD_LAZY);
	expect(map != NULL);
	snprintf(pattern, sizeof(pattern), "%.*s/libibverbs/lib*-rdmav34.so",
		 (int)(strrchr(map->l_name, '/') - map->l_name), map->l_name);
	expect(!glob(pattern, 0, NULL, &found));
	for (i = 0; i < found.gl_pathc; i++)
		one_plugin(found.gl_pathv[i]);
	out("%zu plugins, %u registrations", found.gl_pathc, count);
	globfree(&found);
	return done();
}
