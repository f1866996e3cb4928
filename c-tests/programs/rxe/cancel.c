/*
 * Threads that are cancelled in the calls that wait, over the kernel.
 */
#include "cancel_bounded.h"

static void bounded(void)
{
	struct ibv_context *context = open_rxe();

	in_bounded_waits(context);
	RC(ibv_close_device(context));
}

int main(void)
{
	struct ibv_context *context = open_rxe();
	struct scene scene;

	make_scene(&scene, context);
	cancel_everywhere(&scene);
	free_scene(&scene);
	RC(ibv_close_device(context));
	in_child("waits that end by themselves", bounded);
	return done();
}
