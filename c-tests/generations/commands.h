/*
 * Kernel commands that no other program calls. Each is called with an object of its kind, and the
 * program's replacement of the kernel checks the method. plugin.c includes this file once for each
 * generation; commands that a node lacks are left out.
 */

int ibv_cmd_advise_mr(void *pd, unsigned advice, uint32_t flags, void *ranges, uint32_t count);
int ibv_cmd_alloc_dm(void *context, const void *attr, void *dm, struct link *link);
int ibv_cmd_free_dm(void *dm);
int ibv_cmd_reg_dm_mr(void *pd, void *dm, uint64_t offset, size_t length, unsigned access,
		      void *mr, struct link *link);
int ibv_cmd_create_counters(void *context, void *attr, void *counters, struct link *link);
int ibv_cmd_destroy_counters(void *counters);
int ibv_cmd_read_counters(void *counters, uint64_t *values, uint32_t count, uint32_t flags,
			  struct link *link);
int ibv_cmd_create_flow_action_esp(void *context, void *attr, void *action, struct link *link);
int ibv_cmd_modify_flow_action_esp(void *action, void *attr, struct link *link);
int ibv_cmd_create_wq(void *context, void *attr, void *wq, void *cmd, size_t size, void *resp,
		      size_t resp_size);
int ibv_cmd_rereg_mr(void *mr, uint32_t flags, void *addr, size_t length, uint64_t iova,
		     int access, void *pd, void *cmd, size_t size, void *resp, size_t resp_size);
int ibv_cmd_query_mr(void *pd, void *mr, uint32_t handle);
int ibv_cmd_query_context(void *context, struct link *link);
int ibv_cmd_open_xrcd(void *context, void *xrcd, int size, void *attr, void *cmd,
		      size_t cmd_size, void *resp, size_t resp_size);
int ibv_cmd_close_xrcd(void *xrcd);
int ibv_cmd_create_qp_ex(void *context, void *qp, void *attr, void *cmd, size_t size, void *resp,
			 size_t resp_size);
int ibv_cmd_open_qp(void *context, void *qp, int size, void *attr, void *cmd, size_t cmd_size,
		    void *resp, size_t resp_size);
int ibv_cmd_destroy_cq(void *cq);
int ibv_cmd_destroy_qp(void *qp);
int ibv_cmd_destroy_srq(void *srq);
int ibv_cmd_destroy_wq(void *wq);
int ibv_cmd_modify_qp_ex(void *qp, void *attr, int mask, void *cmd, size_t size, void *resp,
			 size_t resp_size);
#if RELEASE >= 59
int ibv_cmd_create_cq_ex2(void *context, const void *attr, const void *given, void *cq, void *cmd,
			  size_t size, void *resp, size_t resp_size, uint32_t flags,
			  struct link *link);
#elif RELEASE >= 53
int ibv_cmd_create_cq_ex2(void *context, const void *attr, void *cq, void *cmd, size_t size,
			  void *resp, size_t resp_size, uint32_t flags, struct link *link);
#endif

/* A method of an object. */
#define ASKS(call, of, which) do { \
	asked.object = asked.method = 999; \
	CHECK(!(call)); \
	CHECK(was(of, which)); \
} while (0)
/* A write command, carried by ioctl. */
#define WRITES(call, number) do { \
	ASKS(call, 0, 0); \
	CHECK(asked.write == (number)); \
} while (0)

/* The thread can be cancelled at any instruction, but at none of the library. */
#define DEFERS(call, of, which) do { \
	int before, after; \
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before); \
	ASKS(call, of, which); \
	pthread_setcanceltype(before, &after); \
	CHECK(asked.cancel_type == PTHREAD_CANCEL_DEFERRED); \
	CHECK(after == PTHREAD_CANCEL_ASYNCHRONOUS); \
} while (0)

/* An object of any kind: its context first, the rest its own. */
struct thing {
	void *context;
	uint64_t more[63];
};

