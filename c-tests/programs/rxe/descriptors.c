/* The descriptors of events are what event loops take them for. */
#include "descriptors.h"

int main(void)
{
	descriptors();
	return done();
}
