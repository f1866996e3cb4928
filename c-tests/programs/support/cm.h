/*
 * For programs that connect by librdmacm: two ends in one process, over rxe0, whose interface has
 * the address 10.9.0.1, or over another device, if HERE is its address.
 */
#ifndef CM_H
#define CM_H

#include "check.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>

#include <rdma/rdma_cma.h>

#ifndef HERE
#define HERE "10.9.0.1"
#endif

/* Milliseconds that an event may take: far more than any does. */
enum { PATIENCE = 60000 };

static inline struct sockaddr_in at(const char *address, uint16_t port)
{
	struct sockaddr_in made = { .sin_family = AF_INET, .sin_port = htons(port) };

	expect(inet_pton(AF_INET, address, &made.sin_addr) == 1);
	return made;
}

#define SA(address) ((struct sockaddr *)&(address))

/* Prints the parts of an event that are the same in each run. */
static inline void show_event(const char *who, const struct rdma_cm_event *event)
{
	const struct rdma_conn_param *conn = &event->param.conn;

	out("%s: %s, status %d, %d bytes%s%s", who, rdma_event_str(event->event), event->status,
	    conn->private_data_len, conn->private_data ? "" : " (NULL)",
	    event->listen_id ? ", of a listener" : "");
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST ||
	    event->event == RDMA_CM_EVENT_CONNECT_RESPONSE ||
	    event->event == RDMA_CM_EVENT_ESTABLISHED)
		out("   resources %d, depth %d, flow %d, retries %d %d, srq %d, QP %s",
		    conn->responder_resources, conn->initiator_depth, conn->flow_control,
		    conn->retry_count, conn->rnr_retry_count, conn->srq,
		    conn->qp_num ? "named" : "0");
}

static inline bool has_event(struct rdma_event_channel *channel, int milliseconds)
{
	struct pollfd watched = { .fd = channel->fd, .events = POLLIN };

	return poll(&watched, 1, milliseconds) == 1;
}

/* The next event, shown; it is the caller's to acknowledge. */
static inline struct rdma_cm_event *take(struct rdma_event_channel *channel, const char *who)
{
	struct rdma_cm_event *event;

	expect(has_event(channel, PATIENCE));
	MUST(rdma_get_cm_event(channel, &event));
	show_event(who, event);
	return event;
}

/* The same, acknowledged. */
static inline void pass(struct rdma_event_channel *channel, const char *who)
{
	MUST(rdma_ack_cm_event(take(channel, who)));
}

/* The same for a request; returns its id. */
static inline struct rdma_cm_id *requested(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event = take(channel, "server");
	struct rdma_cm_id *id = event->id;

	expect(event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	MUST(rdma_ack_cm_event(event));
	return id;
}

static inline void none(struct rdma_event_channel *channel, const char *who)
{
	out("%s: %s", who, has_event(channel, 300) ? "an event" : "no event");
}

static inline struct rdma_cm_id *new_id(struct rdma_event_channel *channel, void *context,
					enum rdma_port_space space)
{
	struct rdma_cm_id *id;

	MUST(rdma_create_id(channel, &id, context, space));
	return id;
}

static inline struct rdma_cm_id *listening(struct rdma_event_channel *channel, void *context,
					   uint16_t port, enum rdma_port_space space)
{
	struct rdma_cm_id *id = new_id(channel, context, space);
	struct sockaddr_in address = at(HERE, port);

	MUST(rdma_bind_addr(id, SA(address)));
	MUST(rdma_listen(id, 0));
	return id;
}

/* An id with a route to a port. */
static inline struct rdma_cm_id *routed(struct rdma_event_channel *channel, uint16_t port,
					enum rdma_port_space space)
{
	struct rdma_cm_id *id = new_id(channel, NULL, space);
	struct sockaddr_in source = at(HERE, 0), destination = at(HERE, port);
	enum rdma_cm_event_type wanted[] = { RDMA_CM_EVENT_ADDR_RESOLVED,
					     RDMA_CM_EVENT_ROUTE_RESOLVED };
	struct rdma_cm_event *event;
	int i;

	MUST(rdma_resolve_addr(id, SA(source), SA(destination), 5000));
	for (i = 0; i < 2; i++) {
		MUST(rdma_get_cm_event(channel, &event));
		expect(event->event == wanted[i] && event->status == 0 && event->id == id);
		MUST(rdma_ack_cm_event(event));
		if (i == 0)
			MUST(rdma_resolve_route(id, 5000));
	}
	return id;
}

static inline int make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = id->qp_type,
	};

	return rdma_create_qp(id, NULL, &init);
}

/* An id that is about to connect. */
static inline struct rdma_cm_id *ready(struct rdma_event_channel *channel, uint16_t port,
				       enum rdma_port_space space)
{
	struct rdma_cm_id *id = routed(channel, port, space);

	MUST(make_qp(id));
	return id;
}

static inline void drop(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
	MUST(rdma_destroy_id(id));
}

/* Parameters of clients and servers here. */
static inline struct rdma_conn_param asking(const void *data, uint8_t length)
{
	struct rdma_conn_param param = {
		.private_data = data,
		.private_data_len = length,
		.responder_resources = 3,
		.initiator_depth = 5,
		.flow_control = 1,
		.retry_count = 5,
		.rnr_retry_count = 6,
	};

	return param;
}

static inline struct rdma_conn_param answering(const void *data, uint8_t length)
{
	struct rdma_conn_param param = {
		.private_data = data,
		.private_data_len = length,
		.responder_resources = 2,
		.initiator_depth = 1,
		.rnr_retry_count = 4,
	};

	return param;
}

/* The next event, which is a success of that kind. It is not printed. */
static inline void skip(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	MUST(rdma_get_cm_event(channel, &event));
	expect(event->event == wanted && event->status == 0);
	MUST(rdma_ack_cm_event(event));
}

/* Connects an id of the client's channel to a listener of the server's, and ends all of it. */
static inline void connect_and_end(struct rdma_event_channel *server,
				   struct rdma_event_channel *client, struct rdma_cm_id *id)
{
	struct rdma_conn_param param = asking("abc", 3);
	struct rdma_cm_id *request;
	struct rdma_cm_event *event;

	MUST(rdma_connect(id, &param));
	MUST(rdma_get_cm_event(server, &event));
	expect(event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	request = event->id;
	MUST(rdma_ack_cm_event(event));
	MUST(make_qp(request));
	MUST(rdma_accept(request, NULL));
	skip(client, RDMA_CM_EVENT_ESTABLISHED);
	skip(server, RDMA_CM_EVENT_ESTABLISHED);
	MUST(rdma_disconnect(id));
	skip(server, RDMA_CM_EVENT_DISCONNECTED);
	MUST(rdma_disconnect(request));
	skip(client, RDMA_CM_EVENT_DISCONNECTED);
	drop(request);
	drop(id);
}

#endif
