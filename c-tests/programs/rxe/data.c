/* Data over connected queue pairs: every operation, and every way to refuse or fail it. */
#include "rdma.h"

static unsigned int sum(const unsigned char *bytes, size_t size)
{
	unsigned int value = 0;
	size_t i;

	for (i = 0; i < size; i++)
		value = value * 31 + bytes[i];
	return value;
}

static void fill(struct pair *pair, unsigned int seed)
{
	size_t i;

	for (i = 0; i < PAIR_BUFFER / 2; i++)
		pair->buffer[i] = (unsigned char)(seed + i * 13);
	memset(pair->buffer + PAIR_BUFFER / 2, 0, PAIR_BUFFER / 2);
}

/* Posts on side 0 and shows the completion. */
static void send_wr(struct pair *pair, const char *title, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad = NULL;
	struct ibv_wc wc;
	int ret;

	wr->send_flags |= IBV_SEND_SIGNALED;
	ret = ibv_post_send(pair->qp[0], wr, &bad);
	if (ret) {
		out("%s: refused with %s, bad reported %d", title, errno_name(ret), bad == wr);
		return;
	}
	wc = wait_wc(pair->cq[0]);
	show_wc(title, &wc);
}

static void sends(enum ibv_qp_type type)
{
	static const uint32_t sizes[] = { 0, 1, 1023, 1024, 1025, 5000, 32768 };
	struct ibv_wc wc;
	struct pair pair;
	size_t i;

	out("-- sends over type %d", type);
	make_pair(&pair, type);
	for (i = 0; i < ARRAY_LEN(sizes); i++) {
		struct ibv_sge sge = piece(&pair, 0, sizes[i]);
		struct ibv_send_wr wr = {
			.wr_id = 100 + i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = i % 2 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
			.imm_data = htobe32(0xabcd0000U + (uint32_t)i),
		};

		fill(&pair, (unsigned int)i);
		MUST(post_recv(&pair, 1, i, PAIR_BUFFER / 2, PAIR_BUFFER / 2));
		send_wr(&pair, "sent", &wr);
		wc = wait_wc(pair.cq[1]);
		show_wc("received", &wc);
		expect(wc.qp_num == pair.qp[1]->qp_num);
		expect(sum(pair.buffer, sizes[i]) == sum(pair.buffer + PAIR_BUFFER / 2, sizes[i]));
	}
	free_pair(&pair);
}

static void pieces(void)
{
	struct pair pair;
	struct ibv_sge from[4], into[3];
	struct ibv_send_wr send = { .sg_list = from, .num_sge = 4, .opcode = IBV_WR_SEND };
	struct ibv_recv_wr recv = { .wr_id = 9, .sg_list = into, .num_sge = 3 }, *bad;
	struct ibv_wc wc;

	make_pair(&pair, IBV_QPT_RC);
	fill(&pair, 77);
	from[0] = piece(&pair, 10, 100);
	from[1] = piece(&pair, 5000, 1);
	from[2] = piece(&pair, 300, 0);
	from[3] = piece(&pair, 700, 2000);
	into[0] = piece(&pair, 40000, 50);
	into[1] = piece(&pair, 50000, 1500);
	into[2] = piece(&pair, 60000, 1000);
	MUST(ibv_post_recv(pair.qp[1], &recv, &bad));
	send_wr(&pair, "pieces", &send);
	wc = wait_wc(pair.cq[1]);
	show_wc("received", &wc);
	out("sums %x %x %x", sum(pair.buffer + 40000, 50), sum(pair.buffer + 50000, 1500),
	    sum(pair.buffer + 60000, 1000));
	send.num_sge = 5;
	send_wr(&pair, "too many pieces", &send);
	recv.num_sge = 5;
	RC(ibv_post_recv(pair.qp[1], &recv, &bad));
	out("bad reported %d", bad == &recv);
	free_pair(&pair);
}

