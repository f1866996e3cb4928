/*
 * Devices in user space, in a separate network namespace: the list preserves their identity, their
 * attributes follow their interface, and their events arrive.
 */
#include "check.h"
#include "network.h"

#include <fcntl.h>
#include <sched.h>

static struct ibv_device *find(struct ibv_device **list, const char *name)
{
	for (; *list; list++)
		if (!strcmp(ibv_get_device_name(*list), name))
			return *list;
	return NULL;
}

/* The device of that name, held by an open context, or NULL. */
static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = MUST_PTR(ibv_get_device_list(NULL));
	struct ibv_device *device = find(list, name);
	struct ibv_context *context = device ? MUST_PTR(ibv_open_device(device)) : NULL;

	ibv_free_device_list(list);
	return context;
}

static void shell(const char *command)
{
	out("%s", command);
	expect(system(command) == 0);
}

static enum ibv_event_type next_event(struct ibv_context *context)
{
	struct ibv_async_event event;

	MUST(ibv_get_async_event(context, &event));
	if (event.event_type != IBV_EVENT_DEVICE_FATAL)
		expect(event.element.port_num == 1);
	ibv_ack_async_event(&event);
	return event.event_type;
}

/* Reads events until one of the type comes. */
static void until(struct ibv_context *context, enum ibv_event_type type)
{
	while (next_event(context) != type)
		;
	out("%s", ibv_event_type_str(type));
}

/* The index of an IPv4 address among the GIDs, or -1. */
static int index_of(struct ibv_context *context, uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	const uint8_t gid[16] = { [10] = 0xff, 0xff, a, b, c, d };
	struct ibv_gid_entry entries[256];
	ssize_t i, count = ibv_query_gid_table(context, entries, 256, 0);

	expect(count >= 0);
	for (i = 0; i < count; i++)
		if (!memcmp(entries[i].gid.raw, gid, sizeof(gid)))
			return (int)entries[i].gid_index;
	return -1;
}

static void show_port(struct ibv_context *context)
{
	struct ibv_port_attr port;

	MUST(ibv_query_port(context, 1, &port));
	out("state %s, phys_state %d, MTU %d of %d, link layer %d, flags %d",
	    ibv_port_state_str(port.state), port.phys_state, port.active_mtu, port.max_mtu,
	    port.link_layer, port.flags);
	out("%d GIDs, %d P_Key, LID %d", port.gid_tbl_len, port.pkey_tbl_len, port.lid);
}

static void lists(void)
{
	struct ibv_device **first, **second, *lo;
	int count;

	setenv("UROCE_DEVICES", "", 1);
	first = ibv_get_device_list(&count);
	expect(!first || !find(first, "uroce_lo"));
	if (first)
		ibv_free_device_list(first);

	setenv("UROCE_DEVICES", "lo, nowhere", 1);
	first = MUST_PTR(ibv_get_device_list(&count));
	expect(count >= 1 && !first[count]);
	lo = MUST_PTR(find(first, "uroce_lo"));
	expect(!find(first, "uroce_nowhere"));
	expect(!strcmp(lo->dev_name, "uroce_lo"));
	expect(lo->node_type == IBV_NODE_CA && lo->transport_type == IBV_TRANSPORT_IB);
	expect(ibv_get_device_index(lo) == -1);
	expect(ibv_get_device_guid(lo) != 0);

	second = MUST_PTR(ibv_get_device_list(NULL));
	expect(find(second, "uroce_lo") == lo);
	ibv_free_device_list(first);
	expect(!strcmp(ibv_get_device_name(lo), "uroce_lo"));
	ibv_free_device_list(second);
	out("lists agree");
}

/* The log names the missing interface once. */
static void complaint(const char *log)
{
	char text[4096];
	int fd = open(log, O_RDONLY);
	ssize_t length;
	char *line;

	expect(fd >= 0);
	length = read(fd, text, sizeof(text) - 1);
	expect(length > 0);
	text[length] = '\0';
	line = MUST_PTR(strstr(text, "no network interface 'nowhere'"));
	expect(strstr(line, "'ip link'") && !strstr(line + 1, "no network interface"));
	close(fd);
	out("the log says what to do");
}

