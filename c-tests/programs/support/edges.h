/*
 * Values at and beyond the limits of attributes, and the result of each call.
 *
 * The results are those of Linux's soft-RoCE below the stock library (rxe/edges.c checks them) and
 * those of uroce (self_checking/edges.c): the same, except where a row gives a reason.
 */
#ifndef EDGES_H
#define EDGES_H

#include "rdma.h"

enum edge_call {
	/* ibv_modify_qp(3) of an RC queue pair that is connected to itself: RESET to INIT, INIT to
	 * RTR, RTR to RTS. One that gets to RTS writes to itself. */
	INIT,
	RTR,
	RTS,
	/* ibv_create_ah(3). */
	AH,
	/*
	 * ibv_create_qp(3) by type, and with a shared receive queue by that and
	 * ibv_create_qp_ex(3).
	 */
	QP_RC,
	QP_UC,
	QP_UD,
	QP_SRQ,
	QP_SRQ_EX,
	/* ibv_create_cq(3), by struct edge_cq. */
	CQ,
	/* ibv_create_srq(3). */
	SRQ,
	/* ibv_post_send(3): a write on RC, a datagram on UD. */
	SEND,
	SEND_UD,
	/* ibv_post_recv(3). */
	RECV,
};

/* Arguments of ibv_create_cq(3). */
struct edge_cq {
	int cqe;
	int comp_vector;
};

enum { SAME = -1 };

struct edge {
	enum edge_call call;
	const char *name;
	size_t offset;
	size_t size;
	uint64_t value;
	/* The result: 0 or an errno. */
	int rxe;
	int uroce;
	/* Why uroce answers something else. */
	const char *why;
};

#define OTHER(call, type, member, value, rxe, uroce, why)                          \
	{ call, #call " " #member " " #value, offsetof(struct type, member),       \
	  sizeof(((struct type *)0)->member), value, rxe, uroce, why }
#define EDGE(call, type, member, value, rxe) OTHER(call, type, member, value, rxe, SAME, NULL)

