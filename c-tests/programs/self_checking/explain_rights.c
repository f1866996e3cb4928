/*
 * IBVERBS_EXPLAIN where a right is missing: the capability that a call needs, or, over the
 * kernel's write interface, the credentials that the device was opened with.
 */
#include "report.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void give_up(unsigned int capability)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	expect(syscall(SYS_capget, &header, data) == 0);
	data[0].effective &= ~(1U << capability);
	data[0].permitted &= ~(1U << capability);
	expect(syscall(SYS_capset, &header, data) == 0);
}

/* Each scenario has a separate process, because rights cannot be regained. */
static void child(void (*scenario)(const char *device), const char *device)
{
	int status;
	pid_t pid;

	out("%s", device);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		scenario(device);
		fflush(stdout);
		_exit(0);
	}
	expect(waitpid(pid, &status, 0) == pid && status == 0);
}

static void raw_packets(const char *device)
{
	struct ibv_context *context = MUST_PTR(open_device_named(device));
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 1, NULL, NULL, 0));
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RAW_PACKET,
	};

	give_up(CAP_NET_RAW);
	(void)report_take();
	expect(!PTR(ibv_create_qp(MUST_PTR(ibv_alloc_pd(context)), &init)));
	expect(errno == EPERM);
	report_has("raw packets without CAP_NET_RAW", "ibv_create_qp(RAW_PACKET", "EPERM",
		   "need CAP_NET_RAW", NULL);
}

/*
 * Any capability may be given up, because this call needs none. By ioctl(2) the kernel accepts the
 * call; its result then is not a failure.
 */
static void changed(const char *device)
{
	struct ibv_context *context = MUST_PTR(open_device_named(device));
	struct ibv_pd *pd;

	give_up(CAP_SYS_TIME);
	(void)report_take();
	errno = 0;
	pd = ibv_alloc_pd(context);
	if (pd) {
		expect(!getenv("IBVERBS_FORCE_WRITE"));
		report_nothing("other credentials, by ioctl");
		return;
	}
	expect(errno == EACCES);
	report_has("other credentials, by write", "ibv_alloc_pd() on ", "EACCES",
		   "only with the credentials that the device was opened with",
		   "Change them first, then open the device", NULL);
}

int main(void)
{
	struct ibv_context *context;

	report_to_file("IBVERBS_EXPLAIN", "");
	context = open_device_named("rxe0");
	if (context) {
		MUST(ibv_close_device(context));
		child(changed, "rxe0");
	}
	if (own_uroce())
		child(raw_packets, "uroce_lo");
	else
		out("no network namespace may be made: uroce is left out");
	unlink(report_path);
	return done();
}
