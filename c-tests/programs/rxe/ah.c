/*
 * Address handles: made from attributes, from a completion with every kind of
 * header, and datagrams sent through them.
 */
#include "rdma.h"

#include <netinet/ip.h>

static struct pair pair;

static void show_attr(const struct ibv_ah_attr *ah)
{
	out("  global %u index %u hops %u class %u label %x port %u sl %u lid %u bits %u rate %u",
	    ah->is_global, ah->grh.sgid_index, ah->grh.hop_limit, ah->grh.traffic_class,
	    ah->grh.flow_label, ah->port_num, ah->sl, ah->dlid, ah->src_path_bits,
	    ah->static_rate);
	/* The first GID is made from a random hardware address. */
	if (ah->grh.dgid.raw[0] != 0xfe)
		out("  to %08x %08x %08x %08x", be32toh(*(const __be32 *)&ah->grh.dgid.raw[0]),
		    be32toh(*(const __be32 *)&ah->grh.dgid.raw[4]),
		    be32toh(*(const __be32 *)&ah->grh.dgid.raw[8]),
		    be32toh(*(const __be32 *)&ah->grh.dgid.raw[12]));
}

static void create(const char *title, struct ibv_ah_attr attr)
{
	struct ibv_ah *ah;

	out("%s", title);
	ah = PTR(ibv_create_ah(pair.pd, &attr));
	if (!ah)
		return;
	out("  pd %d context %d", ah->pd == pair.pd, ah->context == pair.context);
	RC(ibv_destroy_ah(ah));
}

static void creates(void)
{
	struct ibv_ah_attr good = own_address(pair.context), attr;
	struct ibv_ah *ah;

	create("good", good);
	attr = good;
	attr.is_global = 0;
	create("not global", attr);
	attr = good;
	attr.port_num = 0;
	create("port 0", attr);
	attr.port_num = 2;
	create("port 2", attr);
	attr = good;
	attr.grh.sgid_index = 200;
	create("empty place in the GID table", attr);
	attr = good;
	attr.grh.sgid_index = 0;
	create("IPv6 source, IPv4 destination", attr);
	attr = good;
	memset(&attr.grh.dgid, 0, sizeof(attr.grh.dgid));
	create("to nowhere", attr);
	attr = good;
	attr.grh.dgid.raw[12] = 224;
	create("to a multicast address", attr);
	attr = good;
	attr.dlid = 0xffff;
	attr.sl = 15;
	attr.static_rate = 255;
	create("fields of InfiniBand", attr);
	attr = good;
	ah = MUST_PTR(ibv_create_ah(pair.pd, &attr));
	RC(ibv_dealloc_pd(pair.pd));
	RC(ibv_destroy_ah(ah));
}

/* The bytes that rxe writes before a datagram: 40, for IPv4 the last 20 are its header. */
static struct ibv_grh ipv4_header(uint32_t from, uint32_t to)
{
	struct ibv_grh grh;
	struct iphdr ip = {
		.version = 4,
		.ihl = 5,
		.tos = 0x20,
		.tot_len = htobe16(100),
		.ttl = 33,
		.protocol = 17,
		.saddr = htobe32(from),
		.daddr = htobe32(to),
	};
	const uint16_t *words = (const uint16_t *)&ip;
	uint32_t sum = 0;
	int i;

	for (i = 0; i < 10; i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	ip.check = (uint16_t)~((sum & 0xffff) + (sum >> 16));
	memset(&grh, 0, sizeof(grh));
	memcpy((char *)&grh + 20, &ip, sizeof(ip));
	return grh;
}

static struct ibv_grh ipv6_header(uint8_t next_header)
{
	struct ibv_grh grh;

