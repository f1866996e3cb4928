/* The inline verbs that came later, on objects made here. */
#include "check.h"

static void flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, uint8_t type,
		  uint8_t level)
{
	out("flush of request %lu: key %u, %zu bytes at %lu, type %u, level %u",
	    (unsigned long)qp->wr_id, rkey, len, (unsigned long)addr, type, level);
}

int main(void)
{
	struct ibv_qp_ex qp = { .wr_id = 9, .wr_flush = flush };

	ibv_wr_flush(&qp, 1, 2, 3, IBV_FLUSH_GLOBAL | IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	ibv_wr_flush(&qp, 1, 0, 0, IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR);
	out("%s", ibv_event_type_str(IBV_EVENT_DEVICE_SPEED_CHANGE));
	return done();
}
