/*
 * Completion channels: being busy, blocking, not blocking, poll(2), signals,
 * several threads in one call, acknowledgements that destruction waits for.
 */
#include "rdma.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

static struct ibv_context *context;
static struct ibv_pd *pd;

/* A queue pair that completes a receive on its CQ on demand. */
struct source {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static void make_source(struct source *source, struct ibv_comp_channel *channel, void *own)
{
	struct ibv_qp_init_attr attr;

	source->cq = MUST_PTR(ibv_create_cq(context, 16, own, channel, 0));
	attr = init_attr(source->cq, IBV_QPT_RC);
	source->qp = MUST_PTR(ibv_create_qp(pd, &attr));
}

/* Flushing one receive request makes one completion. */
static void fire(struct source *source)
{
	struct ibv_qp_attr attr = attr_init();
	struct ibv_recv_wr wr = { .wr_id = 1 }, *bad;

	MUST(ibv_modify_qp(source->qp, &attr, RC_INIT_MASK));
	MUST(ibv_post_recv(source->qp, &wr, &bad));
	to_error(source->qp);
}

static void reset(struct source *source)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

	MUST(ibv_modify_qp(source->qp, &attr, IBV_QP_STATE));
}

static void free_source(struct source *source)
{
	MUST(ibv_destroy_qp(source->qp));
	MUST(ibv_destroy_cq(source->cq));
}

static void create_and_busy(void)
{
	int before = open_descriptors();
	struct ibv_comp_channel *channel = PTR(ibv_create_comp_channel(context));
	struct ibv_cq *first, *second;

	out("context %d descriptor %d count %d", channel->context == context, channel->fd >= 0,
	    channel->refcnt);
	first = MUST_PTR(ibv_create_cq(context, 1, NULL, channel, 0));
	second = MUST_PTR(ibv_create_cq(context, 1, NULL, channel, 0));
	out("count %d", channel->refcnt);
	RC(ibv_destroy_comp_channel(channel));
	MUST(ibv_destroy_cq(first));
	out("count %d", channel->refcnt);
	RC(ibv_destroy_comp_channel(channel));
	MUST(ibv_destroy_cq(second));
	PTR(ibv_create_cq(context, 0, NULL, channel, 0));
	out("count %d", channel->refcnt);
	RC(ibv_destroy_comp_channel(channel));
	out("descriptors more %d", open_descriptors() - before);
}

static void one_event(void)
{
	struct ibv_comp_channel *channel = MUST_PTR(ibv_create_comp_channel(context));
	struct source source;
	struct ibv_cq *cq = NULL;
	struct ibv_wc wc;
	void *own = NULL;

	make_source(&source, channel, &source);
	RC(ibv_req_notify_cq(source.cq, 0));
	fire(&source);
	RC(ibv_get_cq_event(channel, &cq, &own));
	out("cq %d own %d", cq == source.cq, own == &source);
	ibv_ack_cq_events(cq, 1);
	wc = wait_wc(cq);
	show_wc("completion", &wc);
	free_source(&source);
	RC(ibv_destroy_comp_channel(channel));
}

static void without_blocking(void)
{
	struct ibv_comp_channel *channel = MUST_PTR(ibv_create_comp_channel(context));
	struct pollfd pollfd = { .fd = channel->fd, .events = POLLIN };
	struct source source;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *own;
	int round;

	expect(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK));
	make_source(&source, channel, NULL);
	RC(ibv_get_cq_event(channel, &cq, &own));
	out("ready %d", poll(&pollfd, 1, 0));
	for (round = 0; round < 3; round++) {
		MUST(ibv_req_notify_cq(source.cq, 0));
		fire(&source);
		expect(poll(&pollfd, 1, -1) == 1);
		RC(ibv_get_cq_event(channel, &cq, &own));
		RC(ibv_get_cq_event(channel, &cq, &own));
		wc = wait_wc(source.cq);
		reset(&source);
	}
	show_wc("last", &wc);
	/* Not armed: a completion raises no event. */
	fire(&source);
	wc = wait_wc(source.cq);
	out("ready %d", poll(&pollfd, 1, 0));
	/* Three events in one acknowledgement. */
	ibv_ack_cq_events(source.cq, 3);
	free_source(&source);
	RC(ibv_destroy_comp_channel(channel));
}

static void on_signal(int number) { (void)number; }

