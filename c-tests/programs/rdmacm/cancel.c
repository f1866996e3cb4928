/* Threads that are cancelled in calls of synchronous ids that wait. */
#include "cm_cancel.h"

/* No host has this address. */
#define NOBODY "10.9.0.77"

static int resolve_addr(struct scene *scene)
{
	struct sockaddr_in here = at(HERE, 0), nobody = at(NOBODY, CANCEL_PORT);

	return rdma_resolve_addr(scene->id, SA(here), SA(nobody), 60000);
}

static int create_ep(struct scene *scene)
{
	return rdma_create_ep(&scene->id, scene->list, NULL, NULL);
}

static void in_resolution(void)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP };
	struct scene scene = { .id = new_id(NULL, NULL, RDMA_PS_TCP) };

	cancelled_in(&scene, resolve_addr, PTHREAD_CANCEL_DEFERRED, "rdma_resolve_addr");
	rdma_destroy_ep(scene.id);
	MUST(rdma_getaddrinfo(NOBODY, "7478", &hints, &scene.list));
	cancelled_in(&scene, create_ep, PTHREAD_CANCEL_DEFERRED, "rdma_create_ep");
	rdma_freeaddrinfo(scene.list);
}

int main(void)
{
	cancelled_in_each();
	in_resolution();
	return done();
}
