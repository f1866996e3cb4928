/*
 * A program of libibverbs 1.0 over a device in user space, and features that the stock library
 * lacks for it: completion channels of a context of 1.0, members that it leaves unchanged, devices
 * that remain when their list is freed, and results for invalid arguments.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "old_data.h"
#include "network.h"

#include <fcntl.h>
#include <pthread.h>

/* The members that programs read of an object are those of today's object. */
static void members(struct old_context *context, struct old_channel *channel)
{
	struct ibv_context *today = context->real_context;
	struct old_pd *pd = MUST_PTR(old_alloc_pd(context));
	struct old_cq *cq = MUST_PTR(old_create_cq(context, 10, NULL, channel, 0));
	struct old_qp_init_attr init = old_init(cq, IBV_QPT_RC);
	struct ibv_qp_attr attr = attr_init();
	struct old_qp *qp = MUST_PTR(old_create_qp(pd, &init));

	expect(!strcmp(old_get_device_name(context->device), DEVICE_NAME));
	expect(context->async_fd == today->async_fd && context->async_fd >= 0);
	expect(context->cmd_fd == today->cmd_fd);
	expect(context->num_comp_vectors == today->num_comp_vectors);
	expect(channel->fd >= 0 && fcntl(channel->fd, F_GETFD) >= 0);
	expect(cq->cqe >= 10);
	expect(qp->state == IBV_QPS_RESET);
	MUST(old_modify_qp(qp, &attr, RC_INIT_MASK));
	expect(qp->state == IBV_QPS_INIT);
	memset(&attr, 0, sizeof(attr));
	memset(&init, 0xee, sizeof(init));
	MUST(old_query_qp(qp, &attr, IBV_QP_STATE, &init));
	expect(attr.qp_state == IBV_QPS_INIT && init.srq == NULL && init.send_cq == cq);
	MUST(old_resize_cq(cq, 40));
	expect(cq->cqe >= 40);
	expect(RC(old_destroy_comp_channel(channel)) == EBUSY);
	MUST(old_destroy_qp(qp));
	MUST(old_destroy_cq(cq));
	MUST(old_dealloc_pd(pd));
}

/* EINVAL in each of the three ways to answer. */
#define REFUSED(call) expect(RC(call) == EINVAL)
#define MINUS_ONE(call) expect(RC(call) == -1 && errno == EINVAL)
#define NOTHING(call) expect(!PTR(call) && errno == EINVAL)

/* The library writes a port only to the end of 1.0's structure. */
static void port(struct old_context *context)
{
	struct {
		struct ibv_port_attr port;
		uint64_t behind;
	} room;

	memset(&room, 0xee, sizeof(room));
	MUST(old_query_port(context, 1, &room.port));
	expect(room.port.phys_state && room.behind == 0xeeeeeeeeeeeeeeeeULL);
	expect(room.port.port_cap_flags2 == 0xeeee);
}

