/* A forked child uses ids over the context that its parent opened, and objects made in it. */
#include "cm.h"

#include <sys/wait.h>

int main(void)
{
	struct rdma_event_channel *channel = MUST_PTR(rdma_create_event_channel());
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);
	struct sockaddr_in here = at(HERE, 0);
	struct ibv_pd *pd;
	int status;
	pid_t pid;

	MUST(rdma_bind_addr(id, SA(here)));
	pd = MUST_PTR(ibv_alloc_pd(id->verbs));
	fflush(stdout);
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		struct rdma_event_channel *own = MUST_PTR(rdma_create_event_channel());
		struct rdma_cm_id *new = new_id(own, NULL, RDMA_PS_TCP);

		MUST(rdma_bind_addr(new, SA(here)));
		out("child: the context is %s", new->verbs == pd->context ? "its parent's" : "new");
		MUST(rdma_destroy_id(new));
		rdma_destroy_event_channel(own);
		fflush(stdout);
		_exit(0);
	}
	expect(waitpid(pid, &status, 0) == pid && status == 0);
	MUST(ibv_dealloc_pd(pd));
	MUST(rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	return done();
}
