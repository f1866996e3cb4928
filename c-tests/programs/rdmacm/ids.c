/* Ids that are not connected: addresses, ports, options, calls in the wrong state. */
#include "cm.h"

#include <sys/un.h>

static struct rdma_event_channel *channel;

static void wrong_arguments(void)
{
	struct rdma_cm_id *id;
	struct sockaddr_un local = { .sun_family = AF_UNIX };
	struct sockaddr_in none = { .sin_family = AF_INET };
	struct rdma_cm_event *event;
	struct rdma_addrinfo *list;

	RC(rdma_create_id(channel, &id, NULL, (enum rdma_port_space)0x42));
	id = new_id(channel, NULL, RDMA_PS_TCP);
	RC(rdma_bind_addr(id, (struct sockaddr *)&local));
	RC(rdma_bind_addr(id, NULL));
	RC(rdma_resolve_addr(id, NULL, (struct sockaddr *)&local, 1000));
	RC(rdma_resolve_addr(id, NULL, NULL, 1000));
	RC(rdma_reject(id, NULL, 0));
	RC(rdma_notify(id, IBV_EVENT_COMM_EST));
	RC(rdma_disconnect(id));
	RC(rdma_establish(id));
	RC(rdma_leave_multicast(id, SA(none)));
	RC(rdma_get_cm_event(channel, NULL));
	RC(rdma_ack_cm_event(NULL));
	RC(rdma_getaddrinfo(NULL, NULL, NULL, &list));
	MUST(rdma_destroy_id(id));

	MUST(fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	RC(rdma_get_cm_event(channel, &event));
	MUST(fcntl(channel->fd, F_SETFL, 0));
}

static void addresses(void)
{
	struct sockaddr_in here = at(HERE, 0), target = at("127.0.0.1", 7471);
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);

	RC(rdma_resolve_addr(id, NULL, SA(target), 5000));
	pass(channel, "client");
	RC(rdma_resolve_route(id, 1000));
	none(channel, "client");
	MUST(rdma_destroy_id(id));

	/* No host has this address; the resolution may be tried again. */
	id = new_id(channel, NULL, RDMA_PS_TCP);
	target = at("10.9.0.77", 7471);
	RC(rdma_resolve_addr(id, SA(here), SA(target), 300));
	pass(channel, "client");
	if (!RC(rdma_resolve_addr(id, SA(here), SA(target), 100)))
		pass(channel, "client");
	MUST(rdma_destroy_id(id));

	/* No route leads there. */
	id = new_id(channel, NULL, RDMA_PS_TCP);
	target = at("192.0.2.1", 7471);
	RC(rdma_resolve_addr(id, NULL, SA(target), 1000));
	MUST(rdma_destroy_id(id));

	id = new_id(channel, NULL, RDMA_PS_TCP);
	target = at("10.11.0.1", 0);
	RC(rdma_bind_addr(id, SA(target)));
	MUST(rdma_destroy_id(id));

	id = new_id(channel, NULL, RDMA_PS_TCP);
	target = at("127.0.0.1", 7600);
	RC(rdma_bind_addr(id, SA(target)));
	out("device: %s", id->verbs ? "one" : "none");
	RC(rdma_bind_addr(id, SA(target)));
	out("port %d", ntohs(rdma_get_src_port(id)));
	MUST(rdma_destroy_id(id));
}

static void ports(void)
{
	struct rdma_cm_id *x = new_id(channel, NULL, RDMA_PS_TCP);
	struct rdma_cm_id *y = new_id(channel, NULL, RDMA_PS_TCP);
	struct sockaddr_in here = at(HERE, 7700), any = at("0.0.0.0", 7700);
	int one = 1;

	RC(rdma_bind_addr(x, SA(here)));
	out("device %s, port %d", x->verbs->device->name, x->port_num);
	RC(rdma_bind_addr(y, SA(here)));
	RC(rdma_bind_addr(y, SA(any)));
	MUST(rdma_destroy_id(x));
	MUST(rdma_destroy_id(y));

	x = new_id(channel, NULL, RDMA_PS_TCP);
	y = new_id(channel, NULL, RDMA_PS_TCP);
	RC(rdma_set_option(x, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof(one)));
	RC(rdma_set_option(y, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof(one)));
	RC(rdma_bind_addr(x, SA(here)));
	RC(rdma_bind_addr(y, SA(here)));
	RC(rdma_listen(x, 1));
	RC(rdma_listen(y, 1));
	MUST(rdma_destroy_id(x));
	MUST(rdma_destroy_id(y));

	x = new_id(channel, NULL, RDMA_PS_TCP);
	RC(rdma_listen(x, 1));
	out("port %s, family %d", rdma_get_src_port(x) ? "given" : "0",
	    rdma_get_local_addr(x)->sa_family);
	RC(rdma_listen(x, 1));
	MUST(rdma_destroy_id(x));
}

static void options(void)
{
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);
	uint8_t small = 4;
	uint32_t large = 4;

	RC(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &small, sizeof(small)));
	RC(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &large, sizeof(large)));
	RC(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &small, sizeof(small)));
	RC(rdma_set_option(id, RDMA_OPTION_ID, 77, &small, sizeof(small)));
	RC(rdma_set_option(id, 9, 0, &small, sizeof(small)));
	MUST(rdma_destroy_id(id));
}

static void other_channels(void)
{
	struct rdma_event_channel *other = MUST_PTR(rdma_create_event_channel());
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);
	struct sockaddr_in here = at(HERE, 7471);

	RC(rdma_migrate_id(id, other));
	expect(id->channel == other);
	RC(rdma_resolve_addr(id, NULL, SA(here), 5000));
	none(channel, "before");
	pass(other, "after");
	RC(rdma_migrate_id(id, NULL));
	expect(id->channel != other && id->channel != NULL);
	RC(rdma_migrate_id(id, NULL));
	RC(rdma_resolve_route(id, 5000));
	out("kept: %s", rdma_event_str(id->event->event));
	RC(rdma_migrate_id(id, channel));
	out("kept: %s", id->event ? "an event" : "none");
	MUST(rdma_destroy_id(id));
	rdma_destroy_event_channel(other);
}

static void devices(void)
{
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);
	struct sockaddr_in here = at(HERE, 0);
	struct ibv_context **list, **again;
	int count, i, own = 0;

	MUST(rdma_bind_addr(id, SA(here)));
	list = MUST_PTR(rdma_get_devices(&count));
	again = MUST_PTR(rdma_get_devices(NULL));
	for (i = 0; i < count; i++) {
		own += list[i] == id->verbs;
		expect(list[i] == again[i]);
	}
	out("the id's device is %d of the list, which ends with %s", own,
	    list[count] ? "more" : "NULL");
	rdma_free_devices(list);
	rdma_free_devices(again);
	MUST(rdma_destroy_id(id));
}

int main(void)
{
	unsigned int event;

	channel = MUST_PTR(rdma_create_event_channel());
	wrong_arguments();
	addresses();
	ports();
	options();
	other_channels();
	devices();
	/* Later releases know more names. */
	for (event = 0; event <= RDMA_CM_EVENT_TIMEWAIT_EXIT; event++)
		out("%s", rdma_event_str(event));
	out("%s", rdma_event_str(99));
	rdma_destroy_event_channel(channel);
	return done();
}
