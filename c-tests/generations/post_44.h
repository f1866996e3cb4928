/*
 * Kernel commands that came after release 44, called as those of commands.h. POST_44_COMMANDS are
 * the functions that this generation has.
 */
#define POST_44_COMMANDS SINCE_59 SINCE_62 SINCE_64 SINCE_65

/* Value of an attribute that the kernel received; UINT64_MAX if it was missing. */
static inline uint64_t attr_value(unsigned short id)
{
	unsigned at;

	for (at = 0; at < asked.count && at < 64; at++)
		if (asked.ids[at] == id)
			return asked.data[at];
	return UINT64_MAX;
}

/* Sets the kernel's result of the next call. */
#define ANSWERS(...) do { \
	const struct answer all[] = { __VA_ARGS__ }; \
	kernel.count = sizeof all / sizeof *all; \
	memcpy(kernel.answers, all, sizeof all); \
} while (0)
/* A call that the kernel refuses: the errno is answered, and is in errno. */
#define REFUSES(call, number, wanted) do { \
	kernel.error = number; \
	errno = 0; \
	int refused = (call); \
	kernel.error = 0; \
	CHECK(refused == (wanted)); \
	CHECK(errno == (wanted)); \
} while (0)

#if RELEASE >= 59
int ibv_cmd_reg_mr_ex(void *pd, void *mr, void *attr);

static int reg_mr_ex(void *ibv_context)
{
	struct thing pd = { .context = ibv_context }, mr = { .context = NULL };
	/* length, access, comp_mask, iova, addr, fd, fd_offset, dmah, buf */
	uint64_t attr[9] = { 4096, 1, 1 << 0 | 1 << 1, 0x7000, 0x5000 };
	struct { void *context; uint32_t handle; } hints = { ibv_context, 12 };

	ANSWERS({ 0, 0, 33 }, { 9, 4, 44 }, { 10, 4, 55 });
	ASKS(ibv_cmd_reg_mr_ex(&pd, &mr, attr), 7, 5);
	CHECK(attr_value(3) == 0x7000 && attr_value(4) == 0x5000 && attr_value(5) == 4096 && attr_value(6) == 1);
	CHECK(!has_attr(2) && !has_attr(7) && !has_attr(8));
	CHECK(mr.context == ibv_context);
	/* context, pd, addr, length, handle and lkey, rkey, then type and access */
	CHECK((uint32_t)mr.more[3] == 33 && mr.more[3] >> 32 == 44 && (uint32_t)mr.more[4] == 55);
	CHECK(mr.more[5] == (uint64_t)1 << 32);
	kernel.count = 0;

	attr[2] = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 4;	/* of a DMA buffer, with hints */
	attr[5] = 0;
	attr[6] = 0x100;
	attr[7] = (uintptr_t)&hints;
	ASKS(ibv_cmd_reg_mr_ex(&pd, &mr, attr), 7, 5);
	CHECK(!has_attr(4) && attr_value(7) == 0 && attr_value(8) == 0x100 && attr_value(2) == 12);
	CHECK((uint32_t)mr.more[5] == 3);		/* IBV_MR_TYPE_DMABUF_MR */

	attr[2] = 1 << 2 | 1 << 3;	/* without the address that the kernel needs */
	REFUSES(ibv_cmd_reg_mr_ex(&pd, &mr, attr), 0, EINVAL);
	attr[2] = 1 << 1 | 1 << 2 | 1 << 3;
	REFUSES(ibv_cmd_reg_mr_ex(&pd, &mr, attr), 0, EINVAL);
	attr[2] = 1 << 1;
	REFUSES(ibv_cmd_reg_mr_ex(&pd, &mr, attr), ENOMEM, ENOMEM);
	return 0;
}
#define SINCE_59 reg_mr_ex,
#else
#define SINCE_59
#endif

#if RELEASE >= 62
int ibv_cmd_export_dmabuf_fd(void *context, off_t at);
int ibv_cmd_query_port_speed(void *context, uint32_t port, uint64_t *speed);

static int export_dmabuf(void *ibv_context)
{
	int fd = eventfd(0, EFD_CLOEXEC);

	CHECK(fd > 0);
	ANSWERS({ 0, 0, (unsigned)fd });
	asked.object = asked.method = 999;
	CHECK(ibv_cmd_export_dmabuf_fd(ibv_context, 0x3000) == fd);
	kernel.count = 0;
	CHECK(was(18, 0) && attr_value(1) == 0x3000);
	CHECK(!close(fd));
	kernel.error = EOPNOTSUPP;
	errno = 0;
	fd = ibv_cmd_export_dmabuf_fd(ibv_context, 0x3000);
	kernel.error = 0;
	CHECK(fd == -1 && errno == EOPNOTSUPP);
	return 0;
}

static int port_speed(void *ibv_context)
{
	uint64_t speed = 0;

	ANSWERS({ 1, 8, 4000 });
	ASKS(ibv_cmd_query_port_speed(ibv_context, 1, &speed), 0, 7);
	kernel.count = 0;
	CHECK(speed == 4000 && attr_value(0) == 1);
	REFUSES(ibv_cmd_query_port_speed(ibv_context, 1, &speed), EPROTONOSUPPORT, EOPNOTSUPP);
	return 0;
}
#define SINCE_62 export_dmabuf, port_speed,
#else
#define SINCE_62
#endif

