/*
 * Destinations of diagnostics: pipes whose reader leaves or does not read, pipes without a reader,
 * files that may not grow, a full file system. The program continues, receives no signal, prints
 * once that no more is written, and the file remains readable. A program that may have no
 * descriptors any more (RLIMIT_NOFILE) is reported like any other.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "rdma.h"
#include "network.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* The value of a variable without the destination. */
static const char *const variables[] = {
	"IBVERBS_EXPLAIN", "IBVERBS_VALIDATE", "IBVERBS_TRACE", "UROCE_PCAP", "VERBS_LOG_FILE",
};

enum { BYTES = 60000, ROUNDS = 60 };
static char folder[] = "/tmp/diagnostics-XXXXXX";
static char place[64], copy[64];
/* Whether the program may have no descriptors once it has its device. */
static bool is_limited;

static void allow_no_descriptors(void)
{
	struct rlimit limit;

	MUST(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = 0;
	MUST(setrlimit(RLIMIT_NOFILE, &limit));
}

/* An invalid key. */
static void mistake(struct ibv_pd *pd, struct ibv_qp_init_attr *init, int round)
{
	struct ibv_sge piece = { .addr = 4096, .length = 1, .lkey = 0x12340000 + (unsigned)round };
	struct ibv_recv_wr wr = { .sg_list = &piece, .num_sge = 1 }, *bad;
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pd, init));
	struct ibv_qp_attr attr = attr_init();

	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	MUST(ibv_post_recv(qp, &wr, &bad));
	MUST(ibv_destroy_qp(qp));
}

/*
 * Mistakes, failures, calls and packets: each variable has something to report, more than a pipe
 * holds.
 */
static void work(void)
{
	struct ibv_context *context = open_rxe();
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 16, NULL, NULL, 0));
	struct ibv_qp_init_attr init = init_attr(cq, IBV_QPT_RC);
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pd, &init));
	static char memory[2 * BYTES];
	struct ibv_mr *mr = MUST_PTR(ibv_reg_mr(pd, memory, sizeof(memory), ALL_ACCESS));
	struct ibv_sge piece = {
		.addr = (uintptr_t)memory, .length = BYTES, .lkey = mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)memory + BYTES, .rkey = mr->rkey },
	}, *bad;
	struct ibv_qp_attr attr = attr_init(), wrong = { .qp_state = IBV_QPS_RTS };
	struct ibv_recv_wr receive = { .num_sge = 1000 }, *bad_receive;
	struct ibv_wc wc;
	int round, i;

	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	attr = attr_rtr(context, qp->qp_num);
	MUST(ibv_modify_qp(qp, &attr, RC_RTR_MASK));
	attr = attr_rts();
	MUST(ibv_modify_qp(qp, &attr, RC_RTS_MASK));
	if (is_limited)
		allow_no_descriptors();
	for (round = 0; round < ROUNDS; round++) {
		MUST(ibv_post_send(qp, &wr, &bad));
		while (!ibv_poll_cq(cq, 1, &wc))
			;
		expect(!wc.status);
		for (i = 0; i < 20; i++) {
			expect(ibv_modify_qp(qp, &wrong, IBV_QP_STATE | IBV_QP_PORT));
			expect(ibv_post_recv(qp, &receive, &bad_receive));
		}
		mistake(pd, &init, round);
	}
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_dereg_mr(mr));
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_close_device(context));
}

static volatile sig_atomic_t signals;

static void count(int number)
{
	(void)number;
	signals++;
}

/* The program of the user's: it ends as if nothing had been, and no handler of its ran. */
static void program(const char *variable)
{
	expect(signal(SIGPIPE, count) != SIG_ERR);
	expect(signal(SIGXFSZ, count) != SIG_ERR);
	setenv(variable, place, 1);
	setenv("UROCE_CARRIER", "udp", 1); /* a capture has packets of the network */
	if (!strcmp(variable, "VERBS_LOG_FILE"))
		setenv("VERBS_LOG_LEVEL", "4", 1);
	work();
	expect(!signals);
	exit(0);
}

/*
 * Runs the program; returns its standard error, and how often the last write is named.
 */
static int run(const char *variable, void (*before)(void))
{
	char output[] = "/tmp/diagnostics-output-XXXXXX", line[4096];
	int fd = mkstemp(output), status, times = 0;
	pid_t child;
	FILE *from;

	expect(fd >= 0);
	fflush(stdout);
	child = fork();
	expect(child >= 0);
	if (!child) {
		alarm(300); /* one that waits for ever */
		dup2(fd, 2);
		if (before)
			before();
		program(variable);
	}
	expect(waitpid(child, &status, 0) == child);
	from = fdopen(fd, "r");
	rewind(from);
	while (fgets(line, sizeof(line), from))
		times += strstr(line, "nothing more is written") != NULL;
	fclose(from);
	unlink(output);
	if (status)
		out("%s: the program ended with %#x", variable, status);
	expect(!status);
	return times;
}

