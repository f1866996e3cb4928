/*
 * One side of a connection is killed at each step of it. The other side gets an event that says so,
 * or its call is refused, and can destroy its id. Messages that were under way when the process was
 * killed may be lost with it, so that there may be more than one answer.
 */
#include "lo.h"

#include <signal.h>
#include <sys/wait.h>

enum { PORT = 7493 };

/* Where a side ends itself. NEVER: it stays to the end. */
enum step { NEVER, REQ, REP, RTU, ESTABLISHED, DREQ };

/* The events that may report the end to the side that stays; ESTABLISHED may come before. */
enum { BY_REJECTED = 1, BY_DISCONNECTED = 2, BY_ERROR = 4, BY_REFUSAL = 8 };

struct way {
	const char *name;
	enum step client, server;
	int by;
	/* Of RDMA_CM_EVENT_REJECTED. */
	int reason;
};

static struct rdma_event_channel *channel;
/* The other process alone writes to the first; the second reports that a message arrived. */
static int peer_lives, arrived[2];

static void end_at(enum step own, enum step now)
{
	if (own == now)
		kill(getpid(), SIGKILL);
}

/* The same, once the message of the step has reached the other side. */
static void end_when_it_arrived(enum step own, enum step now)
{
	char byte;

	if (own == now)
		expect(read(arrived[0], &byte, 1) == 1);
	end_at(own, now);
}

static void say_it_arrived(void)
{
	expect(write(arrived[1], "a", 1) == 1);
}

/* Waits until the other process is gone: the pipe that it alone writes to has an end. */
static void until_peer_is_gone(void)
{
	char byte;

	expect(read(peer_lives, &byte, 1) == 0);
}

static int kind_of(const struct rdma_cm_event *event, const struct way *way)
{
	switch (event->event) {
	case RDMA_CM_EVENT_REJECTED:
		expect(event->status == way->reason);
		return BY_REJECTED;
	case RDMA_CM_EVENT_DISCONNECTED:
		expect(event->status == 0);
		return BY_DISCONNECTED;
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return BY_ERROR;
	default:
		expect(event->event == RDMA_CM_EVENT_ESTABLISHED && event->status == 0);
		return 0;
	}
}

static void expect_end(const struct way *way)
{
	struct rdma_cm_event *event;
	int kind;

	do {
		expect(has_event(channel, PATIENCE));
		MUST(rdma_get_cm_event(channel, &event));
		kind = kind_of(event, way);
		MUST(rdma_ack_cm_event(event));
	} while (!kind);
	expect(kind & way->by);
}

static void client(const struct way *way, int server_listens)
{
	struct rdma_conn_param param = asking(NULL, 0);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	char byte;

	channel = MUST_PTR(rdma_create_event_channel());
	id = ready(channel, PORT, RDMA_PS_TCP);
	expect(read(server_listens, &byte, 1) == 1);
	MUST(rdma_connect(id, &param));
	end_when_it_arrived(way->client, REQ);
	if (way->server == REP) {
		expect(has_event(channel, PATIENCE));
		say_it_arrived();
	}
	if (way->server == REQ || way->server == REP) {
		until_peer_is_gone();
		expect_end(way);
		drop(id);
		return;
	}
	expect(has_event(channel, PATIENCE));
	end_at(way->client, REP);
	MUST(rdma_get_cm_event(channel, &event));
	expect(event->event == RDMA_CM_EVENT_ESTABLISHED);
	MUST(rdma_ack_cm_event(event));
	end_at(way->client, RTU);
	if (way->server == ESTABLISHED) {
		expect_end(way);
		drop(id);
		return;
	}
	MUST(rdma_disconnect(id));
	end_at(way->client, DREQ);
	expect_end(way);
	drop(id);
}

static void server(const struct way *way, int says)
{
	struct rdma_conn_param param = answering(NULL, 0);
	struct rdma_cm_id *listener, *id;
	struct rdma_cm_event *event;
	int i, accepted;

	channel = MUST_PTR(rdma_create_event_channel());
	listener = listening(channel, NULL, PORT, RDMA_PS_TCP);
	expect(write(says, "l", 1) == 1);
	MUST(rdma_get_cm_event(channel, &event));
	expect(event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	id = event->id;
	MUST(rdma_ack_cm_event(event));
	end_at(way->server, REQ);
	if (way->client == REQ) {
		say_it_arrived();
		until_peer_is_gone();
	}
	MUST(make_qp(id));
	accepted = rdma_accept(id, &param);
	expect(accepted == 0 || (way->by & BY_REFUSAL && errno == EINVAL));
	end_when_it_arrived(way->server, REP);
	for (i = 0; way->client == NEVER && i < 2; i++) {
		MUST(rdma_get_cm_event(channel, &event));
		expect(event->event == (i ? RDMA_CM_EVENT_DISCONNECTED :
					    RDMA_CM_EVENT_ESTABLISHED));
		MUST(rdma_ack_cm_event(event));
		end_at(way->server, i ? DREQ : ESTABLISHED);
	}
	if (accepted == 0)
		expect_end(way);
	/* After the end of the connection the call is refused, or does nothing. */
	(void)rdma_disconnect(id);
	drop(id);
	MUST(rdma_destroy_id(listener));
}

/* Runs a side in a separate process. */
static pid_t start(void (*side)(const struct way *, int), const struct way *way, int end,
		   int own_life, int other_life, int peer)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	expect(child >= 0);
	if (child)
		return child;
	close(own_life);
	close(other_life);
	peer_lives = peer;
	side(way, end);
	rdma_destroy_event_channel(channel);
	exit(done());
}

static void run(const struct way *way)
{
	int listens[2], of_client[2], of_server[2], status;
	pid_t one, other;

	MUST(pipe(listens));
	MUST(pipe(of_client));
	MUST(pipe(of_server));
	MUST(pipe(arrived));
	/* Each side keeps the writing end of one pipe, and the reading end of the other's. */
	one = start(server, way, listens[1], of_client[1], of_server[0], of_client[0]);
	other = start(client, way, listens[0], of_server[1], of_client[0], of_server[0]);
	close(of_client[1]);
	close(of_server[1]);
	expect(waitpid(one, &status, 0) == one);
	expect(way->server ? WIFSIGNALED(status) : status == 0);
	expect(waitpid(other, &status, 0) == other);
	expect(way->client ? WIFSIGNALED(status) : status == 0);
	close(listens[0]);
	close(listens[1]);
	close(of_client[0]);
	close(of_server[0]);
	close(arrived[0]);
	close(arrived[1]);
	out("%s", way->name);
}

static const struct way ways[] = {
	{ "the client, after REQ", REQ, NEVER, BY_REFUSAL | BY_REJECTED, 28 },
	{ "the client, after REP", REP, NEVER, BY_REJECTED, 28 },
	{ "the client, after RTU", RTU, NEVER, BY_DISCONNECTED | BY_REJECTED, 28 },
	{ "the client, after DREQ", DREQ, NEVER, BY_DISCONNECTED | BY_REJECTED, 28 },
	{ "the server, after REQ", NEVER, REQ, BY_REJECTED, 8 },
	{ "the server, after REP", NEVER, REP, BY_DISCONNECTED | BY_ERROR, 28 },
	{ "the server, established", NEVER, ESTABLISHED, BY_DISCONNECTED, 0 },
	{ "the server, after DREQ", NEVER, DREQ, BY_DISCONNECTED, 0 },
};

int main(int argc, char **argv)
{
	size_t i;

	if (!own_device())
		return done();
	for (i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		if (argc < 2 || atoi(argv[1]) == (int)i)
			run(&ways[i]);
	return done();
}