static const struct edge edges[] = {
	EDGE(INIT, ibv_qp_attr, pkey_index, 0, 0),
	OTHER(INIT, ibv_qp_attr, pkey_index, 1, 0, EINVAL,
	      "beyond the table; mlx5 refuses it"),
	OTHER(INIT, ibv_qp_attr, pkey_index, 0xffff, 0, EINVAL,
	      "beyond the table; mlx5 refuses it"),
	EDGE(INIT, ibv_qp_attr, port_num, 0, EINVAL),
	EDGE(INIT, ibv_qp_attr, port_num, 1, 0),
	EDGE(INIT, ibv_qp_attr, port_num, 2, EINVAL),
	EDGE(INIT, ibv_qp_attr, port_num, 255, EINVAL),
	EDGE(INIT, ibv_qp_attr, qp_access_flags, 0, 0),
	EDGE(INIT, ibv_qp_attr, qp_access_flags, 31, 0),
	EDGE(INIT, ibv_qp_attr, qp_access_flags, 32, 0),
	EDGE(INIT, ibv_qp_attr, qp_access_flags, 64, 0),
	EDGE(INIT, ibv_qp_attr, qp_access_flags, 128, 0),
	EDGE(INIT, ibv_qp_attr, qp_access_flags, 0x100, 0),
	EDGE(INIT, ibv_qp_attr, qp_access_flags, 0x200, 0),
	EDGE(INIT, ibv_qp_attr, qp_access_flags, 0x400, 0),
	EDGE(INIT, ibv_qp_attr, qp_access_flags, 0x100000, 0),
	EDGE(INIT, ibv_qp_attr, qp_access_flags, 0x20000000, 0),
	EDGE(INIT, ibv_qp_attr, qp_access_flags, 0x40000000, 0),
	EDGE(INIT, ibv_qp_attr, qp_access_flags, 0xffffffffU, 0),
	EDGE(RTR, ibv_qp_attr, path_mtu, 0, 0),
	EDGE(RTR, ibv_qp_attr, path_mtu, 1, 0),
	EDGE(RTR, ibv_qp_attr, path_mtu, 5, 0),
	EDGE(RTR, ibv_qp_attr, path_mtu, 6, EINVAL),
	EDGE(RTR, ibv_qp_attr, path_mtu, 7, EINVAL),
	EDGE(RTR, ibv_qp_attr, path_mtu, 0xffffffffU, EINVAL),
	EDGE(RTR, ibv_qp_attr, dest_qp_num, 0xffffffffU, 0),
	EDGE(RTR, ibv_qp_attr, rq_psn, 0x7f000007, 0),
	EDGE(RTR, ibv_qp_attr, rq_psn, 0xff000007U, 0),
	EDGE(RTR, ibv_qp_attr, max_dest_rd_atomic, 0, 0),
	EDGE(RTR, ibv_qp_attr, max_dest_rd_atomic, 16, 0),
	EDGE(RTR, ibv_qp_attr, max_dest_rd_atomic, 128, 0),
	OTHER(RTR, ibv_qp_attr, max_dest_rd_atomic, 129, 0, EINVAL,
	      "more than max_qp_rd_atom; mlx5 refuses it"),
	OTHER(RTR, ibv_qp_attr, max_dest_rd_atomic, 255, 0, EINVAL,
	      "more than max_qp_rd_atom; mlx5 refuses it"),
	EDGE(RTR, ibv_qp_attr, min_rnr_timer, 0, 0),
	EDGE(RTR, ibv_qp_attr, min_rnr_timer, 31, 0),
	EDGE(RTR, ibv_qp_attr, min_rnr_timer, 32, 0),
	EDGE(RTR, ibv_qp_attr, min_rnr_timer, 33, 0),
	EDGE(RTR, ibv_qp_attr, min_rnr_timer, 255, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.sl, 7, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.sl, 8, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.sl, 15, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.sl, 16, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.sl, 255, 0),
	EDGE(AH, ibv_ah_attr, sl, 7, 0),
	EDGE(AH, ibv_ah_attr, sl, 8, 0),
	EDGE(AH, ibv_ah_attr, sl, 15, 0),
	EDGE(AH, ibv_ah_attr, sl, 16, 0),
	EDGE(AH, ibv_ah_attr, sl, 255, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.src_path_bits, 127, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.src_path_bits, 128, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.src_path_bits, 255, 0),
	EDGE(AH, ibv_ah_attr, src_path_bits, 127, 0),
	EDGE(AH, ibv_ah_attr, src_path_bits, 128, 0),
	EDGE(AH, ibv_ah_attr, src_path_bits, 255, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.static_rate, 1, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.static_rate, 2, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.static_rate, 18, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.static_rate, 19, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.static_rate, 200, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.static_rate, 255, 0),
	EDGE(AH, ibv_ah_attr, static_rate, 1, 0),
	EDGE(AH, ibv_ah_attr, static_rate, 2, 0),
	EDGE(AH, ibv_ah_attr, static_rate, 18, 0),
	EDGE(AH, ibv_ah_attr, static_rate, 19, 0),
	EDGE(AH, ibv_ah_attr, static_rate, 200, 0),
	EDGE(AH, ibv_ah_attr, static_rate, 255, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.is_global, 0, EINVAL),
	EDGE(RTR, ibv_qp_attr, ah_attr.is_global, 2, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.is_global, 255, 0),
	EDGE(AH, ibv_ah_attr, is_global, 0, EINVAL),
	EDGE(AH, ibv_ah_attr, is_global, 2, 0),
	EDGE(AH, ibv_ah_attr, is_global, 255, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.port_num, 0, EINVAL),
	EDGE(RTR, ibv_qp_attr, ah_attr.port_num, 1, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.port_num, 2, EINVAL),
	EDGE(RTR, ibv_qp_attr, ah_attr.port_num, 255, EINVAL),
	EDGE(AH, ibv_ah_attr, port_num, 0, EINVAL),
	EDGE(AH, ibv_ah_attr, port_num, 1, 0),
	EDGE(AH, ibv_ah_attr, port_num, 2, EINVAL),
	EDGE(AH, ibv_ah_attr, port_num, 255, EINVAL),
	EDGE(RTR, ibv_qp_attr, ah_attr.dlid, 1, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.dlid, 0xffff, 0),
	EDGE(AH, ibv_ah_attr, dlid, 1, 0),
	EDGE(AH, ibv_ah_attr, dlid, 0xffff, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.grh.flow_label, 0xfffff, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.grh.flow_label, 0x100000, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.grh.flow_label, 0xffffffffU, 0),
	EDGE(AH, ibv_ah_attr, grh.flow_label, 0xfffff, 0),
	EDGE(AH, ibv_ah_attr, grh.flow_label, 0x100000, 0),
	EDGE(AH, ibv_ah_attr, grh.flow_label, 0xffffffffU, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.grh.sgid_index, 200, ENODATA),
	EDGE(RTR, ibv_qp_attr, ah_attr.grh.sgid_index, 255, ENODATA),
	EDGE(AH, ibv_ah_attr, grh.sgid_index, 200, ENODATA),
	EDGE(AH, ibv_ah_attr, grh.sgid_index, 255, ENODATA),
	EDGE(RTR, ibv_qp_attr, ah_attr.grh.hop_limit, 0, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.grh.hop_limit, 1, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.grh.hop_limit, 255, 0),
	EDGE(AH, ibv_ah_attr, grh.hop_limit, 0, 0),
	EDGE(AH, ibv_ah_attr, grh.hop_limit, 1, 0),
	EDGE(AH, ibv_ah_attr, grh.hop_limit, 255, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.grh.traffic_class, 3, 0),
	EDGE(RTR, ibv_qp_attr, ah_attr.grh.traffic_class, 255, 0),
	EDGE(AH, ibv_ah_attr, grh.traffic_class, 3, 0),
	EDGE(AH, ibv_ah_attr, grh.traffic_class, 255, 0),
	EDGE(RTS, ibv_qp_attr, sq_psn, 0x7f000007, 0),
	EDGE(RTS, ibv_qp_attr, sq_psn, 0xff000007U, 0),
	EDGE(RTS, ibv_qp_attr, timeout, 0, 0),
	EDGE(RTS, ibv_qp_attr, timeout, 31, 0),
	EDGE(RTS, ibv_qp_attr, timeout, 32, EINVAL),
	EDGE(RTS, ibv_qp_attr, timeout, 255, EINVAL),
	EDGE(RTS, ibv_qp_attr, retry_cnt, 0, 0),
	EDGE(RTS, ibv_qp_attr, retry_cnt, 7, 0),
	EDGE(RTS, ibv_qp_attr, retry_cnt, 8, 0),
	EDGE(RTS, ibv_qp_attr, retry_cnt, 255, 0),
	EDGE(RTS, ibv_qp_attr, rnr_retry, 0, 0),
	EDGE(RTS, ibv_qp_attr, rnr_retry, 7, 0),
	EDGE(RTS, ibv_qp_attr, rnr_retry, 8, 0),
	EDGE(RTS, ibv_qp_attr, rnr_retry, 255, 0),
	EDGE(RTS, ibv_qp_attr, max_rd_atomic, 0, 0),
	EDGE(RTS, ibv_qp_attr, max_rd_atomic, 16, 0),
	EDGE(RTS, ibv_qp_attr, max_rd_atomic, 128, 0),
	EDGE(RTS, ibv_qp_attr, max_rd_atomic, 129, EINVAL),
	EDGE(RTS, ibv_qp_attr, max_rd_atomic, 255, EINVAL),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_send_wr, 0, 0),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_send_wr, 0x100001, EINVAL),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_send_wr, 0xffffffffU, EINVAL),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_recv_wr, 0, 0),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_recv_wr, 0x100001, EINVAL),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_recv_wr, 0xffffffffU, EINVAL),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_send_sge, 0, 0),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_send_sge, 32, 0),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_send_sge, 33, EINVAL),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_send_sge, 0xffffffffU, EINVAL),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_recv_sge, 0, 0),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_recv_sge, 32, 0),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_recv_sge, 33, EINVAL),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_recv_sge, 0xffffffffU, EINVAL),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_inline_data, 0x200, 0),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_inline_data, 0x1001, EINVAL),
	EDGE(QP_RC, ibv_qp_init_attr, cap.max_inline_data, 0xffffffffU, EINVAL),
	EDGE(QP_RC, ibv_qp_init_attr, sq_sig_all, 2, 0),
	EDGE(QP_RC, ibv_qp_init_attr, sq_sig_all, 0xffffffffU, 0),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_send_wr, 0, 0),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_send_wr, 0x100001, EINVAL),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_send_wr, 0xffffffffU, EINVAL),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_recv_wr, 0, 0),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_recv_wr, 0x100001, EINVAL),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_recv_wr, 0xffffffffU, EINVAL),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_send_sge, 0, 0),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_send_sge, 32, 0),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_send_sge, 33, EINVAL),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_send_sge, 0xffffffffU, EINVAL),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_recv_sge, 0, 0),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_recv_sge, 32, 0),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_recv_sge, 33, EINVAL),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_recv_sge, 0xffffffffU, EINVAL),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_inline_data, 0x200, 0),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_inline_data, 0x1001, EINVAL),
	EDGE(QP_UC, ibv_qp_init_attr, cap.max_inline_data, 0xffffffffU, EINVAL),
	EDGE(QP_UC, ibv_qp_init_attr, sq_sig_all, 2, 0),
	EDGE(QP_UC, ibv_qp_init_attr, sq_sig_all, 0xffffffffU, 0),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_send_wr, 0, 0),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_send_wr, 0x100001, EINVAL),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_send_wr, 0xffffffffU, EINVAL),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_recv_wr, 0, 0),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_recv_wr, 0x100001, EINVAL),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_recv_wr, 0xffffffffU, EINVAL),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_send_sge, 0, 0),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_send_sge, 32, 0),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_send_sge, 33, EINVAL),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_send_sge, 0xffffffffU, EINVAL),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_recv_sge, 0, 0),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_recv_sge, 32, 0),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_recv_sge, 33, EINVAL),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_recv_sge, 0xffffffffU, EINVAL),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_inline_data, 0x200, 0),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_inline_data, 0x1001, EINVAL),
	EDGE(QP_UD, ibv_qp_init_attr, cap.max_inline_data, 0xffffffffU, EINVAL),
	EDGE(QP_UD, ibv_qp_init_attr, sq_sig_all, 2, 0),
	EDGE(QP_UD, ibv_qp_init_attr, sq_sig_all, 0xffffffffU, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_send_wr, 0, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_send_wr, 0x100001, EINVAL),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_send_wr, 0xffffffffU, EINVAL),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_recv_wr, 0, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_recv_wr, 0x100001, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_recv_wr, 0xffffffffU, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_send_sge, 0, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_send_sge, 32, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_send_sge, 33, EINVAL),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_send_sge, 0xffffffffU, EINVAL),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_recv_sge, 0, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_recv_sge, 32, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_recv_sge, 33, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_recv_sge, 0xffffffffU, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_inline_data, 0x200, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_inline_data, 0x1001, EINVAL),
	EDGE(QP_SRQ, ibv_qp_init_attr, cap.max_inline_data, 0xffffffffU, EINVAL),
	EDGE(QP_SRQ, ibv_qp_init_attr, sq_sig_all, 2, 0),
	EDGE(QP_SRQ, ibv_qp_init_attr, sq_sig_all, 0xffffffffU, 0),
	EDGE(QP_SRQ_EX, ibv_qp_init_attr_ex, cap.max_recv_wr, 0, 0),
	EDGE(QP_SRQ_EX, ibv_qp_init_attr_ex, cap.max_recv_wr, 0xffffffffU, 0),
	EDGE(QP_SRQ_EX, ibv_qp_init_attr_ex, cap.max_recv_sge, 0, 0),
	EDGE(QP_SRQ_EX, ibv_qp_init_attr_ex, cap.max_recv_sge, 0xffffffffU, 0),
	EDGE(CQ, edge_cq, cqe, 0, EINVAL),
	EDGE(CQ, edge_cq, cqe, 0xffffffffU, EINVAL),
	EDGE(CQ, edge_cq, cqe, 0x7fff, 0),
	EDGE(CQ, edge_cq, cqe, 0x100001, EINVAL),
	EDGE(CQ, edge_cq, cqe, 0x7fffffff, EINVAL),
	EDGE(CQ, edge_cq, comp_vector, 0, 0),
	EDGE(CQ, edge_cq, comp_vector, 0x3e8, EINVAL),
	EDGE(CQ, edge_cq, comp_vector, 0xffffffffU, EINVAL),
	EDGE(SRQ, ibv_srq_init_attr, attr.max_wr, 0, EINVAL),
	EDGE(SRQ, ibv_srq_init_attr, attr.max_wr, 1, 0),
	EDGE(SRQ, ibv_srq_init_attr, attr.max_wr, 0x100001, EINVAL),
	EDGE(SRQ, ibv_srq_init_attr, attr.max_wr, 0xffffffffU, EINVAL),
	EDGE(SRQ, ibv_srq_init_attr, attr.max_sge, 0, 0),
	EDGE(SRQ, ibv_srq_init_attr, attr.max_sge, 1, 0),
	EDGE(SRQ, ibv_srq_init_attr, attr.max_sge, 27, 0),
	EDGE(SRQ, ibv_srq_init_attr, attr.max_sge, 33, EINVAL),
	EDGE(SRQ, ibv_srq_init_attr, attr.max_sge, 0xffffffffU, EINVAL),
	EDGE(SRQ, ibv_srq_init_attr, attr.srq_limit, 0, 0),
	EDGE(SRQ, ibv_srq_init_attr, attr.srq_limit, 8, 0),
	EDGE(SRQ, ibv_srq_init_attr, attr.srq_limit, 16, 0),
	EDGE(SRQ, ibv_srq_init_attr, attr.srq_limit, 17, 0),
	EDGE(SRQ, ibv_srq_init_attr, attr.srq_limit, 0xffffffffU, 0),
	EDGE(SEND, ibv_send_wr, opcode, 0, 0),
	EDGE(SEND, ibv_send_wr, opcode, 1, 0),
	EDGE(SEND, ibv_send_wr, opcode, 2, 0),
	EDGE(SEND, ibv_send_wr, opcode, 3, 0),
	EDGE(SEND, ibv_send_wr, opcode, 4, 0),
	EDGE(SEND, ibv_send_wr, opcode, 5, 0),
	EDGE(SEND, ibv_send_wr, opcode, 6, 0),
	EDGE(SEND, ibv_send_wr, opcode, 7, 0),
	EDGE(SEND, ibv_send_wr, opcode, 8, EINVAL),
	EDGE(SEND, ibv_send_wr, opcode, 9, 0),
	EDGE(SEND, ibv_send_wr, send_flags, 1, 0),
	EDGE(SEND, ibv_send_wr, send_flags, 2, 0),
	EDGE(SEND, ibv_send_wr, send_flags, 4, 0),
	EDGE(SEND, ibv_send_wr, send_flags, 8, 0),
	EDGE(SEND, ibv_send_wr, send_flags, 16, 0),
	EDGE(SEND, ibv_send_wr, send_flags, 32, 0),
	EDGE(SEND, ibv_send_wr, send_flags, 64, 0),
	EDGE(SEND, ibv_send_wr, send_flags, 0x80000000U, 0),
	EDGE(SEND, ibv_send_wr, send_flags, 0xffffffe2U, 0),
	EDGE(SEND, ibv_send_wr, num_sge, 0, 0),
	EDGE(SEND, ibv_send_wr, num_sge, 4, 0),
	OTHER(SEND, ibv_send_wr, num_sge, 5, EINVAL, 0,
	      "more than the 4 that were asked for; mlx5 has room for 10"),
	EDGE(SEND, ibv_send_wr, num_sge, 0xffffffffU, EINVAL),
	EDGE(SEND_UD, ibv_send_wr, opcode, 2, 0),
	EDGE(SEND_UD, ibv_send_wr, opcode, 3, 0),
	EDGE(SEND_UD, ibv_send_wr, opcode, 8, EINVAL),
	EDGE(SEND_UD, ibv_send_wr, send_flags, 1, 0),
	EDGE(SEND_UD, ibv_send_wr, send_flags, 2, 0),
	EDGE(SEND_UD, ibv_send_wr, send_flags, 4, 0),
	EDGE(SEND_UD, ibv_send_wr, send_flags, 8, 0),
	EDGE(SEND_UD, ibv_send_wr, send_flags, 16, 0),
	EDGE(SEND_UD, ibv_send_wr, send_flags, 32, 0),
	EDGE(SEND_UD, ibv_send_wr, send_flags, 64, 0),
	EDGE(SEND_UD, ibv_send_wr, send_flags, 0x80000000U, 0),
	EDGE(SEND_UD, ibv_send_wr, send_flags, 0xffffffe2U, 0),
	EDGE(SEND_UD, ibv_send_wr, num_sge, 0, 0),
	EDGE(SEND_UD, ibv_send_wr, num_sge, 4, 0),
	EDGE(SEND_UD, ibv_send_wr, num_sge, 5, EINVAL),
	EDGE(SEND_UD, ibv_send_wr, num_sge, 0xffffffffU, EINVAL),
	EDGE(SEND_UD, ibv_send_wr, wr.ud.remote_qpn, 0xffffff, 0),
	EDGE(SEND_UD, ibv_send_wr, wr.ud.remote_qpn, 0x1000000, 0),
	EDGE(SEND_UD, ibv_send_wr, wr.ud.remote_qpn, 0xffffffffU, 0),
	EDGE(SEND_UD, ibv_send_wr, wr.ud.remote_qkey, 0x80000000U, 0),
	EDGE(SEND_UD, ibv_send_wr, wr.ud.remote_qkey, 0xffffffffU, 0),
	EDGE(RECV, ibv_recv_wr, num_sge, 0, 0),
	EDGE(RECV, ibv_recv_wr, num_sge, 4, 0),
	EDGE(RECV, ibv_recv_wr, num_sge, 5, EINVAL),
	EDGE(RECV, ibv_recv_wr, num_sge, 0x7fffffff, EINVAL),
	EDGE(RECV, ibv_recv_wr, num_sge, 0xffffffffU, EINVAL),
};