static int reader(void)
{
	int fd = open(place, O_RDONLY | O_NONBLOCK);

	expect(fd >= 0);
	return fd;
}

static void make_fifo(void)
{
	unlink(place);
	MUST(mkfifo(place, 0600));
}

/* Without a reader, opening does not wait. */
static void no_reader(const char *variable)
{
	make_fifo();
	expect(run(variable, NULL) == 0);
}

/* Open before the program starts, and gone after the first bytes. */
static void leaving_reader(const char *variable)
{
	pid_t child;
	char byte;
	int fd;

	make_fifo();
	child = fork();
	expect(child >= 0);
	if (!child) {
		fd = reader();
		MUST(fcntl(fd, F_SETFL, 0));
		while (read(fd, &byte, 1) == 0) /* not open yet */
			usleep(1000);
		_exit(0);
	}
	usleep(20000);
	expect(run(variable, NULL) <= 1);
	kill(child, SIGKILL); /* where there was nothing to report */
	waitpid(child, NULL, 0);
}

/* The pipe is full for ever. */
static void sleeping_reader(const char *variable)
{
	int fd;

	make_fifo();
	fd = reader();
	expect(run(variable, NULL) <= 1);
	close(fd);
}

static void small_files(void)
{
	struct rlimit limit = { 3000, 3000 };

	MUST(setrlimit(RLIMIT_FSIZE, &limit));
}

static unsigned int word(const unsigned char *at)
{
	return at[0] | at[1] << 8 | at[2] << 16 | (unsigned int)at[3] << 24;
}

/*
 * Whole records alone: those of a capture and of a trace contain their lengths, reports end with a
 * line.
 */
static size_t whole(const char *variable, const char *file)
{
	static unsigned char bytes[1 << 24];
	FILE *from = fopen(file, "r");
	size_t length, at = 0;

	expect(from);
	length = fread(bytes, 1, sizeof(bytes), from);
	fclose(from);
	if (!strcmp(variable, "UROCE_PCAP")) {
		for (at = length ? 24 : 0; at + 16 <= length; at += 16 + word(bytes + at + 8))
			;
		expect(at == length);
	} else if (!strcmp(variable, "IBVERBS_TRACE")) {
		for (; at + 24 <= length; at += 24 + word(bytes + at + 12))
			expect(!memcmp(bytes + at, "IBVT", 4));
		expect(at == length);
	} else if (length) {
		expect(bytes[length - 1] == '\n');
	}
	return length;
}

/* A pipe's reader reads all, but the program has to wait for room. */
static void no_descriptors(const char *variable)
{
	static char bytes[4096];
	pid_t child;

	make_fifo();
	child = fork();
	expect(child >= 0);
	if (!child) {
		int fd = reader(), to = creat(copy, 0600);
		ssize_t length;

		while ((length = read(fd, bytes, sizeof(bytes))) == 0) /* not open yet */
			usleep(1000);
		MUST(fcntl(fd, F_SETFL, 0));
		do {
			if (length > 0)
				expect(write(to, bytes, (size_t)length) == length);
			usleep(500);
		} while ((length = read(fd, bytes, sizeof(bytes))) != 0);
		_exit(0);
	}
	usleep(20000);
	is_limited = true;
	expect(run(variable, NULL) == 0);
	is_limited = false;
	expect(waitpid(child, NULL, 0) == child);
	out("%s without descriptors", whole(variable, copy) > 1 << 16 ? "much" : "little");
}

static void limited_file(const char *variable)
{
	unlink(place);
	expect(run(variable, small_files) <= 1);
	whole(variable, place);
}

static void full_file_system(const char *variable)
{
	if (mount("none", folder, "tmpfs", 0, "size=8k")) {
		out("skipped: no file system can be mounted: %s", errno_name(errno));
		return;
	}
	expect(run(variable, NULL) <= 1);
	whole(variable, place);
	MUST(umount(folder));
}

static void own_mounts(void)
{
	if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		out("no separate mounts: %s", errno_name(errno));
}

int main(void)
{
	size_t i;

	if (!own_device())
		return done();
	own_mounts();
	expect(mkdtemp(folder));
	snprintf(place, sizeof(place), "%s/place", folder);
	snprintf(copy, sizeof(copy), "%s/copy", folder);
	for (i = 0; i < ARRAY_LEN(variables); i++) {
		out("%s", variables[i]);
		no_reader(variables[i]);
		leaving_reader(variables[i]);
		sleeping_reader(variables[i]);
		no_descriptors(variables[i]);
		unlink(copy);
		limited_file(variables[i]);
		unlink(place);
		full_file_system(variables[i]);
	}
	rmdir(folder);
	return done();
}
