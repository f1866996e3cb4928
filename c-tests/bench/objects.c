/*
 * Costs of creating and destroying an object, by kind.
 *
 *     cc -O2 -o objects c-tests/bench/objects.c -libverbs -ldl
 *     ./objects DEVICE CYCLES MAPPINGS [KIND...]
 *
 * The process has MAPPINGS more mappings than it needs. Without a KIND all are
 * measured. One line a kind: its name, a tab,
 * nanoseconds a cycle (wall clock). Under callgrind, CYCLES cycles are dumped
 * as "KIND 1" and twice as many as "KIND 2": the difference, divided by CYCLES,
 * holds no cost but that of a cycle.
 */
#define _GNU_SOURCE
#include "measure.h"

#include <malloc.h>
#include <sys/mman.h>

#include <infiniband/verbs.h>

/* More cycles than malloc(3) keeps freed blocks of one size aside for. */
enum { GID_INDEX = 1, BUFFER = 65536, WARM_UP = 16 };

static struct ibv_device *device;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_comp_channel *channel;
static struct ibv_qp *ud;
static struct ibv_ah_attr address;
static char buffer[BUFFER] __attribute__((aligned(4096)));

static void *must(void *object, const char *what)
{
	if (!object)
		die(what);
	return object;
}

#define MUST(call) must(call, #call)

static void zero(int status, const char *what)
{
	if (!status)
		return;
	errno = status > 0 ? status : errno;
	die(what);
}

#define ZERO(call) zero(call, #call)

static void list_cycle(void)
{
	ibv_free_device_list(MUST(ibv_get_device_list(NULL)));
}

static void context_cycle(void)
{
	ZERO(ibv_close_device(MUST(ibv_open_device(device))));
}

static void pd_cycle(void)
{
	ZERO(ibv_dealloc_pd(MUST(ibv_alloc_pd(context))));
}

static void mr_cycle(void)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	ZERO(ibv_dereg_mr(MUST(ibv_reg_mr(pd, buffer, BUFFER, access))));
}

static void mw_cycle(void)
{
	ZERO(ibv_dealloc_mw(MUST(ibv_alloc_mw(pd, IBV_MW_TYPE_1))));
}

static void ah_cycle(void)
{
	ZERO(ibv_destroy_ah(MUST(ibv_create_ah(pd, &address))));
}

static void channel_cycle(void)
{
	ZERO(ibv_destroy_comp_channel(MUST(ibv_create_comp_channel(context))));
}

static void cq_cycle(void)
{
	ZERO(ibv_destroy_cq(MUST(ibv_create_cq(context, 16, NULL, NULL, 0))));
}

static void cq_channel_cycle(void)
{
	ZERO(ibv_destroy_cq(MUST(ibv_create_cq(context, 16, NULL, channel, 0))));
}

static void cq_ex_cycle(void)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM,
	};
	struct ibv_cq_ex *made = MUST(ibv_create_cq_ex(context, &attr));

	ZERO(ibv_destroy_cq(ibv_cq_ex_to_cq(made)));
}

static void srq_cycle(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };

	ZERO(ibv_destroy_srq(MUST(ibv_create_srq(pd, &attr))));
}

static void srq_ex_cycle(void)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 16, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_BASIC,
		.pd = pd,
	};

	ZERO(ibv_destroy_srq(MUST(ibv_create_srq_ex(context, &attr))));
}

static struct ibv_qp_cap capabilities(void)
{
	return (struct ibv_qp_cap){
		.max_send_wr = 16,
		.max_recv_wr = 16,
		.max_send_sge = 1,
		.max_recv_sge = 1,
	};
}

static struct ibv_qp *make_qp(enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = capabilities(),
		.qp_type = type,
	};

	return MUST(ibv_create_qp(pd, &attr));
}

static void rc_qp_cycle(void)
{
	ZERO(ibv_destroy_qp(make_qp(IBV_QPT_RC)));
}

static void ud_qp_cycle(void)
{
	ZERO(ibv_destroy_qp(make_qp(IBV_QPT_UD)));
}

static void qp_ex_cycle(void)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = capabilities(),
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE,
	};

	ZERO(ibv_destroy_qp(MUST(ibv_create_qp_ex(context, &attr))));
}

/* Not an object, but made and given back like one: membership in a group. */
static void mcast_cycle(void)
{
	static const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 224, 0, 1, 7 } };

	ZERO(ibv_attach_mcast(ud, &group, 0));
	ZERO(ibv_detach_mcast(ud, &group, 0));
}

