/*
 * Costs of posting requests and polling completions.
 *
 *     cc -O2 -o requests c-tests/bench/requests.c -libverbs -ldl
 *     ./requests DEVICE CYCLES
 *
 * A reliable connection of a queue pair with itself. Under callgrind, CYCLES
 * calls of each kind are dumped as "KIND 1" and twice as many as "KIND 2": the
 * difference, divided by CYCLES, holds no cost but that of a call.
 */
#define _GNU_SOURCE
#include "measure.h"

#include <unistd.h>

#include <infiniband/verbs.h>

enum { GID_INDEX = 1, DEPTH = 1024, BATCH = 16, TRIES = 50 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static char buffer[4096] __attribute__((aligned(4096)));
static struct ibv_sge piece;

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

static void open_device(const char *name)
{
	struct ibv_device **list = MUST(ibv_get_device_list(NULL)), **next;

	for (next = list; *next; next++)
		if (!strcmp(ibv_get_device_name(*next), name))
			break;
	if (!*next) {
		fprintf(stderr, "%s is not listed\n", name);
		exit(1);
	}
	context = MUST(ibv_open_device(*next));
	ibv_free_device_list(list);
}

static void connect_with_itself(void)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = {
			.max_send_wr = DEPTH,
			.max_recv_wr = DEPTH,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 64,
		},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = access,
	};

	qp = MUST(ibv_create_qp(pd, &init));
	ZERO(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					      IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = qp->qp_num;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 12;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.sgid_index = GID_INDEX;
	attr.ah_attr.grh.hop_limit = 64;
	ZERO(ibv_query_gid(context, 1, GID_INDEX, &attr.ah_attr.grh.dgid));
	ZERO(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					      IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 18;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	ZERO(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					      IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Takes that many completions, however long they take. */
static void drain(unsigned long count)
{
	struct ibv_wc wc;

	while (count) {
		int found = ibv_poll_cq(cq, 1, &wc);

		if (found < 0 || (found && wc.status != IBV_WC_SUCCESS)) {
			fprintf(stderr, "poll: %d, status %d\n", found, found > 0 ? (int)wc.status : 0);
			exit(1);
		}
		count -= found;
		if (!found)
			usleep(1000);
	}
}

static void write_8_bytes(unsigned long count)
{
	struct ibv_send_wr wr = {
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)buffer + 64, .rkey = mr->rkey },
	};
	struct ibv_send_wr *bad;

	while (count--)
		ZERO(ibv_post_send(qp, &wr, &bad));
}

static void write_inline(unsigned long count)
{
	struct ibv_send_wr wr = {
		.sg_list = &piece,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		.wr.rdma = { .remote_addr = (uintptr_t)buffer + 64, .rkey = mr->rkey },
	};
	struct ibv_send_wr *bad;

	while (count--)
		ZERO(ibv_post_send(qp, &wr, &bad));
}

static void receive(unsigned long count)
{
	struct ibv_recv_wr wr = { .sg_list = &piece, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	while (count--)
		ZERO(ibv_post_recv(qp, &wr, &bad));
}

/* Polls; returns how many calls found fewer completions than `wanted`. */
static unsigned long poll(unsigned long count, int entries, int wanted)
{
	struct ibv_wc wc[BATCH];
	unsigned long missed = 0;

	while (count--)
		missed += ibv_poll_cq(cq, entries, wc) != wanted;
	return missed;
}

/* Completions are there already when they are polled; if not, it is tried once more. */
static void measure_poll(const char *kind, unsigned long cycles, int entries, int wanted)
{
	unsigned long times;
	int tries = 0;

	for (times = 1; times <= 2;) {
		unsigned long calls = times * cycles, missed;
		char name[64];
		double begun;

		write_8_bytes(calls * wanted);
		usleep(200000 * (tries + 1));
		snprintf(name, sizeof(name), "%s %lu", kind, times);
		begun = begin();
		missed = poll(calls, entries, wanted);
		end(missed ? "missed" : name, begun);
		if (!missed) {
			times++;
			continue;
		}
		if (!wanted || ++tries == TRIES) {
			fprintf(stderr, "%s: %lu calls found something else\n", kind, missed);
			exit(1);
		}
		/* Some completions are late; they and the posted requests are flushed. */
		usleep(1000000);
		while (poll(1, BATCH, 0))
			;
	}
}

static void measure_post(const char *kind, unsigned long cycles, void (*post)(unsigned long),
			 int completes)
{
	unsigned long times;

	for (times = 1; times <= 2; times++) {
		char name[64];
		double begun;

		snprintf(name, sizeof(name), "%s %lu", kind, times);
		begun = begin();
		post(times * cycles);
		end(name, begun);
		if (completes)
			drain(times * cycles);
	}
}

int main(int argc, char **argv)
{
	unsigned long cycles;
	char *rest;

	if (argc != 3) {
		fprintf(stderr, "usage: %s DEVICE CYCLES\n", argv[0]);
		return 2;
	}
	cycles = strtoul(argv[2], &rest, 10);
	if (*rest || !cycles || cycles * 2 * BATCH > DEPTH) {
		fprintf(stderr, "%s: not a number of cycles that the queues hold\n", argv[2]);
		return 2;
	}
	open_device(argv[1]);
	pd = MUST(ibv_alloc_pd(context));
	mr = MUST(ibv_reg_mr(pd, buffer, sizeof(buffer),
			     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	piece = (struct ibv_sge){ .addr = (uintptr_t)buffer, .length = 8, .lkey = mr->lkey };
	cq = MUST(ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0));
	connect_with_itself();
	print_library((const void *)ibv_get_device_list);
	/* Binds symbols and touches memory for the first time. */
	write_8_bytes(1);
	drain(1);
	measure_post("post_send", cycles, write_8_bytes, 1);
	measure_post("post_send, inline", cycles, write_inline, 1);
	measure_post("post_recv", cycles, receive, 0);
	measure_poll("poll_cq, empty", cycles, 1, 0);
	measure_poll("poll_cq, 1 entry", cycles, 1, 1);
	measure_poll("poll_cq, 16 entries", cycles, BATCH, BATCH);
	ZERO(ibv_destroy_qp(qp));
	ZERO(ibv_destroy_cq(cq));
	ZERO(ibv_dereg_mr(mr));
	ZERO(ibv_dealloc_pd(pd));
	ZERO(ibv_close_device(context));
	return 0;
}
