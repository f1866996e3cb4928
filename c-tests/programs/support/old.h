/*
 * libibverbs 1.0 as its programs saw it, beside today's: own declarations of its
 * objects, and of its functions, which have the names of today's with old_ in
 * front here, and IBVERBS_1.0 as their version.
 */
#ifndef OLD_H
#define OLD_H

#include "rdma.h"

struct old_device;
struct old_cq;
struct old_srq;
struct old_qp;
struct old_send_wr;
struct old_recv_wr;
typedef void (*old_inner)(void);

struct old_ops {
	old_inner before_poll_cq[7];
	int (*poll_cq)(struct old_cq *cq, int count, struct ibv_wc *wc);
	int (*req_notify_cq)(struct old_cq *cq, int solicited_only);
	old_inner before_post_srq_recv[7];
	int (*post_srq_recv)(struct old_srq *srq, struct old_recv_wr *wr, struct old_recv_wr **bad);
	old_inner before_post_send[4];
	int (*post_send)(struct old_qp *qp, struct old_send_wr *wr, struct old_send_wr **bad);
	int (*post_recv)(struct old_qp *qp, struct old_recv_wr *wr, struct old_recv_wr **bad);
	old_inner last[4];
};

struct old_context {
	struct old_device *device;
	struct old_ops ops;
	int cmd_fd;
	int async_fd;
	int num_comp_vectors;
	struct ibv_context *real_context;
};

struct old_pd {
	struct old_context *context;
	uint32_t handle;
};

struct old_mr {
	struct old_context *context;
	struct old_pd *pd;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

struct old_ah {
	struct old_context *context;
	struct old_pd *pd;
	uint32_t handle;
};

struct old_channel {
	int fd;
};

struct old_cq {
	struct old_context *context;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
};

struct old_srq {
	struct old_context *context;
	void *srq_context;
	struct old_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

struct old_qp_init_attr {
	void *qp_context;
	struct old_cq *send_cq;
	struct old_cq *recv_cq;
	struct old_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
};

struct old_qp {
	struct old_context *context;
	void *qp_context;
	struct old_pd *pd;
	struct old_cq *send_cq;
	struct old_cq *recv_cq;
	struct old_srq *srq;
	uint32_t handle;
	uint32_t qp_num;
	enum ibv_qp_state state;
	enum ibv_qp_type qp_type;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

struct old_send_wr {
	struct old_send_wr *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	int send_flags;
	uint32_t imm_data;
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct old_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
	} wr;
};

struct old_recv_wr {
	struct old_recv_wr *next;
	uint64_t wr_id;
	struct ibv_sge *sg_list;
	int num_sge;
};

_Static_assert(offsetof(struct old_ops, poll_cq) == 56, "poll_cq");
_Static_assert(offsetof(struct old_ops, post_srq_recv) == 128, "post_srq_recv");
_Static_assert(offsetof(struct old_ops, post_send) == 168, "post_send");
_Static_assert(sizeof(struct old_ops) == 216, "old_ops");
_Static_assert(sizeof(struct old_context) == 248, "old_context");
_Static_assert(offsetof(struct old_qp, state) == 56, "state");
_Static_assert(sizeof(struct old_send_wr) == 72, "old_send_wr");

/* A function of 1.0: its type, today's name, its arguments. */
#define OLD_AT(node, type, name, ...)                                              \
	type old_##name(__VA_ARGS__);                                              \
	__asm__(".symver old_" #name ", ibv_" #name "@" node)
#define OLD(type, name, ...) OLD_AT("IBVERBS_1.0", type, name, __VA_ARGS__)

OLD(struct old_device **, get_device_list, int *count);
OLD(void, free_device_list, struct old_device **list);
OLD(const char *, get_device_name, struct old_device *device);
OLD(uint64_t, get_device_guid, struct old_device *device);
OLD(struct old_context *, open_device, struct old_device *device);
OLD(int, close_device, struct old_context *context);
OLD(int, get_async_event, struct old_context *context, struct ibv_async_event *event);
OLD(void, ack_async_event, struct ibv_async_event *event);
OLD(int, query_device, struct old_context *context, struct ibv_device_attr *attr);
OLD(int, query_port, struct old_context *context, uint8_t port, void *attr);
OLD(int, query_gid, struct old_context *context, uint8_t port, int index, union ibv_gid *gid);
OLD(int, query_pkey, struct old_context *context, uint8_t port, int index, uint16_t *pkey);
OLD(struct old_pd *, alloc_pd, struct old_context *context);
OLD(int, dealloc_pd, struct old_pd *pd);
OLD(struct old_mr *, reg_mr, struct old_pd *pd, void *addr, size_t length, int access);
OLD(int, dereg_mr, struct old_mr *mr);
OLD(struct old_channel *, create_comp_channel, struct old_context *context);
OLD(int, destroy_comp_channel, struct old_channel *channel);
OLD(struct old_cq *, create_cq, struct old_context *context, int cqe, void *cq_context,
    void *channel, int vector);
OLD(int, resize_cq, struct old_cq *cq, int cqe);
OLD(int, destroy_cq, struct old_cq *cq);
OLD(int, get_cq_event, void *channel, struct old_cq **cq, void **cq_context);
OLD(void, ack_cq_events, struct old_cq *cq, unsigned int count);
OLD(struct old_srq *, create_srq, struct old_pd *pd, struct ibv_srq_init_attr *attr);
OLD(int, modify_srq, struct old_srq *srq, struct ibv_srq_attr *attr, int mask);
OLD(int, query_srq, struct old_srq *srq, struct ibv_srq_attr *attr);
OLD(int, destroy_srq, struct old_srq *srq);
OLD(struct old_qp *, create_qp, struct old_pd *pd, struct old_qp_init_attr *attr);
OLD(int, query_qp, struct old_qp *qp, struct ibv_qp_attr *attr, int mask,
    struct old_qp_init_attr *init);
OLD(int, modify_qp, struct old_qp *qp, struct ibv_qp_attr *attr, int mask);
OLD(int, destroy_qp, struct old_qp *qp);
OLD(struct old_ah *, create_ah, struct old_pd *pd, struct ibv_ah_attr *attr);
OLD(int, destroy_ah, struct old_ah *ah);
OLD(int, attach_mcast, struct old_qp *qp, union ibv_gid *gid, uint16_t lid);
OLD(int, detach_mcast, struct old_qp *qp, union ibv_gid *gid, uint16_t lid);
OLD_AT("IBVERBS_1.1", void, register_driver, const char *name,
       struct ibv_device *(*init)(const char *path, int abi));

#endif
