/* Datagrams to a multicast group: one process sends, one receives.
 *
 *     cc -o multicast multicast.c -libverbs && ./multicast [DEVICE]
 *
 * Shown: unreliable datagrams, the 40 bytes in front of each, attaching to a group, address
 * handles. Over RoCE a group is an IPv4 or IPv6 multicast address, written as a GID. */
#include "example.h"

enum { QKEY = 0x11111111, GRH = 40, SIZE = 64, TOTAL = 8, MULTICAST_QPN = 0xffffff };

/* 239.1.2.3, IPv4 mapped. */
static const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	char memory[TOTAL * (GRH + SIZE)];
};

static void make(struct end *end, const char *device)
{
	end->context = open_device(device);
	end->pd = ibv_alloc_pd(end->context);
	check(end->pd != NULL, "ibv_alloc_pd");
	end->cq = ibv_create_cq(end->context, 32, NULL, NULL, 0);
	check(end->cq != NULL, "ibv_create_cq");
	end->mr = ibv_reg_mr(end->pd, end->memory, sizeof end->memory, IBV_ACCESS_LOCAL_WRITE);
	check(end->mr != NULL, "ibv_reg_mr");
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.qp_type = IBV_QPT_UD,
		.cap = { .max_send_wr = TOTAL, .max_recv_wr = TOTAL, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	end->qp = ibv_create_qp(end->pd, &init);
	check(end->qp != NULL, "ibv_create_qp");
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY };
	check_errno(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		    "ibv_modify_qp to INIT");
	attr.qp_state = IBV_QPS_RTR;
	check_errno(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE), "ibv_modify_qp to RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0;
	check_errno(ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "ibv_modify_qp to RTS");
}

static void destroy(struct end *end)
{
	check_errno(ibv_destroy_qp(end->qp), "ibv_destroy_qp");
	check_errno(ibv_dereg_mr(end->mr), "ibv_dereg_mr");
	check_errno(ibv_destroy_cq(end->cq), "ibv_destroy_cq");
	check_errno(ibv_dealloc_pd(end->pd), "ibv_dealloc_pd");
	check_errno(ibv_close_device(end->context), "ibv_close_device");
}

static void receiver(int peer, const char *device)
{
	static struct end end;
	make(&end, device);
	check_errno(ibv_attach_mcast(end.qp, &group, 0), "ibv_attach_mcast");
	for (int i = 0; i < TOTAL; i++) {
		/* Each request needs room for the network header in front of the data. */
		struct ibv_sge sge = {
			.addr = (uintptr_t)end.memory + (size_t)i * (GRH + SIZE),
			.length = GRH + SIZE,
			.lkey = end.mr->lkey,
		};
		struct ibv_recv_wr wr = { .wr_id = (uint64_t)i, .sg_list = &sge, .num_sge = 1 }, *bad;
		check_errno(ibv_post_recv(end.qp, &wr, &bad), "ibv_post_recv");
	}
	barrier(peer);
	for (int i = 0; i < TOTAL; i++) {
		struct ibv_wc wc = wait_for_completion(end.cq);
		const char *data = end.memory + wc.wr_id * (GRH + SIZE) + GRH;
		if (!(wc.wc_flags & IBV_WC_GRH) || wc.byte_len != GRH + SIZE) {
			fprintf(stderr, "%u bytes, flags %x\n", wc.byte_len, wc.wc_flags);
			exit(1);
		}
		printf("%s\n", data);
	}
	fflush(stdout);
	barrier(peer);
	check_errno(ibv_detach_mcast(end.qp, &group, 0), "ibv_detach_mcast");
	destroy(&end);
}

static void sender(int peer, const char *device)
{
	static struct end end;
	make(&end, device);
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = PORT,
		.grh = { .dgid = group, .sgid_index = GID_INDEX, .hop_limit = 1 },
	};
	struct ibv_ah *ah = ibv_create_ah(end.pd, &attr);
	check(ah != NULL, "ibv_create_ah");
	barrier(peer);
	for (int i = 0; i < TOTAL; i++) {
		snprintf(end.memory, SIZE, "datagram %d", i);
		struct ibv_sge sge = { .addr = (uintptr_t)end.memory, .length = SIZE, .lkey = end.mr->lkey };
		struct ibv_send_wr wr = {
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_SEND,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.ud = { .ah = ah, .remote_qpn = MULTICAST_QPN, .remote_qkey = QKEY },
		}, *bad;
		check_errno(ibv_post_send(end.qp, &wr, &bad), "ibv_post_send");
		wait_for_completion(end.cq);
	}
	barrier(peer);
	check_errno(ibv_destroy_ah(ah), "ibv_destroy_ah");
	destroy(&end);
}

int main(int argc, char **argv)
{
	return two_processes(sender, receiver, argc > 1 ? argv[1] : NULL);
}
