/* Calls that wait until events are acknowledged: destroying, leaving, changing the channel. */
#include "cm.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PORT = 7477 };

static struct rdma_event_channel *channel;
static atomic_int is_over;

struct waiting {
	const char *what;
	struct rdma_cm_id *id;
	struct rdma_event_channel *to;
	struct sockaddr_in group;
};

static void *wait_for_it(void *argument)
{
	struct waiting *waiting = argument;

	if (!strcmp(waiting->what, "destroy"))
		MUST(rdma_destroy_id(waiting->id));
	else if (!strcmp(waiting->what, "migrate"))
		MUST(rdma_migrate_id(waiting->id, waiting->to));
	else
		MUST(rdma_leave_multicast(waiting->id, SA(waiting->group)));
	atomic_store(&is_over, 1);
	return NULL;
}

/* The call is made by another thread, and must not be over before the event is acknowledged. */
static void waits(struct waiting *waiting, struct rdma_cm_event *event)
{
	pthread_t thread;

	atomic_store(&is_over, 0);
	MUST(pthread_create(&thread, NULL, wait_for_it, waiting));
	usleep(300000);
	out("%s: %s", waiting->what, atomic_load(&is_over) ? "over too early" : "waits");
	MUST(rdma_ack_cm_event(event));
	MUST(pthread_join(thread, NULL));
	out("%s: over", waiting->what);
}

static struct rdma_cm_id *resolving(void)
{
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);
	struct sockaddr_in here = at(HERE, PORT);

	MUST(rdma_resolve_addr(id, NULL, SA(here), 5000));
	return id;
}

static void of_an_id(void)
{
	struct waiting waiting = { .what = "destroy", .id = resolving() };

	waits(&waiting, take(channel, "id"));
	/* An event that was not taken is dropped with its id. */
	waiting.id = resolving();
	expect(has_event(channel, PATIENCE));
	RC(rdma_destroy_id(waiting.id));
	none(channel, "id");
}

static void of_a_channel(void)
{
	struct waiting waiting = { .what = "migrate", .id = resolving() };

	waiting.to = MUST_PTR(rdma_create_event_channel());
	waits(&waiting, take(channel, "id"));
	MUST(rdma_destroy_id(waiting.id));
	rdma_destroy_event_channel(waiting.to);
}

static void of_a_group(void)
{
	struct waiting waiting = { .what = "leave", .group = at("239.77.1.4", 0) };
	struct sockaddr_in here = at(HERE, 0);

	waiting.id = new_id(channel, NULL, RDMA_PS_UDP);
	MUST(rdma_bind_addr(waiting.id, SA(here)));
	MUST(make_qp(waiting.id));
	MUST(rdma_join_multicast(waiting.id, SA(waiting.group), NULL));
	waits(&waiting, take(channel, "group"));
	drop(waiting.id);
}

/* A request counts for the listener. */
static void of_a_listener(void)
{
	struct rdma_cm_id *listener = listening(channel, NULL, PORT, RDMA_PS_TCP), *id, *request;
	struct rdma_event_channel *other = MUST_PTR(rdma_create_event_channel());
	struct rdma_conn_param param = asking(NULL, 0);
	struct waiting waiting = { .what = "destroy", .id = listener };
	struct rdma_cm_event *event;

	id = ready(other, PORT, RDMA_PS_TCP);
	MUST(rdma_connect(id, &param));
	event = take(channel, "server");
	request = event->id;
	RC(rdma_destroy_id(request));
	waits(&waiting, event);
	pass(other, "client");
	drop(id);
	rdma_destroy_event_channel(other);
}

int main(void)
{
	channel = MUST_PTR(rdma_create_event_channel());
	of_an_id();
	of_a_channel();
	of_a_group();
	of_a_listener();
	rdma_destroy_event_channel(channel);
	return done();
}
