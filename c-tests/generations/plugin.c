/*
 * A provider of one generation. generation.h is generated from the tables: NODE, RELEASE, sizes,
 * offsets, and VERBS(V) with each verb and its slot. It includes no header of the library: it knows
 * the layouts only from the tables.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "generation.h"
#include "plugin.h"

#define CONTEXT_AT (CONTEXT_SIZE - 328) /* ibv_context is 328 bytes in every release */
#define CHECK(what) do { if (!(what)) return __LINE__; } while (0)

struct link; /* ibv_command_buffer */

struct device_ops {
	const char *name;
	uint32_t min, max;
	const void *match_table, *static_providers;
	void *match_device;
	void *(*alloc_context)(void *device, int fd, void *private_data);
	void *import_context;
	void *(*alloc_device)(void *sysfs);
	void (*uninit_device)(void *device);
};

struct fd_arr {
	int *arr;
	uint32_t count;
};

struct buffer {
	uint64_t length;
	void *ptr;
	uint64_t more;
};

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
void JOIN(verbs_register_driver_, NODE)(const struct device_ops *ops);
void *_verbs_init_and_alloc_context(void *device, int fd, size_t size, size_t offset, uint32_t id);
void verbs_uninit_context(void *context);
void verbs_set_ops(void *context, const void *ops);
int ibv_cmd_query_port(void *context, uint8_t port, void *attr, void *cmd, size_t size);
#if RELEASE >= 57
int ibv_cmd_get_context(void *context, void *cmd, size_t size, struct fd_arr *fds, void *resp,
			size_t resp_size);
#else
int ibv_cmd_get_context(void *context, void *cmd, size_t size, void *resp, size_t resp_size);
#endif
#if RELEASE >= 59
int ibv_cmd_create_cq_ex(void *context, const void *attr, struct buffer *buffer, void *cq,
			 void *cmd, size_t size, void *resp, size_t resp_size, uint32_t flags);
#else
int ibv_cmd_create_cq_ex(void *context, const void *attr, void *cq, void *cmd, size_t size,
			 void *resp, size_t resp_size, uint32_t flags);
#endif
#if RELEASE >= 64
int ibv_cmd_create_qp_ex2(void *context, void *qp, void *attr, void *cmd, size_t size, void *resp,
			  size_t resp_size, struct link *link);
#else
int ibv_cmd_create_qp_ex2(void *context, void *qp, void *attr, void *cmd, size_t size, void *resp,
			  size_t resp_size);
#endif
#if DMABUF_ARGUMENTS == 8
int ibv_cmd_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, void *mr, struct link *link);
#else
/* Seven arguments; a call with fewer leaves undefined bytes on the stack behind them. */
int ibv_cmd_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
			  int access, void *mr, uint64_t whatever);
#endif

/* The provider's context: the verbs_context with marks on both sides. */
struct context {
	uint64_t before[4];
	uint64_t verbs[CONTEXT_SIZE / 8];
	uint64_t after[4];
};

static const char *called;

static void note_cancel_type(void)
{
	int type;

	if (!&cancel_type)
		return;
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
	pthread_setcanceltype(type, NULL);
	cancel_type = type;
}

#define FUNCTION(verb, slot) \
	static long do_##verb(void) \
	{ \
		called = #verb; \
		note_cancel_type(); \
		if (&waiting && waiting && !strcmp(waiting, called)) \
			pause(); \
		return 0; \
	}
VERBS(FUNCTION)

/* Written by its offset in the structure, so that a slot at a wrong place would be another's. */
static void *ops[SLOTS] = {
#define ENTRY(verb, slot) [slot] = (void *)do_##verb,
VERBS(ENTRY)
};

static struct context *mine(void *ibv_context)
{
	return (struct context *)((char *)ibv_context - CONTEXT_AT -
				  offsetof(struct context, verbs));
}

static void *alloc_context(void *device, int fd, void *private_data)
{
	struct context *context;

	(void)fd;
	(void)private_data;
	context = _verbs_init_and_alloc_context(device, eventfd(0, EFD_CLOEXEC), sizeof *context,
						offsetof(struct context, verbs), 0);
	if (!context)
		return NULL;
	ops[SLOT_free_context] = NULL;
	verbs_set_ops(context->verbs, ops);
	return context->verbs;
}

