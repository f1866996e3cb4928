/*
 * fork(2) while other threads are in the library: children list the devices, open one and use it,
 * and find no lock that a thread has which is not theirs.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "rdma.h"
#include "network.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 60, AT_FIRST = 10, THREADS = 3, PAGE = 4096 };
static atomic_bool over;

/* Opens a device, makes an object of each kind, and closes it. */
static void use_device(struct ibv_device *of)
{
	struct ibv_context *context = MUST_PTR(ibv_open_device(of));
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_comp_channel *channel;
	struct ibv_device_attr device;
	struct ibv_srq *srq;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	void *memory; /* separate pages, because children lack those of a region */

	MUST(ibv_query_device(context, &device));
	pd = MUST_PTR(ibv_alloc_pd(context));
	memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect(memory != MAP_FAILED);
	mr = MUST_PTR(ibv_reg_mr(pd, memory, PAGE, IBV_ACCESS_LOCAL_WRITE));
	srq = MUST_PTR(ibv_create_srq(pd, &attr));
	channel = MUST_PTR(ibv_create_comp_channel(context));
	MUST(ibv_destroy_comp_channel(channel));
	MUST(ibv_destroy_srq(srq));
	MUST(ibv_dereg_mr(mr));
	MUST(munmap(memory, PAGE));
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_close_device(context));
}

/* Lists all devices, those of the kernel among them, and uses each if asked to. */
static void use(bool whole)
{
	struct ibv_device **list = MUST_PTR(ibv_get_device_list(NULL));
	int i;

	expect(list[0]);
	for (i = 0; whole && list[i]; i++)
		use_device(list[i]);
	ibv_free_device_list(list);
}

static void *lists(void *whole)
{
	while (!atomic_load(&over))
		use(whole != NULL);
	return NULL;
}

static void a_child(int number)
{
	pid_t child = fork();
	int status;

	expect(child >= 0);
	if (!child) {
		alarm(120); /* one that waits for ever */
		(void)ibv_is_fork_initialized();
		use(number % 3 == 0);
		_exit(0);
	}
	expect(waitpid(child, &status, 0) == child);
	if (status)
		out("child %d ended with %#x", number, status);
	expect(!status);
}

/* The first list of the process is made while it forks, or the first context is opened. */
static void begin(void *whole)
{
	pthread_t thread;
	int i;

	MUST(pthread_create(&thread, NULL, lists, whole));
	for (i = 0; i < AT_FIRST; i++)
		a_child(i);
	atomic_store(&over, true);
	MUST(pthread_join(thread, NULL));
}

static void from_the_beginning(void)
{
	begin(NULL);
}

/* Providers in C are loaded for devices of the kernel. */
static void with_plugins(void)
{
	setenv("IBVERBS_PREFER_PLUGIN", "all", 1);
	begin(NULL);
}

/* The process forks while its first context sets up diagnostics. */
static void with_diagnostics(void)
{
	setenv("IBVERBS_EXPLAIN", "/dev/null", 1);
	setenv("IBVERBS_VALIDATE", "/dev/null", 1);
	setenv("IBVERBS_TRACE", "/dev/null", 1);
	begin(&over);
}

static void all_the_time(void)
{
	pthread_t threads[THREADS];
	int i;

	for (i = 0; i < THREADS; i++)
		MUST(pthread_create(&threads[i], NULL, lists, i ? &threads[i] : NULL));
	for (i = 0; i < CHILDREN; i++)
		a_child(i);
	atomic_store(&over, true);
	for (i = 0; i < THREADS; i++)
		MUST(pthread_join(threads[i], NULL));
}

static void with_fork_protection(void)
{
	MUST(ibv_fork_init());
	all_the_time();
}

int main(void)
{
	int i;

	if (!own_device())
		return done();
	for (i = 0; i < 4; i++) {
		in_child("from the beginning", from_the_beginning);
		in_child("with plugins", with_plugins);
		in_child("with diagnostics", with_diagnostics);
	}
	in_child("all the time", all_the_time);
	in_child("with fork protection", with_fork_protection);
	return done();
}
