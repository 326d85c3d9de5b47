/*
 * Private to the machine:
 *
 *     machine.c      the walk over a schedule's actions
 *     memo.c         forward steps; without hooks, those whose effect on memory is known are not walked
 *     steps.c        one step, forward, recorded or backward: one call
 *     states.c       the current state; states in slots and on disk
 *     state_tree.c   states, which share what is equal in them
 *     replay.c       with hooks, the recorded calls of a walk
 *     collected.c    arrays of states that loops make part by part
 *     held.c         the arrays that are held when the first sweep ends
 *     buffers.c      buffers in the slab
 */
#ifndef MEMORY_MACHINE_PARTS_H
#define MEMORY_MACHINE_PARTS_H

#include "base/hash.h"
#include "memory/buffers.h"
#include "memory/hooks.h"
#include "memory/machine.h"
#include "memory/state_tree.h"

/* The current state. It has the live slots of its position; the first one, or one before a condition, may have more. */
struct state {
	bool exists;
	int64_t position;
	struct state_tree tree;
};

/* A state in a memory slot. */
struct snapshot {
	bool used;
	int64_t position;
	struct state_tree tree;
};

/* A state on disk. */
struct disk_state {
	int64_t position;
	const struct step *step;     /* the step at POSITION when the state was written: its live slots are on disk */
	struct state_tree collected; /* arrays of the state that stay in memory: see collected.c */
};

/* An array that a loop collects in SLOT: steps FIRST .. LAST write parts of it. PASSED: nobody reads it again. */
struct collected_array {
	uint32_t slot;
	int64_t first, last; /* LAST: so far, in the first sweep */
	bool passed;
};
struct collected_arrays {
	struct collected_array *items;
	size_t count, capacity;
};

struct snapshots {
	struct snapshot *memory; /* by slot */
	struct disk_state *disk; /* by slot */
	size_t memory_capacity, disk_capacity;
	int64_t used;                 /* number of memory slots in use */
	struct machine_array *arrays; /* scratch: the arrays that hooks get */
	size_t array_capacity;
};

/* A recorded step. FIRST is the index of its first residual in records.residuals. */
struct record {
	int64_t step;
	size_t first;
};

/* Recorded steps that have residuals, and these, the latest on top. */
struct records {
	struct record *items;
	size_t count, capacity;
	int32_t *residuals;
	size_t residual_count, residual_capacity;
};

/* The arrays that a call reads and writes, by port of its body, and scratch memory. */
struct call_ports {
	int64_t *ins, *outs; /* as in struct machine_call */
	const struct param_ref **out_params;
	int32_t *in_buffers, *out_buffers;
	bool *in_shared; /* a snapshot has the in's buffer too, which may have one holder all the same */
	size_t capacity;
	int32_t *made; /* by value of the body: 1 + the buffer that it gets as an out, or 0 */
	size_t made_capacity;
	int64_t sequence; /* that of the buffers before the outs */
	int32_t *by_slot; /* scratch */
};

/* What a forward step of KIND does to mark FROM. */
struct transition {
	const int64_t *from, *to;
	uint32_t kind;       /* 1 + its number; 0: a free entry */
	uint32_t executions; /* 0 or 1 */
	double cost;
};

/* What forward steps do to memory, as far as it is known: see memo.c. */
struct memo {
	struct arena arena; /* of marks, kinds and transitions */
	struct byte_set known_marks, known_kinds;
	uint32_t *kinds;          /* by step id: 1 + the number of its kind, or 0 */
	struct transition *table; /* hash table with linear probing, at most half full */
	size_t count, capacity;
	size_t words;             /* of marks and kinds */
	int64_t followed;         /* steps */
	int64_t written;          /* words of marks, with those of marks that were known */
	int64_t forgotten;        /* how often */
	const int64_t *at;        /* the mark of the current state, or NULL */
	bool made;                /* the state's buffers are those of the mark */
	const struct step *after; /* unless `made`: the state is the one after this step */
};

