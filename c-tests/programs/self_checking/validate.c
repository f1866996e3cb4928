/*
 * IBVERBS_VALIDATE: each kind of mistake is reported once, with its place, over uroce, and over
 * soft-RoCE where the kernel has such a device; correct calls are not reported.
 */
#include "report.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static struct ibv_send_wr send_wr(struct ibv_sge *sge, uint64_t id, unsigned int flags)
{
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = flags,
	};

	return wr;
}

static void receive(struct two *t, struct ibv_qp *qp, uint64_t id)
{
	struct ibv_sge sge = two_piece(t, 64);
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	MUST(ibv_post_recv(qp, &wr, &bad));
}

/* Messages to and fro, in the ways that are right. */
static void right(struct two *t)
{
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr, *bad;
	struct ibv_wc wc;
	int i, k;

	for (i = 0; i < 20; i++) {
		receive(t, t->qp[1], 1);
		wr = send_wr(&sge, 2, i % 2 ? IBV_SEND_SIGNALED : IBV_SEND_SIGNALED | IBV_SEND_INLINE);
		MUST(ibv_post_send(t->qp[0], &wr, &bad));
		for (k = 0; k < 2; k++)
			expect(two_wait(t, &wc) == IBV_WC_SUCCESS);
	}
	report_nothing("correct calls");
}

/* Values that the device takes, but not as they are. */
static void attributes(struct two *t)
{
	struct ibv_qp *qp = two_qp(t, 1);
	struct ibv_qp_attr rtr = two_rtr_attr(t, qp->qp_num);
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 8 };
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr = send_wr(&sge, 5, 1U << 20), *bad;
	struct ibv_wc wc;
	int i;

	two_init(qp);
	receive(t, qp, 4);
	rtr.min_rnr_timer = 33;
	rtr.dest_qp_num |= 0x1000000;
	MUST(ibv_modify_qp(qp, &rtr, RTR_MASK));
	report_has("attributes that have too many bits", "invalid (attribute)", "min_rnr_timer 0x21",
		   "(0x1)", "dest_qp_num 0x1", "called by: ", "made by: ", NULL);
	MUST(ibv_modify_qp(qp, &rts, RTS_MASK));
	report_has("and more of them", "invalid (attribute)", "retry_cnt 0x8", NULL);
	MUST(ibv_post_send(qp, &wr, &bad));
	report_has("flags that there are not", "invalid (attribute)", "0x100000 are not", NULL);
	for (i = 0; i < 2; i++)
		expect(two_wait(t, &wc) == IBV_WC_SUCCESS);
	MUST(ibv_destroy_qp(qp));
	report_nothing("a repeated report");
}

/* Requests that are refused for the number of their pieces, whose lists may be shorter. */
static void pieces(struct two *t)
{
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 1, .max_sge = 4 } };
	struct ibv_srq *srq = MUST_PTR(ibv_create_srq(t->pd, &shared));
	struct ibv_sge *last = two_last_piece(t, 8);
	struct ibv_send_wr wr = send_wr(last, 3, IBV_SEND_SIGNALED), *bad;
	struct ibv_recv_wr receive = { .sg_list = last, .num_sge = TWO_SGES }, *bad_receive;

	wr.num_sge = TWO_SGES;
	expect(ibv_post_send(t->qp[0], &wr, &bad));
	expect(ibv_post_recv(t->qp[0], &receive, &bad_receive));
	expect(ibv_post_srq_recv(srq, &receive, &bad_receive));
	report_nothing("refused for their pieces");
	MUST(ibv_destroy_srq(srq));
}

