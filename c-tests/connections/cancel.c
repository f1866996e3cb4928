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

/* Its channel is not there any more. */
static int get_event_of_none(struct scene *scene)
{
	struct rdma_cm_event *event;

	(void)scene;
	return rdma_get_cm_event((struct rdma_event_channel *)-1, &event);
}

/* A thread that is cancelled already does not read the channel: libiscsi cancels its thread, and
 * frees the memory that has the address of the channel. */
static void before_the_call(void)
{
	struct waiter waiter = { .call = get_event_of_none, .late = true };

	start(&waiter);
	cancel(&waiter);
	join(&waiter, "cancelled before the call");
	expect(!waiter.returned);
}

static void without_leaks(void)
{
	int before;

	cancelled_in_each();
	in_destruction();
	before_the_call();
	before = open_descriptors();
	cancelled_in_each();
	in_destruction();
	before_the_call();
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
