/*
 * XRC domains between processes over a device in user space. One process makes the domain
 * and the receiving queue pair ("owner"), another has a shared receive queue in the domain
 * ("delegate"), a third sends to both in turn. In a network namespace of the program's own.
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
	/* Owner of the queue. */
	TO_OWNER = 0,
	TO_DELEGATE = 1,
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

/* Printed once: a queue pair in the error state does not answer a later request. */
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

/* Memory of the delegate: written, read, counted. */
static void one_sided(struct sender *s, uint64_t address, uint32_t key)
{
	uint64_t word = 100, seen;

	memset(s->area, 'w', LENGTH);
	memcpy(s->area, &word, sizeof(word));
	expect(request(s, TO_DELEGATE, IBV_WR_RDMA_WRITE, address, key, LENGTH) == IBV_WC_SUCCESS);
	expect(request(s, TO_DELEGATE, IBV_WR_ATOMIC_FETCH_AND_ADD, address, key, 8) ==
	       IBV_WC_SUCCESS);
	memcpy(&seen, s->area, sizeof(seen));
	expect(seen == 100);
	memset(s->area, 0, LENGTH);
	expect(request(s, TO_DELEGATE, IBV_WR_RDMA_READ, address, key, LENGTH) == IBV_WC_SUCCESS);
	memcpy(&seen, s->area, sizeof(seen));
	expect(seen == 105 && s->area[8] == 'w' && s->area[LENGTH - 1] == 'w');
}

static void sender(struct talk *owner)
{
	enum ibv_wc_status refused;
	struct sender s;
	uint64_t address;
	unsigned int i;
	uint32_t key;

	s = make_sender(owner, 2 * BURST * LENGTH);
	s.number[TO_OWNER] = (uint32_t)receive_number(owner);
	s.number[TO_DELEGATE] = (uint32_t)receive_number(owner);
	address = receive_number(owner);
	key = (uint32_t)receive_number(owner);
	for (i = 0; i < ROUNDS; i++) {
		send_message(&s, TO_DELEGATE, i);
		send_message(&s, TO_OWNER, i);
	}
	send_burst(&s);
	one_sided(&s, address, key);
	send_number(owner, 0);
	/* The delegate is gone, the queue pair is not. */
	receive_number(owner);
	for (i = ROUNDS + BURST; i < 2 * ROUNDS; i++)
		send_message(&s, TO_OWNER, i);
	send_number(owner, 0);
	receive_number(owner);
	refused = request(&s, TO_DELEGATE, IBV_WR_SEND, 0, 0, 8);
	expect(is_refusal(refused));
	send_number(owner, 0);
	unmake_sender(&s);
}

static void delegate(struct talk *owner, int fd)
{
	struct side side;
	struct ibv_qp_init_attr reported;
	struct ibv_qp_open_attr open_attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp_attr attr = attr_init();
	struct ibv_context *context;
	struct ibv_qp *qp;
	uint64_t i;

	open_attr.qp_num = (uint32_t)receive_number(owner);
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
	/* A change by one process is visible to the other. */
	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr = attr_rtr(side.context, (uint32_t)receive_number(owner));
	attr.ah_attr.port_num = 77;
	expect(ibv_modify_qp(qp, &attr, RC_RTR_MASK) == EINVAL);
	attr.ah_attr.port_num = 1;
	MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	memset(&attr, 0, sizeof(attr));
	MUST(ibv_query_qp(qp, &attr, IBV_QP_STATE, &reported));
	expect(attr.qp_state == IBV_QPS_RTR && reported.qp_type == IBV_QPT_XRC_RECV);
	for (i = 0; i < 4; i++)
		post(&side, i);
	send_number(owner, side.number);
	send_number(owner, (uintptr_t)side.area + AREA / 2);
	send_number(owner, side.mr->rkey);
	receive(&side, qp->qp_num, 0, ROUNDS + BURST);
	send_number(owner, 0);
	/* Until it is killed, at the latest. */
	receive_number(owner);
	MUST(ibv_destroy_qp(qp));
	unmake_side(&side);
}

static void run_sender(struct talk *talk, int fd)
{
	(void)fd;
	sender(talk);
}