static int other_commands(void *ibv_context)
{
	struct thing pd = { .context = ibv_context }, o = { .context = ibv_context };
	uint64_t attr[64] = { 0 }, cmd[64] = { 0 }, resp[64] = { 0 }, value;

	ASKS(ibv_cmd_advise_mr(&pd, 0, 0, attr, 1), 7, 2);
	ASKS(ibv_cmd_query_mr(&pd, &o, 1), 7, 3);
	ASKS(ibv_cmd_query_context(ibv_context, NULL), 0, 4);
	o = pd;
	ASKS(ibv_cmd_alloc_dm(ibv_context, attr, &o, NULL), 14, 0);
	ASKS(ibv_cmd_reg_dm_mr(&pd, &o, 0, 8, 1 << 5, resp, NULL), 7, 0);
	ASKS(ibv_cmd_free_dm(&o), 14, 1);
	o = pd;
	ASKS(ibv_cmd_create_counters(ibv_context, attr, &o, NULL), 15, 0);
	ASKS(ibv_cmd_read_counters(&o, &value, 1, 0, NULL), 15, 2);
	ASKS(ibv_cmd_destroy_counters(&o), 15, 1);
	o = pd;
	ASKS(ibv_cmd_create_flow_action_esp(ibv_context, attr, &o, NULL), 13, 0);
	ASKS(ibv_cmd_modify_flow_action_esp(&o, attr, NULL), 13, 2);
	o = pd;
	WRITES(ibv_cmd_rereg_mr(&o, 4, NULL, 0, 0, 1, &pd, cmd, 56, resp, 8), 11);
	o = pd;
	((uint32_t *)attr)[0] = 3;	/* a file and flags: no file */
	((uint32_t *)attr)[1] = UINT32_MAX;
	WRITES(ibv_cmd_open_xrcd(ibv_context, &o, 32, attr, cmd, 24, resp, 4), 37);
	ASKS(ibv_cmd_close_xrcd(&o), 10, 0);
	return 0;
}

static int destructions(void *ibv_context)
{
	struct thing o = { .context = ibv_context };

	DEFERS(ibv_cmd_destroy_cq(&o), 3, 1);
	DEFERS(ibv_cmd_destroy_qp(&o), 4, 1);
	DEFERS(ibv_cmd_destroy_srq(&o), 5, 1);
	DEFERS(ibv_cmd_destroy_wq(&o), 12, 1);
	return 0;
}

static int queue_commands(void *ibv_context)
{
	struct thing pd = { .context = ibv_context }, o = { .context = ibv_context };
	uint64_t attr[64] = { 0 }, cmd[64] = { 0 }, resp[64] = { 0 };
#if RELEASE >= 53
	uint64_t cq[36] = { 0 };
#endif
	/* An XRC domain, as in create_qp. */
	struct { void *context; uint32_t mask, handle; } xrcd = { ibv_context, 1, 7 };
	unsigned char init[136] = { 0 };

	attr[0] = 4;
#if RELEASE >= 59
	ASKS(ibv_cmd_create_cq_ex2(ibv_context, attr, NULL, cq, cmd, 56, resp, 16, 0, NULL), 3, 0);
#elif RELEASE >= 53
	ASKS(ibv_cmd_create_cq_ex2(ibv_context, attr, cq, cmd, 56, resp, 16, 0, NULL), 3, 0);
#endif
	*(uint32_t *)(init + 52) = 10;
	*(uint32_t *)(init + 60) = 2;
	*(void **)(init + 72) = &xrcd;
	ASKS(ibv_cmd_create_qp_ex(ibv_context, &o, init, cmd, 64, resp, 32), 4, 0);
	o = pd;
	((uint32_t *)attr)[0] = 11;	/* the number, the domain and the type are there */
	((uint32_t *)attr)[1] = 9;
	attr[1] = (uintptr_t)&xrcd;
	attr[3] = 10;
	WRITES(ibv_cmd_open_qp(ibv_context, &o, QP_MASK + 16, attr, cmd, 40, resp, 32), 40);
	memset(attr, 0, sizeof attr);
	WRITES(ibv_cmd_modify_qp_ex(&o, attr, 0, cmd, 144, resp, 8), 0x80000000 | 26);
	o = pd;
	attr[3] = (uintptr_t)&pd;	/* the domain, and any object for the queue */
	attr[4] = (uintptr_t)&pd;
	ASKS(ibv_cmd_create_wq(ibv_context, attr, &o, cmd, 64, resp, 24), 12, 0);
	return 0;
}
