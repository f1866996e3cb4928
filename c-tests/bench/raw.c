/*
 * Costs of moving bytes between two processes without RDMA: the reference for uroce.
 *
 *     cc -O2 -o raw c-tests/bench/raw.c
 *     ./raw writev SIZE COUNT    process_vm_writev(2) into a process that watches the last byte
 *     ./raw readv SIZE COUNT     process_vm_readv(2) from it
 *     ./raw line 8 COUNT         a cache line that goes to and fro, one way
 *     ./raw receive SIZE COUNT   messages through a ring in shared memory into receive buffers that
 *                                were posted, in turn, and from there to the program's own place:
 *                                the copies of a library over verbs that is called with the place
 *                                after the message has come, and nothing else
 *     ./raw queues SIZE COUNT QUEUES
 *                                messages through a ring in shared memory into receive buffers, 100
 *                                to each of so many receive queues in turn. A queue has 512 posted
 *                                requests and a buffer of 8 KiB. The receiver takes the oldest
 *                                request, copies the message to its buffer, writes down what would
 *                                be a completion, and posts the request again: the memory that
 *                                many queue pairs touch, and nothing else
 *     ./raw udp SIZE COUNT FIRST SECOND ADDRESS
 *                                a datagram that goes to and fro by UDP, one way, both ends
 *                                polling their sockets; in these network namespaces (names of
 *                                /run/netns), the first of which has the IPv4 address
 *     ./raw addressed SIZE COUNT FIRST SECOND ADDRESS
 *                                the same by sockets that are not connected, as packets of RoCE v2
 *                                have to leave: with source address, time to live and destination
 *                                in each call. A connected socket would number its packets, and
 *                                RoCE's check sum covers that number. Each call that receives asks
 *                                for addresses, time to live and type of service.
 *     ./raw stream SIZE COUNT FIRST SECOND ADDRESS PAYLOAD
 *                                a stream of UDP datagrams from the second namespace to the first
 *                                one: SIZE bytes, COUNT times, in datagrams of PAYLOAD bytes and 16
 *                                more, as many as headers and check sum of RoCE v2 have. A call
 *                                sends and receives as many datagrams as it can (UDP_SEGMENT,
 *                                UDP_GRO). The receiver counts the bytes; lost ones do not count.
 *     ./raw checked SIZE COUNT FIRST SECOND ADDRESS PAYLOAD
 *                                the same with what RoCE v2 asks of both ends besides: each copies
 *                                every payload between its place in memory and the datagram, and
 *                                computes its CRC-32, by tables, as a program does where no
 *                                instruction for that is fast
 *
 * The two processes are on the first two processors that may be used. Two lines,
 * nanoseconds for one way of SIZE bytes: the mean, and the median of groups of
 * 100 ways, which other work on the machine hardly moves.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GROUP = 100 };

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* Processor number `which` of those that may be used; the last one if there are fewer. */
static void pin(const cpu_set_t *allowed, int which)
{
	cpu_set_t one;
	int chosen = -1;

	for (int cpu = 0; cpu < CPU_SETSIZE && which >= 0; cpu++) {
		if (CPU_ISSET(cpu, allowed)) {
			chosen = cpu;
			which--;
		}
	}
	CPU_ZERO(&one);
	CPU_SET(chosen, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("sched_setaffinity");
}

static void *memory(size_t size, int flags)
{
	void *block = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);

	if (block == MAP_FAILED)
		die("mmap");
	return block;
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Waits until the word equals `turn`, and sets the next value. */
static void step(_Atomic uint64_t *word, uint64_t turn)
{
	while (atomic_load_explicit(word, memory_order_acquire) != turn)
		;
	atomic_store_explicit(word, turn + 1, memory_order_release);
}

typedef ssize_t (*transfer_fn)(pid_t pid, const struct iovec *local, unsigned long locals,
			       const struct iovec *remote, unsigned long remotes,
			       unsigned long flags);

static void transfer(transfer_fn call, pid_t pid, void *here, void *there, size_t size)
{
	struct iovec local = { here, size }, remote = { there, size };

	if (call(pid, &local, 1, &remote, 1, 0) != (ssize_t)size)
		die("process_vm");
}

/* As uroce's ring; as many receive buffers as UCX posts for its reliable connections, as long. */
enum { LINE = 64, HEAD = 16, RING = 128 * 1024, POSTED = 4096, STRIDE = 8256 };

struct ring {
	/* Messages that were taken, alone in a line. */
	_Atomic uint64_t taken;
	unsigned char rest[LINE - sizeof(uint64_t)];
	unsigned char bytes[RING];
};

static size_t record(size_t size)
{
	return (HEAD + size + LINE - 1) / LINE * LINE;
}

static unsigned char *place_of(struct ring *ring, size_t number, size_t size)
{
	return ring->bytes + number % (RING / record(size)) * record(size);
}

/* Puts a message into the ring, when there is room. Its first word is its number. */
static void put(struct ring *ring, size_t number, const void *bytes, size_t size)
{
	static uint64_t taken;
	unsigned char *at = place_of(ring, number, size);

	while (number - taken >= RING / record(size))
		taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
	memcpy(at + HEAD, bytes, size);
	atomic_store_explicit((_Atomic uint64_t *)(void *)at, number + 1, memory_order_release);
}

static void take_all(struct ring *ring, void *own, size_t size)
{
	unsigned char *posted = memory((size_t)POSTED * STRIDE, MAP_PRIVATE);
	size_t often = RING / record(size) / 8 ? RING / record(size) / 8 : 1;

	memset(posted, 0, (size_t)POSTED * STRIDE);
	for (size_t number = 0;; number++) {
		unsigned char *at = place_of(ring, number, size);
		unsigned char *buffer = posted + number % POSTED * STRIDE;

		while (atomic_load_explicit((_Atomic uint64_t *)(void *)at, memory_order_acquire) !=
		       number + 1)
			;
		memcpy(buffer, at + HEAD, size);
		memcpy(own, buffer, size);
		if ((number + 1) % often == 0)
			atomic_store_explicit(&ring->taken, number + 1, memory_order_release);
	}
}

/* perftest's depth of a receive queue, the completions of which it takes at once, and the bytes of
 * a queue pair's buffer. A sender fills one queue pair after the other. */
enum { DEPTH = 512, BATCH = 16, OWN = 8192, IN_TURN = 100, MOST = 1 << 16 };

/* As uroce keeps a receive request of one piece. */
struct request {
	uint64_t id, address;
	uint32_t length, key;
	uint64_t rest;
};

struct queue {
	size_t oldest;
	struct request requests[DEPTH];
};

/* As the completion of a work request. */
struct done {
	uint64_t id;
	uint32_t words[10];
};

static struct done completions[BATCH];

static void take_by_queues(struct ring *ring, size_t queues, size_t size)
{
	struct queue *all = memory(queues * sizeof(*all), MAP_PRIVATE);
	unsigned char *buffers = memory(queues * OWN, MAP_PRIVATE);
	size_t often = RING / record(size) / 8 ? RING / record(size) / 8 : 1;

	memset(buffers, 0, queues * OWN);
	for (size_t at = 0; at < queues * DEPTH; at++) {
		struct request *request = &all[at / DEPTH].requests[at % DEPTH];

		request->id = at;
		request->address = (uintptr_t)(buffers + at / DEPTH * OWN + at * LINE % OWN);
		request->length = LINE;
	}
	for (size_t number = 0;; number++) {
		unsigned char *at = place_of(ring, number, size);
		struct queue *queue = &all[number / IN_TURN % queues];
		struct request *request = &queue->requests[queue->oldest++ % DEPTH];
		struct done *done = &completions[number % BATCH];

		while (atomic_load_explicit((_Atomic uint64_t *)(void *)at, memory_order_acquire) !=
		       number + 1)
			;
		memcpy((void *)(uintptr_t)request->address, at + HEAD, size);
		*done = (struct done){ .id = request->id, .words = { request->length } };
		*(volatile struct request *)request = *request;
		if ((number + 1) % often == 0)
			atomic_store_explicit(&ring->taken, number + 1, memory_order_release);
	}
}

static void enter(const char *namespace)
{
	char path[256];

	snprintf(path, sizeof(path), "/run/netns/%s", namespace);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		die(path);
	close(fd);
}

enum { UDP_PORT = 24790, LONGEST = 1024 };

static struct sockaddr_in place(const char *address)
{
	struct sockaddr_in place = { .sin_family = AF_INET, .sin_port = htons(UDP_PORT) };

	if (address && inet_pton(AF_INET, address, &place.sin_addr) != 1)
		die(address);
	return place;
}

/* A socket of this side; it goes to the other side's place if that is known. */
static int udp(const char *ours, const char *theirs)
{
	struct sockaddr_in here = place(ours), there = place(theirs);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof(here)))
		die("bind");
	if (theirs && connect(fd, (struct sockaddr *)&there, sizeof(there)))
		die("connect");
	return fd;
}

