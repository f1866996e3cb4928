/* Descriptors and memory are given back by connections that have ended. */
#include "cm.h"

#include <malloc.h>

/* An argument is another number of connections. */
enum { PORT = 7478, CONNECTIONS = 40, GROWTH = 256 << 10 };

static struct rdma_event_channel *server, *client;

static void skip(struct rdma_event_channel *channel, enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;

	MUST(rdma_get_cm_event(channel, &event));
	expect(event->event == wanted);
	MUST(rdma_ack_cm_event(event));
}

static void one(void)
{
	struct rdma_conn_param param = asking("abc", 3);
	struct rdma_cm_id *id = ready(client, PORT, RDMA_PS_TCP), *request;
	struct rdma_cm_event *event;

	MUST(rdma_connect(id, &param));
	MUST(rdma_get_cm_event(server, &event));
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
	int left = argc > 1 ? atoi(argv[1]) : CONNECTIONS, descriptors;
	struct rdma_cm_id *listener;
	size_t used;

	server = MUST_PTR(rdma_create_event_channel());
	client = MUST_PTR(rdma_create_event_channel());
	listener = listening(server, NULL, PORT, RDMA_PS_TCP);
	one();
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
	return done();
}
