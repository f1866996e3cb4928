/* The work request functions of an extended queue pair, and the extended way to poll. */
#include "rdma.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq_ex *cq;
static struct ibv_qp *qp[2];
static struct ibv_qp_ex *ex;
static struct ibv_mr *mr;
static unsigned char memory[16384];

static struct ibv_qp *make(enum ibv_qp_type type, uint64_t operations)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = ibv_cq_ex_to_cq(cq),
		.recv_cq = ibv_cq_ex_to_cq(cq),
		.qp_type = type,
		.cap = { 16, 16, 4, 4, 64 },
		.pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = operations,
	};

	return MUST_PTR(ibv_create_qp_ex(context, &attr));
}

/* One completion by the extended calls. */
static void show_next(const char *title)
{
	struct ibv_poll_cq_attr attr = { 0 };
	unsigned int flags;
	int ret;

	while ((ret = ibv_start_poll(cq, &attr)) == ENOENT)
		sched_yield();
	expect(!ret);
	if (cq->status != IBV_WC_SUCCESS) {
		out("%s: id %lu %s", title, (unsigned long)cq->wr_id,
		    ibv_wc_status_str(cq->status));
		ibv_end_poll(cq);
		return;
	}
	flags = ibv_wc_read_wc_flags(cq);
	out("%s: id %lu opcode %d flags %x", title, (unsigned long)cq->wr_id,
	    ibv_wc_read_opcode(cq), flags);
	expect(ibv_wc_read_qp_num(cq) == qp[0]->qp_num || ibv_wc_read_qp_num(cq) == qp[1]->qp_num);
	if (ibv_wc_read_opcode(cq) & IBV_WC_RECV)
		out("  length %u slid %u sl %u bits %u", ibv_wc_read_byte_len(cq),
		    ibv_wc_read_slid(cq), ibv_wc_read_sl(cq), ibv_wc_read_dlid_path_bits(cq));
	if (flags & IBV_WC_WITH_IMM)
		out("  value %x", be32toh(ibv_wc_read_imm_data(cq)));
	if (flags & IBV_WC_WITH_INV)
		out("  key invalidated %d", ibv_wc_read_invalidated_rkey(cq) != 0);
	ibv_end_poll(cq);
}

static void receive(uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)memory + 8192, 4096, mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	MUST(ibv_post_recv(qp[1], &wr, &bad));
}

static void next(uint64_t id)
{
	ex->wr_id = id;
	ex->wr_flags = IBV_SEND_SIGNALED;
}

/* Completions of the two sides come in any order: ids of the peer are above 100. */
static void show_both(const char *title)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int seen = 0, ret;
	uint32_t length = 0, value = 0;
	bool with_value = false;

	while (seen < 2) {
		while ((ret = ibv_start_poll(cq, &attr)) == ENOENT)
			sched_yield();
		expect(!ret);
		if (cq->status != IBV_WC_SUCCESS)
			out("%s: %s", cq->wr_id > 100 ? "peer" : "own",
			    ibv_wc_status_str(cq->status));
		else if (cq->wr_id > 100) {
			length = ibv_wc_read_byte_len(cq);
			with_value = ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM;
			if (with_value)
				value = be32toh(ibv_wc_read_imm_data(cq));
		}
		seen++;
		ibv_end_poll(cq);
	}
	out("%s: length %u value %d %x", title, length, with_value, value);
}

static void sends(void)
{
	struct ibv_data_buf parts[2] = { { memory, 10 }, { memory + 100, 20 } };

	receive(101);
	ibv_wr_start(ex);
	next(1);
	ibv_wr_send(ex);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory, 300);
	RC(ibv_wr_complete(ex));
	show_both("send");

	receive(102);
	ibv_wr_start(ex);
	next(2);
	ibv_wr_send_imm(ex, htobe32(0x77));
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory + 50, 160);
	RC(ibv_wr_complete(ex));
	show_both("send with value");

	receive(103);
	ibv_wr_start(ex);
	/* rxe of 44 needs the flag as well. */
	next(3);
	ex->wr_flags |= IBV_SEND_INLINE;
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, memory, 64);
	RC(ibv_wr_complete(ex));
	show_both("inline");

	receive(104);
	ibv_wr_start(ex);
	next(4);
	ex->wr_flags |= IBV_SEND_INLINE;
	ibv_wr_send(ex);
	ibv_wr_set_inline_data_list(ex, 2, parts);
	RC(ibv_wr_complete(ex));
	show_both("inline list");

	ibv_wr_start(ex);
	next(5);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, memory, 65);
	RC(ibv_wr_complete(ex));
	ibv_wr_start(ex);
	next(6);
	ibv_wr_send(ex);
	ibv_wr_abort(ex);
}

static void remote(void)
{
	uint64_t *word = (uint64_t *)(memory + 8000);

	ibv_wr_start(ex);
	next(10);
	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)memory + 12000);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory, 500);
	RC(ibv_wr_complete(ex));
	show_next("write");
	expect(!memcmp(memory, memory + 12000, 500));
	receive(105);
	ibv_wr_start(ex);
	next(11);
	ibv_wr_rdma_write_imm(ex, mr->rkey, (uintptr_t)memory + 12000, htobe32(5));
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory, 500);
	RC(ibv_wr_complete(ex));
	show_both("write with value");
	ibv_wr_start(ex);
	next(12);
	ibv_wr_rdma_read(ex, mr->rkey, (uintptr_t)memory);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory + 13000, 500);
	RC(ibv_wr_complete(ex));
	show_next("read");
	expect(!memcmp(memory, memory + 13000, 500));
	*word = 1;
	ibv_wr_start(ex);
	next(13);
	ibv_wr_atomic_fetch_add(ex, mr->rkey, (uintptr_t)word, 4);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory + 7000, 8);
	RC(ibv_wr_complete(ex));
	show_next("add");
	ibv_wr_start(ex);
	next(14);
	ibv_wr_atomic_cmp_swp(ex, mr->rkey, (uintptr_t)word, 5, 9);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory + 7000, 8);
	RC(ibv_wr_complete(ex));
	show_next("swap");
	out("word %lu", (unsigned long)*word);
}

