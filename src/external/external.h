/*
 * Steps that other programs compute. A program is a command, which answers messages on its standard input and output
 * (ckptc-program(7)), or a shared object, whose functions are called (ckptc_step.h).
 *
 *     external_bind     checks the names, opens shared objects; starts nothing
 *     external_open     tells a program its types, learns its traits; starts commands
 *     external_memory   optional: memory that all commands share
 *     external_call     computes steps, any number of times
 *     external_sum      the gradients that a program added up itself
 *     external_finish   ends all, and sees that they said no more than was asked
 *     external_close    frees all, after a failure too
 *
 * A worker is a process of each command, and a context of each shared object. Calls of different workers may run at the
 * same time; calls of one worker may not. All other functions belong to one thread, while no call runs.
 *
 * A program that fails is STATUS_PROGRAM. The message names the program, its command, the number of the step, and what
 * went wrong; the program's last line on standard error is the note. After that the program's worker is of no use.
 */
#ifndef EXTERNAL_EXTERNAL_H
#define EXTERNAL_EXTERNAL_H

#include "base/diag.h"
#include "base/type.h"
#include "language/program_traits.h"

/* --program NAME=TARGET. TARGET is a shared object if it ends in ".so", else a command for /bin/sh. */
struct external_binding {
	const char *name, *target;
};

/* All that a command gives. */
struct external_bindings {
	const struct external_binding *list;
	size_t count;
};

struct external_options {
	double timeout; /* seconds for which a command may neither read nor write while an answer is due; 0: no limit */
	int workers;    /* at least 1 */
	/* Receives what commands write to standard error, and notes on them, from the threads of all workers. NULL: nobody. */
	diag_write *pass;
	void *pass_context;
	/*
	 * Ends the process, as WHAT says of a function of a shared object. The thread that runs the function calls it, or one
	 * that watches. A child process that leaves a call calls it too, and must end. It also says that the process is the
	 * command's own, so signals and cancellation are put back after calls. NULL: those are the caller's matter.
	 */
	void (*ended)(const char *what);
};

struct external_set;

/* True if TARGET is a shared object. */
bool external_is_object(const char *target);
/*
 * Binds the programs NAMES of a chain, COUNT of them, by BINDINGS. Fails with STATUS_USAGE if a binding
 * names no program of the chain (the nearest name is a hint) or one twice, with STATUS_PROGRAM if a shared object cannot
 * be opened, or is of another version. The set lives in the context's arena, and its buffers in the allocator, until
 * external_close. Names and targets must outlive it.
 */
enum status external_bind(const struct context *context, const char *const *names, uint32_t count,
                          const struct external_bindings *bindings, const struct external_options *options,
                          struct external_set **set);
/*
 * Hashes what is bound, for comparing two commands: to *TARGETS the names and targets of the programs, to *OBJECTS the
 * contents of the shared objects. What a command runs is not known. SET may be NULL. Fails with STATUS_PROGRAM if a
 * shared object cannot be read.
 */
enum status external_identify(const struct external_set *set, uint64_t *targets, uint64_t *objects,
                              struct diags *diags);
/* True if program PROGRAM, an index into NAMES, is bound. */
bool external_bound(const struct external_set *set, uint32_t program);

/* The types of a program's steps. All dtypes are F32 or F64, those in which the arrays are in memory. */
struct external_signature {
	struct type x, y;
	uint32_t count; /* of operands, at most PROGRAM_OPERANDS */
	const char *const *names;
	const struct type *operands;
	bool gradient_x;    /* backward calls give the cotangent of x */
	uint32_t gradients; /* mask: and those of operands */
};

/*
 * Starts PROGRAM, which is bound, unless it runs, tells it the types and writes its TRAITS. A later call with other types
 * tells it these; with the same types it only writes the traits. Then all operands are sent again, sums are 0, and
 * records are gone. Fails with STATUS_CHAIN if two arrays of a message would have one name: an operand must not be
 * called x, y, g, gradients, or d and the name of another.
 */
enum status external_open(struct external_set *set, uint32_t program, const struct external_signature *signature,
                          struct program_traits *traits, struct diags *diags);

