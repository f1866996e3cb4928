/*
 * Costs of IBVERBS_EXPLAIN, IBVERBS_VALIDATE and IBVERBS_TRACE: nanoseconds per call over uroce on
 * lo, the minimum of several rounds. "cargo xtask bench observe" runs it.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 15, CALLS = 2000, BYTES = 4096 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char buffer[BYTES] __attribute__((aligned(4096)));

static void must(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void poll_empty(void)
{
	struct ibv_wc wc;

	must(ibv_poll_cq(cq, 1, &wc) == 0, "ibv_poll_cq");
}

static void notify(void)
{
	must(!ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
}

static void registration(void)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, BYTES, IBV_ACCESS_LOCAL_WRITE);

	must(mr != NULL, "ibv_reg_mr");
	must(!ibv_dereg_mr(mr), "ibv_dereg_mr");
}

static void domain(void)
{
	struct ibv_pd *other = ibv_alloc_pd(context);

	must(other != NULL, "ibv_alloc_pd");
	must(!ibv_dealloc_pd(other), "ibv_dealloc_pd");
}

static void measure(const char *what, void (*call)(void))
{
	uint64_t least = UINT64_MAX;
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		uint64_t took, begin = now();

		for (i = 0; i < CALLS; i++)
			call();
		took = now() - begin;
		if (took < least)
			least = took;
	}
	printf("%-24s %8.0f ns\n", what, (double)least / CALLS);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	must(list && list[0], "a device");
	context = ibv_open_device(list[0]);
	must(context != NULL, "ibv_open_device");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 16, NULL, NULL, 0);
	must(pd && cq, "objects");
	measure("poll_cq, empty", poll_empty);
	measure("req_notify_cq", notify);
	measure("reg_mr, dereg_mr", registration);
	measure("alloc_pd, dealloc_pd", domain);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	return 0;
}
