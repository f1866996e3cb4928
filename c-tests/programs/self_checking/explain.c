/*
 * IBVERBS_EXPLAIN: each kind of failure is explained, over uroce, and over soft-RoCE where the
 * kernel has such a device; successful calls are not.
 */
#include "report.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static struct ibv_send_wr send_wr(struct ibv_sge *sge, enum ibv_wr_opcode opcode,
				  unsigned int flags)
{
	struct ibv_send_wr wr = {
		.wr_id = 0xab,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = flags,
	};

	return wr;
}

static void memory(struct two *t)
{
	char *pages = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	struct ibv_mr *mr;

	expect(pages != MAP_FAILED);
	expect(!ibv_reg_mr(t->pd, pages, 4096, IBV_ACCESS_REMOTE_WRITE));
	report_has("remote without local write", "ibv_reg_mr(4096 bytes at", "EINVAL",
		   "IBV_ACCESS_REMOTE_WRITE needs IBV_ACCESS_LOCAL_WRITE", NULL);
	MUST(munmap(pages + 4096, 4096));
	expect(!ibv_reg_mr(t->pd, pages, 3 * 4096, IBV_ACCESS_LOCAL_WRITE));
	report_has("unmapped range", "EFAULT", "nothing is mapped", NULL);
	MUST(mprotect(pages, 4096, PROT_READ));
	expect(!ibv_reg_mr(t->pd, pages, 4096, IBV_ACCESS_LOCAL_WRITE));
	report_has("read-only range", "without the right to write", NULL);
	MUST(mprotect(pages, 4096, PROT_READ | PROT_WRITE));
	mr = MUST_PTR(ibv_reg_mr(t->pd, pages, 4096, IBV_ACCESS_LOCAL_WRITE));
	expect(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
			    IBV_ACCESS_REMOTE_WRITE));
	report_has("changed to remote without local write", "ibv_rereg_mr", NULL);
	(void)ibv_dereg_mr(mr);
	(void)report_take();
	MUST(munmap(pages, 3 * 4096));
}

static void limits(struct two *t)
{
	struct ibv_qp_init_attr qp = {
		.send_cq = t->cq,
		.recv_cq = t->cq,
		.cap = { 1 << 30, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 1 << 30, .max_sge = 1 } };

	expect(!ibv_create_qp(t->pd, &qp));
	report_has("too long a queue pair", "ibv_create_qp(RC, max_send_wr 1073741824",
		   "the device's max_qp_wr is", NULL);
	qp.cap.max_send_wr = 1;
	qp.recv_cq = NULL;
	expect(!ibv_create_qp(t->pd, &qp));
	report_has("no recv_cq", "recv_cq is NULL", NULL);
	expect(!ibv_create_cq(t->context, 1 << 30, NULL, NULL, 0));
	report_has("too long a completion queue", "cqe is 1073741824, the device's max_cqe is",
		   NULL);
	expect(!ibv_create_srq(t->pd, &srq));
	report_has("too long a shared queue", "max_srq_wr is", NULL);
	expect(!ibv_create_cq(t->context, 0, NULL, NULL, 0));
	report_has("an empty completion queue", "it has to be at least 1", NULL);
	expect(!ibv_create_cq(t->context, 1, NULL, NULL, 99));
	report_has("no such vector", "comp_vector is 99; the context has 0 to", NULL);
}

/* Numbers that no transition takes. */
static void values(struct two *t)
{
	struct ibv_qp *qp = two_qp(t, 1);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 9 };
	int mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS;

	expect(ibv_modify_qp(qp, &attr, mask));
	report_has("no such port of a queue pair", "port_num is 9; the device has the ports 1 to",
		   NULL);
	attr.port_num = 1;
	attr.pkey_index = 60000;
	expect(ibv_modify_qp(qp, &attr, mask));
	report_has("no such key", "pkey_index is 60000, at most", NULL);
	two_init(qp);
	attr = two_rtr_attr(t, qp->qp_num);
	attr.path_mtu = (enum ibv_mtu)1024;
	expect(ibv_modify_qp(qp, &attr, RTR_MASK));
	report_has("an MTU in bytes", "path_mtu is 1024", "it is not a number of bytes", NULL);
	attr = two_rtr_attr(t, qp->qp_num);
	attr.max_dest_rd_atomic = 255;
	expect(ibv_modify_qp(qp, &attr, RTR_MASK));
	report_has("too many reads", "max_dest_rd_atomic is 255 (-1 in 8 bits), at most", NULL);
	attr = two_rtr_attr(t, qp->qp_num);
	attr.ah_attr.port_num = 9;
	expect(ibv_modify_qp(qp, &attr, RTR_MASK));
	report_has("a path by no such port", "INIT -> RTR", "port_num is 9", NULL);
	attr = two_rtr_attr(t, qp->qp_num);
	attr.cur_qp_state = IBV_QPS_RTS;
	expect(ibv_modify_qp(qp, &attr, RTR_MASK | IBV_QP_CUR_STATE));
	report_has("another state than thought", "cur_qp_state says RTS, but the queue pair is in INIT",
		   NULL);
	MUST(ibv_destroy_qp(qp));
}

