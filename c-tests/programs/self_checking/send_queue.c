/*
 * uroce: a signalled request occupies its place in the send queue until its completion is polled,
 * so a program that posts until ENOMEM, and polls then, overruns no completion queue. An
 * unsignalled one occupies it until it is complete. Runs in a separate network namespace.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "network.h"
#include "rdma.h"

#include <sys/wait.h>

enum { ROUNDS = 4, TRIES = 100, BYTES = 8 };

/* One kind of request, and the way to post it. */
struct kind {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wr_opcode opcode;
	bool extended;
};

static const struct kind kinds[] = {
	{ "send", IBV_QPT_RC, IBV_WR_SEND, false },
	{ "write", IBV_QPT_RC, IBV_WR_RDMA_WRITE, false },
	{ "read", IBV_QPT_RC, IBV_WR_RDMA_READ, false },
	{ "fetch and add", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, false },
	{ "unreliable write", IBV_QPT_UC, IBV_WR_RDMA_WRITE, false },
	{ "datagram", IBV_QPT_UD, IBV_WR_SEND, false },
	{ "ibv_wr_rdma_write", IBV_QPT_RC, IBV_WR_RDMA_WRITE, true },
	{ "ibv_wr_send", IBV_QPT_RC, IBV_WR_SEND, true },
};

struct queue {
	const struct kind *kind;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_srq *srq;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	uint32_t places;
	uint64_t memory[512];
};

/* A queue pair that is its own peer, with a completion queue as long as its send queue. */
static void make(struct queue *queue, const struct kind *kind)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4096, .max_sge = 1 } };
	struct ibv_qp_init_attr_ex init = {
		.qp_type = kind->type,
		.cap = { 16, 0, 1, 0, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	struct ibv_ah_attr address;

	memset(queue, 0, sizeof(*queue));
	queue->kind = kind;
	queue->context = open_rxe();
	queue->pd = MUST_PTR(ibv_alloc_pd(queue->context));
	queue->mr = MUST_PTR(ibv_reg_mr(queue->pd, queue->memory, sizeof(queue->memory),
					ALL_ACCESS));
	queue->srq = MUST_PTR(ibv_create_srq(queue->pd, &srq));
	queue->send_cq = MUST_PTR(ibv_create_cq(queue->context, 16, NULL, NULL, 0));
	queue->recv_cq = MUST_PTR(ibv_create_cq(queue->context, 8192, NULL, NULL, 0));
	init.cap.max_send_wr = (uint32_t)queue->send_cq->cqe;
	init.pd = queue->pd;
	init.srq = queue->srq;
	init.send_cq = queue->send_cq;
	init.recv_cq = queue->recv_cq;
	if (kind->type == IBV_QPT_RC)
		init.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE;
	queue->qp = MUST_PTR(ibv_create_qp_ex(queue->context, &init));
	queue->places = init.cap.max_send_wr;
	expect(queue->places == (uint32_t)queue->send_cq->cqe);
	if (kind->type == IBV_QPT_UD)
		ready_ud(queue->qp);
	else
		connect_qp(queue->qp, queue->qp->qp_num);
	address = own_address(queue->context);
	queue->ah = MUST_PTR(ibv_create_ah(queue->pd, &address));
}

static void destroy(struct queue *queue)
{
	MUST(ibv_destroy_ah(queue->ah));
	MUST(ibv_destroy_qp(queue->qp));
	MUST(ibv_destroy_cq(queue->send_cq));
	MUST(ibv_destroy_cq(queue->recv_cq));
	MUST(ibv_destroy_srq(queue->srq));
	MUST(ibv_dereg_mr(queue->mr));
	MUST(ibv_dealloc_pd(queue->pd));
	MUST(ibv_close_device(queue->context));
}

static int post_extended(struct queue *queue, unsigned int flags)
{
	struct ibv_qp_ex *qp = MUST_PTR(ibv_qp_to_qp_ex(queue->qp));

	ibv_wr_start(qp);
	qp->wr_id = 1;
	qp->wr_flags = flags;
	if (queue->kind->opcode == IBV_WR_SEND)
		ibv_wr_send(qp);
	else
		ibv_wr_rdma_write(qp, queue->mr->rkey, (uintptr_t)&queue->memory[8]);
	ibv_wr_set_sge(qp, queue->mr->lkey, (uintptr_t)queue->memory, BYTES);
	return ibv_wr_complete(qp);
}

static int post(struct queue *queue, unsigned int flags)
{
	struct ibv_sge sge = { (uintptr_t)queue->memory, BYTES, queue->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = queue->kind->opcode,
		.send_flags = flags,
	}, *bad;

	if (queue->kind->extended)
		return post_extended(queue, flags);
	if (queue->kind->type == IBV_QPT_UD) {
		wr.wr.ud.ah = queue->ah;
		wr.wr.ud.remote_qpn = queue->qp->qp_num;
		wr.wr.ud.remote_qkey = QKEY;
	} else if (queue->kind->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)&queue->memory[8];
		wr.wr.atomic.rkey = queue->mr->rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)&queue->memory[8];
		wr.wr.rdma.rkey = queue->mr->rkey;
	}
	return ibv_post_send(queue->qp, &wr, &bad);
}

