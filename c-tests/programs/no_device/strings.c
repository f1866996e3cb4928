/* The words for every value of each enum, and for values outside it. */
#include "check.h"

int main(void)
{
	int i;

	for (i = -2; i < 12; i++)
		out("node type %d: %s", i, ibv_node_type_str(i));
	for (i = -1; i < 9; i++)
		out("port state %d: %s", i, ibv_port_state_str(i));
	/* 20 is of a later release than the stock library. */
	for (i = -1; i < 20; i++)
		out("event %d: %s", i, ibv_event_type_str(i));
	for (i = 21; i < 24; i++)
		out("event %d: %s", i, ibv_event_type_str(i));
	for (i = -1; i < 28; i++)
		out("completion status %d: %s", i, ibv_wc_status_str(i));

	out("node type max: %s", ibv_node_type_str(2147483647));
	out("port state max: %s", ibv_port_state_str(2147483647));
	out("event max: %s", ibv_event_type_str(2147483647));
	out("completion status max: %s", ibv_wc_status_str(2147483647));
	return done();
}