static void states(struct two *t)
{
	struct ibv_qp *qp = two_qp(t, 1);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS };

	expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	report_has("no such transition", "RESET -> RTS", "There is no transition",
		   "it goes to RESET, INIT", NULL);
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = 1;
	expect(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
			     IBV_QP_QKEY));
	report_has("missing and extra", "Missing for RESET -> INIT of RC: IBV_QP_ACCESS_FLAGS.",
		   "Not allowed in RESET -> INIT of RC: IBV_QP_QKEY.", NULL);
	two_init(qp);
	report_nothing("a transition that works");
	attr = two_rtr_attr(t, qp->qp_num);
	attr.ah_attr.is_global = 0;
	expect(ibv_modify_qp(qp, &attr, RTR_MASK));
	report_has("RoCE without is_global", "INIT -> RTR", "ah_attr.is_global has to be 1", NULL);
	attr = two_rtr_attr(t, qp->qp_num);
	attr.ah_attr.grh.sgid_index = 200;
	expect(ibv_modify_qp(qp, &attr, RTR_MASK));
	report_has("empty GID", "sgid_index", "200", NULL);
	MUST(ibv_destroy_qp(qp));
}

static void families(struct two *t)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .hop_limit = 64, .sgid_index = (uint8_t)t->gid_index },
	};
	struct ibv_ah *ah;

	/* fe80::7: no address of an IPv4 GID's family. */
	attr.grh.dgid.raw[0] = 0xfe;
	attr.grh.dgid.raw[1] = 0x80;
	attr.grh.dgid.raw[15] = 7;
	ah = ibv_create_ah(t->pd, &attr);
	if (ah) {
		out("a GID of another family is taken");
		MUST(ibv_destroy_ah(ah));
		(void)report_take();
		return;
	}
	report_has("a GID of another family is refused", "ibv_create_ah", "one address family",
		   NULL);
}

static void posting(struct two *t)
{
	struct ibv_sge sge = two_piece(t, 8), large = two_piece(t, 4096);
	struct ibv_sge *last = two_last_piece(t, 8);
	struct ibv_send_wr wr = send_wr(&sge, IBV_WR_SEND, 0), *bad;
	struct ibv_qp *qp = two_qp(t, 1);

	expect(ibv_post_send(qp, &wr, &bad));
	report_has("posted in RESET", "ibv_post_send(QP 0x", "wr_id 0xab", "is in RESET", NULL);
	MUST(ibv_destroy_qp(qp));
	wr.sg_list = last;
	wr.num_sge = 100;
	expect(ibv_post_send(t->qp[0], &wr, &bad));
	report_has("too many pieces", "num_sge is 100, the queue takes", NULL);
	wr = send_wr(&large, IBV_WR_SEND, IBV_SEND_INLINE);
	expect(ibv_post_send(t->qp[0], &wr, &bad));
	report_has("too much inline", "4096 bytes are to go inline, the queue pair takes", NULL);
}

/* Datagrams: an address is needed, and not every operation is there. */
static void datagrams(struct two *t)
{
	struct ibv_qp_init_attr init = {
		.send_cq = t->cq,
		.recv_cq = t->cq,
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_UD,
	};
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(t->pd, &init));
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7 };
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr = send_wr(&sge, IBV_WR_RDMA_WRITE, 0), *bad;

	MUST(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	attr.qp_state = IBV_QPS_RTR;
	MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr.qp_state = IBV_QPS_RTS;
	MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
	(void)report_take();
	expect(ibv_post_send(qp, &wr, &bad));
	report_has("no such operation", "UD queue pairs do not have IBV_WR_RDMA_WRITE", NULL);
	wr.opcode = IBV_WR_SEND;
	expect(ibv_post_send(qp, &wr, &bad));
	report_has("a datagram without destination", "needs the address handle of its destination", NULL);
	MUST(ibv_destroy_qp(qp));
}

