/*
 * States that a worker keeps in reduced precision (--store-dtype), or on disk in a file of its own (--spill).
 *
 * Invariant: a state comes back with the bits that were kept. Rounding happens once,
 * when a slot in memory keeps a state in reduced precision; its largest error is recorded then.
 * Tests: tests/cases/errors.test, tests/scripts/check-journal
 */
#include <math.h>

#include "exec/run_state.h"

static enum status on_convert(void *context, int64_t to, int64_t from, const struct type *type, bool narrow)
{
	enum { PIECE = 512 }; /* elements */
	struct worker *worker = context;
	struct kept_states *states = &worker->walk.kept;
	const enum dtype store = worker->run->options->job.store;
	const size_t count = (size_t)shape_count(&type->shape);
	wave_run(worker->wave);
	TRY(watched_reach(worker, to + type_bytes(type)));
	uint16_t *kept = (uint16_t *)(void *)(worker->slab.base + (narrow ? to : from));
	char *full = worker->slab.base + (narrow ? from : to);
	neighbours_copied(worker->neighbours, worker->slab.base + to, worker->slab.base + from);
	if (!narrow)
		convert_from_file(full, type->dtype, kept, store, count);
	for (size_t done = 0; done < count && narrow; done += PIECE) {
		const size_t n = count - done < PIECE ? count - done : PIECE;
		const char *piece = full + done * dtype_size(type->dtype);
		double before[PIECE], after[PIECE];
		convert_to_file(kept + done, store, piece, type->dtype, n);
		convert_to_file(before, DTYPE_F64, piece, type->dtype, n);
		convert_from_file(after, DTYPE_F64, kept + done, store, n);
		for (size_t i = 0; i < n; i++)
			states->error = fabs(before[i] - after[i]) > states->error ? fabs(before[i] - after[i]) : states->error;
	}
	return STATUS_OK;
}

enum status kept_states_set_pieces(struct worker *worker, struct spill_pieces *pieces,
                                   const struct machine_array *arrays, size_t count)
{
	struct kept_states *kept = &worker->walk.kept;
	size_t unwanted = 0;
	for (size_t i = 0; i < count; i++)
		unwanted += arrays[i].offset < 0 ? (size_t)arrays[i].size : 0;
	if (unwanted > kept->unwanted_size) {
		kept->unwanted = arena_alloc(&worker->arena, unwanted);
		TRY_ALLOC(kept->unwanted, worker->diags);
		kept->unwanted_size = unwanted;
	}
	char *next = kept->unwanted;
	pieces->count = 0;
	for (size_t i = 0; i < count; i++) {
		const bool wanted = arrays[i].offset >= 0;
		TRY(spill_pieces_add(pieces, &worker->arena, wanted ? worker->slab.base + arrays[i].offset : next,
		                     (size_t)arrays[i].size, worker->diags));
		if (!wanted && arrays[i].size > 0) /* else NEXT may be NULL */
			next += arrays[i].size;
	}
	return STATUS_OK;
}

/* The schedule's second reader runs ahead of the worker to its next fetch. */
int64_t kept_states_next_fetch(struct worker *worker)
{
	struct kept_states *kept = &worker->walk.kept;
	struct action action;
	int fetches = 1;
	if (kept->fetches++ == 0) {
		schedule_rewind(kept->ahead);
		fetches = 2; /* the current fetch comes first */
	}
	while (schedule_next(kept->ahead, &action))
		if (action.kind == ACT_FETCH && --fetches == 0)
			return action.slot;
	return -1;
}

static enum status open_spill(struct worker *worker, struct diags *diags)
{
	const struct run *run = worker->run;
	const struct job *job = run->gradient->job;
	const struct gradient_options *options = run->gradient->options;
	struct kept_states *kept = &worker->walk.kept;
	kept->ahead = schedule_copy(job->schedule);
	TRY_ALLOC(kept->ahead, diags);
	TRY(spill_open(&kept->spill, (size_t)job->staging, run->context.allocator, diags));
	if (run->points.lie == POINTS_BETWEEN_CALLS) /* the journal opens the file once the input is read */
		return STATUS_OK;
	/* each worker checks the bytes of all workers: none writes before all are open */
	TRY(spill_check_room(options->spill, job->predicted.spill_bytes * job->tiles.workers, diags));
	return spill_create(&kept->spill, options->spill, diags);
}

static enum status on_disk(void *context, enum machine_disk access, int64_t slot, const struct machine_array *arrays,
                           size_t count)
{
	struct worker *worker = context;
	struct kept_states *kept = &worker->walk.kept;
	wave_run(worker->wave);
	if (!kept->ahead) /* nobody knew whether the loop runs so long that a state goes to disk */
		TRY(open_spill(worker, worker->diags));
	TRY(kept_states_set_pieces(worker, &kept->pieces, arrays, count));
	if (access != MACHINE_FETCH)
		return spill_write(&kept->spill, JOURNAL_STATES + slot, &kept->pieces, worker->diags);
	TRY(spill_read(&kept->spill, JOURNAL_STATES + slot, &kept->pieces, worker->diags));
	for (size_t i = 0; i < kept->pieces.count; i++)
		neighbours_written(worker->neighbours, kept->pieces.items[i].data, false);
	const int64_t next = kept_states_next_fetch(worker);
	if (next >= 0)
		spill_read_ahead(&kept->spill, JOURNAL_STATES + next);
	return STATUS_OK;
}

void kept_states_hook(struct machine_hooks *hooks)
{
	hooks->convert = on_convert;
	hooks->disk = on_disk;
}

enum status kept_states_open(struct worker *worker, struct diags *diags)
{
	const struct run *run = worker->run;
	const bool spills = schedule_disk_slots(run->gradient->job->schedule) > 0 && !run->conditions.watching;
	if (!spills && run->points.lie != POINTS_BETWEEN_CALLS)
		return spill_check_room(run->gradient->options->spill, 0, diags);
	return open_spill(worker, diags);
}

enum status kept_states_go_on(struct worker *worker, struct diags *diags)
{
	struct kept_states *kept = &worker->walk.kept;
	if (!kept->ahead)
		return STATUS_OK;
	schedule_free(kept->ahead);
	kept->ahead = schedule_copy(worker->walk.schedule);
	TRY_ALLOC(kept->ahead, diags);
	return STATUS_OK;
}
