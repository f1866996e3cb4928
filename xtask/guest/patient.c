/*
 * Preloaded: connections have a local ACK timeout of 4 seconds at least. A device in user space
 * answers when its process has a processor, and under valgrind or an emulator on a busy machine the
 * first answer takes longer than the 0.9 seconds for which the pingpongs wait and repeat.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

enum { FOUR_SECONDS = 20 };

typedef int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	modify_qp *next = (modify_qp *)dlsym(RTLD_NEXT, "ibv_modify_qp");
	struct ibv_qp_attr patient = *attr;

	if (!next)
		abort();
	if (mask & IBV_QP_TIMEOUT && patient.timeout && patient.timeout < FOUR_SECONDS)
		patient.timeout = FOUR_SECONDS;
	return next(qp, &patient, mask);
}
