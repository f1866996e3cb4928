/*
 * A program that is not linked with the library loads it, asks for names by
 * version, and lets go of it, again and again.
 */
#include "check.h"

#include <dlfcn.h>

static const struct {
	const char *name;
	const char *node;
} names[] = {
	{ "ibv_get_device_list", "IBVERBS_1.1" },
	{ "ibv_get_device_list", "IBVERBS_1.5" },
	{ "ibv_get_device_list", "IBVERBS_PRIVATE_34" },
	{ "ibv_create_comp_channel", "IBVERBS_1.0" },
	{ "ibv_create_comp_channel", "IBVERBS_1.1" },
	{ "ibv_get_pkey_index", "IBVERBS_1.5" },
	{ "ibv_qp_to_qp_ex", "IBVERBS_1.6" },
	{ "ibv_reg_mr_iova", "IBVERBS_1.7" },
	{ "ibv_reg_mr_iova2", "IBVERBS_1.8" },
	{ "ibv_get_device_index", "IBVERBS_1.9" },
	{ "ibv_import_device", "IBVERBS_1.10" },
	{ "_ibv_query_gid_ex", "IBVERBS_1.11" },
	{ "ibv_reg_dmabuf_mr", "IBVERBS_1.12" },
	{ "ibv_is_fork_initialized", "IBVERBS_1.13" },
	{ "ibv_query_qp_data_in_order", "IBVERBS_1.14" },
	{ "ibv_query_gid_type", "IBVERBS_PRIVATE_34" },
	{ "ibv_query_gid_type", "IBVERBS_1.1" },
	{ "ibv_cmd_reg_mr", "IBVERBS_PRIVATE_34" },
	{ "verbs_allow_disassociate_destroy", "IBVERBS_PRIVATE_34" },
	{ "verbs_register_driver_34", "IBVERBS_PRIVATE_34" },
	{ "__verbs_log", "IBVERBS_PRIVATE_34" },
	{ "no_such_name", "IBVERBS_1.1" },
};

static void name_file(void *library)
{
	Dl_info info;
	void *symbol = dlsym(library, "ibv_open_device");

	expect(symbol && dladdr(symbol, &info));
	fprintf(stderr, "library: %s\n", info.dli_fname);
}

static int cycle(int flags)
{
	void *library = dlopen("libibverbs.so.1", flags);
	struct ibv_device **(*get_list)(int *);
	void (*free_list)(struct ibv_device **);
	struct ibv_device **list;
	void *left;

	expect(library != NULL);
	*(void **)&get_list = dlsym(library, "ibv_get_device_list");
	*(void **)&free_list = dlsym(library, "ibv_free_device_list");
	expect(get_list && free_list);
	list = get_list(NULL);
	if (list)
		free_list(list);
	expect(!dlclose(library));
	left = dlopen("libibverbs.so.1", RTLD_NOLOAD | RTLD_LAZY);
	if (left)
		dlclose(left);
	return left != NULL;
}

int main(void)
{
	void *library;
	int i, mapped = 0, before, descriptors;
	size_t k;

	expect(!dlopen("libibverbs.so.1", RTLD_NOLOAD | RTLD_LAZY));
	library = dlopen("libibverbs.so.1", RTLD_NOW);
	expect(library != NULL);
	name_file(library);
	for (k = 0; k < ARRAY_LEN(names); k++)
		out("%s@%s %s", names[k].name, names[k].node,
		    dlvsym(library, names[k].name, names[k].node) ? "found" : "not found");
	expect(!dlclose(library));

	cycle(RTLD_NOW);
	descriptors = open_descriptors();
	before = mapping_count();
	for (i = 0; i < 20; i++)
		mapped += cycle(i % 2 ? RTLD_NOW : RTLD_LAZY | RTLD_GLOBAL);
	out("still loaded after dlclose: %s", mapped ? "yes" : "no");
	expect(mapping_count() <= before + 4);
	out("descriptors left %d", open_descriptors() - descriptors);
	return done();
}
