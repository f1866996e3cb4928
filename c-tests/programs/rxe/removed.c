/*
 * A device that goes away while it is open.
 *
 * The kernel of soft RoCE takes the device out of its lists at once and then
 * waits until it is not open any more. Drivers of pluggable cards do not wait: they
 * report IBV_EVENT_DEVICE_FATAL, and from then on every command is answered
 * with EIO. The second half makes a kernel that answers so, by a filter on
 * this process's system calls.
 */
#include "rdma.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

/* The other end of the cable of rxe0's interface. */
#define NAME "rxe1"
#define ADD "rdma link add " NAME " type rxe netdev v1"
#define DELETE "rdma link delete " NAME

/* The library under test is not involved in the actions of another program. */
static pid_t start(char *line)
{
	char *words[] = { "env", "-u", "LD_LIBRARY_PATH", "sh", "-c", line, NULL };
	pid_t pid;

	expect(!posix_spawnp(&pid, words[0], NULL, NULL, words, environ));
	return pid;
}

static int end_of(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		expect(errno == EINTR);
	return status;
}

static void must_run(char *line) { expect(!end_of(start(line))); }

/* The device's place in a list, or NULL. */
static struct ibv_device *in_list(struct ibv_device **list)
{
	int i;

	for (i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), NAME))
			return list[i];
	return NULL;
}

static bool listed(void)
{
	struct ibv_device **list = MUST_PTR(ibv_get_device_list(NULL));
	bool there = in_list(list) != NULL;

	ibv_free_device_list(list);
	return there;
}

/* Whether the kernel still lets the device be opened. */
static bool has_node(struct ibv_device *device)
{
	char path[sizeof(device->dev_name) + sizeof("/dev/infiniband/")];

	snprintf(path, sizeof(path), "/dev/infiniband/%s", device->dev_name);
	return !access(path, F_OK) || !access(device->dev_path, F_OK);
}

/* One of each object that the device has, on an open context. */
struct objects {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	char buffer[4096];
};

static struct ibv_ah_attr some_address(struct ibv_context *context)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .sgid_index = 0, .hop_limit = 64 },
	};

	MUST(ibv_query_gid(context, 1, 0, &attr.grh.dgid));
	return attr;
}

static void make(struct objects *all, struct ibv_device *device)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = attr_init();
	struct ibv_ah_attr address;

	memset(all, 0, sizeof(*all));
	all->context = MUST_PTR(ibv_open_device(device));
	all->pd = MUST_PTR(ibv_alloc_pd(all->context));
	all->mr = MUST_PTR(ibv_reg_mr(all->pd, all->buffer, sizeof(all->buffer), ALL_ACCESS));
	all->mw = MUST_PTR(ibv_alloc_mw(all->pd, IBV_MW_TYPE_1));
	all->channel = MUST_PTR(ibv_create_comp_channel(all->context));
	all->cq = MUST_PTR(ibv_create_cq(all->context, 16, NULL, all->channel, 0));
	all->srq = MUST_PTR(ibv_create_srq(all->pd, &srq));
	init = init_attr(all->cq, IBV_QPT_RC);
	all->qp = MUST_PTR(ibv_create_qp(all->pd, &init));
	MUST(ibv_modify_qp(all->qp, &attr, RC_INIT_MASK));
	address = some_address(all->context);
	all->ah = MUST_PTR(ibv_create_ah(all->pd, &address));
}

/* Makes more of each object; those that could be made are destroyed again. */
static void make_more(struct objects *all)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_qp_init_attr init = init_attr(all->cq, IBV_QPT_RC);
	struct ibv_ah_attr address = { .port_num = 1 };
	struct ibv_context *context = all->context;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd = all->pd, *more;
	static char other[64];
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	if ((srq = PTR(ibv_create_srq(pd, &srq_init))))
		RC(ibv_destroy_srq(srq));
	if ((qp = PTR(ibv_create_qp(pd, &init))))
		RC(ibv_destroy_qp(qp));
	PTR(ibv_create_ah(pd, &address));
	if ((mr = PTR(ibv_reg_mr(pd, other, sizeof(other), IBV_ACCESS_LOCAL_WRITE))))
		RC(ibv_dereg_mr(mr));
	if ((mw = PTR(ibv_alloc_mw(pd, IBV_MW_TYPE_1))))
		RC(ibv_dealloc_mw(mw));
	if ((cq = PTR(ibv_create_cq(context, 4, NULL, NULL, 0))))
		RC(ibv_destroy_cq(cq));
	if ((channel = PTR(ibv_create_comp_channel(context))))
		RC(ibv_destroy_comp_channel(channel));
	if ((more = PTR(ibv_alloc_pd(context))))
		RC(ibv_dealloc_pd(more));
}

