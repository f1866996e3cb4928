/*
 * A child that was forked after its parent had used uroce_lo has a separate connection manager: it
 * listens, and its parent connects to it.
 */
#include "lo.h"

#include <sys/wait.h>

enum { PORT = 7490 };

static struct rdma_conn_param no_reads(void)
{
	return (struct rdma_conn_param){ .retry_count = 7, .rnr_retry_count = 7 };
}

static void serve(int says)
{
	struct rdma_event_channel *channel = MUST_PTR(rdma_create_event_channel());
	struct rdma_cm_id *listener = listening(channel, NULL, PORT, RDMA_PS_TCP), *id;
	struct rdma_conn_param param = no_reads();

	expect(write(says, "l", 1) == 1);
	id = requested(channel);
	MUST(make_qp(id));
	MUST(rdma_accept(id, &param));
	pass(channel, "child");
	pass(channel, "child");
	MUST(rdma_disconnect(id));
	rdma_destroy_qp(id);
	MUST(rdma_destroy_id(id));
	MUST(rdma_destroy_id(listener));
	rdma_destroy_event_channel(channel);
}

int main(void)
{
	struct rdma_conn_param param = no_reads();
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	int says[2], status;
	char byte;
	pid_t pid;

	if (!own_device())
		return done();
	channel = MUST_PTR(rdma_create_event_channel());
	id = ready(channel, PORT, RDMA_PS_TCP);
	MUST(pipe(says));
	fflush(stdout);
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		serve(says[1]);
		fflush(stdout);
		_exit(0);
	}
	close(says[1]);
	expect(read(says[0], &byte, 1) == 1);
	MUST(rdma_connect(id, &param));
	pass(channel, "parent");
	MUST(rdma_disconnect(id));
	pass(channel, "parent");
	rdma_destroy_qp(id);
	MUST(rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	expect(waitpid(pid, &status, 0) == pid && status == 0);
	return done();
}