struct edge_room {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	char buffer[4096];
};

static inline struct edge_room *edge_room(void)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 16, .max_sge = 4 } };
	struct edge_room *room = MUST_PTR((struct edge_room *)calloc(1, sizeof(*room)));

	room->context = open_rxe();
	room->pd = MUST_PTR(ibv_alloc_pd(room->context));
	room->cq = MUST_PTR(ibv_create_cq(room->context, 64, NULL, NULL, 0));
	room->srq = MUST_PTR(ibv_create_srq(room->pd, &srq));
	room->mr = MUST_PTR(ibv_reg_mr(room->pd, room->buffer, sizeof(room->buffer), ALL_ACCESS));
	return room;
}

static inline void edge_room_free(struct edge_room *room)
{
	MUST(ibv_dereg_mr(room->mr));
	MUST(ibv_destroy_srq(room->srq));
	MUST(ibv_destroy_cq(room->cq));
	MUST(ibv_dealloc_pd(room->pd));
	MUST(ibv_close_device(room->context));
	free(room);
}

static inline void edge_set(void *attributes, const struct edge *edge)
{
	/* The low bytes come first on every machine that this runs on. */
	memcpy((char *)attributes + edge->offset, &edge->value, edge->size);
}

static inline struct ibv_qp *edge_qp(struct edge_room *room, struct ibv_cq *cq,
				     enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = init_attr(cq, type);

	init.sq_sig_all = 1;
	return MUST_PTR(ibv_create_qp(room->pd, &init));
}

