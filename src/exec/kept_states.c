/*
 * States that a worker keeps other than as they are: in half the bits or less
 * (--store-dtype), or on disk (--spill), in a file of the worker's own.
 *
 * Invariant: what is brought back is what was kept, to the bit; a kept state in
 * reduced precision is itself as it will be brought back, and the largest error of
 * that is noted when it is made.
 */
#include "exec/worker.h"

#include <math.h>
#include <string.h>

/* Reduced precision. */

enum { PIECE = 512 }; /* elements */

static double element(const void *values, size_t i, bool wide)
{
	return wide ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

/* Keeps N elements of FULL in KEPT. */
static void narrow_piece(struct worker *worker, uint16_t *kept, const char *full, size_t n, bool wide, bool half)
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
		if (error > worker->store_error)
			worker->store_error = error;
	}
}

static void widen_piece(char *full, const uint16_t *kept, size_t n, bool wide, bool half)
{
	float buffer[PIECE];
	(half ? convert_f16_to_f32 : convert_bf16_to_f32)(buffer, kept, n);
	if (wide)
		kernels_get(DTYPE_F32)->to_f64((double *)(void *)full, buffer, n);
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
			narrow_piece(worker, kept, full, n, wide, half);
		else
			widen_piece(full, kept, n, wide, half);
	}
	return STATUS_OK;
}

/* Disk. */

enum status store_set_pieces(struct worker *worker, const struct machine_array *arrays, size_t count, size_t more)
{
	if (worker->piece_capacity < count + more) {
		worker->pieces = arena_array(&worker->arena, 2 * (count + more), sizeof *worker->pieces);
		if (!worker->pieces)
			return diag_memory(worker->diags);
		worker->piece_capacity = 2 * (count + more);
	}
	for (size_t i = 0; i < count; i++)
		worker->pieces[i] = (struct spill_piece){worker->slab.base + arrays[i].offset, (size_t)arrays[i].size};
	worker->piece_count = count;
	return STATUS_OK;
}

int64_t store_slot(const struct worker *worker, int64_t slot)
{
	return worker->run->options->journal ? JOURNAL_STATES + slot : slot;
}

static enum status on_spill(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct worker *worker = context;
	enum status status = store_set_pieces(worker, arrays, count, 0);
	if (status)
		return status;
	return spill_write(&worker->spill, store_slot(worker, slot), worker->pieces, worker->piece_count, worker->diags);
}

/* The disk slot of the next FETCH of the worker's other reader of the schedule, or -1. */
static int64_t next_fetch(struct worker *worker)
{
	struct action action;
	while (schedule_next(worker->ahead, &action))
		if (action.kind == ACT_FETCH)
			return action.slot;
	return -1;
}

int64_t store_note_fetch(struct worker *worker)
{
	if (worker->fetches++ == 0) {
		schedule_rewind(worker->ahead);
		(void)next_fetch(worker); /* this one */
	}
	return next_fetch(worker);
}

static enum status on_fetch(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct worker *worker = context;
	const int64_t next = store_note_fetch(worker);
	enum status status = store_set_pieces(worker, arrays, count, 0);
	if (status == STATUS_OK)
		status =
			spill_read(&worker->spill, store_slot(worker, slot), worker->pieces, worker->piece_count, worker->diags);
	if (status == STATUS_OK && next >= 0)
		spill_read_ahead(&worker->spill, store_slot(worker, next));
	return status;
}

void store_hook(struct machine_hooks *hooks)
{
	hooks->convert = on_convert;
	hooks->spill = on_spill;
	hooks->fetch = on_fetch;
}

enum status store_open(struct worker *worker, struct diags *diags)
{
	const struct run *run = worker->run;
	const struct job *job = run->job;
	const int64_t wanted =
		job->predicted.spill_bytes * job->tiles.workers; /* of all: no worker writes before all are open */
	if (!job->predicted.spill_writes && !run->options->journal)
		return spill_check_room(run->options->spill, 0, diags);
	worker->ahead = schedule_copy(job->schedule);
	enum status status = worker->ahead ? STATUS_OK : diag_memory(diags);
	if (status == STATUS_OK)
		status = spill_open(&worker->spill, (size_t)job->staging, run->options->job.allocator, diags);
	if (status || run->options->journal) /* which opens the file when the input is known */
		return status;
	status = spill_check_room(run->options->spill, wanted, diags);
	return status ? status : spill_create(&worker->spill, run->options->spill, diags);
}
