/*
 * Results of the ioctl interface for missing GIDs and unknown flags. sysfs gives different results.
 */
#include "rdma.h"

#include <dlfcn.h>

static struct ibv_context *context;

static void entries(void)
{
	struct ibv_gid_entry entry, table[16];

	memset(&entry, 0, sizeof(entry));
	RC(ibv_query_gid_ex(context, 1, 1024, &entry, 0));
	RC(ibv_query_gid_ex(context, 1, 70000, &entry, 0));
	RC(ibv_query_gid_ex(context, 0, 0, &entry, 0));
	RC(ibv_query_gid_ex(context, 300, 0, &entry, 0));
	RC(ibv_query_gid_ex(context, 1, 1, &entry, 1));
	RC(ibv_query_gid_ex(context, 1, 1, &entry, 0x80000000U));
	COUNT(ibv_query_gid_table(context, table, 16, 1));
	COUNT(ibv_query_gid_table(context, table, 16, 0x80000000U));
}

static void gids(void)
{
	union ibv_gid gid;

	RC(ibv_query_gid(context, 1, 1024, &gid));
	RC(ibv_query_gid(context, 1, 100000, &gid));
	RC(ibv_query_gid(context, 1, -1, &gid));
	RC(ibv_query_gid(context, 0, 0, &gid));
	RC(ibv_query_gid(context, 2, 0, &gid));
}

/* Exported for programs, though under the private node. */
static void types(void)
{
	int (*query)(struct ibv_context *, uint8_t, unsigned int, int *);
	void *library = MUST_PTR(dlopen("libibverbs.so.1", RTLD_NOW));
	int type = 77;

	*(void **)&query = dlvsym(library, "ibv_query_gid_type", "IBVERBS_PRIVATE_34");
	expect(query);
	RC(query(context, 1, 1024, &type));
	RC(query(context, 1, 70000, &type));
	RC(query(context, 0, 0, &type));
	RC(query(context, 3, 1, &type));
	out("type %d", type);
	dlclose(library);
}

int main(void)
{
	context = open_rxe();
	entries();
	gids();
	types();
	RC(ibv_close_device(context));
	return done();
}
