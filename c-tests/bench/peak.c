/*
 * The peak of a command's resident memory, in KiB, on the last line.
 *
 *     cc -O2 -o peak c-tests/bench/peak.c
 *     ./peak COMMAND [ARGUMENT...]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct rusage usage;
	int status;
	pid_t child;

	if (argc < 2) {
		fprintf(stderr, "usage: %s COMMAND [ARGUMENT...]\n", argv[0]);
		return 2;
	}
	child = fork();
	if (!child) {
		execvp(argv[1], argv + 1);
		fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
		_exit(127);
	}
	while (child < 0 || wait4(child, &status, 0, &usage) < 0) {
		if (child > 0 && errno == EINTR)
			continue;
		fprintf(stderr, "%s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	if (status) {
		fprintf(stderr, "%s: status 0x%x\n", argv[1], status);
		return 1;
	}
	printf("peak\t%ld\n", usage.ru_maxrss);
	return 0;
}
