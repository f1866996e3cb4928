/*
 * A host with a listener, and two other hosts that connect to it, a thousand connections at once,
 * over packets alone.
 *
 * First every connection is accepted. Then the listener's process is killed twice while it accepts
 * connections, and another takes its place. Each attempt to connect ends with a connection or with
 * an event that docs/rdmacm.md names, and an id that got such an event connects by another attempt.
 * At the end each connection is ended, also those with a process that was killed.
 *
 * An argument is another number of connections of each client.
 */
#include "lo.h"

#include <signal.h>
#include <sys/wait.h>

enum { PORT = 7496, CLIENTS = 2, CONNECTIONS = 500, KILLED = 2 };

/* Why a request is rejected while listeners come and go (IBTA volume 1, 12.6.7.2). */
enum { INVALID_SERVICE_ID = 8, STALE_CONNECTION = 10 };

/* A process on a separate host. */
struct host {
	pid_t process;
	/* To it and from it; each ends with the process at its other end. */
	int orders, reports;
};

/* Of a client's connections; sent as private data, and returned by the listener. */
struct name {
	uint32_t client, number;
};

static uint32_t connections = CONNECTIONS;

static void send_byte(int fd, char byte)
{
	expect(write(fd, &byte, 1) == 1);
}

/* The next byte of a pipe; 0 at its end. */
static char next_byte(int fd)
{
	char byte = 0;

	expect(read(fd, &byte, 1) >= 0);
	return byte;
}

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
	char command[256];
	va_list values;

	va_start(values, format);
	vsnprintf(command, sizeof(command), format, values);
	va_end(values);
	expect(!system(command));
}

/* The queue that all pairs of a device share: a separate one would need descriptors. */
static struct ibv_cq *completions(struct ibv_context *device)
{
	static struct {
		struct ibv_context *device;
		struct ibv_cq *queue;
	} known[CLIENTS];
	int i;

	for (i = 0; known[i].device && known[i].device != device; i++)
		expect(i + 1 < CLIENTS);
	if (!known[i].device) {
		known[i].device = device;
		known[i].queue = MUST_PTR(ibv_create_cq(device, 16, NULL, NULL, 0));
	}
	return known[i].queue;
}

static void with_qp(struct rdma_cm_id *id)
{
	struct ibv_cq *queue = completions(id->verbs);
	struct ibv_qp_init_attr init = {
		.send_cq = queue,
		.recv_cq = queue,
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};

	MUST(rdma_create_qp(id, NULL, &init));
}

static struct name name_in(const struct rdma_cm_event *event)
{
	struct name name;

	expect(event->param.conn.private_data_len >= sizeof(name));
	memcpy(&name, event->param.conn.private_data, sizeof(name));
	return name;
}

/*
 * The listener. It kills itself once it has accepted that many requests, if that is not 0, and
 * otherwise ends with the order to do so.
 */

struct listener {
	struct rdma_event_channel *channel;
	uint32_t kill_after, requests;
};

static void accept_one(struct listener *own, struct rdma_cm_event *event)
{
	struct rdma_cm_id *id = event->id;
	struct name name = name_in(event);
	struct rdma_conn_param param = answering(&name, sizeof(name));

	own->requests++;
	expect(name.client < CLIENTS && name.number < connections);
	with_qp(id);
	MUST(rdma_accept(id, &param));
	if (own->requests == own->kill_after)
		kill(getpid(), SIGKILL);
}

static void listener_event(struct listener *own)
{
	struct rdma_cm_event *event;
	enum rdma_cm_event_type kind;
	struct rdma_cm_id *id;

	MUST(rdma_get_cm_event(own->channel, &event));
	kind = event->event;
	id = event->id;
	if (kind == RDMA_CM_EVENT_CONNECT_REQUEST)
		accept_one(own, event);
	/* The client still has a connection with the pair of a process that was killed. */
	else if (kind == RDMA_CM_EVENT_REJECTED)
		expect(event->status == STALE_CONNECTION);
	else
		expect(event->status == 0);
	MUST(rdma_ack_cm_event(event));
	switch (kind) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_ESTABLISHED:
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		MUST(rdma_disconnect(id));
		drop(id);
		break;
	case RDMA_CM_EVENT_REJECTED:
		drop(id);
		break;
	default:
		expect(kind == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	}
}