/* Where datagrams go that a call addresses, and from where; none does otherwise. */
static struct {
	int used;
	struct sockaddr_in to;
	struct in_addr from;
} addressed;

/* The sockets of a side whose calls address each datagram to the other one. */
static void address_to(int fd, struct sockaddr_in to)
{
	struct sockaddr_in own;
	socklen_t length = sizeof(own);
	int probe = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

	if (probe < 0 || connect(probe, (struct sockaddr *)&to, sizeof(to)) ||
	    getsockname(probe, (struct sockaddr *)&own, &length))
		die("the own address");
	close(probe);
	if (setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &on, sizeof(on)) ||
	    setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)))
		die("setsockopt");
	addressed.used = 1;
	addressed.to = to;
	addressed.from = own.sin_addr;
}

static void send_addressed(int fd, const void *bytes, size_t size)
{
	_Alignas(struct cmsghdr) unsigned char control[CMSG_SPACE(sizeof(struct in_pktinfo)) +
						       CMSG_SPACE(sizeof(int))] = { 0 };
	struct in_pktinfo info = { .ipi_spec_dst = addressed.from };
	struct iovec piece = { (void *)(uintptr_t)bytes, size };
	struct msghdr message = { .msg_name = &addressed.to,
				  .msg_namelen = sizeof(addressed.to),
				  .msg_iov = &piece,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *first = CMSG_FIRSTHDR(&message);
	int hops = 255;

	*first = (struct cmsghdr){ .cmsg_level = IPPROTO_IP,
				   .cmsg_type = IP_PKTINFO,
				   .cmsg_len = CMSG_LEN(sizeof(info)) };
	memcpy(CMSG_DATA(first), &info, sizeof(info));
	struct cmsghdr *second = CMSG_NXTHDR(&message, first);
	*second = (struct cmsghdr){ .cmsg_level = IPPROTO_IP,
				    .cmsg_type = IP_TTL,
				    .cmsg_len = CMSG_LEN(sizeof(hops)) };
	memcpy(CMSG_DATA(second), &hops, sizeof(hops));
	if (sendmsg(fd, &message, 0) != (ssize_t)size)
		die("sendmsg");
}

static ssize_t receive_addressed(int fd, void *bytes, size_t size)
{
	_Alignas(struct cmsghdr) unsigned char control[256];
	struct sockaddr_storage from;
	struct iovec piece = { bytes, size };
	struct msghdr message = { .msg_name = &from,
				  .msg_namelen = sizeof(from),
				  .msg_iov = &piece,
				  .msg_iovlen = 1,
				  .msg_control = control,
				  .msg_controllen = sizeof(control) };

	return recvmsg(fd, &message, MSG_DONTWAIT);
}

static void send_all(int fd, const void *bytes, size_t size)
{
	if (addressed.used) {
		send_addressed(fd, bytes, size);
		return;
	}
	if (send(fd, bytes, size, 0) != (ssize_t)size)
		die("send");
}

/* Polls for a datagram. A lost datagram ends the program after 10 seconds. */
static void receive_all(int fd, void *bytes, size_t size)
{
	uint64_t began = now();

	for (unsigned long looks = 1; (addressed.used ? receive_addressed(fd, bytes, size) :
							recv(fd, bytes, size, 0)) < 0;
	     looks++) {
		if (errno != EAGAIN || (looks % 65536 == 0 && now() - began > 10000000000u))
			die("recv");
	}
}

/* Answers each datagram of the sender of the first one. */
static void echo(const char *address, int by_address, void *bytes, size_t size,
		 _Atomic uint64_t *ready)
{
	struct sockaddr_in peer;
	socklen_t length = sizeof(peer);
	int fd = udp(address, NULL);

	atomic_store(ready, 1);
	while (recvfrom(fd, bytes, size, 0, (struct sockaddr *)&peer, &length) < 0) {
		if (errno != EAGAIN)
			die("recvfrom");
	}
	if (by_address)
		address_to(fd, peer);
	else if (connect(fd, (struct sockaddr *)&peer, length))
		die("connect");
	for (;;) {
		send_all(fd, bytes, size);
		receive_all(fd, bytes, size);
	}
}

/* Bytes of RoCE v2 around a payload: BTH and ICRC. */
enum { AROUND = 16 };
/* Bytes and datagrams that a call sends at most. */
enum { RUN_BYTES = 65000, RUN = 64 };
/* Bytes under way at most: a path of 10 ms is filled, and the receiver's socket holds them. */
enum { WINDOW = 4 << 20, ROOM = 16 * WINDOW };
/* Nothing arrives for so long, in nanoseconds: all that is under way is lost. */
enum { PATIENCE = 100000000 };

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* A CRC-32 of Ethernet, by eight tables. */
static uint32_t tables[8][256];

static void fill_tables(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
		tables[0][byte] = crc;
	}
	for (int table = 1; table < 8; table++) {
		for (int byte = 0; byte < 256; byte++) {
			uint32_t before = tables[table - 1][byte];

			tables[table][byte] = before >> 8 ^ tables[0][before & 0xff];
		}
	}
}

