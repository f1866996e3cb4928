/*
 * The XRC calls of the older manual over a device in user space: domains and their
 * flags, receive queue pairs that live while a process is registered, and messages from
 * another process. In a network namespace of the program's own.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "network.h"
#include "rdma.h"

#include <infiniband/ofa_verbs.h>
#include <sys/wait.h>

_Static_assert(sizeof(struct ibv_xrc_domain) == 16, "ibv_xrc_domain");
_Static_assert(offsetof(struct ofa_qp_init_attr, xrc_domain) == sizeof(struct ibv_qp_init_attr),
	       "xrc_domain");

/* Each fails with that errno. */
#define FAILS(call, why) expect(RC(call) == -1 && errno == (why))
#define NOTHING(call, why) expect(!PTR(call) && errno == (why))

enum { MESSAGES = 32, LENGTH = 3000 };

static void domains(struct ibv_context *context)
{
	struct ibv_xrc_domain *domain, *again, *other;
	int fd = new_file(), copy = dup(fd);

	NOTHING(ibv_open_xrc_domain(NULL, fd, O_CREAT), EINVAL);
	NOTHING(ibv_open_xrc_domain(context, fd, 0), ENOENT);
	NOTHING(ibv_open_xrc_domain(context, fd, O_CREAT | O_TRUNC), EINVAL);
	NOTHING(ibv_open_xrc_domain(context, 9999, O_CREAT), EBADF);
	NOTHING(ibv_open_xrc_domain(context, -2, O_CREAT), EBADF);
	NOTHING(ibv_open_xrc_domain(context, -1, 0), EINVAL);
	NOTHING(ibv_open_xrc_domain(context, -1, O_CREAT | O_EXCL), EINVAL);

	domain = MUST_PTR(ibv_open_xrc_domain(context, fd, O_CREAT | O_EXCL));
	expect(domain->context == context);
	NOTHING(ibv_open_xrc_domain(context, copy, O_CREAT | O_EXCL), EEXIST);
	again = MUST_PTR(ibv_open_xrc_domain(context, copy, 0));
	expect(again == domain);
	expect(ibv_open_xrc_domain(context, fd, O_CREAT) == domain);
	other = MUST_PTR(ibv_open_xrc_domain(context, -1, O_CREAT));
	expect(other != domain);
	MUST(ibv_close_xrc_domain(other));
	FAILS(ibv_close_xrc_domain(other), EINVAL);
	FAILS(ibv_close_xrc_domain(NULL), EINVAL);
	MUST(ibv_close_xrc_domain(domain));
	MUST(ibv_close_xrc_domain(domain));
	NOTHING(ibv_open_xrc_domain(context, fd, O_CREAT | O_EXCL), EEXIST);
	MUST(ibv_close_xrc_domain(domain));
	NOTHING(ibv_open_xrc_domain(context, fd, 0), ENOENT);
	close(copy);
	close(fd);
}

