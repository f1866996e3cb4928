/* A program with registered memory that starts children.
 *
 *     cc -o fork fork.c -libverbs && ./fork [DEVICE]
 *
 * Shown: ibv_fork_init(3). After a fork, the first of the two processes that writes to a page gets
 * a copy of it, while a device continues to use the old one. ibv_fork_init keeps registered pages
 * out of children, so the parent keeps its pages. Where the kernel does this by itself, the call
 * has no effect. */
#include "example.h"

int main(int argc, char **argv)
{
	/* Before the first registration. */
	check_errno(ibv_fork_init(), "ibv_fork_init");
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : NULL);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	check(pd != NULL, "ibv_alloc_pd");
	struct ibv_cq *cq = ibv_create_cq(context, 32, NULL, NULL, 0);
	check(cq != NULL, "ibv_create_cq");

	/*
	 * Whole pages: other data in a page of registered memory would be missing in the child.
	 */
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = aligned_alloc(page, 2 * page);
	check(memory != NULL, "aligned_alloc");
	memset(memory, 0, 2 * page);
	struct ibv_mr *out = ibv_reg_mr(pd, memory, page, 0);
	struct ibv_mr *in = ibv_reg_mr(pd, memory + page, page, IBV_ACCESS_LOCAL_WRITE);
	check(out && in, "ibv_reg_mr");

	struct ibv_qp *one = create_rc(pd, cq, NULL), *two = create_rc(pd, cq, NULL);
	struct address of_one = address_of(one, NULL), of_two = address_of(two, NULL);
	connect_rc(one, &of_one, &of_two);
	connect_rc(two, &of_two, &of_one);
	post_receive(two, in, 2);

	fflush(stdout);
	pid_t child = fork();
	check(child >= 0, "fork");
	if (child == 0) {
		/* Verbs objects are the parent's. A child does other things, or calls exec. */
		execlp("echo", "echo", "the child runs a program", (char *)NULL);
		_exit(127);
	}
	int status = 1;
	check(waitpid(child, &status, 0) == child && status == 0, "the child");

	/* The parent writes to its pages after the fork, and the device sees the new bytes. */
	strcpy(memory, "written after the fork");
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 64, .lkey = out->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	check_errno(ibv_post_send(one, &wr, &bad), "ibv_post_send");
	wait_for_completion(cq);
	wait_for_completion(cq);
	printf("received: %s\n", memory + page);
	int same = strcmp(memory, memory + page) == 0;

	check_errno(ibv_destroy_qp(one), "ibv_destroy_qp");
	check_errno(ibv_destroy_qp(two), "ibv_destroy_qp");
	check_errno(ibv_dereg_mr(in), "ibv_dereg_mr");
	check_errno(ibv_dereg_mr(out), "ibv_dereg_mr");
	check_errno(ibv_destroy_cq(cq), "ibv_destroy_cq");
	check_errno(ibv_dealloc_pd(pd), "ibv_dealloc_pd");
	check_errno(ibv_close_device(context), "ibv_close_device");
	free(memory);
	return !same;
}
