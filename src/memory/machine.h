/*
 * The machine: what a schedule does to memory. It interprets actions over the
 * steps of a lowered chain and keeps account of every array: which buffers the
 * state, the slots, the residuals and the cotangents hold, and where they lie.
 *
 * It is run twice: alone, it is the plan, exact to the byte; with hooks, the
 * evaluator computes at each call into the places that it names, and what is
 * counted then is the measurement. A buffer is freed when the last of its
 * holders lets go, so an array that is a checkpoint, a residual and a part of the
 * state at once lies in memory once.
 */
#ifndef MEMORY_MACHINE_H
#define MEMORY_MACHINE_H

#include "base/pool.h"
#include "compile/compiled.h"

enum call_kind { CALL_FORWARD, CALL_RECORD, CALL_BACKWARD };

/* One execution of a program: offsets into the slab. */
struct machine_call {
	enum call_kind kind;
	const struct program *program;
	const struct compiled_step *code;
	int64_t step;
	const int64_t *counters;
	const int64_t *ins, *outs;                 /* by port; -1: not written */
	const struct param_ref *const *out_params; /* by out: copied from a param, or NULL */
	int64_t workspace;
	int64_t live;    /* bytes in use while it runs */
	bool recomputed; /* forward or record, and not in the first sweep */
};

/* An array in the slab, in bytes. */
struct machine_array {
	int64_t offset, size;
};

enum machine_end {
	MACHINE_INPUT,    /* wanted */
	MACHINE_OUTPUT,   /* the chain's value */
	MACHINE_SEED,     /* the cotangent of the output, wanted */
	MACHINE_GRADIENT, /* of the input; OFFSET -1: it is zero */
};

/* Each returns a status; an error ends the run. OFFSETs are into the slab. */
struct machine_hooks {
	void *context;
	enum status (*call)(void *context, const struct machine_call *call);
	/* An array that comes from without, or goes there, is wanted or lies at OFFSET. */
	enum status (*end)(void *context, enum machine_end end, int64_t offset, const struct type *type);
	/* Array FROM is kept at TO in fewer bits (narrow), or brought back. */
	enum status (*convert)(void *context, int64_t to, int64_t from, const struct type *type, bool narrow);
	/* A state goes to disk slot SLOT, or is wanted from it: its arrays, each once. */
	enum status (*spill)(void *context, int64_t slot, const struct machine_array *arrays, size_t count);
	enum status (*fetch)(void *context, int64_t slot, const struct machine_array *arrays, size_t count);
	/*
	 * Nothing is held but ARRAYS and what is on disk, so that a run could begin here:
	 * the state that has just gone to disk slot SLOT, or, with SLOT -1, cotangents.
	 */
	enum status (*point)(void *context, int64_t slot, const struct machine_array *arrays, size_t count);
	/* After each action, with the bytes in use. */
	enum status (*progress)(void *context, const struct action *action, int64_t live);
};

/* A row of the residual report: something that is held when the first sweep ends. */
struct held {
	const struct type *type; /* that it is kept in */
	int64_t bytes;
	struct origin origin;
	int64_t step; /* that made it; -1 for an argument */
	const char *const *used_by;
	size_t used_by_count;
};
struct held_list {
	struct held *rows;
	size_t count;
};

struct machine_options {
	int64_t most;                      /* where the peak is beyond so many bytes the rest does not matter; 0: it does */
	bool want_value;                   /* the output is wanted at the end of the first sweep */
	enum dtype store;                  /* --store-dtype F16 or BF16, or DTYPE_COUNT */
	const struct machine_hooks *hooks; /* NULL: plan only */
	struct held_list *held;            /* where the residual report goes, or NULL */
	struct arena *arena;               /* for the report */
	const struct allocator *allocator;
};

/*
 * Interprets SCHEDULE over UNITS. Beyond options->most the walk ends, and of COUNTERS
 * only peak_bytes says anything: it is beyond too. STATUS_LIMIT where memory for its tables is
 * short; what hooks return. A wrong schedule is a bug (asserted).
 */
enum status machine_run(const struct compiled_chain *compiled, struct schedule *schedule,
                        const struct machine_options *options, struct counters *counters, struct diags *diags);

#endif
