/*
 * XRC receive queue pairs that outlive the process that made them: it is killed while messages
 * flow, and a process that has the queue pair open takes over. Every message arrives once, in
 * order, in the queue that it names. Runs in a separate network namespace, over each carrier.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "xrc.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

enum {
	/* Messages to each side until the first kill at the latest, and in all. */
	MESSAGES = 60,
	/* Messages under way at once. */
	WINDOW = 6,
	LENGTH = 3000,
	ROUNDS = 3,
	/* Owner of the queue. */
	TO_FIRST = 0,
	TO_SECOND = 1,
};

/* The role of the second process besides having a queue in the domain. */
enum second { OPENS, ONLY_RECEIVES };

static void send_one(struct sender *s, int to, unsigned int index, unsigned int place)
{
	unsigned char *at = s->area + place * LENGTH;
	struct ibv_sge sge = { (uintptr_t)at, LENGTH, s->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = s->number[to],
	}, *bad;

	memset(at, (int)index + 1, LENGTH);
	MUST(ibv_post_send(s->qp, &wr, &bad));
}

static void expect_done(struct sender *s)
{
	struct ibv_wc wc = wait_wc(s->cq);

	if (wc.status != IBV_WC_SUCCESS)
		fprintf(stderr, "a message ended with %s\n", ibv_wc_status_str(wc.status));
	expect(wc.status == IBV_WC_SUCCESS);
}

/* Messages to the queues in turn, some under way at once: `sides` of 2, or to the first alone. */
static void flow(struct sender *s, unsigned int first, unsigned int count, unsigned int sides)
{
	unsigned int posted, done = 0, all = count * sides;

	for (posted = 0; posted < all || done < all;) {
		if (posted < all && posted - done < WINDOW) {
			send_one(s, (int)(posted % sides), first + posted / sides, posted % WINDOW);
			posted++;
			continue;
		}
		expect_done(s);
		done++;
	}
}

static void run_sender(struct talk *talk, int fd)
{
	struct sender s = make_sender(talk, WINDOW * LENGTH);

	(void)fd;
	s.number[TO_FIRST] = (uint32_t)receive_number(talk);
	s.number[TO_SECOND] = (uint32_t)receive_number(talk);
	flow(&s, 0, MESSAGES, 2);
	send_number(talk, 0);
	/* The second is killed, too. */
	receive_number(talk);
	flow(&s, MESSAGES, MESSAGES, 1);
	send_number(talk, 0);
	/* No process has the queue pair any more. */
	if (receive_number(talk)) {
		send_one(&s, TO_FIRST, 0, 0);
		expect(wait_wc(s.cq).status == IBV_WC_RETRY_EXC_ERR);
	}
	unmake_sender(&s);
}

static void run_maker(struct talk *talk, int fd)
{
	struct side side = make_side(fd, O_CREAT | O_EXCL);
	struct ibv_qp_attr attr = attr_init();
	struct ibv_qp *qp = new_target(&side);

	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	send_number(talk, qp->qp_num);
	attr = attr_rtr(side.context, (uint32_t)receive_number(talk));
	MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	send_number(talk, 0);
	/* Until it is killed. */
	receive_number(talk);
	expect(false);
}

