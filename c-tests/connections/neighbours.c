/*
 * rdma_resolve_addr(3) waits for the Ethernet address of the neighbour that packets go to, as it
 * does over the kernel's connection manager: an address that no host has ends with
 * RDMA_CM_EVENT_ADDR_ERROR when the caller's time is over. It does so for a user without
 * privileges.
 *
 * The client is a separate host, joined with the network of this program.
 */
#include "lo.h"

#include <sys/wait.h>

/* Addresses of the client, of a neighbour, and of none. */
#define CLIENT "10.9.0.1"
#define NEIGHBOUR "10.9.0.2"
#define ABSENT "10.9.0.77"
/* The first one is missing, until it is asked for. */
#define LATE "10.9.0.3"
/* Behind gateways: the neighbour, and none. */
#define FAR "10.8.0.5"
#define FAR_ABSENT "10.7.0.5"
/* By an interface that resolves no addresses. */
#define WITHOUT_ARP "10.6.0.9"

enum { PORT = 7471, NOBODY = 65534, LONG = 60000 };

static struct rdma_event_channel *channel;

static void shell(const char *command)
{
	expect(!system(command));
}

static uint64_t milliseconds(void)
{
	struct timespec now;

	MUST(clock_gettime(CLOCK_MONOTONIC, &now));
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

static struct sockaddr_in6 at6(const char *address)
{
	struct sockaddr_in6 made = { .sin6_family = AF_INET6, .sin6_port = htons(PORT) };

	expect(inet_pton(AF_INET6, address, &made.sin6_addr) == 1);
	if (IN6_IS_ADDR_LINKLOCAL(&made.sin6_addr))
		made.sin6_scope_id = 2;
	return made;
}

/* The next event is one of this id. */
static void ends(struct rdma_cm_id *id, enum rdma_cm_event_type wanted, int status)
{
	struct rdma_cm_event *event;

	MUST(rdma_get_cm_event(channel, &event));
	if (event->event != wanted || event->status != status)
		out("%s, status %d", rdma_event_str(event->event), event->status);
	expect(event->id == id && event->event == wanted && event->status == status);
	MUST(rdma_ack_cm_event(event));
}

static void resolves_to(struct sockaddr *address, int timeout)
{
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);

	MUST(rdma_resolve_addr(id, NULL, address, timeout));
	ends(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	MUST(rdma_destroy_id(id));
}

static void resolved(const char *address, int timeout)
{
	struct sockaddr_in to = at(address, PORT);

	resolves_to(SA(to), timeout);
}

/* The time is over when the event is reported, and the id can be used again. */
static void times_out(struct rdma_cm_id *id, struct sockaddr *address, int timeout)
{
	uint64_t begin = milliseconds();

	MUST(rdma_resolve_addr(id, NULL, address, timeout));
	ends(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	expect(milliseconds() - begin >= (uint64_t)timeout);
}

static void absent(struct sockaddr *address)
{
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);

	times_out(id, address, 200);
	times_out(id, address, 0);
	MUST(rdma_destroy_id(id));
}

static void of_ipv4(void)
{
	struct sockaddr_in to = at(ABSENT, PORT), far = at(FAR_ABSENT, PORT);
	struct sockaddr_in late = at(NEIGHBOUR, PORT);
	struct rdma_cm_id *id;

	absent(SA(to));
	absent(SA(far));
	resolved(NEIGHBOUR, LONG);
	resolved(NEIGHBOUR, 0);
	resolved(FAR, LONG);
	out("IPv4: neighbours and gateways");

	/* An id whose resolution failed resolves another address. */
	id = new_id(channel, NULL, RDMA_PS_TCP);
	times_out(id, SA(to), 0);
	MUST(rdma_resolve_addr(id, NULL, SA(late), LONG));
	ends(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	MUST(rdma_destroy_id(id));
}

static void of_ipv6(void)
{
	struct sockaddr_in6 to = at6("fd00:9::2"), none = at6("fd00:9::77");
	struct sockaddr_in6 local = at6("fe80::77");

	absent(SA(none));
	absent(SA(local));
	resolves_to(SA(to), LONG);
	out("IPv6: neighbours");
}

/* There is no neighbour to wait for. */
static void without_neighbour(void)
{
	struct sockaddr_in group = at("239.1.1.1", PORT), here = at(CLIENT, 0);
	struct rdma_cm_id *id;

	resolved(CLIENT, 0);
	resolved(WITHOUT_ARP, 0);
	id = new_id(channel, NULL, RDMA_PS_UDP);
	MUST(rdma_resolve_addr(id, SA(here), SA(group), 0));
	ends(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	MUST(rdma_destroy_id(id));
	out("own addresses, groups, interfaces without ARP: at once");
}

static void without_route(void)
{
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);
	struct sockaddr_in to = at("192.0.2.1", PORT), unreachable = at("203.0.113.1", PORT);

	RC(rdma_resolve_addr(id, NULL, SA(to), LONG));
	RC(rdma_resolve_addr(id, NULL, SA(unreachable), LONG));
	MUST(rdma_destroy_id(id));
}

/* The order of the events is that of the times, and ids end while they wait. */
static void several(void)
{
	struct sockaddr_in to = at(ABSENT, PORT), there = at(NEIGHBOUR, PORT);
	struct rdma_event_channel *other = MUST_PTR(rdma_create_event_channel());
	struct rdma_cm_id *ids[4], *left;
	int timeouts[] = { 600, 200, LONG, 400 }, order[] = { 1, 3, 0 }, i;

	for (i = 0; i < 4; i++) {
		ids[i] = new_id(channel, NULL, RDMA_PS_TCP);
		MUST(rdma_resolve_addr(ids[i], NULL, SA(to), timeouts[i]));
	}
	left = new_id(other, NULL, RDMA_PS_TCP);
	MUST(rdma_resolve_addr(left, NULL, SA(to), 100));

	RC(rdma_resolve_addr(ids[2], NULL, SA(there), LONG));
	RC(rdma_bind_addr(ids[2], SA(to)));
	RC(rdma_listen(ids[2], 1));
	RC(rdma_resolve_route(ids[2], LONG));
	RC(rdma_connect(ids[2], NULL));
	MUST(rdma_destroy_id(ids[2]));
	resolved(NEIGHBOUR, LONG);
	for (i = 0; i < 3; i++) {
		ends(ids[order[i]], RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
		MUST(rdma_destroy_id(ids[order[i]]));
	}
	rdma_destroy_event_channel(other);
	none(channel, "later");
}

/* The host appears while the resolution waits for it. */
static void late(int orders, int reports)
{
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);
	struct sockaddr_in to = at(LATE, PORT);
	char byte = 'l';

	MUST(rdma_resolve_addr(id, NULL, SA(to), LONG));
	none(channel, "missing");
	expect(write(reports, &byte, 1) == 1);
	expect(read(orders, &byte, 1) == 1);
	ends(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	MUST(rdma_destroy_id(id));
	out("a host that appears is found");
}

/* A call of a synchronous id returns the error. */
static void synchronous(void)
{
	struct rdma_cm_id *id = new_id(NULL, NULL, RDMA_PS_TCP);
	struct sockaddr_in to = at(ABSENT, PORT);

	RC(rdma_resolve_addr(id, NULL, SA(to), 100));
	rdma_destroy_ep(id);
}

static int client(int orders, int reports)
{
	char byte = 'n';

	MUST(unshare(CLONE_NEWNET));
	expect(write(reports, &byte, 1) == 1);
	expect(read(orders, &byte, 1) == 1);
	shell("ip link set lo up && ip addr add " CLIENT "/24 dev eth0"
	      " && ip addr add fd00:9::1/64 dev eth0 nodad && ip link set eth0 up"
	      " && ip link add eth1 type veth peer name unused"
	      " && ip addr add 10.6.0.1/24 dev eth1 && ip link set eth1 arp off up"
	      " && ip link set unused up"
	      " && ip route add 10.8.0.0/24 via " NEIGHBOUR " && ip route add 10.7.0.0/24 via 10.9.0.88"
	      " && ip route add unreachable 203.0.113.0/24");
	/* IPv6 uses the interface some time after it is up. Then there is a link-local address. */
	shell("until ip -6 addr show dev eth0 scope link -tentative | grep -q inet6; do"
	      " sleep 0.05; done");
	/* In a user namespace there is one user, who has no privilege outside. */
	if (!setresgid(NOBODY, NOBODY, NOBODY))
		MUST(setresuid(NOBODY, NOBODY, NOBODY));
	setenv("UROCE_DEVICES", "eth0,eth1", 1);
	channel = MUST_PTR(rdma_create_event_channel());
	of_ipv4();
	of_ipv6();
	without_neighbour();
	without_route();
	several();
	late(orders, reports);
	synchronous();
	rdma_destroy_event_channel(channel);
	return done();
}

int main(void)
{
	int orders[2], reports[2], status;
	char command[64], byte;
	pid_t child;

	if (!own_network()) {
		out("skipped: no network namespace: %s", errno_name(errno));
		return done();
	}
	MUST(pipe(orders));
	MUST(pipe(reports));
	fflush(stdout);
	child = fork();
	expect(child >= 0);
	if (!child) {
		close(orders[1]);
		close(reports[0]);
		return client(orders[0], reports[1]);
	}
	close(reports[1]);
	expect(read(reports[0], &byte, 1) == 1);
	snprintf(command, sizeof(command), "ip link add v0 type veth peer name eth0 netns %d",
		 (int)child);
	shell(command);
	shell("ip addr add " NEIGHBOUR "/24 dev v0 && ip addr add fd00:9::2/64 dev v0 nodad"
	      " && ip link set v0 up");
	expect(write(orders[1], "n", 1) == 1);
	if (read(reports[0], &byte, 1) == 1) {
		shell("ip addr add " LATE "/24 dev v0");
		expect(write(orders[1], "l", 1) == 1);
	}
	expect(waitpid(child, &status, 0) == child);
	expect(status == 0);
	return 0;
}