/* Two contexts represent two processes: each registers separately. */
static void registrations(struct ibv_context *context)
{
	struct ibv_context *second = open_rxe();
	int fd = new_file();
	struct ibv_xrc_domain *domain = MUST_PTR(ibv_open_xrc_domain(context, fd, O_CREAT));
	struct ibv_xrc_domain *theirs = MUST_PTR(ibv_open_xrc_domain(second, fd, 0));
	struct ibv_xrc_domain *strange = MUST_PTR(ibv_open_xrc_domain(context, -1, O_CREAT));
	struct ofa_qp_init_attr init = { .qp_context = &fd, .xrc_domain = domain }, reported;
	struct ibv_qp_attr attr = attr_init();
	uint32_t number;

	FAILS(ibv_create_xrc_rcv_qp(NULL, &number), EINVAL);
	FAILS(ibv_create_xrc_rcv_qp(&init, NULL), EINVAL);
	init.xrc_domain = NULL;
	FAILS(ibv_create_xrc_rcv_qp(&init, &number), EINVAL);
	init.xrc_domain = domain;
	MUST(ibv_create_xrc_rcv_qp(&init, &number));
	FAILS(ibv_reg_xrc_rcv_qp(domain, number + 1), EINVAL);
	FAILS(ibv_reg_xrc_rcv_qp(strange, number), EINVAL);
	FAILS(ibv_modify_xrc_rcv_qp(strange, number, &attr, RC_INIT_MASK), EINVAL);
	FAILS(ibv_modify_xrc_rcv_qp(domain, number, NULL, RC_INIT_MASK), EINVAL);
	FAILS(ibv_unreg_xrc_rcv_qp(theirs, number), EINVAL);
	FAILS(ibv_close_xrc_domain(domain), EBUSY);

	/* By a process that is not registered. */
	MUST(ibv_modify_xrc_rcv_qp(theirs, number, &attr, RC_INIT_MASK));
	memset(&attr, 0, sizeof(attr));
	MUST(ibv_query_xrc_rcv_qp(domain, number, &attr, IBV_QP_STATE, &reported));
	expect(attr.qp_state == IBV_QPS_INIT && reported.xrc_domain == domain);
	out("type %d, state %d", reported.qp_type, attr.qp_state);
	/* A bad attribute changes nothing. */
	attr = attr_rtr(context, 1);
	attr.ah_attr.port_num = 77;
	FAILS(ibv_modify_xrc_rcv_qp(domain, number, &attr, RC_RTR_MASK), EINVAL);
	MUST(ibv_query_xrc_rcv_qp(theirs, number, &attr, IBV_QP_STATE, &reported));
	expect(attr.qp_state == IBV_QPS_INIT && reported.xrc_domain == theirs);
	FAILS(ibv_query_xrc_rcv_qp(domain, number, &attr, IBV_QP_STATE, NULL), EINVAL);

	MUST(ibv_reg_xrc_rcv_qp(theirs, number));
	MUST(ibv_reg_xrc_rcv_qp(theirs, number));
	MUST(ibv_unreg_xrc_rcv_qp(domain, number));
	FAILS(ibv_unreg_xrc_rcv_qp(domain, number), EINVAL);
	/* It lives: a process is registered. */
	MUST(ibv_query_xrc_rcv_qp(domain, number, &attr, IBV_QP_STATE, &reported));
	MUST(ibv_unreg_xrc_rcv_qp(theirs, number));
	FAILS(ibv_query_xrc_rcv_qp(theirs, number, &attr, IBV_QP_STATE, &reported), EINVAL);
	FAILS(ibv_reg_xrc_rcv_qp(domain, number), EINVAL);
	MUST(ibv_close_xrc_domain(strange));
	MUST(ibv_close_xrc_domain(theirs));
	MUST(ibv_close_xrc_domain(domain));
	MUST(ibv_close_device(second));
	close(fd);
}

static void send_number(int to, uint32_t word)
{
	expect(write(to, &word, sizeof(word)) == (ssize_t)sizeof(word));
}

static uint32_t receive_number(int from)
{
	uint32_t word;

	expect(read(from, &word, sizeof(word)) == (ssize_t)sizeof(word));
	return word;
}

