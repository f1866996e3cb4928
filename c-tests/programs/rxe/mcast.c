/* Multicast groups: attach, detach, twice, not at all, on the wrong kind of queue pair. */
#include "rdma.h"

int main(void)
{
	struct pair pair;
	/* The GID of the IPv4 group 239.9.0.1. */
	union ibv_gid group = { .raw = { [10] = 0xff, [11] = 0xff, 239, 9, 0, 1 } };
	union ibv_gid other = group, none;
	struct ibv_cq *cq;
	struct ibv_qp_init_attr init;
	struct ibv_qp *rc;

	other.raw[15] = 2;
	memset(&none, 0, sizeof(none));
	make_pair(&pair, IBV_QPT_UD);
	RC(ibv_attach_mcast(pair.qp[0], &group, 0));
	RC(ibv_attach_mcast(pair.qp[0], &group, 0));
	RC(ibv_attach_mcast(pair.qp[1], &group, 0));
	RC(ibv_attach_mcast(pair.qp[0], &other, 0xc000));
	RC(ibv_detach_mcast(pair.qp[0], &group, 0));
	RC(ibv_detach_mcast(pair.qp[0], &group, 0));
	RC(ibv_detach_mcast(pair.qp[0], &other, 1));
	RC(ibv_detach_mcast(pair.qp[0], &other, 0xc000));
	RC(ibv_attach_mcast(pair.qp[0], &none, 0));
	RC(ibv_detach_mcast(pair.qp[0], &none, 0));
	/* Destroying a member is refused by some kernels' rule, see the answer. */
	RC(ibv_detach_mcast(pair.qp[1], &group, 0));
	cq = MUST_PTR(ibv_create_cq(pair.context, 4, NULL, NULL, 0));
	init = init_attr(cq, IBV_QPT_RC);
	rc = MUST_PTR(ibv_create_qp(pair.pd, &init));
	RC(ibv_attach_mcast(rc, &group, 0));
	RC(ibv_detach_mcast(rc, &group, 0));
	MUST(ibv_destroy_qp(rc));
	MUST(ibv_destroy_cq(cq));
	free_pair(&pair);
	return done();
}
