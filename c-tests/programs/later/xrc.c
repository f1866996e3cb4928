/*
 * XRC domains between processes over a device in user space. One process makes the domain
 * and the receiving queue pair ("home"), another has a shared receive queue in the domain
 * ("guest"), a third sends to both in turn. In a network namespace of the program's own.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "xrc.h"

#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

enum {
	/* Messages to each side, one at a time and then several under way. */
	ROUNDS = 40,
	BURST = 8,
	LENGTH = 5000,
	/* Whose queue. */
	TO_HOME = 0,
	TO_GUEST = 1,
	/* The bit of a number at which its process begins. */
	SLOT = 14,
};

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

/* Said once: a queue pair in the error state answers nobody who missed it. */
static bool is_refusal(enum ibv_wc_status status)
{
	return status == IBV_WC_REM_INV_REQ_ERR ||
	       (getenv("UROCE_FAULTS") && status == IBV_WC_RETRY_EXC_ERR);
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
	enum ibv_wc_status refused;
	struct sender s;
	uint64_t address;
	unsigned int i;
	uint32_t key;

	s = make_sender(home, 2 * BURST * LENGTH);
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
	refused = request(&s, TO_GUEST, IBV_WR_SEND, 0, 0, 8);
	expect(is_refusal(refused));
	tell(home, 0);
	unmake_sender(&s);
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

static void run_sender(struct talk *talk, int fd)
{
	(void)fd;
	sender(talk);
}

/* All of it, with a guest that is killed in the end, or leaves. */
static void together(bool kill_guest)
{
	int fd = new_file(), status;
	struct talk to_sender, to_guest;
	struct ibv_qp_init_attr told;
	struct ibv_qp_attr attr;
	pid_t sends, visits;
	struct side side;
	struct ibv_qp *qp;
	uint64_t i;

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

/* A domain goes with the last process that has it open. */
static void gone(void)
{
	struct ibv_context *context = open_rxe();
	int fd = new_file();

	NOTHING(open_domain(context, fd, 0), ENOENT);
	MUST(ibv_close_xrcd(MUST_PTR(open_domain(context, fd, O_CREAT))));
	NOTHING(open_domain(context, fd, 0), ENOENT);
	MUST(ibv_close_device(context));
	close(fd);
}

static void early_sender(struct talk *home, int fd)
{
	struct sender s = make_sender(home, 8);

	(void)fd;
	s.number[TO_GUEST] = (uint32_t)hear(home);
	tell(home, request(&s, TO_GUEST, IBV_WR_SEND, 0, 0, 8));
	unmake_sender(&s);
}

/* What a process shows that has opened the domain, and that the others have not heard yet. */
static int newcomer(uint32_t slot, int fd)
{
	int listening = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	struct stat file;
	int length;

	expect(listening >= 0);
	MUST(fstat(fd, &file));
	length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
			  "uroce/%u/xrc/%u/%llx:%llx/lo", slot, geteuid(),
			  (unsigned long long)file.st_dev, (unsigned long long)file.st_ino);
	MUST(bind(listening, (struct sockaddr *)&name,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)));
	MUST(listen(listening, 64));
	return listening;
}

/* Packets for a process that is about to join are lost, as on a network: they may come before it
 * has been heard of. The same without the process break the connection. */
static void early(bool joins)
{
	int fd = new_file(), status, listening = -1;
	struct ibv_qp_attr attr = attr_init();
	struct ibv_qp_init_attr told;
	uint32_t number, slot = 1;
	enum ibv_wc_status said;
	struct talk to_sender;
	struct side side;
	struct ibv_qp *qp;
	pid_t sends;

	sends = start(&to_sender, early_sender, fd);
	side = make_side(fd, O_CREAT | O_EXCL);
	qp = new_target(&side);
	number = (uint32_t)hear(&to_sender);
	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr = attr_rtr(side.context, number);
	MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	while (slot == number >> SLOT || slot == qp->qp_num >> SLOT)
		slot++;
	if (joins)
		listening = newcomer(slot, fd);
	tell(&to_sender, qp->qp_num);
	tell(&to_sender, slot << SLOT | 1);
	said = (enum ibv_wc_status)hear(&to_sender);
	expect(joins ? said == IBV_WC_RETRY_EXC_ERR : is_refusal(said));
	memset(&attr, 0, sizeof(attr));
	MUST(ibv_query_qp(qp, &attr, IBV_QP_STATE, &told));
	expect(attr.qp_state == (joins ? IBV_QPS_RTR : IBV_QPS_ERR));
	expect(waitpid(sends, &status, 0) == sends && status == 0);
	if (joins)
		close(listening);
	MUST(ibv_destroy_qp(qp));
	unmake_side(&side);
	close(fd);
	out("a process that %s", joins ? "is about to join" : "is not there");
}

int main(void)
{
	if (!own_device())
		return done();
	early(true);
	early(false);
	together(false);
	together(true);
	gone();
	return done();
}
