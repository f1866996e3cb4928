/*
 * Processes that share an XRC domain over a device in user space: a side with a receive
 * queue in the domain, and a sender.
 */
#ifndef XRC_H
#define XRC_H

#include "network.h"
#include "rdma.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { AREA = 64 * 1024 };

#define NOTHING(call, why) expect(!PTR(call) && errno == (why))

/* Two ways to another process. */
struct talk {
	int to, from;
};

static inline void send_number(const struct talk *talk, uint64_t word)
{
	expect(write(talk->to, &word, sizeof(word)) == (ssize_t)sizeof(word));
}

static inline uint64_t receive_number(const struct talk *talk)
{
	uint64_t word = 0;

	expect(read(talk->from, &word, sizeof(word)) == (ssize_t)sizeof(word));
	return word;
}

static inline struct ibv_xrcd *open_domain(struct ibv_context *context, int fd, int flags)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = fd,
		.oflags = flags,
	};

	return ibv_open_xrcd(context, &attr);
}

/* A process's side of the domain, with a queue in it. */
struct side {
	struct ibv_context *context;
	struct ibv_xrcd *domain;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	unsigned char *area;
	uint32_t number;
};

static inline void post(struct side *side, uint64_t id)
{
	struct ibv_sge sge = {
		(uintptr_t)side->area + id % 4 * 8192, 8192, side->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	MUST(ibv_post_srq_recv(side->srq, &wr, &bad));
}

static inline struct side make_side(int fd, int flags)
{
	struct side side = { .context = open_rxe() };
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 64, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
	};

	side.domain = MUST_PTR(open_domain(side.context, fd, flags));
	side.pd = MUST_PTR(ibv_alloc_pd(side.context));
	side.cq = MUST_PTR(ibv_create_cq(side.context, 128, NULL, NULL, 0));
	init.pd = side.pd;
	init.cq = side.cq;
	init.xrcd = side.domain;
	side.srq = MUST_PTR(ibv_create_srq_ex(side.context, &init));
	MUST(ibv_get_srq_num(side.srq, &side.number));
	side.area = MUST_PTR((unsigned char *)aligned_alloc(4096, AREA));
	memset(side.area, 0, AREA);
	side.mr = MUST_PTR(ibv_reg_mr(side.pd, side.area, AREA, ALL_ACCESS));
	return side;
}

static inline void unmake_side(struct side *side)
{
	MUST(ibv_destroy_srq(side->srq));
	MUST(ibv_dereg_mr(side->mr));
	MUST(ibv_destroy_cq(side->cq));
	MUST(ibv_dealloc_pd(side->pd));
	MUST(ibv_close_xrcd(side->domain));
	MUST(ibv_close_device(side->context));
	free(side->area);
}

/* The third process: executes requests of the others. */
struct sender {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	unsigned char *area;
	uint32_t number[2];
};

static inline struct sender make_sender(struct talk *owner, size_t length)
{
	struct sender s = { .context = open_rxe() };
	struct ibv_qp_init_attr_ex init = {
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};
	struct ibv_qp_attr attr = attr_init();

	s.pd = MUST_PTR(ibv_alloc_pd(s.context));
	s.cq = MUST_PTR(ibv_create_cq(s.context, 16, NULL, NULL, 0));
	s.area = MUST_PTR((unsigned char *)calloc(1, length));
	s.mr = MUST_PTR(ibv_reg_mr(s.pd, s.area, length, ALL_ACCESS));
	init.send_cq = s.cq;
	init.pd = s.pd;
	s.qp = MUST_PTR(ibv_create_qp_ex(s.context, &init));
	send_number(owner, s.qp->qp_num);
	MUST(ibv_modify_qp(s.qp, &attr, RC_INIT_MASK));
	attr = attr_rtr(s.context, (uint32_t)receive_number(owner));
	MUST(ibv_modify_qp(s.qp, &attr, RC_RTR_MASK));
	attr = attr_rts();
	/* A busy machine needs time to find that a process has ended: 4 seconds. */
	attr.timeout = 17;
	MUST(ibv_modify_qp(s.qp, &attr, RC_RTS_MASK));
	return s;
}

static inline void unmake_sender(struct sender *s)
{
	MUST(ibv_destroy_qp(s->qp));
	MUST(ibv_dereg_mr(s->mr));
	MUST(ibv_destroy_cq(s->cq));
	MUST(ibv_dealloc_pd(s->pd));
	MUST(ibv_close_device(s->context));
	free(s->area);
}

/* A process that failed sends nothing that others wait for: its parent fails, too. */
static inline void child_ended(int signal)
{
	static const char words[] = "a process that this one had started failed\n";
	int error = errno;
	siginfo_t how = { .si_pid = 0 };

	(void)signal;
	if (!waitid(P_ALL, 0, &how, WEXITED | WNOHANG | WNOWAIT) && how.si_pid &&
	    how.si_code == CLD_EXITED && how.si_status) {
		(void)!write(STDERR_FILENO, words, sizeof(words) - 1);
		_exit(1);
	}
	errno = error;
}

static inline pid_t start(struct talk *talk, void (*run)(struct talk *, int), int fd)
{
	int there[2], back[2];
	pid_t child;

	MUST(pipe(there));
	MUST(pipe(back));
	expect(signal(SIGCHLD, child_ended) != SIG_ERR);
	child = fork();
	expect(child >= 0);
	*talk = child ? (struct talk){ there[1], back[0] } : (struct talk){ back[1], there[0] };
	close(child ? there[0] : there[1]);
	close(child ? back[1] : back[0]);
	if (!child) {
		expect(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
		MUST(prctl(PR_SET_PDEATHSIG, SIGKILL));
		run(talk, fd);
		_exit(0);
	}
	return child;
}

static inline struct ibv_qp *new_target(struct side *side)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = side->domain,
	};

	return MUST_PTR(ibv_create_qp_ex(side->context, &init));
}

/* A target of the domain, opened again. */
static inline struct ibv_qp *open_target(struct side *side, uint32_t number)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_type = IBV_QPT_XRC_RECV,
		.qp_num = number,
		.xrcd = side->domain,
	};

	return ibv_open_qp(side->context, &attr);
}

#endif
