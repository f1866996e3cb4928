/*
 * rdma_resolve_addrinfo(3) and rdma_query_addrinfo(3): the result is reported by an event, or
 * waited for, and returned once. An id connects to the resolved address.
 */
#include "lo.h"

static struct rdma_event_channel *channel;

static void expect_event(enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *event;

	expect(has_event(channel, PATIENCE));
	MUST(rdma_get_cm_event(channel, &event));
	expect(event->event == type && event->status == status);
	expect(event->param.conn.private_data_len == 0);
	MUST(rdma_ack_cm_event(event));
}

static void refused(struct rdma_cm_id *id, const char *node, const char *service, int flags,
		    int error)
{
	struct rdma_addrinfo hints = { .ai_flags = flags };

	errno = 0;
	expect(rdma_resolve_addrinfo(id, node, service, &hints) == -1 && errno == error);
	expect(!has_event(channel, 0));
}

static void by_event(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_DNS | RAI_NUMERICHOST }, *found = NULL;
	struct rdma_cm_id *id = new_id(channel, NULL, RDMA_PS_TCP);

	expect(rdma_query_addrinfo(id, &found) == -1 && errno == ENOENT);
	expect(rdma_query_addrinfo(id, NULL) == -1 && errno == EINVAL);
	expect(rdma_resolve_addrinfo(id, NULL, NULL, NULL) == -1 && errno == EINVAL);
	expect(rdma_resolve_addrinfo(NULL, "127.0.0.1", "7471", NULL) == -1 && errno == EINVAL);
	refused(id, NULL, "service", RAI_SA, EOPNOTSUPP);
	refused(id, "node", "service", RAI_SA, EINVAL);
	refused(id, NULL, NULL, RAI_SA, EINVAL);
	refused(id, NULL, "service", RAI_SA | RAI_DNS, EINVAL);

	MUST(rdma_resolve_addrinfo(id, HERE, "7471", &hints));
	expect(rdma_resolve_addrinfo(id, HERE, "7471", &hints) == -1 && errno == EBUSY);
	expect_event(RDMA_CM_EVENT_ADDRINFO_RESOLVED, 0);
	MUST(rdma_query_addrinfo(id, &found));
	expect(found->ai_family == AF_INET && found->ai_port_space == RDMA_PS_TCP);
	expect(found->ai_dst_len == sizeof(struct sockaddr_in) && !found->ai_next);
	expect(((struct sockaddr_in *)found->ai_dst_addr)->sin_port == htons(7471));
	expect(rdma_query_addrinfo(id, &found) == -1 && errno == ENOENT);
	MUST(rdma_resolve_addr(id, NULL, found->ai_dst_addr, 2000));
	expect_event(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	rdma_freeaddrinfo(found);

	/* EAI_NONAME */
	MUST(rdma_resolve_addrinfo(id, "no number", "7471", &hints));
	expect_event(RDMA_CM_EVENT_ADDRINFO_ERROR, -2);
	expect(rdma_query_addrinfo(id, &found) == -1 && errno == ENOENT);
	/* A result that was not taken is freed with the id. */
	MUST(rdma_resolve_addrinfo(id, HERE, NULL, NULL));
	expect_event(RDMA_CM_EVENT_ADDRINFO_RESOLVED, 0);
	MUST(rdma_destroy_id(id));
	out("by an event");
}

static void waited_for(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST }, *found = NULL;
	struct rdma_cm_id *id;

	MUST(rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP));
	MUST(rdma_resolve_addrinfo(id, HERE, "7471", &hints));
	expect(id->event && id->event->event == RDMA_CM_EVENT_ADDRINFO_RESOLVED);
	MUST(rdma_query_addrinfo(id, &found));
	rdma_freeaddrinfo(found);
	expect(rdma_resolve_addrinfo(id, "no number", "7471", &hints) == -1);
	MUST(rdma_destroy_id(id));
	out("waited for");
}

int main(void)
{
	if (!own_device())
		return done();
	channel = MUST_PTR(rdma_create_event_channel());
	by_event();
	waited_for();
	rdma_destroy_event_channel(channel);
	return done();
}