static void keys(struct two *t)
{
	struct ibv_pd *other = MUST_PTR(ibv_alloc_pd(t->context));
	struct ibv_mr *mr = MUST_PTR(ibv_reg_mr(other, t->buffer, 64, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_qp *qp = two_qp(t, 1);
	struct ibv_sge sge = { (uintptr_t)t->buffer, 8, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	two_init(qp);
	(void)ibv_post_recv(qp, &wr, &bad);
	report_has("a key of another domain", "invalid (domain)", "of another protection domain",
		   "called by: ", "made by: ", NULL);
	MUST(ibv_dereg_mr(mr));
	(void)ibv_post_recv(qp, &wr, &bad);
	report_has("a key that is gone", "invalid (key)", "was deregistered", NULL);
	(void)ibv_post_recv(qp, &wr, &bad);
	report_nothing("the same again");
	sge = two_piece(t, TWO_BYTES + 1);
	(void)ibv_post_recv(qp, &wr, &bad);
	report_has("beyond the region", "invalid (range)", "is not inside the region", NULL);
	MUST(ibv_destroy_qp(qp));
	/* Once an object, so with another one. */
	qp = two_qp(t, 1);
	two_init(qp);
	mr = MUST_PTR(ibv_reg_mr(t->pd, t->buffer, 64, 0));
	sge = (struct ibv_sge){ (uintptr_t)t->buffer, 8, mr->lkey };
	(void)ibv_post_recv(qp, &wr, &bad);
	report_has("not to be written to", "invalid (access)", "without IBV_ACCESS_LOCAL_WRITE", NULL);
	sge.lkey ^= 0x5a5a00;
	(void)ibv_post_recv(qp, &wr, &bad);
	report_has("a key that never was", "invalid (key)", "which no region of the device has", NULL);
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_dereg_mr(mr));
	MUST(ibv_dealloc_pd(other));
}

static void states(struct two *t)
{
	struct ibv_qp *qp = two_qp(t, 1);
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr = send_wr(&sge, 1, 0), *bad;

	expect(ibv_post_send(qp, &wr, &bad));
	report_has("posted in RESET", "invalid (state)", "which is in RESET", NULL);
	MUST(ibv_destroy_qp(qp));
}

static void inline_data(struct two *t)
{
	struct ibv_sge sge = two_piece(t, 4096);
	struct ibv_send_wr wr = send_wr(&sge, 1, IBV_SEND_INLINE), *bad;

	expect(ibv_post_send(t->qp[0], &wr, &bad));
	report_has("too much inline", "invalid (inline)", "4096 bytes are to go inline", NULL);
}

/* A pair whose requests are not signalled. */
static void unsignalled(struct two *t)
{
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr = send_wr(&sge, 1, 0), *bad;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct two other;
	uint32_t i, most;

	two_open(&other, t->context, t->gid_index, 0);
	sge = two_piece(&other, 8);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)other.buffer;
	wr.wr.rdma.rkey = other.mr->rkey;
	MUST(ibv_query_qp(other.qp[0], &attr, IBV_QP_CAP, &init));
	most = init.cap.max_send_wr;
	for (i = 0; i + 1 < most; i++)
		MUST(ibv_post_send(other.qp[0], &wr, &bad));
	report_nothing("one place left");
	(void)ibv_post_send(other.qp[0], &wr, &bad);
	report_has("nothing to be reaped", "invalid (unsignalled)", "none of them is signalled", NULL);
	two_close(&other);
}

static void overflow(struct two *t)
{
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr = send_wr(&sge, 1, IBV_SEND_SIGNALED), *bad;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct two other;
	uint32_t i;

	two_open(&other, t->context, t->gid_index, 1);
	sge = two_piece(&other, 8);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)other.buffer;
	wr.wr.rdma.rkey = other.mr->rkey;
	MUST(ibv_query_qp(other.qp[0], &attr, IBV_QP_CAP, &init));
	for (i = 0; i < init.cap.max_send_wr; i++)
		MUST(ibv_post_send(other.qp[0], &wr, &bad));
	report_nothing("a full queue");
	(void)ibv_post_send(other.qp[0], &wr, &bad);
	report_has("one too many", "invalid (overflow)", "whose completions were not polled", NULL);
	two_close(&other);
}

static void overrun(struct two *t)
{
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(t->context, 1, NULL, NULL, 0));
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { 1, (uint32_t)cq->cqe + 8, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(t->pd, &init));
	int i;

	two_init(qp);
	for (i = 0; i < cq->cqe; i++)
		receive(t, qp, i);
	report_nothing("room for all");
	receive(t, qp, i);
	report_has("room for all but one", "invalid (overrun)", "it overruns", NULL);
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_destroy_cq(cq));
}

static void starved(struct two *t)
{
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr = send_wr(&sge, 1, IBV_SEND_SIGNALED), *bad;
	struct two other;
	struct ibv_wc wc;

	two_open(&other, t->context, t->gid_index, 1);
	sge = two_piece(&other, 8);
	MUST(ibv_post_send(other.qp[0], &wr, &bad));
	expect(two_wait(&other, &wc) == IBV_WC_RNR_RETRY_EXC_ERR);
	report_has("no receive request", "invalid (receives)", "left empty", NULL);
	two_close(&other);
}

static void memory(struct two *t)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	expect(pages != MAP_FAILED);
	mr = MUST_PTR(ibv_reg_mr(t->pd, pages, 8192, IBV_ACCESS_LOCAL_WRITE));
	MUST(munmap(pages + 4096, 4096));
	MUST(ibv_dereg_mr(mr));
	report_has("unmapped while registered", "invalid (unmapped)", "was unmapped", "made by: ", NULL);
	MUST(munmap(pages, 4096));
}

static void destroyed(struct two *t, bool kept)
{
	struct ibv_qp *qp = two_qp(t, 1);
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr = send_wr(&sge, 1, 0), *bad;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	MUST(ibv_destroy_qp(qp));
	if (!kept) {
		out("destroyed objects of this provider are not kept");
		return;
	}
	expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EINVAL);
	report_has("a call on a destroyed object", "invalid (destroyed)", "after it was destroyed",
		   "called by: ", "made by: ", "destroyed by: ", NULL);
	expect(ibv_post_send(qp, &wr, &bad) == EINVAL);
	report_nothing("another call on it");
	qp = two_qp(t, 1);
	MUST(ibv_destroy_qp(qp));
	expect(ibv_post_send(qp, &wr, &bad) == EINVAL);
	report_has("a post on a destroyed queue pair", "invalid (destroyed)", NULL);
}