/*
 * Into the error state, and until the posted request has completed: the kernel
 * completes it later, and the call that destroys the queue would wait for the
 * event about it.
 */
static void flush(struct objects *all)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;

	if (RC(ibv_modify_qp(all->qp, &attr, IBV_QP_STATE)))
		return;
	while (ibv_poll_cq(all->cq, 1, &wc) == 0)
		sched_yield();
}

/* Everything is asked of the device, and the answers are printed. */
static void ask(struct objects *all)
{
	struct ibv_context *context = all->context;
	struct ibv_qp *qp = all->qp;
	struct ibv_qp_init_attr reported;
	struct ibv_recv_wr recv = { .wr_id = 5 }, *bad_recv = NULL;
	struct ibv_qp_attr attr = { 0 };
	struct ibv_device_attr_ex extended = { 0 };
	struct ibv_srq_attr srq_attr;
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	struct ibv_wc wc;

	out("name %s", ibv_get_device_name(context->device));
	RC(ibv_query_device(context, &device));
	RC(ibv_query_device_ex(context, NULL, &extended));
	RC(ibv_query_port(context, 1, &port));
	RC(ibv_query_qp(qp, &attr, IBV_QP_STATE, &reported));
	RC(ibv_query_srq(all->srq, &srq_attr));
	RC(ibv_post_recv(qp, &recv, &bad_recv));
	flush(all);
	RC(ibv_req_notify_cq(all->cq, 0));
	COUNT(ibv_poll_cq(all->cq, 1, &wc) < 0);
	RC(ibv_resize_cq(all->cq, 32));
	make_more(all);
}

/* Every destruction, in order, is tried and its answer printed. */
static void destroy(struct objects *all)
{
	RC(ibv_destroy_ah(all->ah));
	RC(ibv_destroy_qp(all->qp));
	RC(ibv_destroy_srq(all->srq));
	RC(ibv_destroy_cq(all->cq));
	RC(ibv_destroy_comp_channel(all->channel));
	RC(ibv_dealloc_mw(all->mw));
	RC(ibv_dereg_mr(all->mr));
	RC(ibv_dealloc_pd(all->pd));
	RC(ibv_close_device(all->context));
}

static void *wait_async(void *context)
{
	static struct ibv_async_event event;

	for (;;) {
		if (ibv_get_async_event(context, &event))
			return NULL;
		ibv_ack_async_event(&event);
		/* Addresses of the interface come and go as the network likes. */
		if (event.event_type != IBV_EVENT_GID_CHANGE &&
		    event.event_type != IBV_EVENT_PORT_ERR &&
		    event.event_type != IBV_EVENT_PORT_ACTIVE)
			return &event;
	}
}

static void *wait_completion(void *channel)
{
	struct ibv_cq *cq;
	void *context;

	return ibv_get_cq_event(channel, &cq, &context) ? NULL : cq;
}

