/* Queries of device, port, GID and P_Key, with good and bad places. */
#include "rdma.h"

#include <dlfcn.h>

static void show_device(const struct ibv_device_attr *attr)
{
	out("fw '%s' guids %d %d", attr->fw_ver, !!attr->node_guid, !!attr->sys_image_guid);
	out("mr %lx pages %lx", (unsigned long)attr->max_mr_size,
	    (unsigned long)attr->page_size_cap);
	out("vendor %x part %x hw %x", attr->vendor_id, attr->vendor_part_id, attr->hw_ver);
	out("qp %d wr %d caps %x", attr->max_qp, attr->max_qp_wr, attr->device_cap_flags);
	out("sge %d rd %d cq %d cqe %d", attr->max_sge, attr->max_sge_rd, attr->max_cq,
	    attr->max_cqe);
	out("mr %d pd %d", attr->max_mr, attr->max_pd);
	out("rd_atom %d %d %d %d %d", attr->max_qp_rd_atom, attr->max_ee_rd_atom,
	    attr->max_res_rd_atom, attr->max_qp_init_rd_atom, attr->max_ee_init_rd_atom);
	out("atomic %d", attr->atomic_cap);
	out("ee %d rdd %d mw %d raw %d %d", attr->max_ee, attr->max_rdd, attr->max_mw,
	    attr->max_raw_ipv6_qp, attr->max_raw_ethy_qp);
	out("mcast %d %d %d", attr->max_mcast_grp, attr->max_mcast_qp_attach,
	    attr->max_total_mcast_qp_attach);
	out("ah %d fmr %d %d", attr->max_ah, attr->max_fmr, attr->max_map_per_fmr);
	out("srq %d %d %d", attr->max_srq, attr->max_srq_wr, attr->max_srq_sge);
	out("pkeys %d ack %d ports %d", attr->max_pkeys, attr->local_ca_ack_delay,
	    attr->phys_port_cnt);
}

static void device(struct ibv_context *context)
{
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex ex;
	struct ibv_query_device_ex_input input = { .comp_mask = 0 };

	memset(&attr, 0xff, sizeof(attr));
	RC(ibv_query_device(context, &attr));
	show_device(&attr);

	memset(&ex, 0xff, sizeof(ex));
	RC(ibv_query_device_ex(context, NULL, &ex));
	show_device(&ex.orig_attr);
	out("comp_mask %x", ex.comp_mask);
	out("odp %lx %x %x %x", (unsigned long)ex.odp_caps.general_caps,
	    ex.odp_caps.per_transport_caps.rc_odp_caps,
	    ex.odp_caps.per_transport_caps.uc_odp_caps,
	    ex.odp_caps.per_transport_caps.ud_odp_caps);
	out("clock %lx %lx", (unsigned long)ex.completion_timestamp_mask,
	    (unsigned long)ex.hca_core_clock);
	out("caps %lx", (unsigned long)ex.device_cap_flags_ex);
	out("tso %u %x rss %x", ex.tso_caps.max_tso, ex.tso_caps.supported_qpts,
	    ex.rss_caps.supported_qpts);
	out("wq %u raw %x", ex.max_wq_type_rq, ex.raw_packet_caps);
	out("tm %u %u %x %u %u", ex.tm_caps.max_rndv_hdr_size, ex.tm_caps.max_num_tags,
	    ex.tm_caps.flags, ex.tm_caps.max_ops, ex.tm_caps.max_sge);
	out("cq moderation %u %u", ex.cq_mod_caps.max_cq_count, ex.cq_mod_caps.max_cq_period);
	out("dm %lu pci %x ports %u", (unsigned long)ex.max_dm_size, ex.pci_atomic_caps.fetch_add,
	    ex.phys_port_cnt_ex);
	RC(ibv_query_device_ex(context, &input, &ex));
	input.comp_mask = 1;
	RC(ibv_query_device_ex(context, &input, &ex));
	out("through the table of the context: %s",
	    context->ops._compat_query_device ? "there" : "missing");
}

static void show_port(const struct ibv_port_attr *attr)
{
	out("state %s mtu %d %d gids %d caps %x", ibv_port_state_str(attr->state),
	    attr->max_mtu, attr->active_mtu, attr->gid_tbl_len, attr->port_cap_flags);
	/* Not how many Q_Keys were wrong: programs that ran before have sent such. */
	out("msg %x bad %u pkeys %u lid %u sm %u", attr->max_msg_sz, attr->bad_pkey_cntr,
	    attr->pkey_tbl_len, attr->lid, attr->sm_lid);
	out("lmc %u vl %u sl %u timeout %u init %u", attr->lmc, attr->max_vl_num, attr->sm_sl,
	    attr->subnet_timeout, attr->init_type_reply);
	out("width %u speed %u phys %u link %u flags %x", attr->active_width,
	    attr->active_speed, attr->phys_state, attr->link_layer, attr->flags);
}

