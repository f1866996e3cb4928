/*
 * IBVERBS_VALIDATE without some reports: ignore=ID and suppress=FILE, before and after the place of
 * the reports. The process that leaks a completion queue is a child, because the variable is read
 * once.
 */
#include "report.h"

#include <sys/stat.h>
#include <sys/wait.h>

static char reports[] = "/tmp/validate-reports-XXXXXX", rules[] = "/tmp/validate-rules-XXXXXX";

static void leak(void)
{
	struct ibv_context *context = MUST_PTR(open_device_named("uroce_lo"));

	MUST_PTR(ibv_create_cq(context, 1, NULL, NULL, 0));
	ibv_close_device(context);
	_exit(0);
}

/* The number of bytes that are reported of a leak, with this before and after the file's name. */
static long reported(const char *before, const char *after)
{
	char value[256];
	struct stat file;
	int status;
	pid_t child;

	snprintf(value, sizeof(value), "%s%s%s", before, reports, after);
	setenv("IBVERBS_VALIDATE", value, 1);
	MUST(truncate(reports, 0));
	child = fork();
	expect(child >= 0);
	if (!child)
		leak();
	expect(waitpid(child, &status, 0) == child);
	expect(WIFEXITED(status) && !WEXITSTATUS(status));
	MUST(stat(reports, &file));
	return (long)file.st_size;
}

static long with_rules(const char *text)
{
	char after[64];
	FILE *file = fopen(rules, "w");

	expect(file && fputs(text, file) >= 0 && !fclose(file));
	snprintf(after, sizeof(after), ",suppress=%s", rules);
	return reported("", after);
}

int main(void)
{
	close(mkstemp(reports));
	close(mkstemp(rules));
	if (!own_uroce()) {
		out("no network namespace may be made: uroce is left out");
		return done();
	}
	expect(reported("", "") > 0);
	expect(reported("", ",ignore=leak") == 0);
	expect(reported("ignore=leak,", "") == 0);
	expect(reported("abort,ignore=leak,", "") == 0);
	expect(reported("", ",ignore=key") > 0);
	expect(with_rules("leak\n") == 0);
	expect(with_rules("# a comment\nleak cq\n") == 0);
	expect(with_rules("leak no_such_function\n") > 0);
	expect(with_rules("* no_such_function\nkey\n") > 0);
	unlink(reports);
	unlink(rules);
	return done();
}