struct machine {
	const struct context *context;
	const struct compiled_chain *compiled;
	const struct lowered *lowered;
	const struct machine_options *options;
	const struct machine_hooks *hooks;
	struct counters *counters;
	struct arena arena;        /* of tables that do not grow with the steps */
	const struct step **steps; /* by index, or NULL: see list_steps */
	int64_t levels[MAX_LOOPS]; /* if `steps` is NULL: counters of the loops around the step that was looked up last */
	bool alone;                /* nobody asks for calls or names: forward steps need not all be walked */
	bool first_sweep;
	bool seeded;           /* machine_seed has run */
	int64_t recorded_from; /* the first step that the first sweep has recorded; -1: none so far */
	struct collected_arrays collected;
	struct buffers buffers;
	struct state_trees trees;
	struct state state;
	int32_t *cotangent; /* by slot; NO_BUFFER: none, or it is zero */
	struct snapshots snapshots;
	struct records records;
	struct call_ports ports;
	struct memo memo;
};

static inline enum status machine_memory(struct machine *m) { return diag_memory(m->context->diags); }

static inline int64_t machine_step_count(const struct machine *m)
{
	return m->compiled->by_value ? 1 : m->lowered->steps;
}

static inline const struct step *machine_step_at(struct machine *m, int64_t index)
{
	return m->steps ? m->steps[index] : lowered_step(m->lowered, index, m->levels);
}

static inline const struct compiled_step *machine_compiled_step(const struct machine *m, const struct step *step)
{
	return compiled_step_of(m->compiled, step);
}

/* Returns the buffer of SLOT in the current state, or NO_BUFFER. */
static inline int32_t machine_buffer(const struct machine *m, uint32_t slot)
{
	return tree_get(&m->trees, m->state.tree, slot, NULL);
}

static inline const struct step_times *machine_times(const struct machine *m, const struct step *step)
{
	return &m->compiled->times[step->id];
}

/* Adds TIMES forward executions of COST each to forward_cost; after the first sweep, to recomputed_cost. */
static inline void machine_count_forward(struct machine *m, double times, double cost)
{
	*(m->first_sweep ? &m->counters->forward_cost : &m->counters->recomputed_cost) += times * cost;
}

/* Grows *ARRAY with allocator_grow unless *CAPACITY is at least WANTED. False if out of memory. */
static inline bool machine_grow(struct machine *m, void **array, size_t *capacity, size_t wanted, size_t size)
{
	return wanted <= *capacity || allocator_grow(m->context->allocator, array, capacity, wanted, size);
}

/* Returns TYPE, of an array that may be STREAMED, with the rows of this walk. */
static inline struct type machine_type(const struct machine *m, const struct type *type, bool streamed)
{
	return type_of_rows(type, streamed, m->options->rows);
}

/* Returns a new buffer for an array of TYPE with the rows of this walk: see buffers_make. */
static inline int32_t machine_make_buffer(struct machine *m, const struct type *type, bool streamed)
{
	const struct type with = machine_type(m, type, streamed);
	const int32_t id = buffers_make(&m->buffers, type, type_bytes(&with));
	if (id != NO_BUFFER)
		m->buffers.items[id].streamed = streamed;
	return id;
}

/* replay.c */

void machine_log_call(struct machine_log *log, const struct machine_call *call);
void machine_log_exchange(struct machine_log *log, enum machine_input_output which, int64_t offset,
                          const struct type *type);
/* Repeats the events of LOG, which is complete. */
enum status machine_replay(const struct machine_log *log, const struct machine_hooks *hooks);

static inline enum status machine_exchange(struct machine *m, enum machine_input_output which, int64_t offset,
                                           const struct type *type, bool streamed)
{
	const struct machine_hooks *hooks = m->hooks;
	const struct type with = machine_type(m, type, streamed);
	if (!hooks || !hooks->input_output)
		return STATUS_OK;
	if (m->options->log)
		machine_log_exchange(m->options->log, which, offset, type);
	return hooks->input_output(hooks->context, which, offset, m->options->rows ? &with : type);
}

