/*
 * Calls of a shared object's functions, which may change what belongs to the thread and the process, or end either.
 *
 * guard_enter and guard_leave stand around each call. What the object may have changed is put back:
 *
 *     floating-point control     after each call: rounding, flush-to-zero, exceptions that trap, the x87 stack
 *     the thread's signal mask   after calls that begin or end something, take long, or are known to have changed a mask or
 *                                a handler, and 5,000 times a second
 *     handlers of signals        likewise, and only if the process is the command's own
 *     cancellation               the thread can be cancelled during the call alone
 *
 * A child process that the object has made does not leave the call. A handler can ask in which call its thread is
 * (external_describe_call).
 */
#ifndef EXTERNAL_GUARD_H
#define EXTERNAL_GUARD_H

#include <pthread.h>
#include <signal.h>

#include "base/arena.h"
#include "base/system.h"
#include "external/watch.h"

struct external;
struct external_worker;

/* Signals whose handlers the command needs, and signals of faults. */
enum { GUARD_SIGNALS = 8, GUARD_FAULTS = 7 };

/* What the process had before an object was loaded. */
struct guard {
	void (*ended)(const char *what); /* of struct external_options */
	pid_t process;
	const char *page; /* begins with 1, or with 0 in a child process; NULL: the system has no such pages */
	struct sigaction signals[GUARD_SIGNALS], faults[GUARD_FAULTS];
	pthread_key_t key; /* of records that end with their threads */
	bool has_key;
};

void guard_begin(struct guard *guard, void (*ended)(const char *what));
/* Only the calling thread may still have been in a call. */
void guard_end(struct guard *guard);

/* A call of a function of an object. */
struct object_call {
	const struct external *program;
	struct external_worker *worker;
	const char *subject;       /* of a sentence, such as "its function 'open' has" */
	int64_t number;            /* of the step, or -1 */
	bool all;                  /* signals are put back after the call, however short it is */
	bool reads_text;           /* within guard_copy_text */
	struct float_state floats; /* of the caller */
};
/* The thread begins CALL, which must stay until guard_leave. */
void guard_enter(struct object_call *call);
/* Returns a copy, in ARENA, of TEXT, which the function has returned: that may be no text. Before guard_leave. */
const char *guard_copy_text(struct object_call *call, const char *text, struct arena *arena);
/* The thread ends CALL. */
void guard_leave(struct object_call *call);
/* Ends the process in the place of the thread in which PROGRAM runs for SECONDS now. SUBJECT and NUMBER are the call's. */
void guard_end_for(const struct external *program, const char *subject, int64_t number, double seconds);

#endif