static void inlined(void)
{
	unsigned char own[200];
	struct pair pair;
	struct ibv_sge sge = { .addr = (uintptr_t)own, .length = 64 };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
	};
	struct ibv_wc wc;

	memset(own, 'i', sizeof(own));
	make_pair(&pair, IBV_QPT_RC);
	MUST(post_recv(&pair, 1, 1, 40000, 200));
	send_wr(&pair, "inline", &wr);
	wc = wait_wc(pair.cq[1]);
	show_wc("received", &wc);
	expect(!memcmp(pair.buffer + 40000, own, 64));
	sge.length = 65;
	send_wr(&pair, "inline too long", &wr);
	free_pair(&pair);
}

static void remote(enum ibv_qp_type type)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_wc wc;

	out("-- remote access over type %d", type);
	make_pair(&pair, type);
	fill(&pair, 5);
	sge = piece(&pair, 0, 6000);
	wr.wr.rdma.rkey = pair.mr->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)pair.buffer + 40000;
	wr.opcode = IBV_WR_RDMA_WRITE;
	send_wr(&pair, "write", &wr);
	if (type == IBV_QPT_RC)
		expect(sum(pair.buffer, 6000) == sum(pair.buffer + 40000, 6000));
	MUST(post_recv(&pair, 1, 8, 60000, 100));
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = htobe32(0x1234);
	send_wr(&pair, "write with value", &wr);
	wc = wait_wc(pair.cq[1]);
	show_wc("received", &wc);
	expect(sum(pair.buffer, 6000) == sum(pair.buffer + 40000, 6000));
	if (type == IBV_QPT_RC) {
		sge = piece(&pair, 50000, 3000);
		wr.opcode = IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = (uintptr_t)pair.buffer + 1000;
		send_wr(&pair, "read", &wr);
		expect(sum(pair.buffer + 1000, 3000) == sum(pair.buffer + 50000, 3000));
	}
	free_pair(&pair);
}

static void atomics(void)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 };
	uint64_t *target, *result;

	out("-- atomics");
	make_pair(&pair, IBV_QPT_RC);
	target = (uint64_t *)(pair.buffer + 4096);
	result = (uint64_t *)(pair.buffer + 8192);
	sge = piece(&pair, 8192, 8);
	wr.wr.atomic.rkey = pair.mr->rkey;
	wr.wr.atomic.remote_addr = (uintptr_t)target;
	*target = 40;
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.compare_add = 2;
	send_wr(&pair, "add", &wr);
	out("was %lu is %lu", (unsigned long)*result, (unsigned long)*target);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 7;
	send_wr(&pair, "swap", &wr);
	out("was %lu is %lu", (unsigned long)*result, (unsigned long)*target);
	wr.wr.atomic.compare_add = 99;
	send_wr(&pair, "no swap", &wr);
	out("was %lu is %lu", (unsigned long)*result, (unsigned long)*target);
	wr.wr.atomic.remote_addr += 4;
	send_wr(&pair, "not aligned", &wr);
	sge.length = 4;
	wr.wr.atomic.remote_addr -= 4;
	send_wr(&pair, "too short", &wr);
	free_pair(&pair);
}

/* Each failure takes a fresh pair: the first one ends it. */
static void fails(const char *title, enum ibv_wr_opcode opcode, bool bad_lkey, bool bad_rkey,
		  bool beyond, uint32_t recv_length)
{
	struct pair pair;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode };
	struct ibv_wc wc;
	int i;

	make_pair(&pair, IBV_QPT_RC);
	sge = piece(&pair, 0, 4000);
	if (bad_lkey)
		sge.lkey ^= 0x55aa00;
	wr.wr.rdma.rkey = pair.mr->rkey ^ (bad_rkey ? 0x55aa00 : 0);
	wr.wr.rdma.remote_addr =
		(uintptr_t)pair.buffer + (beyond ? PAIR_BUFFER - 100 : PAIR_BUFFER / 2);
	if (recv_length)
		for (i = 0; i < 2; i++)
			MUST(post_recv(&pair, 1, 50 + (uint64_t)i, 50000, recv_length));
	send_wr(&pair, title, &wr);
	wr.wr_id = 2;
	send_wr(&pair, "  the next one", &wr);
	/* Requests that fail before they are sent have no effect on the peer. */
	if (recv_length && !bad_lkey) {
		wc = wait_wc(pair.cq[1]);
		show_wc("  at the peer", &wc);
	}
	free_pair(&pair);
}