/* Returns how many requests there were. */
static uint32_t serve(uint32_t kill_after, int orders, int reports)
{
	struct listener own = { .kill_after = kill_after };
	struct sockaddr_in any = at("0.0.0.0", PORT);
	struct rdma_cm_id *id;
	struct pollfd watched[2];

	own.channel = MUST_PTR(rdma_create_event_channel());
	id = new_id(own.channel, NULL, RDMA_PS_TCP);
	MUST(rdma_bind_addr(id, SA(any)));
	MUST(rdma_listen(id, 0));
	send_byte(reports, 'l');
	watched[0] = (struct pollfd){ .fd = own.channel->fd, .events = POLLIN };
	watched[1] = (struct pollfd){ .fd = orders, .events = POLLIN };
	do {
		expect(poll(watched, 2, -1) > 0);
		if (watched[0].revents)
			listener_event(&own);
	} while (watched[0].revents || !watched[1].revents);
	MUST(rdma_destroy_id(id));
	rdma_destroy_event_channel(own.channel);
	return own.requests;
}

/* A client. */

struct client {
	struct rdma_event_channel *channel;
	uint32_t own, connected;
	/* By the numbers in their contexts; NULL once the connection has ended. */
	struct rdma_cm_id *ids[CONNECTIONS];
	/* Whether requests may be rejected. */
	bool listeners_end;
};

static void attempt(struct client *own, uint32_t number)
{
	char address[16];
	struct sockaddr_in to;
	struct rdma_cm_id *id;

	snprintf(address, sizeof(address), "10.9.%u.1", own->own + 1);
	to = at(address, PORT);
	id = new_id(own->channel, (void *)(uintptr_t)number, RDMA_PS_TCP);
	own->ids[number] = id;
	MUST(rdma_resolve_addr(id, NULL, SA(to), 5000));
}

static void ask(struct client *own, struct rdma_cm_id *id, uint32_t number)
{
	struct name name = { own->own, number };
	struct rdma_conn_param param = asking(&name, sizeof(name));

	with_qp(id);
	MUST(rdma_connect(id, &param));
}

static void connected(struct client *own, const struct rdma_cm_event *event, uint32_t number)
{
	struct name answered = name_in(event);

	expect(answered.client == own->own && answered.number == number);
	own->connected++;
}

static void client_event(struct client *own)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	bool again = false;
	uint32_t number;

	MUST(rdma_get_cm_event(own->channel, &event));
	id = event->id;
	number = (uintptr_t)id->context;
	expect(number < connections && own->ids[number] == id);
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		MUST(rdma_resolve_route(id, 5000));
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		ask(own, id, number);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		connected(own, event, number);
		break;
	case RDMA_CM_EVENT_REJECTED:
		expect(own->listeners_end);
		expect(event->status == INVALID_SERVICE_ID || event->status == STALE_CONNECTION);
		again = true;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		/* Stale: a new listener has a pair of the same number. */
		expect(own->listeners_end);
		own->ids[number] = NULL;
		break;
	default:
		out("%s %d", rdma_event_str(event->event), event->status);
		expect(false);
	}
	MUST(rdma_ack_cm_event(event));
	if (again || !own->ids[number])
		drop(id);
	if (again)
		attempt(own, number);
}

static void end_connections(struct client *own)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	uint32_t number, left = 0;

	for (number = 0; number < connections; number++) {
		if (!own->ids[number])
			continue;
		left++;
		/* A stale connection may be at its end already. */
		expect(!rdma_disconnect(own->ids[number]) || own->listeners_end);
	}
	while (left--) {
		MUST(rdma_get_cm_event(own->channel, &event));
		expect(event->event == RDMA_CM_EVENT_DISCONNECTED && event->status == 0);
		id = event->id;
		MUST(rdma_ack_cm_event(event));
		drop(id);
	}
}

static void connect_all(uint32_t client, bool listeners_end, int orders, int reports)
{
	struct client own = { .own = client, .listeners_end = listeners_end };
	uint32_t number;

	own.channel = MUST_PTR(rdma_create_event_channel());
	for (number = 0; number < connections; number++)
		attempt(&own, number);
	while (own.connected < connections)
		client_event(&own);
	send_byte(reports, 'c');
	/* When the other one has connected, too. */
	expect(next_byte(orders) == 'e');
	end_connections(&own);
	send_byte(reports, 'e');
	rdma_destroy_event_channel(own.channel);
}

/* The process of a host: the listener's is the network that the program is in. */

