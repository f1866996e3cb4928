#include "check.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/wait.h>

/*
 * Says on stderr which file the library's functions come from, and those of
 * librdmacm where the program uses it; the runner checks it. The address is the
 * library's own even when a program stands in front of other names of it.
 */
__attribute__((constructor)) static void name_library(void)
{
	Dl_info info;
	void *open_device = dlsym(RTLD_DEFAULT, "ibv_open_device");
	void *create_id = dlsym(RTLD_DEFAULT, "rdma_create_id");

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (open_device && dladdr(open_device, &info))
		fprintf(stderr, "library: %s\n", info.dli_fname);
	if (create_id && dladdr(create_id, &info))
		fprintf(stderr, "rdmacm: %s\n", info.dli_fname);
}

void out(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

const char *errno_name(int value)
{
	static __thread char buffers[8][16];
	static __thread unsigned int next;
	const char *name = value > 0 ? strerrorname_np(value) : NULL;
	char *buffer;

	if (name)
		return name;
	buffer = buffers[next++ % 8];
	snprintf(buffer, sizeof(buffers[0]), "%d", value);
	return buffer;
}

void fail_at(const char *file, int line, const char *what)
{
	out("FAILED %s", what);
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	fflush(NULL);
	_exit(1);
}

void fail_call(const char *file, int line, const char *call, int value)
{
	int error = errno;

	out("FAILED %s", call);
	fprintf(stderr, "%s:%d: %s: value %d, errno %s\n", file, line, call, value,
		errno_name(error));
	fflush(NULL);
	_exit(1);
}

int done(void)
{
	out("done");
	fflush(NULL);
	return 0;
}

void show_rc(const char *call, int value, int error)
{
	if (!value)
		out("%s = 0", call);
	else
		out("%s = %s, errno %s", call, errno_name(value), errno_name(error));
}

void show_count(const char *call, long value, int error)
{
	if (value >= 0)
		out("%s = %ld", call, value);
	else
		out("%s = -%s, errno %s", call, errno_name((int)-value), errno_name(error));
}

void show_ptr(const char *call, const void *value, int error)
{
	if (value)
		out("%s = object", call);
	else
		out("%s = NULL, errno %s", call, errno_name(error));
}

void in_child(const char *title, void (*scenario)(void))
{
	int status;
	pid_t pid;

	out("-- %s", title);
	fflush(NULL);
	pid = fork();
	expect(pid >= 0);
	if (!pid) {
		scenario();
		fflush(NULL);
		_exit(0);
	}
	while (waitpid(pid, &status, 0) < 0)
		expect(errno == EINTR);
	if (WIFSIGNALED(status))
		out("-- ended by signal %d", WTERMSIG(status));
	else
		out("-- ended with %d", WEXITSTATUS(status));
}

int open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	expect(dir != NULL);
	while (readdir(dir))
		count++;
	closedir(dir);
	/* Without ".", ".." and the directory's own descriptor. */
	return count - 3;
}

int mapping_count(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	int lines = 0, c;

	expect(maps != NULL);
	while ((c = getc(maps)) != EOF)
		lines += c == '\n';
	fclose(maps);
	return lines;
}
