/*
 * The descriptors of events, as event loops see them: readable when there is an event, never
 * writable, whatever is asked for.
 */
#ifndef DESCRIPTORS_H
#define DESCRIPTORS_H

#include "rdma.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

static inline short ready(int fd)
{
	struct pollfd watched = { .fd = fd, .events = POLLIN | POLLOUT | POLLPRI };

	expect(poll(&watched, 1, 0) >= 0);
	return watched.revents & ~POLLRDNORM;
}

static inline void idle(const char *what, int fd)
{
	char bytes[16] = { 0 };
	int flags = fcntl(fd, F_GETFL);

	expect(ready(fd) == 0);
	errno = 0;
	expect(write(fd, bytes, sizeof(bytes)) == -1 && errno == EBADF);
	/* As programs do that never want to wait. */
	expect(fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0);
	expect(read(fd, bytes, sizeof(bytes)) == -1 && errno == EAGAIN);
	expect(fcntl(fd, F_SETFL, flags) == 0);
	out("%s: not ready, not to be written to", what);
}

/* A request whose completion is an event. */
static inline void cause(struct ibv_qp *qp, struct ibv_cq *cq)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	MUST(ibv_req_notify_cq(cq, 0));
	MUST(ibv_post_send(qp, &wr, &bad));
}

static inline void taken(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct ibv_cq *reported;
	void *own;

	MUST(ibv_get_cq_event(channel, &reported, &own));
	expect(reported == cq);
	ibv_ack_cq_events(cq, 1);
	expect(wait_wc(cq).status == IBV_WC_SUCCESS);
}

static inline void descriptors(void)
{
	struct ibv_context *context = open_rxe();
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_comp_channel *channel = MUST_PTR(ibv_create_comp_channel(context));
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 16, NULL, channel, 0));
	struct ibv_qp_init_attr init = init_attr(cq, IBV_QPT_RC);
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pd, &init));
	struct epoll_event event = { .events = EPOLLIN | EPOLLOUT | EPOLLET };
	int set = epoll_create1(EPOLL_CLOEXEC), copy, i;

	idle("completion channel", channel->fd);
	idle("asynchronous events", context->async_fd);
	connect_qp(qp, qp->qp_num);
	expect(set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, channel->fd, &event));
	expect(epoll_wait(set, &event, 1, 0) == 0);
	for (i = 0; i < 3; i++) {
		cause(qp, cq);
		expect(epoll_wait(set, &event, 1, -1) == 1);
		expect((event.events & ~EPOLLRDNORM) == EPOLLIN);
		expect(ready(channel->fd) == POLLIN);
		taken(channel, cq);
		expect(epoll_wait(set, &event, 1, 0) == 0);
		expect(ready(channel->fd) == 0);
	}
	out("edge-triggered: one wake-up an event");

	/* A duplicate is the same; nothing hangs up as long as the channel is there. */
	copy = dup(channel->fd);
	expect(copy >= 0);
	cause(qp, cq);
	expect(epoll_wait(set, &event, 1, -1) == 1 && ready(copy) == POLLIN);
	taken(channel, cq);
	expect(ready(copy) == 0);
	close(copy);
	expect(ready(channel->fd) == 0);
	out("duplicates");

	close(set);
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_destroy_comp_channel(channel));
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_close_device(context));
}

#endif
