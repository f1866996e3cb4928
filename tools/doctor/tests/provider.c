/*
 * A provider for cards that do not exist: it takes each device whose name begins with "madeup", and
 * the environment describes the card (MADEUP_...). It carries no data: queue pairs cannot be
 * connected.
 */
#include <infiniband/driver.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned long setting(const char *name, unsigned long usual)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 0) : usual;
}

static int query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t size)
{
	const char *firmware = getenv("MADEUP_FIRMWARE");

	(void)context;
	(void)input;
	memset(attr, 0, size);
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%s",
		 firmware ? firmware : "1.0");
	attr->orig_attr.vendor_id = 0xfff0;
	attr->orig_attr.vendor_part_id = 0xfff1;
	attr->orig_attr.max_mr_size = UINT64_MAX;
	attr->orig_attr.phys_port_cnt = 1;
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t number, struct ibv_port_attr *attr)
{
	(void)context;
	if (number != 1)
		return EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->state = setting("MADEUP_STATE", IBV_PORT_ACTIVE);
	attr->link_layer = setting("MADEUP_LINK_LAYER", IBV_LINK_LAYER_ETHERNET);
	attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
	attr->gid_tbl_len = 1;
	attr->pkey_tbl_len = 1;
	attr->lid = 1;
	return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	(void)context;
	return calloc(1, sizeof(struct ibv_pd));
}

static int dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t hca_va,
			     int access)
{
	struct verbs_mr *mr;

	(void)pd;
	(void)addr;
	(void)length;
	(void)hca_va;
	errno = setting("MADEUP_REGISTERS", 0);
	if (errno)
		return NULL;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return NULL;
	mr->mr_type = IBV_MR_TYPE_MR;
	mr->access = access;
	mr->ibv_mr.lkey = mr->ibv_mr.rkey = 7;
	return &mr->ibv_mr;
}

static int dereg_mr(struct verbs_mr *mr)
{
	free(mr);
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe,
				struct ibv_comp_channel *channel, int vector)
{
	struct verbs_cq *cq = calloc(1, sizeof(*cq));

	(void)context;
	(void)channel;
	(void)vector;
	if (cq)
		cq->cq.cqe = cqe;
	return cq ? &cq->cq : NULL;
}

static int destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	return 0;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct verbs_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	/* Members that the kernel's response would have filled. */
	qp->qp.context = pd->context;
	qp->qp.pd = pd;
	qp->qp.qp_type = attr->qp_type;
	qp->qp.qp_num = 17;
	return &qp->qp;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	return mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_INIT ? 0 : EHOSTUNREACH;
}

static int destroy_qp(struct ibv_qp *qp)
{
	free(qp);
	return 0;
}

static void free_context(struct ibv_context *context)
{
	struct verbs_context *ctx = verbs_get_ctx(context);

	verbs_uninit_context(ctx);
	free(ctx);
}

struct madeup_context {
	struct verbs_context ibv_ctx;
};

static struct verbs_context *alloc_context(struct ibv_device *device, int cmd_fd, void *private_data)
{
	static const struct verbs_context_ops ops = {
		.alloc_pd = alloc_pd,
		.create_cq = create_cq,
		.create_qp = create_qp,
		.dealloc_pd = dealloc_pd,
		.dereg_mr = dereg_mr,
		.destroy_cq = destroy_cq,
		.destroy_qp = destroy_qp,
		.free_context = free_context,
		.modify_qp = modify_qp,
		.query_device_ex = query_device,
		.query_port = query_port,
		.reg_mr = reg_mr,
	};
	struct madeup_context *ctx;

	(void)private_data;
	ctx = verbs_init_and_alloc_context(device, cmd_fd, ctx, ibv_ctx, RDMA_DRIVER_UNKNOWN);
	if (!ctx)
		return NULL;
	/* Events come from here; there are none from the kernel. */
	ctx->ibv_ctx.context.async_fd = dup(cmd_fd);
	verbs_set_ops(&ctx->ibv_ctx, &ops);
	return &ctx->ibv_ctx;
}

static struct verbs_device *alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	(void)sysfs_dev;
	return calloc(1, sizeof(struct verbs_device));
}

static void uninit_device(struct verbs_device *device)
{
	free(device);
}

static const struct verbs_match_ent table[] = {
	VERBS_NAME_MATCH("madeup", NULL),
	{ NULL, { NULL }, 0, 0, VERBS_MATCH_SENTINEL },
};

static const struct verbs_device_ops madeup = {
	.name = "madeup",
	.match_max_abi_version = 1,
	.match_table = table,
	.alloc_context = alloc_context,
	.alloc_device = alloc_device,
	.uninit_device = uninit_device,
};
PROVIDER_DRIVER(madeup, madeup)
