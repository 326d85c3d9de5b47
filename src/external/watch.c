/*
 * A call is the same as before if the worker's counter is: the function and the number of the step then are, too.
 * Tests: tests/unit/test_external.c, tests/programs/hostile.test
 */
#include "external/watch.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "external/parts.h"

/* Seconds between two looks, at most; and their part of the timeout. */
static const double PAUSE = 0.25, PAUSE_PART = 0.1;
enum { STACK_BYTES = 128 << 10 };

struct watcher {
	struct external_set *set;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake; /* of ENDS */
	bool ends;
	double slowest; /* seconds that the slowest call has taken, as far as it was seen */
};

static void note_call(const struct external *program, const char *subject, int64_t number, double seconds)
{
	const struct external_options *options = &program->set->options;
	char step[40] = "", text[600];
	if (number >= 0)
		snprintf(step, sizeof step, "step %lld: ", (long long)number);
	snprintf(text, sizeof text, "ckptc: note: program '%.100s' (%.200s): %sfor %.0f s %s not returned", program->name,
	         program->target, step, seconds, subject);
	diag_escape(text, options->pass, options->pass_context);
	options->pass(options->pass_context, "\n", 1);
}

/* Looks at WORKER of PROGRAM. */
static void look(struct watcher *watcher, const struct external *program, struct external_worker *worker, double now)
{
	const struct external_options *options = &watcher->set->options;
	struct watched *w = &worker->watched;
	const uint64_t calls = atomic_load_explicit(&w->calls, memory_order_acquire);
	const char *subject = atomic_load(&w->subject);
	const int64_t number = atomic_load(&w->number);
	if (calls != w->seen) {
		if (w->seen % 2 == 1)
			watcher->slowest = fmax(watcher->slowest, now - w->since);
		w->seen = calls;
		w->since = now;
		w->noted = false;
	}
	/* If the counter is still the same, so is what was read. */
	if (calls % 2 == 0 || atomic_load(&w->calls) != calls)
		return;
	const double seconds = now - w->since;
	if (options->timeout > 0 && options->ended && seconds >= options->timeout)
		guard_end_for(program, subject, number, options->timeout);
	if (options->pass && !w->noted && seconds >= external_patience(watcher->slowest)) {
		w->noted = true;
		note_call(program, subject, number, seconds);
	}
}

/* Returns when the watcher looks again. */
static struct timespec next_look(const struct watcher *watcher)
{
	const double timeout = watcher->set->options.timeout;
	const double pause = timeout > 0 ? fmin(PAUSE, PAUSE_PART * timeout) : PAUSE;
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_nsec += (long)(pause * 1e9);
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return at;
}

static void *watch_main(void *context)
{
	struct watcher *watcher = context;
	struct external_set *set = watcher->set;
	pthread_mutex_lock(&watcher->lock);
	while (!watcher->ends) {
		const struct timespec at = next_look(watcher);
		pthread_cond_timedwait(&watcher->wake, &watcher->lock, &at);
		const double now = clock_seconds();
		for (uint32_t i = 0; i < set->count && !watcher->ends; i++)
			for (int w = 0; set->programs[i].backend == &shared_object_backend && w < set->options.workers; w++)
				look(watcher, &set->programs[i], &set->programs[i].workers[w], now);
	}
	pthread_mutex_unlock(&watcher->lock);
	return NULL;
}

/* Starts the thread, to which no signal comes. */
static bool start_thread(struct watcher *watcher)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	if (pthread_attr_init(&attributes) != 0)
		return false;
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const bool good = pthread_create(&watcher->thread, &attributes, watch_main, watcher) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return good;
}

struct watcher *watch_begin(struct external_set *set)
{
	pthread_condattr_t clock;
	struct watcher *watcher = arena_alloc(set->context.arena, sizeof *watcher);
	if (!watcher || !(set->options.pass || (set->options.timeout > 0 && set->options.ended)))
		return NULL;
	*watcher = (struct watcher){.set = set};
	pthread_mutex_init(&watcher->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&watcher->wake, &clock);
	pthread_condattr_destroy(&clock);
	if (start_thread(watcher))
		return watcher;
	pthread_cond_destroy(&watcher->wake);
	pthread_mutex_destroy(&watcher->lock);
	return NULL;
}

void watch_end(struct watcher *watcher)
{
	if (!watcher)
		return;
	pthread_mutex_lock(&watcher->lock);
	watcher->ends = true;
	pthread_cond_signal(&watcher->wake);
	pthread_mutex_unlock(&watcher->lock);
	pthread_join(watcher->thread, NULL);
	pthread_cond_destroy(&watcher->wake);
	pthread_mutex_destroy(&watcher->lock);
}
