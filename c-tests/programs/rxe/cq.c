/* Completion queues: sizes, vectors, resize, being busy. */
#include "rdma.h"

static struct ibv_context *context;

static void by_size(void)
{
	static int sizes[] = { -2147483647, -1, 0, 1, 2, 3, 100, 32767, 32768, 2147483647 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(sizes); i++) {
		struct ibv_cq *cq;

		out("size %d", sizes[i]);
		cq = PTR(ibv_create_cq(context, sizes[i], &sizes, NULL, 0));
		if (!cq)
			continue;
		out("cqe %d context %d channel %d own %d", cq->cqe, cq->context == context,
		    cq->channel == NULL, cq->cq_context == (void *)&sizes);
		RC(ibv_destroy_cq(cq));
	}
}

static void by_vector(void)
{
	static const int vectors[] = { -1, 0, 1, 2, 1000, 2147483647 };
	size_t i;

	for (i = 0; i < ARRAY_LEN(vectors); i++) {
		struct ibv_cq *cq;

		out("vector %d", vectors[i]);
		cq = PTR(ibv_create_cq(context, 1, NULL, NULL, vectors[i]));
		if (cq)
			RC(ibv_destroy_cq(cq));
	}
}

static void resize(void)
{
	static const int sizes[] = { -1, 0, 1, 5, 100, 32767, 32768, 2147483647, 7 };
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 10, NULL, NULL, 0));
	struct ibv_wc wc;
	size_t i;

	out("cqe %d", cq->cqe);
	for (i = 0; i < ARRAY_LEN(sizes); i++) {
		out("size %d", sizes[i]);
		RC(ibv_resize_cq(cq, sizes[i]));
		out("cqe %d", cq->cqe);
		COUNT(ibv_poll_cq(cq, 1, &wc));
	}
	RC(ibv_destroy_cq(cq));
}

/* Completions that wait stay through a resize; fewer places than those is refused. */
static void resize_with_completions(void)
{
	struct pair pair;
	struct ibv_wc wc;
	int i;

	make_pair(&pair, IBV_QPT_RC);
	for (i = 0; i < 10; i++)
		MUST(post_recv(&pair, 0, (uint64_t)i, 0, 16));
	to_error(pair.qp[0]);
	/* Flushed in the background: wait for the first, the others follow it. */
	for (i = 0; i < 4; i++) {
		wc = wait_wc(pair.cq[0]);
		show_wc("before", &wc);
	}
	usleep(100000);
	RC(ibv_resize_cq(pair.cq[0], 2));
	RC(ibv_resize_cq(pair.cq[0], 500));
	out("cqe %d", pair.cq[0]->cqe);
	for (i = 4; i < 10; i++) {
		wc = wait_wc(pair.cq[0]);
		show_wc("after", &wc);
	}
	free_pair(&pair);
}

static void busy(void)
{
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 10, NULL, NULL, 0));
	struct ibv_qp_init_attr attr = init_attr(cq, IBV_QPT_UD);
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pd, &attr));

	RC(ibv_destroy_cq(cq));
	RC(ibv_destroy_cq(cq));
	RC(ibv_dealloc_pd(pd));
	RC(ibv_destroy_qp(qp));
	RC(ibv_req_notify_cq(cq, 0));
	RC(ibv_req_notify_cq(cq, 1));
	RC(ibv_destroy_cq(cq));
	RC(ibv_dealloc_pd(pd));
}

static void extended(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 10 };
	struct ibv_cq_ex *cq;
	int bit;

	for (bit = 0; bit < 64; bit++) {
		attr.wc_flags = 1ULL << bit;
		out("wc flag %d", bit);
		cq = PTR(ibv_create_cq_ex(context, &attr));
		if (cq)
			MUST(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	}
	attr.wc_flags = IBV_WC_STANDARD_FLAGS;
	for (bit = 0; bit < 4; bit++) {
		attr.comp_mask = 1U << bit;
		attr.flags = 0;
		attr.parent_domain = NULL;
		/* Whether errno is set for an unknown mask is documented nowhere. */
		cq = ibv_create_cq_ex(context, &attr);
		out("mask %x no flags: %s", attr.comp_mask, cq ? "object" : "NULL");
		if (cq)
			MUST(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
		attr.flags = 1U << bit;
		cq = ibv_create_cq_ex(context, &attr);
		out("mask %x flags %x: %s", attr.comp_mask, attr.flags, cq ? "object" : "NULL");
		if (cq)
			MUST(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	}
	attr = (struct ibv_cq_init_attr_ex){ .cqe = 0 };
	PTR(ibv_create_cq_ex(context, &attr));
	attr.cqe = 10;
	attr.comp_vector = 100;
	PTR(ibv_create_cq_ex(context, &attr));
	attr.cqe = 1U << 31;
	attr.comp_vector = 0;
	PTR(ibv_create_cq_ex(context, &attr));
	attr.cqe = 10;
	attr.cq_context = &attr;
	cq = PTR(ibv_create_cq_ex(context, &attr));
	out("own %d context %d cqe %d", cq->cq_context == (void *)&attr, cq->context == context,
	    cq->cqe);
	RC(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
}

int main(void)
{
	context = open_rxe();
	by_size();
	by_vector();
	resize();
	resize_with_completions();
	busy();
	extended();
	RC(ibv_close_device(context));
	return done();
}
