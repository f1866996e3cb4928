/* Objects of ids: shared receive queues, extended queue pairs, enhanced connection options. */
#include "cm.h"

#include <rdma/rdma_verbs.h>

enum { PORT = 7478 };

static struct rdma_event_channel *server, *client;

static void show_objects(const char *when, struct rdma_cm_id *id)
{
	out("%s: QP %s, SRQ %s, PD %s, CQs %s %s", when, id->qp ? "yes" : "no",
	    id->srq ? "yes" : "no", id->pd ? "yes" : "no", id->send_cq ? "yes" : "no",
	    id->recv_cq ? "yes" : "no");
}

/* A message from a request that was accepted to the id that asked. */
static void send_to(struct rdma_cm_id *id, struct rdma_cm_id *request, bool shared)
{
	static char sent[8] = "message", got[8];
	struct ibv_mr *from = MUST_PTR(rdma_reg_msgs(request, sent, sizeof(sent)));
	struct ibv_mr *to = MUST_PTR(rdma_reg_msgs(id, got, sizeof(got)));
	struct ibv_sge sge = { (uintptr_t)got, sizeof(got), to->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_wc wc;

	memset(got, 0, sizeof(got));
	MUST(shared ? ibv_post_srq_recv(id->srq, &wr, &bad) : ibv_post_recv(id->qp, &wr, &bad));
	MUST(rdma_post_send(request, NULL, sent, sizeof(sent), from, IBV_SEND_SIGNALED));
	expect(rdma_get_send_comp(request, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	expect(rdma_get_recv_comp(id, &wc) == 1);
	out("%s, %u bytes: %s", ibv_wc_status_str(wc.status), wc.byte_len, got);
	MUST(rdma_dereg_mr(from));
	MUST(rdma_dereg_mr(to));
}

/* Connects, sends a message to the id, and ends the connection. */
static void use(struct rdma_cm_id *id, bool shared)
{
	struct rdma_conn_param param = asking(NULL, 0);
	struct rdma_cm_id *request;

	MUST(rdma_connect(id, &param));
	request = requested(server);
	MUST(make_qp(request));
	MUST(rdma_accept(request, NULL));
	skip(client, RDMA_CM_EVENT_ESTABLISHED);
	skip(server, RDMA_CM_EVENT_ESTABLISHED);
	send_to(id, request, shared);
	MUST(rdma_disconnect(id));
	skip(server, RDMA_CM_EVENT_DISCONNECTED);
	MUST(rdma_disconnect(request));
	skip(client, RDMA_CM_EVENT_DISCONNECTED);
	drop(request);
}

static void shared_queues(void)
{
	struct rdma_cm_id *id = routed(client, PORT, RDMA_PS_TCP);
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_srq_init_attr_ex wrong = { .attr = attr.attr };
	struct ibv_srq_init_attr_ex more = {
		.attr = attr.attr,
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
		.srq_type = IBV_SRQT_BASIC,
	};
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	out("-- shared receive queues");
	RC(rdma_create_srq_ex(id, &wrong));
	show_objects("without a type", id);
	RC(rdma_create_srq(id, NULL, &attr));
	show_objects("made", id);
	rdma_destroy_srq(id);
	show_objects("destroyed", id);
	RC(rdma_create_srq_ex(id, &more));
	init.srq = id->srq;
	RC(rdma_create_qp(id, NULL, &init));
	show_objects("both", id);
	use(id, true);
	rdma_destroy_qp(id);
	show_objects("QP destroyed", id);
	rdma_destroy_srq(id);
	show_objects("SRQ destroyed", id);
	MUST(rdma_destroy_id(id));
}

static void extended(void)
{
	struct rdma_cm_id *id = routed(client, PORT, RDMA_PS_TCP);
	struct ibv_qp_init_attr_ex attr = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

	out("-- extended queue pairs");
	RC(rdma_create_qp_ex(id, &attr));
	show_objects("made", id);
	out("mask %x, PD %s", attr.comp_mask, attr.pd == id->pd ? "the id's" : "another");
	RC(rdma_create_qp_ex(id, &attr));
	use(id, false);
	drop(id);
}

static void show_options(struct rdma_cm_id *id)
{
	struct ibv_ece ece = { 9, 9, 9 };

	if (!RC(rdma_get_remote_ece(id, &ece)))
		out("vendor %x, options %x, mask %x", ece.vendor_id, ece.options, ece.comp_mask);
}

/* The side that makes the queue pair exchanges the options: the library or the program. */
static void options(void)
{
	struct rdma_cm_id *id = routed(client, PORT, RDMA_PS_TCP), *request;
	struct ibv_ece ece = { .vendor_id = 0x1234, .options = 0x56 }, none = { 0 };
	struct ibv_ece masked = { .vendor_id = 0x1234, .comp_mask = 1 };
	struct rdma_conn_param param = asking("abc", 3);

	out("-- enhanced connection options");
	show_options(id);
	RC(rdma_get_remote_ece(id, NULL));
	RC(rdma_set_local_ece(id, NULL));
	RC(rdma_set_local_ece(id, &none));
	RC(rdma_set_local_ece(id, &masked));
	RC(rdma_set_local_ece(id, &ece));
	param.qp_num = 77;
	RC(rdma_connect(id, &param));
	request = requested(server);
	show_options(request);
	RC(rdma_reject_ece(request, "no", 2));
	MUST(rdma_destroy_id(request));
	pass(client, "client");
	MUST(rdma_destroy_id(id));

	id = routed(client, PORT, RDMA_PS_TCP);
	RC(rdma_set_local_ece(id, &ece));
	RC(rdma_connect(id, &param));
	request = requested(server);
	ece.options = 0x78;
	RC(rdma_set_local_ece(request, &ece));
	param.qp_num = 78;
	RC(rdma_accept(request, &param));
	pass(client, "client");
	show_options(id);
	RC(rdma_establish(id));
	pass(server, "server");
	MUST(rdma_destroy_id(request));
	MUST(rdma_destroy_id(id));

	id = ready(client, PORT, RDMA_PS_TCP);
	RC(rdma_set_local_ece(id, &ece));
	show_options(id);
	drop(id);
}

int main(void)
{
	struct rdma_cm_id *listener;

	server = MUST_PTR(rdma_create_event_channel());
	client = MUST_PTR(rdma_create_event_channel());
	listener = listening(server, NULL, PORT, RDMA_PS_TCP);
	shared_queues();
	extended();
	options();
	MUST(rdma_destroy_id(listener));
	rdma_destroy_event_channel(client);
	rdma_destroy_event_channel(server);
	return done();
}
