/*
 * A network of the program's own.
 */
#ifndef NETWORK_H
#define NETWORK_H

#include "check.h"

#include <fcntl.h>
#include <sched.h>

static inline void put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	expect(fd >= 0);
	expect(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* Leaves the network namespace that the program started in; false without the permission. */
static inline bool own_network(void)
{
	uid_t uid = geteuid();
	char map[32];

	if (uid == 0)
		return unshare(CLONE_NEWNET) == 0;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return false;
	snprintf(map, sizeof(map), "0 %u 1\n", uid);
	put_file("/proc/self/uid_map", map);
	return true;
}

/* There is to be a device in user space, over lo in a network of the program's own. Says so where
 * that may not be. */
static inline bool own_device(void)
{
	if (!own_network()) {
		out("skipped: no network namespace: %s", errno_name(errno));
		return false;
	}
	expect(!system("ip link set lo up"));
	setenv("UROCE_DEVICES", "lo", 1);
	return true;
}

/* A file without a name. */
static inline int new_file(void)
{
	char name[] = "/tmp/c-test-XXXXXX";
	int fd = mkstemp(name);

	expect(fd >= 0);
	MUST(unlink(name));
	return fd;
}

#endif
