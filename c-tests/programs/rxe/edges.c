/* What soft-RoCE answers to values at and beyond the edges of what they may be. */
#include "edges.h"

int main(void)
{
	edges_hold(false);
	return done();
}