static void receiving(struct two *t)
{
	struct ibv_srq_init_attr shared = { .attr = { .max_wr = 1, .max_sge = 4 } };
	struct ibv_srq *srq = MUST_PTR(ibv_create_srq(t->pd, &shared));
	struct ibv_sge sge = two_piece(t, 8), *last = two_last_piece(t, 8);
	struct ibv_recv_wr wr = { .wr_id = 0xef, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_qp *qp = two_qp(t, 1);
	struct ibv_qp_init_attr init = {
		.send_cq = t->cq,
		.recv_cq = t->cq,
		.srq = srq,
		.cap = { 1, 0, 1, 0, 0 },
		.qp_type = IBV_QPT_RC,
	};
	int i;

	expect(ibv_post_recv(qp, &wr, &bad));
	report_has("received in RESET", "ibv_post_recv(QP 0x", "wr_id 0xef",
		   "receive requests are taken from INIT on", NULL);
	two_init(qp);
	for (i = 0; i < 100000 && !ibv_post_recv(qp, &wr, &bad); i++)
		;
	report_has("a full receive queue", "The receive queue is full", "max_recv_wr", NULL);
	wr.sg_list = last;
	wr.num_sge = 100;
	expect(ibv_post_recv(qp, &wr, &bad));
	report_has("too many pieces to receive", "num_sge is 100", "max_recv_sge", NULL);
	MUST(ibv_destroy_qp(qp));
	qp = MUST_PTR(ibv_create_qp(t->pd, &init));
	two_init(qp);
	wr.sg_list = &sge;
	wr.num_sge = 1;
	expect(ibv_post_recv(qp, &wr, &bad));
	report_has("a shared queue passed by", "post them with ibv_post_srq_recv", NULL);
	for (i = 0; i < 100000 && !ibv_post_srq_recv(srq, &wr, &bad); i++)
		;
	report_has("a full shared queue", "The shared receive queue is full", "max_wr", NULL);
	wr.sg_list = last;
	wr.num_sge = 100;
	expect(ibv_post_srq_recv(srq, &wr, &bad));
	report_has("too many pieces of a shared queue", "num_sge is 100", "max_sge", NULL);
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_destroy_srq(srq));
	(void)report_take();
}

/* Requests by calls. */
static void batches(struct two *t)
{
	struct ibv_qp *qp = two_by_calls(t, 1);
	struct ibv_qp_ex *ex = MUST_PTR(ibv_qp_to_qp_ex(qp));

	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, t->buffer, 4096);
	expect(ibv_wr_complete(ex));
	report_has("a batch that does not fit", "ibv_wr_complete(QP 0x", "(max_inline_data)", NULL);
	MUST(ibv_destroy_qp(qp));
}

static void completions(struct two *t)
{
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr = {
		.wr_id = 0xcd,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)t->buffer, t->mr->rkey + 0x100 },
	}, *bad;
	struct ibv_wc wc;
	/* The other end is here, too. The kernel reports no reason. */
	bool reports = !strncmp(ibv_get_device_name(t->context->device), "uroce", 5);

	MUST(ibv_post_send(t->qp[0], &wr, &bad));
	expect(two_wait(t, &wc) == IBV_WC_REM_ACCESS_ERR);
	report_has("a wrong rkey", "(wr_id 0xcd)", "remote access error", "a wrong rkey",
		   reports ? "refuses its peer an RDMA write of 8 bytes at 0x" : "",
		   reports ? ": no region or window has this R_Key" : "", NULL);
}

/* Requests posted after completions(). */
static void flushed(struct two *t)
{
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr = send_wr(&sge, IBV_WR_SEND, 0), *bad;
	struct ibv_wc wc;

	MUST(ibv_post_send(t->qp[0], &wr, &bad));
	expect(two_wait(t, &wc) == IBV_WC_WR_FLUSH_ERR);
	report_has("behind an error", "was in ERR, so its requests come back undone", NULL);
	MUST(ibv_post_send(t->qp[0], &wr, &bad));
	expect(two_wait(t, &wc) == IBV_WC_WR_FLUSH_ERR);
	report_nothing("the same again");
}

/* Each with a separate pair, because the error ends it. */
static enum ibv_wc_status failing(struct two *t, struct ibv_sge *sge, uint32_t room)
{
	struct ibv_sge into = two_piece(t, room);
	struct ibv_recv_wr recv = { .sg_list = &into, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr wr = send_wr(sge, IBV_WR_SEND, IBV_SEND_SIGNALED), *bad;
	enum ibv_wc_status status;
	struct ibv_wc wc;

