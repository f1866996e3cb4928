/*
 * A provider written against driver.h alone: every macro for authors is used once.
 * It compiles as C and as C++, and matches no device there is.
 */
#include <infiniband/driver.h>
#include <infiniband/cmd_write.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <stdlib.h>

struct nothing_create_cq {
	__aligned_u64 buf_addr;
	__u32 flags;
	__u32 reserved;
};
#define _STRUCT_nothing_create_cq \
	__extension__ struct { \
		__aligned_u64 buf_addr; \
		__u32 flags; \
		__u32 reserved; \
	}

struct nothing_create_cq_resp {
	__u32 cqn;
	__u32 reserved;
};
#define _STRUCT_nothing_create_cq_resp \
	__extension__ struct { \
		__u32 cqn; \
		__u32 reserved; \
	}

DECLARE_DRV_CMD(nothing_cq_cmd, IB_USER_VERBS_CMD_CREATE_CQ, nothing_create_cq,
		nothing_create_cq_resp);
DECLARE_DRV_CMD(nothing_pd_cmd, IB_USER_VERBS_CMD_ALLOC_PD, empty, empty);
DECLARE_DRV_CMD(nothing_qp_cmd, IB_USER_VERBS_EX_CMD_CREATE_QP, empty, empty);

struct nothing_context {
	int before;
	struct verbs_context ibv_ctx;
};

struct nothing_device {
	struct verbs_device ibv_dev;
	void *data;
};

static const struct verbs_match_ent nothing_table[] = {
	VERBS_DRIVER_ID(0xfffffff0U),
	VERBS_PCI_MATCH(0xfff0, 0xfff1, NULL),
	VERBS_MODALIAS_MATCH("nothing:*", NULL),
	VERBS_NAME_MATCH("nothing", NULL),
	{ NULL, { NULL }, 0, 0, VERBS_MATCH_SENTINEL },
};

static int nothing_query_port(struct ibv_context *context, uint8_t port_num,
			      struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	verbs_debug(verbs_get_ctx(context), "port %d\n", port_num);
	verbs_debug_datapath(verbs_get_ctx(context), "quiet\n");
	return ibv_cmd_query_port(context, port_num, attr, &cmd, sizeof(cmd));
}

static struct ibv_pd *nothing_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = (struct ibv_pd *)calloc(1, sizeof(*pd));
	struct nothing_pd_cmd cmd;
	struct nothing_pd_cmd_resp resp;

	if (!pd)
		return NULL;
	errno = ibv_cmd_alloc_pd(context, pd, &cmd.ibv_cmd, sizeof(cmd), &resp.ibv_resp,
				 sizeof(resp));
	if (!errno)
		return pd;
	verbs_err(verbs_get_ctx(context), "no domain\n");
	free(pd);
	return NULL;
}

static struct ibv_cq *nothing_create_cq(struct ibv_context *context, int cqe,
					struct ibv_comp_channel *channel, int comp_vector)
{
	struct verbs_cq *cq = (struct verbs_cq *)calloc(1, sizeof(*cq));
	struct nothing_cq_cmd cmd;
	struct nothing_cq_cmd_resp resp;

	if (!cq)
		return NULL;
	cmd.buf_addr = (uintptr_t)cq;
	cmd.drv_payload.flags = 0;
	cmd.reserved = 0;
	errno = ibv_cmd_create_cq(context, cqe, channel, comp_vector, &cq->cq, &cmd.ibv_cmd,
				  sizeof(cmd), &resp.ibv_resp, sizeof(resp));
	if (!errno)
		return &cq->cq;
	free(cq);
	return NULL;
}

static int nothing_destroy_cq(struct ibv_cq *cq)
{
	int ret = ibv_cmd_destroy_cq(cq);

	if (verbs_is_destroy_err(&ret))
		return ret;
	free(container_of(cq, struct verbs_cq, cq));
	return 0;
}

static int nothing_dereg_mr(struct verbs_mr *vmr)
{
	return verbs_get_mr(&vmr->ibv_mr) == vmr ? ibv_cmd_dereg_mr(vmr) : EINVAL;
}