/* Enough receive requests, and room for their completions. */
static void receive(struct queue *queue)
{
	struct ibv_sge sge = { (uintptr_t)&queue->memory[64], 64, queue->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_wc wc[16];

	while (ibv_poll_cq(queue->recv_cq, 16, wc) > 0)
		;
	while (!ibv_post_srq_recv(queue->srq, &wr, &bad))
		;
}

static void poll_sends(struct queue *queue, uint32_t count)
{
	while (count--)
		expect(wait_wc(queue->send_cq).status == IBV_WC_SUCCESS);
}

/* The queue is full, and remains so while requests complete. */
static void is_full(struct queue *queue)
{
	int i;

	for (i = 0; i < TRIES; i++) {
		expect(post(queue, IBV_SEND_SIGNALED) == ENOMEM);
		usleep(50);
	}
}

static void signalled(struct queue *queue)
{
	uint32_t posted, i;

	for (i = 0; i < ROUNDS; i++) {
		receive(queue);
		for (posted = 0; posted <= queue->places; posted++)
			if (post(queue, IBV_SEND_SIGNALED))
				break;
		expect(posted == queue->places);
		is_full(queue);
		poll_sends(queue, 1);
		MUST(post(queue, IBV_SEND_SIGNALED));
		expect(post(queue, IBV_SEND_SIGNALED) == ENOMEM);
		poll_sends(queue, queue->places);
	}
}

static void unsignalled(struct queue *queue)
{
	uint32_t i;
	int answer;

	for (i = 0; i < 4 * queue->places; i++) {
		receive(queue);
		while ((answer = post(queue, 0)) == ENOMEM)
			sched_yield();
		MUST(answer);
	}
	while ((answer = post(queue, IBV_SEND_SIGNALED)) == ENOMEM)
		sched_yield();
	MUST(answer);
	poll_sends(queue, 1);
	for (i = 0; i < queue->places; i++)
		MUST(post(queue, IBV_SEND_SIGNALED));
	poll_sends(queue, queue->places);
}

static void each_kind(void)
{
	static struct queue queue;
	size_t i;

	for (i = 0; i < ARRAY_LEN(kinds); i++) {
		make(&queue, &kinds[i]);
		signalled(&queue);
		unsignalled(&queue);
		out("%s: ends in state %d", kinds[i].name, queue.qp->state);
		destroy(&queue);
	}
}

/* In a separate process, because a process keeps its first carrier. */
static void by(const char *carrier)
{
	pid_t child;
	int status;

	out("-- UROCE_CARRIER=%s", carrier);
	fflush(NULL);
	child = fork();
	expect(child >= 0);
	if (!child) {
		setenv("UROCE_CARRIER", carrier, 1);
		each_kind();
		fflush(NULL);
		_exit(0);
	}
	expect(waitpid(child, &status, 0) == child);
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	if (!own_device())
		return done();
	by("udp");
	by("shm");
	by("auto");
	return done();
}