/* Sends to the queue and the receive queue pair whose numbers it receives. */
static void sender(int from, int to)
{
	struct ibv_context *context = open_rxe();
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, MESSAGES, NULL, NULL, 0));
	unsigned char *memory = MUST_PTR((unsigned char *)malloc(LENGTH));
	struct ibv_mr *mr = MUST_PTR(ibv_reg_mr(pd, memory, LENGTH, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.cap = { .max_send_wr = MESSAGES, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_sge sge = { (uintptr_t)memory, LENGTH, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp_ex(context, &init));
	struct ibv_qp_attr attr = attr_init();
	struct ibv_wc wc;
	uint32_t i;

	send_number(to, qp->qp_num);
	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr = attr_rtr(context, receive_number(from));
	MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	attr = attr_rts();
	MUST(ibv_modify_qp(qp, &attr, RC_RTS_MASK));
	wr.qp_type.xrc.remote_srqn = receive_number(from);
	for (i = 0; i < MESSAGES; i++) {
		memset(memory, (int)i + 1, LENGTH);
		MUST(ibv_post_send(qp, &wr, &bad));
		wc = wait_wc(cq);
		expect(wc.status == IBV_WC_SUCCESS);
	}
	receive_number(from);
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_dereg_mr(mr));
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_close_device(context));
	free(memory);
}

static void receiver(struct ibv_context *context, int from, int to)
{
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 2 * MESSAGES, NULL, NULL, 0));
	unsigned char *memory = MUST_PTR((unsigned char *)calloc(MESSAGES, LENGTH));
	struct ibv_mr *mr =
		MUST_PTR(ibv_reg_mr(pd, memory, MESSAGES * LENGTH, IBV_ACCESS_LOCAL_WRITE));
	int fd = new_file();
	struct ibv_xrc_domain *domain = MUST_PTR(ibv_open_xrc_domain(context, fd, O_CREAT));
	struct ibv_srq_init_attr srq_init = {
		.srq_context = memory,
		.attr = { .max_wr = MESSAGES, .max_sge = 1 },
	};
	struct ofa_qp_init_attr init = { .xrc_domain = domain };
	struct ibv_qp_attr attr = attr_init();
	struct ibv_srq *srq;
	uint32_t number, srq_number, i;

	NOTHING(ibv_create_xrc_srq(NULL, domain, cq, &srq_init), EINVAL);
	NOTHING(ibv_create_xrc_srq(pd, NULL, cq, &srq_init), EINVAL);
	NOTHING(ibv_create_xrc_srq(pd, domain, NULL, &srq_init), EINVAL);
	NOTHING(ibv_create_xrc_srq(pd, domain, cq, NULL), EINVAL);
	srq = MUST_PTR(ibv_create_xrc_srq(pd, domain, cq, &srq_init));
	expect(srq->srq_context == memory && srq->pd == pd && srq_init.attr.max_wr >= MESSAGES);
	MUST(ibv_get_srq_num(srq, &srq_number));
	MUST(ibv_create_xrc_rcv_qp(&init, &number));
	MUST(ibv_modify_xrc_rcv_qp(domain, number, &attr, RC_INIT_MASK));
	attr = attr_rtr(context, receive_number(from));
	MUST(ibv_modify_xrc_rcv_qp(domain, number, &attr, RC_RTR_MASK));
	for (i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = { (uintptr_t)memory + i * LENGTH, LENGTH, mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

		MUST(ibv_post_srq_recv(srq, &wr, &bad));
	}
	send_number(to, number);
	send_number(to, srq_number);
	for (i = 0; i < MESSAGES; i++) {
		struct ibv_wc wc = wait_wc(cq);
		unsigned char *at = memory + wc.wr_id * LENGTH;

		expect(wc.status == IBV_WC_SUCCESS && wc.wr_id == i && wc.byte_len == LENGTH);
		expect(at[0] == i + 1 && at[LENGTH - 1] == i + 1);
	}
	out("%d messages from another process", MESSAGES);
	send_number(to, 0);
	FAILS(ibv_close_xrc_domain(domain), EBUSY);
	MUST(ibv_unreg_xrc_rcv_qp(domain, number));
	FAILS(ibv_close_xrc_domain(domain), EBUSY);
	MUST(ibv_destroy_srq(srq));
	MUST(ibv_close_xrc_domain(domain));
	MUST(ibv_dereg_mr(mr));
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_dealloc_pd(pd));
	free(memory);
	close(fd);
}

