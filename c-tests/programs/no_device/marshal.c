/*
 * Conversion from and to the kernel's structures: every member gets a value of
 * its own, and members that the function leaves alone keep theirs.
 */
#include "check.h"

#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

/* Bytes that differ from their neighbours, from a starting value. */
static void pattern(void *object, size_t size, unsigned int start)
{
	unsigned char *bytes = object;
	size_t i;

	for (i = 0; i < size; i++)
		bytes[i] = (unsigned char)(start + i * 7);
}

static void show(const char *name, const void *member, size_t size)
{
	const unsigned char *bytes = member;
	char text[200] = "";
	size_t i, used = 0;

	for (i = 0; i < size && used < sizeof(text) - 3; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%02x", bytes[i]);
	out("  %s %s", name, text);
}

#define SHOW(object, member) show(#member, &(object)->member, sizeof((object)->member))

static void show_ah(const struct ibv_ah_attr *ah)
{
	SHOW(ah, grh.dgid);
	SHOW(ah, grh.flow_label);
	SHOW(ah, grh.sgid_index);
	SHOW(ah, grh.hop_limit);
	SHOW(ah, grh.traffic_class);
	SHOW(ah, dlid);
	SHOW(ah, sl);
	SHOW(ah, src_path_bits);
	SHOW(ah, static_rate);
	SHOW(ah, is_global);
	SHOW(ah, port_num);
}

static void copy_ah(unsigned int start, int fill)
{
	struct ib_uverbs_ah_attr from;
	struct ibv_ah_attr to;

	pattern(&from, sizeof(from), start);
	memset(&to, fill, sizeof(to));
	ibv_copy_ah_attr_from_kern(&to, &from);
	out("ah_attr from %u", start);
	show_ah(&to);
}

static void copy_qp(unsigned int start, int fill)
{
	struct ib_uverbs_qp_attr from;
	struct ibv_qp_attr to;

	pattern(&from, sizeof(from), start);
	memset(&to, fill, sizeof(to));
	ibv_copy_qp_attr_from_kern(&to, &from);
	out("qp_attr from %u over %d", start, fill);
	SHOW(&to, qp_state);
	SHOW(&to, cur_qp_state);
	SHOW(&to, path_mtu);
	SHOW(&to, path_mig_state);
	SHOW(&to, qkey);
	SHOW(&to, rq_psn);
	SHOW(&to, sq_psn);
	SHOW(&to, dest_qp_num);
	SHOW(&to, qp_access_flags);
	SHOW(&to, cap);
	show_ah(&to.ah_attr);
	show_ah(&to.alt_ah_attr);
	SHOW(&to, pkey_index);
	SHOW(&to, alt_pkey_index);
	SHOW(&to, en_sqd_async_notify);
	SHOW(&to, sq_draining);
	SHOW(&to, max_rd_atomic);
	SHOW(&to, max_dest_rd_atomic);
	SHOW(&to, min_rnr_timer);
	SHOW(&to, port_num);
	SHOW(&to, timeout);
	SHOW(&to, retry_cnt);
	SHOW(&to, rnr_retry);
	SHOW(&to, alt_port_num);
	SHOW(&to, alt_timeout);
	SHOW(&to, rate_limit);
}

#define SHOW_PATH(path)                                                            \
	do {                                                                       \
		SHOW(path, dgid);                                                  \
		SHOW(path, sgid);                                                  \
		SHOW(path, dlid);                                                  \
		SHOW(path, slid);                                                  \
		SHOW(path, raw_traffic);                                           \
		SHOW(path, flow_label);                                            \
		SHOW(path, hop_limit);                                             \
		SHOW(path, traffic_class);                                         \
		SHOW(path, reversible);                                            \
		SHOW(path, numb_path);                                             \
		SHOW(path, pkey);                                                  \
		SHOW(path, sl);                                                    \
		SHOW(path, mtu_selector);                                          \
		SHOW(path, mtu);                                                   \
		SHOW(path, rate_selector);                                         \
		SHOW(path, rate);                                                  \
		SHOW(path, packet_life_time_selector);                             \
		SHOW(path, packet_life_time);                                      \
		SHOW(path, preference);                                            \
	} while (0)

static void copy_path(unsigned int start, int fill)
{
	struct ib_user_path_rec kern, back;
	struct ibv_sa_path_rec path;

	pattern(&kern, sizeof(kern), start);
	memset(&path, fill, sizeof(path));
	ibv_copy_path_rec_from_kern(&path, &kern);
	out("path record from %u", start);
	SHOW_PATH(&path);

	pattern(&path, sizeof(path), start + 3);
	memset(&back, fill, sizeof(back));
	ibv_copy_path_rec_to_kern(&back, &path);
	out("path record to the kernel from %u", start);
	SHOW_PATH(&back);
}

int main(void)
{
	copy_ah(1, 0);
	copy_ah(200, 0xff);
	copy_qp(1, 0);
	copy_qp(100, 0xff);
	copy_path(1, 0);
	copy_path(77, 0xff);
	return done();
}