/* The transition of the row; queue pairs that get so far carry a write to themselves. */
static inline int edge_modify(struct edge_room *room, const struct edge *edge)
{
	struct ibv_qp *qp = edge_qp(room, room->cq, IBV_QPT_RC);
	struct ibv_qp_attr init = attr_init(), rtr = attr_rtr(room->context, qp->qp_num);
	struct ibv_qp_attr rts = attr_rts();
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE }, *bad;
	int answer;

	if (edge->call == INIT)
		edge_set(&init, edge);
	answer = ibv_modify_qp(qp, &init, RC_INIT_MASK);
	if (edge->call == INIT)
		goto out;
	expect(!answer);
	if (edge->call == RTR) {
		edge_set(&rtr, edge);
		/* For a number, only values beyond its field. */
		if (edge->offset == offsetof(struct ibv_qp_attr, dest_qp_num))
			rtr.dest_qp_num = qp->qp_num | ((uint32_t)edge->value & 0xff000000U);
	}
	answer = ibv_modify_qp(qp, &rtr, RC_RTR_MASK);
	if (answer)
		goto out;
	if (edge->call == RTS)
		edge_set(&rts, edge);
	answer = ibv_modify_qp(qp, &rts, RC_RTS_MASK);
	if (answer)
		goto out;
	MUST(ibv_post_send(qp, &wr, &bad));
	expect(wait_wc(room->cq).status == IBV_WC_SUCCESS);
