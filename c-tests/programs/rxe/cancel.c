/*
 * Threads that are cancelled in the calls that wait, over the kernel.
 */
#include "cancel.h"

int main(void)
{
	struct ibv_context *context = open_rxe();
	struct scene scene;

	make_scene(&scene, context);
	cancel_everywhere(&scene);
	free_scene(&scene);
	RC(ibv_close_device(context));
	return done();
}