/*
 * Sets *MEMORY to SIZE bytes that the commands share: arrays in them travel by their offset. They are ARRAY_ALIGN
 * aligned and 0, and take no memory until they are used. NULL if no program that is open asked for such memory. Arrays
 * elsewhere are copied, so this is never necessary.
 */
enum status external_memory(struct external_set *set, size_t size, void **memory, struct diags *diags);
/* Gives MEMORY, of external_memory, back to the system. NULL does nothing. */
void external_memory_put(struct external_set *set, void *memory);

enum external_call_kind {
	EXTERNAL_FORWARD,  /* y from x and operands */
	EXTERNAL_RECORD,   /* the same; the program keeps what its backward needs, and *RECORDED names it */
	EXTERNAL_BACKWARD, /* dx and doperands from g, and either from HANDLE or from what the traits say is needed */
};

/* Arrays in C order, of the signature's types. Those that are written overlap no other. */
struct external_call {
	uint32_t program;
	enum external_call_kind kind;
	int64_t number; /* of the step: the index of this call in the forward pass with all loops written out, from 0 */
	const void *x;  /* may be NULL where a backward call does not need it, as may Y and operands */
	const void *const *operands;
	uint32_t constant; /* mask: operands that do not change until external_forget; a command gets them once */
	void *y;           /* EXTERNAL_BACKWARD only reads it */
	const void *g;     /* the cotangent of y */
	void *dx;          /* NULL: not wanted; so with its elements */
	void **doperands;  /* written, not added to; those that the program sums are not touched */
	/*
	 * Mask: a command may replace these DOPERANDS by arrays of its own. They keep their values until the next call with a
	 * mask has returned.
	 */
	uint32_t aliased;
	uint64_t
		handle; /* EXTERNAL_BACKWARD: of a record, which ends with this call; 0: none. It needs constant operands only */
	uint64_t *recorded; /* EXTERNAL_RECORD: not 0 */
	/* Work that a command's computation hides: runs once, before the call returns, unless that fails. NULL: none. */
	void (*meanwhile)(void *context);
	void *context; /* of MEANWHILE */
};
/* Computes one step on WORKER, 0 .. options.workers - 1. A handle belongs to the worker that recorded. */
enum status external_call(struct external_set *set, int worker, const struct external_call *call, struct diags *diags);
/* Returns the seconds that calls have taken so far, of all workers. SET may be NULL. No call may run. */
double external_seconds(const struct external_set *set);
/* Ends a record without its backward call. */
enum status external_release(struct external_set *set, int worker, uint32_t program, uint64_t handle,
                             struct diags *diags);
/* Constant operands have changed since the last call. */
void external_forget(struct external_set *set);
/*
 * Writes to SUM, of the operand's type, the gradient by OPERAND that PROGRAM added up since it was opened: a worker after
 * the other. Then the program begins again at 0.
 */
enum status external_sum(struct external_set *set, uint32_t program, uint32_t operand, void *sum, struct diags *diags);

/*
 * Ends the input of all commands after a good run, and awaits their ends. Fails if a command has written more than its
 * answers, or ends with a status other than 0. SET may be NULL.
 */
enum status external_finish(struct external_set *set, struct diags *diags);
/*
 * Ends all programs, and frees SET, which may be NULL. Commands that do not end at the end of their input are killed,
 * with the processes that they started. None is left.
 */
void external_close(struct external_set *set);
/* Whose call of a function of a shared object is meant. */
enum external_whose {
	EXTERNAL_THIS_THREADS, /* that of this thread */
	EXTERNAL_THREADS, /* likewise; or, in a thread that an object may have started, the one that began last and runs */
	EXTERNAL_LATEST,  /* likewise; or the one that began last */
};
/*
 * For handlers of signals and of exit: if there is such a call, writes "program 'step' (./step.so): step 3: " to TO, of
 * SIZE bytes, and returns true. It is async-signal-safe.
 */
bool external_describe_call(enum external_whose whose, char *to, size_t size);
/* An object has changed the signals of this thread or the process. If this thread is in a call, they are put back after it. */
void external_note_signals(void);
/* Ends all commands of this process. It is async-signal-safe, for handlers of signals that end it. */
void external_cleanup(void);

#endif
