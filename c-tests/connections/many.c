/*
 * Descriptors and memory are given back by ten thousand connections that were made and ended, one
 * after the other, over uroce_lo. An argument is another number of connections.
 */
#include "lo.h"

#include <malloc.h>

/*
 * The state of an ended connection lives as long as its packets may, 4.096 us * 2^ACK_TIMEOUT: a
 * millisecond here. The device keeps places for 16384 queue pairs once they were used, 0.8 MB in
 * all; a kilobyte of each connection would be ten times as much.
 */
enum { PORT = 7494, CONNECTIONS = 10000, GROWTH = 2 << 20, ACK_TIMEOUT = 8 };

static struct rdma_event_channel *server, *client;

static void skip(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	MUST(rdma_get_cm_event(channel, &event));
	expect(event->event == wanted && event->status == 0);
	MUST(rdma_ack_cm_event(event));
}

static void shorten(struct rdma_cm_id *id)
{
	uint8_t timeout = ACK_TIMEOUT;

	MUST(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			     sizeof(timeout)));
}

static struct rdma_cm_id *resolved(void)
{
	struct rdma_cm_id *id = new_id(client, NULL, RDMA_PS_TCP);
	struct sockaddr_in here = at(HERE, PORT);

	shorten(id);
	MUST(rdma_resolve_addr(id, NULL, SA(here), 5000));
	skip(client, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_resolve_route(id, 5000));
	skip(client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	MUST(make_qp(id));
	return id;
}

static void one(void)
{
	struct rdma_conn_param param = asking("abc", 3);
	struct rdma_cm_id *id = resolved(), *request;
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

int main(int argc, char **argv)
{
	int left = argc > 1 ? atoi(argv[1]) : CONNECTIONS, warm = 100, descriptors;
	struct rdma_cm_id *listener;
	size_t used;

	if (!own_device())
		return done();
	server = MUST_PTR(rdma_create_event_channel());
	client = MUST_PTR(rdma_create_event_channel());
	listener = listening(server, NULL, PORT, RDMA_PS_TCP);
	shorten(listener);
	while (warm--)
		one();
	descriptors = open_descriptors();
	used = mallinfo2().uordblks;
	while (left--)
		one();
	expect(open_descriptors() == descriptors);
	expect(mallinfo2().uordblks < used + GROWTH);
	MUST(rdma_destroy_id(listener));
	rdma_destroy_event_channel(client);
	rdma_destroy_event_channel(server);
	out("given back");
	return done();
}