/* Registered with a queue pair of another process, which lives on when that one is not. */
static void registered(int fd, int from, int to)
{
	struct ibv_context *context;
	struct ibv_xrc_domain *domain;
	struct ofa_qp_init_attr reported;
	struct ibv_qp_attr attr;
	uint32_t number = receive_number(from);

	context = open_rxe();
	NOTHING(ibv_open_xrc_domain(context, fd, O_CREAT | O_EXCL), EEXIST);
	domain = MUST_PTR(ibv_open_xrc_domain(context, fd, 0));
	FAILS(ibv_reg_xrc_rcv_qp(domain, number + 1), EINVAL);
	FAILS(ibv_unreg_xrc_rcv_qp(domain, number), EINVAL);
	MUST(ibv_reg_xrc_rcv_qp(domain, number));
	attr = attr_init();
	MUST(ibv_modify_xrc_rcv_qp(domain, number, &attr, RC_INIT_MASK));
	send_number(to, 0);
	/* Its maker is not registered any more. */
	receive_number(from);
	memset(&attr, 0, sizeof(attr));
	MUST(ibv_query_xrc_rcv_qp(domain, number, &attr, IBV_QP_STATE, &reported));
	expect(attr.qp_state == IBV_QPS_INIT && reported.xrc_domain == domain);
	FAILS(ibv_close_xrc_domain(domain), EBUSY);
	MUST(ibv_unreg_xrc_rcv_qp(domain, number));
	FAILS(ibv_unreg_xrc_rcv_qp(domain, number), EINVAL);
	MUST(ibv_close_xrc_domain(domain));
	MUST(ibv_close_device(context));
	send_number(to, 0);
}

static void maker(struct ibv_context *context, int fd, int from, int to)
{
	struct ibv_xrc_domain *domain = MUST_PTR(ibv_open_xrc_domain(context, fd, O_CREAT));
	struct ofa_qp_init_attr init = { .xrc_domain = domain }, reported;
	struct ibv_qp_attr attr;
	uint32_t number;

	MUST(ibv_create_xrc_rcv_qp(&init, &number));
	send_number(to, number);
	receive_number(from);
	MUST(ibv_query_xrc_rcv_qp(domain, number, &attr, IBV_QP_STATE, &reported));
	expect(attr.qp_state == IBV_QPS_INIT);
	MUST(ibv_unreg_xrc_rcv_qp(domain, number));
	/* It is there as long as the other process is registered. */
	MUST(ibv_query_xrc_rcv_qp(domain, number, &attr, IBV_QP_STATE, &reported));
	send_number(to, 0);
	receive_number(from);
	while (!ibv_query_xrc_rcv_qp(domain, number, &attr, IBV_QP_STATE, &reported))
		sched_yield();
	expect(errno == EINVAL);
	FAILS(ibv_reg_xrc_rcv_qp(domain, number), EINVAL);
	MUST(ibv_close_xrc_domain(domain));
}

int main(void)
{
	struct ibv_context *context;
	int there[2], back[2], down[2], up[2], status, shared = new_file();
	pid_t child, other;

	if (!own_device())
		return done();
	MUST(pipe(there));
	MUST(pipe(back));
	child = fork();
	expect(child >= 0);
	if (!child) {
		close(there[1]);
		close(back[0]);
		sender(there[0], back[1]);
		_exit(0);
	}
	MUST(pipe(down));
	MUST(pipe(up));
	other = fork();
	expect(other >= 0);
	if (!other) {
		registered(shared, down[0], up[1]);
		_exit(0);
	}
	close(there[0]);
	close(back[1]);
	context = open_rxe();
	receiver(context, back[0], there[1]);
	expect(waitpid(child, &status, 0) == child && status == 0);
	maker(context, shared, up[0], down[1]);
	expect(waitpid(other, &status, 0) == other && status == 0);
	domains(context);
	registrations(context);
	MUST(ibv_close_device(context));
	return done();
}
