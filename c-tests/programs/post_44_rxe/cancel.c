/*
 * Threads that are cancelled in waits that end by themselves, with and without diagnostics. Nothing
 * leaks, as it does in rdma-core.
 */
#include "cancel_bounded.h"

static void without_leaks(void)
{
	struct ibv_context *context = open_rxe();
	int before = open_descriptors();

	in_bounded_waits(context);
	expect(open_descriptors() == before);
	RC(ibv_close_device(context));
}

int main(void)
{
	in_child("plain", without_leaks);
	setenv("IBVERBS_TRACE", "/dev/null", 1);
	in_child("traced", without_leaks);
	unsetenv("IBVERBS_TRACE");
	setenv("IBVERBS_EXPLAIN", "/dev/null", 1);
	in_child("explained", without_leaks);
	return done();
}