	memset(&grh, 0, sizeof(grh));
	grh.version_tclass_flow = htobe32(6U << 28 | 0x55U << 20 | 0x12345);
	grh.next_hdr = next_header;
	grh.hop_limit = 44;
	MUST(ibv_query_gid(pair.context, 1, 0, &grh.dgid));
	grh.sgid.raw[0] = 0x20;
	grh.sgid.raw[15] = 0x99;
	return grh;
}

static void init(const char *title, struct ibv_grh grh, unsigned int flags, uint8_t port)
{
	struct ibv_wc wc = { .slid = 7, .sl = 3, .dlid_path_bits = 1, .wc_flags = flags };
	struct ibv_ah_attr attr;
	struct ibv_ah *ah;

	memset(&attr, 0xee, sizeof(attr));
	out("%s", title);
	/* A failed call may leave anything in the attributes. */
	if (!PLACE(ibv_init_ah_from_wc(pair.context, port, &wc, &grh, &attr)))
		show_attr(&attr);
	errno = 0;
	ah = ibv_create_ah_from_wc(pair.pd, &wc, &grh, port);
	out("  handle %s", ah ? "made" : place_error(errno));
	if (ah)
		MUST(ibv_destroy_ah(ah));
}

static void from_completions(void)
{
	const uint32_t own = 0x0a090001, other = 0x0a090002;
	struct ibv_grh grh = ipv4_header(other, own);

	init("IPv4", grh, IBV_WC_GRH, 1);
	init("IPv4, completion without header", grh, 0, 1);
	init("IPv4 on port 2", grh, IBV_WC_GRH, 2);
	((struct iphdr *)((char *)&grh + 20))->check ^= 1;
	init("IPv4 with a wrong sum", grh, IBV_WC_GRH, 1);
	/* Version 6 in the first word as well: the sum decides. */
	grh = ipv4_header(other, own);
	grh.version_tclass_flow = htobe32(6U << 28 | 5);
	init("both versions, right sum", grh, IBV_WC_GRH, 1);
	((struct iphdr *)((char *)&grh + 20))->check ^= 1;
	init("both versions, wrong sum", grh, IBV_WC_GRH, 1);
	((struct iphdr *)((char *)&grh + 20))->ihl = 6;
	init("both versions, longer header", grh, IBV_WC_GRH, 1);
	init("IPv4 to another", ipv4_header(own, other), IBV_WC_GRH, 1);
	init("IPv4 to a multicast address", ipv4_header(other, 0xe0000001), IBV_WC_GRH, 1);
	init("IPv6 over UDP", ipv6_header(17), IBV_WC_GRH, 1);
	init("IPv6 with the InfiniBand header", ipv6_header(0x1b), IBV_WC_GRH, 1);
	init("IPv6 with another header", ipv6_header(6), IBV_WC_GRH, 1);
	grh = ipv6_header(17);
	grh.dgid.raw[0] = 0xff;
	init("IPv6 to a multicast address", grh, IBV_WC_GRH, 1);
	grh.dgid.raw[0] = 0x30;
	init("IPv6 to another", grh, IBV_WC_GRH, 1);
	memset(&grh, 0, sizeof(grh));
	init("no version", grh, IBV_WC_GRH, 1);
}

/* A datagram, and the answer through a handle made from its completion. */
static void there_and_back(int index)
{
	struct ibv_ah_attr attr = own_address(pair.context);
	struct ibv_sge sge = piece(&pair, 0, 300);
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	struct ibv_grh grh;
	struct ibv_wc wc;

	attr.grh.sgid_index = (uint8_t)index;
	MUST(ibv_query_gid(pair.context, 1, index, &attr.grh.dgid));
	MUST(post_recv(&pair, 1, 10, 4096, 4096));
	wr.wr.ud.ah = MUST_PTR(ibv_create_ah(pair.pd, &attr));
	wr.wr.ud.remote_qpn = pair.qp[1]->qp_num;
	wr.wr.ud.remote_qkey = QKEY;
	MUST(ibv_post_send(pair.qp[0], &wr, &bad));
	wc = wait_wc(pair.cq[0]);
	show_wc("sent", &wc);
	wc = wait_wc(pair.cq[1]);
	show_wc("received", &wc);
	expect(wc.src_qp == pair.qp[0]->qp_num);
	MUST(ibv_destroy_ah(wr.wr.ud.ah));
	memcpy(&grh, pair.buffer + 4096, sizeof(grh));
	MUST(ibv_init_ah_from_wc(pair.context, 1, &wc, &grh, &attr));
	out("answer goes out from index %u", attr.grh.sgid_index);

	MUST(post_recv(&pair, 0, 11, 8192, 4096));
	wr.wr_id = 2;
	wr.wr.ud.ah = MUST_PTR(ibv_create_ah_from_wc(pair.pd, &wc, &grh, 1));
	wr.wr.ud.remote_qpn = wc.src_qp;
	MUST(ibv_post_send(pair.qp[1], &wr, &bad));
	wc = wait_wc(pair.cq[1]);
	show_wc("answered", &wc);
	wc = wait_wc(pair.cq[0]);
	show_wc("received", &wc);
	MUST(ibv_destroy_ah(wr.wr.ud.ah));
}

int main(void)
{
	expect(!system("ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 dev v0 nud permanent"));
	make_pair(&pair, IBV_QPT_UD);
	creates();
	from_completions();
	there_and_back(IPV4_INDEX);
	there_and_back(0);
	free_pair(&pair);
	expect(!system("ip neigh del 10.9.0.2 dev v0"));
	return done();
}
