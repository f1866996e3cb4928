/*
 * IBVERBS_EXPLAIN and IBVERBS_TRACE over librdmacm: each kind of failure is explained, and the
 * device that an address led to is named; a connection that works is not explained otherwise. Each
 * call of a process is in the trace.
 */
#include "lo.h"
#include "report.h"
#include "trace.h"

#include <pthread.h>
#include <sys/wait.h>

enum { PORT = 7491, NOBODYS = 7492 };

static struct rdma_event_channel *channel;

static struct rdma_conn_param no_reads(void)
{
	return (struct rdma_conn_param){ .retry_count = 7, .rnr_retry_count = 7 };
}

static void pointers(void)
{
	struct sockaddr_in here = at(HERE, PORT);
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	expect(rdma_listen(NULL, 0) == -1 && errno == EINVAL);
	report_has("no id", "librdmacm: rdma_listen() failed: EINVAL", "no id of this library", NULL);
	expect(rdma_create_id(channel, &id, NULL, 0x77) == -1 && errno == EINVAL);
	report_has("no port space", "rdma_create_id() failed", "no port space 0x77", NULL);
	id = new_id(channel, NULL, RDMA_PS_TCP);
	MUST(rdma_resolve_addr(id, NULL, SA(here), 5000));
	expect(has_event(channel, PATIENCE));
	MUST(rdma_get_cm_event(channel, &event));
	report_has("the device of an address", "RDMA_CM_EVENT_ADDR_RESOLVED",
		   "127.0.0.1:7491, uroce_lo", "port 1", NULL);
	MUST(rdma_ack_cm_event(event));
	expect(rdma_ack_cm_event(event) == -1 && errno == EINVAL);
	report_has("acknowledged twice", "rdma_ack_cm_event() failed: EINVAL",
		   "was acknowledged already", NULL);
	MUST(rdma_destroy_id(id));
	report_nothing("destroyed");
}

static void addresses(void)
{
	struct sockaddr_in elsewhere = at("192.0.2.1", PORT), here = at(HERE, PORT);
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP), *other;

	expect(rdma_bind_addr(id, SA(elsewhere)) == -1);
	report_has("not an address of the host", "rdma_bind_addr(id 0x", "EADDRNOTAVAIL",
		   "192.0.2.1:7491: No interface of this network namespace has the address", NULL);
	MUST(rdma_bind_addr(id, SA(here)));
	other = new_id(channel, NULL, RDMA_PS_TCP);
	expect(rdma_bind_addr(other, SA(here)) == -1 && errno == EADDRINUSE);
	report_has("a port that is bound", "EADDRINUSE", "Another id is bound to the port", NULL);
	expect(rdma_bind_addr(other, NULL) == -1 && errno == EINVAL);
	report_has("no address", "The address is NULL", NULL);
	MUST(rdma_destroy_id(other));
	MUST(rdma_destroy_id(id));
	report_nothing("addresses");
}

static void states(void)
{
	struct rdma_conn_param param = no_reads();
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);

	expect(rdma_connect(id, &param) == -1 && errno == EINVAL);
	report_has("connected at once", "rdma_connect(id 0x", "after RDMA_CM_EVENT_ROUTE_RESOLVED",
		   "is at no device, and it has had no event", NULL);
	expect(rdma_resolve_route(id, 100) == -1 && errno == EINVAL);
	report_has("no address yet", "after RDMA_CM_EVENT_ADDR_RESOLVED", NULL);
	expect(make_qp(id) == -1 && errno == EINVAL);
	report_has("no device yet", "rdma_create_qp(id 0x", "at no device yet", NULL);
	MUST(rdma_destroy_id(id));
	id = ready(channel, PORT, RDMA_PS_TCP);
	(void)report_take();
	expect(make_qp(id) == -1 && errno == EINVAL);
	report_has("two queue pairs", "has a queue pair already", NULL);
	param.responder_resources = 254;
	expect(rdma_connect(id, &param) == -1 && errno == EINVAL);
	report_has("too many resources", "127.0.0.1:7491, uroce_lo",
		   "responder_resources 254 is more than the device has: max_qp_rd_atom", NULL);
	expect(rdma_disconnect(id) == -1);
	report_has("no connection", "A connection is needed.",
		   "its last event is RDMA_CM_EVENT_ROUTE_RESOLVED", NULL);
	drop(id);
	report_nothing("states");
}

static void rejected(void)
{
	struct rdma_cm_id *listener = listening(channel, NULL, PORT, RDMA_PS_TCP), *id, *request;
	struct rdma_conn_param param = no_reads();

	id = ready(channel, NOBODYS, RDMA_PS_TCP);
	(void)report_take();
	MUST(rdma_connect(id, &param));
	pass(channel, "client");
	report_has("no listener", "RDMA_CM_EVENT_REJECTED, status 8. Reason 8, invalid service id",
		   "No process listens at that port", NULL);
	expect(rdma_connect(id, &param) == -1);
	report_has("a second attempt", "RDMA_CM_EVENT_REJECTED. Each attempt needs a new id", NULL);
	drop(id);
	id = ready(channel, PORT, RDMA_PS_TCP);
	(void)report_take();
	MUST(rdma_connect(id, &param));
	request = requested(channel);
	MUST(rdma_reject(request, NULL, 0));
	MUST(rdma_destroy_id(request));
	pass(channel, "client");
	report_has("rejected by the program", "status 28. Reason 28, rejected by the consumer",
		   "called rdma_reject", NULL);
	drop(id);
	MUST(rdma_destroy_id(listener));
	report_nothing("rejected");
}

