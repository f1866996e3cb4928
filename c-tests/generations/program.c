/*
 * Loads the given plugins, all at once, opens a device of each, and calls every verb. A replacement
 * of the kernel answers every method with zeros: the library's calls of ioctl(2) end here, because
 * a program's function precedes the C library's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "plugin.h"

#define MOST 32
#define RDMA_VERBS_IOCTL 0xc0181b01

struct asked asked;
struct kernel kernel;
const char *waiting;
int cancel_type;

struct head {
	uint16_t length, object, method, attributes;
	uint64_t reserved1;
	uint32_t driver, reserved2;
	struct { uint16_t id, len, flags, more; uint64_t data; } attr[];
};

static void answer(struct head *head)
{
	unsigned at, which;

	for (which = 0; which < kernel.count; which++) {
		const struct answer *answer = &kernel.answers[which];

		for (at = 0; at < head->attributes; at++) {
			if (head->attr[at].id != answer->id)
				continue;
			if (!answer->size)
				head->attr[at].data = answer->value;
			else if (head->attr[at].len >= answer->size)
				memcpy((void *)(uintptr_t)head->attr[at].data, &answer->value,
				       answer->size);
		}
	}
}

static int own_cancel_type(void)
{
	int type;

	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	pthread_setcanceltype(type, NULL);
	return type;
}

int ioctl(int fd, unsigned long request, ...)
{
	struct head *head;
	va_list args;
	int at;

	va_start(args, request);
	head = va_arg(args, struct head *);
	va_end(args);
	if (request != RDMA_VERBS_IOCTL)
		return (int)syscall(SYS_ioctl, fd, request, head);
	asked.object = head->object;
	asked.method = head->method;
	asked.count = head->attributes;
	for (at = 0; at < head->attributes && at < 64; at++) {
		asked.ids[at] = head->attr[at].id;
		asked.data[at] = head->attr[at].data;
	}
	asked.cancel_type = own_cancel_type();
	asked.write = 0;
	for (at = 0; at < head->attributes; at++)
		if (!head->object && !head->method && head->attr[at].id == 2)
			asked.write = (unsigned)head->attr[at].data;
	if (kernel.error) {
		errno = kernel.error;
		return -1;
	}
	answer(head);
	return 0;
}

static const struct report *plugins[MOST];
static struct ibv_context *contexts[MOST];
static int failures;

static void wrong(int release, const char *what, const char *found)
{
	printf("release %d: %s: %s\n", release, what, found);
	failures++;
}

/* An object of every kind: all begin with their context, but for flow rules. */
union object {
	void *words[64];
	struct ibv_flow flow;
};

