/*
 * Fork with registered memory: traffic continues in the parent, the child has a copy, and the
 * device sees the parent's writes.
 */
#include "rdma.h"

#include <sys/mman.h>
#include <sys/wait.h>

static void once(bool init)
{
	struct pair pair;
	struct ibv_wc wc;
	struct ibv_sge sge;
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	int ends[2], status;
	char go;
	pid_t pid;

	if (init)
		RC(ibv_fork_init());
	out("status unneeded: %d", ibv_is_fork_initialized() == IBV_FORK_UNNEEDED);
	make_pair(&pair, IBV_QPT_RC);
	strcpy((char *)pair.buffer, "before the fork");
	expect(!pipe(ends));
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		/* Holds its copy of the pages until the parent is done. */
		close(ends[1]);
		_exit(read(ends[0], &go, 1) == 0 ? 0 : 1);
	}
	/* The page is written after the fork: the device must see this. */
	strcpy((char *)pair.buffer, "after the fork");
	sge = piece(&pair, 0, 64);
	MUST(post_recv(&pair, 1, 1, 32768, 64));
	MUST(ibv_post_send(pair.qp[0], &wr, &bad));
	wc = wait_wc(pair.cq[0]);
	show_wc("sent", &wc);
	wc = wait_wc(pair.cq[1]);
	show_wc("received", &wc);
	out("received '%s'", pair.buffer + 32768);
	close(ends[1]);
	expect(waitpid(pid, &status, 0) == pid);
	out("child ended with %d", status);
	close(ends[0]);
	free_pair(&pair);
}

static void plain(void) { once(false); }
static void initialised(void) { once(true); }

static void by_variable(void)
{
	setenv("RDMAV_FORK_SAFE", "1", 1);
	once(false);
}

/* Registering is a use of the range set, so this init comes too late. */
static void too_late(void)
{
	once(false);
	RC(ibv_fork_init());
}

/* The child of a process with an open device may open its own. */
static void child_opens(void)
{
	struct ibv_context *context = open_rxe();
	int status;
	pid_t pid = fork();

	expect(pid >= 0);
	if (!pid) {
		struct ibv_context *own = open_rxe();
		struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(own));

		MUST(ibv_dealloc_pd(pd));
		MUST(ibv_close_device(own));
		_exit(0);
	}
	expect(waitpid(pid, &status, 0) == pid);
	out("child ended with %d", status);
	RC(ibv_close_device(context));
}

int main(void)
{
	in_child("no init", plain);
	in_child("init", initialised);
	in_child("RDMAV_FORK_SAFE", by_variable);
	in_child("too late", too_late);
	in_child("child opens", child_opens);
	return done();
}
