/*
 * Runs a chain over the arrays of a stream. An array is cut into chunks of tiles (plan/tiles.h). Workers read, compute
 * and write chunks through one pipeline, whether the run goes forward alone or backward too.
 *
 * All arrays are allocated before the rows of the first array of a type are read. Another array
 * of the same type that follows finds them ready.
 * Tests: tests/unit/test_run.c
 */
#include <math.h>
#include <string.h>

#include "base/pipeline.h"
#include "base/system.h"
#include "exec/run_state.h"
#include "external/learn.h"

struct type run_input_type(const struct chain *chain, const struct type *file, enum dtype dtype)
{
	return input_type_of(chain, &chain->input_type, file, dtype);
}

struct type run_gradient_type(const struct chain *chain, enum dtype first, const struct type *type)
{
	struct type gradient = *type;
	if (dtype_is_integer(type->dtype))
		gradient.dtype = chain_computing_type(chain, first);
	return gradient;
}

void run_follow_format(struct writer *writer, const struct reader *reader)
{
	if (writer->options.format == FORMAT_AUTO)
		writer->options.format = format_written(reader->format);
	writer->options.layout = reader->layout;
	writer->options.names = reader->names;
	writer->options.name_count = reader->columns;
}

/* Returns STATUS, of worker INDEX. If it is a failure, no worker of any rank waits for this one. */
static enum status report_status(struct run *run, int index, enum status status)
{
	if (status)
		ordered_fail(&run->ordered, index);
	if (status && status != STATUS_OTHER_RANK)
		ranks_fail(run->ranks);
	return status;
}

static enum status read_for_worker(void *context, int index, int64_t item, struct diags *diags)
{
	struct run *run = context;
	enum status status = ranks_check(run->ranks);
	if (!status)
		status = rows_in_read_chunk(run, index, shares_chunk(run, item), diags);
	return report_status(run, index, status);
}

static enum status compute_for_worker(void *context, int index, int64_t item, struct diags *diags)
{
	return report_status(context, index, worker_run_chunk(context, index, shares_chunk(context, item), diags));
}

/* Adds sums up in the order of chunks: a run that has any sums writes chunks in order. */
static enum status write_chunk(struct run *run, int index, int64_t item, struct diags *diags)
{
	const int64_t chunk = shares_chunk(run, item);
	struct worker *worker = &run->workers[index];
	if (!run->outputs_begun && passes_write(run))
		TRY(rows_out_begin(run, diags));
	TRY(passes_write(run) ? totals_add(worker) : STATUS_OK);
	if (run->tiles->carries)
		return STATUS_OK;
	TRY(rows_out_write_chunk(worker, chunk, diags));
	TRY(passes_fold(run) ? passes_add_chunk(worker) : STATUS_OK);
	TRY(tile_journal_keep(worker, chunk, diags));
	run_report_rows(run, tiles_rows_of(run->tiles, chunk));
	return STATUS_OK;
}

void run_report_rows(struct run *run, int64_t rows)
{
	/* The actions of a gradient that is not tiled show its progress instead. */
	if (!run->options->progress || (run->gradient && !run->tiles->tiled))
		return;
	pthread_mutex_lock(&run->lock);
	run->rows_done += rows;
	const double all = (double)run->tiles->rows / (shares_rows(run) ? ranks_count(run->ranks) : 1);
	const double done = fmin((double)run->rows_done / all / fmax(run->tiles->passes, 1), 1);
	run->options->progress(run->options->progress_context, NULL, done, 0, 0);
	pthread_mutex_unlock(&run->lock);
}

static enum status write_for_worker(void *context, int index, int64_t item, struct diags *diags)
{
	return report_status(context, index, write_chunk(context, index, item, diags));
}

static void release(struct run *run)
{
	if (!run->ready)
		return;
	for (int i = 0; i < run->open; i++)
		worker_close(&run->workers[i]);
	slab_put(&run->blocks, run->context.allocator);
	passes_close(run);
	tile_journal_close(run);
	input_copy_close(&run->in.copy);
	team_close(run->team);
	arena_free(&run->arena);
	run->team = NULL;
	run->unteamed = false;
	run->open = 0;
	run->ready = false;
}

/* Warns of tiles that --tile makes so small that most rows of their windows are computed again for other tiles. */
static void warn_small_tiles(const struct run *run)
{
	enum { WARN_RATIO = 32 };
	const struct tiles *tiles = run->tiles;
	const int64_t halo = tiles_halo(tiles);
	if (!run->options->job.tile || tiles->carries || halo < WARN_RATIO * tiles->tile || ranks_index(run->ranks) > 0)
		return;
	diag_warn(run->context.diags, "each tile of %lld rows reads and computes %lld rows around it as well",
	          (long long)tiles->tile, (long long)halo);
	diag_hint(run->context.diags, "larger tiles do less work twice: --tile %lld, or none", (long long)halo);
}

