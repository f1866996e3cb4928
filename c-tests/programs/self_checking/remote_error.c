/*
 * uroce: a request that the peer refuses is completed with the peer's reason, the requests behind
 * it are flushed in order and change nothing, and so are those that are posted later. Runs in a
 * separate network namespace.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "network.h"
#include "rdma.h"

#include <sys/wait.h>

enum { BEHIND = 8, BYTES = 8, FROM = 0, TO = 32768 };

static const enum ibv_wr_opcode refused[] = {
	IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
	IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
};

static void post(struct pair *pair, uint64_t id, enum ibv_wr_opcode opcode, uint32_t rkey)
{
	struct ibv_sge sge = piece(pair, FROM, BYTES);
	struct ibv_send_wr wr = {
		.wr_id = id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;

	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)pair->buffer + TO;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)pair->buffer + TO;
		wr.wr.rdma.rkey = rkey;
	}
	MUST(ibv_post_send(pair->qp[0], &wr, &bad));
}

static void completes(struct pair *pair, uint64_t id, enum ibv_wc_status status)
{
	struct ibv_wc wc = wait_wc(pair->cq[0]);

	expect(wc.wr_id == id && wc.status == status && wc.qp_num == pair->qp[0]->qp_num);
}

static void each_operation(void)
{
	uint64_t before = 0x1122334455667788, after;
	struct pair pair;
	uint64_t id;
	size_t i;

	for (i = 0; i < ARRAY_LEN(refused); i++) {
		make_pair(&pair, IBV_QPT_RC);
		memset(pair.buffer + FROM, 0xee, BYTES);
		memcpy(pair.buffer + TO, &before, sizeof(before));
		post(&pair, 1, refused[i], pair.mr->rkey ^ 0x100);
		for (id = 2; id < 2 + BEHIND; id++)
			post(&pair, id, IBV_WR_RDMA_WRITE, pair.mr->rkey);
		completes(&pair, 1, IBV_WC_REM_ACCESS_ERR);
		for (id = 2; id < 2 + BEHIND; id++)
			completes(&pair, id, IBV_WC_WR_FLUSH_ERR);
		post(&pair, id, IBV_WR_RDMA_WRITE, pair.mr->rkey);
		completes(&pair, id, IBV_WC_WR_FLUSH_ERR);
		memcpy(&after, pair.buffer + TO, sizeof(after));
		expect(after == before);
		free_pair(&pair);
		out("operation %d is refused, and what is behind it is flushed", refused[i]);
	}
}

/* In a separate process, because a process keeps its first carrier. */
static void by(const char *carrier)
{
	pid_t child;
	int status;

	out("-- UROCE_CARRIER=%s", carrier);
	fflush(NULL);
	child = fork();
	expect(child >= 0);
	if (!child) {
		setenv("UROCE_CARRIER", carrier, 1);
		each_operation();
		fflush(NULL);
		_exit(0);
	}
	expect(waitpid(child, &status, 0) == child);
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	if (!own_device())
		return done();
	by("udp");
	by("shm");
	by("auto");
	return done();
}
