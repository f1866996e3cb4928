/*
 * The later verbs over a device in user space that has them: completion counters and port speed,
 * besides those of every device. Runs in a separate network namespace.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "post_44.h"
#include "network.h"

#include <time.h>

static void show(const char *title, struct ibv_comp_cntr *counter)
{
	uint64_t completed, failed;

	MUST(ibv_read_comp_cntr(counter, &completed));
	MUST(ibv_read_err_comp_cntr(counter, &failed));
	out("%s: %lu completed, %lu failed", title, (unsigned long)completed,
	    (unsigned long)failed);
}

static struct ibv_comp_cntr *counter_of(struct ibv_context *context, enum ibv_comp_cntr_type type)
{
	struct ibv_comp_cntr_init_attr init = { .type = type };

	return MUST_PTR(ibv_create_comp_cntr(context, &init));
}

static int attach(struct ibv_qp *qp, struct ibv_comp_cntr *counter, uint32_t ops)
{
	struct ibv_qp_attach_comp_cntr_attr attr = { .op_mask = ops };

	return ibv_qp_attach_comp_cntr(qp, counter, &attr);
}

/* The values alone, without a queue pair. */
static void values(struct ibv_context *context)
{
	struct ibv_comp_cntr_init_attr init = { .type = IBV_COMP_CNTR_TYPE_WRS };
	struct ibv_comp_cntr *counter = counter_of(context, IBV_COMP_CNTR_TYPE_WRS);
	struct {
		struct ibv_comp_cntr_caps known;
		uint64_t later;
	} caps;

	memset(&caps, 0xff, sizeof(caps));
	MUST(ibv_query_comp_cntr_caps(context, &caps.known));
	expect(caps.known.max_value == UINT64_MAX && caps.later == UINT64_MAX);
	out("%u counters, operations 0x%x", caps.known.max_counters,
	    caps.known.supported_qp_attach_ops);
	MUST(_ibv_query_comp_cntr_caps(context, &caps.known, sizeof(caps)));
	expect(caps.later == 0);
	RC(_ibv_query_comp_cntr_caps(context, &caps.known, sizeof(caps.known) - 1));
	RC(ibv_query_comp_cntr_caps(NULL, &caps.known));
	RC(ibv_query_comp_cntr_caps(context, NULL));

	show("new", counter);
	MUST(ibv_set_comp_cntr(counter, UINT64_MAX));
	MUST(ibv_inc_comp_cntr(counter, 3));
	MUST(ibv_set_err_comp_cntr(counter, 7));
	MUST(ibv_inc_err_comp_cntr(counter, 1));
	show("changed", counter);
	RC(ibv_read_comp_cntr(counter, NULL));
	RC(ibv_read_comp_cntr(NULL, NULL));
	RC(ibv_set_comp_cntr(NULL, 1));
	MUST(ibv_destroy_comp_cntr(counter));
	RC(ibv_destroy_comp_cntr(NULL));

	init.flags = 1;
	PTR(ibv_create_comp_cntr(context, &init));
	init.flags = 0;
	init.comp_mask = 1;
	PTR(ibv_create_comp_cntr(context, &init));
	init.comp_mask = 0;
	init.type = (enum ibv_comp_cntr_type)7;
	PTR(ibv_create_comp_cntr(context, &init));
	PTR(ibv_create_comp_cntr(context, NULL));
	PTR(ibv_create_comp_cntr(NULL, &init));
}

/* As many counters as the device supports, and no more. */
static void all_counters(struct ibv_context *context)
{
	struct ibv_comp_cntr_init_attr init = { .type = IBV_COMP_CNTR_TYPE_WRS };
	struct ibv_comp_cntr_caps caps;
	struct ibv_comp_cntr **all;
	uint32_t i;

	MUST(ibv_query_comp_cntr_caps(context, &caps));
	all = MUST_PTR((struct ibv_comp_cntr **)calloc(caps.max_counters, sizeof(*all)));
	for (i = 0; i < caps.max_counters; i++)
		all[i] = MUST_PTR(ibv_create_comp_cntr(context, &init));
	PTR(ibv_create_comp_cntr(context, &init));
	for (i = 0; i < caps.max_counters; i++)
		MUST(ibv_destroy_comp_cntr(all[i]));
	free(all);
}

static void post(struct ibv_qp *qp, struct ibv_mr *mr, enum ibv_wr_opcode opcode,
		 uint32_t length, unsigned int flags)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)mr->addr,
		.length = length,
		.lkey = mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = flags,
		.wr.rdma = { .remote_addr = (uintptr_t)mr->addr, .rkey = mr->rkey },
	}, *bad;

	MUST(ibv_post_send(qp, &wr, &bad));
}

static void receive(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)mr->addr,
		.length = (uint32_t)mr->length,
		.lkey = mr->lkey,
	};
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	MUST(ibv_post_recv(qp, &wr, &bad));
}