static uint32_t crc_of(const unsigned char *bytes, size_t length)
{
	uint32_t crc = ~0u;

	for (; length >= 8; length -= 8, bytes += 8) {
		uint64_t word;

		memcpy(&word, bytes, sizeof(word));
		word ^= crc;
		crc = 0;
#pragma GCC unroll 8
		for (int at = 0; at < 8; at++)
			crc ^= tables[7 - at][word >> 8 * at & 0xff];
	}
	for (; length; length--, bytes++)
		crc = crc >> 8 ^ tables[0][(crc ^ *bytes) & 0xff];
	return ~crc;
}

/* Memory of a message, whose payloads are next to each other. */
static unsigned char message[RUN * (RUN_BYTES / RUN)];

/* Copies the payloads of a run from the message, and ends each with the CRC. */
static void seal_run(unsigned char *bytes, size_t datagrams, size_t payload)
{
	for (size_t at = 0; at < datagrams; at++, bytes += payload + AROUND) {
		unsigned char *body = bytes + AROUND - sizeof(uint32_t);
		uint32_t crc;

		memcpy(body, message + at * payload, payload);
		crc = crc_of(bytes, payload + AROUND - sizeof(crc));
		memcpy(body + payload, &crc, sizeof(crc));
	}
}

/* Checks the datagrams of a run, and copies the payloads into the message. */
static void check_run(const unsigned char *bytes, size_t datagrams, size_t payload)
{
	for (size_t at = 0; at < datagrams; at++, bytes += payload + AROUND) {
		const unsigned char *body = bytes + AROUND - sizeof(uint32_t);
		uint32_t crc = crc_of(bytes, payload + AROUND - sizeof(crc));

		if (memcmp(body + payload, &crc, sizeof(crc))) {
			fprintf(stderr, "a datagram is not whole\n");
			exit(1);
		}
		memcpy(message + at * payload, body, payload);
	}
}

