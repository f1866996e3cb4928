/* Protection domains, and taking over objects of another process (which rxe cannot). */
#include "rdma.h"

int main(void)
{
	struct ibv_context *context = open_rxe();
	struct ibv_pd *pd, *pds[32];
	struct ibv_mr *mr;
	struct ibv_dm dm = { .context = context };
	char *memory = MUST_PTR((char *)malloc(4096));
	size_t i;

	pd = PTR(ibv_alloc_pd(context));
	out("context %d", pd->context == context);
	mr = MUST_PTR(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE));
	RC(ibv_dealloc_pd(pd));
	MUST(ibv_dereg_mr(mr));

	PTR(ibv_import_pd(context, pd->handle));
	PTR(ibv_import_pd(context, 0xfffff0));
	PTR(ibv_import_mr(pd, 0));
	PTR(ibv_import_dm(context, 0));

	/* Without a provider's support these do nothing, and harm nothing. */
	mr = MUST_PTR(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE));
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	ibv_unimport_dm(&dm);
	RC(ibv_dereg_mr(mr));
	RC(ibv_dealloc_pd(pd));

	for (i = 0; i < ARRAY_LEN(pds); i++)
		pds[i] = MUST_PTR(ibv_alloc_pd(context));
	for (i = 0; i < ARRAY_LEN(pds); i++)
		MUST(ibv_dealloc_pd(pds[i]));
	RC(ibv_close_device(context));
	free(memory);
	return done();
}
