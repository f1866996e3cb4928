/*
 * Options of connections over devices without any: soft-RoCE, whose answers are those of the stock
 * library's defaults, and uroce.
 */
#ifndef ECE_H
#define ECE_H

#include "rdma.h"

static inline void ece_is_refused(struct ibv_qp *qp)
{
	struct ibv_ece ece = { 0 };

	expect(RC(ibv_set_ece(qp, &ece)) == EOPNOTSUPP);
	ece.vendor_id = 0x15b3;
	expect(RC(ibv_set_ece(qp, &ece)) == EOPNOTSUPP);
	ece.options = 0xffffffff;
	ece.comp_mask = 1;
	expect(RC(ibv_set_ece(qp, &ece)) == EOPNOTSUPP);
	expect(RC(ibv_query_ece(qp, &ece)) == EOPNOTSUPP);
	expect(ece.vendor_id == 0x15b3 && ece.options == 0xffffffff && ece.comp_mask == 1);
}

#endif
