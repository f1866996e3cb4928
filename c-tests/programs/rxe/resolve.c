/* ibv_resolve_eth_l2_from_gid: neighbours that are known, unknown, impossible. */
#include "rdma.h"

#include <arpa/inet.h>

#define OWN "::ffff:10.9.0.1"

static struct ibv_context *context;

static void resolve(const char *title, const char *to, int index, uint8_t port, bool want_vid)
{
	struct ibv_ah_attr attr = {
		.is_global = 1,
		.port_num = port,
		.grh = { .sgid_index = (uint8_t)index },
	};
	uint8_t mac[6];
	uint16_t vid = 0x7777;
	int ret;

	memset(mac, 0xee, sizeof(mac));
	expect(inet_pton(AF_INET6, to, &attr.grh.dgid) == 1);
	ret = ibv_resolve_eth_l2_from_gid(context, &attr, mac, want_vid ? &vid : NULL);
	/* The return value is the answer; errno is whatever was left on the way. */
	out("%s: %s%s", title, ret < 0 ? "-" : "", errno_name(ret < 0 ? -ret : ret));
	if (ret)
		return;
	out("  vid %x", want_vid ? vid : 0);
	/* A device's own hardware address is random. */
	if (strcmp(to, OWN))
		out("  mac %02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
		    mac[5]);
}

int main(void)
{
	int before;

	context = open_rxe();
	expect(!system("ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 dev v0 nud permanent"));
	expect(!system("ip -6 neigh replace fe80::99 lladdr 02:00:00:00:00:99 dev v0 nud permanent"));
	before = open_descriptors();
	resolve("known neighbour", "::ffff:10.9.0.2", IPV4_INDEX, 1, true);
	resolve("known neighbour, no vid", "::ffff:10.9.0.2", IPV4_INDEX, 1, false);
	resolve("own address", OWN, IPV4_INDEX, 1, true);
	resolve("multicast address", "::ffff:224.0.0.9", IPV4_INDEX, 1, true);
	resolve("IPv6 neighbour", "fe80::99", 0, 1, true);
	resolve("IPv6 multicast address", "ff02::9", 0, 1, true);
	resolve("no route", "::ffff:172.31.0.1", IPV4_INDEX, 1, true);
	resolve("empty place in the GID table", "::ffff:10.9.0.2", 200, 1, true);
	resolve("port 2", "::ffff:10.9.0.2", IPV4_INDEX, 2, true);
	resolve("neighbour that does not answer", "::ffff:10.9.0.99", IPV4_INDEX, 1, true);
	out("descriptors more %d", open_descriptors() - before);
	expect(!system("ip neigh del 10.9.0.2 dev v0"));
	expect(!system("ip -6 neigh del fe80::99 dev v0"));
	RC(ibv_close_device(context));
	return done();
}