	if (room)
		MUST(ibv_post_recv(t->qp[1], &recv, &bad_recv));
	MUST(ibv_post_send(t->qp[0], &wr, &bad));
	do
		status = two_wait(t, &wc);
	while (wc.qp_num != t->qp[0]->qp_num);
	return status;
}

static void failures(struct two *t)
{
	struct ibv_sge sge;
	struct two other;

	two_open(&other, t->context, t->gid_index, 1);
	sge = two_piece(&other, 8);
	expect(failing(&other, &sge, 0) == IBV_WC_RNR_RETRY_EXC_ERR);
	report_has("no receive request", "had no receive request posted", NULL);
	two_close(&other);
	two_open(&other, t->context, t->gid_index, 1);
	sge = two_piece(&other, 64);
	expect(failing(&other, &sge, 8) == IBV_WC_REM_INV_REQ_ERR);
	report_has("too long a message", "longer than its receive buffers", NULL);
	two_close(&other);
	two_open(&other, t->context, t->gid_index, 1);
	sge = (struct ibv_sge){ (uintptr_t)other.buffer + TWO_BYTES, 8, other.mr->lkey };
	expect(failing(&other, &sge, 8) == IBV_WC_LOC_PROT_ERR);
	report_has("a piece beyond its region", "is not inside the region that its lkey names", NULL);
	two_close(&other);
	(void)report_take();
}

/* Takes events until one of that kind comes. */
static void await_event(struct ibv_context *context, enum ibv_event_type wanted)
{
	struct ibv_async_event event;

	do {
		MUST(ibv_get_async_event(context, &event));
		ibv_ack_async_event(&event);
	} while (event.event_type != wanted);
}

/* Events that report a mistake; made where it is known which ones come. */
static void events(struct two *t)
{
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(t->context, 1, NULL, NULL, 0));
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = t->cq,
		.cap = { (uint32_t)cq->cqe + 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(t->pd, &init));
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_send_wr wr = send_wr(&sge, IBV_WR_RDMA_WRITE, 0), *bad;
	int i;

	/* The other end's view of the wrong key of completions(). */
	await_event(t->context, IBV_EVENT_QP_ACCESS_ERR);
	report_has("the target of a write with a wrong rkey", "reports event 3",
		   "The peer used memory of this end that it may not", NULL);
	wr.wr.rdma.remote_addr = (uintptr_t)t->buffer;
	wr.wr.rdma.rkey = t->mr->rkey;
	two_init(qp);
	two_connect(t, qp, qp->qp_num);
	for (i = 0; i <= cq->cqe; i++)
		MUST(ibv_post_send(qp, &wr, &bad));
	await_event(t->context, IBV_EVENT_CQ_ERR);
	report_has("a queue that overran", "a CQ of", "had no room for a completion", NULL);
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_destroy_cq(cq));
	expect(system("ip link set lo down") == 0);
	await_event(t->context, IBV_EVENT_PORT_ERR);
	report_has("a port that went down", "port 1 of", "The port went down", NULL);
	expect(system("ip link set lo up") == 0);
	await_event(t->context, IBV_EVENT_PORT_ACTIVE);
	report_nothing("a port that is back");
}

/* A device whose interface is removed. */
static void removal(void)
{
	struct ibv_context *context;

	if (system("ip link add v0 type veth peer name v1")) {
		out("no interface can be made here that goes away");
		return;
	}
	setenv("UROCE_DEVICES", "lo,v0", 1);
	context = MUST_PTR(open_device_named("uroce_v0"));
	(void)report_take();
	expect(system("ip link delete v0") == 0);
	await_event(context, IBV_EVENT_DEVICE_FATAL);
	report_has("a device that is gone", "the device of uroce_v0",
		   "The device is gone or has failed", NULL);
	MUST(ibv_close_device(context));
}

/* A setting that cannot be understood, and the report on standard error. */
static void not_opened(void)
{
	int status, fd;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		char *arguments[] = { (char *)"explain", (char *)"open", NULL };

		fd = open(report_path, O_WRONLY | O_APPEND);
		expect(fd >= 0 && dup2(fd, 2) == 2);
		setenv("IBVERBS_EXPLAIN", "1", 1);
		setenv("UROCE_FAULTS", "loss=many", 1);
		execv("/proc/self/exe", arguments);
		_exit(1);
	}
	expect(waitpid(child, &status, 0) == child && status == 0);
	report_has("a device that is not opened", "ibv_open_device() on uroce_lo failed: EINVAL", NULL);
}

