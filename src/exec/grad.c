/*
 * A gradient run over the arrays of a stream: for each a job, made anew only where
 * the type changes, workers that carry its schedule out, and outputs. What a worker does
 * is worker.c's; worker.h says who does what.
 *
 * Where there are tiles, chunks of them are dealt round the workers, so that what each
 * worker holds is known beforehand; they are read, and given, in order: outputs to the
 * writers, sums to the totals. Where the chain is not streamable there is one worker
 * and one tile. Invariant: nothing that is given depends on how many workers there are.
 */
#include "exec/grad.h"

#include <string.h>

#include "base/clock.h"
#include "base/flush.h"
#include "exec/pipeline.h"
#include "exec/run.h"
#include "exec/worker.h"

/* Chunks. */

static int64_t chunk_rows(const struct job *job, int64_t chunk)
{
	const int64_t full = job->tiles.per_chunk * job->tile.rows, left = job->tiles.rows - chunk * full;
	return left < full ? left : full;
}

static int64_t chunk_tiles(const struct job *job, int64_t chunk)
{
	return (chunk_rows(job, chunk) + job->tile.rows - 1) / job->tile.rows;
}

static enum status take_chunk(void *context, int index, int64_t chunk, struct diags *diags)
{
	struct run *run = context;
	return input_output_read_rows(&run->workers[index], chunk_rows(run->job, chunk), diags);
}

static void note_rows(struct run *run, int64_t rows)
{
	if (!run->options->progress)
		return;
	pthread_mutex_lock(&run->lock);
	run->rows_done += rows;
	run->options->progress(run->options->progress_context, NULL, (double)run->rows_done / (double)run->job->tiles.rows,
	                       0, 0);
	pthread_mutex_unlock(&run->lock);
}

static enum status compute_chunk(void *context, int index, int64_t chunk, struct diags *diags)
{
	struct run *run = context;
	struct worker *worker = &run->workers[index];
	enum status status = STATUS_OK;
	for (int64_t tile = 0; tile < chunk_tiles(run->job, chunk) && status == STATUS_OK; tile++) {
		status = worker_run_tile(worker, chunk, tile, diags);
		if (status == STATUS_OK)
			note_rows(run, worker->rows);
	}
	return status;
}

static enum status give_chunk(void *context, int index, int64_t chunk, struct diags *diags)
{
	struct run *run = context;
	const struct worker *worker = &run->workers[index];
	enum status status = run->outputs_begun ? STATUS_OK : input_output_begin_outputs(run, diags);
	for (int64_t tile = 0; tile < chunk_tiles(run->job, chunk); tile++)
		totals_add(worker, tile);
	return status ? status : input_output_write_rows(worker, chunk_rows(run->job, chunk), diags);
}

static enum status run_tiled(struct run *run, struct diags *diags)
{
	const struct job *job = run->job;
	const int64_t chunk = job->tiles.per_chunk * job->tile.rows;
	const struct pipeline pipeline = {.items = (job->tiles.rows + chunk - 1) / chunk,
	                                  .workers = job->tiles.workers,
	                                  .take_in_order = true,
	                                  .give_in_order = true,
	                                  .dealt = true,
	                                  .take = take_chunk,
	                                  .compute = compute_chunk,
	                                  .give = give_chunk,
	                                  .context = run,
	                                  .flush_denormals = run->options->flush_denormals,
	                                  .allocator = run->options->job.allocator};
	return pipeline_run(&pipeline, diags);
}

/* The one tile of a chain that is not streamed. */
static enum status run_whole(struct run *run, struct diags *diags)
{
	const unsigned before = flush_begin(run->options->flush_denormals);
	enum status status = worker_run_tile(&run->workers[0], 0, 0, diags);
	flush_end(before);
	return status;
}

/* Arrays. */

static enum status prepare(struct run *run, struct diags *diags)
{
	const struct job *job = run->job;
	enum status status = STATUS_OK;
	run->kernels[0] = kernels_get(DTYPE_F32);
	run->kernels[1] = kernels_get(DTYPE_F64);
	for (size_t i = 0; i < job->whole.distinct_count && status == STATUS_OK; i++)
		status = params_check(run->params, job->whole.distinct[i]->body, run->chain, diags);
	if (status == STATUS_OK && job->tile.compiled.uses_gemm)
		status = blas_load(diags);
	if (status == STATUS_OK)
		status = totals_open(run, diags);
	if (status == STATUS_OK)
		status = input_output_open(run, diags);
	return status ? status : gradient_events_open(run, diags);
}

/* Opens the team and the workers; *OPEN: as many workers as are to be closed. */
static enum status open_workers(struct run *run, int *open, struct diags *diags)
{
	const struct job *job = run->job;
	if (job->team > 1) {
		run->team = team_open(job->team, job->member_bytes, run->options->job.allocator);
		if (!run->team)
			return diag_memory(diags);
	}
	enum status status = STATUS_OK;
	for (*open = 0; *open < job->tiles.workers && status == STATUS_OK; ++*open)
		status = worker_open(&run->workers[*open], run, *open, diags);
	return status;
}

