/* The descriptors of events behave as event loops expect. */
#include "descriptors.h"

int main(void)
{
	descriptors();
	return done();
}
