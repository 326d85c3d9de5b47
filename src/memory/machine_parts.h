/*
 * What the files of the machine need of each other. Private to plan/.
 *
 *     machine.c          the walk over a schedule's actions; iterations of a loop
 *     machine_buffers.c  buffers and their holders
 *     machine_steps.c    a step, forward, recorded or backward: one call
 *     machine_states.c   states that are kept, in slots and on disk
 *     machine_held.c     what is held when the first sweep ends
 *     machine_readers.c  which steps read it
 *
 * Every holder (a slot of the current state, a snapshot, a residual, a cotangent)
 * holds a buffer by its number; a buffer counts its holders and gives its place back
 * when there are none. Numbers of freed buffers are used again.
 *
 * Invariant: between calls every buffer in use has a holder, and the sum of
 * holds equals the number of holders; at the end there are none.
 */
#ifndef MEMORY_MACHINE_PARTS_H
#define MEMORY_MACHINE_PARTS_H

#include "base/pool.h"
#include "memory/hooks.h"
#include "memory/machine.h"

enum { NO_BUFFER = -1 };

struct buffer {
	int64_t offset, size;
	int32_t holds;
	int32_t next_free;
	const struct type *type;
	const struct origin *origin;
	const struct naming *names;
	int64_t step;     /* that made it; -1: the input */
	int64_t sequence; /* of its making */
};

struct snapshot {
	bool used;
	int64_t position;
	int32_t *buffers; /* by live slot of that position */
	uint32_t *slots;
	size_t count, capacity;
	bool narrow;
};

/* Residuals of recorded steps, the last on top. */
struct record {
	int64_t step;
	size_t base;
};

struct machine {
	const struct compiled_chain *compiled;
	const struct lowered *lowered;
	const struct machine_options *options;
	const struct machine_hooks *hooks;
	const struct allocator *allocator;
	struct arena *report_arena;
	struct arena arena; /* for what does not grow with the steps, but snapshots' lists */
	struct diags *diags;
	bool looped;         /* some steps are of a loop, and what they do alone matters */
	int64_t *mark, *now; /* what the machine held, and holds, while iterations are run */
	size_t mark_capacity, now_capacity;
	const struct step **steps; /* by index, where no hooks want the loops' counters and there are few; or NULL */
	struct counters *counters;
	struct pool pool;
	struct buffer *buffers;
	size_t buffer_count, buffer_capacity;
	int32_t free_buffer;
	int64_t sequence;
	int32_t *state; /* by slot */
	uint32_t *held; /* the slots of STATE that hold a buffer: few of many */
	size_t held_count;
	bool has_state;
	int64_t position;
	int32_t *cotangent; /* by slot */
	int64_t cot_position;
	bool seeded;
	struct snapshot *slots;
	size_t slot_capacity;
	struct snapshot *disk; /* positions only */
	size_t disk_capacity;
	int64_t used_slots;
	struct record *records;
	size_t record_count, record_capacity;
	int32_t *residuals;
	size_t residual_count, residual_capacity;
	bool first_sweep;
	struct origin input_origin;
	struct machine_array *arrays; /* of a state, for the disk */
	size_t array_capacity;
	int64_t *ins, *outs; /* offsets for a call */
	const struct param_ref **out_params;
	int32_t *in_buffers, *out_buffers;
	size_t port_capacity;
	int32_t *made; /* by value of the body that is called: the buffer of the out that it is, counted from 1; 0: none */
	size_t made_capacity;
	int32_t *work; /* by slot: room to work */
	int64_t levels[MAX_LOOPS];
};

static inline enum status machine_memory(struct machine *m) { return diag_memory(m->diags); }

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
	return &m->compiled->steps[step->id];
}

static inline void machine_hold(struct machine *m, int32_t id)
{
	if (id != NO_BUFFER)
		m->buffers[id].holds++;
}

static inline enum status machine_exchange(struct machine *m, enum machine_input_output which, int64_t offset,
                                           const struct type *type)
{
	return m->hooks && m->hooks->input_output ? m->hooks->input_output(m->hooks->context, which, offset, type)
	                                          : STATUS_OK;
}

/* machine_buffers.c. Where a function says whether it could, false is want of memory. */

/* Room for WANTED elements of SIZE bytes in *ARRAY, of *CAPACITY; what is new is zeroed. */
bool machine_grow(struct machine *m, void **array, size_t *capacity, size_t wanted, size_t size);
/* A buffer that nothing holds yet; NO_BUFFER for want of memory. */
int32_t machine_buffer(struct machine *m, const struct type *type, int64_t size);
bool machine_let_go(struct machine *m, int32_t id);
/* Makes HOLDER hold ID instead of what it held. */
bool machine_set_holder(struct machine *m, int32_t *holder, int32_t id);
/* Makes SLOT of the state hold ID, where that is a buffer, instead of what it held. */
bool machine_set_state(struct machine *m, uint32_t slot, int32_t id);
/* There is no state then. */
bool machine_drop_state(struct machine *m);

/* machine_steps.c */

/* Step INDEX forward, from the state. RECORD: its residuals are held, and without END_WANTED there is no state then. */
enum status machine_advance(struct machine *m, int64_t index, bool record, bool end_wanted);
/* The cotangent of the output. */
enum status machine_seed(struct machine *m);
/* Step INDEX backward, from its residuals, which are the last that were recorded. */
enum status machine_reverse(struct machine *m, int64_t index);

/* machine_states.c: the current state, and slot SLOT in memory or on disk. */

/* NARROW: in options->store's type. */
enum status machine_save(struct machine *m, int64_t slot, bool narrow);
enum status machine_load(struct machine *m, int64_t slot);
enum status machine_drop(struct machine *m, int64_t slot);
/* What an array of TYPE is in options->store's type. */
struct type machine_narrow_type(const struct machine *m, const struct type *type);
/* Writes the state to disk, each array once. */
enum status machine_spill(struct machine *m, int64_t slot);
enum status machine_fetch(struct machine *m, int64_t slot);

/* machine_held.c */

/* Counts and lists what is held, and gives the output, where that is wanted. */
enum status machine_end_first_sweep(struct machine *m);

/* machine_readers.c */

/* The step that first reads an array of a state that is kept; -1: none does. CLASS: in the state before that step. */
struct reader {
	int64_t step;
	uint32_t class;
};
/* By slot in memory that is in use, one for each of its arrays; NULL for want of memory. */
struct reader **machine_readers(struct machine *m);

#endif
