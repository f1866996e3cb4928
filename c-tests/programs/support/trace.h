/*
 * For programs that read the file of IBVERBS_TRACE, by its description alone.
 */
#ifndef TRACE_H
#define TRACE_H

#include "check.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct call {
	const char *name;
	uint32_t process;
	uint64_t number, thread, begin, took, error, value, words, word[32];
};

enum { CALLS = 4096 };
static struct call calls[CALLS];
static int call_count, chunks;
static char *names[256];
/* The lines about processes and threads. */
static char threads[4096];

static inline uint64_t leb128(const uint8_t **at, const uint8_t *end)
{
	uint64_t number = 0;
	int shift = 0;

	for (;; shift += 7) {
		expect(*at < end && shift < 64);
		number |= (uint64_t)(**at & 0x7f) << shift;
		if (!(*(*at)++ & 0x80))
			return number;
	}
}

static inline void take_names(const uint8_t *at, uint32_t length)
{
	char *text = strndup((const char *)at, length), *line;
	int i;

	for (i = 0, line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), i++) {
		expect(i < 256);
		line[strcspn(line, " ")] = '\0';
		names[i] = line;
	}
}

static inline void take_threads(const uint8_t *at, uint32_t length)
{
	size_t before = strlen(threads);

	expect(before + length < sizeof threads);
	memcpy(threads + before, at, length);
}

static inline void take_records(const uint8_t *at, uint32_t length, uint32_t process, uint64_t since)
{
	const uint8_t *end = at + length;
	uint64_t difference, i;
	struct call *call;

	while (at < end) {
		expect(call_count < CALLS);
		call = &calls[call_count++];
		call->process = process;
		call->number = leb128(&at, end);
		expect(call->number < 256 && names[call->number]);
		call->name = names[call->number];
		call->thread = leb128(&at, end);
		difference = leb128(&at, end);
		call->begin = since + ((difference >> 1) ^ -(difference & 1));
		call->took = leb128(&at, end);
		call->error = leb128(&at, end);
		call->value = leb128(&at, end);
		call->words = leb128(&at, end);
		expect(call->words <= 32);
		for (i = 0; i < call->words; i++)
			call->word[i] = leb128(&at, end);
		/* Polls in vain are as many as the machine has time for. */
		if (!strcmp(call->name, "ibv_poll_cq") && !call->value && !call->error)
			call_count--;
	}
}

static inline void read_trace(const char *path)
{
	int fd = open(path, O_RDONLY);
	struct stat file;
	ssize_t length;
	const uint8_t *bytes, *at;

	expect(fd >= 0 && !fstat(fd, &file) && file.st_size > 0);
	length = file.st_size;
	bytes = mmap(NULL, (size_t)length, PROT_READ, MAP_PRIVATE, fd, 0);
	expect(bytes != MAP_FAILED);
	at = bytes;
	close(fd);
	while (at < bytes + length) {
		uint32_t process, size;
		uint64_t since;

		expect(bytes + length - at >= 24 && !memcmp(at, "IBVT\2", 5));
		memcpy(&process, at + 8, 4);
		memcpy(&size, at + 12, 4);
		memcpy(&since, at + 16, 8);
		expect(size <= bytes + length - at - 24);
		if (at[5] == 0)
			take_names(at + 24, size);
		else if (at[5] == 2)
			take_threads(at + 24, size);
		else
			take_records(at + 24, size, process, since);
		at += 24 + size;
		chunks++;
	}
}

/* The nth call of that name, counted from 0, or NULL. */
static inline struct call *nth(const char *name, int n)
{
	int i;

	for (i = 0; i < call_count; i++)
		if (!strcmp(calls[i].name, name) && !n--)
			return &calls[i];
	return NULL;
}

#endif
