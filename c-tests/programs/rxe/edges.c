/* Results of soft-RoCE for values at and beyond the limits of their ranges. */
#include "edges.h"

int main(void)
{
	edges_hold(false);
	return done();
}
