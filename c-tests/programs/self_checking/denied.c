/*
 * System calls that a sandbox denies: two processes send, write, read and get events over a device
 * in user space, by shared memory and by UDP, while one call after the other answers EPERM, ENOSYS
 * or EINVAL. All of it works, or a verb fails with an errno and a line of the log names the call;
 * no process is killed, and no call waits for ever. If a process denies itself later all calls by
 * which it receives, no thread of it spins.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "rdma.h"
#include "network.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define CALL(name) { #name, SYS_##name, 0 }
/*
 * The system calls of the library over such a device, as strace(1) shows them, except those that
 * every program needs: memory, threads, locks, files, the time, and sending and receiving at all.
 */
static const struct denied {
	const char *name;
	long number;
	int family; /* of a socket: without it, there is all but that family */
} calls[] = {
	CALL(accept4),
	CALL(bind),
	CALL(clock_getres),
	CALL(clock_gettime),
	CALL(clock_nanosleep),
	CALL(clone3),
	CALL(close_range),
	CALL(connect),
	CALL(epoll_create1),
	CALL(epoll_ctl),
	CALL(epoll_pwait2),
	CALL(eventfd2),
	CALL(fallocate),
	CALL(fcntl),
	CALL(flock),
	CALL(fstat),
	CALL(ftruncate),
	CALL(getdents64),
	CALL(getrandom),
	CALL(getsockname),
	CALL(getsockopt),
	CALL(gettid),
	CALL(getuid),
	CALL(geteuid),
	CALL(inotify_add_watch),
	CALL(inotify_init1),
	CALL(kcmp),
	CALL(listen),
	CALL(madvise),
	CALL(membarrier),
	CALL(memfd_create),
	CALL(mlock),
	CALL(mprotect),
	CALL(mremap),
	CALL(msync),
	CALL(nanosleep),
	CALL(newfstatat),
	CALL(pidfd_getfd),
	CALL(pidfd_open),
	CALL(pipe2),
	CALL(prctl),
	CALL(prlimit64),
	CALL(process_vm_readv),
	CALL(process_vm_writev),
#ifdef SYS_readlink
	/* Architectures since arm64 have readlinkat(2) alone. */
	CALL(readlink),
#endif
	CALL(readlinkat),
	CALL(recvfrom),
	CALL(recvmmsg),
	CALL(recvmsg),
	CALL(rt_sigaction),
	CALL(sched_getaffinity),
	CALL(sched_setaffinity),
	CALL(sched_setscheduler),
	CALL(sched_yield),
	CALL(sendmmsg),
	CALL(sendmsg),
	CALL(sendto),
	CALL(setsockopt),
	CALL(shutdown),
	CALL(sigaltstack),
	CALL(socket),
	CALL(socketpair),
	{ "socket", SYS_socket, AF_INET6 },
	{ "AF_NETLINK", SYS_socket, AF_NETLINK },
	CALL(statx),
	CALL(timerfd_create),
	CALL(timerfd_settime),
	CALL(uname),
	CALL(vmsplice),
};

static const int errors[] = { EPERM, ENOSYS, EINVAL };

static void deny(const struct denied *call, int error, unsigned flags)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call->number, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | (call->family ? BPF_JEQ : BPF_JGE) | BPF_K,
			 (uint32_t)call->family, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { ARRAY_LEN(code), code };

	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	MUST((int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program));
}

/* Memory that both processes share. */
enum { BYTES = 4096, ROUNDS = 16 };
struct end {
	atomic_int step; /* how far it has come; -1 if it cannot continue */
	uint32_t qpn, rkey;
	uint64_t address;
	char failed[64];
	int error;
};
struct meeting {
	struct end end[2];
};

static struct meeting *meeting;
static struct end *own, *peer;

/* A verb failed: this end gives up, and so does the other. */
static void give_up(const char *verb, int error)
{
	if (atomic_load(&own->step) < 0)
		return;
	snprintf(own->failed, sizeof(own->failed), "%s", verb);
	own->error = error;
	atomic_store(&own->step, -1);
}