/* An event about a queue pair: the last request of its shared receive queue was reached. */
static void last_request(struct old_context *context)
{
	struct old_pd *pd = MUST_PTR(old_alloc_pd(context));
	struct old_cq *cq = MUST_PTR(old_create_cq(context, 10, NULL, NULL, 0));
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct old_srq *srq = MUST_PTR(old_create_srq(pd, &srq_init));
	struct old_qp_init_attr init = old_init(cq, IBV_QPT_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_async_event event;
	struct old_qp *qp;

	init.srq = srq;
	qp = MUST_PTR(old_create_qp(pd, &init));
	old_connect(qp, qp->qp_num);
	MUST(old_modify_qp(qp, &attr, IBV_QP_STATE));
	event = old_event(context, IBV_EVENT_QP_LAST_WQE_REACHED);
	expect((void *)event.element.qp == qp);
	old_ack_async_event(&event);
	MUST(old_destroy_qp(qp));
	MUST(old_destroy_srq(srq));
	MUST(old_destroy_cq(cq));
	MUST(old_dealloc_pd(pd));
}

/* Nothing, and objects of today where those of 1.0 belong, the other way round too. */
static void refused(struct old_context *context)
{
	struct ibv_context *today = context->real_context;
	struct ibv_pd *new_pd = MUST_PTR(ibv_alloc_pd(today));
	struct old_pd *pd = MUST_PTR(old_alloc_pd(context));
	struct old_cq *cq = MUST_PTR(old_create_cq(context, 64, NULL, NULL, 0));
	struct old_qp_init_attr init = old_init(cq, IBV_QPT_UD);
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 0x7fffffff, .max_sge = 1 } };
	struct old_qp *qp = MUST_PTR(old_create_qp(pd, &init));
	struct ibv_qp_attr attr = attr_init();
	struct old_send_wr wr[2] = {
		{ .next = &wr[1], .opcode = IBV_WR_BIND_MW },
		{ .opcode = IBV_WR_SEND },
	};
	struct old_send_wr *bad = NULL;
	struct old_recv_wr *bad_receive = NULL;
	struct ibv_async_event event = { .event_type = IBV_EVENT_QP_FATAL };
	struct ibv_device_attr device;
	struct ibv_wc wc;
	union ibv_gid gid;
	uint16_t pkey;
	void *nothing;

	NOTHING(old_open_device(NULL));
	REFUSED(old_close_device(NULL));
	REFUSED(old_close_device((struct old_context *)today));
	NOTHING(old_alloc_pd(NULL));
	NOTHING(old_alloc_pd((struct old_context *)today));
	NOTHING(ibv_alloc_pd((struct ibv_context *)context));
	REFUSED(old_dealloc_pd((struct old_pd *)new_pd));
	REFUSED(ibv_dealloc_pd((struct ibv_pd *)pd));
	NOTHING(old_reg_mr(NULL, &device, sizeof(device), 0));
	REFUSED(old_dereg_mr(NULL));
	NOTHING(old_create_cq(NULL, 1, NULL, NULL, 0));
	NOTHING(old_create_cq(context, 0, NULL, NULL, 0));
	REFUSED(old_resize_cq(NULL, 2));
	REFUSED(old_destroy_cq(NULL));
	MINUS_ONE(old_get_cq_event(NULL, &cq, &nothing));
	MINUS_ONE(old_get_cq_event(NULL, NULL, &nothing));
	old_ack_cq_events(NULL, 1);
	NOTHING(old_create_qp(pd, NULL));
	NOTHING(old_create_qp(NULL, &init));
	init.send_cq = (struct old_cq *)new_pd;
	NOTHING(old_create_qp(pd, &init));
	init.send_cq = NULL;
	NOTHING(old_create_qp(pd, &init));
	REFUSED(old_modify_qp(NULL, &attr, IBV_QP_STATE));
	REFUSED(old_modify_qp(qp, NULL, IBV_QP_STATE));
	REFUSED(old_query_qp(NULL, &attr, IBV_QP_STATE, &init));
	REFUSED(old_query_qp(qp, &attr, IBV_QP_STATE, NULL));
	REFUSED(old_destroy_qp(NULL));
	NOTHING(old_create_srq(pd, NULL));
	NOTHING(old_create_srq(pd, &srq_init));
	REFUSED(old_modify_srq(NULL, &srq_init.attr, 0));
	REFUSED(old_query_srq(NULL, &srq_init.attr));
	REFUSED(old_destroy_srq(NULL));
	NOTHING(old_create_ah(pd, NULL));
	REFUSED(old_destroy_ah(NULL));
	REFUSED(old_attach_mcast(NULL, &gid, 0));
	REFUSED(old_detach_mcast(qp, NULL, 0));
	REFUSED(old_query_device(NULL, &device));
	REFUSED(old_query_device(context, NULL));
	REFUSED(old_query_port(NULL, 1, &device));
	MINUS_ONE(old_query_gid(NULL, 1, 0, &gid));
	MINUS_ONE(old_query_pkey(NULL, 1, 0, &pkey));
	MINUS_ONE(old_get_async_event(NULL, &event));
	MINUS_ONE(old_get_async_event(context, NULL));
	old_ack_async_event(&event);
	old_ack_async_event(NULL);
	NOTHING(old_create_comp_channel(NULL));
	REFUSED(old_destroy_comp_channel(NULL));
	old_free_device_list(NULL);
	NOTHING(old_get_device_name(NULL));
	old_register_driver(NULL, NULL);

	REFUSED(context->ops.post_send(NULL, wr, &bad));
	REFUSED(context->ops.post_recv(NULL, NULL, &bad_receive));
	REFUSED(context->ops.post_srq_recv(NULL, NULL, &bad_receive));
	REFUSED(context->ops.req_notify_cq(NULL, 0));
	MINUS_ONE(context->ops.poll_cq(NULL, 1, &wc));
	REFUSED(context->ops.post_send(qp, wr, &bad));
	expect(bad == &wr[0]);
	/* A datagram without an address. */
	REFUSED(context->ops.post_send(qp, &wr[1], &bad));
	expect(bad == &wr[1]);
	REFUSED(context->ops.post_send(qp, &wr[1], NULL));

	MUST(old_destroy_qp(qp));
	MUST(old_destroy_cq(cq));
	MUST(old_dealloc_pd(pd));
	MUST(ibv_dealloc_pd(new_pd));
}

static void *makes_and_ends(void *context)
{
	int i;

	for (i = 0; i < 200; i++) {
		struct old_channel *channel = MUST_PTR(old_create_comp_channel(context));
		struct old_pd *pd = MUST_PTR(old_alloc_pd(context));
		struct old_cq *cq = MUST_PTR(old_create_cq(context, 4, NULL, channel, 0));
		struct old_qp_init_attr init = old_init(cq, IBV_QPT_UC);
		struct old_qp *qp = MUST_PTR(old_create_qp(pd, &init));

		MUST(old_destroy_qp(qp));
		MUST(old_destroy_cq(cq));
		MUST(old_dealloc_pd(pd));
		MUST(old_destroy_comp_channel(channel));
	}
	return NULL;
}

/* Threads make and end objects of one context. */
static void threads(struct old_context *context)
{
	pthread_t thread[4];
	size_t i;

	for (i = 0; i < ARRAY_LEN(thread); i++)
		MUST(pthread_create(&thread[i], NULL, makes_and_ends, context));
	for (i = 0; i < ARRAY_LEN(thread); i++)
		MUST(pthread_join(thread[i], NULL));
}

int main(void)
{
	struct old_context *context;
	struct old_channel *channel;
	int before;

	if (!own_device())
		return done();
	/* The directory of the devices' files is open from the first list on. */
	ibv_free_device_list(MUST_PTR(ibv_get_device_list(NULL)));
	before = open_descriptors();
	context = old_open();
	channel = MUST_PTR(old_create_comp_channel(context));
	members(context, channel);
	port(context);
	last_request(context);
	old_traffic(context, channel);
	refused(context);
	threads(context);
	MUST(old_destroy_comp_channel(channel));
	MUST(old_close_device(context));
	expect(open_descriptors() == before);
	old_register_driver("nobody", NULL);
	return done();
}
