/* Ids without a channel of the program, endpoints, lists of addresses. */
#include "cm.h"

#include <infiniband/ib.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>

#define SERVICE "7476"

static void answer(const char *node, const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *list;
	int code = rdma_getaddrinfo(node, SERVICE, hints, &list);

	if (code) {
		out("error %d", code);
		return;
	}
	out("flags %d, family %d, QP type %d, port space %x, source %d, destination %d, "
	    "route %zu, connect %zu, next %s",
	    list->ai_flags, list->ai_family, list->ai_qp_type, list->ai_port_space, list->ai_src_len,
	    list->ai_dst_len, list->ai_route_len, list->ai_connect_len,
	    list->ai_next ? "one" : "none");
	rdma_freeaddrinfo(list);
}

static void found(const char *node, int flags, int space)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = space };

	answer(node, &hints);
}

static struct rdma_addrinfo *list_of(const char *node, int flags, int space)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = space }, *list;

	MUST(rdma_getaddrinfo(node, SERVICE, &hints, &list));
	return list;
}

/* The hints of servers, and none. */
static void hinted(void)
{
	static const int families[] = { AF_INET, AF_INET6 };
	static const int spaces[] = { 0, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IPOIB, RDMA_PS_IB };
	static const int types[] = { 0, IBV_QPT_RC, IBV_QPT_UD };
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP };
	size_t i, j;

	for (i = 0; i < 2; i++) {
		hints.ai_family = families[i];
		answer(NULL, &hints);
	}
	hints.ai_family = AF_INET;
	hints.ai_flags = RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY;
	for (i = 0; i < 5; i++) {
		for (j = 0; j < 3; j++) {
			hints.ai_port_space = spaces[i];
			hints.ai_qp_type = types[j];
			out("port space %x, QP type %d", spaces[i], types[j]);
			answer(HERE, &hints);
		}
	}
	answer(HERE, NULL);
}

/* GIDs by number. */
static void gids(void)
{
	static const int spaces[] = { 0, RDMA_PS_TCP, RDMA_PS_IB };
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_NUMERICHOST | RAI_FAMILY,
		.ai_family = AF_IB,
		.ai_qp_type = IBV_QPT_RC,
	};
	size_t i, j;

	for (i = 0; i < 6; i++) {
		struct rdma_addrinfo *list;
		unsigned char *address;

		hints.ai_port_space = spaces[i % 3];
		hints.ai_flags ^= i == 3 ? RAI_PASSIVE : 0;
		answer("fe80::2", &hints);
		MUST(rdma_getaddrinfo("fe80::2", i % 2 ? SERVICE : NULL, &hints, &list));
		address = (unsigned char *)(list->ai_src_len ? list->ai_src_addr : list->ai_dst_addr);
		for (j = 0; j < sizeof(struct sockaddr_ib); j += 8)
			out("%02x%02x%02x%02x %02x%02x%02x%02x", address[j], address[j + 1],
			    address[j + 2], address[j + 3], address[j + 4], address[j + 5],
			    address[j + 6], address[j + 7]);
		rdma_freeaddrinfo(list);
	}
}

static void lists(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST }, *list;

	found(HERE, 0, RDMA_PS_TCP);
	found(HERE, RAI_PASSIVE, RDMA_PS_UDP);
	found(NULL, RAI_PASSIVE, RDMA_PS_TCP);
	found(HERE, 0, 0);
	hinted();
	gids();
	out("no number: %d", rdma_getaddrinfo("no number", NULL, &hints, &list));
	hints.ai_flags = 0;
	MUST(rdma_getaddrinfo(NULL, NULL, &hints, &list));
	out("nothing asked: family %d, destination %d", list->ai_family, list->ai_dst_len);
	rdma_freeaddrinfo(list);
	rdma_freeaddrinfo(NULL);
}

static void refused(void)
{
	struct sockaddr_in here = at(HERE, 0), nobody = at(HERE, 7999);
	struct rdma_conn_param param = asking(NULL, 0);
	struct rdma_cm_id *id = new_id(NULL, NULL, RDMA_PS_TCP);

	RC(rdma_resolve_addr(id, SA(here), SA(nobody), 5000));
	RC(rdma_resolve_route(id, 5000));
	MUST(make_qp(id));
	RC(rdma_connect(id, &param));
	out("kept: %s, status %d", rdma_event_str(id->event->event), id->event->status);
	rdma_destroy_ep(id);
}

static struct ibv_qp_init_attr attributes(void)
{
	struct ibv_qp_init_attr made = {
		.cap = { 2, 2, 1, 1, 16 },
		.sq_sig_all = 1,
	};

	return made;
}

static struct rdma_cm_id *listener;

static void *serve(void *unused)
{
	struct ibv_wc wc;
	struct rdma_cm_id *id;
	struct ibv_mr *mr;
	char byte = 0;

	(void)unused;
	MUST(rdma_get_request(listener, &id));
	expect(id->event->event == RDMA_CM_EVENT_CONNECT_REQUEST && id->qp != NULL);
	expect(!memcmp(id->event->param.conn.private_data, "hello", 5));
	mr = MUST_PTR(rdma_reg_msgs(id, &byte, 1));
	MUST(rdma_post_recv(id, NULL, &byte, 1, mr));
	MUST(rdma_accept(id, NULL));
	expect(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	expect(byte == 'x');
	MUST(rdma_disconnect(id));
	MUST(rdma_dereg_mr(mr));
	rdma_destroy_ep(id);
	return NULL;
}

static void endpoints(void)
{
	struct rdma_addrinfo *passive = list_of(HERE, RAI_PASSIVE, RDMA_PS_TCP);
	struct rdma_addrinfo *active = list_of(HERE, 0, RDMA_PS_TCP);
	struct ibv_qp_init_attr init = attributes();
	struct rdma_conn_param param = asking("hello", 5);
	struct rdma_cm_id *id;
	struct ibv_wc wc;
	pthread_t thread;
	char byte = 'x';

	MUST(rdma_create_ep(&listener, passive, NULL, &init));
	out("port %d", ntohs(rdma_get_src_port(listener)));
	RC(rdma_listen(listener, 0));
	MUST(pthread_create(&thread, NULL, serve, NULL));
	init = attributes();
	MUST(rdma_create_ep(&id, active, NULL, &init));
	out("port %d, QP %s", ntohs(rdma_get_dst_port(id)), id->qp ? "made" : "missing");
	RC(rdma_connect(id, &param));
	out("kept: %s", rdma_event_str(id->event->event));
	MUST(rdma_post_send(id, NULL, &byte, 1, NULL, IBV_SEND_INLINE));
	expect(rdma_get_send_comp(id, &wc) == 1);
	out("sent: %s", ibv_wc_status_str(wc.status));
	RC(rdma_disconnect(id));
	MUST(pthread_join(thread, NULL));
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(active);
	rdma_freeaddrinfo(passive);
}

int main(void)
{
	lists();
	refused();
	endpoints();
	return done();
}
