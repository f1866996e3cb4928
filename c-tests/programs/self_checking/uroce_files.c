/*
 * The directory of a uroce device (ibdev_path): the files that clients read there, that they follow
 * the interface, that each process has a separate one, and that it is removed, also after a process
 * was killed. Runs in a separate network namespace.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "network.h"
#include "rdma.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char above[] = "/tmp/c-test-files-XXXXXX";

static void is(const char *dir, const char *file, const char *wanted)
{
	char found[128] = "";

	expect(ibv_read_sysfs_file(dir, file, found, sizeof(found)) >= 0);
	if (strcmp(found, wanted))
		fprintf(stderr, "%s: \"%s\", not \"%s\"\n", file, found, wanted);
	expect(!strcmp(found, wanted));
	out("%s: %s", file, found);
}

static bool is_there(const char *dir, const char *file)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	return !access(path, F_OK);
}

/* Number of entries of a directory, or -1 without it. */
static int entries(const char *path)
{
	DIR *dir = opendir(path);
	int count = 0;

	if (!dir)
		return -1;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count - 2;
}

/* The device of uroce. Those of the kernel, if there are any, come before it. */
static struct ibv_device *own(struct ibv_device **list)
{
	int i = 0;

	while (list[i] && strcmp(ibv_get_device_name(list[i]), DEVICE_NAME))
		i++;
	expect(list[i] && !list[i + 1]);
	return list[i];
}

static struct ibv_device **listed(const char **dir)
{
	struct ibv_device **list = MUST_PTR(ibv_get_device_list(NULL));

	*dir = own(list)->ibdev_path;
	return list;
}

/* Before the device is opened. */
static void what_clients_read(const char *dir)
{
	struct stat about;

	is(dir, "node_type", "1: CA");
	is(dir, "ports/1/link_layer", "Ethernet");
	is(dir, "ports/1/state", "4: ACTIVE");
	is(dir, "ports/1/phys_state", "5: LinkUp");
	is(dir, "ports/1/lid", "0x0");
	is(dir, "ports/1/pkeys/0", "0xffff");
	is(dir, "ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:7f00:0001");
	is(dir, "ports/1/gids/1", "0000:0000:0000:0000:0000:0000:0000:0001");
	is(dir, "ports/1/gid_attrs/types/0", "RoCE v2");
	is(dir, "ports/1/gid_attrs/ndevs/0", "lo");
	is(dir, "device/numa_node", "-1");
	is(dir, "device/net/lo/ifindex", "1");
	expect(!is_there(dir, "ports/1/gids/2") && !is_there(dir, "ports/2"));
	expect(!is_there(dir, "device/vendor"));
	expect(!stat(dir, &about) && about.st_uid == geteuid() && !(about.st_mode & 077));
}

/*
 * While the device is open, by notifications of the kernel; without an open one when devices are
 * listed.
 */
static void follows(struct ibv_device *device)
{
	struct ibv_context *context = MUST_PTR(ibv_open_device(device));
	struct ibv_async_event event;
	const char *dir = device->ibdev_path;

	expect(!system("ip addr add 10.7.0.1/32 dev lo"));
	MUST(ibv_get_async_event(context, &event));
	expect(event.event_type == IBV_EVENT_GID_CHANGE);
	ibv_ack_async_event(&event);
	is(dir, "ports/1/gids/2", "0000:0000:0000:0000:0000:ffff:0a07:0001");
	is(dir, "ports/1/gid_attrs/types/2", "RoCE v2");
	MUST(ibv_close_device(context));
	expect(!system("ip addr del 10.7.0.1/32 dev lo"));
	expect(!system("ip link set lo down"));
	ibv_free_device_list(MUST_PTR(ibv_get_device_list(NULL)));
	expect(!is_there(dir, "ports/1/gids/2"));
	is(dir, "ports/1/state", "1: DOWN");
	expect(!system("ip link set lo up"));
}

/* A child that lists by itself; it reports the path, and ends or is killed. */
static pid_t other_process(char *dir, size_t size)
{
	int ends[2];
	pid_t child;
	ssize_t length;

	fflush(stdout);
	expect(!pipe(ends));
	child = fork();
	if (!child) {
		char *arguments[] = { (char *)"uroce_files", (char *)"show", NULL };

		dup2(ends[1], STDOUT_FILENO);
		execv("/proc/self/exe", arguments);
		_exit(1);
	}
	close(ends[1]);
	length = read(ends[0], dir, size - 1);
	expect(length > 0);
	dir[length] = '\0';
	close(ends[0]);
	return child;
}

static void show_and_wait(void)
{
	const char *dir;
	struct ibv_device **list = listed(&dir);

	expect(write(STDOUT_FILENO, dir, strlen(dir)) == (ssize_t)strlen(dir));
	for (;;)
		pause();
	ibv_free_device_list(list);
}

static void of_others(const char *own)
{
	char theirs[512], mine[512];
	pid_t child = other_process(theirs, sizeof(theirs));
	int status;

	expect(strcmp(own, theirs) && is_there(theirs, "node_type"));
	expect(!kill(child, SIGKILL) && waitpid(child, &status, 0) == child);
	expect(is_there(theirs, "node_type"));
	/* The next process removes files that no process holds. */
	child = other_process(mine, sizeof(mine));
	expect(!is_there(theirs, "node_type") && is_there(mine, "node_type"));
	expect(is_there(own, "node_type"));
	expect(!kill(child, SIGKILL) && waitpid(child, &status, 0) == child);
	out("processes that were killed");
}

/* A whole life, and exit(3). */
static void one_life(void)
{
	const char *dir;
	struct ibv_device **list = listed(&dir);

	what_clients_read(dir);
	follows(own(list));
	of_others(dir);
	ibv_free_device_list(list);
	exit(0);
}

/* Lists, and goes by exit(3). */
static void short_life(void)
{
	const char *dir;
	struct ibv_device **list = listed(&dir);

	expect(!strncmp(dir, above, strlen(above)) && is_there(dir, "node_type"));
	ibv_free_device_list(list);
	exit(0);
}

/* Without a place that is safe there is no path, and all else works. */
static void nowhere(void)
{
	const char *dir;
	struct ibv_device **list;

	expect(!chmod(above, 0777));
	list = listed(&dir);
	expect(strncmp(dir, above, strlen(above)));
	MUST(ibv_close_device(MUST_PTR(ibv_open_device(own(list)))));
	ibv_free_device_list(list);
	expect(entries(above) == 0);
	exit(0);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "show"))
		show_and_wait();
	if (!own_device())
		return done();
	expect(mkdtemp(above));
	setenv("XDG_RUNTIME_DIR", above, 1);
	in_child("a life", one_life);
	/* Only the directory of the process that was killed last remains. */
	in_child("another", short_life);
	expect(entries(above) == 0);
	in_child("where others may write", nowhere);
	MUST(rmdir(above));
	return done();
}