static void port(struct ibv_context *context)
{
	static const uint8_t ports[] = { 0, 1, 2, 255 };
	int (*exported)(struct ibv_context *, uint8_t, struct _compat_ibv_port_attr *) =
		ibv_query_port;
	/* Old programs pass 48 bytes. The rest must remain unchanged. */
	union {
		struct ibv_port_attr attr;
		unsigned char bytes[128];
	} old;
	size_t i;

	for (i = 0; i < ARRAY_LEN(ports); i++) {
		struct ibv_port_attr attr;

		memset(&attr, 0xff, sizeof(attr));
		out("port %u", ports[i]);
		if (!RC(ibv_query_port(context, ports[i], &attr))) {
			show_port(&attr);
			out("caps2 %x", attr.port_cap_flags2);
		}
		RC(___ibv_query_port(context, ports[i], &attr));
	}
	memset(&old, 0xee, sizeof(old));
	RC(exported(context, 1, (struct _compat_ibv_port_attr *)&old));
	show_port(&old.attr);
	for (i = 48; i < sizeof(old); i++)
		expect(old.bytes[i] == 0xee);
	memset(&old, 0xee, sizeof(old));
	RC(exported(context, 9, (struct _compat_ibv_port_attr *)&old));
	for (i = 48; i < sizeof(old); i++)
		expect(old.bytes[i] == 0xee);
}

static void show_gid(const union ibv_gid *gid)
{
	static const union ibv_gid none;
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (!memcmp(gid, &none, sizeof(none)))
		out("gid zero");
	else if (!memcmp(gid->raw, mapped, sizeof(mapped)))
		out("gid of %u.%u.%u.%u", gid->raw[12], gid->raw[13], gid->raw[14], gid->raw[15]);
	else
		out("gid with prefix %02x%02x", gid->raw[0], gid->raw[1]);
}

static void gids(struct ibv_context *context)
{
	static const int indices[] = { 0, 1, 1000, 1023, 1024, 100000, -1 };
	union ibv_gid gid;
	size_t i;

	for (i = 0; i < ARRAY_LEN(indices); i++) {
		memset(&gid, 0xab, sizeof(gid));
		out("index %d", indices[i]);
		if (!PLACE(ibv_query_gid(context, 1, indices[i], &gid)))
			show_gid(&gid);
	}
	PLACE(ibv_query_gid(context, 0, 0, &gid));
	PLACE(ibv_query_gid(context, 2, 0, &gid));
	PLACE(ibv_query_gid(context, 255, 0, &gid));
}

static void pkeys(struct ibv_context *context)
{
	static const int indices[] = { 0, 1, 63, 64, 100000, -1 };
	__be16 pkey;
	size_t i;

	for (i = 0; i < ARRAY_LEN(indices); i++) {
		pkey = htobe16(0xabcd);
		out("index %d", indices[i]);
		if (!RC(ibv_query_pkey(context, 1, indices[i], &pkey)))
			out("pkey %04x", be16toh(pkey));
	}
	RC(ibv_query_pkey(context, 0, 0, &pkey));
	RC(ibv_query_pkey(context, 2, 0, &pkey));
	COUNT(ibv_get_pkey_index(context, 1, htobe16(0xffff)));
	COUNT(ibv_get_pkey_index(context, 1, htobe16(0x1234)));
	COUNT(ibv_get_pkey_index(context, 1, htobe16(0)));
	COUNT(ibv_get_pkey_index(context, 7, htobe16(0xffff)));
}

/* Exported for programs, though under the private node. */
static void gid_type(struct ibv_context *context)
{
	int (*query)(struct ibv_context *, uint8_t, unsigned int, int *);
	static const unsigned int indices[] = { 0, 1, 1000 };
	void *library = MUST_PTR(dlopen("libibverbs.so.1", RTLD_NOW));
	int type;
	size_t i;

	*(void **)&query = dlvsym(library, "ibv_query_gid_type", "IBVERBS_PRIVATE_34");
	expect(query);
	for (i = 0; i < ARRAY_LEN(indices); i++) {
		type = 77;
		out("type at %u", indices[i]);
		RC(query(context, 1, indices[i], &type));
		out("type %d", type);
	}
	dlclose(library);
}

int main(void)
{
	struct ibv_context *context = open_rxe();
	int before = open_descriptors();

	device(context);
	port(context);
	gids(context);
	pkeys(context);
	gid_type(context);
	out("descriptors more %d", open_descriptors() - before);
	RC(ibv_close_device(context));
	return done();
}
