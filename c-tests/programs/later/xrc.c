/*
 * XRC domains between processes over a device in user space. One process makes the domain
 * and the receiving queue pair ("home"), another has a shared receive queue in the domain
 * ("guest"), a third sends to both in turn. In a network namespace of the program's own.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "network.h"
#include "rdma.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum {
	/* Messages to each side, one at a time and then several under way. */
	ROUNDS = 40,
	BURST = 8,
	LENGTH = 5000,
	AREA = 64 * 1024,
	/* Whose queue. */
	TO_HOME = 0,
	TO_GUEST = 1,
};

#define NOTHING(call, why) expect(!PTR(call) && errno == (why))

/* Two ways to another process. */
struct talk {
	int to, from;
};

static void tell(const struct talk *talk, uint64_t word)
{
	expect(write(talk->to, &word, sizeof(word)) == (ssize_t)sizeof(word));
}

static uint64_t hear(const struct talk *talk)
{
	uint64_t word = 0;

	expect(read(talk->from, &word, sizeof(word)) == (ssize_t)sizeof(word));
	return word;
}

static struct ibv_xrcd *open_domain(struct ibv_context *context, int fd, int flags)
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

static void post(struct side *side, uint64_t id)
{
	struct ibv_sge sge = {
		(uintptr_t)side->area + id % 4 * 8192, 8192, side->mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	MUST(ibv_post_srq_recv(side->srq, &wr, &bad));
}

static struct side make_side(int fd, int flags)
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

static void unmake_side(struct side *side)
{
	MUST(ibv_destroy_srq(side->srq));
	MUST(ibv_dereg_mr(side->mr));
	MUST(ibv_destroy_cq(side->cq));
	MUST(ibv_dealloc_pd(side->pd));
	MUST(ibv_close_xrcd(side->domain));
	MUST(ibv_close_device(side->context));
	free(side->area);
}

/* The messages of one side, in order and whole. */
static void receive(struct side *side, uint32_t qpn, unsigned int first, unsigned int rounds)
{
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		struct ibv_wc wc = wait_wc(side->cq);
		unsigned char *at = side->area + wc.wr_id % 4 * 8192;

		expect(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
		expect(wc.wr_id == first + i && wc.byte_len == LENGTH && wc.qp_num == qpn);
		expect(at[0] == first + i + 1 && at[LENGTH - 1] == first + i + 1);
		post(side, wc.wr_id + 4);
	}
}

/* The third process: does what it is told. */
struct sender {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	unsigned char *area;
	uint32_t number[2];
};

static enum ibv_wc_status request(struct sender *s, int to, enum ibv_wr_opcode opcode,
				  uint64_t address, uint32_t key, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)s->area, length, s->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = s->number[to],
	}, *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = address;
		wr.wr.atomic.rkey = key;
		wr.wr.atomic.compare_add = 5;
	} else {
		wr.wr.rdma.remote_addr = address;
		wr.wr.rdma.rkey = key;
	}
	MUST(ibv_post_send(s->qp, &wr, &bad));
	return wait_wc(s->cq).status;
}

static void send_message(struct sender *s, int to, unsigned int index)
{
	memset(s->area, (int)index + 1, LENGTH);
	expect(request(s, to, IBV_WR_SEND, 0, 0, LENGTH) == IBV_WC_SUCCESS);
}

