/* ibv_query_gid_ex and ibv_query_gid_table: places and sizes of an entry. */
#include "rdma.h"

static void show_entry(const struct ibv_gid_entry *entry)
{
	out("entry index %u port %u type %u interface %s prefix %02x%02x", entry->gid_index,
	    entry->port_num, entry->gid_type, entry->ndev_ifindex ? "set" : "0",
	    entry->gid.raw[0], entry->gid.raw[1]);
}

static void one(struct ibv_context *context, uint32_t port, uint32_t index, uint32_t flags)
{
	struct ibv_gid_entry entry;

	memset(&entry, 0, sizeof(entry));
	out("port %u index %u flags %x", port, index, flags);
	if (!PLACE(ibv_query_gid_ex(context, port, index, &entry, flags)))
		show_entry(&entry);
}

static void one_sized(struct ibv_context *context, size_t size)
{
	unsigned char memory[128];
	size_t i;
	int ret;

	memset(memory, 0xee, sizeof(memory));
	errno = 0;
	ret = _ibv_query_gid_ex(context, 1, IPV4_INDEX, (struct ibv_gid_entry *)memory, 0, size);
	out("entry of %zu bytes: %s errno %s", size, errno_name(ret), ret ? errno_name(errno) : "-");
	for (i = size; i < sizeof(memory); i++)
		expect(memory[i] == 0xee);
	if (!ret)
		show_entry((struct ibv_gid_entry *)memory);
}

static void table_sized(struct ibv_context *context, size_t size)
{
	enum { ENTRIES = 8 };
	unsigned char memory[ENTRIES * 64 + 64];
	size_t i;
	long count;

	memset(memory, 0xee, sizeof(memory));
	errno = 0;
	count = _ibv_query_gid_table(context, (struct ibv_gid_entry *)memory, ENTRIES, 0, size);
	if (count >= 0)
		out("table of %zu bytes: %s", size, count >= 2 ? "two or more" : "fewer");
	else
		out("table of %zu bytes: -%s errno %s", size, errno_name((int)-count),
		    errno_name(errno));
	for (i = ENTRIES * size; i < sizeof(memory); i++)
		expect(memory[i] == 0xee);
}

static void table(struct ibv_context *context, size_t max, uint32_t flags)
{
	static struct ibv_gid_entry entries[2048];
	long count;
	bool ipv4 = false;
	int i;

	memset(entries, 0xee, sizeof(entries));
	errno = 0;
	count = ibv_query_gid_table(context, entries, max, flags);
	if (count < 0) {
		out("max %zu flags %x: -%s errno %s", max, flags, errno_name((int)-count),
		    errno_name(errno));
		return;
	}
	for (i = 0; i < count; i++)
		ipv4 |= entries[i].gid_index == IPV4_INDEX && entries[i].gid.raw[12] == 10;
	/* IPv6 addresses come and go; the first two entries are sure. */
	out("max %zu flags %x: %s, IPv4 %s", max, flags, count >= 2 ? "two or more" : "fewer",
	    ipv4 ? "found" : "not found");
	if (count)
		show_entry(&entries[0]);
	expect(((unsigned char *)&entries[count])[0] == 0xee);
}

int main(void)
{
	static const size_t sizes[] = { 0, 1, 16, 24, 28, 31, 32, 33, 40, 64 };
	struct ibv_context *context = open_rxe();
	size_t i;

	one(context, 1, 0, 0);
	one(context, 1, 1, 0);
	one(context, 1, 1000, 0);
	one(context, 1, 1024, 0);
	one(context, 1, 70000, 0);
	one(context, 0, 0, 0);
	one(context, 2, 0, 0);
	one(context, 300, 0, 0);
	for (i = 0; i < ARRAY_LEN(sizes); i++)
		one_sized(context, sizes[i]);
	table(context, 2048, 0);
	table(context, 1024, 0);
	table(context, 16, 0);
	table(context, 1, 0);
	table(context, 0, 0);
	for (i = 0; i < ARRAY_LEN(sizes); i++)
		table_sized(context, sizes[i]);
	RC(ibv_close_device(context));
	return done();
}
