/* Memory regions: lengths, access flags, addresses, and their errors. */
#include "rdma.h"

#include <sys/mman.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static size_t page;

static void show_mr(const struct ibv_mr *mr, const void *addr, size_t length)
{
	out("context %d pd %d addr %d length %d keys %d", mr->context == context, mr->pd == pd,
	    mr->addr == addr, mr->length == length, mr->lkey != 0);
}

/* Access flags that are no constants take another way through the headers. */
static void by_access(char *memory)
{
	int bit;

	for (bit = 0; bit < 32; bit++) {
		unsigned int access = 1U << bit;
		struct ibv_mr *mr;

		out("access 0x%x", access);
		mr = PTR(ibv_reg_mr(pd, memory, 4096, access));
		if (mr)
			RC(ibv_dereg_mr(mr));
		mr = PTR(ibv_reg_mr(pd, memory, 4096, access | IBV_ACCESS_LOCAL_WRITE));
		if (mr)
			RC(ibv_dereg_mr(mr));
	}
}

static void by_constant_access(char *memory)
{
	struct ibv_mr *mr;

	mr = PTR(ibv_reg_mr(pd, memory, 4096, 0));
	MUST(ibv_dereg_mr(mr));
	mr = PTR(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	MUST(ibv_dereg_mr(mr));
	PTR(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_REMOTE_WRITE));
	PTR(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_REMOTE_ATOMIC));
	mr = PTR(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_RELAXED_ORDERING));
	if (mr)
		MUST(ibv_dereg_mr(mr));
	mr = PTR(ibv_reg_mr_iova(pd, memory, 4096, 0x1000, IBV_ACCESS_LOCAL_WRITE));
	show_mr(mr, memory, 4096);
	MUST(ibv_dereg_mr(mr));
	mr = PTR((ibv_reg_mr_iova)(pd, memory, 4096, 0x2000, IBV_ACCESS_LOCAL_WRITE));
	show_mr(mr, memory, 4096);
	MUST(ibv_dereg_mr(mr));
	mr = PTR((ibv_reg_mr)(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE));
	show_mr(mr, memory, 4096);
	MUST(ibv_dereg_mr(mr));
	mr = PTR(__ibv_reg_mr(pd, memory, 100, IBV_ACCESS_LOCAL_WRITE, 1));
	MUST(ibv_dereg_mr(mr));
	mr = PTR(__ibv_reg_mr_iova(pd, memory, 100, 0, IBV_ACCESS_LOCAL_WRITE, 0));
	MUST(ibv_dereg_mr(mr));
}

static void by_length(char *memory)
{
	static const size_t lengths[] = { 0, 1, 4095, 4096, 4097, 65536 };
	struct ibv_mr *mr;
	size_t i;

	for (i = 0; i < ARRAY_LEN(lengths); i++) {
		out("length %zu", lengths[i]);
		mr = PTR(ibv_reg_mr(pd, memory + 5, lengths[i] ? lengths[i] - (i == 5 ? 10 : 0) : 0,
				    IBV_ACCESS_LOCAL_WRITE));
		if (!mr)
			continue;
		RC(ibv_dereg_mr(mr));
	}
	PTR(ibv_reg_mr(pd, memory, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE));
	PTR(ibv_reg_mr(pd, memory, (size_t)1 << 46, IBV_ACCESS_LOCAL_WRITE));
	PTR(ibv_reg_mr(pd, (char *)-4096L, 8192, IBV_ACCESS_LOCAL_WRITE));
}

static void by_place(void)
{
	char *hole = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *fixed = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	expect(hole != MAP_FAILED && fixed != MAP_FAILED);
	PTR(ibv_reg_mr(pd, hole, page, IBV_ACCESS_LOCAL_WRITE));
	expect(!mprotect(hole + page, page, PROT_READ | PROT_WRITE));
	PTR(ibv_reg_mr(pd, hole + page, 2 * page, IBV_ACCESS_LOCAL_WRITE));
	mr = PTR(ibv_reg_mr(pd, hole + page, page, IBV_ACCESS_LOCAL_WRITE));
	MUST(ibv_dereg_mr(mr));
	PTR(ibv_reg_mr(pd, fixed, page, IBV_ACCESS_LOCAL_WRITE));
	mr = PTR(ibv_reg_mr(pd, fixed, page, 0));
	if (mr)
		MUST(ibv_dereg_mr(mr));
	expect(!munmap(hole, 3 * page));
	PTR(ibv_reg_mr(pd, hole, page, IBV_ACCESS_LOCAL_WRITE));
	PTR(ibv_reg_mr(pd, NULL, page, IBV_ACCESS_LOCAL_WRITE));
	PTR(ibv_reg_mr(pd, NULL, 0, 0));
	expect(!munmap(fixed, page));
}

static void by_iova(char *memory)
{
	struct ibv_mr *mr;

	mr = PTR(ibv_reg_mr_iova2(pd, memory, 4096, 0, ALL_ACCESS));
	show_mr(mr, memory, 4096);
	MUST(ibv_dereg_mr(mr));
	mr = PTR(ibv_reg_mr_iova2(pd, memory, 4096, 123, ALL_ACCESS));
	if (mr)
		MUST(ibv_dereg_mr(mr));
	mr = PTR(ibv_reg_mr_iova2(pd, memory, 4096, UINT64_MAX - 4095, ALL_ACCESS));
	if (mr)
		MUST(ibv_dereg_mr(mr));
	mr = PTR(ibv_reg_mr_iova2(pd, memory + 16, 4096, 0x10, IBV_ACCESS_RELAXED_ORDERING));
	if (mr)
		MUST(ibv_dereg_mr(mr));
	PTR(ibv_reg_mr_iova2(pd, memory, 4096, 0, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE));
	mr = PTR(ibv_reg_mr_iova2(pd, memory, 4096, 0, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB));
	if (mr)
		MUST(ibv_dereg_mr(mr));
}

static void dmabuf(void)
{
	int ends[2];

	expect(!pipe(ends));
	PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE));
	PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, ends[0], IBV_ACCESS_LOCAL_WRITE));
	PTR(ibv_reg_dmabuf_mr(pd, 100, 4096, 200, 0, 0));
	PTR(ibv_reg_dmabuf_mr(pd, 0, 0, 0, ends[0], 0));
	PTR(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, ends[0], 0xffff));
	close(ends[0]);
	close(ends[1]);
}

static void many(char *memory)
{
	struct ibv_mr *mr[64];
	size_t i;

	for (i = 0; i < ARRAY_LEN(mr); i++)
		mr[i] = MUST_PTR(ibv_reg_mr(pd, memory + i * 100, 5000, ALL_ACCESS));
	for (i = 0; i < ARRAY_LEN(mr); i++)
		MUST(ibv_dereg_mr(mr[(i * 37) % ARRAY_LEN(mr)]));
	out("many came and went");
}

int main(void)
{
	char *memory;

	page = (size_t)sysconf(_SC_PAGESIZE);
	context = open_rxe();
	pd = MUST_PTR(ibv_alloc_pd(context));
	memory = mmap(NULL, 32 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect(memory != MAP_FAILED);
	by_constant_access(memory);
	by_access(memory);
	by_length(memory);
	by_place();
	by_iova(memory);
	dmabuf();
	many(memory);
	RC(ibv_dealloc_pd(pd));
	RC(ibv_close_device(context));
	return done();
}
