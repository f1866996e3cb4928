/* The example of ibv_get_async_event(3), with an event to take. */
#include "rdma.h"

#include <fcntl.h>
#include <poll.h>

static struct ibv_context *ctx;

static int example(struct ibv_async_event *taken)
{
	struct ibv_async_event async_event;
	struct pollfd my_pollfd;
	int flags, rc, ms_timeout = 10;

#include "ibv_get_async_event.1.1.inc"

	*taken = async_event;
	return 0;
}

int main(void)
{
	struct ibv_async_event event;

	ctx = open_rxe();
	/* A new address changes the GID table of the port. */
	expect(!system("ip addr add 10.9.0.78/24 dev v0"));
	do
		MUST(example(&event));
	while (event.event_type != IBV_EVENT_GID_CHANGE);
	out("event '%s' of port %d", ibv_event_type_str(event.event_type),
	    event.element.port_num);
	expect(!system("ip addr del 10.9.0.78/24 dev v0"));
	RC(ibv_close_device(ctx));
	return done();
}
