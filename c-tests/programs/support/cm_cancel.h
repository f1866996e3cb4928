/*
 * Threads that are cancelled in calls of synchronous ids, which wait for an event. After it the id
 * can be used and destroyed, and the next event is that of the next call.
 */
#ifndef CM_CANCEL_H
#define CM_CANCEL_H

#include "cm.h"
#include "waiter.h"

#include <rdma/rdma_verbs.h>

/* The listener of the second port takes no request. */
enum { CANCEL_PORT = 7478, SILENT_PORT };

struct scene {
	struct rdma_cm_id *id, *request;
	struct rdma_addrinfo *list;
};

static inline int get_request(struct scene *scene)
{
	return rdma_get_request(scene->id, &scene->request);
}

static inline int connect_id(struct scene *scene)
{
	return rdma_connect(scene->id, NULL);
}

static inline int accept_request(struct scene *scene)
{
	return rdma_accept(scene->request, NULL);
}

/* A client with a queue pair and a route. */
static inline struct rdma_cm_id *sync_client(uint16_t port)
{
	struct sockaddr_in here = at(HERE, 0), server = at(HERE, port);
	struct rdma_cm_id *id = new_id(NULL, NULL, RDMA_PS_TCP);

	MUST(rdma_resolve_addr(id, SA(here), SA(server), 5000));
	MUST(rdma_resolve_route(id, 5000));
	MUST(make_qp(id));
	return id;
}

static inline void *connect_in_time(void *id)
{
	MUST(rdma_connect(id, NULL));
	return NULL;
}

/* The listener takes the request of a client that comes after the cancelled thread. */
static inline void in_get_request(void)
{
	struct scene scene = { .id = listening(NULL, NULL, CANCEL_PORT, RDMA_PS_TCP) };
	struct rdma_cm_id *client;
	pthread_t thread;
	int round;

	for (round = 0; round < 2; round++) {
		cancelled_in(&scene, get_request, PTHREAD_CANCEL_DEFERRED, "rdma_get_request");
		cancelled_in(&scene, get_request, PTHREAD_CANCEL_ASYNCHRONOUS,
			     "rdma_get_request, asynchronous");
		expect(!scene.id->event);
		client = sync_client(CANCEL_PORT);
		MUST(pthread_create(&thread, NULL, connect_in_time, client));
		MUST(get_request(&scene));
		expect(scene.request->event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
		MUST(make_qp(scene.request));
		MUST(rdma_accept(scene.request, NULL));
		MUST(pthread_join(thread, NULL));
		out("kept: %s", rdma_event_str(scene.request->event->event));
		rdma_destroy_ep(client);
		rdma_destroy_ep(scene.request);
	}
	rdma_destroy_ep(scene.id);
}

/* The listener takes no request. */
static inline void in_connect(void)
{
	struct rdma_cm_id *silent = listening(NULL, NULL, SILENT_PORT, RDMA_PS_TCP);
	struct scene scene = { .id = sync_client(SILENT_PORT) };

	cancelled_in(&scene, connect_id, PTHREAD_CANCEL_DEFERRED, "rdma_connect");
	rdma_destroy_ep(scene.id);
	rdma_destroy_ep(silent);
}

/* The client, which has a channel of the program, does not take the answer. */
static inline void in_accept(void)
{
	struct rdma_event_channel *channel = MUST_PTR(rdma_create_event_channel());
	struct scene scene = { .id = listening(NULL, NULL, CANCEL_PORT, RDMA_PS_TCP) };
	struct rdma_cm_id *client = ready(channel, CANCEL_PORT, RDMA_PS_TCP);

	MUST(rdma_connect(client, NULL));
	MUST(get_request(&scene));
	MUST(make_qp(scene.request));
	cancelled_in(&scene, accept_request, PTHREAD_CANCEL_DEFERRED, "rdma_accept");
	rdma_destroy_ep(scene.request);
	drop(client);
	rdma_destroy_ep(scene.id);
	rdma_destroy_event_channel(channel);
}

static inline void cancelled_in_each(void)
{
	in_get_request();
	in_connect();
	in_accept();
}

#endif
