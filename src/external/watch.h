/*
 * A thread that watches calls of functions of shared objects. It notes one that takes long, and ends the process if one
 * takes longer than --program-timeout. It wakes several times a second, and looks which calls are the same as before. So a
 * call costs no look at a clock.
 */
#ifndef EXTERNAL_WATCH_H
#define EXTERNAL_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct external_set;
struct watcher;

/* What the watcher sees of a worker, which runs one call at a time. */
struct watched {
	_Atomic uint64_t calls;        /* odd during a call */
	_Atomic(const char *) subject; /* of struct object_call */
	_Atomic int64_t number;
	/* The watcher's own: the value of CALLS last, and when it was new. */
	uint64_t seen;
	double since;
	bool noted;
};

static inline void watch_enter(struct watched *watched, const char *subject, int64_t number)
{
	atomic_store_explicit(&watched->subject, subject, memory_order_relaxed);
	atomic_store_explicit(&watched->number, number, memory_order_relaxed);
	atomic_store_explicit(&watched->calls, atomic_load_explicit(&watched->calls, memory_order_relaxed) + 1,
	                      memory_order_release);
}

static inline void watch_leave(struct watched *watched)
{
	atomic_store_explicit(&watched->calls, atomic_load_explicit(&watched->calls, memory_order_relaxed) + 1,
	                      memory_order_release);
}

/*
 * Watches the objects of SET, if its options want notes or have a timeout. Returns NULL if they do not, or if no thread can
 * be started: then nothing is noted.
 */
struct watcher *watch_begin(struct external_set *set);
/* WATCHER may be NULL. */
void watch_end(struct watcher *watcher);

#endif
