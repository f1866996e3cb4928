/* Connections: rejected, made, ended by either side, with the lengths of private data. */
#include "cm.h"

enum { PORT = 7471, NOBODY = 7999 };

static struct rdma_event_channel *server, *client;

static void show_attributes(const char *who, struct rdma_cm_id *id)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	size_t i;

	for (i = 0; i < ARRAY_LEN(states); i++) {
		struct ibv_qp_attr attr;
		int mask = 0;

		memset(&attr, 0, sizeof(attr));
		attr.qp_state = states[i];
		if (rdma_init_qp_attr(id, &attr, &mask)) {
			out("%s %d: %s", who, states[i], errno_name(errno));
			continue;
		}
		out("%s %d: mask %x, access %x, port %d, MTU %d, depths %d %d, timeout %d, "
		    "retries %d %d, global %d, hops %d, peer %s",
		    who, states[i], mask, attr.qp_access_flags, attr.port_num, attr.path_mtu,
		    attr.max_dest_rd_atomic, attr.max_rd_atomic, attr.timeout, attr.retry_cnt,
		    attr.rnr_retry, attr.ah_attr.is_global, attr.ah_attr.grh.hop_limit,
		    attr.dest_qp_num ? "named" : "0");
	}
}

static void nobody_listens(void)
{
	struct rdma_cm_id *id = ready(client, NOBODY, RDMA_PS_TCP);
	struct rdma_conn_param param = asking(NULL, 0);

	out("-- no listener");
	RC(rdma_connect(id, &param));
	pass(client, "client");
	RC(rdma_connect(id, &param));
	RC(rdma_resolve_route(id, 1000));
	drop(id);
}

static void rejected(void)
{
	struct rdma_cm_id *id = ready(client, PORT, RDMA_PS_TCP), *request;
	struct rdma_conn_param param = asking("abc", 3);
	struct ibv_sa_path_rec *path = id->route.path_rec;
	struct rdma_cm_event *event;

	out("-- rejected with data");
	out("%d path: MTU %d, hops %d, life time %d, P_Key %x", id->route.num_paths, path->mtu,
	    path->hop_limit, path->packet_life_time, ntohs(path->pkey));
	RC(rdma_connect(id, &param));
	event = take(server, "server");
	request = event->id;
	out("data %.3s, context %p, listener %s", (const char *)event->param.conn.private_data,
	    request->context, event->listen_id->context == request->context ? "the same" : "another");
	RC(rdma_reject(request, "no", 2));
	MUST(rdma_ack_cm_event(event));
	RC(rdma_destroy_id(request));
	event = take(client, "client");
	out("data %.2s", (const char *)event->param.conn.private_data);
	MUST(rdma_ack_cm_event(event));
	drop(id);
}

static void too_much_data(void)
{
	static const char big[255] = { 7 };
	struct rdma_cm_id *id = ready(client, PORT, RDMA_PS_TCP), *request;
	struct rdma_conn_param param = asking(big, 57), answer = answering(big, 197);

	out("-- lengths of private data");
	RC(rdma_connect(id, &param));
	param.private_data_len = 255;
	RC(rdma_connect(id, &param));
	param.private_data_len = 56;
	RC(rdma_connect(id, &param));
	request = requested(server);
	MUST(make_qp(request));
	RC(rdma_accept(request, &answer));
	pass(client, "client");
	none(server, "server");
	drop(request);
	drop(id);
}

static void depths_too_large(void)
{
	struct rdma_cm_id *id = ready(client, PORT, RDMA_PS_TCP);
	struct rdma_conn_param param = asking(NULL, 0);

	out("-- more than the device has");
	param.responder_resources = 254;
	RC(rdma_connect(id, &param));
	param = asking(NULL, 0);
	param.initiator_depth = 254;
	RC(rdma_connect(id, &param));
	drop(id);
}