static void free_context(void *ibv_context)
{
	struct context *context = mine(ibv_context);

	called = "free_context";
	verbs_uninit_context(context->verbs);
	free(context);
}

static void *alloc_device(void *sysfs)
{
	(void)sysfs;
	return calloc(1, 712);
}

static const struct device_ops device_ops = {
	.name = NAME,
	.min = 1,
	.max = 1,
	.alloc_context = alloc_context,
	.alloc_device = alloc_device,
	.uninit_device = free,
};

/* A device that the provider made by itself: its table, and one reference. */
static void *device(void)
{
	char *device = alloc_device(NULL);

	if (device) {
		*(const void **)(device + 664) = &device_ops;
		*(int *)(device + 672) = 1;
	}
	return device;
}

/* A member of verbs_context, by its distance from the ibv_context. */
static void *member(struct context *context, size_t below)
{
	return (void *)context->verbs[(CONTEXT_AT - below) / 8];
}

static int inside(void *ibv_context)
{
	struct context *context = mine(ibv_context);
	void *only[SLOTS] = { [SLOT_free_context] = (void *)free_context };
	size_t at;

	/* A verb that is set later leaves the others. */
	verbs_set_ops(context->verbs, only);
	for (at = 0; at < 4; at++)
		CHECK(!context->before[at] && !context->after[at]);
	CHECK((size_t)member(context, 8) == CONTEXT_SIZE);		/* sz */
	CHECK(*(uint64_t *)((char *)ibv_context + 320) == UINT64_MAX);	/* abi_compat */
	CHECK(member(context, 312) == (void *)do_advise_mr);
	CHECK(member(context, 304) == (void *)do_alloc_null_mr);
	CHECK(member(context, 136) == (void *)do_create_wq);
	CHECK(member(context, 32) == (void *)do_open_xrcd);
	CHECK(member(context, 24) == (void *)do_close_xrcd);
	CHECK(member(context, 320) && member(context, 112));		/* query_port, priv */
	/* Members that later releases have at the front belong to the library, and exist. */
	for (at = 328; at <= CONTEXT_AT; at += 8)
		CHECK(member(context, at));
	/* The data path, which is called through ibv_context. */
	CHECK(*(void **)((char *)ibv_context + 96) == (void *)do_poll_cq);
	CHECK(*(void **)((char *)ibv_context + 208) == (void *)do_post_send);
	CHECK(*(void **)((char *)ibv_context + 216) == (void *)do_post_recv);
	return 0;
}

static int was(unsigned object, unsigned method)
{
	return asked.object == object && asked.method == method;
}

static int has_attr(unsigned short id)
{
	unsigned at;

	for (at = 0; at < asked.count; at++)
		if (asked.ids[at] == id)
			return 1;
	return 0;
}

static int query_port(void *ibv_context)
{
	unsigned char attr[64], cmd[64] = { 0 };
	size_t at;

	memset(attr, 0xee, sizeof attr);
	CHECK(!ibv_cmd_query_port(ibv_context, 1, attr, cmd, 32));
	CHECK(was(0, 2));
	CHECK(attr[0] != 0xee && attr[48] != 0xee); /* state, port_cap_flags2 */
	for (at = PORT_ATTR; at < sizeof attr; at++)
		CHECK(attr[at] == 0xee);
	return 0;
}

static int get_context(void *ibv_context)
{
	unsigned char cmd[64] = { 0 }, resp[64] = { 0 };
	struct context *context = mine(ibv_context);
#if RELEASE >= 57
	int numbers[2] = { 0, 1 };
	struct fd_arr fds = { numbers, 2 };

	CHECK(!ibv_cmd_get_context(context->verbs, cmd, 16, &fds, resp, 8));
	CHECK(was(0, 3) && has_attr(2));
	CHECK(!ibv_cmd_get_context(context->verbs, cmd, 16, NULL, resp, 8));
#else
	CHECK(!ibv_cmd_get_context(context->verbs, cmd, 16, resp, 8));
#endif
	CHECK(was(0, 3) && !has_attr(2));
	return 0;
}

