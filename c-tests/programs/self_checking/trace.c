/*
 * IBVERBS_TRACE: every call of a program is in the file, with its arguments, its result and its
 * time, over uroce, and over soft-RoCE where the kernel has such a device; also those of a forked
 * child, whose chunks are interleaved with the parent's.
 */
#include "report.h"
#include "trace.h"

#include <sys/wait.h>

/* Programs probe limits by requests that are refused, whose lists and successors may be missing. */
static void refused(struct two *t)
{
	struct ibv_sge sge = two_piece(t, 8), *last = two_last_piece(t, 8);
	void *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_send_wr probe = {
		.wr_id = 79, .next = nothing, .sg_list = last, .num_sge = TWO_SGES,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr wr = {
		.wr_id = 78, .next = &probe, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)t->buffer + 64, t->mr->rkey },
	}, *bad;
	struct ibv_recv_wr receive = {
		.wr_id = 80, .next = nothing, .sg_list = last, .num_sge = TWO_SGES,
	}, *bad_receive;
	struct ibv_wc wc;

	expect(nothing != MAP_FAILED);
	expect(ibv_post_send(t->qp[0], &wr, &bad) && bad == &probe);
	expect(two_wait(t, &wc) == IBV_WC_SUCCESS && wc.wr_id == 78);
	expect(ibv_post_recv(t->qp[0], &receive, &bad_receive) && bad_receive == &receive);
}

static void work(struct ibv_context *context, int gid_index)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 77, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct two t;
	struct ibv_wc wc;

	two_open(&t, context, gid_index, 1);
	sge = two_piece(&t, 8);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)t.buffer + 64;
	wr.wr.rdma.rkey = t.mr->rkey;
	MUST(ibv_post_send(t.qp[0], &wr, &bad));
	expect(two_wait(&t, &wc) == IBV_WC_SUCCESS);
	refused(&t);
	expect(!ibv_reg_mr(t.pd, t.buffer, 64, IBV_ACCESS_REMOTE_WRITE));
	two_close(&t);
	MUST(ibv_close_device(context));
}

static void by_calls(struct ibv_context *context)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 1, .wc_flags = IBV_WC_EX_WITH_QP_NUM };
	struct ibv_poll_cq_attr poll = { 0 };
	struct ibv_cq_ex *cq = MUST_PTR(ibv_create_cq_ex(context, &attr));

	expect(ibv_start_poll(cq, &poll) == ENOENT);
	MUST(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	MUST(ibv_close_device(context));
}

/* Records calls on a device that may be missing. */
static void all(const char *device, int gid_index)
{
	struct ibv_context *context;
	struct call *call, *call_qp, *poll;
	char line[64];
	int status;
	pid_t child;

	report_to_file("IBVERBS_TRACE", "");
	context = open_device_named(device);
	if (!context) {
		unlink(report_path);
		return;
	}
	out("%s", device);
	work(context, gid_index);
	fflush(stdout);
	child = fork();
	if (!child) {
		by_calls(MUST_PTR(open_device_named(device)));
		_exit(0);
	}
	expect(waitpid(child, &status, 0) == child && status == 0);
	read_trace(report_path);
	expect(chunks >= 4);

	call = MUST_PTR(nth("ibv_post_send", 0));
	expect(call->process == (uint32_t)getpid() && call->error == 0);
	/* qp, wr, bad_wr, requests, posted, wr_id, opcode, send_flags, bytes */
	expect(call->words == 9 && call->word[3] == 1 && call->word[4] == 1);
	expect(call->word[5] == 77 && call->word[6] == IBV_WR_RDMA_WRITE && call->word[8] == 8);
	out("posted");
	call = MUST_PTR(nth("ibv_post_send", 1));
	/* One is posted, and one refused, of which the list was not read. */
	expect(call->error && call->words == 13 && call->word[3] == 2 && call->word[4] == 1);
	expect(call->word[5] == 78 && call->word[6] == IBV_WR_RDMA_WRITE && call->word[8] == 8);
	expect(call->word[9] == 79 && call->word[10] == IBV_WR_SEND &&
	       call->word[11] == IBV_SEND_SIGNALED && call->word[12] == 0);
	call = MUST_PTR(nth("ibv_post_recv", 0));
	/* qp, wr, bad_wr, requests, posted, wr_id, bytes */
	expect(call->error && call->words == 7 && call->word[3] == 1 && call->word[4] == 0);
	expect(call->word[5] == 80 && call->word[6] == 0);
	out("refused requests");
	call = MUST_PTR(nth("ibv_post_send", 0));
	snprintf(line, sizeof line, "process trace\nthread 1 %d trace\n", getpid());
	expect(strstr(threads, line));
	snprintf(line, sizeof line, "process trace\nthread 1 %d trace\n", child);
	expect(strstr(threads, line));
	out("threads have names");
	for (status = 0; (poll = nth("ibv_poll_cq", status)); status++)
		if (poll->value == 1)
			break;
	/* cq, num_entries, wc, wr_id, status, opcode, qp_num */
	expect(poll && poll->words == 7 && poll->word[3] == 77);
	expect(poll->word[4] == IBV_WC_SUCCESS && poll->word[5] == IBV_WC_RDMA_WRITE);
	call_qp = MUST_PTR(nth("ibv_create_qp", 0));
	/* pd, attr, type, send, receive, send_cq, recv_cq, srq, sq_sig_all, qp_num */
	expect(call_qp->words == 10 && call_qp->word[2] == IBV_QPT_RC);
	expect(call_qp->word[5] == poll->word[0] && call_qp->word[9] == poll->word[6]);
	expect(poll->begin >= call->begin + call->took);
	out("polled");
	call = MUST_PTR(nth("ibv_reg_mr", 1));
	expect(call->error == EINVAL && call->word[2] == 64 &&
	       call->word[4] == IBV_ACCESS_REMOTE_WRITE);
	out("refused");
	call = MUST_PTR(nth("ibv_modify_qp", 0));
	expect(call->words == 5 && call->word[3] == IBV_QPS_INIT);
	expect(nth("ibv_modify_qp", 5) && !nth("ibv_modify_qp", 6));
	out("modified");
	call = MUST_PTR(nth("ibv_close_device", 0));
	expect(call->process == (uint32_t)getpid());
	call = MUST_PTR(nth("ibv_start_poll", 0));
	expect(call->process == (uint32_t)child && call->error == ENOENT);
	out("a child's calls stand beside");
	unlink(report_path);
}

/* In a separate process, because the variable is read once in the life of a process. */
static void apart(const char *device, int gid_index)
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		all(device, gid_index);
		exit(done());
	}
	expect(waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
	apart("rxe0", 1);
	if (!own_uroce()) {
		out("no network namespace may be made: uroce is left out");
		return done();
	}
	apart("uroce_lo", 0);
	return done();
}