static const struct kind {
	const char *name;
	void (*cycle)(void);
} kinds[] = {
	{ "device list", list_cycle },
	{ "context", context_cycle },
	{ "pd", pd_cycle },
	{ "mr", mr_cycle },
	{ "mw", mw_cycle },
	{ "ah", ah_cycle },
	{ "comp channel", channel_cycle },
	{ "cq", cq_cycle },
	{ "cq with channel", cq_channel_cycle },
	{ "cq_ex", cq_ex_cycle },
	{ "srq", srq_cycle },
	{ "srq_ex", srq_ex_cycle },
	{ "qp rc", rc_qp_cycle },
	{ "qp ud", ud_qp_cycle },
	{ "qp_ex", qp_ex_cycle },
	{ "mcast", mcast_cycle },
};

enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

/*
 * Fills the holes that earlier kinds left in the heap, down to the smallest. A block then comes
 * from the end of the heap and returns to it. Otherwise the cost of malloc(3) would vary at random
 * by several hundred instructions, differently in each row.
 */
static void fill_holes(void)
{
	size_t size;

	for (size = 65536; size >= 16; size /= 2) {
		size_t end;

		do {
			end = mallinfo2().keepcost;
			if (!malloc(size))
				die("malloc");
		} while (mallinfo2().keepcost == end);
	}
}

static void repeat(const struct kind *kind, unsigned long cycles)
{
	while (cycles--)
		kind->cycle();
}

static void measure(const struct kind *kind, unsigned long cycles)
{
	double took = 0;
	unsigned long times;

	fill_holes();
	repeat(kind, WARM_UP);
	for (times = 1; times <= 2; times++) {
		char name[64];
		double begun;

		snprintf(name, sizeof(name), "%s %lu", kind->name, times);
		begun = begin();
		repeat(kind, times * cycles);
		took += end(name, begun);
	}
	printf("%s\t%.1f\n", kind->name, took / (3 * (double)cycles));
}

static void open_device(const char *name)
{
	struct ibv_device **list = MUST(ibv_get_device_list(NULL)), **next;

	for (next = list; *next; next++)
		if (!strcmp(ibv_get_device_name(*next), name))
			break;
	device = *next;
	if (!device) {
		fprintf(stderr, "%s is not listed\n", name);
		exit(1);
	}
	context = MUST(ibv_open_device(device));
	ibv_free_device_list(list);
}

static void make_surroundings(void)
{
	pd = MUST(ibv_alloc_pd(context));
	mr = MUST(ibv_reg_mr(pd, buffer, BUFFER, IBV_ACCESS_LOCAL_WRITE));
	cq = MUST(ibv_create_cq(context, 64, NULL, NULL, 0));
	channel = MUST(ibv_create_comp_channel(context));
	ud = make_qp(IBV_QPT_UD);
	address.is_global = 1;
	address.port_num = 1;
	address.grh.sgid_index = GID_INDEX;
	address.grh.hop_limit = 64;
	ZERO(ibv_query_gid(context, 1, GID_INDEX, &address.grh.dgid));
}

/*
 * Makes mappings that the kernel cannot merge. The kernel's cost of mapping and unmapping a queue
 * depends on the number of mappings: with one number its tree splits and joins nodes in each cycle,
 * with the next number in none.
 */
static void make_mappings(unsigned long mappings)
{
	while (mappings--) {
		int access = mappings % 2 ? PROT_READ : PROT_READ | PROT_WRITE;

		if (mmap(NULL, 4096, access, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0) == MAP_FAILED)
			die("mmap");
	}
}

static void free_surroundings(void)
{
	ZERO(ibv_destroy_qp(ud));
	ZERO(ibv_destroy_comp_channel(channel));
	ZERO(ibv_destroy_cq(cq));
	ZERO(ibv_dereg_mr(mr));
	ZERO(ibv_dealloc_pd(pd));
	ZERO(ibv_close_device(context));
}

static int asked(const char *name, char **names)
{
	if (!*names)
		return 1;
	for (; *names; names++)
		if (!strcmp(*names, name))
			return 1;
	return 0;
}

static unsigned long number(const char *word)
{
	char *rest;
	unsigned long number = strtoul(word, &rest, 10);

	if (*rest || rest == word) {
		fprintf(stderr, "%s: not a number\n", word);
		exit(2);
	}
	return number;
}

int main(int argc, char **argv)
{
	unsigned long cycles, mappings;
	size_t i;

	if (argc < 4) {
		fprintf(stderr, "usage: %s DEVICE CYCLES MAPPINGS [KIND...]\n",
			argv[0]);
		return 2;
	}
	cycles = number(argv[2]);
	mappings = number(argv[3]);
	if (!cycles) {
		fprintf(stderr, "no cycles\n");
		return 2;
	}
	open_device(argv[1]);
	make_surroundings();
	make_mappings(mappings);
	print_library((const void *)ibv_get_device_list);
	for (i = 0; i < KINDS; i++)
		if (asked(kinds[i].name, argv + 4))
			measure(&kinds[i], cycles);
	free_surroundings();
	return 0;
}