/* Whether the thread sleeps in read(2): it has called, and nothing came. */
static bool reads(pid_t thread)
{
	char path[64], text[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", thread);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = '\0';
	fclose(file);
	return atoi(text) == SYS_read && strncmp(text, "running", 7);
}

/* A thread that has written its number. */
struct waiter {
	pthread_t thread;
	_Atomic pid_t number;
	void *(*wait)(void *);
	void *argument;
};

static void *begin(void *self)
{
	struct waiter *waiter = self;

	waiter->number = gettid();
	return waiter->wait(waiter->argument);
}

static void let_wait(struct waiter *waiter, void *(*wait)(void *), void *argument)
{
	waiter->number = 0;
	waiter->wait = wait;
	waiter->argument = argument;
	expect(!pthread_create(&waiter->thread, NULL, begin, waiter));
	while (!waiter->number || !reads(waiter->number))
		sched_yield();
}

static void on_signal(int number) { (void)number; }

/* A signal at a time, since one may come between two calls. */
static void *interrupted(struct waiter *waiter)
{
	void *got;

	while (pthread_tryjoin_np(waiter->thread, &got)) {
		pthread_kill(waiter->thread, SIGUSR1);
		usleep(1000);
	}
	return got;
}

/* The kernel forgets the name at once, and the rest when the last context is closed. */
static void goes_while_open(void)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct ibv_device **old, **fresh;
	struct waiter async, completion;
	static struct objects all;
	struct ibv_context *context;
	struct ibv_device *device;
	int before = open_descriptors();
	pid_t deletion;

	expect(!sigaction(SIGUSR1, &action, NULL));
	must_run(ADD);
	old = MUST_PTR(ibv_get_device_list(NULL));
	device = MUST_PTR(in_list(old));
	make(&all, device);
	let_wait(&async, wait_async, all.context);
	let_wait(&completion, wait_completion, all.channel);
	deletion = start(DELETE);
	while (listed() || has_node(device))
		sched_yield();
	out("gone from new lists, and in the old one %d", in_list(old) == device);
	out("name %s, guid %s", ibv_get_device_name(device),
	    ibv_get_device_guid(device) ? "set" : "0");
	out("index %s", ibv_get_device_index(device) >= 0 ? "known" : "unknown");
	/* Not at once: a node that is missing is waited for. */
	PTR(ibv_open_device(device));
	out("waits for the context: %d", waitpid(deletion, NULL, WNOHANG) == 0);
	ask(&all);
	out("events: %d %d", interrupted(&async) != NULL, interrupted(&completion) != NULL);
	destroy(&all);
	out("deleted: %d", end_of(deletion));

	must_run(ADD);
	fresh = MUST_PTR(ibv_get_device_list(NULL));
	out("made anew: %d, the same: %d", in_list(fresh) != NULL, in_list(fresh) == device);
	out("name of the old one %s", ibv_get_device_name(device));
	/* The kernel gave the new device the number of the old one. */
	if ((context = PTR(ibv_open_device(device))))
		RC(ibv_close_device(context));
	make(&all, in_list(fresh));
	ibv_free_device_list(fresh);
	ibv_free_device_list(old);
	destroy(&all);
	must_run(DELETE);
	out("listed: %d", listed());
	out("descriptors more %d", open_descriptors() - before);
}

/* Answers EIO to each command of a context, and to reading its events. */
static void unplug(const struct ibv_context *context)
{
#define LOAD(member) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, member))
#define IS(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)(value), yes, no)
	struct sock_filter steps[] = {
		LOAD(arch),
		IS(AUDIT_ARCH_X86_64, 0, 9),
		LOAD(nr),
		IS(SYS_read, 4, 0),
		IS(SYS_write, 1, 0),
		IS(SYS_ioctl, 0, 5),
		LOAD(args[0]),
		IS(context->cmd_fd, 2, 3),
		LOAD(args[0]),
		IS(context->async_fd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = ARRAY_LEN(steps), .filter = steps };

	expect(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	expect(!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program));
}

static struct ibv_device *first_device(struct ibv_device ***list)
{
	int i;

	*list = MUST_PTR(ibv_get_device_list(NULL));
	for (i = 0; (*list)[i]; i++)
		if (!strcmp(ibv_get_device_name((*list)[i]), DEVICE_NAME))
			return (*list)[i];
	return NULL;
}

/* The event descriptor is a pipe, into which the kernel's last words are written. */
static void is_unplugged(void)
{
	struct ib_uverbs_async_event_desc last = { .event_type = IBV_EVENT_DEVICE_FATAL };
	struct ibv_async_event event, *got;
	static struct objects all;
	struct ibv_device **list;
	struct pollfd ready;
	struct waiter async;
	int pipes[2], before;

	before = open_descriptors();
	make(&all, MUST_PTR(first_device(&list)));
	expect(!pipe2(pipes, O_CLOEXEC));
	expect(dup2(pipes[0], all.context->async_fd) == all.context->async_fd);
	let_wait(&async, wait_async, all.context);
	expect(write(pipes[1], &last, sizeof(last)) == sizeof(last));
	expect(!pthread_join(async.thread, (void **)&got));
	out("event: %s", got ? ibv_event_type_str(got->event_type) : "none");
	unplug(all.context);
	expect(!close(pipes[1]));
	ready = (struct pollfd){ .fd = all.context->async_fd, .events = POLLIN };
	expect(poll(&ready, 1, -1) == 1);
	RC(ibv_get_async_event(all.context, &event));
	ask(&all);
	ibv_free_device_list(list);
	destroy(&all);
	expect(!close(pipes[0]));
	out("descriptors more %d", open_descriptors() - before);
}

/* The application declares that it handles destructions that did not reach the device. */
static void is_unplugged_and_let_go(void)
{
	expect(!setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1));
	is_unplugged();
}

int main(void)
{
	/* Left by a program that was killed. */
	end_of(start(DELETE " 2>/dev/null"));
	in_child("it goes while it is open", goes_while_open);
	in_child("it is unplugged", is_unplugged);
	in_child("it is unplugged, and objects may go", is_unplugged_and_let_go);
	return done();
}
