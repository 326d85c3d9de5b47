/*
 * States that a worker keeps in reduced precision (--store-dtype), or on disk in a
 * file of its own (--spill).
 *
 * Invariant: a state comes back with the bits that were kept. Rounding happens once,
 * when a state is kept in reduced precision; its largest error is recorded then.
 */
#include <math.h>
#include <string.h>

#include "exec/run_parts.h"

/* Reduced precision. */

enum { PIECE = 512 }; /* elements */

static double element(const void *values, size_t i, bool wide)
{
	return wide ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

/* Rounds N elements of FULL to KEPT, and records the largest error. */
static void narrow_piece(struct kept_states *states, uint16_t *kept, const char *full, size_t n, bool wide, bool half)
{
	float buffer[PIECE];
	if (wide)
		convert_f64_to_f32_odd(buffer, (const double *)(const void *)full, n);
	else
		memcpy(buffer, full, n * sizeof *buffer);
	(half ? convert_f32_to_f16 : convert_f32_to_bf16)(kept, buffer, n);
	(half ? convert_f16_to_f32 : convert_bf16_to_f32)(buffer, kept, n);
	for (size_t i = 0; i < n; i++) {
		const double error = fabs(element(full, i, wide) - (double)buffer[i]);
		if (error > states->error)
			states->error = error;
	}
}

static void widen_piece(char *full, const uint16_t *kept, size_t n, bool wide, bool half)
{
	float buffer[PIECE];
	(half ? convert_f16_to_f32 : convert_bf16_to_f32)(buffer, kept, n);
	if (wide)
		kernels_get(DTYPE_F32)->loops->to_f64((double *)(void *)full, buffer, n);
	else
		memcpy(full, buffer, n * sizeof *buffer);
}

static enum status on_convert(void *context, int64_t to, int64_t from, const struct type *type, bool narrow)
{
	struct worker *worker = context;
	char *base = worker->slab.base;
	const size_t count = (size_t)shape_count(&type->shape);
	const bool half = worker->run->options->job.store == DTYPE_F16, wide = type->dtype == DTYPE_F64;
	for (size_t done = 0; done < count; done += PIECE) {
		const size_t n = count - done < PIECE ? count - done : PIECE;
		uint16_t *kept = (uint16_t *)(void *)(base + (narrow ? to : from)) + done;
		char *full = base + (narrow ? from : to) + done * (wide ? 8 : 4);
		if (narrow)
			narrow_piece(&worker->walk.kept, kept, full, n, wide, half);
		else
			widen_piece(full, kept, n, wide, half);
	}
	return STATUS_OK;
}

/* Disk. */

enum status kept_states_set_pieces(struct worker *worker, const struct machine_array *arrays, size_t count, size_t more)
{
	struct kept_states *kept = &worker->walk.kept;
	if (kept->piece_capacity < count + more) {
		kept->pieces = arena_array(&worker->arena, 2 * (count + more), sizeof *kept->pieces);
		TRY_ALLOC(kept->pieces, worker->diags);
		kept->piece_capacity = 2 * (count + more);
	}
	for (size_t i = 0; i < count; i++)
		kept->pieces[i] = (struct spill_piece){worker->slab.base + arrays[i].offset, (size_t)arrays[i].size};
	kept->piece_count = count;
	return STATUS_OK;
}

int64_t kept_states_slot(const struct worker *worker, int64_t slot)
{
	return worker->run->gradient->options->journal ? JOURNAL_STATES + slot : slot;
}

/* The disk slot of the next FETCH in the schedule's second reader, which runs ahead of the worker; -1: none. */
static int64_t find_fetch(struct kept_states *kept)
{
	struct action action;
	while (schedule_next(kept->ahead, &action))
		if (action.kind == ACT_FETCH)
			return action.slot;
	return -1;
}

int64_t kept_states_next_fetch(struct worker *worker)
{
	struct kept_states *kept = &worker->walk.kept;
	if (kept->fetches++ == 0) {
		schedule_rewind(kept->ahead);
		(void)find_fetch(kept); /* the current fetch */
	}
	return find_fetch(kept);
}

static enum status on_disk(void *context, enum machine_disk access, int64_t slot, const struct machine_array *arrays,
                           size_t count)
{
	struct worker *worker = context;
	struct kept_states *kept = &worker->walk.kept;
	const int64_t place = kept_states_slot(worker, slot);
	TRY(kept_states_set_pieces(worker, arrays, count, 0));
	if (access == MACHINE_SPILL)
		return spill_write(&kept->spill, place, kept->pieces, kept->piece_count, worker->diags);
	TRY(spill_read(&kept->spill, place, kept->pieces, kept->piece_count, worker->diags));
	const int64_t next = kept_states_next_fetch(worker);
	if (next >= 0)
		spill_read_ahead(&kept->spill, kept_states_slot(worker, next));
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
	const struct job *job = run->gradient->job;
	const struct gradient_options *options = run->gradient->options;
	struct kept_states *kept = &worker->walk.kept;
	if (!job->predicted.spill_writes && !options->journal)
		return spill_check_room(options->spill, 0, diags);
	kept->ahead = schedule_copy(job->schedule);
	TRY_ALLOC(kept->ahead, diags);
	TRY(spill_open(&kept->spill, (size_t)job->staging, run->context.allocator, diags));
	if (options->journal) /* it opens the file once the input is read */
		return STATUS_OK;
	/* each worker checks the bytes of all: none writes before all are open */
	TRY(spill_check_room(options->spill, job->predicted.spill_bytes * job->tiles.workers, diags));
	return spill_create(&kept->spill, options->spill, diags);
}

void kept_states_close(struct kept_states *kept)
{
	spill_close(&kept->spill);
	if (kept->ahead)
		schedule_free(kept->ahead);
}
