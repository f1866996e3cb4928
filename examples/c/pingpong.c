/* Two processes send a message to and fro over a reliable connection.
 *
 *     cc -o pingpong pingpong.c -libverbs && ./pingpong [DEVICE]
 *
 * Shown: opening a device, registering memory, connecting, posting, polling, cleaning up. */
#include "example.h"

enum { ROUNDS = 1000, SEND = 1, RECEIVE = 2 };

static void send_message(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = (uint32_t)mr->length, .lkey = mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	check_errno(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

/* Both a send and a receive have to complete in a round, in any order. */
static void wait_for_round(struct ibv_cq *cq)
{
	uint64_t done = 0;
	while (done != (SEND | RECEIVE))
		done |= wait_for_completion(cq).wr_id;
}

static void run(int peer, const char *device, int begins)
{
	struct ibv_context *context = open_device(device);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	check(pd != NULL, "ibv_alloc_pd");
	struct ibv_cq *cq = ibv_create_cq(context, 32, NULL, NULL, 0);
	check(cq != NULL, "ibv_create_cq");

	uint32_t out[16] = { 0 }, in[16] = { 0 };
	struct ibv_mr *out_mr = ibv_reg_mr(pd, out, sizeof out, 0);
	struct ibv_mr *in_mr = ibv_reg_mr(pd, in, sizeof in, IBV_ACCESS_LOCAL_WRITE);
	check(out_mr && in_mr, "ibv_reg_mr");

	struct ibv_qp *qp = create_rc(pd, cq, NULL);
	struct address mine = address_of(qp, NULL);
	struct address theirs = exchange(peer, mine);
	connect_rc(qp, &mine, &theirs);
	post_receive(qp, in_mr, RECEIVE);
	/* Neither process sends before both have posted a receive request. */
	barrier(peer);

	for (uint32_t round = 1; round <= ROUNDS; round++) {
		if (begins) {
			out[0] = round;
			send_message(qp, out_mr);
			wait_for_round(cq);
			if (in[0] != round + ROUNDS) {
				fprintf(stderr, "round %u: %u came back\n", round, in[0]);
				exit(1);
			}
			if (round < ROUNDS)
				post_receive(qp, in_mr, RECEIVE);
		} else {
			struct ibv_wc wc = wait_for_completion(cq);
			while (wc.wr_id != RECEIVE)
				wc = wait_for_completion(cq);
			out[0] = in[0] + ROUNDS;
			if (round < ROUNDS)
				post_receive(qp, in_mr, RECEIVE);
			send_message(qp, out_mr);
		}
	}
	if (begins)
		printf("%d messages each way over %s\n", ROUNDS, ibv_get_device_name(context->device));
	/*
	 * Neither process ends before the other has everything: its last acknowledgement would be
	 * missing.
	 */
	barrier(peer);

	check_errno(ibv_destroy_qp(qp), "ibv_destroy_qp");
	check_errno(ibv_dereg_mr(in_mr), "ibv_dereg_mr");
	check_errno(ibv_dereg_mr(out_mr), "ibv_dereg_mr");
	check_errno(ibv_destroy_cq(cq), "ibv_destroy_cq");
	check_errno(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	check_errno(ibv_close_device(context), "ibv_close_device");
}

static void answering(int peer, const char *device)
{
	run(peer, device, 0);
}

static void beginning(int peer, const char *device)
{
	run(peer, device, 1);
}

int main(int argc, char **argv)
{
	return two_processes(answering, beginning, argc > 1 ? argv[1] : NULL);
}
