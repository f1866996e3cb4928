/*
 * The connection manager of devices in user space, by the table that librdmacm reaches it by:
 * connections that are accepted, rejected, refused and ended, within one process. The
 * program runs in a separate network namespace. Each connection has another queue pair number,
 * because a number that was used just before is refused as stale.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "network.h"
#include "rdma.h"

#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>

/* kit::cm::Table */
struct table {
	size_t size;
	uint32_t version;
	int (*open)(uint32_t *channel, int *descriptor);
	int (*close)(uint32_t channel);
	int (*ask)(uint32_t channel, uint32_t number, const void *command, size_t length,
		   void *response, size_t room);
};

const struct table *ferroverbs_connection_manager(void);

enum { PORT = 7471, NOBODYS_PORT = 7472, PATIENCE_MS = 60000 };
enum { TCP_SPACE = 0x106, ADDR_RESOLVED = 0, ROUTE_RESOLVED = 2, CONNECT_REQUEST = 4 };
enum { CONNECT_RESPONSE = 5, REJECTED = 8, ESTABLISHED = 9, DISCONNECTED = 10 };

static const struct table *cm;
static uint32_t channel;
static int descriptor;

#define ASK(number, command, response) \
	cm->ask(channel, number, &(command), sizeof(command), response, sizeof(*(response)))
#define DO(number, command) cm->ask(channel, number, &(command), sizeof(command), NULL, 0)

static uint32_t create(uint64_t uid)
{
	struct rdma_ucm_create_id command = { .uid = uid, .ps = TCP_SPACE };
	struct rdma_ucm_create_id_resp made = {};

	MUST(ASK(RDMA_USER_CM_CMD_CREATE_ID, command, &made));
	return made.id;
}

static uint32_t destroy(uint32_t id)
{
	struct rdma_ucm_destroy_id command = { .id = id };
	struct rdma_ucm_destroy_id_resp answer = {};

	MUST(ASK(RDMA_USER_CM_CMD_DESTROY_ID, command, &answer));
	return answer.events_reported;
}

