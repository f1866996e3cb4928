/*
 * Without IBVERBS_EXPLAIN, IBVERBS_VALIDATE and IBVERBS_TRACE the provider's
 * own functions stand where the inlines of the headers call them, so they cost
 * nothing then; with one of them, functions of the library do.
 */
#include "report.h"

#include <dlfcn.h>
#include <sys/wait.h>

enum { POLL, NOTIFY, POST_SEND, POST_RECV, POST_SRQ_RECV, CALLS };

/* Where a function is: its file, and its place in it. */
struct place {
	char file[256];
	size_t offset;
};

static struct place place_of(void *function)
{
	struct place place;
	Dl_info info;

	memset(&place, 0, sizeof(place));
	expect(dladdr(function, &info));
	expect(strlen(info.dli_fname) < sizeof(place.file));
	strcpy(place.file, info.dli_fname);
	place.offset = (char *)function - (char *)info.dli_fbase;
	return place;
}

/*
 * The functions of a device, in a process that has the variable or none; false without the device.
 */
static bool look(const char *device, const char *variable, struct place places[CALLS])
{
	int status, pipes[2];
	ssize_t length;
	pid_t child;

	expect(pipe(pipes) == 0);
	fflush(stdout);
	child = fork();
	if (!child) {
		struct ibv_context *context;

		if (variable)
			setenv(variable, "/dev/null", 1);
		context = open_device_named(device);
		if (!context)
			_exit(1);
		places[POLL] = place_of((void *)context->ops.poll_cq);
		places[NOTIFY] = place_of((void *)context->ops.req_notify_cq);
		places[POST_SEND] = place_of((void *)context->ops.post_send);
		places[POST_RECV] = place_of((void *)context->ops.post_recv);
		places[POST_SRQ_RECV] = place_of((void *)context->ops.post_srq_recv);
		length = CALLS * sizeof(*places);
		expect(write(pipes[1], places, length) == length);
		MUST(ibv_close_device(context));
		_exit(0);
	}
	close(pipes[1]);
	length = read(pipes[0], places, CALLS * sizeof(*places));
	close(pipes[0]);
	expect(waitpid(child, &status, 0) == child && WIFEXITED(status));
	expect((WEXITSTATUS(status) == 0) == (length == (ssize_t)(CALLS * sizeof(*places))));
	return length > 0;
}

static void all(const char *device)
{
	static const char *const variables[] = {
		"IBVERBS_EXPLAIN",
		"IBVERBS_VALIDATE",
		"IBVERBS_TRACE",
	};
	struct place library = place_of((void *)ibv_open_device);
	const char *plugin = getenv("IBVERBS_PREFER_PLUGIN");
	struct place off[CALLS], on[CALLS];
	size_t v, i;

	memset(off, 0, sizeof(off));
	if (!look(device, NULL, off))
		return;
	out("%s", device);
	/*
	 * The functions of a plugin show their owner. soft-RoCE's plugin has the library's
	 * ibv_cmd_req_notify_cq for ibv_req_notify_cq.
	 */
	if (plugin && !strcmp(plugin, "all") && !strcmp(device, "rxe0"))
		for (i = 0; i < CALLS; i++)
			expect(i == NOTIFY || strstr(off[i].file, "librxe"));
	out("the provider's own");
	for (v = 0; v < sizeof(variables) / sizeof(*variables); v++) {
		memset(on, 0, sizeof(on));
		expect(look(device, variables[v], on));
		for (i = 0; i < CALLS; i++) {
			expect(!strcmp(on[i].file, library.file));
			expect(strcmp(on[i].file, off[i].file) || on[i].offset != off[i].offset);
		}
		out("%s: the library's", variables[v]);
	}
}

int main(void)
{
	all("rxe0");
	if (!own_uroce()) {
		out("no network namespace may be made: uroce is left out");
		return done();
	}
	all("uroce_lo");
	return done();
}