/* False if the peer gave up. Whether a call yields or not. */
static bool reached(int step)
{
	atomic_store(&own->step, step);
	for (;;) {
		int there = atomic_load(&peer->step);

		if (there < 0) {
			atomic_store(&own->step, -1);
			return false;
		}
		if (there >= step)
			return true;
		sched_yield();
	}
}

#define TRY(call) \
	do { \
		int error_ = (errno = 0, (call)); \
		if (error_) { \
			give_up(#call, error_ > 0 ? error_ : errno); \
			return false; \
		} \
	} while (0)
#define TRY_PTR(variable, call) \
	do { \
		errno = 0; \
		variable = (call); \
		if (!variable) { \
			give_up(#call, errno); \
			return false; \
		} \
	} while (0)

struct objects {
	struct ibv_device **list;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char *memory;
};

static bool make(struct objects *o)
{
	struct ibv_qp_init_attr init;

	TRY_PTR(o->list, ibv_get_device_list(NULL));
	if (!o->list[0]) {
		give_up("a device in the list", ENODEV);
		return false;
	}
	TRY_PTR(o->context, ibv_open_device(o->list[0]));
	TRY_PTR(o->pd, ibv_alloc_pd(o->context));
	TRY_PTR(o->channel, ibv_create_comp_channel(o->context));
	TRY_PTR(o->cq, ibv_create_cq(o->context, 64, NULL, o->channel, 0));
	TRY_PTR(o->mr, ibv_reg_mr(o->pd, o->memory, 4 * BYTES, ALL_ACCESS));
	init = init_attr(o->cq, IBV_QPT_RC);
	TRY_PTR(o->qp, ibv_create_qp(o->pd, &init));
	return true;
}

static bool join_peer(struct objects *o)
{
	struct ibv_qp_attr attr = attr_init();

	own->qpn = o->qp->qp_num;
	own->rkey = o->mr->rkey;
	own->address = (uintptr_t)o->memory;
	if (!reached(1))
		return false;
	TRY(ibv_modify_qp(o->qp, &attr, RC_INIT_MASK));
	attr = attr_rtr(o->context, peer->qpn);
	TRY(ibv_modify_qp(o->qp, &attr, RC_RTR_MASK));
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 17, .retry_cnt = 7, .rnr_retry = 7,
		.sq_psn = 7, .max_rd_atomic = 1,
	};
	TRY(ibv_modify_qp(o->qp, &attr, RC_RTS_MASK));
	return true;
}

/* One completion, by an event. */
static bool complete(struct objects *o)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *own_context;
	int got;

	for (;;) {
		TRY(ibv_req_notify_cq(o->cq, 0));
		got = ibv_poll_cq(o->cq, 1, &wc);
		if (got)
			break;
		TRY(ibv_get_cq_event(o->channel, &cq, &own_context));
		ibv_ack_cq_events(cq, 1);
	}
	if (got < 0 || wc.status) {
		give_up("a completion", got < 0 ? EIO : (int)wc.status + 1000);
		return false;
	}
	return true;
}

static bool request(struct objects *o, enum ibv_wr_opcode opcode, size_t at)
{
	struct ibv_sge piece = {
		.addr = (uintptr_t)o->memory + at, .length = BYTES, .lkey = o->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &piece, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = peer->address + BYTES, .rkey = peer->rkey },
	}, *bad;

	TRY(ibv_post_send(o->qp, &wr, &bad));
	return true;
}

static bool post_receive(struct objects *o)
{
	struct ibv_sge piece = {
		.addr = (uintptr_t)o->memory + 2 * BYTES, .length = BYTES, .lkey = o->mr->lkey,
	};
	struct ibv_recv_wr wr = { .sg_list = &piece, .num_sge = 1 }, *bad;

	TRY(ibv_post_recv(o->qp, &wr, &bad));
	return true;
}

