/*
 * uroce gives the same results as soft-RoCE for values at and beyond the limits of their ranges,
 * except where the table gives a reason. Runs in a separate network namespace.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "edges.h"
#include "network.h"

int main(void)
{
	if (own_device())
		edges_hold(true);
	return done();
}