void run_bind_params(struct run *run, enum dtype compute)
{
	params_settle(run->params, run->chain, compute);
	for (size_t i = 0; i < run->params->count; i++) {
		const struct bound_array *from = &run->params->bound[i];
		run->bound[i].shape = from->shape;
		run->bound[i].data = from->data;
		run->bound[i].dtype =
			run->chain->params[i].arrives ? dtype_compute(run->chain->params[i].type->dtype) : from->dtype;
	}
}

/* True if READER, unless it is NULL, and the readers of INPUTS, unless NULL, can read rows in any order. */
static bool inputs_seekable(const struct reader *reader, const struct inputs *inputs)
{
	bool seekable = !reader || reader_seekable(reader);
	for (size_t i = 0; inputs && i < inputs->count; i++)
		seekable &= !inputs->items[i].opened || reader_seekable(&inputs->items[i].arrays.rows);
	return seekable;
}

/* Sets what RUN knows of arrays of TYPE before it has a plan for them. */
static enum status begin_type(struct run *run, const struct type *type)
{
	arena_init(&run->arena, run->context.allocator);
	run->ready = true;
	run->made_for = run->input = *type;
	run->in = (struct rows_in){.copy.fd = -1};
	run_bind_params(run, chain_computing_type(run->chain, type->dtype));
	run->gradient_type = run_gradient_type(run->chain, type->dtype, type);
	return external_learn(&run->context, run->chain, &run->options->job.portion, &run->input, run->gradient,
	                      run->programs);
}

/* Makes RUN ready for arrays of TYPE, unless it is. */
static enum status prepare(struct run *run, const struct type *type)
{
	if (run->ready && type_equal(&run->made_for, type) && !(run->inputs && run->inputs->changed))
		return STATUS_OK;
	release(run);
	TRY(begin_type(run, type));
	TRY(external_demand(run->chain, run->gradient, run->programs, run->context.diags));
	if (run->forward)
		run->ends = (struct run_ends){.read_anywhere = inputs_seekable(run->reader, run->inputs),
		                              .write_anywhere = writer_seekable(run->options->value),
		                              .in_place = run->options->value->options.reader != NULL};
	TRY(run->kind->prepare(run));
	if (run->whole->gradient_at.slot)
		run->gradient_type = run_gradient_type(run->chain, run->input.dtype, &run->whole->gradient_at.type);
	TRY(rows_in_open(run));
	TRY(rows_in_load_others(run)); /* workers know where they lie */
	rows_out_open(run);
	warn_small_tiles(run);
	run->workers = arena_array(&run->arena, (size_t)run->tiles->workers, sizeof *run->workers);
	TRY_ALLOC(run->workers, run->context.diags);
	while (run->open < run->tiles->workers) {
		const int index = run->open++; /* release closes the worker even if worker_open fails */
		TRY(worker_open(&run->workers[index], run, index));
	}
	return STATUS_OK;
}

enum status run_chunks(struct run *run, const struct pipeline *pipeline)
{
	ordered_begin_sweep(&run->ordered, tiles_chunks(run->tiles));
	return tile_journal_run(run, pipeline);
}

static enum status run_array(struct run *run)
{
	run->rows_done = run->begun = 0;
	TRY(rows_in_load_others(run));
	TRY(run->kind->begin_array(run));
	TRY(shares_begin_array(run));
	TRY(rows_in_begin_array(run));
	TRY(rows_out_begin_array(run));
	TRY(tile_journal_open(run));
	/* A gradient's chunks are dealt, so that the plan knows which tiles each worker runs. */
	const struct pipeline pipeline = {.items = shares_items(run),
	                                  .workers = run->tiles->workers,
	                                  .team = run->team,
	                                  .read_in_order = !rows_in_anywhere(run),
	                                  .write_in_order = !run->write_anywhere,
	                                  .dealt = run->gradient != NULL,
	                                  .read = read_for_worker,
	                                  .compute = compute_for_worker,
	                                  .write = write_for_worker,
	                                  .context = run,
	                                  .flush_denormals = run->options->flush_denormals,
	                                  .allocator = run->context.allocator};
	TRY(run->passes.levels ? passes_run(run, &pipeline) : run_chunks(run, &pipeline));
	TRY(shares_collect(run));
	conditions_warn(run);
	TRY(run->kind->count_array(run));
	TRY(rows_out_end(run));
	TRY(rows_in_end_array(run));
	return run->kind->end_array(run);
}