static int nothing_read_counters(struct ibv_counters *counters, uint64_t *values,
				 uint32_t ncounters, uint32_t flags)
{
	struct verbs_counters *vcounters =
		container_of(counters, struct verbs_counters, counters);

	if (!check_comp_mask(flags, IBV_READ_COUNTERS_ATTR_PREFER_CACHED))
		return EOPNOTSUPP;
	return ibv_cmd_read_counters(vcounters, values, ncounters, flags, NULL);
}

/* ISO C++ has no arrays of variable length. */
#ifndef __cplusplus
static int nothing_free_dm(struct ibv_dm *dm)
{
	struct verbs_dm *vdm = container_of(dm, struct verbs_dm, dm);
	uint32_t handles[2] = { 1, 2 };
	uint64_t out = 0;

	DECLARE_COMMAND_BUFFER(link, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, 4);
	DECLARE_COMMAND_BUFFER_LINK(cmd, UVERBS_OBJECT_DM, UVERBS_METHOD_DM_FREE, 6, link);
	fill_attr_in_obj(link, UVERBS_ATTR_FREE_DM_HANDLE, vdm->handle);
	attr_optional(fill_attr_in_fd(link, 1, -1));
	fill_attr_in_uint32(link, 2, 3);
	fill_attr_const_in(link, 3, 4);
	fill_attr_in_objs_arr(cmd, 4, handles, 2);
	fill_attr_in_ptr_array(cmd, 5, handles, 2);
	fill_attr_in_ptr(cmd, 6, &out);
	fill_attr_out_ptr(cmd, 7, &out);
	fill_attr_out_ptr_array(cmd, 8, handles, 2);
	fill_attr_in_enum(cmd, 9, 1, &out, sizeof(out));
	fallback_require_ex(cmd);
	fallback_require_ioctl(cmd);
	return execute_ioctl(dm->context, cmd);
}
#endif

static void nothing_free_context(struct ibv_context *context)
{
	struct nothing_context *ctx =
		container_of(context, struct nothing_context, ibv_ctx.context);

	verbs_uninit_context(&ctx->ibv_ctx);
	free(ctx);
}

static struct verbs_context *nothing_alloc_context(struct ibv_device *device, int cmd_fd,
						   void *private_data)
{
	struct verbs_context_ops ops;
	struct nothing_context *ctx;
	struct ibv_get_context cmd;
	struct ib_uverbs_get_context_resp resp;

	(void)private_data;
	ctx = verbs_init_and_alloc_context(device, cmd_fd, ctx, ibv_ctx, RDMA_DRIVER_UNKNOWN);
	if (!ctx)
		return NULL;
	if (ibv_cmd_get_context(&ctx->ibv_ctx, &cmd, sizeof(cmd), &resp, sizeof(resp))) {
		nothing_free_context(&ctx->ibv_ctx.context);
		return NULL;
	}

	memset(&ops, 0, sizeof(ops));
	ops.alloc_pd = nothing_alloc_pd;
	ops.create_cq = nothing_create_cq;
	ops.dereg_mr = nothing_dereg_mr;
	ops.destroy_cq = nothing_destroy_cq;
	ops.free_context = nothing_free_context;
	ops.query_port = nothing_query_port;
	ops.read_counters = nothing_read_counters;
#ifndef __cplusplus
	ops.free_dm = nothing_free_dm;
#endif
	verbs_set_ops(&ctx->ibv_ctx, &ops);
	return &ctx->ibv_ctx;
}

static struct verbs_device *nothing_alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	struct nothing_device *dev = (struct nothing_device *)calloc(1, sizeof(*dev));

	if (!dev)
		return NULL;
	dev->data = sysfs_dev->match ? sysfs_dev->match->driver_data : NULL;
	return verbs_get_device(&dev->ibv_dev.device);
}

static void nothing_uninit_device(struct verbs_device *device)
{
	free(container_of(device, struct nothing_device, ibv_dev));
}

static const struct verbs_device_ops nothing_ops = {
	"nothing", 0, 1, nothing_table, NULL, NULL, nothing_alloc_context, NULL,
	nothing_alloc_device, nothing_uninit_device,
};
PROVIDER_DRIVER(nothing, nothing_ops)