out:
	MUST(ibv_destroy_qp(qp));
	return answer;
}

static inline int edge_ah(struct edge_room *room, const struct edge *edge)
{
	struct ibv_ah_attr attr = own_address(room->context);
	struct ibv_ah *ah;

	edge_set(&attr, edge);
	errno = 0;
	ah = ibv_create_ah(room->pd, &attr);
	if (!ah)
		return errno;
	MUST(ibv_destroy_ah(ah));
	return 0;
}

static inline int edge_create(struct edge_room *room, const struct edge *edge)
{
	enum ibv_qp_type type = edge->call == QP_UC ? IBV_QPT_UC :
				edge->call == QP_UD ? IBV_QPT_UD : IBV_QPT_RC;
	struct ibv_qp_init_attr init = init_attr(room->cq, type);
	struct ibv_qp *qp;

	if (edge->call == QP_SRQ)
		init.srq = room->srq;
	edge_set(&init, edge);
	errno = 0;
	qp = ibv_create_qp(room->pd, &init);
	if (!qp)
		return errno;
	MUST(ibv_destroy_qp(qp));
	return 0;
}

static inline int edge_create_ex(struct edge_room *room, const struct edge *edge)
{
	struct ibv_qp_init_attr plain = init_attr(room->cq, IBV_QPT_RC);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = room->cq,
		.recv_cq = room->cq,
		.srq = room->srq,
		.cap = plain.cap,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = room->pd,
	};
	struct ibv_qp *qp;

	edge_set(&init, edge);
	errno = 0;
	qp = ibv_create_qp_ex(room->context, &init);
	if (!qp)
		return errno;
	MUST(ibv_destroy_qp(qp));
	return 0;
}