/* Messages to both in turn, all under way at once; more than there are receive requests. */
static void send_burst(struct sender *s)
{
	struct ibv_send_wr wr = { .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	unsigned int i;

	wr.send_flags = IBV_SEND_SIGNALED;
	for (i = 0; i < 2 * BURST; i++) {
		unsigned char *at = s->area + i * LENGTH;
		struct ibv_sge sge = { (uintptr_t)at, LENGTH, s->mr->lkey };

		memset(at, (int)(ROUNDS + i / 2 + 1), LENGTH);
		wr.sg_list = &sge;
		wr.qp_type.xrc.remote_srqn = s->number[i % 2];
		MUST(ibv_post_send(s->qp, &wr, &bad));
	}
	for (i = 0; i < 2 * BURST; i++)
		expect(wait_wc(s->cq).status == IBV_WC_SUCCESS);
}

/* Memory of the guest: written, read, counted. */
static void one_sided(struct sender *s, uint64_t address, uint32_t key)
{
	uint64_t word = 100, seen;

	memset(s->area, 'w', LENGTH);
	memcpy(s->area, &word, sizeof(word));
	expect(request(s, TO_GUEST, IBV_WR_RDMA_WRITE, address, key, LENGTH) == IBV_WC_SUCCESS);
	expect(request(s, TO_GUEST, IBV_WR_ATOMIC_FETCH_AND_ADD, address, key, 8) ==
	       IBV_WC_SUCCESS);
	memcpy(&seen, s->area, sizeof(seen));
	expect(seen == 100);
	memset(s->area, 0, LENGTH);
	expect(request(s, TO_GUEST, IBV_WR_RDMA_READ, address, key, LENGTH) == IBV_WC_SUCCESS);
	memcpy(&seen, s->area, sizeof(seen));
	expect(seen == 105 && s->area[8] == 'w' && s->area[LENGTH - 1] == 'w');
}

static void sender(struct talk *home)
{
	struct sender s = { .context = open_rxe() };
	struct ibv_qp_init_attr_ex init = {
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
	};
	struct ibv_qp_attr attr = attr_init();
	uint64_t address;
	unsigned int i;
	uint32_t key;

	s.pd = MUST_PTR(ibv_alloc_pd(s.context));
	s.cq = MUST_PTR(ibv_create_cq(s.context, 16, NULL, NULL, 0));
	s.area = MUST_PTR((unsigned char *)calloc(2 * BURST, LENGTH));
	s.mr = MUST_PTR(ibv_reg_mr(s.pd, s.area, 2 * BURST * LENGTH, ALL_ACCESS));
	init.send_cq = s.cq;
	init.pd = s.pd;
	s.qp = MUST_PTR(ibv_create_qp_ex(s.context, &init));
	tell(home, s.qp->qp_num);
	MUST(ibv_modify_qp(s.qp, &attr, RC_INIT_MASK));
	attr = attr_rtr(s.context, (uint32_t)hear(home));
	MUST(ibv_modify_qp(s.qp, &attr, RC_RTR_MASK));
	attr = attr_rts();
	MUST(ibv_modify_qp(s.qp, &attr, RC_RTS_MASK));
	s.number[TO_HOME] = (uint32_t)hear(home);
	s.number[TO_GUEST] = (uint32_t)hear(home);
	address = hear(home);
	key = (uint32_t)hear(home);
	for (i = 0; i < ROUNDS; i++) {
		send_message(&s, TO_GUEST, i);
		send_message(&s, TO_HOME, i);
	}
	send_burst(&s);
	one_sided(&s, address, key);
	tell(home, 0);
	/* The guest is gone, the queue pair is not. */
	hear(home);
	for (i = ROUNDS + BURST; i < 2 * ROUNDS; i++)
		send_message(&s, TO_HOME, i);
	tell(home, 0);
	hear(home);
	expect(request(&s, TO_GUEST, IBV_WR_SEND, 0, 0, 8) == IBV_WC_REM_INV_REQ_ERR);
	tell(home, 0);
	MUST(ibv_destroy_qp(s.qp));
	MUST(ibv_dereg_mr(s.mr));
	MUST(ibv_destroy_cq(s.cq));
	MUST(ibv_dealloc_pd(s.pd));
	MUST(ibv_close_device(s.context));
	free(s.area);
}

static void guest(struct talk *home, int fd)
{
	struct side side;
	struct ibv_qp_init_attr told;
	struct ibv_qp_open_attr open_attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp_attr attr = attr_init();
	struct ibv_context *context;
	struct ibv_qp *qp;
	uint64_t i;

	open_attr.qp_num = (uint32_t)hear(home);
	context = open_rxe();
	NOTHING(open_domain(context, fd, O_CREAT | O_EXCL), EEXIST);
	MUST(ibv_close_device(context));
	side = make_side(fd, 0);
	open_attr.xrcd = side.domain;
	open_attr.qp_num++;
	NOTHING(ibv_open_qp(side.context, &open_attr), EINVAL);
	open_attr.qp_num--;
	qp = MUST_PTR(ibv_open_qp(side.context, &open_attr));
	expect(qp->qp_num == open_attr.qp_num);
	/* What one process changes the other sees. */
	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr = attr_rtr(side.context, (uint32_t)hear(home));
	attr.ah_attr.port_num = 77;
	expect(ibv_modify_qp(qp, &attr, RC_RTR_MASK) == EINVAL);
	attr.ah_attr.port_num = 1;
	MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	memset(&attr, 0, sizeof(attr));
	MUST(ibv_query_qp(qp, &attr, IBV_QP_STATE, &told));
	expect(attr.qp_state == IBV_QPS_RTR && told.qp_type == IBV_QPT_XRC_RECV);
	for (i = 0; i < 4; i++)
		post(&side, i);
	tell(home, side.number);
	tell(home, (uintptr_t)side.area + AREA / 2);
	tell(home, side.mr->rkey);
	receive(&side, qp->qp_num, 0, ROUNDS + BURST);
	tell(home, 0);
	/* Until it is killed, at the latest. */
	hear(home);
	MUST(ibv_destroy_qp(qp));
	unmake_side(&side);
}

static pid_t start(struct talk *talk, void (*run)(struct talk *, int), int fd)
{
	int there[2], back[2];
	pid_t child;

	MUST(pipe(there));
	MUST(pipe(back));
	child = fork();
	expect(child >= 0);
	*talk = child ? (struct talk){ there[1], back[0] } : (struct talk){ back[1], there[0] };
	close(child ? there[0] : there[1]);
	close(child ? back[1] : back[0]);
	if (!child) {
		run(talk, fd);
		_exit(0);
	}
	return child;
}

static void run_sender(struct talk *talk, int fd)
{
	(void)fd;
	sender(talk);
}

static struct ibv_qp *new_target(struct side *side)
{
	struct ibv_qp_init_attr_ex init = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = side->domain,
	};

	return MUST_PTR(ibv_create_qp_ex(side->context, &init));
}

