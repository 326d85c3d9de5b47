/*
 * What the evaluator implements: the machine calls these hooks as it walks a
 * schedule, and names the places in the slab that each call reads and writes.
 */
#ifndef MEMORY_HOOKS_H
#define MEMORY_HOOKS_H

#include "compile/compiled.h"
#include "memory/counters.h"
#include "schedule/action.h"

enum call_kind { CALL_FORWARD, CALL_RECORD, CALL_BACKWARD };

/* One execution of a program. `ins`, `outs` and `workspace` are offsets into the slab, in bytes. */
struct machine_call {
	enum call_kind kind;
	const struct program *program;
	const struct compiled_step *compiled;
	const struct particulars *own;  /* of the step */
	const struct step_times *times; /* of the step */
	int64_t step;
	const int64_t *counters;                   /* of the loops around the step, by level */
	const int64_t *ins, *outs;                 /* by port of the program's body; -1: none, or not written */
	const struct param_ref *const *out_params; /* by out: the param that the hook copies to it, or NULL */
	int64_t workspace;
	int64_t live;    /* the top of the slab while it runs: bytes in use and the holes between them */
	bool recomputed; /* a forward or recording call after the first sweep */
};

/* Where an array lies in the slab, in bytes. OFFSET -1: nowhere, a hook that reads it drops it. */
struct machine_array {
	int64_t offset, size;
};

/* The arrays that the chain and its surroundings exchange. */
enum machine_input_output {
	MACHINE_INPUT,    /* the hook writes the chain's input at OFFSET */
	MACHINE_OUTPUT,   /* the chain's value lies at OFFSET; only if options->want_value */
	MACHINE_SEED,     /* the hook writes the cotangent of the output at OFFSET; only if the output has one */
	MACHINE_GRADIENT, /* the input's gradient lies at OFFSET; -1: it is zero */
};

/* A state is written to disk, or read back. ALONE: there is nothing but that state, no cotangents either. */
enum machine_disk { MACHINE_SPILL, MACHINE_SPILL_ALONE, MACHINE_FETCH };

/* A moment between calls. A run can continue here that has the arrays which are held, and the states on disk. */
struct machine_moment {
	int64_t bytes; /* of the held arrays, each rounded up */
	bool recorded; /* residuals are among them */
	int64_t slot;  /* the disk slot to which a state is written next, or -1 */
};

/* A recorded call or, if call.program is NULL, a recorded exchange of an array. */
struct machine_event {
	struct machine_call call;
	enum machine_input_output which;
	int64_t offset;
	const struct type *type;
};

/* What a walk told its hooks: see replay.c. The caller sets the arena, which must outlive the log. */
struct machine_log {
	struct arena *arena;
	struct machine_event *events;
	size_t count, capacity;
	bool complete; /* a walk is recorded */
	bool off;      /* it had too many events, or failed */
	struct counters counters;
};

/* Where a walk continues: see struct machine_hooks. COMPILED NULL: as before. */
struct machine_switch {
	const struct compiled_chain *compiled;
	struct schedule *schedule;
};

/* All hooks except `call` may be NULL. A hook that returns an error ends the walk. */
struct machine_hooks {
	void *context;
	enum status (*call)(void *context, const struct machine_call *call);
	enum status (*input_output)(void *context, enum machine_input_output which, int64_t offset,
	                            const struct type *type);
	/* Copies the array at FROM to TO: from TYPE into fewer bits if NARROW, else from fewer bits into TYPE. */
	enum status (*convert)(void *context, int64_t to, int64_t from, const struct type *type, bool narrow);
	/* Writes the COUNT ARRAYS of a state to disk slot SLOT, or reads them from it. Each array comes once. */
	enum status (*disk)(void *context, enum machine_disk access, int64_t slot, const struct machine_array *arrays,
	                    size_t count);
	/* Called after each call, and before a state is written to disk. If it returns true, `point` gets what is held. */
	bool (*wants_point)(void *context, const struct machine_moment *moment);
	enum status (*point)(void *context, const struct machine_array *arrays, size_t count);
	/*
	 * Called in the first sweep before the first action and after each that runs forward. The state before step
	 * POSITION lies at OFFSETS, by slot; -1: the slot has no array. If TO is set, the walk continues with that chain and
	 * that schedule, which must have begun with the same actions. Its states need no slots that this chain's lack.
	 */
	enum status (*boundary)(void *context, int64_t position, const int64_t *offsets, struct machine_switch *to);
	/* Called after each action; LIVE is the top of the slab. */
	enum status (*progress)(void *context, const struct action *action, int64_t live);
};

#endif
