/*
 * Threads that wait in a call and are cancelled there (pthread_cancel(3)). A program defines
 * `struct scene`, which its calls are given.
 */
#ifndef WAITER_H
#define WAITER_H

#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

struct scene;

/* A thread in a call. */
struct waiter {
	struct scene *scene;
	int (*call)(struct scene *scene);
	int state; /* PTHREAD_CANCEL_ENABLE or _DISABLE */
	int type;
	bool late; /* calls only after it was cancelled */
	pthread_t thread;
	atomic_bool ready, cancelled;
	atomic_int cleaned;
	int answer;
	bool returned;
};

static inline void clean(void *waiter)
{
	atomic_fetch_add(&((struct waiter *)waiter)->cleaned, 1);
}

static inline void *wait_in_call(void *argument)
{
	struct waiter *waiter = argument;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	pthread_setcanceltype(waiter->type, NULL);
	atomic_store(&waiter->ready, true);
	while (waiter->late && !atomic_load(&waiter->cancelled))
		sched_yield();
	pthread_cleanup_push(clean, waiter);
	/* An asynchronous one that was cancelled already ends here. */
	pthread_setcancelstate(waiter->state, NULL);
	waiter->answer = waiter->call(waiter->scene);
	waiter->returned = true;
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_testcancel();
	pthread_cleanup_pop(0);
	return NULL;
}

static inline void start(struct waiter *waiter)
{
	MUST(pthread_create(&waiter->thread, NULL, wait_in_call, waiter));
	while (!atomic_load(&waiter->ready))
		sched_yield();
}

/* Long enough that it mostly waits in the call; if not, it is cancelled at the call's beginning. */
static inline void let_it_wait(void)
{
	usleep(20000);
}

static inline void cancel(struct waiter *waiter)
{
	MUST(pthread_cancel(waiter->thread));
	atomic_store(&waiter->cancelled, true);
}

static inline void join(struct waiter *waiter, const char *title)
{
	void *end;

	MUST(pthread_join(waiter->thread, &end));
	out("%s: %s, %d handlers ran, the call %s", title,
	    end == PTHREAD_CANCELED ? "cancelled" : "not cancelled", waiter->cleaned,
	    waiter->returned ? "returned" : "did not return");
}

static inline void cancelled_in(struct scene *scene, int (*call)(struct scene *), int type,
				const char *title)
{
	struct waiter waiter = { .scene = scene, .call = call, .type = type };

	start(&waiter);
	let_it_wait();
	cancel(&waiter);
	join(&waiter, title);
}

#endif