#if RELEASE >= 64
int ibv_cmd_alloc_dmah(void *context, void *dmah, const void *attr);
int ibv_cmd_free_dmah(void *dmah);

static int dma_hints(void *ibv_context)
{
	struct thing o = { .context = ibv_context };
	uint64_t attr[64] = { 0 };

	ASKS(ibv_cmd_alloc_dmah(ibv_context, &o, attr), 17, 0);
	ASKS(ibv_cmd_free_dmah(&o), 17, 1);
	return 0;
}
#define SINCE_64 dma_hints,
#else
#define SINCE_64
#endif

#if RELEASE >= 65
struct counter {
	void *context;
	uint32_t handle, after;
};
int ibv_cmd_query_comp_cntr_caps(void *context, void *caps, size_t size);
int ibv_cmd_create_comp_cntr(void *context, struct counter *counter, struct link *link);
int ibv_cmd_destroy_comp_cntr(struct counter *counter);
int ibv_cmd_set_comp_cntr(struct counter *counter, uint64_t value);
int ibv_cmd_set_err_comp_cntr(struct counter *counter, uint64_t value);
int ibv_cmd_inc_comp_cntr(struct counter *counter, uint64_t amount);
int ibv_cmd_inc_err_comp_cntr(struct counter *counter, uint64_t amount);
int ibv_cmd_read_comp_cntr(struct counter *counter, uint64_t *value);
int ibv_cmd_read_err_comp_cntr(struct counter *counter, uint64_t *value);
int ibv_cmd_qp_attach_comp_cntr(void *qp, struct counter *counter, void *attr);

/* The events that the device can count. */
static int counter_caps(void *ibv_context)
{
	struct { uint64_t most; uint32_t counters, operations; uint64_t after; } caps = { 0 };

	caps.after = UINT64_MAX;
	ANSWERS({ 0, 4, 16 }, { 1, 8, 1ull << 40 }, { 2, 4, 3 });
	ASKS(ibv_cmd_query_comp_cntr_caps(ibv_context, &caps, 16), 0, 8);
	kernel.count = 0;
	CHECK(caps.most == 1ull << 40 && caps.counters == 16 && caps.operations == 3);
	CHECK(caps.after == UINT64_MAX);
	REFUSES(ibv_cmd_query_comp_cntr_caps(ibv_context, &caps, 8), 0, EINVAL);
	return 0;
}

/* The counter (0: completions, 1: errors), the operation (0: set, 1: add), and the amount. */
#define CHANGES(call, entry, operation, value) do { \
	ASKS(call, 19, 2); \
	CHECK(attr_value(0) == 21 && attr_value(1) == (entry) && attr_value(2) == (operation)); \
	CHECK(attr_value(3) == (value)); \
} while (0)

static int counters(void *ibv_context)
{
	struct counter counter = { NULL, 0, 0x6b6b };
	struct { struct thing qp; } pair = { { .context = ibv_context } };
	uint32_t attach[2] = { 0, 1 << 0 | 1 << 3 };	/* sends, and reads by a peer */
	uint64_t value = 0;

	ANSWERS({ 0, 0, 21 });
	ASKS(ibv_cmd_create_comp_cntr(ibv_context, &counter, NULL), 19, 0);
	CHECK(counter.context == ibv_context && counter.handle == 21 && counter.after == 0x6b6b);
	kernel.count = 0;
	CHANGES(ibv_cmd_set_comp_cntr(&counter, 5), 0, 0, 5);
	CHANGES(ibv_cmd_set_err_comp_cntr(&counter, 6), 1, 0, 6);
	CHANGES(ibv_cmd_inc_comp_cntr(&counter, 7), 0, 1, 7);
	CHANGES(ibv_cmd_inc_err_comp_cntr(&counter, 8), 1, 1, 8);
	ANSWERS({ 2, 8, 77 });
	ASKS(ibv_cmd_read_comp_cntr(&counter, &value), 19, 3);
	CHECK(value == 77 && attr_value(0) == 21 && attr_value(1) == 0);
	ANSWERS({ 2, 8, 78 });
	ASKS(ibv_cmd_read_err_comp_cntr(&counter, &value), 19, 3);
	CHECK(value == 78 && attr_value(0) == 21 && attr_value(1) == 1);
	kernel.count = 0;
	ASKS(ibv_cmd_qp_attach_comp_cntr(&pair, &counter, attach), 4, 2);
	CHECK(attr_value(1) == 21 && attr_value(2) == attach[1]);
	REFUSES(ibv_cmd_set_comp_cntr(&counter, 5), EPROTONOSUPPORT, EOPNOTSUPP);
	REFUSES(ibv_cmd_destroy_comp_cntr(&counter), EBUSY, EBUSY);
	ASKS(ibv_cmd_destroy_comp_cntr(&counter), 19, 1);
	CHECK(attr_value(0) == 21);
	return 0;
}
#define SINCE_65 counter_caps, counters
#else
#define SINCE_65
#endif
