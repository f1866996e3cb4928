/* Descriptors and memory are given back by connections that have ended. */
#include "cm.h"

#include <malloc.h>

/* An argument is another number of connections. */
enum { PORT = 7478, CONNECTIONS = 40, GROWTH = 256 << 10 };

static struct rdma_event_channel *server, *client;

static void one(void)
{
	connect_and_end(server, client, ready(client, PORT, RDMA_PS_TCP));
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
