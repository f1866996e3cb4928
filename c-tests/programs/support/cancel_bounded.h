/*
 * Threads that are cancelled in the calls of libibverbs whose wait ends by itself: for the node of
 * a device, and for a neighbour.
 */
#ifndef CANCEL_BOUNDED_H
#define CANCEL_BOUNDED_H

#include "cancel.h"

#include <arpa/inet.h>
#include <sys/mount.h>
#include <sys/stat.h>

enum { FOLDERS = 2 };

static const char *const node_folders[FOLDERS] = { "/dev/infiniband", "/dev/char" };

static inline int open_device(struct scene *scene)
{
	return ibv_open_device(scene->context->device) ? 0 : -1;
}

/* No host has this address. */
static inline int resolve_nobody(struct scene *scene)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .sgid_index = IPV4_INDEX },
	};
	uint8_t mac[6];

	expect(inet_pton(AF_INET6, "::ffff:10.9.0.99", &attr.grh.dgid) == 1);
	return ibv_resolve_eth_l2_from_gid(scene->context, &attr, mac, NULL);
}

/* The nodes disappear below empty folders, for this process alone. */
static inline void hide_nodes(void)
{
	int i;

	MUST(unshare(CLONE_NEWNS));
	MUST(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	mkdir(node_folders[1], 0755);
	for (i = 0; i < FOLDERS; i++)
		MUST(mount("none", node_folders[i], "tmpfs", 0, NULL));
}

static inline void show_nodes(void)
{
	int i;

	for (i = 0; i < FOLDERS; i++)
		MUST(umount2(node_folders[i], MNT_DETACH));
}

static inline void in_bounded_waits(struct ibv_context *context)
{
	struct scene scene = { .context = context };

	cancelled_in(&scene, resolve_nobody, PTHREAD_CANCEL_DEFERRED,
		     "ibv_resolve_eth_l2_from_gid");
	hide_nodes();
	cancelled_in(&scene, open_device, PTHREAD_CANCEL_DEFERRED, "ibv_open_device");
	show_nodes();
	RC(ibv_close_device(MUST_PTR(ibv_open_device(context->device))));
}

#endif