static void windows(void)
{
	struct ibv_mw *mw = MUST_PTR(ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	struct ibv_mw_bind_info info = {
		.mr = mr,
		.addr = (uintptr_t)memory,
		.length = 4096,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	uint32_t rkey = ibv_inc_rkey(mw->rkey);

	ibv_wr_start(ex);
	next(20);
	ibv_wr_bind_mw(ex, mw, rkey, &info);
	RC(ibv_wr_complete(ex));
	show_next("bind");
	/* Like ibv_bind_mw: a program that binds by a work request notes the new key itself. */
	mw->rkey = rkey;
	ibv_wr_start(ex);
	next(21);
	ibv_wr_local_inv(ex, rkey);
	RC(ibv_wr_complete(ex));
	show_next("invalidate");
	rkey = ibv_inc_rkey(rkey);
	ibv_wr_start(ex);
	next(22);
	ibv_wr_bind_mw(ex, mw, rkey, &info);
	RC(ibv_wr_complete(ex));
	show_next("bind again");
	RC(ibv_dealloc_mw(mw));
}

/* Last, because it may end the queue pair: rxe of 44 takes lists in another way. */
static void piece_list(void)
{
	struct ibv_sge list[2] = { { (uintptr_t)memory, 100, mr->lkey },
				   { (uintptr_t)memory + 4000, 60, mr->lkey } };

	ibv_wr_start(ex);
	next(50);
	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)memory + 12000);
	ibv_wr_set_sge_list(ex, 2, list);
	RC(ibv_wr_complete(ex));
	show_next("list of pieces");
}

/* Several requests in one start and complete: all or none. */
static void batch(void)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int i;

	ibv_wr_start(ex);
	for (i = 0; i < 4; i++) {
		next(30 + (uint64_t)i);
		ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)memory + 12000);
		ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory, 8);
	}
	RC(ibv_wr_complete(ex));
	/* Long enough for all four; if not, each is polled by itself. */
	usleep(200000);
	i = 0;
	while (i < 4) {
		bool more = true;

		if (ibv_start_poll(cq, &attr))
			continue;
		while (more) {
			out("batch: id %lu status %d error %u", (unsigned long)cq->wr_id, cq->status,
			    cq->status ? ibv_wc_read_vendor_err(cq) : 0);
			i++;
			if (i == 4)
				break;
			more = !ibv_next_poll(cq);
		}
		/* rxe has ended the polling by itself when there was no next one. */
		if (more)
			ibv_end_poll(cq);
	}
}

static void datagrams(void)
{
	struct ibv_qp *ud[2];
	struct ibv_ah_attr address = own_address(context);
	struct ibv_ah *ah = MUST_PTR(ibv_create_ah(pd, &address));
	struct ibv_qp *saved[2] = { qp[0], qp[1] };
	int i;

	for (i = 0; i < 2; i++) {
		ud[i] = make(IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
		ready_ud(ud[i]);
		qp[i] = ud[i];
	}
	ex = MUST_PTR(ibv_qp_to_qp_ex(ud[0]));
	receive(106);
	ibv_wr_start(ex);
	next(40);
	ibv_wr_send_imm(ex, htobe32(0x99));
	ibv_wr_set_ud_addr(ex, ah, ud[1]->qp_num, QKEY);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)memory, 200);
	RC(ibv_wr_complete(ex));
	show_both("datagram");
	for (i = 0; i < 2; i++) {
		MUST(ibv_destroy_qp(ud[i]));
		qp[i] = saved[i];
	}
	MUST(ibv_destroy_ah(ah));
}

int main(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_poll_cq_attr poll = { 0 };
	int i;

	for (i = 0; i < 4096; i++)
		memory[i] = (unsigned char)(i * 3);
	context = open_rxe();
	pd = MUST_PTR(ibv_alloc_pd(context));
	mr = MUST_PTR(ibv_reg_mr(pd, memory, sizeof(memory), ALL_ACCESS));
	cq = MUST_PTR(ibv_create_cq_ex(context, &attr));
	RC(ibv_start_poll(cq, &poll));
	for (i = 0; i < 2; i++)
		qp[i] = make(IBV_QPT_RC,
			     IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
				     IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
				     IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				     IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
				     IBV_QP_EX_WITH_SEND_WITH_INV);
	for (i = 0; i < 2; i++)
		connect_qp(qp[i], qp[!i]->qp_num);
	ex = MUST_PTR(ibv_qp_to_qp_ex(qp[0]));
	out("same object %d", (void *)ex == (void *)qp[0]);
	sends();
	remote();
	windows();
	batch();
	datagrams();
	ex = MUST_PTR(ibv_qp_to_qp_ex(qp[0]));
	piece_list();
	for (i = 0; i < 2; i++)
		MUST(ibv_destroy_qp(qp[i]));
	RC(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	MUST(ibv_dereg_mr(mr));
	RC(ibv_dealloc_pd(pd));
	RC(ibv_close_device(context));
	return done();
}
