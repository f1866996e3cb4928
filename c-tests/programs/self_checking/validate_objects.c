/*
 * IBVERBS_VALIDATE over uroce, which keeps destroyed objects for a while: each kind of object is
 * used after its end, and a queue pair is destroyed whose asynchronous event was not acknowledged.
 */
#include "report.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void gone(const char *title)
{
	report_has(title, "invalid (destroyed)", "after it was destroyed", "called by: ",
		   "made by: ", "destroyed by: ", NULL);
}

static void destroyed(struct two *t)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(t->context));
	struct ibv_mr *mr = MUST_PTR(ibv_reg_mr(pd, t->buffer, 64, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_srq *srq = MUST_PTR(ibv_create_srq(pd, &attr));
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(t->context, 1, NULL, NULL, 0));
	struct ibv_sge sge = two_piece(t, 8);
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;
	struct ibv_wc wc;

	MUST(ibv_destroy_srq(srq));
	MUST(ibv_dereg_mr(mr));
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_dealloc_pd(pd));
	report_nothing("correct calls");
	expect(ibv_post_srq_recv(srq, &wr, &bad) == EINVAL);
	gone("a shared queue");
	expect(ibv_dereg_mr(mr) == EINVAL);
	gone("a region");
	expect(ibv_poll_cq(cq, 1, &wc) != 0);
	gone("a completion queue");
	expect(!ibv_reg_mr(pd, t->buffer, 64, IBV_ACCESS_LOCAL_WRITE) && errno == EINVAL);
	gone("a domain");
	expect(ibv_dealloc_pd(pd) == EINVAL);
	report_nothing("the domain again");
}

void *__libc_malloc(size_t size);
void __libc_free(void *memory);
/* Where the next channel comes to lie, and memory that is not freed when its channel goes. */
static void *next_channel, *lent;

void *malloc(size_t size)
{
	if (!next_channel || size != sizeof(struct ibv_comp_channel))
		return __libc_malloc(size);
	lent = next_channel;
	next_channel = NULL;
	return lent;
}

void free(void *memory)
{
	if (!memory || memory != lent)
		__libc_free(memory);
	else
		lent = NULL;
}

/* The memory of destroyed objects is eventually reused, also for channels, which no verb of the
 * provider makes. */
static void in_old_memory(struct two *t)
{
	struct ibv_mr *mr = MUST_PTR(ibv_reg_mr(t->pd, t->buffer, 64, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_comp_channel *channel;

	MUST(ibv_dereg_mr(mr));
	next_channel = mr;
	channel = MUST_PTR(ibv_create_comp_channel(t->context));
	expect((void *)channel == mr);
	MUST(ibv_destroy_comp_channel(channel));
	report_nothing("a channel in the memory of a destroyed one");
}

/* Writes with a wrong key, which causes an event at the peer; destroys the peer with it unread. */
static void forgetful(int ready)
{
	struct ibv_context *context = MUST_PTR(open_device_named("uroce_lo"));
	struct ibv_async_event event;
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct two t;

	two_open(&t, context, 0, 1);
	sge = two_piece(&t, 8);
	wr = (struct ibv_send_wr){
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { (uintptr_t)t.buffer, t.mr->rkey + 0x100 },
	};
	MUST(ibv_post_send(t.qp[0], &wr, &bad));
	expect(two_wait(&t, &wc) == IBV_WC_REM_ACCESS_ERR);
	do
		MUST(ibv_get_async_event(context, &event));
	while (event.event_type != IBV_EVENT_QP_ACCESS_ERR);
	expect(event.element.qp == t.qp[1]);
	(void)report_take();
	expect(write(ready, "x", 1) == 1);
	ibv_destroy_qp(t.qp[1]);
}

/* The call waits for the acknowledgement, so a child makes it and is ended. */
static void unacknowledged(void)
{
	int status, pipes[2];
	struct stat file;
	pid_t child;
	char byte;

	expect(pipe(pipes) == 0);
	fflush(stdout);
	child = fork();
	if (!child) {
		forgetful(pipes[1]);
		_exit(1);
	}
	/* With no writer left here, a child that ends early differs from a slow one. */
	close(pipes[1]);
	expect(read(pipes[0], &byte, 1) == 1);
	while (stat(report_path, &file) == 0 && file.st_size == 0) {
		expect(waitpid(child, &status, WNOHANG) == 0);
		usleep(1000);
	}
	kill(child, SIGKILL);
	expect(waitpid(child, &status, 0) == child);
	report_has("an event not acknowledged", "invalid (events)", "asynchronous events that were not",
		   "hangs", NULL);
	close(pipes[0]);
}

int main(void)
{
	struct ibv_context *context;
	struct two t;

	report_to_file("IBVERBS_VALIDATE", "");
	/* The test checks the bookkeeping, not the carrier. */
	setenv("UROCE_CARRIER", "udp", 1);
	if (!own_uroce()) {
		out("no network namespace may be made: uroce is left out");
		return done();
	}
	context = MUST_PTR(open_device_named("uroce_lo"));
	two_open(&t, context, 0, 1);
	destroyed(&t);
	in_old_memory(&t);
	two_close(&t);
	MUST(ibv_close_device(context));
	unacknowledged();
	unlink(report_path);
	return done();
}