static void *destroy(void *id)
{
	MUST(rdma_destroy_id(id));
	return NULL;
}

static void waits(void)
{
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);
	struct sockaddr_in here = at(HERE, PORT);
	struct rdma_cm_event *event;
	pthread_t thread;
	char address[32];

	MUST(rdma_resolve_addr(id, NULL, SA(here), 5000));
	event = take(channel, "client");
	(void)report_take();
	MUST(pthread_create(&thread, NULL, destroy, id));
	while (!report_size())
		usleep(1000);
	snprintf(address, sizeof(address), "RESOLVED (%p)", (void *)event);
	report_has("an event that is kept", "rdma_destroy_id(id 0x", "waits: the program has 1 event",
		   "RDMA_CM_EVENT_ADDR_RESOLVED (0x", address, NULL);
	MUST(rdma_ack_cm_event(event));
	MUST(pthread_join(thread, NULL));
	report_nothing("acknowledged");
}

static void works(void)
{
	struct rdma_cm_id *listener = listening(channel, NULL, PORT, RDMA_PS_TCP), *id, *request;
	struct rdma_conn_param param = no_reads();

	id = ready(channel, PORT, RDMA_PS_TCP);
	(void)report_take();
	MUST(rdma_connect(id, &param));
	request = requested(channel);
	MUST(make_qp(request));
	MUST(rdma_accept(request, &param));
	pass(channel, "one");
	pass(channel, "other");
	MUST(rdma_disconnect(id));
	pass(channel, "one");
	MUST(rdma_disconnect(request));
	pass(channel, "other");
	drop(request);
	drop(id);
	MUST(rdma_destroy_id(listener));
	report_nothing("a connection");
}

static int explained(void)
{
	report_to_file("IBVERBS_EXPLAIN", "");
	channel = MUST_PTR(rdma_create_event_channel());
	pointers();
	addresses();
	states();
	rejected();
	waits();
	works();
	rdma_destroy_event_channel(channel);
	MUST(unlink(report_path));
	return done();
}

static int recorded(void)
{
	struct rdma_conn_param param = no_reads();
	struct rdma_cm_id *id;

	channel = MUST_PTR(rdma_create_event_channel());
	id = ready(channel, NOBODYS, RDMA_PS_TCP);
	MUST(rdma_connect(id, &param));
	pass(channel, "client");
	expect(rdma_connect(id, &param) == -1);
	drop(id);
	rdma_destroy_event_channel(channel);
	return done();
}

/* In a separate process: a variable is read once in the life of one. */
static void apart(int (*run)(void))
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	expect(child >= 0);
	if (!child)
		exit(run());
	expect(waitpid(child, &status, 0) == child && status == 0);
}

static void trace(void)
{
	struct call *call, *resolved;

	report_to_file("IBVERBS_TRACE", "");
	apart(recorded);
	read_trace(report_path);
	call = MUST_PTR(nth("rdma_create_event_channel", 0));
	expect(call->error == 0 && call->value != 0 && call->words == 0);
	resolved = MUST_PTR(nth("rdma_resolve_addr", 0));
	/* id, family, port, milliseconds */
	expect(resolved->words == 4 && resolved->word[1] == AF_INET &&
	       resolved->word[2] == NOBODYS && resolved->word[3] == 5000);
	call = MUST_PTR(nth("rdma_get_cm_event", 0));
	/* channel, event, id, type, status */
	expect(call->words == 5 && call->word[2] == resolved->word[0] &&
	       call->word[3] == RDMA_CM_EVENT_ADDR_RESOLVED && call->word[4] == 0);
	call = MUST_PTR(nth("rdma_get_cm_event", 2));
	expect(call->word[3] == RDMA_CM_EVENT_REJECTED && call->word[4] == 8);
	call = MUST_PTR(nth("rdma_connect", 1));
	expect(call->error == EINVAL && call->word[0] == resolved->word[0]);
	expect(nth("ibv_create_qp", 0) || nth("ibv_create_qp_ex", 0));
	expect(nth("rdma_destroy_id", 0) && nth("rdma_ack_cm_event", 2));
	expect(nth("rdma_destroy_event_channel", 0));
	MUST(unlink(report_path));
	out("a trace");
}

int main(void)
{
	if (!own_device())
		return done();
	apart(explained);
	strcpy(report_path, "/tmp/ibverbs-report-XXXXXX");
	trace();
	return done();
}
