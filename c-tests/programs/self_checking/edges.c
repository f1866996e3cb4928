/*
 * uroce answers to values at and beyond the edges of what they may be as soft-RoCE does, but where
 * the table says why not. In a network namespace of the program's own.
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
