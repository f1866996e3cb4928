/* Datagram services and multicast groups. */
#include "cm.h"

enum { PORT = 7474, NOBODY = 7998 };

static struct rdma_event_channel *server, *client;

static void show_address(const struct rdma_cm_event *event)
{
	const struct rdma_ud_param *ud = &event->param.ud;

	out("   QP %s, Q_Key %x, global %d, hops %d, port %d", ud->qp_num ? "named" : "0", ud->qkey,
	    ud->ah_attr.is_global, ud->ah_attr.grh.hop_limit, ud->ah_attr.port_num);
}

/* An event whose parameters are those of datagrams. */
static struct rdma_cm_event *next(struct rdma_event_channel *channel, const char *who)
{
	struct rdma_cm_event *event;

	expect(has_event(channel, PATIENCE));
	MUST(rdma_get_cm_event(channel, &event));
	out("%s: %s, status %d, %d bytes", who, rdma_event_str(event->event), event->status,
	    event->param.ud.private_data_len);
	show_address(event);
	return event;
}

static struct rdma_cm_id *request(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *made;

	RC(rdma_connect(id, param));
	event = next(server, "server");
	made = event->id;
	MUST(rdma_ack_cm_event(event));
	return made;
}

static void services(void)
{
	static const char big[255] = { 7 };
	struct rdma_conn_param param = asking(big, 181), answer = answering("xy", 2);
	struct rdma_cm_id *id = ready(client, PORT, RDMA_PS_UDP), *asked;

	RC(rdma_connect(id, &param));
	param.private_data_len = 5;
	asked = request(id, &param);
	MUST(make_qp(asked));
	RC(rdma_accept(asked, &answer));
	MUST(rdma_ack_cm_event(next(client, "client")));
	none(server, "server");
	RC(rdma_disconnect(id));
	drop(asked);
	drop(id);

	id = ready(client, PORT, RDMA_PS_UDP);
	asked = request(id, &param);
	RC(rdma_reject(asked, "no", 2));
	drop(asked);
	MUST(rdma_ack_cm_event(next(client, "client")));
	drop(id);

	id = ready(client, NOBODY, RDMA_PS_UDP);
	RC(rdma_connect(id, &param));
	MUST(rdma_ack_cm_event(next(client, "client")));
	drop(id);
}

static void groups(void)
{
	struct sockaddr_in here = at(HERE, 0), group = at("239.77.1.3", 0);
	struct sockaddr_in other = at("239.77.1.9", 0), any = at("0.0.0.0", 0);
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = SA(other),
	};
	struct rdma_cm_id *id = new_id(client, NULL, RDMA_PS_UDP);
	struct rdma_cm_event *event;
	char text[64];

	RC(rdma_join_multicast(id, SA(group), NULL));
	MUST(rdma_bind_addr(id, SA(here)));
	MUST(make_qp(id));
	RC(rdma_join_multicast(id, SA(group), (void *)0x55));
	event = next(client, "client");
	inet_ntop(AF_INET6, event->param.ud.ah_attr.grh.dgid.raw, text, sizeof(text));
	out("   %s, context %p", text, event->param.ud.private_data);
	MUST(rdma_ack_cm_event(event));
	RC(rdma_leave_multicast(id, SA(other)));
	RC(rdma_join_multicast_ex(id, &attr, (void *)0x66));
	MUST(rdma_ack_cm_event(next(client, "client")));
	RC(rdma_leave_multicast(id, SA(other)));
	RC(rdma_leave_multicast(id, SA(group)));
	RC(rdma_leave_multicast(id, SA(group)));
	RC(rdma_join_multicast(id, SA(any), NULL));
	attr.comp_mask = 4;
	RC(rdma_join_multicast_ex(id, &attr, NULL));
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	RC(rdma_join_multicast_ex(id, &attr, NULL));
	drop(id);
}

int main(void)
{
	struct rdma_cm_id *listener;

	server = MUST_PTR(rdma_create_event_channel());
	client = MUST_PTR(rdma_create_event_channel());
	listener = listening(server, NULL, PORT, RDMA_PS_UDP);
	services();
	groups();
	MUST(rdma_destroy_id(listener));
	rdma_destroy_event_channel(client);
	rdma_destroy_event_channel(server);
	return done();
}
