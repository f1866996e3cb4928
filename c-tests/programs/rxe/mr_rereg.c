/* ibv_rereg_mr: every combination of flags, and each error code that only it has. */
#include "rdma.h"

static const char *rereg_name(int code)
{
	switch (code) {
	case 0:
		return "0";
	case IBV_REREG_MR_ERR_INPUT:
		return "ERR_INPUT";
	case IBV_REREG_MR_ERR_DONT_FORK_NEW:
		return "ERR_DONT_FORK_NEW";
	case IBV_REREG_MR_ERR_DO_FORK_OLD:
		return "ERR_DO_FORK_OLD";
	case IBV_REREG_MR_ERR_CMD:
		return "ERR_CMD";
	case IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW:
		return "ERR_CMD_AND_DO_FORK_NEW";
	}
	return "another";
}

static void rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
		  int access, const char *what)
{
	struct ibv_mr before = *mr;
	int code;

	errno = 0;
	code = ibv_rereg_mr(mr, flags, pd, addr, length, access);
	out("flags %x %s: %s errno %s", flags, what, rereg_name(code),
	    code ? errno_name(errno) : "-");
	out("  changed: pd %d addr %d length %d lkey %d rkey %d", mr->pd != before.pd,
	    mr->addr != before.addr, mr->length != before.length, mr->lkey != before.lkey,
	    mr->rkey != before.rkey);
}

int main(void)
{
	struct ibv_context *context = open_rxe();
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_pd *other = MUST_PTR(ibv_alloc_pd(context));
	char *memory = MUST_PTR((char *)calloc(4, 4096));
	struct ibv_mr *mr;
	int flags;

	mr = MUST_PTR(ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE));
	for (flags = 0; flags < 16; flags++) {
		int access = flags & IBV_REREG_MR_CHANGE_ACCESS ? ALL_ACCESS : 0;

		rereg(mr, flags, other, memory + 4096, 8192, access, "all given");
	}
	/* An invalid new domain is left out: the provider would use it unchecked. */
	for (flags = 0; flags < 8; flags++)
		rereg(mr, flags, other, NULL, 0, 0, "no range given");
	rereg(mr, 0, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE, "access without flag");
	rereg(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, IBV_ACCESS_REMOTE_READ,
	      "access without flag");
	rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, memory, 0, 0, "no length");
	rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 4096, 0, "no address");
	rereg(mr, 1 << 30, NULL, NULL, 0, 0, "unknown");
	rereg(mr, -1, NULL, NULL, 0, 0, "unknown");
	RC(ibv_dereg_mr(mr));
	RC(ibv_dealloc_pd(other));
	RC(ibv_dealloc_pd(pd));
	RC(ibv_close_device(context));
	free(memory);
	return done();
}
