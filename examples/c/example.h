/* Common code of the examples: opening a device, connecting queue pairs, waiting for completions.
 *
 * Each function ends the program with a message when a call fails. A real program would do more. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static inline void check(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* Verbs that return an errno instead of setting it: ibv_modify_qp(3), ibv_post_send(3), ... */
static inline void check_errno(int error, const char *what)
{
	errno = error;
	check(error == 0, what);
}

/* The device of that name, or the first one if name is NULL. */
static inline struct ibv_context *open_device(const char *name)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	check(list != NULL, "ibv_get_device_list");
	struct ibv_device *found = NULL;
	for (int i = 0; i < count && !found; i++)
		if (!name || !strcmp(ibv_get_device_name(list[i]), name))
			found = list[i];
	if (!found) {
		fprintf(stderr, "no RDMA device%s%s\n", name ? " called " : "", name ? name : "");
		exit(1);
	}
	struct ibv_context *context = ibv_open_device(found);
	check(context != NULL, "ibv_open_device");
	/* The list may go: an open device does not need it. */
	ibv_free_device_list(list);
	return context;
}

/* The peer's parameters of a queue pair. Programs send them over any channel that they have. */
struct address {
	union ibv_gid gid;
	uint32_t qp_num;
	uint32_t psn;
	/* Memory that the peer may write to; zeros without such memory. */
	uint64_t buffer;
	uint32_t rkey;
	uint32_t unused;
};

enum { PORT = 1, GID_INDEX = 0 };

static inline struct address address_of(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct address mine;
	memset(&mine, 0, sizeof mine);
	check(ibv_query_gid(qp->context, PORT, GID_INDEX, &mine.gid) == 0, "ibv_query_gid");
	mine.qp_num = qp->qp_num;
	mine.psn = (uint32_t)getpid() & 0xffffff;
	if (mr) {
		mine.buffer = (uintptr_t)mr->addr;
		mine.rkey = mr->rkey;
	}
	return mine;
}

static inline struct address exchange(int peer, struct address mine)
{
	struct address theirs;
	check(write(peer, &mine, sizeof mine) == sizeof mine, "write to the other process");
	check(recv(peer, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs, "read from the other process");
	return theirs;
}

/* A barrier: waits until the other process has reached this point, too. */
static inline void barrier(int peer)
{
	char byte = 0;
	check(write(peer, &byte, 1) == 1, "write to the other process");
	check(read(peer, &byte, 1) == 1, "read from the other process");
}

static inline struct ibv_qp *create_rc(struct ibv_pd *pd, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	check(qp != NULL, "ibv_create_qp");
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};
	check_errno(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		    "ibv_modify_qp to INIT");
	return qp;
}

/* Takes a reliable connection to its peer: ready to receive, then ready to send. */
static inline void connect_rc(struct ibv_qp *qp, const struct address *mine, const struct address *theirs)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = theirs->qp_num,
		.rq_psn = theirs->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.port_num = PORT,
			.grh = { .dgid = theirs->gid, .sgid_index = GID_INDEX, .hop_limit = 64 },
		},
	};
	check_errno(ibv_modify_qp(qp, &attr,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
		    "ibv_modify_qp to RTR");
	struct ibv_qp_attr send = {
		.qp_state = IBV_QPS_RTS,
		.sq_psn = mine->psn,
		.timeout = 14, /* 67 ms */
		.retry_cnt = 7,
		.rnr_retry = 7, /* for ever */
		.max_rd_atomic = 1,
	};
	check_errno(ibv_modify_qp(qp, &send,
				  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
		    "ibv_modify_qp to RTS");
}

static inline void check_completion(const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return;
	fprintf(stderr, "request %llu: %s\n", (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status));
	exit(1);
}

/* Polls until there is a completion. */
static inline struct ibv_wc wait_for_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int found;
	do
		found = ibv_poll_cq(cq, 1, &wc);
	while (found == 0);
	check(found > 0, "ibv_poll_cq");
	check_completion(&wc);
	return wc;
}

static inline void post_receive(struct ibv_qp *qp, struct ibv_mr *mr, uint64_t id)
{
	struct ibv_sge sge = { .addr = (uintptr_t)mr->addr, .length = (uint32_t)mr->length, .lkey = mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;
	check_errno(ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
}

/* Runs one function in a child and the other here, joined by a pair of sockets. Each process opens
 * the device by itself: open devices and their objects are of no use in the child of a fork(2). */
static inline int two_processes(void (*child)(int peer, const char *device),
				void (*parent)(int peer, const char *device), const char *device)
{
	int pair[2];
	check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
	fflush(stdout);
	pid_t pid = fork();
	check(pid >= 0, "fork");
	if (pid == 0) {
		close(pair[0]);
		child(pair[1], device);
		exit(0);
	}
	close(pair[1]);
	parent(pair[0], device);
	int status = 1;
	check(waitpid(pid, &status, 0) == pid, "waitpid");
	return status != 0;
}

#endif