static void queries(struct ibv_context *context)
{
	struct ibv_gid_entry entry;
	struct ibv_device_attr attr;
	union ibv_gid gid;
	__be16 pkey;

	MUST(ibv_query_device(context, &attr));
	expect(attr.node_guid == ibv_get_device_guid(context->device));
	expect(attr.phys_port_cnt == 1 && attr.max_pkeys == 1);
	expect(index_of(context, 127, 0, 0, 1) == 0);
	MUST(ibv_query_gid(context, 1, 0, &gid));
	MUST(ibv_query_gid_ex(context, 1, 0, &entry, 0));
	expect(!memcmp(&gid, &entry.gid, sizeof(gid)));
	expect(entry.gid_type == IBV_GID_TYPE_ROCE_V2 && entry.ndev_ifindex == 1);
	expect(ibv_query_gid_ex(context, 1, 255, &entry, 0) == ENODATA);
	RC(ibv_query_gid(context, 1, 255, &gid));
	RC(ibv_query_gid(context, 1, 256, &gid));
	RC(ibv_query_gid(context, 2, 0, &gid));
	MUST(ibv_query_pkey(context, 1, 0, &pkey));
	expect(pkey == 0xffff);
	RC(ibv_query_pkey(context, 1, 1, &pkey));
	RC(ibv_get_pkey_index(context, 1, pkey));
}

static void channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = MUST_PTR(ibv_create_comp_channel(context));
	struct ibv_cq *cq;
	void *cq_context;

	expect(!fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	RC(ibv_get_cq_event(channel, &cq, &cq_context));
	cq = MUST_PTR(ibv_create_cq(context, 4, NULL, channel, 0));
	RC(ibv_destroy_comp_channel(channel));
	MUST(ibv_destroy_cq(cq));
	MUST(ibv_destroy_comp_channel(channel));
}

/* A child of a process that has devices open lists and opens for itself. */
static void child(void)
{
	struct ibv_context *lo = MUST_PTR(open_named("uroce_lo"));

	queries(lo);
	channel(lo);
	MUST(ibv_close_device(lo));
}

static void comes_and_goes(void)
{
	struct ibv_context *lo = MUST_PTR(open_named("uroce_lo"));

	show_port(lo);
	expect(index_of(lo, 127, 0, 0, 1) == -1);
	shell("ip link set lo up");
	until(lo, IBV_EVENT_PORT_ACTIVE);
	while (index_of(lo, 127, 0, 0, 1) < 0)
		next_event(lo);
	show_port(lo);
	queries(lo);
	channel(lo);
	in_child("a forked child", child);
	shell("ip addr add 10.1.0.1/32 dev lo");
	while (index_of(lo, 10, 1, 0, 1) < 0)
		next_event(lo);
	expect(index_of(lo, 127, 0, 0, 1) == 0);
	shell("ip link set lo down");
	until(lo, IBV_EVENT_PORT_ERR);
	show_port(lo);
	MUST(ibv_close_device(lo));
}

static void removed(void)
{
	struct ibv_context *lo, *v0;

	shell("ip link add v0 type veth peer name v1");
	setenv("UROCE_DEVICES", "all", 1);
	lo = MUST_PTR(open_named("uroce_lo"));
	v0 = MUST_PTR(open_named("uroce_v0"));
	expect(ibv_get_device_guid(lo->device) != ibv_get_device_guid(v0->device));
	shell("ip link del v0");
	until(v0, IBV_EVENT_DEVICE_FATAL);
	show_port(v0);
	expect(!open_named("uroce_v0"));
	expect(!strcmp(ibv_get_device_name(v0->device), "uroce_v0"));
	MUST(ibv_close_device(v0));
	MUST(ibv_close_device(lo));
}

int main(void)
{
	char log[] = "/tmp/uroce_devices.XXXXXX";
	int fd, descriptors;

	if (!own_network()) {
		fprintf(stderr, "left out: no separate network namespace (%s)\n",
			strerror(errno));
		return done();
	}
	fd = mkstemp(log);
	expect(fd >= 0);
	close(fd);
	setenv("VERBS_LOG_LEVEL", "2", 1);
	setenv("VERBS_LOG_FILE", log, 1);
	lists();
	complaint(log);
	descriptors = open_descriptors();
	comes_and_goes();
	removed();
	expect(open_descriptors() == descriptors);
	unlink(log);
	return done();
}