static inline int edge_cq(struct edge_room *room, const struct edge *edge)
{
	struct edge_cq attr = { .cqe = 16, .comp_vector = 0 };
	struct ibv_cq *cq;

	edge_set(&attr, edge);
	errno = 0;
	cq = ibv_create_cq(room->context, attr.cqe, NULL, NULL, attr.comp_vector);
	if (!cq)
		return errno;
	MUST(ibv_destroy_cq(cq));
	return 0;
}

static inline int edge_srq(struct edge_room *room, const struct edge *edge)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 16, .max_sge = 4 } };
	struct ibv_srq *srq;

	edge_set(&init, edge);
	errno = 0;
	srq = ibv_create_srq(room->pd, &init);
	if (!srq)
		return errno;
	MUST(ibv_destroy_srq(srq));
	return 0;
}

static inline int edge_post(struct edge_room *room, const struct edge *edge)
{
	/* A separate pair, because the outcome of accepted requests is not tested here. */
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(room->context, 16, NULL, NULL, 0));
	struct ibv_qp *qp = edge_qp(room, cq, edge->call == SEND_UD ? IBV_QPT_UD : IBV_QPT_RC);
	struct ibv_sge sge[5] = { { (uintptr_t)room->buffer, 8, room->mr->lkey } };
	struct ibv_recv_wr receive = { .sg_list = sge, .num_sge = 1 }, *bad_receive;
	struct ibv_send_wr send = {
		.sg_list = sge,
		.num_sge = 1,
		.opcode = edge->call == SEND ? IBV_WR_RDMA_WRITE : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_ah *ah = NULL;
	struct ibv_ah_attr address = own_address(room->context);
	int answer;

	if (edge->call == SEND_UD) {
		ready_ud(qp);
		ah = MUST_PTR(ibv_create_ah(room->pd, &address));
		send.wr.ud.ah = ah;
		send.wr.ud.remote_qpn = 1;
		send.wr.ud.remote_qkey = QKEY;
	} else {
		connect_qp(qp, qp->qp_num);
		send.wr.rdma.remote_addr = (uintptr_t)room->buffer + 64;
		send.wr.rdma.rkey = room->mr->rkey;
	}
	if (edge->call == RECV) {
		edge_set(&receive, edge);
		answer = ibv_post_recv(qp, &receive, &bad_receive);
	} else {
		MUST(ibv_post_recv(qp, &receive, &bad_receive));
		edge_set(&send, edge);
		answer = ibv_post_send(qp, &send, &bad);
	}
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_destroy_cq(cq));
	if (ah)
		MUST(ibv_destroy_ah(ah));
	return answer;
}

