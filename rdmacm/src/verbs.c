/*
 * Inline functions of verbs.h for the Rust code: they call the provider through the members of the
 * context, as in a program.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#include "c.h"

RUST struct ibv_qp *ferroverbs_create_qp_ex(struct ibv_context *context,
					    struct ibv_qp_init_attr_ex *attr);
RUST struct ibv_srq *ferroverbs_create_srq_ex(struct ibv_context *context,
					      struct ibv_srq_init_attr_ex *attr);
RUST struct ibv_xrcd *ferroverbs_open_xrcd(struct ibv_context *context);
RUST int ferroverbs_close_xrcd(struct ibv_xrcd *xrcd);

struct ibv_qp *ferroverbs_create_qp_ex(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *attr)
{
	return ibv_create_qp_ex(context, attr);
}

struct ibv_srq *ferroverbs_create_srq_ex(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *attr)
{
	return ibv_create_srq_ex(context, attr);
}

/* An anonymous domain. */
struct ibv_xrcd *ferroverbs_open_xrcd(struct ibv_context *context)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	return ibv_open_xrcd(context, &attr);
}

int ferroverbs_close_xrcd(struct ibv_xrcd *xrcd)
{
	return ibv_close_xrcd(xrcd);
}