static void start(struct host *host, void (*run)(int orders, int reports))
{
	int orders[2], reports[2];

	MUST(pipe2(orders, O_CLOEXEC));
	MUST(pipe2(reports, O_CLOEXEC));
	fflush(stdout);
	host->process = fork();
	expect(host->process >= 0);
	if (!host->process) {
		close(orders[1]);
		close(reports[0]);
		run(orders[0], reports[1]);
		exit(done());
	}
	close(orders[0]);
	close(reports[1]);
	host->orders = orders[1];
	host->reports = reports[0];
}

static void ends_well(struct host *host)
{
	int status;

	expect(waitpid(host->process, &status, 0) == host->process);
	expect(status == 0);
	close(host->orders);
	close(host->reports);
}

static void run_listener(int orders, int reports)
{
	setenv("UROCE_DEVICES", "eth1,eth2", 1);
	expect(serve(0, orders, reports) == CLIENTS * connections);
}

static void run_killed_listener(int orders, int reports)
{
	setenv("UROCE_DEVICES", "eth1,eth2", 1);
	serve(connections / 2, orders, reports);
}

static void run_last_listener(int orders, int reports)
{
	setenv("UROCE_DEVICES", "eth1,eth2", 1);
	serve(0, orders, reports);
}

/* Which one a client is, and whether its listener is killed; of the process that becomes it. */
static uint32_t client_number;
static bool kills;

static void run_client(int orders, int reports)
{
	uint32_t net = client_number + 1;

	MUST(unshare(CLONE_NEWNET));
	send_byte(reports, 'n');
	expect(next_byte(orders) == 'n');
	shell("ip link set lo up && ip addr add 10.9.%u.2/24 dev eth0 && ip link set eth0 up", net);
	setenv("UROCE_DEVICES", "eth0", 1);
	send_byte(reports, 'r');
	expect(next_byte(orders) == 'c');
	connect_all(client_number, kills, orders, reports);
}

static void start_client(struct host *host)
{
	uint32_t net = client_number + 1;

	start(host, run_client);
	expect(next_byte(host->reports) == 'n');
	shell("ip link add eth%u type veth peer name eth0 netns %d", net, (int)host->process);
	shell("ip addr add 10.9.%u.1/24 dev eth%u && ip link set eth%u up", net, net, net);
	send_byte(host->orders, 'n');
	expect(next_byte(host->reports) == 'r');
}

static void start_listener(struct host *host, void (*run)(int orders, int reports))
{
	start(host, run);
	expect(next_byte(host->reports) == 'l');
}

/* Starts the next listener each time that one is killed; the last one stays. */
static void restart(struct host *listener)
{
	int status, left;

	for (left = KILLED; left--;) {
		expect(waitpid(listener->process, &status, 0) == listener->process);
		expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		close(listener->orders);
		close(listener->reports);
		start_listener(listener, left ? run_killed_listener : run_last_listener);
	}
}

static void run(bool killed)
{
	struct host listener, clients[CLIENTS];
	int i;

	kills = killed;
	for (i = 0; i < CLIENTS; i++) {
		client_number = i;
		start_client(&clients[i]);
	}
	start_listener(&listener, killed ? run_killed_listener : run_listener);
	for (i = 0; i < CLIENTS; i++)
		send_byte(clients[i].orders, 'c');
	if (killed)
		restart(&listener);
	for (i = 0; i < CLIENTS; i++)
		expect(next_byte(clients[i].reports) == 'c');
	for (i = 0; i < CLIENTS; i++)
		send_byte(clients[i].orders, 'e');
	for (i = 0; i < CLIENTS; i++)
		expect(next_byte(clients[i].reports) == 'e');
	send_byte(listener.orders, 'e');
	ends_well(&listener);
	for (i = 0; i < CLIENTS; i++)
		ends_well(&clients[i]);
	/* Interfaces go with the namespace of their other end, but not at once. */
	for (i = 0; i < CLIENTS; i++)
		shell("ip link del eth%d 2>/dev/null || true", i + 1);
	out(killed ? "every client was served in the end" : "every request was accepted");
}

int main(int argc, char **argv)
{
	if (argc > 1)
		connections = atoi(argv[1]);
	expect(connections && connections <= CONNECTIONS);
	if (!own_network()) {
		out("skipped: no network namespace: %s", errno_name(errno));
		return done();
	}
	MUST(system("ip link set lo up"));
	run(false);
	run(true);
	return done();
}
