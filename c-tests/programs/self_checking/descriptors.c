/*
 * The descriptors of uroce's events are to event loops what the kernel's are (rxe/descriptors.c).
 * In a network namespace of the program's own.
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