static int create_cq(void *ibv_context)
{
	uint64_t attr[8] = { 4 }, cq[36] = { 0 };
	unsigned char cmd[128] = { 0 }, resp[64] = { 0 };
#if RELEASE >= 59
	struct buffer buffer = { 4096, attr, 0 };

	CHECK(!ibv_cmd_create_cq_ex(ibv_context, attr, &buffer, cq, cmd, 56, resp, 16, 2));
	CHECK(was(3, 0) && has_attr(8) && has_attr(9));
	CHECK(!ibv_cmd_create_cq_ex(ibv_context, attr, NULL, cq, cmd, 56, resp, 16, 0));
#else
	CHECK(!ibv_cmd_create_cq_ex(ibv_context, attr, cq, cmd, 56, resp, 16, 0));
#endif
	CHECK(was(3, 0) && !has_attr(8));
	CHECK((void *)cq[0] == ibv_context);
	return 0;
}

static int create_qp(void *ibv_context)
{
	/* An XRC target: its domain stands behind the mask. */
	struct { void *context; uint32_t mask, handle; } xrcd = { ibv_context, 1, 7 };
	unsigned char attr[136] = { 0 }, cmd[256] = { 0 }, resp[128] = { 0 };
	struct { unsigned char verbs[QP_MASK + 16]; uint64_t after[4]; } qp;
	size_t at;

	memset(&qp, 0xee, sizeof qp);
	*(uint32_t *)(attr + 52) = 10;	/* qp_type */
	*(uint32_t *)(attr + 60) = 2;	/* comp_mask: the domain */
	*(void **)(attr + 72) = &xrcd;
#if RELEASE >= 64
	CHECK(!ibv_cmd_create_qp_ex2(ibv_context, &qp, attr, cmd, 96, resp, 48, NULL));
#else
	CHECK(!ibv_cmd_create_qp_ex2(ibv_context, &qp, attr, cmd, 96, resp, 48));
#endif
	CHECK(was(4, 0));
	CHECK(*(void **)qp.verbs == ibv_context);
	CHECK(*(uint32_t *)(qp.verbs + QP_MASK) == 1);
	CHECK(*(void **)(qp.verbs + QP_MASK + 8) == &xrcd);
	for (at = 160; at < QP_MASK; at++)	/* the provider's own functions */
		CHECK(qp.verbs[at] == 0xee);
	for (at = 0; at < 4; at++)
		CHECK(qp.after[at] == 0xeeeeeeeeeeeeeeee);
	return 0;
}

static int reg_dmabuf(void *ibv_context)
{
	uint64_t pd[2] = { (uint64_t)ibv_context }, mr[7] = { 0 };

#if DMABUF_ARGUMENTS == 8
	CHECK(!ibv_cmd_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0, mr, NULL));
#else
	CHECK(!ibv_cmd_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0, mr, 0x6b6b6b6b6b6b6b6b));
#endif
	CHECK(was(7, 4) && asked.count == 9);
	return 0;
}

#include "commands.h"
#include "post_44.h"

static int commands(void *ibv_context)
{
	static int (*const all[])(void *) = {
		query_port, get_context, create_cq, create_qp, reg_dmabuf,
		other_commands, queue_commands, destructions, POST_44_COMMANDS
	};
	size_t at;

	for (at = 0; at < sizeof all / sizeof *all; at++) {
		int line = all[at](ibv_context);

		if (line)
			return line;
	}
	return 0;
}

static const char *last(void)
{
	const char *verb = called;

	called = NULL;
	return verb ? verb : "nothing";
}

static int has(const char *verb)
{
#define IS(name, slot) \
	if (!strcmp(verb, #name)) \
		return 1;
	VERBS(IS)
	return 0;
}

const struct report report = { RELEASE, device, inside, commands, last, has };

static __attribute__((constructor)) void enter(void)
{
	JOIN(verbs_register_driver_, NODE)(&device_ops);
}