#define EXPECT(verb, call) do { \
	plugin->called(); \
	(void)(call); \
	const char *found = plugin->called(); \
	const char *wanted = plugin->has(#verb) ? #verb : "nothing"; \
	if (strcmp(found, wanted)) \
		wrong(plugin->release, #verb, found); \
	verbs++; \
} while (0)

/* Returns how many verbs were called. */
static int drive(const struct report *plugin, struct ibv_context *context)
{
	union object o = { { context } }, f = { { NULL, context } };
	void *p = &o;
	struct ibv_pd *pd = p;
	struct ibv_cq *cq = p;
	struct ibv_qp *qp = p;
	struct ibv_srq *srq = p;
	struct ibv_mr *mr = p;
	struct ibv_mw *mw = p;
	struct ibv_dm *dm = p;
	struct ibv_counters *counters = p;
	struct ibv_flow_action *action = p;
	uint64_t room[64] = { 0 }, value;
	void *a = room;
	int verbs = 0;

	/* The queue pair's parts that exports look at: its type, and no extended half. */
	EXPECT(alloc_pd, ibv_alloc_pd(context));
	EXPECT(dealloc_pd, ibv_dealloc_pd(pd));
	EXPECT(reg_mr, (ibv_reg_mr)(pd, room, 8, 0));
	EXPECT(reg_dmabuf_mr, ibv_reg_dmabuf_mr(pd, 0, 8, 0, 0, 0));
	EXPECT(dereg_mr, ibv_dereg_mr(mr));
	EXPECT(rereg_mr, ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1));
	EXPECT(alloc_mw, ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	EXPECT(dealloc_mw, ibv_dealloc_mw(mw));
	EXPECT(alloc_null_mr, ibv_alloc_null_mr(pd));
	EXPECT(advise_mr, ibv_advise_mr(pd, 0, 0, a, 0));
	EXPECT(alloc_dm, ibv_alloc_dm(context, a));
	EXPECT(free_dm, ibv_free_dm(dm));
	EXPECT(reg_dm_mr, ibv_reg_dm_mr(pd, dm, 0, 8, IBV_ACCESS_ZERO_BASED));
	EXPECT(import_pd, ibv_import_pd(context, 0));
	EXPECT(unimport_pd, ibv_unimport_pd(pd));
	EXPECT(import_mr, ibv_import_mr(pd, 0));
	EXPECT(unimport_mr, ibv_unimport_mr(mr));
	EXPECT(import_dm, ibv_import_dm(context, 0));
	EXPECT(unimport_dm, ibv_unimport_dm(dm));
	EXPECT(alloc_td, ibv_alloc_td(context, a));
	EXPECT(dealloc_td, ibv_dealloc_td(p));
	EXPECT(alloc_parent_domain, ibv_alloc_parent_domain(context, a));
	EXPECT(create_cq, ibv_create_cq(context, 1, NULL, NULL, 0));
	EXPECT(poll_cq, ibv_poll_cq(cq, 1, a));
	EXPECT(req_notify_cq, ibv_req_notify_cq(cq, 0));
	EXPECT(resize_cq, ibv_resize_cq(cq, 1));
	EXPECT(modify_cq, ibv_modify_cq(cq, a));
	EXPECT(destroy_cq, ibv_destroy_cq(cq));
	EXPECT(create_srq, ibv_create_srq(pd, a));
	EXPECT(modify_srq, ibv_modify_srq(srq, a, 0));
	EXPECT(query_srq, ibv_query_srq(srq, a));
	EXPECT(get_srq_num, ibv_get_srq_num(srq, a));
	EXPECT(post_srq_recv, ibv_post_srq_recv(srq, a, a));
	EXPECT(post_srq_ops, ibv_post_srq_ops(srq, a, a));
	EXPECT(destroy_srq, ibv_destroy_srq(srq));
	EXPECT(create_qp, ibv_create_qp(pd, a));
	EXPECT(modify_qp, ibv_modify_qp(qp, a, 0));
	EXPECT(query_qp, ibv_query_qp(qp, a, 0, a));
	EXPECT(post_send, ibv_post_send(qp, a, a));
	EXPECT(post_recv, ibv_post_recv(qp, a, a));
	EXPECT(attach_mcast, ibv_attach_mcast(qp, a, 0));
	EXPECT(detach_mcast, ibv_detach_mcast(qp, a, 0));
	EXPECT(query_ece, ibv_query_ece(qp, a));
	room[0] = 1; /* a vendor; without one the provider is not asked */
	EXPECT(set_ece, ibv_set_ece(qp, a));
	room[0] = 0;
	EXPECT(modify_qp_rate_limit, ibv_modify_qp_rate_limit(qp, a));
	EXPECT(query_qp_data_in_order, ibv_query_qp_data_in_order(qp, IBV_WR_SEND, 0));
	EXPECT(destroy_qp, ibv_destroy_qp(qp));
	EXPECT(create_ah, ibv_create_ah(pd, a));
	EXPECT(destroy_ah, ibv_destroy_ah(p));
	EXPECT(query_device_ex, ibv_query_device(context, a));
	EXPECT(query_port, ibv_query_port(context, 1, a));
	EXPECT(query_rt_values, ibv_query_rt_values_ex(context, a));
	EXPECT(open_xrcd, ibv_open_xrcd(context, a));
	EXPECT(close_xrcd, ibv_close_xrcd(p));
	EXPECT(destroy_flow, ibv_destroy_flow(&f.flow));
	EXPECT(create_flow, ibv_create_flow(qp, a));
	EXPECT(create_flow_action_esp, ibv_create_flow_action_esp(context, a));
	EXPECT(modify_flow_action_esp, ibv_modify_flow_action_esp(action, a));
	EXPECT(destroy_flow_action, ibv_destroy_flow_action(action));
	EXPECT(create_counters, ibv_create_counters(context, a));
	EXPECT(destroy_counters, ibv_destroy_counters(counters));
	EXPECT(read_counters, ibv_read_counters(counters, &value, 1, 0));
	EXPECT(attach_counters_point_flow, ibv_attach_counters_point_flow(counters, a, &f.flow));
	EXPECT(destroy_wq, ibv_destroy_wq(p));
	EXPECT(modify_wq, ibv_modify_wq(p, a));
	EXPECT(create_wq, ibv_create_wq(context, a));
	EXPECT(create_rwq_ind_table, ibv_create_rwq_ind_table(context, a));
	EXPECT(destroy_rwq_ind_table, ibv_destroy_rwq_ind_table(p));

	/* Verbs of later generations; plugins of older ones do not see these calls. */
	EXPECT(alloc_dmah, ibv_alloc_dmah(context, a));
	EXPECT(dealloc_dmah, ibv_dealloc_dmah(p));
	EXPECT(dm_export_dmabuf_fd, ibv_dm_export_dmabuf_fd(dm));
	EXPECT(query_port_speed, ibv_query_port_speed(context, 1, &value));
	EXPECT(create_comp_cntr, ibv_create_comp_cntr(context, a));
	if (plugin->has("alloc_buf"))
		EXPECT(alloc_buf, ibv_alloc_buf(pd, 8, a));
	if (plugin->has("create_comp_cntr")) {
		EXPECT(query_comp_cntr_caps, ibv_query_comp_cntr_caps(context, a));
		EXPECT(destroy_comp_cntr, ibv_destroy_comp_cntr(p));
		EXPECT(set_comp_cntr, ibv_set_comp_cntr(p, 1));
		EXPECT(set_err_comp_cntr, ibv_set_err_comp_cntr(p, 1));
		EXPECT(inc_comp_cntr, ibv_inc_comp_cntr(p, 1));
		EXPECT(inc_err_comp_cntr, ibv_inc_err_comp_cntr(p, 1));
		EXPECT(read_comp_cntr, ibv_read_comp_cntr(p, &value));
		EXPECT(read_err_comp_cntr, ibv_read_err_comp_cntr(p, &value));
		EXPECT(qp_attach_comp_cntr, ibv_qp_attach_comp_cntr(qp, p, a));
	}
	if (plugin->has("reg_mr_ex")) {
		struct ibv_mr_init_attr attr = {
			.length = 8, .comp_mask = IBV_REG_MR_MASK_ADDR, .addr = room,
		};
		EXPECT(reg_mr_ex, ibv_reg_mr_ex(pd, &attr));
	}
	return verbs;
}

static void numbered(int release, const char *what, int line)
{
	char text[32];

	snprintf(text, sizeof text, "line %d", line);
	if (line)
		wrong(release, what, text);
}

/* Calls in which a provider may wait, as some do for a neighbour. */
static void *create_ah(void *context)
{
	struct ibv_pd pd = { .context = context };
	struct ibv_ah_attr attr = { 0 };

	return ibv_create_ah(&pd, &attr);
}

static void *create_ah_from_wc(void *context)
{
	struct ibv_pd pd = { .context = context };
	struct ibv_wc wc = { 0 };

	return ibv_create_ah_from_wc(&pd, &wc, NULL, 1);
}

static void *modify_qp(void *context)
{
	struct ibv_qp qp = { .context = context };
	struct ibv_qp_attr attr = { 0 };

	return ibv_modify_qp(&qp, &attr, 0) ? NULL : context;
}

static const struct {
	const char *verb;
	void *(*call)(void *context);
} calls[] = {
	{ "create_ah", create_ah },
	{ "create_ah", create_ah_from_wc },
	{ "modify_qp", modify_qp },
};

/* Asynchronous cancellation would end a thread at any instruction of the library. */
static void deferred(const struct report *plugin, struct ibv_context *context)
{
	unsigned at;

	for (at = 0; at < sizeof(calls) / sizeof(*calls); at++) {
		int before, after;

		cancel_type = -1;
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
		calls[at].call(context);
		pthread_setcanceltype(before, &after);
		if (cancel_type != PTHREAD_CANCEL_DEFERRED)
			wrong(plugin->release, calls[at].verb, "asynchronous cancellation");
		if (after != PTHREAD_CANCEL_ASYNCHRONOUS)
			wrong(plugin->release, calls[at].verb, "the type is another one");
	}
}

/* A thread can be cancelled where the provider waits: only frames in C are below. */
static void cancelled(const struct report *plugin, struct ibv_context *context)
{
	unsigned at;

	for (at = 0; at < sizeof(calls) / sizeof(*calls); at++) {
		pthread_t thread;
		void *end;

		waiting = calls[at].verb;
		if (pthread_create(&thread, NULL, calls[at].call, context) ||
		    pthread_cancel(thread) || pthread_join(thread, &end) ||
		    end != PTHREAD_CANCELED)
			wrong(plugin->release, waiting, "not cancelled");
		waiting = NULL;
	}
}

int main(int argc, char **argv)
{
	int count = 0, at;

	for (at = 1; at < argc && count < MOST; at++) {
		void *object = dlopen(argv[at], RTLD_NOW);

		if (!object) {
			printf("%s\n", dlerror());
			return 1;
		}
		plugins[count++] = dlsym(object, "report");
	}
	for (at = 0; at < count; at++) {
		contexts[at] = ibv_open_device(plugins[at]->device());
		if (!contexts[at])
			wrong(plugins[at]->release, "open", strerror(errno));
	}
	/* Where calls are looked at, other functions stand in the context than the provider's. */
	for (at = 0; at < count && !failures; at++) {
		int line = plugins[at]->inside(contexts[at]);

		numbered(plugins[at]->release, "inside", getenv("COVERED") ? !line : line);
	}
	for (at = 0; at < count && !failures; at++)
		printf("release %d: %d verbs\n", plugins[at]->release,
		       drive(plugins[at], contexts[at]));
	/* Where calls are looked at, no cancellation takes effect in a provider. */
	for (at = 0; at < count && !failures && !getenv("COVERED"); at++) {
		cancelled(plugins[at], contexts[at]);
		deferred(plugins[at], contexts[at]);
	}
	for (at = 0; at < count && !failures; at++)
		numbered(plugins[at]->release, "commands", plugins[at]->commands(contexts[at]));
	for (at = 0; at < count && !failures; at++) {
		plugins[at]->called();
		ibv_close_device(contexts[at]);
		if (strcmp(plugins[at]->called(), "free_context"))
			wrong(plugins[at]->release, "close", "another verb");
	}
	printf("%d plugins, %d failures\n", count, failures);
	return failures != 0;
}