static struct sockaddr_in loopback(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static int bind_to(uint32_t id, int port)
{
	struct rdma_ucm_bind command = { .id = id, .addr_size = sizeof(struct sockaddr_in) };
	struct sockaddr_in address = loopback(port);

	memcpy(&command.addr, &address, sizeof(address));
	return DO(RDMA_USER_CM_CMD_BIND, command);
}

/* The next event, which has to be of this kind. */
static struct rdma_ucm_event_resp next(uint32_t kind)
{
	struct rdma_ucm_get_event command = {};
	struct rdma_ucm_event_resp event = {};
	struct pollfd readable = { .fd = descriptor, .events = POLLIN };

	expect(poll(&readable, 1, PATIENCE_MS) == 1);
	MUST(ASK(RDMA_USER_CM_CMD_GET_EVENT, command, &event));
	expect(event.event == kind);
	return event;
}

static void nothing_waits(void)
{
	struct rdma_ucm_get_event command = {};
	struct rdma_ucm_event_resp event;
	struct pollfd readable = { .fd = descriptor, .events = POLLIN };

	expect(poll(&readable, 1, 0) == 0);
	expect(ASK(RDMA_USER_CM_CMD_GET_EVENT, command, &event) == EAGAIN);
}

static uint32_t resolved(uint64_t uid, int port)
{
	struct rdma_ucm_resolve_addr to = { .id = create(uid), .timeout_ms = 1000 };
	struct rdma_ucm_resolve_route route = { .id = to.id, .timeout_ms = 1000 };
	struct sockaddr_in address = loopback(port);

	to.dst_size = sizeof(address);
	memcpy(&to.dst_addr, &address, sizeof(address));
	MUST(DO(RDMA_USER_CM_CMD_RESOLVE_ADDR, to));
	expect(next(ADDR_RESOLVED).uid == uid);
	MUST(DO(RDMA_USER_CM_CMD_RESOLVE_ROUTE, route));
	expect(next(ROUTE_RESOLVED).uid == uid);
	return to.id;
}

static struct rdma_ucm_conn_param param(const char *data, uint32_t qp_num)
{
	struct rdma_ucm_conn_param param = {
		.qp_num = qp_num, .private_data_len = (uint8_t)strlen(data),
		.responder_resources = 3, .initiator_depth = 5, .retry_count = 6,
		.rnr_retry_count = 7, .valid = 1,
	};

	memcpy(param.private_data, data, strlen(data));
	return param;
}

static int connect_with(uint32_t id, struct rdma_ucm_conn_param param)
{
	struct rdma_ucm_connect command = { .id = id, .conn_param = param };

	return DO(RDMA_USER_CM_CMD_CONNECT, command);
}

static int accept_with(uint32_t id, uint64_t uid, struct rdma_ucm_conn_param param)
{
	struct rdma_ucm_accept command = { .id = id, .uid = uid, .conn_param = param };

	return DO(RDMA_USER_CM_CMD_ACCEPT, command);
}

static int reject_with(uint32_t id, const char *data)
{
	struct rdma_ucm_reject command = { .id = id, .private_data_len = (uint8_t)strlen(data) };

	memcpy(command.private_data, data, strlen(data));
	return DO(RDMA_USER_CM_CMD_REJECT, command);
}

static int disconnect(uint32_t id)
{
	struct rdma_ucm_disconnect command = { .id = id };

	return DO(RDMA_USER_CM_CMD_DISCONNECT, command);
}

static struct ib_uverbs_qp_attr attributes(uint32_t id, uint32_t state)
{
	struct rdma_ucm_init_qp_attr command = { .id = id, .qp_state = state };
	struct ib_uverbs_qp_attr attr = {};

	MUST(ASK(RDMA_USER_CM_CMD_INIT_QP_ATTR, command, &attr));
	return attr;
}

/* The request that a listener gets. */
static struct rdma_ucm_event_resp requested(uint32_t qp_num)
{
	struct rdma_ucm_event_resp event = next(CONNECT_REQUEST);

	expect(event.uid == 1 && event.status == 0);
	expect(event.param.conn.private_data_len == 56);
	expect(!strcmp((char *)event.param.conn.private_data, "hello"));
	expect(event.param.conn.responder_resources == 5);
	expect(event.param.conn.initiator_depth == 3);
	expect(event.param.conn.retry_count == 6 && event.param.conn.rnr_retry_count == 7);
	expect(event.param.conn.qp_num == qp_num);
	return event;
}

static void accepted(void)
{
	uint32_t active = resolved(2, PORT), passive;
	struct rdma_ucm_event_resp event;
	struct rdma_ucm_conn_param ready = {};
	struct ib_uverbs_qp_attr ours, theirs;

	MUST(connect_with(active, param("hello", 20)));
	expect(connect_with(active, param("hello", 20)) == EINVAL);
	passive = requested(20).id;
	MUST(accept_with(passive, 3, param("welcome", 30)));
	event = next(CONNECT_RESPONSE);
	expect(event.uid == 2 && event.param.conn.private_data_len == 196);
	expect(!strcmp((char *)event.param.conn.private_data, "welcome"));
	expect(event.param.conn.qp_num == 30);
	ours = attributes(active, IBV_QPS_RTR);
	theirs = attributes(passive, IBV_QPS_RTR);
	expect(ours.dest_qp_num == 30 && theirs.dest_qp_num == 20);
	expect(ours.qp_attr_mask == 0x129181 && ours.path_mtu == theirs.path_mtu);
	expect(ours.rq_psn == attributes(passive, IBV_QPS_RTS).sq_psn);
	expect(theirs.rq_psn == attributes(active, IBV_QPS_RTS).sq_psn);
	MUST(accept_with(active, 2, ready));
	expect(next(ESTABLISHED).uid == 3);
	nothing_waits();
	out("accepted");

	MUST(disconnect(active));
	event = next(DISCONNECTED);
	expect(event.uid == 3 && event.status == 0);
	MUST(disconnect(passive));
	event = next(DISCONNECTED);
	expect(event.uid == 2 && event.status == 0);
	expect(destroy(active) == 4);
	expect(destroy(passive) == 2);
	nothing_waits();
	out("disconnected");
}

static void rejected(void)
{
	uint32_t active = resolved(2, PORT), passive;
	struct rdma_ucm_event_resp event;

	MUST(connect_with(active, param("hello", 21)));
	passive = requested(21).id;
	MUST(reject_with(passive, "no"));
	event = next(REJECTED);
	expect(event.uid == 2 && event.status == 28);
	expect(event.param.conn.private_data_len == 148);
	expect(!strcmp((char *)event.param.conn.private_data, "no"));
	expect(reject_with(passive, "no") == EINVAL);
	destroy(active);
	destroy(passive);
	out("rejected");
}

/* A request that is destroyed is rejected, too. */
static void destroyed(void)
{
	uint32_t active = resolved(2, PORT);

	MUST(connect_with(active, param("hello", 22)));
	destroy(requested(22).id);
	expect(next(REJECTED).status == 28);
	destroy(active);
	out("destroyed");
}

static void refused(void)
{
	uint32_t active = resolved(2, NOBODYS_PORT);
	struct rdma_ucm_conn_param too_long = param("hello", 20);

	too_long.private_data_len = 57;
	expect(connect_with(active, too_long) == EINVAL);
	MUST(connect_with(active, param("hello", 23)));
	expect(next(REJECTED).status == 8);
	destroy(active);
	out("refused");
}

static void nonsense(void)
{
	struct rdma_ucm_destroy_id absent = { .id = 4711 };
	struct rdma_ucm_destroy_id_resp answer;
	struct rdma_ucm_create_id space = { .ps = 1 };
	struct rdma_ucm_create_id_resp made;

	expect(ASK(RDMA_USER_CM_CMD_DESTROY_ID, absent, &answer) == ENOENT);
	expect(ASK(RDMA_USER_CM_CMD_CREATE_ID, space, &made) == EINVAL);
	expect(cm->ask(channel, 99, &absent, sizeof(absent), NULL, 0) == ENOSYS);
	expect(cm->ask(channel, RDMA_USER_CM_CMD_DESTROY_ID, &absent, 3, NULL, 0) == EINVAL);
	expect(cm->ask(channel + 100, 0, NULL, 0, NULL, 0) == ENODEV);
	expect(cm->close(channel + 100) == ENODEV);
	out("nonsense");
}

int main(void)
{
	struct ibv_context *context;
	struct rdma_ucm_listen listen = { .backlog = 4 };
	uint32_t other;

	if (!own_device())
		return done();
	context = open_rxe();
	cm = ferroverbs_connection_manager();
	expect(cm->size >= sizeof(*cm) && cm->version >= 1);
	MUST(cm->open(&channel, &descriptor));
	nothing_waits();
	nonsense();

	listen.id = create(1);
	MUST(bind_to(listen.id, PORT));
	expect(bind_to(listen.id, PORT) == EINVAL);
	other = create(9);
	expect(bind_to(other, PORT) == EADDRINUSE);
	MUST(DO(RDMA_USER_CM_CMD_LISTEN, listen));
	accepted();
	rejected();
	destroyed();
	refused();

	expect(destroy(listen.id) == 3);
	MUST(bind_to(other, PORT));
	MUST(cm->close(channel));
	close(descriptor);
	MUST(ibv_close_device(context));
	return done();
}