/* All of it, with a guest that is killed in the end, or leaves. */
static void together(bool kill_guest)
{
	char name[] = "/tmp/xrc-XXXXXX";
	int fd = mkstemp(name), status;
	struct talk to_sender, to_guest;
	struct ibv_qp_init_attr told;
	struct ibv_qp_attr attr;
	pid_t sends, visits;
	struct side side;
	struct ibv_qp *qp;
	uint64_t i;

	expect(fd >= 0);
	MUST(unlink(name));
	sends = start(&to_sender, run_sender, fd);
	visits = start(&to_guest, guest, fd);
	side = make_side(fd, O_CREAT | O_EXCL);
	qp = new_target(&side);
	tell(&to_guest, qp->qp_num);
	tell(&to_guest, hear(&to_sender));
	tell(&to_sender, qp->qp_num);
	for (i = 0; i < 4; i++)
		post(&side, i);
	tell(&to_sender, side.number);
	tell(&to_sender, hear(&to_guest));
	tell(&to_sender, hear(&to_guest));
	tell(&to_sender, hear(&to_guest));
	receive(&side, qp->qp_num, 0, ROUNDS + BURST);
	hear(&to_guest);
	hear(&to_sender);
	memset(&attr, 0, sizeof(attr));
	MUST(ibv_query_qp(qp, &attr, IBV_QP_STATE, &told));
	expect(attr.qp_state == IBV_QPS_RTR);
	/* The queue pair is at the guest: a write, a read and an atomic operation came last. */
	if (kill_guest)
		MUST(kill(visits, SIGKILL));
	else
		tell(&to_guest, 0);
	expect(waitpid(visits, &status, 0) == visits);
	expect(kill_guest ? WIFSIGNALED(status) : status == 0);
	tell(&to_sender, 0);
	receive(&side, qp->qp_num, ROUNDS + BURST, ROUNDS - BURST);
	hear(&to_sender);
	/* The guest's queue is gone, and whoever sends there has his connection broken. */
	tell(&to_sender, 0);
	hear(&to_sender);
	memset(&attr, 0, sizeof(attr));
	MUST(ibv_query_qp(qp, &attr, IBV_QP_STATE, &told));
	expect(attr.qp_state == IBV_QPS_ERR);
	expect(waitpid(sends, &status, 0) == sends && status == 0);
	MUST(ibv_destroy_qp(qp));
	NOTHING(open_domain(side.context, fd, O_CREAT | O_EXCL), EEXIST);
	unmake_side(&side);
	close(fd);
	out("the guest %s", kill_guest ? "was killed" : "left");
}