/* steps.c */

/* How a step runs forward. */
enum forward_kind {
	FORWARD_ONLY,
	FORWARD_RECORD,      /* its residuals are held */
	FORWARD_RECORD_ONLY, /* its residuals are held, and no state exists afterwards */
};
/* Runs step INDEX forward from the current state. */
enum status machine_forward(struct machine *m, int64_t index, enum forward_kind kind);
/* Makes a buffer for the cotangent of the output, if there is one; the hook writes its seed. */
enum status machine_seed(struct machine *m);
/* Runs the backward pass of step INDEX, which is the one recorded last. */
enum status machine_reverse(struct machine *m, int64_t index);

/* memo.c */

/* Runs steps BEGIN .. END-1 forward, and keeps nothing. */
enum status machine_forward_steps(struct machine *m, int64_t begin, int64_t end);
void memo_init(struct memo *memo, const struct allocator *allocator);
void memo_free(struct memo *memo);

/* states.c. The functions that return a bool return false if out of memory. */

/* Makes SLOT of the current state hold buffer ID, which may be NO_BUFFER, and releases what SLOT held before. */
static inline bool machine_set_state(struct machine *m, uint32_t slot, int32_t id)
{
	return tree_set(&m->trees, &m->state.tree, slot, id);
}
/* Releases the slots of the current state that LIVE lacks. */
bool machine_drop_others(struct machine *m, const struct slot_map *live);
/* Releases the buffers of the current state; then none exists. */
bool machine_drop_state(struct machine *m);
/* Makes empty memory slot SLOT hold the current state: its buffers, or copies of them in options->store. */
enum status machine_save(struct machine *m, int64_t slot);
/* Makes the state in memory slot SLOT current: its buffers, or full copies of narrow ones. SLOT still holds it. */
enum status machine_load(struct machine *m, int64_t slot);
/* Empties memory slot SLOT. */
enum status machine_drop(struct machine *m, int64_t slot);
/* Spill writes the current state to disk slot SLOT, each array once. Fetch reads it back as the current state. */
enum status machine_spill(struct machine *m, int64_t slot);
enum status machine_fetch(struct machine *m, int64_t slot);
/* Passes what is held to the hook for points, if that wants it. SLOT: the disk slot to which a state is written next, or -1. */
enum status machine_offer_point(struct machine *m, int64_t slot);
/* Returns TYPE with options->store as its dtype. */
struct type machine_narrow_type(const struct machine *m, const struct type *type);

/* collected.c. The functions that return a bool return false if out of memory. */

/*
 * Step INDEX begins the array of SLOT, which has the type of VALUE. Sets *BUFFER to a new buffer; NO_BUFFER: nobody reads the
 * array.
 */
bool machine_begin_collected(struct machine *m, uint32_t slot, const struct value *value, int64_t index,
                             int32_t *buffer);
/* Step INDEX writes a part of the array of SLOT. */
void machine_note_collected(struct machine *m, uint32_t slot, int64_t index);
/* Step INDEX, which is like STEP, has run without being walked. */
void machine_count_collected(struct machine *m, const struct step *step, int64_t index);
/* Step INDEX, STEP, has been reversed. */
bool machine_reverse_collected(struct machine *m, const struct step *step, int64_t index);
/* The first sweep ends. */
bool machine_pass_recorded(struct machine *m);
/* Holds for TO, whose step is set, the arrays of the current state that do not go to disk. */
bool machine_keep_collected(struct machine *m, struct disk_state *to);

/* held.c */

/* Counts the bytes held, makes the residual report if one is wanted, and passes a wanted output to its hook. */
enum status machine_end_first_sweep(struct machine *m);

#endif
