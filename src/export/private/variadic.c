/*
 * The two exported functions that take a variable number of arguments, which stable Rust cannot
 * define. Each formats its text and hands it over.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../c.h"

struct verbs_context;
struct verbs_sysfs_dev;

RUST int ferroverbs_log_wants(uint32_t level);
RUST void ferroverbs_log_write(const char *text, size_t length);
RUST int ferroverbs_read_ibdev_file(char *buf, size_t size, struct verbs_sysfs_dev *device,
				    const char *file);

FORMAT(3, 4)
void ferroverbs_verbs_log(struct verbs_context *context, uint32_t level, const char *format, ...)
{
	int saved = errno; /* providers log on their way out, with errno set */
	char *text = NULL;
	va_list args;
	int length;

	(void)context; /* part of the interface; a message names its device itself */
	if (!ferroverbs_log_wants(level))
		return;
	va_start(args, format);
	length = vasprintf(&text, format, args);
	va_end(args);
	if (length >= 0) {
		ferroverbs_log_write(text, (size_t)length);
		free(text);
	}
	errno = saved;
}
PRIVATE(ferroverbs_verbs_log, __verbs_log);

FORMAT(4, 5)
int ferroverbs_read_ibdev_sysfs_file(char *buf, size_t size, struct verbs_sysfs_dev *device,
				     const char *format, ...)
{
	char *file = NULL;
	va_list args;
	int length;

	va_start(args, format);
	length = vasprintf(&file, format, args);
	va_end(args);
	if (length < 0) {
		errno = ENOMEM;
		return -1;
	}
	length = ferroverbs_read_ibdev_file(buf, size, device, file);
	free(file);
	return length;
}
PRIVATE(ferroverbs_read_ibdev_sysfs_file, ibv_read_ibdev_sysfs_file);
