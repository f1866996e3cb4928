/*
 * uroce: a destination that no route leads to is refused when a path is made, at once; one that may
 * be there is not waited for. In a network namespace of the program's own.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "network.h"
#include "rdma.h"

#include <arpa/inet.h>

static int to_rtr(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_ah_attr address)
{
	struct ibv_qp_init_attr init = init_attr(cq, IBV_QPT_RC);
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pd, &init));
	struct ibv_qp_attr attr = attr_init();
	int answer;

	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr = attr_rtr(pd->context, qp->qp_num);
	attr.ah_attr = address;
	answer = ibv_modify_qp(qp, &attr, RC_RTR_MASK);
	if (answer) {
		/* Nothing has changed. */
		attr.ah_attr = own_address(pd->context);
		MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	}
	MUST(ibv_destroy_qp(qp));
	return answer;
}

static int to_ah(struct ibv_pd *pd, struct ibv_ah_attr address)
{
	struct ibv_ah *ah;

	errno = 0;
	ah = ibv_create_ah(pd, &address);
	if (!ah)
		return errno;
	MUST(ibv_destroy_ah(ah));
	return 0;
}

static void path(struct ibv_pd *pd, struct ibv_cq *cq, const char *to, uint8_t index, int wanted)
{
	struct ibv_ah_attr address = own_address(pd->context);

	expect(inet_pton(AF_INET6, to, address.grh.dgid.raw) == 1);
	address.grh.sgid_index = index;
	out("%s", to);
	expect(to_rtr(pd, cq, address) == wanted);
	expect(to_ah(pd, address) == wanted);
}

int main(void)
{
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;

	if (!own_device())
		return done();
	context = open_rxe();
	pd = MUST_PTR(ibv_alloc_pd(context));
	cq = MUST_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
	path(pd, cq, "::ffff:127.0.0.1", 0, 0);
	path(pd, cq, "::ffff:127.5.0.1", 0, 0);
	path(pd, cq, "::ffff:224.0.0.9", 0, 0);
	path(pd, cq, "::ffff:10.99.99.99", 0, EHOSTUNREACH);
	path(pd, cq, "::ffff:203.0.113.7", 0, EHOSTUNREACH);
	path(pd, cq, "::ffff:240.0.0.1", 0, EHOSTUNREACH);
	path(pd, cq, "::1", 1, 0);
	path(pd, cq, "2001:db8::1", 1, ENETUNREACH);
	MUST(system("ip route add 10.99.0.0/16 dev lo"));
	path(pd, cq, "::ffff:10.99.99.99", 0, 0);
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_close_device(context));
	return done();
}
