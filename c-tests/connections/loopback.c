/*
 * The address of the loopback interface where that is no device: an id can be bound to it, belongs
 * to no device then, and listens on all of them; a client that resolves it gets the first one.
 * fi_pingpong binds its server in this way.
 */
#include "lo.h"

enum { PORT = 7497 };

static const char *const own = "10.9.1.1";

/* An id with a queue pair and a route from any address. */
static struct rdma_cm_id *ready_for(struct rdma_event_channel *channel, const char *address)
{
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);
	struct sockaddr_in to = at(address, PORT);

	MUST(rdma_resolve_addr(id, NULL, SA(to), 5000));
	skip(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_resolve_route(id, 5000));
	skip(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	MUST(make_qp(id));
	return id;
}

/* A listener of this address, which takes connections to both. */
static void listens_on_all(const char *address)
{
	struct rdma_event_channel *server = MUST_PTR(rdma_create_event_channel());
	struct rdma_event_channel *client = MUST_PTR(rdma_create_event_channel());
	struct rdma_cm_id *listener = new_id(server, NULL, RDMA_PS_TCP);
	struct rdma_cm_id *second = new_id(server, NULL, RDMA_PS_TCP);
	struct sockaddr_in from = at(address, PORT), here = at(own, PORT);

	MUST(rdma_bind_addr(listener, SA(from)));
	expect(!listener->verbs);
	/* The port is taken at all addresses. */
	expect(rdma_bind_addr(second, SA(here)) == -1 && errno == EADDRNOTAVAIL);
	MUST(rdma_destroy_id(second));
	MUST(rdma_listen(listener, 0));
	connect_and_end(server, client, ready_for(client, own));
	connect_and_end(server, client, ready_for(client, HERE));
	MUST(rdma_destroy_id(listener));
	rdma_destroy_event_channel(client);
	rdma_destroy_event_channel(server);
	out("%s listens on all", address);
}

/* An id that is bound to the loopback address connects. */
static void connects(const char *address)
{
	struct rdma_event_channel *server = MUST_PTR(rdma_create_event_channel());
	struct rdma_event_channel *client = MUST_PTR(rdma_create_event_channel());
	struct rdma_cm_id *listener = new_id(server, NULL, RDMA_PS_TCP);
	struct rdma_cm_id *id = new_id(client, NULL, RDMA_PS_TCP);
	struct sockaddr_in any = at("0.0.0.0", PORT), from = at(HERE, 0), to = at(address, PORT);

	MUST(rdma_bind_addr(listener, SA(any)));
	MUST(rdma_listen(listener, 0));
	MUST(rdma_bind_addr(id, SA(from)));
	MUST(rdma_resolve_addr(id, NULL, SA(to), 5000));
	skip(client, RDMA_CM_EVENT_ADDR_RESOLVED);
	expect(id->verbs != NULL);
	MUST(rdma_resolve_route(id, 5000));
	skip(client, RDMA_CM_EVENT_ROUTE_RESOLVED);
	MUST(make_qp(id));
	connect_and_end(server, client, id);
	MUST(rdma_destroy_id(listener));
	rdma_destroy_event_channel(client);
	rdma_destroy_event_channel(server);
	out("%s is reached", address);
}

int main(void)
{
	if (!own_network()) {
		out("skipped: no network namespace: %s", errno_name(errno));
		return done();
	}
	MUST(system("ip link set lo up && ip link add eth0 type veth peer name eth1 && "
		    "ip addr add 10.9.1.1/24 dev eth0 && ip link set eth0 up && "
		    "ip link set eth1 up"));
	/*
	 * The carrier is reported a moment later. A client of the loopback address gets a device
	 * that has one.
	 */
	MUST(system("until ip link show eth0 | grep -q 'state UP'; do sleep 0.01; done"));
	setenv("UROCE_DEVICES", "eth0", 1);
	listens_on_all("0.0.0.0");
	listens_on_all(HERE);
	connects(own);
	connects(HERE);
	return done();
}