static void not_ready(void)
{
	struct ibv_context *context = open_rxe();
	struct ibv_pd *pd = MUST_PTR(ibv_alloc_pd(context));
	struct ibv_cq *cq = MUST_PTR(ibv_create_cq(context, 64, NULL, NULL, 0));
	struct ibv_qp_init_attr init = init_attr(cq, IBV_QPT_RC);
	struct ibv_qp *qp = MUST_PTR(ibv_create_qp(pd, &init));
	struct ibv_qp *other = MUST_PTR(ibv_create_qp(pd, &init));
	struct ibv_recv_wr recv = { .wr_id = 3 }, *bad_recv = NULL;
	struct ibv_send_wr send = { .wr_id = 4, .opcode = IBV_WR_SEND }, *bad_send = NULL;
	struct ibv_sge sges[5] = { 0 };
	struct ibv_send_wr list[3] = { { .wr_id = 1, .next = &list[1], .opcode = IBV_WR_SEND },
				       { .wr_id = 2, .next = &list[2], .sg_list = sges,
					 .num_sge = 5, .opcode = IBV_WR_SEND },
				       { .wr_id = 3, .opcode = IBV_WR_SEND } };
	struct ibv_qp_attr attr = attr_init();
	struct ibv_wc wc;
	int i;

	out("-- not ready, full, wrong");
	RC(ibv_post_recv(qp, &recv, &bad_recv));
	MUST(ibv_modify_qp(qp, &attr, RC_INIT_MASK));
	/* A caller that takes these has one more to flush. */
	MUST(ibv_modify_qp(other, &attr, RC_INIT_MASK));
	RC(ibv_post_recv(other, NULL, &bad_recv));
	RC(ibv_post_send(other, NULL, &bad_send));
	RC(ibv_post_recv(other, &recv, NULL));
	RC(ibv_post_send(other, &send, NULL));
	MUST(ibv_destroy_qp(other));
	for (i = 0; i < 31; i++)
		MUST(ibv_post_recv(qp, &recv, &bad_recv));
	RC(ibv_post_recv(qp, &recv, &bad_recv));
	out("bad reported %d", bad_recv == &recv);
	to_error(qp);
	for (i = 0; i < 31; i++) {
		wc = wait_wc(cq);
		expect(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 3);
	}
	RC(ibv_post_send(qp, list, &bad_send));
	out("bad is the second %d", bad_send == &list[1]);
	wc = wait_wc(cq);
	show_wc("flushed", &wc);
	COUNT(ibv_poll_cq(cq, 0, &wc));
	COUNT(ibv_poll_cq(cq, 1, &wc));
	MUST(ibv_destroy_qp(qp));
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_dealloc_pd(pd));
	MUST(ibv_close_device(context));
}

int main(void)
{
	sends(IBV_QPT_RC);
	sends(IBV_QPT_UC);
	pieces();
	inlined();
	remote(IBV_QPT_RC);
	remote(IBV_QPT_UC);
	atomics();
	out("-- failures");
	fails("send with a bad key", IBV_WR_SEND, true, false, false, 4096);
	fails("send into too little", IBV_WR_SEND, false, false, false, 64);
	fails("write with a bad key", IBV_WR_RDMA_WRITE, false, true, false, 0);
	fails("write beyond the end", IBV_WR_RDMA_WRITE, false, false, true, 0);
	fails("write from a bad key", IBV_WR_RDMA_WRITE, true, false, false, 0);
	fails("read with a bad key", IBV_WR_RDMA_READ, false, true, false, 0);
	fails("read beyond the end", IBV_WR_RDMA_READ, false, false, true, 0);
	not_ready();
	return done();
}