/* Destroying waits for the acknowledgement, so a child does it and is ended. */
static void unacknowledged(const char *device, int gid_index)
{
	int status, pipes[2];
	pid_t child;
	char byte;

	expect(pipe(pipes) == 0);
	fflush(stdout);
	child = fork();
	if (!child) {
		struct ibv_context *context = MUST_PTR(open_device_named(device));
		struct ibv_comp_channel *channel = MUST_PTR(ibv_create_comp_channel(context));
		struct two t;
		struct ibv_send_wr wr, *bad;
		struct ibv_sge sge;
		struct ibv_cq *cq;
		void *data;

		two_open(&t, context, gid_index, 1);
		cq = MUST_PTR(ibv_create_cq(context, 4, NULL, channel, 0));
		struct ibv_qp_init_attr init = {
			.send_cq = cq,
			.recv_cq = cq,
			.cap = { 1, 1, 1, 1, 0 },
			.qp_type = IBV_QPT_RC,
			.sq_sig_all = 1,
		};
		struct ibv_qp *qp = MUST_PTR(ibv_create_qp(t.pd, &init));

		/*
		 * To itself: a peer that answers another queue pair leaves the request to its
		 * retries.
		 */
		two_init(qp);
		two_connect(&t, qp, qp->qp_num);
		MUST(ibv_req_notify_cq(cq, 0));
		sge = two_piece(&t, 8);
		wr = send_wr(&sge, 1, 0);
		MUST(ibv_post_send(qp, &wr, &bad));
		MUST(ibv_get_cq_event(channel, &cq, &data));
		MUST(ibv_destroy_qp(qp));
		(void)report_take();
		expect(write(pipes[1], "x", 1) == 1);
		ibv_destroy_cq(cq);
		_exit(1);
	}
	/* With no writer left here, a child that ends early differs from a slow one. */
	close(pipes[1]);
	expect(read(pipes[0], &byte, 1) == 1);
	while (!report_size()) {
		expect(waitpid(child, &status, WNOHANG) == 0);
		usleep(1000);
	}
	kill(child, SIGKILL);
	expect(waitpid(child, &status, 0) == child);
	report_has("an event not acknowledged", "invalid (events)",
		   "1 completion events that were not", "hangs", NULL);
	close(pipes[0]);
}

/* Requests by calls. */
static void by_calls(struct two *t)
{
	struct ibv_qp *qp = two_by_calls(t, 4);
	struct ibv_qp_ex *ex = MUST_PTR(ibv_qp_to_qp_ex(qp));

	receive(t, qp, 1);
	ibv_wr_start(ex);
	ex->wr_id = 9;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, t->mr->lkey, (uintptr_t)t->buffer, 8);
	MUST(ibv_wr_complete(ex));
	report_nothing("a right batch");
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, t->mr->lkey, (uintptr_t)t->buffer + TWO_BYTES, 8);
	(void)ibv_wr_complete(ex);
	report_has("a batch beyond the region", "invalid (range)", NULL);
	MUST(ibv_destroy_qp(qp));
}

static void all(struct ibv_context *context, int gid_index, bool kept)
{
	struct two t;

	out("%s", ibv_get_device_name(context->device));
	two_open(&t, context, gid_index, 1);
	right(&t);
	attributes(&t);
	pieces(&t);
	keys(&t);
	states(&t);
	inline_data(&t);
	unsignalled(&t);
	overflow(&t);
	overrun(&t);
	starved(&t);
	memory(&t);
	destroyed(&t, kept);
	by_calls(&t);
	two_close(&t);
	report_nothing("closing in order");
	MUST_PTR(ibv_alloc_pd(context));
	MUST(ibv_close_device(context));
	report_has("a domain left", "invalid (leak)", "is left when", "made by: ", NULL);
}

/* With abort, the first report is the last. */
static void aborts(void)
{
	int status;
	pid_t child;
	char value[64];

	fflush(stdout);
	child = fork();
	if (!child) {
		char *arguments[] = { (char *)"validate", (char *)"leak", NULL };

		snprintf(value, sizeof(value), "abort,%s", report_path);
		setenv("IBVERBS_VALIDATE", value, 1);
		execv("/proc/self/exe", arguments);
		_exit(1);
	}
	expect(waitpid(child, &status, 0) == child);
	expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	report_has("abort", "invalid (leak)", NULL);
}

int main(int argc, char **argv)
{
	struct ibv_context *context;

	if (argc > 1 && !strcmp(argv[1], "leak")) {
		context = MUST_PTR(open_device_named("uroce_lo"));
		MUST_PTR(ibv_alloc_pd(context));
		MUST(ibv_close_device(context));
		return 1;
	}
	report_to_file("IBVERBS_VALIDATE", "");
	context = open_device_named("rxe0");
	if (context) {
		all(context, 1, false);
		unacknowledged("rxe0", 1);
	}
	if (!own_uroce()) {
		out("no network namespace may be made: uroce is left out");
		return done();
	}
	context = MUST_PTR(open_device_named("uroce_lo"));
	all(context, 0, true);
	unacknowledged("uroce_lo", 0);
	aborts();
	unlink(report_path);
	return done();
}