static enum status run_arrays(struct run *run)
{
	TRY(shares_check_input(run));
	for (bool end = false;;) {
		TRY(reader_next(run->reader, &end, run->context.diags));
		TRY(run->inputs ? inputs_next(run->inputs, run->chain, end, run->context.diags) : STATUS_OK);
		if (end)
			return STATUS_OK;
		if (run->gradient && run->gradient->options->gradient)
			run_follow_format(run->gradient->options->gradient, run->reader);
		if (run->options->value)
			run_follow_format(run->options->value, run->reader);
		for (size_t k = 0; run->options->more && run->options->more[k]; k++)
			run_follow_format(run->options->more[k], run->reader);
		const struct type type = run_input_type(run->chain, &run->reader->type, run->options->dtype);
		bool changed = false;
		if (run->inputs && run->gradient &&
		    run->chain->has_conditions) { /* these are evaluated before there is a plan */
			release(run);
			TRY(rows_in_load_others(run));
		}
		TRY(run->gradient ? conditions_find(run, &type, &changed) : STATUS_OK);
		if (changed || run->blocks.block) /* or params are in files, which the array before has read */
			release(run);
		TRY(prepare(run, &type));
		TRY(run_array(run));
	}
}

/* Sets RUN to one of SUBJECT, with the context's arena for what outlives the arrays of a type. */
static enum status begin_run(struct run *run, const struct context *context, const struct run_subject *subject,
                             const struct run_options *options)
{
	*run = (struct run){.chain = subject->chain,
	                    .params = subject->params,
	                    .reader = subject->reader,
	                    .inputs = subject->inputs && subject->inputs->count ? subject->inputs : NULL,
	                    .programs = subject->programs,
	                    .ranks = subject->ranks,
	                    .options = options,
	                    .kernels = {kernels_get(DTYPE_F32), kernels_get(DTYPE_F64)}};
	run->context = (struct context){context->allocator, &run->arena, context->diags};
	run->bound = arena_array(context->arena, subject->params->count + 1, sizeof *run->bound);
	TRY_ALLOC(run->bound, context->diags);
	return STATUS_OK;
}

/* Runs RUN, opened, over the arrays of its stream, and closes it. */
static enum status run_stream(struct run *run)
{
	pthread_mutex_init(&run->lock, NULL);
	if (run->programs)
		external_forget(run->programs);
	const enum status status = run_arrays(run);
	release(run);
	if (run->gradient)
		exchange_close_cotangent(run);
	slab_put(&run->conditions.input, run->context.allocator);
	watched_close(run);
	pthread_mutex_destroy(&run->lock);
	return status;
}

enum status run_forward(const struct context *context, const struct run_subject *subject,
                        const struct run_options *options, struct run_counters *counters)
{
	struct run run;
	struct forward_pass forward = {.counters = counters};
	*counters = (struct run_counters){0};
	TRY(begin_run(&run, context, subject, options));
	run.forward = &forward;
	run.kind = &forward_kind;
	return run_stream(&run);
}

enum status run_plan_forward(const struct context *context, const struct run_subject *subject,
                             const struct run_options *options, const struct type *type, struct run_counters *counters)
{
	struct run run;
	struct forward_pass forward = {.counters = counters};
	const struct reader *reader = subject->reader;
	*counters = (struct run_counters){0};
	TRY(begin_run(&run, context, subject, options));
	run.forward = &forward;
	run.kind = &forward_kind;
	/* A run holds a short text. It reads others in any order, from the file or a copy of a pipe, and writes all in order. */
	const bool text = reader && (reader->format == FORMAT_TEXT || reader->format == FORMAT_CSV);
	run.ends.read_anywhere =
		(!reader || (text ? !reader->held : reader_seekable(reader))) && inputs_seekable(NULL, subject->inputs);
	run.ends.write_anywhere = run.ends.read_anywhere && !text;
	enum status status = begin_type(&run, type);
	if (!status)
		status = forward_plan(&run);
	if (!status)
		status = forward_count_array(&run);
	arena_free(&run.arena);
	return status;
}

enum status run_gradient(const struct context *context, const struct run_subject *subject,
                         const struct run_options *options, const struct gradient_options *gradient,
                         struct gradient_result *result)
{
	struct run run;
	struct gradient_pass pass = {
		.options = gradient, .result = result, .job = &result->job, .arena = context->arena, .start = clock_seconds()};
	memset(result, 0, sizeof *result);
	arena_init(&result->job_arena, context->allocator);
	enum status status = begin_run(&run, context, subject, options);
	run.gradient = &pass;
	run.kind = &gradient_kind;
	if (!status)
		status = run_stream(&run);
	if (status == STATUS_OK)
		totals_finish(result, ranks_index(subject->ranks) == 0);
	return status;
}

void gradient_done(struct gradient_result *result, struct diags *diags)
{
	if (result->journal)
		journal_remove(result->journal, diags);
	result->journal = NULL;
}

void gradient_free(struct gradient_result *result)
{
	if (result->journal)
		journal_close(result->journal);
	if (result->has_job)
		job_free(&result->job);
	arena_free(&result->job_arena);
}