static void interrupted(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct itimerval timer = { .it_value = { .tv_usec = 20000 },
				   .it_interval = { .tv_usec = 20000 } };
	struct itimerval off = { 0 };
	struct ibv_comp_channel *channel = MUST_PTR(ibv_create_comp_channel(context));
	struct ibv_cq *cq;
	void *own;

	expect(!sigaction(SIGALRM, &action, NULL) && !setitimer(ITIMER_REAL, &timer, NULL));
	RC(ibv_get_cq_event(channel, &cq, &own));
	expect(!setitimer(ITIMER_REAL, &off, NULL));
	RC(ibv_destroy_comp_channel(channel));
}

static void closed_descriptor(void)
{
	struct ibv_comp_channel channel = { .context = context, .fd = -1 };
	struct ibv_cq *cq;
	void *own;

	RC(ibv_get_cq_event(&channel, &cq, &own));
}

enum { THREADS = 4, SOURCES = 12 };

struct crowd {
	struct ibv_comp_channel *channel;
	atomic_int got[SOURCES];
};

static void *one_of_many(void *argument)
{
	struct crowd *crowd = argument;
	int i;

	for (i = 0; i < SOURCES / THREADS; i++) {
		struct ibv_cq *cq;
		void *own;

		MUST(ibv_get_cq_event(crowd->channel, &cq, &own));
		atomic_fetch_add((atomic_int *)own, 1);
		ibv_ack_cq_events(cq, 1);
	}
	return NULL;
}

/* Each event goes to exactly one of the threads that wait. */
static void many_threads(void)
{
	static struct crowd crowd;
	struct source sources[SOURCES];
	pthread_t threads[THREADS];
	int i;

	crowd.channel = MUST_PTR(ibv_create_comp_channel(context));
	for (i = 0; i < THREADS; i++)
		expect(!pthread_create(&threads[i], NULL, one_of_many, &crowd));
	for (i = 0; i < SOURCES; i++) {
		make_source(&sources[i], crowd.channel, &crowd.got[i]);
		MUST(ibv_req_notify_cq(sources[i].cq, 0));
		fire(&sources[i]);
	}
	for (i = 0; i < THREADS; i++)
		expect(!pthread_join(threads[i], NULL));
	for (i = 0; i < SOURCES; i++) {
		expect(atomic_load(&crowd.got[i]) == 1);
		free_source(&sources[i]);
	}
	out("each event once");
	RC(ibv_destroy_comp_channel(crowd.channel));
}

static atomic_int destroyed;

static void *destroy(void *cq)
{
	int ret = ibv_destroy_cq(cq);

	atomic_store(&destroyed, 1);
	expect(!ret);
	return NULL;
}

/* Destruction waits until every event that was read is acknowledged. */
static void destroy_waits(void)
{
	struct ibv_comp_channel *channel = MUST_PTR(ibv_create_comp_channel(context));
	struct source source;
	struct ibv_cq *cq;
	pthread_t thread;
	void *own;
	int i;

	make_source(&source, channel, NULL);
	for (i = 0; i < 2; i++) {
		MUST(ibv_req_notify_cq(source.cq, 0));
		fire(&source);
		MUST(ibv_get_cq_event(channel, &cq, &own));
		reset(&source);
	}
	MUST(ibv_destroy_qp(source.qp));
	atomic_store(&destroyed, 0);
	expect(!pthread_create(&thread, NULL, destroy, source.cq));
	usleep(100000);
	out("destroyed before any acknowledgement: %d", atomic_load(&destroyed));
	ibv_ack_cq_events(cq, 1);
	usleep(100000);
	out("destroyed before the last acknowledgement: %d", atomic_load(&destroyed));
	ibv_ack_cq_events(cq, 1);
	expect(!pthread_join(thread, NULL));
	out("destroyed at last: %d", atomic_load(&destroyed));
	RC(ibv_destroy_comp_channel(channel));
}

/* An unread event ends with its CQ. */
static void unread_event(void)
{
	struct ibv_comp_channel *channel = MUST_PTR(ibv_create_comp_channel(context));
	struct pollfd pollfd = { .fd = channel->fd, .events = POLLIN };
	struct source source;

	make_source(&source, channel, NULL);
	MUST(ibv_req_notify_cq(source.cq, 0));
	fire(&source);
	expect(poll(&pollfd, 1, -1) == 1);
	free_source(&source);
	out("ready after the CQ is gone %d", poll(&pollfd, 1, 0));
	RC(ibv_destroy_comp_channel(channel));
}

int main(void)
{
	context = open_rxe();
	pd = MUST_PTR(ibv_alloc_pd(context));
	create_and_busy();
	one_event();
	without_blocking();
	interrupted();
	closed_descriptor();
	many_threads();
	destroy_waits();
	unread_event();
	RC(ibv_dealloc_pd(pd));
	RC(ibv_close_device(context));
	return done();
}