/* Requests are counted whether they have a completion or not. */
static void traffic(struct ibv_context *context, struct ibv_pd *pd)
{
	const uint32_t sends = IBV_QP_ATTACH_COMP_CNTR_OP_SEND;
	const uint32_t moves = IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_WRITE |
			       IBV_QP_ATTACH_COMP_CNTR_OP_RDMA_READ;
	struct ibv_comp_cntr *sent = counter_of(context, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_comp_cntr *moved = counter_of(context, IBV_COMP_CNTR_TYPE_BYTES);
	struct ibv_comp_cntr *received = counter_of(context, IBV_COMP_CNTR_TYPE_BYTES);
	struct ibv_context *stranger = open_rxe();
	struct ibv_comp_cntr *strange = counter_of(stranger, IBV_COMP_CNTR_TYPE_WRS);
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_buf *buf;
	void *memory = MUST_PTR(ibv_alloc_buf(pd, PARTS * PART, &buf));
	struct ibv_mr *mr = MUST_PTR(ibv_reg_buf_mr(pd, buf, memory, PARTS * PART, ALL_ACCESS));
	struct ibv_wc wc;
	int i;

	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr attr;

		cq[i] = MUST_PTR(ibv_create_cq(context, 64, NULL, NULL, 0));
		attr = init_attr(cq[i], IBV_QPT_RC);
		qp[i] = MUST_PTR(ibv_create_qp(pd, &attr));
	}
	MUST(attach(qp[0], sent, sends));
	RC(attach(qp[0], moved, sends | moves));
	MUST(attach(qp[0], moved, moves));
	MUST(attach(qp[1], received, IBV_QP_ATTACH_COMP_CNTR_OP_RECV));
	RC(attach(qp[1], received, 0));
	RC(attach(qp[1], received, IBV_QP_ATTACH_COMP_CNTR_OP_REMOTE_RDMA_WRITE));
	RC(attach(qp[1], strange, sends));
	RC(attach(qp[1], NULL, sends));
	RC(attach(NULL, sent, sends));
	for (i = 0; i < 2; i++)
		connect_qp(qp[i], qp[!i]->qp_num);
	RC(attach(qp[1], received, sends));

	for (i = 0; i < 4; i++)
		receive(qp[1], mr);
	post(qp[0], mr, IBV_WR_SEND, 10, 0);
	post(qp[0], mr, IBV_WR_SEND, 20, IBV_SEND_SIGNALED);
	wc = wait_wc(cq[0]);
	show_wc("send", &wc);
	for (i = 0; i < 2; i++) {
		wc = wait_wc(cq[1]);
		show_wc("receive", &wc);
	}
	post(qp[0], mr, IBV_WR_RDMA_WRITE, 5000, 0);
	post(qp[0], mr, IBV_WR_RDMA_READ, 3000, IBV_SEND_SIGNALED);
	wc = wait_wc(cq[0]);
	show_wc("read", &wc);
	show("sent", sent);
	show("moved", moved);
	show("received", received);

	to_error(qp[1]);
	for (i = 0; i < 2; i++) {
		wc = wait_wc(cq[1]);
		show_wc("flushed", &wc);
	}
	show("flushed", received);
	RC(ibv_destroy_comp_cntr(sent));
	for (i = 0; i < 2; i++) {
		MUST(ibv_destroy_qp(qp[i]));
		MUST(ibv_destroy_cq(cq[i]));
	}
	MUST(ibv_destroy_comp_cntr(sent));
	MUST(ibv_destroy_comp_cntr(moved));
	MUST(ibv_destroy_comp_cntr(received));
	MUST(ibv_destroy_comp_cntr(strange));
	MUST(ibv_dereg_mr(mr));
	ibv_free_buf(buf);
	MUST(ibv_close_device(stranger));
}

/* Inlines that read their attributes, where rdma-core's crash. */
static void no_attributes(struct ibv_context *context)
{
	errno = 0;
	expect(!ibv_create_qp_ex(context, NULL) && errno == EINVAL);
	errno = 0;
	expect(!ibv_create_srq_ex(context, NULL) && errno == EINVAL);
	errno = 0;
	expect(!ibv_create_wq(context, NULL) && errno == EINVAL);
	expect(ibv_query_device_ex(context, NULL, NULL) == EINVAL);
}

/*
 * The device's clock is one number, in tv_nsec, as of every card; programs read no other member. It
 * is the same in all processes.
 */
static void device_clock(struct ibv_context *context)
{
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct timespec now;
	int64_t before, after;

	MUST(clock_gettime(CLOCK_MONOTONIC, &now));
	before = now.tv_sec * 1000000000l + now.tv_nsec;
	MUST(ibv_query_rt_values_ex(context, &values));
	MUST(clock_gettime(CLOCK_MONOTONIC, &now));
	after = now.tv_sec * 1000000000l + now.tv_nsec;
	expect(values.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
	expect(values.raw_clock.tv_sec == 0);
	expect(before <= values.raw_clock.tv_nsec && values.raw_clock.tv_nsec <= after);
}

int main(void)
{
	struct ibv_context *context;
	struct ibv_port_attr port;
	struct ibv_pd *pd;
	uint64_t speed;

	if (!own_device())
		return done();
	context = open_rxe();
	pd = MUST_PTR(ibv_alloc_pd(context));
	regions(pd);
	shorter_attributes(pd);
	buffers(context, pd);
	hints_and_exports(context);

	MUST(ibv_query_port_speed(context, 1, &speed));
	MUST(ibv_query_port(context, 1, &port));
	out("%lu x 100 Mbit/s, code %u", (unsigned long)speed, port.active_speed_ex);
	RC(ibv_query_port_speed(context, 2, &speed));
	RC(ibv_query_port_speed(context, 1, NULL));
	RC(ibv_query_port_speed(NULL, 1, &speed));

	values(context);
	no_attributes(context);
	device_clock(context);
	all_counters(context);
	traffic(context, pd);
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_close_device(context));
	return done();
}
