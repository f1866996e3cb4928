/*
 * A channel is destroyed while a thread waits for an event of it. As over a kernel device, the
 * thread is not woken. It also must not read from a new file that gets the number of the channel's
 * descriptor. The thread is in a signal handler while the channel is destroyed, so that it begins
 * its wait anew.
 */
#include "lo.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>

static struct rdma_event_channel *channel;
static atomic_int thread_id;
static atomic_bool returned;
static sem_t in_handler, go_on;

static void handle(int signal)
{
	(void)signal;
	sem_post(&in_handler);
	while (sem_wait(&go_on))
		;
}

static void *wait_for_event(void *argument)
{
	struct rdma_cm_event *event;

	atomic_store(&thread_id, gettid());
	rdma_get_cm_event(channel, &event);
	atomic_store(&returned, true);
	return argument;
}

/* Whether the thread sleeps in a call in which it may wait for ever. */
static bool sleeps(void)
{
	char path[64], state[64] = "";
	long number;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", atomic_load(&thread_id));
	file = fopen(path, "r");
	expect(file);
	expect(fgets(state, sizeof(state), file));
	fclose(file);
	number = strtol(state, NULL, 10);
	return state[0] >= '0' && state[0] <= '9' &&
	       (number == SYS_recvfrom || number == SYS_pause);
}

static void until_it_sleeps(void)
{
	while (!atomic_load(&returned) && (!atomic_load(&thread_id) || !sleeps()))
		usleep(1000);
	expect(!atomic_load(&returned));
}

/* Gives another socket the number that the channel's descriptor had. A byte lies in it. */
static void take_number(int number, int ends[2])
{
	enum { HIGH = 100 };
	int made[2], i;

	MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, made));
	for (i = 0; i < 2; i++) {
		ends[i] = fcntl(made[i], F_DUPFD, HIGH);
		expect(ends[i] >= HIGH);
		close(made[i]);
	}
	expect(dup2(ends[0], number) == number);
	expect(send(ends[1], "x", 1, 0) == 1);
}

static void destroyed(const char *title, bool has_event)
{
	int descriptors = open_descriptors(), number, ends[2];
	struct rdma_cm_id *id;
	pthread_t thread;
	char byte = 0;
	void *end;

	channel = MUST_PTR(rdma_create_event_channel());
	number = channel->fd;
	id = new_id(channel, NULL, RDMA_PS_TCP);
	atomic_store(&thread_id, 0);
	MUST(pthread_create(&thread, NULL, wait_for_event, NULL));
	until_it_sleeps();
	MUST(pthread_kill(thread, SIGUSR1));
	MUST(sem_wait(&in_handler));
	if (has_event)
		MUST(rdma_write_cm_event(id, RDMA_CM_EVENT_USER, 0, 1));
	else
		MUST(rdma_destroy_id(id));
	rdma_destroy_event_channel(channel);
	take_number(number, ends);
	MUST(sem_post(&go_on));
	until_it_sleeps();
	MUST(pthread_cancel(thread));
	MUST(pthread_join(thread, &end));
	expect(end == PTHREAD_CANCELED);
	expect(recv(number, &byte, 1, MSG_DONTWAIT) == 1 && byte == 'x');
	close(number);
	close(ends[0]);
	close(ends[1]);
	expect(open_descriptors() == descriptors);
	out("%s: waits on", title);
}

/* A thread that comes just after waits as well; the one that has destroyed the channel does not. */
static void late(void)
{
	int descriptors = open_descriptors();
	struct rdma_cm_event *event;
	pthread_t thread;
	void *end;

	channel = MUST_PTR(rdma_create_event_channel());
	atomic_store(&thread_id, 0);
	rdma_destroy_event_channel(channel);
	MUST(pthread_create(&thread, NULL, wait_for_event, NULL));
	until_it_sleeps();
	MUST(pthread_cancel(thread));
	MUST(pthread_join(thread, &end));
	expect(end == PTHREAD_CANCELED);
	expect(rdma_get_cm_event(channel, &event) == -1 && errno == EBADF);
	expect(open_descriptors() == descriptors);
	out("too late: waits");
}

int main(void)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
	struct rdma_event_channel *first;

	if (!own_device())
		return done();
	MUST(sigaction(SIGUSR1, &action, NULL));
	MUST(sem_init(&in_handler, 0, 0));
	MUST(sem_init(&go_on, 0, 0));
	/* Makes objects that stay open. */
	first = MUST_PTR(rdma_create_event_channel());
	destroyed("without an event", false);
	destroyed("with an event", true);
	late();
	rdma_destroy_event_channel(first);
	return done();
}
