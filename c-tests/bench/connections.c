/*
 * Costs of the steps of a connection by librdmacm.
 *
 *     cc -O2 -o connections c-tests/bench/connections.c -lrdmacm -libverbs -ldl
 *     ./connections ADDRESS CYCLES AT_ONCE IDS
 *
 * A second process, which this one starts, accepts at ADDRESS. One line a step: its name, a tab,
 * nanoseconds (wall clock) of one of CYCLES connections made one after the other; then the same for
 * AT_ONCE connections that are under way together, for an address that is resolved while the
 * channel has IDS more ids, and "memory", the bytes of one of those. IDS of 0 leaves out these two.
 * Under callgrind, CYCLES of each step are dumped as "STEP 1" and twice as many as "STEP 2".
 */
#define _GNU_SOURCE
#include "measure.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <netdb.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

enum { PORT = 7471, TIMEOUT_MS = 10000, BACKLOG = 4096 };

static const char *address;
static struct rdma_event_channel *channel;
static struct rdma_cm_id **ids;

static void zero(int status, const char *what)
{
	if (status)
		die(what);
}

#define ZERO(call) zero(call, #call)

static struct sockaddr_storage at(uint16_t port)
{
	struct sockaddr_storage made = { 0 };
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV }, *found;
	char number[8];

	snprintf(number, sizeof(number), "%u", port);
	if (getaddrinfo(address, number, &hints, &found)) {
		fprintf(stderr, "%s: no address\n", address);
		exit(1);
	}
	memcpy(&made, found->ai_addr, found->ai_addrlen);
	freeaddrinfo(found);
	return made;
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	ZERO(rdma_create_qp(id, NULL, &attr));
}

static struct rdma_cm_id *new_id(void)
{
	struct rdma_cm_id *id;

	ZERO(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
	return id;
}

/* The other process: accepts each request, and follows each disconnection. */
static void serve(void)
{
	struct sockaddr_storage here = at(PORT);
	struct rdma_cm_id *listener = new_id(), *id;
	struct rdma_conn_param param = { .rnr_retry_count = 7 };
	struct rdma_cm_event *event;
	enum rdma_cm_event_type type;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ZERO(rdma_bind_addr(listener, (struct sockaddr *)&here));
	ZERO(rdma_listen(listener, BACKLOG));
	if (write(STDOUT_FILENO, "l", 1) != 1)
		die("write");
	for (;;) {
		ZERO(rdma_get_cm_event(channel, &event));
		id = event->id;
		type = event->event;
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			make_qp(id);
			ZERO(rdma_accept(id, &param));
		}
		ZERO(rdma_ack_cm_event(event));
		if (type == RDMA_CM_EVENT_DISCONNECTED) {
			rdma_disconnect(id);
			rdma_destroy_qp(id);
			ZERO(rdma_destroy_id(id));
		}
	}
}

/* Starts the other process; returns when it listens. */
static pid_t start_server(char *const *words)
{
	posix_spawn_file_actions_t actions;
	char *const arguments[] = { words[0], words[1], "server", NULL };
	int pipes[2];
	char byte;
	pid_t pid;

	ZERO(pipe(pipes));
	ZERO(posix_spawn_file_actions_init(&actions));
	ZERO(posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO));
	ZERO(posix_spawn_file_actions_addclose(&actions, pipes[0]));
	/* Not /proc/self/exe, which under valgrind is valgrind. */
	ZERO(posix_spawn(&pid, words[0], &actions, NULL, arguments, environ));
	posix_spawn_file_actions_destroy(&actions);
	close(pipes[1]);
	if (read(pipes[0], &byte, 1) != 1) {
		fprintf(stderr, "the server does not listen\n");
		exit(1);
	}
	close(pipes[0]);
	return pid;
}

/* Waits for an event of this type, a success; returns its id. */
static struct rdma_cm_id *wait_for(enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	ZERO(rdma_get_cm_event(channel, &event));
	if (event->event != wanted || event->status) {
		fprintf(stderr, "%s, status %d, instead of %s\n", rdma_event_str(event->event),
			event->status, rdma_event_str(wanted));
		exit(1);
	}
	id = event->id;
	ZERO(rdma_ack_cm_event(event));
	return id;
}

static void create(int i)
{
	ids[i] = new_id();
}