static void count_workers(struct run *run)
{
	const struct worker *workers = run->workers;
	const struct job *job = run->job;
	int64_t peak = 0, stored = 0, staging = 0;
	const struct worker *seen = &workers[0];
	for (int i = 0; i < job->tiles.workers; i++) {
		peak += workers[i].measured.peak_bytes;
		stored += workers[i].measured.stored_bytes;
		staging += (int64_t)workers[i].spill.staging_size;
		state_hashes_add(&run->result->recomputed, &workers[i].recompute);
		if (!seen->counted)
			seen = &workers[i];
		if (workers[i].store_error > run->result->store_error)
			run->result->store_error = workers[i].store_error;
	}
	struct counters measured = seen->measured;
	measured.stored_bytes = stored;
	measured.peak_bytes = job->predicted.peak_bytes - job->slabs - job->tiles.workers * job->staging + peak + staging;
	if (run->result->arrays > 0 && measured.peak_bytes <= run->result->measured.peak_bytes)
		return;
	run->result->measured = measured;
	run->result->predicted = job->predicted;
	run->result->most = job->input;
}

static enum status run_array(struct run *run, struct diags *diags)
{
	int open = 0;
	run->workers = arena_array(&run->scratch, (size_t)run->job->tiles.workers, sizeof *run->workers);
	if (!run->workers)
		return diag_memory(diags);
	pthread_mutex_init(&run->lock, NULL);
	enum status status = prepare(run, diags);
	allocator_trim();
	if (status == STATUS_OK)
		status = open_workers(run, &open, diags);
	if (status == STATUS_OK)
		status = run->job->tiles.tiled ? run_tiled(run, diags) : run_whole(run, diags);
	if (status == STATUS_OK) {
		count_workers(run);
		status = input_output_finish_outputs(run, diags);
	}
	if (status == STATUS_OK)
		status = gradient_events_finish(run, diags);
	for (int i = 0; i < open; i++)
		worker_close(&run->workers[i]);
	team_close(run->team);
	pthread_mutex_destroy(&run->lock);
	return status;
}

/* The job of an array of type INPUT: that of the array before, or a new one, for which weak params are held anew. */
static enum status make_job(struct grad_result *result, const struct chain *chain, struct params *params,
                            const struct type *input, const struct grad_options *options, struct diags *diags)
{
	if (result->has_job && type_equal(&result->job.input, input))
		return STATUS_OK;
	params_settle(params, chain, dtype_compute(input->dtype));
	if (result->has_job)
		job_free(&result->job);
	result->has_job = false;
	arena_free(&result->job_arena);
	arena_init(&result->job_arena, options->job.allocator);
	const double begun = clock_seconds();
	enum status status = job_make(&result->job, chain, input, &options->job, &result->job_arena, diags);
	result->planning += clock_seconds() - begun;
	result->has_job = !status;
	return status;
}

/* Begins the next array of the stream, and makes its job; or *END. */
static enum status next_array(const struct run *all, const struct chain *chain, struct params *params, bool *end,
                              struct diags *diags)
{
	const struct grad_options *options = all->options;
	enum status status = reader_next(all->reader, end, diags);
	if (status || *end)
		return status;
	if (options->gradient)
		run_follow_format(options->gradient, all->reader);
	if (options->value)
		run_follow_format(options->value, all->reader);
	const struct type input = run_input_type(chain, &all->reader->type, options->dtype);
	return make_job(all->result, chain, params, &input, options, diags);
}

enum status grad_run(const struct chain *chain, struct params *params, struct reader *reader,
                     const struct grad_options *options, struct grad_result *result, struct arena *arena,
                     struct diags *diags)
{
	struct array cotangent = {0};
	const struct run all = {.chain = chain,
	                        .params = params,
	                        .options = options,
	                        .result = result,
	                        .job = &result->job,
	                        .reader = reader,
	                        .cotangent = options->cotangent ? &cotangent : NULL,
	                        .begun = clock_seconds(),
	                        .arena = arena};
	memset(result, 0, sizeof *result);
	arena_init(&result->job_arena, options->job.allocator);
	enum status status = STATUS_OK;
	while (!status) {
		bool end = false;
		status = next_array(&all, chain, params, &end, diags);
		if (status || end)
			break;
		struct run run = all;
		arena_init(&run.scratch, options->job.allocator);
		status = run_array(&run, diags);
		arena_free(&run.scratch);
		result->arrays += !status;
	}
	array_free(&cotangent, options->job.allocator);
	if (status == STATUS_OK)
		totals_finish(result);
	return status;
}

void grad_done(struct grad_result *result, struct diags *diags)
{
	if (result->has_journal)
		journal_remove(&result->journal, diags);
	result->has_journal = false;
}

void grad_free(struct grad_result *result, const struct allocator *allocator)
{
	if (result->has_journal)
		journal_close(&result->journal);
	if (result->has_job)
		job_free(&result->job);
	arena_free(&result->job_arena);
	totals_free(result, allocator);
}
