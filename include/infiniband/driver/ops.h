/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The table a provider fills and gives to verbs_set_ops(). A slot left NULL keeps
 * its default, which answers EOPNOTSUPP. Conventions are those of the verb of the
 * same name: pointers NULL with errno, numbers 0 or a positive errno.
 *
 * Order and number of the slots are the provider ABI of this generation.
 */
#ifndef INFINIBAND_DRIVER_OPS_H
#define INFINIBAND_DRIVER_OPS_H

#include <infiniband/driver/generation.h>
#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

struct verbs_mr;

struct verbs_context_ops {
	int (*advise_mr)(
			struct ibv_pd *pd, enum ibv_advise_mr_advice advice,
			uint32_t flags, struct ibv_sge *sg_list, uint32_t num_sges);
	struct ibv_dm *(*alloc_dm)(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
	struct ibv_mw *(*alloc_mw)(struct ibv_pd *pd, enum ibv_mw_type type);
	struct ibv_mr *(*alloc_null_mr)(struct ibv_pd *pd);
	struct ibv_pd *(*alloc_parent_domain)(
			struct ibv_context *context,
			struct ibv_parent_domain_init_attr *attr);
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	struct ibv_td *(*alloc_td)(struct ibv_context *context, struct ibv_td_init_attr *attr);
	/*
	 * Called for each event before the program gets it; may be called from several
	 * threads.
	 */
	void (*async_event)(struct ibv_context *context, struct ibv_async_event *event);
	int (*attach_counters_point_flow)(
			struct ibv_counters *counters,
			struct ibv_counter_attach_attr *attr, struct ibv_flow *flow);
	int (*attach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	int (*bind_mw)(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
	int (*close_xrcd)(struct ibv_xrcd *xrcd);
	/* Called for each completion event before the program gets it. */
	void (*cq_event)(struct ibv_cq *cq);
	struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
	struct ibv_counters *(*create_counters)(
			struct ibv_context *context, struct ibv_counters_init_attr *attr);
	struct ibv_cq *(*create_cq)(
			struct ibv_context *context, int cqe,
			struct ibv_comp_channel *channel, int comp_vector);
	struct ibv_cq_ex *(*create_cq_ex)(
			struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
	struct ibv_flow *(*create_flow)(struct ibv_qp *qp, struct ibv_flow_attr *attr);
	struct ibv_flow_action *(*create_flow_action_esp)(
			struct ibv_context *context, struct ibv_flow_action_esp_attr *attr);
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	struct ibv_qp *(*create_qp_ex)(
			struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
	struct ibv_rwq_ind_table *(*create_rwq_ind_table)(
			struct ibv_context *context,
			struct ibv_rwq_ind_table_init_attr *attr);
	struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
	struct ibv_srq *(*create_srq_ex)(
			struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
	struct ibv_wq *(*create_wq)(struct ibv_context *context, struct ibv_wq_init_attr *attr);
	int (*dealloc_mw)(struct ibv_mw *mw);
	int (*dealloc_pd)(struct ibv_pd *pd);
	int (*dealloc_td)(struct ibv_td *td);
	int (*dereg_mr)(struct verbs_mr *vmr);
	int (*destroy_ah)(struct ibv_ah *ah);
	int (*destroy_counters)(struct ibv_counters *counters);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*destroy_flow)(struct ibv_flow *flow);
	int (*destroy_flow_action)(struct ibv_flow_action *action);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*destroy_rwq_ind_table)(struct ibv_rwq_ind_table *table);
	int (*destroy_srq)(struct ibv_srq *srq);
	int (*destroy_wq)(struct ibv_wq *wq);
	int (*detach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
	/* Frees the context of alloc_context, after the last object. */
	void (*free_context)(struct ibv_context *context);
	int (*free_dm)(struct ibv_dm *dm);
	int (*get_srq_num)(struct ibv_srq *srq, uint32_t *srq_num);
	struct ibv_dm *(*import_dm)(struct ibv_context *context, uint32_t dm_handle);
	struct ibv_mr *(*import_mr)(struct ibv_pd *pd, uint32_t mr_handle);
	struct ibv_pd *(*import_pd)(struct ibv_context *context, uint32_t pd_handle);
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
	int (*modify_flow_action_esp)(
			struct ibv_flow_action *action,
			struct ibv_flow_action_esp_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
	int (*modify_qp_rate_limit)(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);
	int (*modify_srq)(
			struct ibv_srq *srq, struct ibv_srq_attr *srq_attr,
			int srq_attr_mask);
	int (*modify_wq)(struct ibv_wq *wq, struct ibv_wq_attr *attr);
	struct ibv_qp *(*open_qp)(struct ibv_context *context, struct ibv_qp_open_attr *attr);
	struct ibv_xrcd *(*open_xrcd)(
			struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
	int (*poll_cq)(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
	int (*post_recv)(
			struct ibv_qp *qp, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad_wr);
	int (*post_send)(
			struct ibv_qp *qp, struct ibv_send_wr *wr,
			struct ibv_send_wr **bad_wr);
	int (*post_srq_ops)(
			struct ibv_srq *srq, struct ibv_ops_wr *op,
			struct ibv_ops_wr **bad_op);
	int (*post_srq_recv)(
			struct ibv_srq *srq, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad_wr);
	int (*query_device_ex)(
			struct ibv_context *context,
			const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t attr_size);
	int (*query_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	/*
	 * Fills struct ibv_port_attr as this header has it; the library cuts to the
	 * program's size.
	 */
	int (*query_port)(
			struct ibv_context *context, uint8_t port_num,
			struct ibv_port_attr *port_attr);
	int (*query_qp)(
			struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibv_qp_init_attr *init_attr);
	/* 0 or 1. */
	int (*query_qp_data_in_order)(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
	int (*query_rt_values)(struct ibv_context *context, struct ibv_values_ex *values);
	int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr);
	int (*read_counters)(
			struct ibv_counters *counters, uint64_t *counters_value,
			uint32_t ncounters, uint32_t flags);
	struct ibv_mr *(*reg_dm_mr)(
			struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
			size_t length, unsigned int access);
	struct ibv_mr *(*reg_dmabuf_mr)(
			struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
			int fd, int access);
	struct ibv_mr *(*reg_mr)(
			struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va,
			int access);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	/* 0 or an enum ibv_rereg_mr_err_code. */
	int (*rereg_mr)(
			struct verbs_mr *vmr, int flags, struct ibv_pd *pd, void *addr,
			size_t length, int access);
	int (*resize_cq)(struct ibv_cq *cq, int cqe);
	int (*set_ece)(struct ibv_qp *qp, struct ibv_ece *ece);
	void (*unimport_dm)(struct ibv_dm *dm);
	void (*unimport_mr)(struct ibv_mr *mr);
	void (*unimport_pd)(struct ibv_pd *pd);
};

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_DRIVER_OPS_H */
