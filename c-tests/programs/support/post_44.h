/*
 * Features of releases after the stock library's, on a device that exists (DEVICE_NAME, IPV4_INDEX
 * of rdma.h). A device without completion counters returns this in every call about them.
 */
#ifndef POST_44_H
#define POST_44_H

#include "rdma.h"

enum { PART = 4096, PARTS = 4 };

/* A device that lacks something answers this everywhere; nothing else may come. */
static inline void unsupported(int answer)
{
	expect(answer == EOPNOTSUPP);
}

/* Every kind of region that ibv_reg_mr_ex(3) names, good and bad. */
static inline void regions(struct ibv_pd *pd)
{
	char *memory = MUST_PTR((char *)aligned_alloc(PART, PARTS * PART));
	struct ibv_mr_init_attr attr = { .length = PART, .access = ALL_ACCESS };
	struct ibv_mr *mr;

	attr.comp_mask = IBV_REG_MR_MASK_ADDR;
	attr.addr = memory + PART;
	mr = MUST_PTR(ibv_reg_mr_ex(pd, &attr));
	expect(mr->addr == attr.addr && mr->length == PART && mr->pd == pd);
	expect(mr->context == pd->context);
	MUST(ibv_dereg_mr(mr));

	attr.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_IOVA;
	attr.iova = 0x10000;
	mr = MUST_PTR(ibv_reg_mr_ex(pd, &attr));
	MUST(ibv_dereg_mr(mr));

	attr.comp_mask = 0;
	PTR(ibv_reg_mr_ex(pd, &attr));
	attr.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_FD_OFFSET;
	PTR(ibv_reg_mr_ex(pd, &attr));
	attr.comp_mask = IBV_REG_MR_MASK_FD | IBV_REG_MR_MASK_IOVA;
	PTR(ibv_reg_mr_ex(pd, &attr));
	attr.comp_mask = IBV_REG_MR_MASK_ADDR | IBV_REG_MR_MASK_DMAH;
	PTR(ibv_reg_mr_ex(pd, &attr));
	attr.comp_mask = IBV_REG_MR_MASK_ADDR | 1ULL << 40;
	PTR(ibv_reg_mr_ex(pd, &attr));
	PTR(ibv_reg_mr_ex(pd, NULL));
	PTR(ibv_reg_mr_ex(NULL, &attr));
	free(memory);
}

/* A program from before the last member was added: memory ends where its structure did. */
static inline void shorter_attributes(struct ibv_pd *pd)
{
	const size_t old = offsetof(struct ibv_mr_init_attr, buf);
	char *page = MUST_PTR((char *)aligned_alloc(PART, 2 * PART));
	void *shorter = MUST_PTR(malloc(old));
	struct ibv_mr_init_attr *attr = shorter;
	struct ibv_mr *mr;

	memset(attr, 0xff, old);
	attr->comp_mask = IBV_REG_MR_MASK_ADDR;
	attr->addr = page;
	attr->length = PART;
	attr->access = IBV_ACCESS_LOCAL_WRITE;
	mr = MUST_PTR(ibv_reg_mr_ex(pd, attr));
	MUST(ibv_dereg_mr(mr));
	free(shorter);
	free(page);
}

static inline void buffers(struct ibv_context *context, struct ibv_pd *pd)
{
	struct ibv_pd *other = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_buf *buf = NULL;
	char *memory = MUST_PTR((char *)ibv_alloc_buf(pd, PARTS * PART, &buf));
	struct ibv_mr *mr;
	int i;

	expect((uintptr_t)memory % (size_t)sysconf(_SC_PAGESIZE) == 0);
	for (i = 0; i < PARTS * PART; i++)
		expect(!memory[i]);
	mr = MUST_PTR(ibv_reg_buf_mr(pd, buf, memory, PARTS * PART, ALL_ACCESS));
	expect(mr->addr == memory && mr->length == PARTS * PART);
	MUST(ibv_dereg_mr(mr));
	mr = MUST_PTR(ibv_reg_buf_mr(pd, buf, memory + PART, PART, ALL_ACCESS));
	expect(mr->addr == memory + PART);
	MUST(ibv_dereg_mr(mr));

	PTR(ibv_reg_buf_mr(pd, buf, memory + PART, PARTS * PART, ALL_ACCESS));
	PTR(ibv_reg_buf_mr(pd, buf, memory - 1, 1, ALL_ACCESS));
	PTR(ibv_reg_buf_mr(other, buf, memory, PART, ALL_ACCESS));
	PTR(ibv_reg_buf_mr(pd, NULL, memory, PART, ALL_ACCESS));
	RC(ibv_export_buf_dmabuf_fd(buf));
	RC(ibv_export_buf_dmabuf_fd(NULL));
	ibv_free_buf(buf);
	ibv_free_buf(NULL);
	PTR(ibv_alloc_buf(pd, 0, &buf));
	PTR(ibv_alloc_buf(pd, SIZE_MAX, &buf));
	PTR(ibv_alloc_buf(NULL, PART, &buf));
	PTR(ibv_alloc_buf(pd, PART, NULL));
	MUST(ibv_dealloc_pd(other));
}

/* No device has these. */
static inline void hints_and_exports(struct ibv_context *context)
{
	struct ibv_dmah_init_attr attr = { .comp_mask = IBV_DMAH_INIT_ATTR_MASK_CPU_ID };
	struct ibv_dmah dmah = { .context = context };
	struct ibv_dm dm = { .context = context };

	PTR(ibv_alloc_dmah(context, &attr));
	PTR(ibv_alloc_dmah(NULL, &attr));
	PTR(ibv_alloc_dmah(context, NULL));
	RC(ibv_dealloc_dmah(&dmah));
	RC(ibv_dealloc_dmah(NULL));
	RC(ibv_dm_export_dmabuf_fd(&dm));
	RC(ibv_dm_export_dmabuf_fd(NULL));
}

#endif