/* What the two ends of a stream know of each other, in bytes of payload. */
struct stream {
	_Atomic uint64_t ready;
	/* The end of the furthest datagram that has arrived. */
	_Atomic uint64_t furthest;
	/* All that have arrived. */
	_Atomic uint64_t arrived;
	/* Datagrams have check sums, and payloads places. */
	int checked;
};

static void option(int fd, int level, int name, int value)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		die("setsockopt");
}

/* Counts what arrives. Each datagram begins with the place of its end in the stream. */
static void count_stream(const char *address, size_t payload, struct stream *stream)
{
	static unsigned char bytes[1 << 16];
	int fd = udp(address, NULL);

	option(fd, SOL_SOCKET, SO_RCVBUFFORCE, ROOM);
	option(fd, SOL_UDP, UDP_GRO, 1);
	atomic_store(&stream->ready, 1);
	for (;;) {
		ssize_t got = recv(fd, bytes, sizeof(bytes), 0);
		size_t datagrams = got < 0 ? 0 : (size_t)got / (payload + AROUND);
		uint64_t end;

		if (got < 0 && errno != EAGAIN)
			die("recv");
		if (!datagrams)
			continue;
		memcpy(&end, bytes + (datagrams - 1) * (payload + AROUND), sizeof(end));
		if (stream->checked)
			check_run(bytes, datagrams, payload);
		atomic_fetch_add(&stream->arrived, datagrams * payload);
		atomic_store(&stream->furthest, end);
	}
}

