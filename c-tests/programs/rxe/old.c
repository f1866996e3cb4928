/*
 * A program of libibverbs 1.0 beside one of today. The channel is today's: a
 * context of 1.0 cannot be given to the stock library's ibv_create_comp_channel,
 * which reads it as one of today.
 */
#include "old_data.h"

int main(void)
{
	struct old_context *context = old_open();
	struct ibv_comp_channel *channel =
		MUST_PTR(ibv_create_comp_channel(context->real_context));

	old_traffic(context, channel);
	MUST(ibv_destroy_comp_channel(channel));
	MUST(old_close_device(context));
	old_register_driver("nobody", NULL);
	return done();
}
