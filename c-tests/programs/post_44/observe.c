/*
 * IBVERBS_EXPLAIN, IBVERBS_VALIDATE and IBVERBS_TRACE see the later verbs as well: over a
 * device in user space, which has some of them itself, and leaves the rest to the library.
 */
#include "report.h"

#include <sys/wait.h>

static void explained(struct ibv_context *context)
{
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_comp_cntr_init_attr counter = { .type = (enum ibv_comp_cntr_type)77 };
	struct ibv_dmah_init_attr hints = { .comp_mask = IBV_DMAH_INIT_ATTR_MASK_CPU_ID };
	struct ibv_mr_init_attr region = { .length = 8 };
	struct ibv_buf *buf;
	uint64_t speed;

	MUST(ibv_query_port_speed(context, 1, &speed));
	report_nothing("what works");
	expect(ibv_query_port_speed(context, 9, &speed) == EINVAL);
	report_has("no such port", "ibv_query_port_speed(port_num 9) on uroce_lo failed: EINVAL",
		   NULL);
	expect(!ibv_alloc_dmah(context, &hints) && errno == EOPNOTSUPP);
	report_has("who has no hints", "ibv_alloc_dmah() on uroce_lo failed: EOPNOTSUPP",
		   "does not have this call", NULL);
	expect(!ibv_create_comp_cntr(context, &counter));
	report_has("no such counter", "ibv_create_comp_cntr() on uroce_lo failed", NULL);
	expect(!ibv_reg_mr_ex(pd, &region) && errno == EINVAL);
	report_has("a region of nothing", "ibv_reg_mr_ex", "comp_mask is 0", NULL);
	expect(!ibv_alloc_buf(pd, SIZE_MAX, &buf));
	report_has("too large a buffer", "ibv_alloc_buf(size 18446744073709551615)", NULL);
	MUST(ibv_dealloc_pd(pd));
}

static void checked(struct ibv_context *context)
{
	struct ibv_comp_cntr_init_attr init = { .type = IBV_COMP_CNTR_TYPE_WRS };
	struct ibv_comp_cntr *counter = MUST_PTR(ibv_create_comp_cntr(context, &init));

	MUST(ibv_set_comp_cntr(counter, 1));
	MUST(ibv_destroy_comp_cntr(counter));
	report_nothing("correct calls");
	expect(ibv_set_comp_cntr(counter, 2) == EINVAL);
	report_has("a counter that is destroyed", "invalid (destroyed)", "called by: ",
		   "made by: ", "destroyed by: ", NULL);
	MUST_PTR(ibv_create_comp_cntr(context, &init));
	MUST(ibv_close_device(context));
	report_has("a counter left", "invalid (leak)", "completion counter", "made by: ", NULL);
}

static void recorded(struct ibv_context *context)
{
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_buf *buf;
	uint64_t speed;
	const char *bytes;
	char page[4096];
	size_t at, found = 0;
	ssize_t length;
	int fd;

	MUST_PTR(ibv_alloc_buf(pd, 4096, &buf));
	ibv_free_buf(buf);
	MUST(ibv_query_port_speed(context, 1, &speed));
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_close_device(context));
	/* The names, which every file begins with: ibv_trace reads the rest by them. */
	fd = open(report_path, O_RDONLY);
	length = read(fd, page, sizeof(page));
	close(fd);
	expect(length > 0);
	bytes = page;
	for (at = 0; at + 24 < (size_t)length; at++)
		found += !memcmp(bytes + at, "\nibv_query_port_speed ", 22);
	expect(found == 1);
	out("recorded");
}

/* In a separate process, because a variable is read once in the life of a process. */
static void apart(const char *variable, void (*work)(struct ibv_context *context))
{
	int status;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		report_to_file(variable, "");
		work(MUST_PTR(open_device_named("uroce_lo")));
		unlink(report_path);
		exit(done());
	}
	expect(waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
	/* The test checks the bookkeeping, not the carrier. */
	setenv("UROCE_CARRIER", "udp", 1);
	if (!own_uroce()) {
		out("no network namespace may be made: uroce is left out");
		return done();
	}
	apart("IBVERBS_EXPLAIN", explained);
	apart("IBVERBS_VALIDATE", checked);
	apart("IBVERBS_TRACE", recorded);
	return done();
}