/* Each end sends, writes and reads; the received bytes are compared. */
static bool exchange(struct objects *o, int round)
{
	int step = 10 * (round + 1);

	memset(o->memory, 'a' + round, BYTES);
	memset(o->memory + BYTES, 0, 3 * BYTES);
	if (!post_receive(o) || !reached(step) || !request(o, IBV_WR_SEND, 0) || !complete(o) ||
	    !complete(o))
		return false;
	if (!request(o, IBV_WR_RDMA_WRITE, 0) || !complete(o) || !reached(step + 1))
		return false;
	if (!request(o, IBV_WR_RDMA_READ, 3 * BYTES) || !complete(o) || !reached(step + 2))
		return false;
	expect(!memcmp(o->memory, o->memory + BYTES, BYTES));
	expect(!memcmp(o->memory, o->memory + 2 * BYTES, BYTES));
	expect(!memcmp(o->memory, o->memory + 3 * BYTES, BYTES));
	return true;
}

static bool unmake(struct objects *o)
{
	if (o->qp)
		TRY(ibv_destroy_qp(o->qp));
	if (o->mr)
		TRY(ibv_dereg_mr(o->mr));
	if (o->cq)
		TRY(ibv_destroy_cq(o->cq));
	if (o->channel)
		TRY(ibv_destroy_comp_channel(o->channel));
	if (o->pd)
		TRY(ibv_dealloc_pd(o->pd));
	if (o->context)
		TRY(ibv_close_device(o->context));
	if (o->list)
		ibv_free_device_list(o->list);
	return true;
}

/* The kernel does not show the time of this machine in memory: no program runs without the call. */
static bool no_time(void)
{
	struct timespec time;

	return clock_gettime(CLOCK_MONOTONIC, &time) || clock_gettime(CLOCK_REALTIME, &time);
}

