/* One process writes into the other's memory. The other sleeps until the data is there.
 *
 *     cc -o write_with_events write_with_events.c -libverbs && ./write_with_events [DEVICE]
 *
 * Shown: RDMA write with immediate data, a completion channel, and the order of calls that loses no
 * event: request, poll earlier completions, sleep, acknowledge. */
#include "example.h"

enum { SIZE = 1 << 20, TOTAL = 4 };

/* Sleeps until the queue has a completion. */
static struct ibv_wc sleep_for_completion(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct ibv_wc wc;
	for (;;) {
		/* A completion that came before the request causes no event, so poll after it. */
		check_errno(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
		int found = ibv_poll_cq(cq, 1, &wc);
		check(found >= 0, "ibv_poll_cq");
		if (found) {
			check_completion(&wc);
			return wc;
		}
		struct ibv_cq *of;
		void *context;
		check(ibv_get_cq_event(channel, &of, &context) == 0, "ibv_get_cq_event");
		ibv_ack_cq_events(of, 1);
	}
}

static void receiver(int peer, const char *device)
{
	struct ibv_context *context = open_device(device);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	check(pd && channel, "ibv_create_comp_channel");
	struct ibv_cq *cq = ibv_create_cq(context, 32, NULL, channel, 0);
	check(cq != NULL, "ibv_create_cq");
	char *memory = calloc(TOTAL, SIZE);
	check(memory != NULL, "calloc");
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, (size_t)TOTAL * SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	check(mr != NULL, "ibv_reg_mr");

	struct ibv_qp *qp = create_rc(pd, cq, NULL);
	struct address mine = address_of(qp, mr);
	struct address theirs = exchange(peer, mine);
	connect_rc(qp, &mine, &theirs);
	/* Immediate data takes a receive request each; the request needs no memory for it. */
	for (int i = 0; i < TOTAL; i++) {
		struct ibv_recv_wr wr = { .wr_id = (uint64_t)i }, *bad;
		check_errno(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
	}
	barrier(peer);

	for (int i = 0; i < TOTAL; i++) {
		struct ibv_wc wc = sleep_for_completion(channel, cq);
		uint32_t part = be32toh(wc.imm_data);
		if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM || part >= TOTAL || memory[(size_t)part * SIZE] != 'a' + (char)part) {
			fprintf(stderr, "part %u is not as it was written\n", part);
			exit(1);
		}
		printf("part %u: %u bytes are there\n", part, wc.byte_len);
	}
	fflush(stdout);
	barrier(peer);
	check_errno(ibv_destroy_qp(qp), "ibv_destroy_qp");
	check_errno(ibv_destroy_cq(cq), "ibv_destroy_cq");
	check_errno(ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
	check_errno(ibv_dereg_mr(mr), "ibv_dereg_mr");
	check_errno(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	check_errno(ibv_close_device(context), "ibv_close_device");
	free(memory);
}

static void writer(int peer, const char *device)
{
	struct ibv_context *context = open_device(device);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	check(pd != NULL, "ibv_alloc_pd");
	struct ibv_cq *cq = ibv_create_cq(context, 32, NULL, NULL, 0);
	check(cq != NULL, "ibv_create_cq");
	char *memory = malloc(SIZE);
	check(memory != NULL, "malloc");
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, SIZE, 0);
	check(mr != NULL, "ibv_reg_mr");
	struct ibv_qp *qp = create_rc(pd, cq, NULL);
	struct address mine = address_of(qp, NULL);
	struct address theirs = exchange(peer, mine);
	connect_rc(qp, &mine, &theirs);
	barrier(peer);

	for (uint32_t part = 0; part < TOTAL; part++) {
		memset(memory, 'a' + (int)part, SIZE);
		struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = SIZE, .lkey = mr->lkey };
		struct ibv_send_wr wr = {
			.wr_id = part,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
			.send_flags = IBV_SEND_SIGNALED,
			.imm_data = htobe32(part),
			.wr.rdma = { .remote_addr = theirs.buffer + (uint64_t)part * SIZE, .rkey = theirs.rkey },
		}, *bad;
		check_errno(ibv_post_send(qp, &wr, &bad), "ibv_post_send");
		/* The memory may be used again when the request has completed, and no earlier. */
		wait_for_completion(cq);
	}
	barrier(peer);
	check_errno(ibv_destroy_qp(qp), "ibv_destroy_qp");
	check_errno(ibv_destroy_cq(cq), "ibv_destroy_cq");
	check_errno(ibv_dereg_mr(mr), "ibv_dereg_mr");
	check_errno(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	check_errno(ibv_close_device(context), "ibv_close_device");
	free(memory);
}

int main(int argc, char **argv)
{
	return two_processes(writer, receiver, argc > 1 ? argv[1] : NULL);
}
