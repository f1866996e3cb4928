/*
 * Shorthand for programs that use the device rxe0: open it, make connected
 * queue pairs, wait for completions, print them.
 */
#ifndef RDMA_H
#define RDMA_H

#include "check.h"

#include <sched.h>

/* The device that the tests' surroundings prepare. */
#ifndef DEVICE_NAME
#define DEVICE_NAME "rxe0"
/* Index of the GID made from the IPv4 address of its port. */
#define IPV4_INDEX 1
#endif
#define QKEY 0x11111111U

/*
 * The errno for a port or a table index that is not there: EINVAL by the ioctl
 * interface, ENOENT from sysfs where that takes its place. Programs of the set
 * "ioctl" distinguish the two; others print this.
 */
static inline const char *place_error(int error)
{
	return error == EINVAL || error == ENOENT ? "no such place" : errno_name(error);
}

/* Like RC, with the errno of a place. */
#define PLACE(call)                                                                \
	({                                                                         \
		errno = 0;                                                         \
		int value_ = (call);                                               \
		if (value_)                                                        \
			out("%s = %s, %s", #call, errno_name(value_), place_error(errno)); \
		else                                                               \
			out("%s = 0", #call);                                      \
		value_;                                                            \
	})

static inline struct ibv_context *open_rxe(void)
{
	struct ibv_device **list = MUST_PTR(ibv_get_device_list(NULL));
	struct ibv_context *context = NULL;
	int i;

	for (i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), DEVICE_NAME))
			context = MUST_PTR(ibv_open_device(list[i]));
	ibv_free_device_list(list);
	return MUST_PTR(context);
}

static inline struct ibv_qp_init_attr init_attr(struct ibv_cq *cq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = type,
		.cap = {
			.max_send_wr = 16,
			.max_recv_wr = 16,
			.max_send_sge = 4,
			.max_recv_sge = 4,
			.max_inline_data = 64,
		},
	};

	return attr;
}

enum {
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND,
	REMOTE_ACCESS = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_REMOTE_ATOMIC,
	RC_INIT_MASK = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	UD_INIT_MASK = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	RC_RTR_MASK = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	UC_RTR_MASK = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		      IBV_QP_RQ_PSN,
	RC_RTS_MASK = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	UC_RTS_MASK = IBV_QP_STATE | IBV_QP_SQ_PSN,
};

static inline struct ibv_qp_attr attr_init(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = REMOTE_ACCESS,
		.qkey = QKEY,
	};

	return attr;
}

static inline struct ibv_ah_attr own_address(struct ibv_context *context)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .sgid_index = IPV4_INDEX, .hop_limit = 64 },
	};

	MUST(ibv_query_gid(context, 1, IPV4_INDEX, &attr.grh.dgid));
	return attr;
}

static inline struct ibv_qp_attr attr_rtr(struct ibv_context *context, uint32_t peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.rq_psn = 7,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = own_address(context),
	};

	return attr;
}

static inline struct ibv_qp_attr attr_rts(void)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = 7,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 4,
	};

	return attr;
}

/* From RESET to RTS towards a queue pair of the same device. */
static inline void connect_qp(struct ibv_qp *qp, uint32_t peer)
{
	bool rc = qp->qp_type == IBV_QPT_RC;
	struct ibv_qp_attr attr = attr_init();

	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr = attr_rtr(qp->context, peer);
	MUST(ibv_modify_qp(qp, &attr, rc ? RC_RTR_MASK : UC_RTR_MASK));
	attr = attr_rts();
	MUST(ibv_modify_qp(qp, &attr, rc ? RC_RTS_MASK : UC_RTS_MASK));
}

/* A datagram queue pair from RESET to RTS. */
static inline void ready_ud(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = attr_init();

	MUST(ibv_modify_qp(qp, &attr, UD_INIT_MASK));
	attr.qp_state = IBV_QPS_RTR;
	MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	attr = attr_rts();
	MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static inline void to_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	MUST(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

/* Waits for one completion. */
static inline struct ibv_wc wait_wc(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int count;

	memset(&wc, 0, sizeof(wc));
	while (!(count = ibv_poll_cq(cq, 1, &wc)))
		sched_yield();
	expect(count == 1);
	return wc;
}

/* Prints a completion, without numbers chosen by the kernel. */
static inline void show_wc(const char *title, const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		out("%s: id %lu %s", title, (unsigned long)wc->wr_id, ibv_wc_status_str(wc->status));
		return;
	}
	out("%s: id %lu opcode %d length %u flags 0x%x imm 0x%x", title,
	    (unsigned long)wc->wr_id, wc->opcode,
	    wc->opcode & IBV_WC_RECV || wc->opcode == IBV_WC_RDMA_READ ? wc->byte_len : 0,
	    wc->wc_flags, wc->wc_flags & IBV_WC_WITH_IMM ? be32toh(wc->imm_data) : 0);
}

/* Two connected queue pairs, each with its own CQ, and one registered buffer. */
struct pair {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2];
	struct ibv_mr *mr;
	unsigned char *buffer;
};

enum { PAIR_BUFFER = 65536 };

static inline void make_pair(struct pair *pair, enum ibv_qp_type type)
{
	int i;

	memset(pair, 0, sizeof(*pair));
	pair->context = open_rxe();
	pair->pd = MUST_PTR(ibv_alloc_pd(pair->context));
	pair->buffer = MUST_PTR((unsigned char *)calloc(1, PAIR_BUFFER));
	pair->mr = MUST_PTR(ibv_reg_mr(pair->pd, pair->buffer, PAIR_BUFFER, ALL_ACCESS));
	for (i = 0; i < 2; i++) {
		struct ibv_qp_init_attr attr;

		pair->cq[i] = MUST_PTR(ibv_create_cq(pair->context, 64, NULL, NULL, 0));
		attr = init_attr(pair->cq[i], type);
		pair->qp[i] = MUST_PTR(ibv_create_qp(pair->pd, &attr));
	}
	for (i = 0; i < 2; i++) {
		if (type == IBV_QPT_UD)
			ready_ud(pair->qp[i]);
		else
			connect_qp(pair->qp[i], pair->qp[!i]->qp_num);
	}
}

static inline void free_pair(struct pair *pair)
{
	int i;

	for (i = 0; i < 2; i++) {
		MUST(ibv_destroy_qp(pair->qp[i]));
		MUST(ibv_destroy_cq(pair->cq[i]));
	}
	MUST(ibv_dereg_mr(pair->mr));
	MUST(ibv_dealloc_pd(pair->pd));
	MUST(ibv_close_device(pair->context));
	free(pair->buffer);
}

static inline struct ibv_sge piece(const struct pair *pair, size_t offset, uint32_t length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)pair->buffer + offset,
		.length = length,
		.lkey = pair->mr->lkey,
	};

	return sge;
}

static inline int post_recv(struct pair *pair, int side, uint64_t id, size_t offset,
			    uint32_t length)
{
	struct ibv_sge sge = piece(pair, offset, length);
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(pair->qp[side], &wr, &bad);
}

#endif