static int open_in_vain(void)
{
	struct ibv_device **list = MUST_PTR(ibv_get_device_list(NULL));
	int i;

	for (i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), "uroce_lo"))
			expect(!ibv_open_device(list[i]) && errno == EINVAL);
	ibv_free_device_list(list);
	return 0;
}

static void unsupported(struct two *t)
{
	struct ibv_flow_action_esp_attr attr = { 0 };

	expect(!ibv_create_flow_action_esp(t->context, &attr));
	report_has("who lacks a call", "ibv_create_flow_action_esp", "EOPNOTSUPP",
		   "The provider", "does not have this call", NULL);
}

static void library_calls(struct two *t)
{
	struct ibv_comp_channel *channel = MUST_PTR(ibv_create_comp_channel(t->context));
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(t->context, 1, NULL, channel, 0));
	union ibv_gid gid;

	expect(ibv_destroy_comp_channel(channel) == EBUSY);
	report_has("a channel in use", "ibv_destroy_comp_channel", "still uses the channel", NULL);
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_destroy_comp_channel(channel));
	expect(ibv_query_gid(t->context, 9, 0, &gid) == -1);
	report_has("no such port", "ibv_query_gid", "Port 9", NULL);
	expect(ibv_dealloc_pd(t->pd) == EBUSY);
	report_has("a domain in use", "ibv_dealloc_pd", "EBUSY", "destroyed first", NULL);
	expect(ibv_dealloc_pd(NULL) == EINVAL);
	report_has("no domain", "a call about a pd", "NULL", NULL);
}

/* Requests that soft-RoCE's C providers accept, or crash on. */
static void of_own_device(struct two *t)
{
	values(t);
	datagrams(t);
	receiving(t);
	batches(t);
	flushed(t);
	failures(t);
	events(t);
}

/* Gives up the right to exceed the limit of locked memory. */
static void obey_limit(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	struct rlimit limit = { 1 << 16, 1 << 16 };

	expect(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
	expect(syscall(SYS_capget, &header, data) == 0);
	data[0].effective &= ~(1U << CAP_IPC_LOCK);
	data[0].permitted &= ~(1U << CAP_IPC_LOCK);
	expect(syscall(SYS_capset, &header, data) == 0);
}

/*
 * Locks more memory than the limit; the kernel counts pinned memory for each device. A child runs
 * this and opens the device after the change, because by write() the kernel serves only callers
 * with the opener's rights.
 */
static void locked(const char *device)
{
	size_t length = 1 << 20;
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		struct ibv_context *context;
		void *memory = MUST_PTR(aligned_alloc(4096, length));

		obey_limit();
		context = MUST_PTR(open_device_named(device));
		expect(!PTR(ibv_reg_mr(MUST_PTR(ibv_alloc_pd(context)), memory, length,
				       IBV_ACCESS_LOCAL_WRITE)));
		fflush(stdout);
		_exit(0);
	}
	expect(waitpid(child, &status, 0) == child && status == 0);
	report_has("more than may be locked", "ibv_reg_mr", "ENOMEM",
		   "RLIMIT_MEMLOCK is 65536 bytes", "does not fit", NULL);
}

static void all(struct ibv_context *context, int gid_index, bool own)
{
	struct two t;

	out("%s", ibv_get_device_name(context->device));
	two_open(&t, context, gid_index, 1);
	report_nothing("what works");
	memory(&t);
	limits(&t);
	states(&t);
	families(&t);
	posting(&t);
	completions(&t);
	library_calls(&t);
	unsupported(&t);
	if (own)
		of_own_device(&t);
	two_close(&t);
	MUST(ibv_close_device(context));
}

int main(int argc, char **argv)
{
	struct ibv_context *context;

	if (argc > 1 && !strcmp(argv[1], "open"))
		return open_in_vain();

	report_to_file("IBVERBS_EXPLAIN", "");
	context = open_device_named("rxe0");
	if (context) {
		all(context, 1, false);
		locked("rxe0");
	}
	if (!own_uroce()) {
		out("no network namespace may be made: uroce is left out");
		return done();
	}
	context = MUST_PTR(open_device_named("uroce_lo"));
	all(context, 0, true);
	removal();
	not_opened();
	unlink(report_path);
	return done();
}
