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

static void shorten(struct rdma_cm_id *id)
{
	uint8_t timeout = ACK_TIMEOUT;

	MUST(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			     sizeof(timeout)));
}

static void one(void)
{
	struct rdma_cm_id *id = ready(client, PORT, RDMA_PS_TCP);

	shorten(id);
	connect_and_end(server, client, id);
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
