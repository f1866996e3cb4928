/*
 * The descriptors of uroce's events behave in event loops as the kernel's do (rxe/descriptors.c).
 * Runs in a separate network namespace.
 */
#define DEVICE_NAME "uroce_lo"
#define IPV4_INDEX 0
#include "descriptors.h"
#include "network.h"

int main(void)
{
	if (own_device())
		descriptors();
	return done();
}
