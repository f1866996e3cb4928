/*
 * A server that closes its listener, binds the port anew and listens after a pause, as perftest's
 * does between its two connections: a client that connects in between is accepted. The kernel's
 * connection manager rejects it. A request for a bound port is refused once the port is given up,
 * its owner connects from it, or the process of its owner ends, and in any case after a while. One
 * for a port that is not bound waits only if its listener was closed a moment ago, and a connection
 * of that is open.
 */
#include "lo.h"

#include <sys/wait.h>
#include <time.h>

enum { PORT = 7498, SECONDS = 2 };

static struct rdma_event_channel *server, *client;

static struct rdma_cm_id *bound(uint16_t port, enum rdma_port_space space)
{
	struct rdma_cm_id *id = new_id(server, NULL, space);
	struct sockaddr_in address = at(HERE, port);

	MUST(rdma_bind_addr(id, SA(address)));
	return id;
}

static double seconds(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

/* Asks for a connection to the port, which does not listen: there is no answer for a moment. */
static struct rdma_cm_id *asks(enum rdma_port_space space)
{
	struct rdma_conn_param param = asking("abc", 3);
	struct rdma_cm_id *id = ready(client, PORT, space);

	MUST(rdma_connect(id, &param));
	has_event(client, 50);
	return id;
}

/* The client's next event is a refusal, because no process listens. */
static void refused(struct rdma_cm_id *id, const char *why)
{
	struct rdma_cm_event *event;

	expect(has_event(client, PATIENCE));
	MUST(rdma_get_cm_event(client, &event));
	if (id->ps == RDMA_PS_UDP)
		expect(event->event == RDMA_CM_EVENT_UNREACHABLE && event->status == 1);
	else
		expect(event->event == RDMA_CM_EVENT_REJECTED && event->status == 8);
	MUST(rdma_ack_cm_event(event));
	drop(id);
	out("%s: refused", why);
}

/* Takes a connection, and ends it. */
static void served(struct rdma_cm_id *id)
{
	struct rdma_conn_param param = answering(NULL, 0);
	struct rdma_cm_event *event;
	struct rdma_cm_id *request;

	MUST(rdma_get_cm_event(server, &event));
	expect(event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
	request = event->id;
	MUST(rdma_ack_cm_event(event));
	MUST(make_qp(request));
	MUST(rdma_accept(request, &param));
	skip(client, RDMA_CM_EVENT_ESTABLISHED);
	if (id->ps == RDMA_PS_TCP) {
		skip(server, RDMA_CM_EVENT_ESTABLISHED);
		MUST(rdma_disconnect(id));
		skip(server, RDMA_CM_EVENT_DISCONNECTED);
		MUST(rdma_disconnect(request));
		skip(client, RDMA_CM_EVENT_DISCONNECTED);
	}
	drop(request);
	drop(id);
}

/* False if the machine was so slow that the request could not wait. */
static bool listens_anew(enum rdma_port_space space)
{
	struct rdma_cm_id *listener = bound(PORT, space), *id, *request;
	struct rdma_cm_event *event;
	double begun;

	MUST(rdma_listen(listener, 0));
	served(asks(space));
	MUST(rdma_destroy_id(listener));
	listener = bound(PORT, space);
	begun = seconds();
	id = asks(space);
	MUST(rdma_listen(listener, 0));
	if (seconds() - begun >= SECONDS && has_event(client, 50)) {
		MUST(rdma_get_cm_event(client, &event));
		MUST(rdma_ack_cm_event(event));
		if (has_event(server, 0)) {
			MUST(rdma_get_cm_event(server, &event));
			request = event->id;
			MUST(rdma_ack_cm_event(event));
			drop(request);
		}
		drop(id);
		MUST(rdma_destroy_id(listener));
		return false;
	}
	expect(has_event(server, PATIENCE));
	served(id);
	MUST(rdma_destroy_id(listener));
	return true;
}

/* The server's end of a connection that stays open, and the client's. */
static struct rdma_cm_id *opened(struct rdma_cm_id **active)
{
	struct rdma_conn_param param = answering(NULL, 0);
	struct rdma_cm_event *event;
	struct rdma_cm_id *request;

	*active = asks(RDMA_PS_TCP);
	MUST(rdma_get_cm_event(server, &event));
	request = event->id;
	MUST(rdma_ack_cm_event(event));
	MUST(make_qp(request));
	MUST(rdma_accept(request, &param));
	skip(client, RDMA_CM_EVENT_ESTABLISHED);
	skip(server, RDMA_CM_EVENT_ESTABLISHED);
	return request;
}

/* The same as listens_anew, with a client that comes even before the port is bound. */
static bool binds_anew(enum rdma_port_space space)
{
	struct rdma_cm_id *listener = bound(PORT, RDMA_PS_TCP), *passive, *active, *id;
	struct rdma_cm_event *event;
	double begun;
	bool in_time;

	MUST(rdma_listen(listener, 0));
	passive = opened(&active);
	begun = seconds();
	MUST(rdma_destroy_id(listener));
	id = asks(space);
	listener = bound(PORT, space);
	MUST(rdma_listen(listener, 0));
	in_time = seconds() - begun < SECONDS;
	if (in_time) {
		expect(has_event(server, PATIENCE));
		served(id);
	} else {
		if (has_event(client, 1000 * SECONDS)) {
			MUST(rdma_get_cm_event(client, &event));
			MUST(rdma_ack_cm_event(event));
		}
		drop(id);
	}
	MUST(rdma_destroy_id(listener));
	refused(asks(RDMA_PS_TCP), "it is closed for good");
	drop(active);
	skip(server, RDMA_CM_EVENT_DISCONNECTED);
	refused(asks(RDMA_PS_TCP), "it is closed, and so is its connection");
	drop(passive);
	return in_time;
}

/* The owner of the port is another process, which does not listen before it is asked to. */
static void of_another_process(bool listens)
{
	int commands[2], says[2], status;
	struct rdma_cm_id *id;
	char byte;
	pid_t pid;

	MUST(pipe(commands));
	MUST(pipe(says));
	fflush(stdout);
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		close(commands[1]);
		server = MUST_PTR(rdma_create_event_channel());
		id = bound(PORT, RDMA_PS_TCP);
		expect(write(says[1], "b", 1) == 1);
		expect(read(commands[0], &byte, 1) == listens);
		if (!listens)
			exit(0);
		MUST(rdma_listen(id, 0));
		/* Its device is closed with it: the client sees no end of the process. */
		MUST(rdma_reject(requested(server), "no", 2));
		exit(0);
	}
	close(commands[0]);
	expect(read(says[0], &byte, 1) == 1);
	id = asks(RDMA_PS_TCP);
	if (listens) {
		expect(write(commands[1], "l", 1) == 1);
		pass(client, "client");
		drop(id);
	}
	close(commands[1]);
	expect(waitpid(pid, &status, 0) == pid && status == 0);
	if (!listens)
		refused(id, "its process has ended");
	close(says[0]);
	close(says[1]);
}

int main(void)
{
	struct rdma_cm_id *owner, *id;
	struct sockaddr_in to = { 0 };

	if (!own_device())
		return done();
	server = MUST_PTR(rdma_create_event_channel());
	client = MUST_PTR(rdma_create_event_channel());
	while (!listens_anew(RDMA_PS_TCP))
		;
	out("a connection waits for its listener");
	while (!listens_anew(RDMA_PS_UDP))
		;
	out("a datagram service waits for its listener");

	while (!binds_anew(RDMA_PS_TCP))
		;
	out("a connection waits for its port");
	while (!binds_anew(RDMA_PS_UDP))
		;
	out("a datagram service waits for its port");

	refused(asks(RDMA_PS_TCP), "it is not bound");

	owner = bound(PORT, RDMA_PS_TCP);
	id = asks(RDMA_PS_TCP);
	MUST(rdma_destroy_id(owner));
	refused(id, "it is given up");

	owner = bound(PORT, RDMA_PS_TCP);
	id = asks(RDMA_PS_TCP);
	to = at(HERE, PORT + 1);
	MUST(rdma_resolve_addr(owner, NULL, SA(to), 5000));
	skip(server, RDMA_CM_EVENT_ADDR_RESOLVED);
	refused(id, "its owner connects");
	refused(asks(RDMA_PS_TCP), "its owner is about to connect");
	MUST(rdma_destroy_id(owner));

	owner = bound(PORT, RDMA_PS_TCP);
	refused(asks(RDMA_PS_TCP), "it does not listen");
	MUST(rdma_destroy_id(owner));

	owner = bound(PORT, RDMA_PS_UDP);
	refused(asks(RDMA_PS_UDP), "the service does not listen");
	MUST(rdma_destroy_id(owner));

	rdma_destroy_event_channel(client);
	rdma_destroy_event_channel(server);
	client = MUST_PTR(rdma_create_event_channel());
	of_another_process(true);
	of_another_process(false);
	rdma_destroy_event_channel(client);
	return done();
}