/* Sends so many bytes, and returns how many have arrived. */
static uint64_t send_stream(int fd, size_t payload, uint64_t all, struct stream *stream)
{
	static unsigned char bytes[RUN_BYTES];
	size_t length = payload + AROUND, most = RUN_BYTES / length;
	uint64_t sent = 0, lost = 0, seen = 0, since = now();

	if (most > RUN)
		most = RUN;
	option(fd, SOL_SOCKET, SO_SNDBUFFORCE, ROOM);
	option(fd, SOL_UDP, UDP_SEGMENT, (int)length);
	for (;;) {
		uint64_t there = atomic_load(&stream->furthest);
		size_t run = 0;

		if (there != seen) {
			seen = there;
			since = now();
		} else if (sent != seen && now() - since > PATIENCE) {
			lost = sent;
		}
		if (sent >= all && (there >= sent || lost >= sent))
			return atomic_load(&stream->arrived);
		if (sent - (there > lost ? there : lost) > WINDOW)
			continue;
		for (; run < most && sent < all; run++) {
			sent += payload;
			memcpy(bytes + run * length, &sent, sizeof(sent));
		}
		if (stream->checked)
			seal_run(bytes, run, payload);
		while (run && send(fd, bytes, run * length, 0) < 0) {
			if (errno != EAGAIN)
				die("send");
		}
		since = run ? now() : since;
	}
}

/* The receiver is a child. Prints the nanoseconds of `size` bytes. */
static int stream(size_t size, size_t count, int checked, const cpu_set_t *allowed, char **where)
{
	size_t payload = strtoull(where[3], NULL, 0);
	struct stream *stream = memory(sizeof(*stream), MAP_SHARED);

	if (payload < 8 || payload > RUN_BYTES - AROUND) {
		fprintf(stderr, "PAYLOAD is from 8 to %d\n", RUN_BYTES - AROUND);
		return 2;
	}
	stream->checked = checked;
	fill_tables();
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(allowed, 0);
		enter(where[0]);
		count_stream(where[2], payload, stream);
	}
	pin(allowed, 1);
	while (!atomic_load(&stream->ready)) {
		if (waitpid(child, NULL, WNOHANG) == child)
			return 1;
	}
	enter(where[1]);
	uint64_t began = now();
	uint64_t arrived = send_stream(udp(NULL, where[2]), payload, size * count, stream);
	double took = (double)(now() - began);

	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	printf("mean\t%.2f\n", took * (double)size / (double)arrived);
	return 0;
}