static void take(struct side *side, uint32_t qpn, unsigned int index)
{
	struct ibv_wc wc = wait_wc(side->cq);
	unsigned char *at = side->area + wc.wr_id % 4 * 8192;

	expect(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
	expect(wc.wr_id == index && wc.byte_len == LENGTH && wc.qp_num == qpn);
	expect(at[0] == index + 1 && at[LENGTH - 1] == index + 1);
	post(side, index + 4);
}

static void fill(struct side *side)
{
	uint64_t i;

	for (i = 0; i < 4; i++)
		post(side, i);
}

static void second(struct talk *talk, int fd, enum second what)
{
	uint32_t number = (uint32_t)receive_number(talk);
	struct side side = make_side(fd, 0);
	unsigned int i;

	if (what == OPENS)
		MUST_PTR(open_target(&side, number));
	fill(&side);
	send_number(talk, side.number);
	for (i = 0; i < MESSAGES; i++)
		take(&side, number, i);
	send_number(talk, 0);
	/* Until it is killed. */
	receive_number(talk);
	expect(false);
}

static void run_second(struct talk *talk, int fd)
{
	second(talk, fd, OPENS);
}

static void run_receiver(struct talk *talk, int fd)
{
	second(talk, fd, ONLY_RECEIVES);
}

static void end(pid_t child)
{
	int status;

	MUST(kill(child, SIGKILL));
	expect(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr reported;
	struct ibv_qp_attr attr;

	memset(&attr, 0, sizeof(attr));
	MUST(ibv_query_qp(qp, &attr, IBV_QP_STATE, &reported));
	expect(reported.qp_type == IBV_QPT_XRC_RECV);
	return attr.qp_state;
}

static unsigned int open_files(void)
{
	DIR *folder = MUST_PTR(opendir("/proc/self/fd"));
	unsigned int count = 0;

	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

/*
 * The maker is killed when the first has received this many messages. Waiting for messages that
 * never arrive takes a second, and is done only on request.
 */
static void outlived(unsigned int kill_at, enum second what, bool to_the_end)
{
	int fd = new_file(), status;
	struct talk to_sender, to_maker, to_second;
	pid_t sends, makes, receives;
	struct ibv_qp *qp, *again;
	struct side side;
	uint32_t number;
	unsigned int i;

	sends = start(&to_sender, run_sender, fd);
	makes = start(&to_maker, run_maker, fd);
	receives = start(&to_second, what == OPENS ? run_second : run_receiver, fd);
	number = (uint32_t)receive_number(&to_maker);
	side = make_side(fd, 0);
	qp = MUST_PTR(open_target(&side, number));
	expect(state_of(qp) == IBV_QPS_INIT);
	fill(&side);
	send_number(&to_second, number);
	send_number(&to_maker, receive_number(&to_sender));
	receive_number(&to_maker);
	send_number(&to_sender, number);
	send_number(&to_sender, side.number);
	send_number(&to_sender, receive_number(&to_second));
	for (i = 0; i < MESSAGES; i++) {
		if (i == kill_at)
			end(makes);
		take(&side, number, i);
	}
	receive_number(&to_second);
	receive_number(&to_sender);
	expect(state_of(qp) == IBV_QPS_RTR);
	/* Others can open it as before. */
	again = MUST_PTR(open_target(&side, number));
	expect(again->qp_num == number && state_of(again) == IBV_QPS_RTR);
	MUST(ibv_destroy_qp(again));
	end(receives);
	send_number(&to_sender, 0);
	for (i = MESSAGES; i < 2 * MESSAGES; i++)
		take(&side, number, i);
	receive_number(&to_sender);
	expect(state_of(qp) == IBV_QPS_RTR);
	MUST(ibv_destroy_qp(qp));
	NOTHING(open_target(&side, number), EINVAL);
	send_number(&to_sender, to_the_end);
	expect(waitpid(sends, &status, 0) == sends && status == 0);
	unmake_side(&side);
	close(fd);
	close(to_sender.to);
	close(to_sender.from);
	close(to_maker.to);
	close(to_maker.from);
	close(to_second.to);
	close(to_second.from);
}

static void run_idle_maker(struct talk *talk, int fd)
{
	struct side side = make_side(fd, O_CREAT);

	send_number(talk, new_target(&side)->qp_num);
	/* Until it is killed. */
	receive_number(talk);
	expect(false);
}

/* A queue pair that is not connected yet: the successor continues from its state. */
static void not_connected(bool opened)
{
	struct ibv_qp_attr attr = attr_init();
	struct ibv_qp *qp = NULL;
	int fd = new_file();
	struct talk maker;
	struct side side;
	uint32_t number;
	pid_t makes;

	makes = start(&maker, run_idle_maker, fd);
	number = (uint32_t)receive_number(&maker);
	side = make_side(fd, 0);
	if (opened) {
		qp = MUST_PTR(open_target(&side, number));
		MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	}
	end(makes);
	if (opened) {
		expect(state_of(qp) == IBV_QPS_INIT);
		attr = attr_rtr(side.context, 1);
		attr.ah_attr.port_num = 77;
		expect(ibv_modify_qp(qp, &attr, RC_RTR_MASK) == EINVAL);
		attr.ah_attr.port_num = 1;
		MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
		expect(state_of(qp) == IBV_QPS_RTR);
		MUST(ibv_destroy_qp(qp));
	}
	/* No process has it open: it has gone, with its maker or with its successor. */
	NOTHING(open_target(&side, number), EINVAL);
	unmake_side(&side);
	close(fd);
	close(maker.to);
	close(maker.from);
}

static void over(const char *carrier)
{
	unsigned int round, files = 0, seed = (unsigned int)getpid();

	setenv("UROCE_CARRIER", carrier, 1);
	not_connected(true);
	not_connected(false);
	for (round = 0; round < ROUNDS; round++) {
		unsigned int at = round ? (unsigned int)rand_r(&seed) % MESSAGES : 0;

		fprintf(stderr, "over %s: killed at %u\n", carrier, at);
		outlived(at, round % 2 ? ONLY_RECEIVES : OPENS, !round);
		/* Objects that the first round leaves open remain. */
		if (round == 0)
			files = open_files();
		expect(open_files() == files);
	}
	out("over %s: nothing lost, nothing twice", carrier);
}

int main(void)
{
	if (!own_device())
		return done();
	over("udp");
	over("shm");
	over("auto");
	return done();
}
