/*
 * Threads that are cancelled in calls of synchronous ids that wait, over devices in user space,
 * with and without records of calls. Nothing leaks.
 */
#include "lo.h"
#include "cm_cancel.h"

static int destroy_ep(struct scene *scene)
{
	rdma_destroy_ep(scene->id);
	return 0;
}

/* It waits until an event of the completion queue is acknowledged. No cancellation takes effect. */
static void in_destruction(void)
{
	struct rdma_cm_id *silent = listening(NULL, NULL, SILENT_PORT, RDMA_PS_TCP);
	struct scene scene = { .id = sync_client(SILENT_PORT) };
	struct waiter waiter = { .scene = &scene, .call = destroy_ep };
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;
	struct ibv_cq *cq;
	void *context;

	MUST(ibv_modify_qp(scene.id->qp, &error, IBV_QP_STATE));
	MUST(ibv_req_notify_cq(scene.id->recv_cq, 0));
	MUST(ibv_post_recv(scene.id->qp, &wr, &bad));
	MUST(ibv_get_cq_event(scene.id->recv_cq_channel, &cq, &context));
	start(&waiter);
	let_it_wait();
	cancel(&waiter);
	let_it_wait();
	ibv_ack_cq_events(cq, 1);
	join(&waiter, "rdma_destroy_ep");
	expect(waiter.returned);
	rdma_destroy_ep(silent);
}

static void without_leaks(void)
{
	int before;

	cancelled_in_each();
	in_destruction();
	before = open_descriptors();
	cancelled_in_each();
	in_destruction();
	expect(open_descriptors() == before);
}

int main(void)
{
	if (!own_network()) {
		out("skipped: no network namespace: %s", errno_name(errno));
		return done();
	}
	MUST(system("ip link set lo up"));
	setenv("UROCE_DEVICES", "lo", 1);
	in_child("plain", without_leaks);
	setenv("IBVERBS_TRACE", "/dev/null", 1);
	in_child("traced", without_leaks);
	return done();
}