static void resolve_address(int i)
{
	struct sockaddr_storage there = at(PORT);

	ZERO(rdma_resolve_addr(ids[i], NULL, (struct sockaddr *)&there, TIMEOUT_MS));
	wait_for(RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void resolve_route(int i)
{
	ZERO(rdma_resolve_route(ids[i], TIMEOUT_MS));
	wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static void create_qp(int i)
{
	make_qp(ids[i]);
}

static void begin_connecting(int i)
{
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };

	ZERO(rdma_connect(ids[i], &param));
}

static void connect_id(int i)
{
	begin_connecting(i);
	wait_for(RDMA_CM_EVENT_ESTABLISHED);
}

static void disconnect(int i)
{
	ZERO(rdma_disconnect(ids[i]));
	wait_for(RDMA_CM_EVENT_DISCONNECTED);
}

static void destroy_qp(int i)
{
	rdma_destroy_qp(ids[i]);
}

static void destroy(int i)
{
	ZERO(rdma_destroy_id(ids[i]));
}

struct step {
	const char *name;
	void (*function)(int);
};

static const struct step steps[] = {
	{ "rdma_create_id", create },
	{ "rdma_resolve_addr", resolve_address },
	{ "rdma_resolve_route", resolve_route },
	{ "rdma_create_qp", create_qp },
	{ "rdma_connect", connect_id },
	{ "rdma_disconnect", disconnect },
	{ "rdma_destroy_qp", destroy_qp },
	{ "rdma_destroy_id", destroy },
};

enum { STEPS = sizeof(steps) / sizeof(steps[0]), CREATE_QP = 3 };

/* So many connections, step by step; the dumps of callgrind have this suffix. */
static void connections(int count, const char *suffix, double *nanoseconds)
{
	char name[64];
	double begun;
	int step, i;

	for (step = 0; step < STEPS; step++) {
		snprintf(name, sizeof(name), "%s%s", steps[step].name, suffix);
		begun = begin();
		for (i = 0; i < count; i++)
			steps[step].function(i);
		nanoseconds[step] = end(name, begun) / count;
	}
}

/* Connections whose requests leave before the first of them is answered. */
static double at_once(int count)
{
	double begun, took;
	int step, i;

	for (step = 0; step <= CREATE_QP; step++)
		for (i = 0; i < count; i++)
			steps[step].function(i);
	begun = now();
	for (i = 0; i < count; i++)
		begin_connecting(i);
	for (i = 0; i < count; i++)
		wait_for(RDMA_CM_EVENT_ESTABLISHED);
	for (i = 0; i < count; i++)
		ZERO(rdma_disconnect(ids[i]));
	for (i = 0; i < count; i++)
		wait_for(RDMA_CM_EVENT_DISCONNECTED);
	took = now() - begun;
	for (i = 0; i < count; i++) {
		destroy_qp(i);
		destroy(i);
	}
	return took / count;
}

/* Resolves addresses while the channel has many ids; prints the memory of one of them too. */
static void beside(int others, int count)
{
	struct rdma_cm_id **idle = calloc(others, sizeof(*idle));
	size_t used = mallinfo2().uordblks;
	double begun;
	int i;

	if (!idle)
		die("calloc");
	for (i = 0; i < others; i++)
		idle[i] = new_id();
	printf("memory\t%.0f\n", (double)(mallinfo2().uordblks - used) / others);
	for (i = 0; i < count; i++)
		create(i);
	begun = now();
	for (i = 0; i < count; i++)
		resolve_address(i);
	printf("rdma_resolve_addr beside %d ids\t%.0f\n", others, (now() - begun) / count);
	for (i = 0; i < count; i++)
		destroy(i);
	for (i = 0; i < others; i++)
		ZERO(rdma_destroy_id(idle[i]));
	free(idle);
}

int main(int argc, char **argv)
{
	double nanoseconds[STEPS], all = 0;
	int cycles, together, others, step;
	pid_t server;

	if (argc < 3) {
		fprintf(stderr, "usage: %s ADDRESS CYCLES AT_ONCE IDS\n", argv[0]);
		return 1;
	}
	address = argv[1];
	channel = rdma_create_event_channel();
	if (!channel)
		die("rdma_create_event_channel");
	if (!strcmp(argv[2], "server"))
		serve();
	cycles = atoi(argv[2]);
	together = argc > 3 ? atoi(argv[3]) : 0;
	others = argc > 4 ? atoi(argv[4]) : 0;
	ids = calloc(together > 2 * cycles ? together : 2 * cycles, sizeof(*ids));
	if (cycles < 1 || !ids)
		die("CYCLES");
	server = start_server(argv);
	print_library(rdma_create_id);
	/* Not measured: first uses, and the kernel's waits where the table of descriptors grows. */
	connections(2 * cycles, " 0", nanoseconds);
	connections(cycles, " 1", nanoseconds);
	for (step = 0; step < STEPS; step++) {
		printf("%s\t%.0f\n", steps[step].name, nanoseconds[step]);
		all += nanoseconds[step];
	}
	printf("a connection\t%.0f\n", all);
	if (together)
		printf("connecting and disconnecting %d at once\t%.0f\n", together,
		       at_once(together));
	if (others)
		beside(others, cycles);
	/* Twice as many, for the difference. Without callgrind nothing follows. */
	if (!together && !others)
		connections(2 * cycles, " 2", nanoseconds);
	kill(server, SIGKILL);
	return 0;
}