static int by_value(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
	int by_address = argc == 7 && !strcmp(argv[1], "addressed");
	int by_udp = argc == 7 && (by_address || !strcmp(argv[1], "udp"));
	int by_queues = argc == 5 && !strcmp(argv[1], "queues");
	size_t queues = by_queues ? strtoull(argv[4], NULL, 0) : 1;
	size_t count = argc == 4 || by_udp || by_queues ? strtoull(argv[3], NULL, 0) : 0;

	int receive = argc == 4 && !strcmp(argv[1], "receive");
	int checked = argc == 8 && !strcmp(argv[1], "checked");
	int by_stream = argc == 8 && (checked || !strcmp(argv[1], "stream"));
	if (by_stream)
		count = strtoull(argv[3], NULL, 0);
	size_t longest = receive   ? STRIDE :
			 by_udp    ? LONGEST :
			 by_queues ? LINE :
				     SIZE_MAX;
	if (count < GROUP || strtoull(argv[2], NULL, 0) > longest || !queues || queues > MOST) {
		fprintf(stderr, "raw writev|readv|line|receive SIZE COUNT (100 or more)\n"
				"raw queues SIZE COUNT QUEUES\n"
				"raw udp|addressed SIZE COUNT FIRST SECOND ADDRESS\n"
				"raw stream|checked SIZE COUNT FIRST SECOND ADDRESS PAYLOAD\n");
		return 2;
	}
	int line = !strcmp(argv[1], "line");
	transfer_fn call = !strcmp(argv[1], "readv") ? process_vm_readv : process_vm_writev;
	size_t size = strtoull(argv[2], NULL, 0);
	_Atomic uint64_t *word = memory(4096, MAP_SHARED);
	struct ring *ring = memory(sizeof(*ring), MAP_SHARED);
	/* Both are private: the child's pages are its own, since it writes them. */
	volatile unsigned char *there = memory(size, MAP_PRIVATE);
	void *here = memory(size, MAP_PRIVATE);
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		die("sched_getaffinity");
	if (by_stream)
		return stream(size, count, checked, &allowed, argv + 4);
	memset(here, 1, size);
	pid_t child = fork();
	if (child < 0)
		die("fork");
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(&allowed, 0);
		memset((void *)there, 0, size);
		if (by_udp) {
			enter(argv[4]);
			echo(argv[6], by_address, (void *)there, size, word);
		}
		if (line) {
			for (uint64_t turn = 0;; turn++)
				step(word, 2 * turn + 1);
		}
		atomic_store(word, 1);
		if (receive)
			take_all(ring, (void *)there, size);
		if (by_queues)
			take_by_queues(ring, queues, size);
		for (;;)
			(void)there[size - 1];
	}
	pin(&allowed, 1);
	while (!line && !atomic_load(word)) {
		/* It has printed why. */
		if (waitpid(child, NULL, WNOHANG) == child)
			return 1;
	}
	int fd = -1;
	if (by_udp) {
		enter(argv[5]);
		fd = udp(NULL, by_address ? NULL : argv[6]);
		if (by_address)
			address_to(fd, place(argv[6]));
	}
	/* One group first that is not counted. */
	double *groups = calloc(count / GROUP + 1, sizeof(*groups)), total = 0;
	size_t turn = 0, done = 0;
	if (!groups)
		die("calloc");
	for (size_t group = 0; group <= count / GROUP; group++) {
		uint64_t began = now();

		for (size_t at = 0; at < GROUP; at++, turn++) {
			if (line) {
				step(word, 2 * turn);
			} else if (by_udp) {
				send_all(fd, here, size);
				receive_all(fd, here, size);
			} else if (receive || by_queues) {
				put(ring, turn, here, size);
			} else {
				transfer(call, child, here, (void *)there, size);
			}
		}
		double took = (double)(now() - began) / GROUP / (line || by_udp ? 2 : 1);
		if (group) {
			groups[done++] = took;
			total += took;
		}
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	qsort(groups, done, sizeof(*groups), by_value);
	printf("mean\t%.2f\nmedian\t%.2f\n", total / (double)done, groups[done / 2]);
	return 0;
}