/* All of it, with a delegate that is killed in the end, or leaves. */
static void together(bool kill_delegate)
{
	int fd = new_file(), status;
	struct talk to_sender, to_delegate;
	struct ibv_qp_init_attr reported;
	struct ibv_qp_attr attr;
	pid_t sends, delegate_pid;
	struct side side;
	struct ibv_qp *qp;
	uint64_t i;

	sends = start(&to_sender, run_sender, fd);
	delegate_pid = start(&to_delegate, delegate, fd);
	side = make_side(fd, O_CREAT | O_EXCL);
	qp = new_target(&side);
	send_number(&to_delegate, qp->qp_num);
	send_number(&to_delegate, receive_number(&to_sender));
	send_number(&to_sender, qp->qp_num);
	for (i = 0; i < 4; i++)
		post(&side, i);
	send_number(&to_sender, side.number);
	send_number(&to_sender, receive_number(&to_delegate));
	send_number(&to_sender, receive_number(&to_delegate));
	send_number(&to_sender, receive_number(&to_delegate));
	receive(&side, qp->qp_num, 0, ROUNDS + BURST);
	receive_number(&to_delegate);
	receive_number(&to_sender);
	memset(&attr, 0, sizeof(attr));
	MUST(ibv_query_qp(qp, &attr, IBV_QP_STATE, &reported));
	expect(attr.qp_state == IBV_QPS_RTR);
	/* The queue pair is at the delegate: a write, a read and an atomic operation came last. */
	if (kill_delegate)
		MUST(kill(delegate_pid, SIGKILL));
	else
		send_number(&to_delegate, 0);
	expect(waitpid(delegate_pid, &status, 0) == delegate_pid);
	expect(kill_delegate ? WIFSIGNALED(status) : status == 0);
	send_number(&to_sender, 0);
	receive(&side, qp->qp_num, ROUNDS + BURST, ROUNDS - BURST);
	receive_number(&to_sender);
	/* The delegate's queue is gone, and the connection of a sender to it breaks. */
	send_number(&to_sender, 0);
	receive_number(&to_sender);
	memset(&attr, 0, sizeof(attr));
	MUST(ibv_query_qp(qp, &attr, IBV_QP_STATE, &reported));
	expect(attr.qp_state == IBV_QPS_ERR);
	expect(waitpid(sends, &status, 0) == sends && status == 0);
	MUST(ibv_destroy_qp(qp));
	NOTHING(open_domain(side.context, fd, O_CREAT | O_EXCL), EEXIST);
	unmake_side(&side);
	close(fd);
	out("the delegate %s", kill_delegate ? "was killed" : "left");
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

static void early_sender(struct talk *owner, int fd)
{
	struct sender s = make_sender(owner, 8);

	(void)fd;
	s.number[TO_DELEGATE] = (uint32_t)receive_number(owner);
	send_number(owner, request(&s, TO_DELEGATE, IBV_WR_SEND, 0, 0, 8));
	unmake_sender(&s);
}

/* A process that has just opened the domain announces itself to the others. */
static int newcomer(uint32_t slot, int fd)
{
	int listening = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	struct stat file;
	int length;

	expect(listening >= 0);
	MUST(fstat(fd, &file));
	length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
			  "uroce/%u/xrc/%u/%llx:%llx/lo/0123456789abcdef01234567", slot,
			  geteuid(), (unsigned long long)file.st_dev,
			  (unsigned long long)file.st_ino);
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
	struct ibv_qp_init_attr reported;
	uint32_t number, slot = 1;
	enum ibv_wc_status sent_status;
	struct talk to_sender;
	struct side side;
	struct ibv_qp *qp;
	pid_t sends;

	sends = start(&to_sender, early_sender, fd);
	side = make_side(fd, O_CREAT | O_EXCL);
	qp = new_target(&side);
	number = (uint32_t)receive_number(&to_sender);
	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr = attr_rtr(side.context, number);
	MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	while (slot == number >> SLOT || slot == qp->qp_num >> SLOT)
		slot++;
	if (joins)
		listening = newcomer(slot, fd);
	send_number(&to_sender, qp->qp_num);
	send_number(&to_sender, slot << SLOT | 1);
	sent_status = (enum ibv_wc_status)receive_number(&to_sender);
	expect(joins ? sent_status == IBV_WC_RETRY_EXC_ERR : is_refusal(sent_status));
	memset(&attr, 0, sizeof(attr));
	MUST(ibv_query_qp(qp, &attr, IBV_QP_STATE, &reported));
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