/* A connected pair: its client, and its server behind. */
static void connected(struct rdma_cm_id *pair[2])
{
	struct rdma_conn_param param = asking("abc", 3), answer = answering("xy", 2);

	pair[0] = ready(client, PORT, RDMA_PS_TCP);
	RC(rdma_connect(pair[0], &param));
	pair[1] = requested(server);
	MUST(make_qp(pair[1]));
	RC(rdma_accept(pair[1], &answer));
	pass(client, "client");
	pass(server, "server");
}

static void disconnected(void)
{
	struct rdma_cm_id *pair[2];

	out("-- ended by the client");
	connected(pair);
	out("ports %d and %d", ntohs(rdma_get_dst_port(pair[0])), ntohs(rdma_get_src_port(pair[1])));
	show_attributes("client", pair[0]);
	show_attributes("server", pair[1]);
	RC(rdma_disconnect(pair[0]));
	pass(server, "server");
	RC(rdma_disconnect(pair[1]));
	pass(client, "client");
	RC(rdma_disconnect(pair[0]));
	/* Two seconds later. */
	pass(client, "client");
	pass(server, "server");
	drop(pair[1]);
	drop(pair[0]);
}

static void destroyed(void)
{
	struct rdma_cm_id *pair[2];

	out("-- the client's id is destroyed");
	connected(pair);
	drop(pair[0]);
	pass(server, "server");
	RC(rdma_disconnect(pair[1]));
	none(client, "client");
	drop(pair[1]);
}

static void both_at_once(void)
{
	struct rdma_cm_id *pair[2];

	out("-- ended by both");
	connected(pair);
	RC(rdma_disconnect(pair[0]));
	RC(rdma_disconnect(pair[1]));
	pass(server, "server");
	pass(client, "client");
	drop(pair[1]);
	drop(pair[0]);
}

static void given_up(void)
{
	struct rdma_cm_id *id = ready(client, PORT, RDMA_PS_TCP), *request;
	struct rdma_conn_param param = asking(NULL, 0), answer = answering(NULL, 0);

	out("-- the client gives up");
	RC(rdma_connect(id, &param));
	request = requested(server);
	drop(id);
	none(server, "server");
	RC(make_qp(request));
	RC(rdma_accept(request, &answer));
	drop(request);

	out("-- the server does");
	id = ready(client, PORT, RDMA_PS_TCP);
	RC(rdma_connect(id, &param));
	request = requested(server);
	RC(rdma_destroy_id(request));
	pass(client, "client");
	drop(id);
}

static void own_queue_pairs(void)
{
	struct rdma_cm_id *id = routed(client, PORT, RDMA_PS_TCP), *request;
	struct rdma_conn_param param = asking("abc", 3), answer = answering("xy", 2);

	out("-- queue pairs of the program");
	param.qp_num = 0x777;
	answer.qp_num = 0x888;
	RC(rdma_connect(id, NULL));
	RC(rdma_connect(id, &param));
	request = requested(server);
	RC(rdma_accept(request, &answer));
	pass(client, "client");
	show_attributes("client", id);
	none(server, "server");
	RC(rdma_establish(id));
	pass(server, "server");
	none(client, "client");
	RC(rdma_disconnect(request));
	pass(client, "client");
	RC(rdma_disconnect(id));
	pass(server, "server");
	drop(request);
	drop(id);
}

static void listener_destroyed(struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id = ready(client, PORT, RDMA_PS_TCP);
	struct rdma_conn_param param = asking(NULL, 0);

	out("-- a listener with a request that was not taken");
	RC(rdma_connect(id, &param));
	expect(has_event(server, PATIENCE));
	RC(rdma_destroy_id(listener));
	pass(client, "client");
	none(server, "server");
	drop(id);
}

int main(void)
{
	struct rdma_cm_id *listener;

	server = MUST_PTR(rdma_create_event_channel());
	client = MUST_PTR(rdma_create_event_channel());
	listener = listening(server, (void *)0x11, PORT, RDMA_PS_TCP);
	nobody_listens();
	rejected();
	too_much_data();
	depths_too_large();
	disconnected();
	destroyed();
	both_at_once();
	given_up();
	own_queue_pairs();
	listener_destroyed(listener);
	rdma_destroy_event_channel(client);
	rdma_destroy_event_channel(server);
	return done();
}
