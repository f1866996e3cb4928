/* A loop that waits for asynchronous events with poll(2).
 *
 *     cc -o async_events async_events.c -libverbs && ./async_events [DEVICE]
 *
 * Shown: the descriptor of a context among others in a loop, and that each event has to be
 * acknowledged. The event here is that of a shared receive queue that runs low. */
#include <fcntl.h>
#include <poll.h>

#include "example.h"

enum { REQUESTS = 4, LIMIT = 2 };

/* Reads all pending events without waiting. Returns how many reported that a queue runs low. */
static int take_events(struct ibv_context *context)
{
	struct ibv_async_event event;
	int low = 0;
	while (ibv_get_async_event(context, &event) == 0) {
		printf("%s\n", ibv_event_type_str(event.event_type));
		low += event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED;
		/* Destroying an object waits until all of its events were acknowledged. */
		ibv_ack_async_event(&event);
	}
	check(errno == EAGAIN, "ibv_get_async_event");
	return low;
}

static void post(struct ibv_srq *srq, struct ibv_mr *mr)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = (uint32_t)mr->length, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	check_errno(ibv_post_srq_recv(srq, &wr, &bad), "ibv_post_srq_recv");
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	int flags = fcntl(context->async_fd, F_GETFL);
	check(flags >= 0 && fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) == 0, "fcntl");

	struct ibv_pd *pd = ibv_alloc_pd(context);
	check(pd != NULL, "ibv_alloc_pd");
	struct ibv_cq *cq = ibv_create_cq(context, 32, NULL, NULL, 0);
	check(cq != NULL, "ibv_create_cq");
	char memory[64] = "";
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
	check(mr != NULL, "ibv_reg_mr");
	struct ibv_srq_init_attr init = { .attr = { .max_wr = REQUESTS, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &init);
	check(srq != NULL, "ibv_create_srq");

	/*
	 * Two queue pairs of this process, connected with each other, take receives from one queue.
	 */
	struct ibv_qp *one = create_rc(pd, cq, srq), *two = create_rc(pd, cq, srq);
	struct address of_one = address_of(one, NULL), of_two = address_of(two, NULL);
	connect_rc(one, &of_one, &of_two);
	connect_rc(two, &of_two, &of_one);
	for (int i = 0; i < REQUESTS; i++)
		post(srq, mr);
	/* An event when fewer than LIMIT are left; the limit has to be armed again after each. */
	struct ibv_srq_attr limit = { .srq_limit = LIMIT };
	check_errno(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), "ibv_modify_srq");

	for (int i = 0; i < REQUESTS - LIMIT + 1; i++) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
		check_errno(ibv_post_send(one, &wr, &bad), "ibv_post_send");
		/* One completion of the send, one of the receive. */
		wait_for_completion(cq);
		wait_for_completion(cq);
	}

	int low = 0;
	while (!low) {
		struct pollfd fds = { .fd = context->async_fd, .events = POLLIN };
		check(poll(&fds, 1, -1) >= 0 || errno == EINTR, "poll");
		low = take_events(context);
	}
	printf("the shared receive queue ran low\n");

	check_errno(ibv_destroy_qp(one), "ibv_destroy_qp");
	check_errno(ibv_destroy_qp(two), "ibv_destroy_qp");
	check_errno(ibv_destroy_srq(srq), "ibv_destroy_srq");
	check_errno(ibv_dereg_mr(mr), "ibv_dereg_mr");
	check_errno(ibv_destroy_cq(cq), "ibv_destroy_cq");
	check_errno(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	check_errno(ibv_close_device(context), "ibv_close_device");
	return 0;
}
