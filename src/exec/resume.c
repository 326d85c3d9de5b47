/*
 * Points between two calls of the machine, and how a command resumes from one. There is one worker and, on each rank, one
 * tile. The schedule writes states to disk anyway: if memory holds nothing else, such a state is a point. Any other point is
 * an image: all arrays that the machine holds, the sums, and the state of folds.
 *
 * A resumed command walks the schedule from its first action, but skips: up to the point it computes nothing. If the first
 * sweep ends before that, it reads the output back from the spill file, and writes it. At the point it reads back the
 * state or the image.
 *
 * Ranks that exchange rows have images of the same moments, and no other points.
 *
 * Invariants: the gradient has the bits of a command that was not killed. The states that are read after the last
 * durable point are on disk: before the state of a slot is replaced, an image is written.
 * Tests: tests/unit/test_resume.c, tests/scripts/check-journal
 */
#include "base/hash.h"
#include "base/system.h"
#include "exec/run_state.h"

/* True if a program of RUN keeps records, which end with it. */
static bool keeps_records(const struct run *run)
{
	bool keeps = false;
	for (size_t i = 0; i < run->chain->program_count; i++)
		keeps |= run->chain->programs[i].traits.record_bytes >= 0;
	return keeps;
}

/* Adds what an image has beside the machine's arrays. */
static enum status add_sums(struct worker *worker)
{
	struct run *run = worker->run;
	double *state = worker_state(worker);
	for (size_t i = 0; i < run->params->count; i++)
		if (totals_adds(run, i)) /* another rank adds to others, perhaps now, and in the same memory */
			TRY(points_add_sums(run, i, worker->diags));
	return state ? points_add(run, state, (size_t)run->tiles->state * sizeof *state, worker->diags) : STATUS_OK;
}

enum status resume_open(struct worker *worker, const struct type *type, const void *input)
{
	struct run *run = worker->run;
	if (run->points.lie != POINTS_BETWEEN_CALLS)
		return STATUS_OK;
	run->points.recordless = keeps_records(run);
	TRY(add_sums(worker));
	const uint64_t hash = hash_bytes(points_hash_type(HASH_START, type), input, (size_t)type_bytes(type));
	return points_open(run, hash, run->gradient->job->predicted.spill_bytes, worker->diags);
}

/* True if MOMENT is the point from which the run resumes, or if its image should be written. */
static bool on_moment(void *context, const struct machine_moment *moment)
{
	struct worker *worker = context;
	struct points *points = &worker->run->points;
	bool due = false;
	points->number++;
	if (points->number <= points->from)
		return points->number == points->from;
	if (moment->recorded && points->recordless)
		return false;
	if (worker->neighbours && moment->slot < 0 && points->number < points->next)
		return false;
	const bool replaces = moment->slot >= 0 && spill_holds(points->spill, JOURNAL_STATES + moment->slot);
	/* if another rank has failed, the next exchange fails */
	return !points_decide(worker->run, replaces, moment->bytes, &due) && due;
}

/* Writes an image with ARRAYS or, at the end of skipping, reads it. */
static enum status on_point(void *context, const struct machine_array *arrays, size_t count)
{
	struct worker *worker = context;
	struct run *run = worker->run;
	struct points *points = &run->points;
	wave_run(worker->wave);
	evaluate_deferred(&worker->deferred);
	TRY(kept_states_set_pieces(worker, &points->pieces, arrays, count));
	TRY(add_sums(worker));
	if (points->number > points->from)
		return points_write(run, worker->diags);
	if (worker->neighbours)
		neighbours_begin(worker->neighbours, worker->tile_row);
	return points_read(run, worker->diags);
}

/* The hooks of a worker that may skip. */

static bool skips(const struct run *run) { return run->points.number < run->points.from; }

/* A skipped backward call still reports the gradients that it completes. */
static enum status skip_call(void *context, const struct machine_call *call)
{
	struct worker *worker = context;
	if (!skips(worker->run))
		return worker->run->points.computing.call(context, call);
	return call->kind == CALL_BACKWARD ? gradient_events_step(worker->run, call->step, worker->diags) : STATUS_OK;
}

/*
 * The output is also written to the spill file: a command that resumes after the first sweep reads it back.
 * The worker learns whether it skips only when the input has been read.
 */
static enum status on_exchange(void *context, enum machine_input_output which, int64_t offset, const struct type *type)
{
	struct worker *worker = context;
	const struct points *points = &worker->run->points;
	if (which == MACHINE_OUTPUT) {
		wave_run(worker->wave);
		struct spill_piece piece = {worker->slab.base + offset, (size_t)type_bytes(type)};
		const struct spill_pieces pieces = {.items = &piece, .count = 1};
		points->spill->number = -1;
		TRY(skips(worker->run) ? spill_read(points->spill, JOURNAL_VALUE, &pieces, worker->diags)
		                       : spill_write_at_once(points->spill, JOURNAL_VALUE, &pieces, worker->diags));
	}
	if (skips(worker->run) && which == MACHINE_SEED)
		return STATUS_OK;
	if (skips(worker->run) && which == MACHINE_GRADIENT)
		return diag_file(worker->diags, STATUS_DATA, worker->run->gradient->options->journal, -1,
		                 "names no point of this run");
	return points->computing.input_output(context, which, offset, type);
}

static enum status skip_convert(void *context, int64_t to, int64_t from, const struct type *type, bool narrow)
{
	const struct run *run = ((const struct worker *)context)->run;
	return skips(run) ? STATUS_OK : run->points.computing.convert(context, to, from, type, narrow);
}

/* Skipped fetches are counted: the worker reads ahead from the right slot once it computes. */
static enum status skip_disk(void *context, enum machine_disk access, int64_t slot, const struct machine_array *arrays,
                             size_t count)
{
	struct worker *worker = context;
	struct kept_states *kept = &worker->walk.kept;
	struct points *points = &worker->run->points;
	const bool alone = access == MACHINE_SPILL_ALONE;
	points->number += alone;
	if (points->number < points->from || (points->number == points->from && alone)) {
		if (access == MACHINE_FETCH)
			(void)kept_states_next_fetch(worker);
		if (points->number < points->from)
			return STATUS_OK;
		TRY(kept_states_set_pieces(worker, &kept->pieces, arrays, count));
		return spill_read(&kept->spill, JOURNAL_STATES + slot, &kept->pieces, worker->diags);
	}
	if (alone)
		points->last = clock_seconds();
	kept->spill.number = alone && !worker->neighbours ? points->number : -1;
	return points->computing.disk(context, access, slot, arrays, count);
}

void resume_hook(struct worker *worker)
{
	struct machine_hooks *hooks = &worker->walk.hooks;
	if (worker->run->points.lie != POINTS_BETWEEN_CALLS)
		return;
	worker->run->points.computing = *hooks;
	hooks->call = skip_call;
	hooks->input_output = on_exchange;
	hooks->convert = skip_convert;
	hooks->disk = skip_disk;
	hooks->wants_point = on_moment;
	hooks->point = on_point;
}