static void home_alone(struct talk *guest, int fd)
{
	struct side side = make_side(fd, O_CREAT);

	tell(guest, new_target(&side)->qp_num);
	/* Until it is killed. */
	hear(guest);
}

/* What is left to who has a queue pair open whose home is killed. */
static void without_home(void)
{
	char name[] = "/tmp/xrc-XXXXXX";
	int fd = mkstemp(name), status;
	struct ibv_qp_open_attr open_attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_async_event event;
	struct ibv_qp_init_attr told;
	struct ibv_qp_attr attr = attr_init();
	struct talk home;
	struct side side;
	struct ibv_qp *qp;
	pid_t child;

	expect(fd >= 0);
	MUST(unlink(name));
	child = start(&home, home_alone, fd);
	open_attr.qp_num = (uint32_t)hear(&home);
	side = make_side(fd, 0);
	open_attr.xrcd = side.domain;
	qp = MUST_PTR(ibv_open_qp(side.context, &open_attr));
	MUST(kill(child, SIGKILL));
	expect(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	MUST(ibv_get_async_event(side.context, &event));
	expect(event.event_type == IBV_EVENT_QP_FATAL && event.element.qp == qp);
	ibv_ack_async_event(&event);
	expect(ibv_query_qp(qp, &attr, IBV_QP_STATE, &told) == EIO);
	expect(ibv_modify_qp(qp, &attr, RC_INIT_MASK) == EIO);
	NOTHING(open_domain(side.context, fd, O_CREAT | O_EXCL), EEXIST);
	MUST(ibv_destroy_qp(qp));
	NOTHING(ibv_open_qp(side.context, &open_attr), EINVAL);
	unmake_side(&side);
	close(fd);
	out("the home was killed");
}

/* A domain goes with the last process that has it open. */
static void gone(void)
{
	struct ibv_context *context = open_rxe();
	char name[] = "/tmp/xrc-XXXXXX";
	int fd = mkstemp(name);

	expect(fd >= 0);
	MUST(unlink(name));
	NOTHING(open_domain(context, fd, 0), ENOENT);
	MUST(ibv_close_xrcd(MUST_PTR(open_domain(context, fd, O_CREAT))));
	NOTHING(open_domain(context, fd, 0), ENOENT);
	MUST(ibv_close_device(context));
	close(fd);
}

int main(void)
{
	if (!own_network()) {
		out("skipped: no network namespace: %s", errno_name(errno));
		return done();
	}
	expect(!system("ip link set lo up"));
	setenv("UROCE_DEVICES", "lo", 1);
	together(false);
	together(true);
	without_home();
	gone();
	return done();
}