static void be_end(int number, const struct denied *call, int error, const char *log)
{
	struct objects objects = { .memory = mmap(NULL, 4 * BYTES, PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
	int round;

	own = &meeting->end[number];
	peer = &meeting->end[!number];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(100); /* a call that waits for ever */
	setenv("VERBS_LOG_LEVEL", "3", 1);
	setenv("VERBS_LOG_FILE", log, 1);
	deny(call, error, 0);
	if (no_time())
		_exit(0);
	if (make(&objects) && join_peer(&objects))
		for (round = 0; round < ROUNDS && exchange(&objects, round); round++)
			;
	unmake(&objects);
	_exit(0);
}

static double processor_seconds(void)
{
	struct timespec time;

	MUST(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time));
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* One end denies itself to receive, after all is set up; the other one sends to it. */
static bool be_end_later(int number, int error)
{
	static const struct denied receiving[] = {
		CALL(accept4), CALL(recvfrom), CALL(recvmmsg), CALL(recvmsg),
	};
	struct objects objects = { .memory = mmap(NULL, 4 * BYTES, PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
	double seconds = 0.3, used;
	size_t i;

	own = &meeting->end[number];
	peer = &meeting->end[!number];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(100);
	expect(make(&objects) && join_peer(&objects) && exchange(&objects, 0));
	for (i = 0; number == 0 && i < ARRAY_LEN(receiving); i++)
		deny(&receiving[i], error, SECCOMP_FILTER_FLAG_TSYNC);
	expect(reached(20));
	if (number == 1) {
		/* The kernel notifies the device of it. */
		expect(!system("ip link set lo mtu 65000 && ip link set lo mtu 65536"));
		return request(&objects, IBV_WR_SEND, 0) && reached(21);
	}
	used = processor_seconds();
	usleep((useconds_t)(seconds * 1e6));
	used = processor_seconds() - used;
	if (used > seconds / 3)
		out("%s: %.2f s of the processor in %.2f s", errno_name(error), used, seconds);
	return used <= seconds / 3 && reached(21);
}

static void later(void)
{
	size_t i;
	int number, status;
	pid_t child[2];

	for (i = 0; i < ARRAY_LEN(errors); i++) {
		memset(meeting, 0, sizeof(*meeting));
		for (number = 0; number < 2; number++) {
			child[number] = fork();
			expect(child[number] >= 0);
			if (!child[number])
				_exit(!be_end_later(number, errors[i]));
		}
		for (number = 0; number < 2; number++) {
			MUST(waitpid(child[number], &status, 0) != child[number]);
			expect(WIFEXITED(status) && !WEXITSTATUS(status));
			atomic_store(&meeting->end[number].step, status ? -1 : 21);
		}
	}
}

static bool contains(const char *file, const char *word)
{
	static char text[1 << 16];
	FILE *from = fopen(file, "r");
	size_t length = from ? fread(text, 1, sizeof(text) - 1, from) : 0;

	if (from)
		fclose(from);
	text[length] = 0;
	return strstr(text, word) != NULL;
}

/* The name in a manual page. */
static const char *page(const struct denied *call)
{
	static const char *const others[][2] = {
		{ "epoll_create1", "epoll_create" }, { "eventfd2", "eventfd" },
		{ "inotify_init1", "inotify_init" }, { "newfstatat", "fstat" },
		{ "pipe2", "pipe" }, { "prlimit64", "prlimit" }, { "sendto", "send" },
		{ "recvfrom", "recv" }, { "accept4", "accept" }, { "clone3", "clone" },
	};
	size_t i;

	for (i = 0; i < ARRAY_LEN(others); i++)
		if (!strcmp(others[i][0], call->name))
			return others[i][1];
	return call->name;
}

/* Whether it went as it may. */
static bool one(const struct denied *call, int error)
{
	char log[2][32] = { "/tmp/denied-XXXXXX", "/tmp/denied-XXXXXX" };
	pid_t child[2];
	bool well = true;
	int i, status;

	memset(meeting, 0, sizeof(*meeting));
	for (i = 0; i < 2; i++)
		close(mkstemp(log[i]));
	for (i = 0; i < 2; i++) {
		child[i] = fork();
		expect(child[i] >= 0);
		if (!child[i])
			be_end(i, call, error, log[i]);
	}
	for (i = 0; i < 2; i++) {
		const struct end *end = &meeting->end[i];

		MUST(waitpid(child[i], &status, 0) != child[i]);
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			out("%s %s: end %d ended with status %#x, at step %d", call->name,
			    errno_name(error), i, status, atomic_load(&meeting->end[i].step));
			atomic_store(&meeting->end[i].step, -1);
			well = false;
		} else if (*end->failed && !contains(log[i], page(call))) {
			out("%s %s: end %d: %s = %s, and no line names it", call->name,
			    errno_name(error), i, end->failed, errno_name(end->error));
			well = false;
		} else if (*end->failed && call->family == AF_INET6) {
			out("%s %s of one family: end %d: %s = %s", call->name, errno_name(error),
			    i, end->failed, errno_name(end->error));
			well = false;
		} else if (*end->failed && i == 0) {
			out("%s %s: %s = %s", call->name, errno_name(error), end->failed,
			    errno_name(end->error));
		}
	}
	for (i = 0; i < 2; i++)
		unlink(log[i]);
	return well;
}

static void all(void)
{
	const char *only = getenv("ONLY");
	size_t i, j;
	bool well = true;

	for (i = 0; i < ARRAY_LEN(calls); i++)
		for (j = 0; j < ARRAY_LEN(errors); j++)
			if (!only || !strcmp(only, calls[i].name))
				well &= one(&calls[i], errors[j]);
	/* An error that the call itself may return: not treated as temporary. */
	for (i = 0; i < ARRAY_LEN(calls); i++)
		if (!strcmp(calls[i].name, "recvmmsg") && (!only || !strcmp(only, "recvmmsg")))
			well &= one(&calls[i], ENOMEM);
	expect(well);
}

int main(void)
{
	if (!own_device())
		return done();
	meeting = mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	expect(meeting != MAP_FAILED);
	in_child("by shared memory", all);
	in_child("later, by shared memory", later);
	setenv("UROCE_CARRIER", "udp", 1);
	in_child("by UDP", all);
	in_child("later, by UDP", later);
	return done();
}
