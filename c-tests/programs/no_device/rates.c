/* Rates: every value of the enum, and values around and far outside it. */
#include "check.h"

int main(void)
{
	static const int odd[] = { -2147483647, -1, 24, 31, 32, 255, 256, 2147483647 };
	int i;

	for (i = 0; i < 24; i++)
		out("rate %d: mult %d mbps %d", i, ibv_rate_to_mult(i), ibv_rate_to_mbps(i));
	for (i = 0; i < (int)ARRAY_LEN(odd); i++)
		out("rate %d: mult %d mbps %d", odd[i], ibv_rate_to_mult(odd[i]),
		    ibv_rate_to_mbps(odd[i]));

	for (i = -1; i <= 520; i++)
		if (mult_to_ibv_rate(i) != IBV_RATE_MAX)
			out("mult %d: rate %d", i, mult_to_ibv_rate(i));
	for (i = -1; i <= 1300000; i++)
		if (mbps_to_ibv_rate(i) != IBV_RATE_MAX)
			out("mbps %d: rate %d", i, mbps_to_ibv_rate(i));
	for (i = 0; i < (int)ARRAY_LEN(odd); i++)
		out("%d: from mult %d, from mbps %d", odd[i], mult_to_ibv_rate(odd[i]),
		    mbps_to_ibv_rate(odd[i]));

	/* A conversion there and back must return the same value. */
	for (i = 0; i < 24; i++) {
		if (ibv_rate_to_mult(i) > 0)
			expect(mult_to_ibv_rate(ibv_rate_to_mult(i)) == (enum ibv_rate)i);
		if (ibv_rate_to_mbps(i) > 0)
			expect(mbps_to_ibv_rate(ibv_rate_to_mbps(i)) == (enum ibv_rate)i);
	}
	return done();
}