static inline int edge_answer(struct edge_room *room, const struct edge *edge)
{
	switch (edge->call) {
	case INIT:
	case RTR:
	case RTS:
		return edge_modify(room, edge);
	case AH:
		return edge_ah(room, edge);
	case QP_RC:
	case QP_UC:
	case QP_UD:
	case QP_SRQ:
		return edge_create(room, edge);
	case QP_SRQ_EX:
		return edge_create_ex(room, edge);
	case CQ:
		return edge_cq(room, edge);
	case SRQ:
		return edge_srq(room, edge);
	case SEND:
	case SEND_UD:
	case RECV:
		return edge_post(room, edge);
	}
	return -1;
}

/* Tries each row; ends the program where one is answered otherwise. */
static inline void edges_hold(bool uroce)
{
	struct edge_room *room = edge_room();
	size_t i;

	for (i = 0; i < ARRAY_LEN(edges); i++) {
		const struct edge *edge = &edges[i];
		int wanted = uroce && edge->uroce != SAME ? edge->uroce : edge->rxe;
		int answer = edge_answer(room, edge);

		if (answer != wanted)
			fprintf(stderr, "%s: %s, not %s\n", edge->name, errno_name(answer),
				errno_name(wanted));
		expect(answer == wanted);
		expect((edge->uroce == SAME) == !edge->why);
		out("%s: %s", edge->name, errno_name(answer));
	}
	edge_room_free(room);
}

#endif
