/* The device list, a device's properties, opening and closing in every order. */
#include "rdma.h"

static void properties(struct ibv_device *device)
{
	uint64_t guid = be64toh(ibv_get_device_guid(device));

	out("name %s", ibv_get_device_name(device));
	out("node type %s", ibv_node_type_str(device->node_type));
	out("transport %d", device->transport_type);
	out("file name %s", device->dev_name);
	out("sysfs %s", device->dev_path);
	out("ib sysfs %s", device->ibdev_path);
	out("guid %s", guid ? "set" : "0");
	expect(be64toh(ibv_get_device_guid(device)) == guid);
	out("index %s", ibv_get_device_index(device) >= 0 ? "known" : "unknown");
}

/* The list may go while the device is open; the device lives on in the context. */
static void list_goes_first(void)
{
	struct ibv_device **list = MUST_PTR(ibv_get_device_list(NULL));
	struct ibv_context *context = MUST_PTR(ibv_open_device(list[0]));

	ibv_free_device_list(list);
	out("open: %s", ibv_get_device_name(context->device));
	out("vectors %d", context->num_comp_vectors > 0);
	out("descriptors %d", context->cmd_fd >= 0 && context->async_fd >= 0);
	RC(ibv_close_device(context));
}

/* A device in two lists is one device. */
static void two_lists(void)
{
	struct ibv_device **first = MUST_PTR(ibv_get_device_list(NULL));
	struct ibv_device **second = MUST_PTR(ibv_get_device_list(NULL));

	out("same device: %s", first[0] == second[0] ? "yes" : "no");
	ibv_free_device_list(first);
	out("name %s", ibv_get_device_name(second[0]));
	ibv_free_device_list(second);
}

static void many_opens(void)
{
	struct ibv_context *context[8];
	int before = open_descriptors(), i;

	for (i = 0; i < 8; i++)
		context[i] = open_rxe();
	out("descriptors more %d", open_descriptors() - before);
	for (i = 7; i >= 0; i--)
		expect(!ibv_close_device(context[i]));
	out("descriptors more %d", open_descriptors() - before);
}

static void imports(void)
{
	struct ibv_context *context = open_rxe();
	int fd = dup(context->cmd_fd), before = open_descriptors();

	PTR(ibv_import_device(fd));
	PTR(ibv_import_device(context->async_fd));
	out("descriptors more %d", open_descriptors() - before);
	expect(!close(fd));
	RC(ibv_close_device(context));
}

int main(void)
{
	struct ibv_device **list;
	int count = -1, before, i;

	list = PTR(ibv_get_device_list(&count));
	out("count %d", count);
	expect(list && count == 1 && !list[1]);
	properties(list[0]);
	ibv_free_device_list(list);
	before = open_descriptors();
	list_goes_first();
	two_lists();
	many_opens();
	imports();
	for (i = 0; i < 200; i++) {
		struct ibv_context *context = open_rxe();

		expect(!ibv_close_device(context));
	}
	out("descriptors more %d", open_descriptors() - before);
	return done();
}
