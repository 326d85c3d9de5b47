/*
 * Calls of a shared object's functions, which may change what belongs to the thread and the process, or end either.
 *
 * guard_enter and guard_leave stand around each call. What the object may have changed is put back:
 *
 *     floating-point control     after each call: rounding, flush-to-zero, exceptions that trap, the x87 stack
 *     the thread's signal mask   after calls that begin or end something or take long, and 5,000 times a second
 *     handlers of signals        likewise, and only if the process is the command's own
 *
 * A handler can ask in which call its thread is (programs_describe_call).
 */
#ifndef PROGRAMS_GUARD_H
#define PROGRAMS_GUARD_H

#include <pthread.h>
#include <signal.h>

#include "base/system.h"

struct program;

/* Signals whose handlers the command needs, and signals of faults. */
enum { GUARD_SIGNALS = 8, GUARD_FAULTS = 7 };

/* What the process had before an object was loaded. */
struct guard {
	void (*ended)(void); /* of struct program_options */
	struct sigaction signals[GUARD_SIGNALS], faults[GUARD_FAULTS];
	pthread_key_t key; /* of records that end with their threads */
	bool has_key;
};

void guard_begin(struct guard *guard, void (*ended)(void));
/* Only the calling thread may still have been in a call. */
void guard_end(struct guard *guard);

/*
 * The thread begins a call of PROGRAM for the step NUMBER, or -1. ALL: signals are put back after the call,
 * however short it is.
 */
void guard_enter(const struct program *program, int64_t number, bool all, struct float_state *floats);
/* The thread ends that call. */
void guard_leave(const struct program *program, const struct float_state *floats);

#endif
