/*
 * Lanes. Each lane is a worker with a slab for the machine, blocks for its piece
 * of input and output, and partial sums for the gradients of params. Lanes take
 * chunks of tiles in order from one reader, compute, and give what they have
 * made in the same order: outputs to the writer, partial sums to the totals, one
 * tile after another. So nothing depends on how many lanes there are.
 *
 * Where the chain is not streamable there is one lane and one tile, which is
 * read straight into the machine's slab.
 */
#include "exec/grad.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/flush.h"
#include "exec/run.h"
#include "exec/slab.h"
#include "exec/spill.h"

struct run;

struct lane {
	struct run *run;
	struct slab slab, blocks;
	struct spill spill;             /* its own: lanes use the same slots at the same time */
	char *input, *gradient, *value; /* of a chunk */
	double *partials;               /* per_chunk times the sums of all params */
	double *loss;                   /* per_chunk partial sums of the output: hi and lo */
	struct bound_param *params;     /* with this tile's partials */
	int64_t index;                  /* of this lane */
	int64_t chunk, tile;            /* this chunk, -1 before the first; the tile within it */
	int64_t first_row, rows;        /* of the tile */
	int64_t live;                   /* bytes of the slab in use, as last traced */
	const struct tile_plan *plan;
	struct schedule *schedule; /* each lane reads its own */
	struct schedule *ahead;    /* the same, to know which state is fetched next */
	int64_t fetches, points;   /* of this tile, so far */
	bool skips;                /* goes on: nothing is computed until the last durable point */
	double next_point;         /* none is written before, in seconds */
	struct spill_piece *pieces;
	size_t piece_count, piece_capacity;
	struct counters measured;
	struct recompute recompute;
	struct diags diags;
	struct arena arena;
	double store_error;
	enum status status;
	pthread_t thread;
	bool started;
};

struct run {
	const struct chain *chain;
	const struct params *params;
	const struct grad_options *options;
	struct grad_result *result;
	struct job *job;
	struct reader *reader;
	bool has_cotangent, outputs_begun;
	struct slab cotangent_array;
	int64_t chunks, next_chunk, turn;
	pthread_mutex_t lock;
	pthread_cond_t turned;
	atomic_bool failed;
	int64_t sum_doubles; /* doubles of the partial sums of one tile */
	int64_t loss_count;  /* elements of an output that is summed over tiles */
	double *loss_hi, *loss_lo;
	struct team *team;
	const struct kernels *kernels[2]; /* F32, F64 */
	int64_t *first_use;               /* by param: the first step that reads it; only for events */
	double actions_done;              /* where there is one tile */
	int64_t rows_done;                /* where there are several */
	struct timespec begun;            /* for traces */
	pthread_mutex_t trace_lock;
	struct arena *arena;  /* for what is there to the end */
	struct arena scratch; /* for one array */
};

/* The journal. */

static uint64_t hash_text(uint64_t hash, const char *text)
{
	return journal_hash(hash, text ? text : "", text ? strlen(text) + 1 : 0);
}

/* All that decides the bits of the gradient, and what of it a point holds. */
static void identify(const struct run *run, const void *input, size_t size, struct journal_identity *identity)
{
	const struct job_options *options = &run->options->job;
	uint64_t *parts = identity->parts;
	char type[TYPE_TEXT];
	memset(identity, 0, sizeof *identity);
	parts[JOURNAL_CHAIN] = journal_hash(JOURNAL_HASH_START, run->chain->source->text, run->chain->source->length);
	/* Where costs are measured, or memory is, another schedule may be chosen than was. */
	const struct counters *c = &run->job->predicted;
	const int64_t schedule[] = {c->evaluations, c->checkpoints, c->spill_writes, c->spill_reads};
	parts[JOURNAL_POLICY] = hash_text(JOURNAL_HASH_START, run->job->policy->text);
	parts[JOURNAL_POLICY] = hash_text(parts[JOURNAL_POLICY], run->job->scheduled.text);
	parts[JOURNAL_POLICY] = journal_hash(parts[JOURNAL_POLICY], schedule, sizeof schedule);
	const int types[] = {run->options->dtype, options->store, run->options->flush_denormals};
	parts[JOURNAL_TYPES] = journal_hash(JOURNAL_HASH_START, types, sizeof types);
	parts[JOURNAL_VALUE_WANTED] = run->options->value != NULL;
	if (run->has_cotangent)
		parts[JOURNAL_COTANGENT] =
			journal_hash(JOURNAL_HASH_START, run->cotangent_array.base, (size_t)type_bytes(&run->job->whole.output));
	const char *const program[] = {run->kernels[0]->isa, blas_name(), PACKAGE_VERSION};
	for (size_t i = 0; i < sizeof program / sizeof *program; i++)
		parts[JOURNAL_PROGRAM] = hash_text(parts[JOURNAL_PROGRAM], program[i]);
	for (size_t i = 0; i < run->params->count; i++) {
		const struct bound_param *bound = &run->params->bound[i];
		parts[JOURNAL_PARAMS] = hash_text(parts[JOURNAL_PARAMS], type_format(&bound->type, type));
		parts[JOURNAL_PARAMS] = journal_hash(parts[JOURNAL_PARAMS], bound->data, (size_t)type_bytes(&bound->type));
	}
	parts[JOURNAL_INPUT] = hash_text(JOURNAL_HASH_START, type_format(&run->job->input, type));
	parts[JOURNAL_INPUT] = journal_hash(parts[JOURNAL_INPUT], input, size);
}

/* With the input at hand it is known whose journal it must be. */
static enum status open_journal(struct lane *lane, const void *input, size_t size)
{
	struct run *run = lane->run;
	struct journal_identity identity;
	const unsigned char *more;
	size_t got = 0;
	enum status status = input_peek(run->reader->input, 1, &more, &got, &lane->diags);
	if (status)
		return status;
	if (got)
		return diag_file(&lane->diags, STATUS_DATA, run->reader->input->name, run->reader->input->offset,
		                 "another array follows, and a journal is of one");
	identify(run, input, size, &identity);
	run->result->has_journal = true;
	status = journal_open(&run->result->journal, run->options->journal, run->options->spill,
	                      run->job->predicted.spill_bytes, &identity, &lane->spill, run->arena, &lane->diags);
	lane->skips = status == STATUS_OK && run->result->journal.goes_on;
	return status;
}

/* The output is wanted again by a run that goes on after the first sweep. */
static enum status keep_output(struct lane *lane, void *output, size_t size)
{
	const struct spill_piece piece = {output, size};
	if (!lane->skips)
		return spill_write_at_once(&lane->spill, JOURNAL_VALUE, &piece, 1, &lane->diags);
	return spill_read(&lane->spill, JOURNAL_VALUE, &piece, 1, &lane->diags);
}

/* Outputs. */

/*
 * Where there is one tile this waits for all that is read before it, the journal
 * too: what cannot begin writes nothing.
 */
static enum status begin_outputs(struct run *run, struct diags *diags)
{
	enum status status = STATUS_OK;
	run->outputs_begun = true;
	if (run->options->gradient)
		status = writer_begin(run->options->gradient, &run->job->input, diags);
	if (status == STATUS_OK && run->options->value)
		status = writer_begin(run->options->value, &run->job->whole.output, diags);
	return status;
}

/* Hooks of the machine. */

static enum status on_input(void *context, int64_t offset, const struct type *type)
{
	struct lane *lane = context;
	void *to = lane->slab.base + offset;
	if (!lane->run->job->tiled) {
		enum status status = reader_read(lane->run->reader, to, type->dtype, shape_count(&type->shape), &lane->diags);
		if (!status && lane->run->options->journal)
			status = open_journal(lane, to, (size_t)type_bytes(type));
		return status ? status : begin_outputs(lane->run, &lane->diags);
	}
	memcpy(to, lane->input + (lane->tile * lane->run->job->tile.rows) * lane->run->job->input_row,
	       (size_t)type_bytes(type));
	return STATUS_OK;
}

static enum status on_output(void *context, int64_t offset, const struct type *type)
{
	struct lane *lane = context;
	const void *from = lane->slab.base + offset;
	if (lane->run->options->journal) {
		enum status status = keep_output(lane, lane->slab.base + offset, (size_t)type_bytes(type));
		if (status)
			return status;
	}
	if (!lane->run->job->tiled)
		return writer_write(lane->run->options->value, from, type->dtype, shape_count(&type->shape), &lane->diags);
	if (lane->run->job->whole.sums)
		return STATUS_OK; /* partial sums: add_partials */
	memcpy(lane->value + (lane->tile * lane->run->job->tile.rows) * lane->run->job->output_row, from,
	       (size_t)type_bytes(type));
	return STATUS_OK;
}

static enum status on_seed(void *context, int64_t offset, const struct type *type)
{
	struct lane *lane = context;
	struct run *run = lane->run;
	void *to = lane->slab.base + offset;
	int64_t count = shape_count(&type->shape);
	if (lane->skips)
		return STATUS_OK;
	if (!run->has_cotangent) {
		kernels_get(type->dtype)->fill(to, 1.0, (size_t)count);
		return STATUS_OK;
	}
	bool sliced = run->job->tiled && !run->job->whole.sums;
	int64_t first = sliced ? lane->first_row * (count / lane->rows) : 0;
	memcpy(to, run->cotangent_array.base + (size_t)first * (type->dtype == DTYPE_F32 ? 4 : 8),
	       (size_t)type_bytes(type));
	return STATUS_OK;
}

static enum status on_gradient(void *context, int64_t offset, const struct type *type)
{
	struct lane *lane = context;
	struct run *run = lane->run;
	if (lane->skips)
		return diag_file(&lane->diags, STATUS_DATA, run->options->journal, -1, "names no point of this run");
	if (!run->options->gradient)
		return STATUS_OK;
	int64_t count = shape_count(&type->shape);
	if (run->job->tiled) {
		char *to = lane->gradient + (lane->tile * run->job->tile.rows) * run->job->input_row;
		if (offset < 0)
			memset(to, 0, (size_t)type_bytes(type));
		else
			memcpy(to, lane->slab.base + offset, (size_t)type_bytes(type));
		return STATUS_OK;
	}
	if (offset >= 0)
		return writer_write(run->options->gradient, lane->slab.base + offset, type->dtype, count, &lane->diags);
	static const double zeros[512];
	for (int64_t done = 0; done < count;) {
		int64_t n = count - done < 512 ? count - done : 512;
		enum status status = writer_write(run->options->gradient, zeros, type->dtype, n, &lane->diags);
		if (status)
			return status;
		done += n;
	}
	return STATUS_OK;
}

static enum status on_convert(void *context, int64_t to, int64_t from, const struct type *type, bool narrow)
{
	struct lane *lane = context;
	char *base = lane->slab.base;
	size_t count = lane->skips ? 0 : (size_t)shape_count(&type->shape);
	bool half = lane->run->options->job.store == DTYPE_F16, wide = type->dtype == DTYPE_F64;
	enum { PIECE = 512 };
	float buffer[PIECE];
	for (size_t done = 0; done < count; done += PIECE) {
		size_t n = count - done < PIECE ? count - done : PIECE;
		uint16_t *kept = (uint16_t *)(void *)(base + (narrow ? to : from)) + done;
		char *full = base + (narrow ? from : to) + done * (wide ? 8 : 4);
		if (narrow) {
			if (wide)
				kernels_get(DTYPE_F64)->to_f32(buffer, full, n);
			else
				memcpy(buffer, full, n * sizeof *buffer);
			(half ? convert_f32_to_f16 : convert_f32_to_bf16)(kept, buffer, n);
		}
		(half ? convert_f16_to_f32 : convert_bf16_to_f32)(buffer, kept, n);
		for (size_t i = 0; narrow && i < n; i++) {
			double error =
				fabs((wide ? ((double *)(void *)full)[i] : (double)((float *)(void *)full)[i]) - (double)buffer[i]);
			if (error > lane->store_error)
				lane->store_error = error;
		}
		if (!narrow && wide)
			kernels_get(DTYPE_F32)->to_f64((double *)(void *)full, buffer, n);
		else if (!narrow)
			memcpy(full, buffer, n * sizeof *buffer);
	}
	return STATUS_OK;
}

/* Disk. */

static enum status pieces_of(struct lane *lane, const struct machine_array *arrays, size_t count, size_t more)
{
	if (lane->piece_capacity < count + more) {
		lane->pieces = arena_array(&lane->arena, 2 * (count + more), sizeof *lane->pieces);
		if (!lane->pieces)
			return diag_memory(&lane->diags);
		lane->piece_capacity = 2 * (count + more);
	}
	for (size_t i = 0; i < count; i++)
		lane->pieces[i] = (struct spill_piece){lane->slab.base + arrays[i].offset, (size_t)arrays[i].size};
	lane->piece_count = count;
	return STATUS_OK;
}

static int64_t spill_slot(const struct lane *lane, int64_t slot)
{
	return lane->run->options->journal ? JOURNAL_STATES + slot : slot;
}

static enum status on_spill(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct lane *lane = context;
	enum status status = lane->skips ? STATUS_OK : pieces_of(lane, arrays, count, 0);
	if (status || lane->skips)
		return status;
	return spill_write(&lane->spill, spill_slot(lane, slot), lane->pieces, lane->piece_count, &lane->diags);
}

/* The disk slot of the next FETCH of the lane's other reader of the schedule, or -1. */
static int64_t next_fetch(struct lane *lane)
{
	struct action action;
	while (schedule_next(lane->ahead, &action))
		if (action.kind == ACT_FETCH)
			return action.slot;
	return -1;
}

static enum status on_fetch(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct lane *lane = context;
	if (lane->fetches++ == 0) {
		schedule_rewind(lane->ahead);
		(void)next_fetch(lane); /* this one */
	}
	int64_t next = next_fetch(lane);
	enum status status = lane->skips ? STATUS_OK : pieces_of(lane, arrays, count, 0);
	if (status || lane->skips)
		return status;
	status = spill_read(&lane->spill, spill_slot(lane, slot), lane->pieces, lane->piece_count, &lane->diags);
	if (status == STATUS_OK && next >= 0)
		spill_read_ahead(&lane->spill, spill_slot(lane, next));
	return status;
}

/* What stands beside the machine's arrays in a point: the running sums of params' gradients. */
static void add_sums(struct lane *lane)
{
	const struct grad_result *result = lane->run->result;
	for (size_t i = 0; i < result->param_count; i++)
		if (result->params[i].hi)
			lane->pieces[lane->piece_count++] = (struct spill_piece){result->params[i].hi, result->params[i].sum_size};
	lane->pieces[lane->piece_count++] = (struct spill_piece){&lane->store_error, sizeof lane->store_error};
}

static double seconds(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Points cost a run a tenth of its time at most: those that come too soon are left out. */
enum { POINT_SHARE = 10 };

static enum status write_point(struct lane *lane)
{
	struct journal *journal = &lane->run->result->journal;
	double begun = seconds();
	if (begun < lane->next_point)
		return STATUS_OK;
	journal->next = lane->points;
	int64_t slot = journal->point_slot == JOURNAL_POINT_A ? JOURNAL_POINT_B : JOURNAL_POINT_A;
	enum status status = spill_write_at_once(&lane->spill, slot, lane->pieces, lane->piece_count, &lane->diags);
	double now = seconds();
	lane->next_point = now + POINT_SHARE * (now - begun);
	return status;
}

/*
 * A place to go on from. A run that goes on comes here without having computed
 * anything, and takes up what the last durable point holds.
 */
static enum status on_point(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct lane *lane = context;
	const struct journal *journal = &lane->run->result->journal;
	int64_t number = slot < 0 ? ++lane->points : 0;
	bool here = slot < 0 ? number == journal->number : journal->number < 0 && slot == journal->last_state;
	if (slot >= 0 ? !lane->skips || !here : lane->skips && !here)
		return STATUS_OK;
	enum status status = pieces_of(lane, arrays, count, lane->run->result->param_count + 1);
	if (status)
		return status;
	if (slot < 0)
		add_sums(lane);
	if (!lane->skips)
		return write_point(lane);
	lane->skips = false;
	return spill_read(&lane->spill, slot < 0 ? journal->point_slot : spill_slot(lane, slot), lane->pieces,
	                  lane->piece_count, &lane->diags);
}

static enum status on_progress(void *context, const struct action *action, int64_t live)
{
	struct lane *lane = context;
	struct run *run = lane->run;
	if (atomic_load_explicit(&run->failed, memory_order_relaxed))
		return STATUS_CHECK; /* another lane has said why */
	if (!run->options->progress || run->job->tiled)
		return STATUS_OK;
	const struct counters *all = &run->job->predicted;
	if (action->kind == ACT_FORWARD || action->kind == ACT_RECORD || action->kind == ACT_BACKWARD)
		run->actions_done += (double)(action->end - action->begin);
	run->options->progress(run->options->progress_context, action,
	                       run->actions_done / (double)(all->evaluations + all->steps + 1), live, all->peak_bytes);
	return STATUS_OK;
}

/* Copies the params that are themselves a value of the state. */
static void copy_out_params(const struct lane *lane, const struct machine_call *call)
{
	const struct body *body = call->program->body;
	for (size_t i = 0; i < body->out_count; i++) {
		if (!call->out_params[i] || call->outs[i] < 0)
			continue;
		const struct param_ref *ref = call->out_params[i];
		const struct bound_param *param = &lane->params[ref->param];
		struct shape rest = param->type.shape;
		int64_t offset = 0;
		for (uint32_t k = 0; k < ref->count; k++) {
			int64_t at = ref->index[k].value + (ref->index[k].loop >= 0 ? call->counters[ref->index[k].loop] : 0);
			offset = offset * param->type.shape.dim[k] + at;
		}
		for (uint32_t k = ref->count; k < (uint32_t)rest.ndim; k++)
			offset *= rest.dim[k];
		if (param->streamed)
			offset += lane->first_row * (shape_count(&rest) / (rest.dim[0] ? rest.dim[0] : 1));
		const struct type *type = body->values[body->outs[i].value].type;
		size_t size = param->type.dtype == DTYPE_F64 ? 8 : 4;
		memcpy(lane->slab.base + call->outs[i], (const char *)param->data + (size_t)offset * size,
		       (size_t)type_bytes(type));
	}
}

static enum status gradient_ready(struct run *run, const char *name, const struct type *type, int64_t step,
                                  struct diags *diags)
{
	char text[TYPE_TEXT];
	const char *line = arena_printf(
		&run->scratch, "{\"event\":\"gradient\",\"name\":\"%s\",\"type\":\"%s\",\"bytes\":%lld,\"step\":%lld}\n", name,
		type_format(type, text), (long long)type_bytes(type), (long long)step);
	return line ? run->options->event(run->options->event_context, line) : diag_memory(diags);
}

/* Says that the gradients of the params whose first use is at STEP are whole. */
static enum status params_ready(struct run *run, int64_t step, struct diags *diags)
{
	for (size_t i = 0; run->first_use && i < run->params->count; i++) {
		const struct param *param = &run->chain->params[i];
		if (run->first_use[i] != step || !param->differentiated)
			continue;
		enum status status = gradient_ready(run, param->name, &run->params->bound[i].type, step, diags);
		if (status)
			return status;
	}
	return STATUS_OK;
}

static enum status on_call(void *context, const struct machine_call *call)
{
	struct lane *lane = context;
	struct run *run = lane->run;
	const struct body *body = call->program->body;
	const bool whole = call->kind == CALL_BACKWARD && !run->job->tiled && !policy_by_value(run->job->policy);
	if (lane->skips)
		return whole ? params_ready(run, call->step, &lane->diags) : STATUS_OK;
	const void *ins[body->in_count + 1];
	void *outs[body->out_count + 1];
	for (size_t i = 0; i < body->in_count; i++)
		ins[i] = call->ins[i] < 0 ? NULL : lane->slab.base + call->ins[i];
	for (size_t i = 0; i < body->out_count; i++)
		outs[i] = call->outs[i] < 0 ? NULL : lane->slab.base + call->outs[i];
	copy_out_params(lane, call);
	bool sums = run->job->tiled && run->job->whole.sums && call->kind != CALL_BACKWARD &&
	            call->step + 1 == (policy_by_value(run->job->policy) ? 1 : run->job->whole.steps);
	double *hi = sums ? lane->loss + 2 * run->loss_count * lane->tile : NULL;
	struct evaluation evaluation = {.program = call->program,
	                                .ins = ins,
	                                .outs = outs,
	                                .params = lane->params,
	                                .counters = call->counters,
	                                .workspace = lane->slab.base + call->workspace,
	                                .first_row = lane->first_row,
	                                .whole_rows = run->job->tiled ? run->job->rows : run->job->whole.whole_rows,
	                                .flat = run->job->flat,
	                                .sum_hi = hi,
	                                .sum_lo = sums ? hi + run->loss_count : NULL,
	                                .team = run->team,
	                                .kernels = {run->kernels[0], run->kernels[1]}};
	evaluate(&evaluation);
	if (lane->recompute.hashes && call->kind != CALL_BACKWARD)
		recompute_see(&lane->recompute, call, outs);
	return whole ? params_ready(run, call->step, &lane->diags) : STATUS_OK;
}

/*
 * Traced: the hooks above with a clock around them. Events of all lanes go to
 * one place, one at a time; the lock is taken outside of the times.
 */

static double microseconds(const struct run *run)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e6 * (double)(now.tv_sec - run->begun.tv_sec) + 1e-3 * (double)(now.tv_nsec - run->begun.tv_nsec);
}

static enum status trace(struct lane *lane, struct event *event)
{
	struct run *run = lane->run;
	event->worker = (int)lane->index;
	event->array = run->result->arrays;
	event->tile = lane->chunk * run->job->per_chunk + lane->tile;
	pthread_mutex_lock(&run->trace_lock);
	enum status status = run->options->trace(run->options->trace_context, event);
	pthread_mutex_unlock(&run->trace_lock);
	return status;
}

/* What the lane holds from now on. */
static enum status trace_live(struct lane *lane, enum event_kind kind, int64_t live)
{
	struct event event = {.kind = kind, .live = live, .from = microseconds(lane->run)};
	lane->live = live;
	event.to = event.from;
	return trace(lane, &event);
}

static enum status traced_call(void *context, const struct machine_call *call)
{
	struct lane *lane = context;
	struct event_context steps = {.by_value = lane->plan->units.by_value, .steps = lane->run->job->whole.steps};
	struct event event = event_of_call(&steps, call);
	enum status status = trace_live(lane, EVENT_LIVE, call->live);
	event.from = microseconds(lane->run);
	if (status == STATUS_OK)
		status = on_call(context, call);
	event.to = microseconds(lane->run);
	return status ? status : trace(lane, &event);
}

static enum status traced_spill(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct lane *lane = context;
	struct event event = {.kind = EVENT_SPILL, .slot = slot, .live = lane->live, .from = microseconds(lane->run)};
	enum status status = on_spill(context, slot, arrays, count);
	event.to = microseconds(lane->run);
	return status ? status : trace(lane, &event);
}

static enum status traced_fetch(void *context, int64_t slot, const struct machine_array *arrays, size_t count)
{
	struct lane *lane = context;
	struct event event = {.kind = EVENT_FETCH, .slot = slot, .live = lane->live, .from = microseconds(lane->run)};
	enum status status = on_fetch(context, slot, arrays, count);
	event.to = microseconds(lane->run);
	return status ? status : trace(lane, &event);
}

static enum status traced_progress(void *context, const struct action *action, int64_t live)
{
	struct lane *lane = context;
	struct event event;
	enum status status = on_progress(context, action, live);
	if (status == STATUS_OK && event_of_action(action, &event)) {
		event.from = event.to = microseconds(lane->run);
		event.live = live;
		status = trace(lane, &event);
	}
	return status ? status : trace_live(lane, EVENT_LIVE, live);
}

static void trace_hooks(struct machine_hooks *hooks)
{
	hooks->call = traced_call;
	hooks->spill = traced_spill;
	hooks->fetch = traced_fetch;
	hooks->progress = traced_progress;
}

/* Params of a tile: where its partial sums go. */
static void aim_partials(struct lane *lane)
{
	struct run *run = lane->run;
	double *next = lane->partials ? lane->partials + lane->tile * run->sum_doubles : NULL;
	if (next)
		memset(next, 0, (size_t)run->sum_doubles * sizeof *next);
	for (size_t i = 0; i < run->params->count; i++) {
		struct bound_param *bound = &lane->params[i];
		*bound = run->params->bound[i];
		bound->streamed = job_has_rows(run->job, i);
		bound->hi = bound->lo = NULL;
		bound->gradient = NULL;
		if (!run->chain->params[i].differentiated)
			continue;
		if (bound->streamed) {
			bound->gradient = run->result->params[i].rows;
			continue;
		}
		int64_t count = shape_count(&bound->type.shape);
		if (!run->job->tiled) {
			bound->hi = run->result->params[i].hi;
			bound->lo = run->result->params[i].lo;
			continue;
		}
		bound->hi = next;
		next += count;
		if (bound->type.dtype == DTYPE_F64) {
			bound->lo = next;
			next += count;
		}
	}
}

/* Adds a tile's partial sums to the totals; a total of two parts by Neumaier. */
static void add_wide(const struct run *run, double *hi, double *lo, const double *from_hi, const double *from_lo,
                     int64_t count)
{
	if (!lo) {
		run->kernels[1]->accumulate(hi, from_hi, (size_t)count);
		return;
	}
	for (int64_t i = 0; i < count; i++) {
		double a = hi[i], b = from_hi[i], sum = a + b;
		double error = fabs(a) >= fabs(b) ? (a - sum) + b : (b - sum) + a;
		lo[i] += isfinite(sum) ? error + from_lo[i] : 0;
		hi[i] = sum;
	}
}

static void add_partials(struct lane *lane, int64_t tile)
{
	struct run *run = lane->run;
	const double *next = lane->partials ? lane->partials + tile * run->sum_doubles : NULL;
	for (size_t i = 0; next && i < run->params->count; i++) {
		if (!run->chain->params[i].differentiated || job_has_rows(run->job, i))
			continue;
		struct param_gradient *total = &run->result->params[i];
		int64_t count = shape_count(&total->type.shape);
		bool wide = run->params->bound[i].type.dtype == DTYPE_F64;
		add_wide(run, total->hi, total->lo, next, wide ? next + count : NULL, count);
		next += wide ? 2 * count : count;
	}
	if (run->job->whole.sums && lane->loss) {
		const double *loss = lane->loss + 2 * run->loss_count * tile;
		add_wide(run, run->loss_hi, run->loss_lo, loss, loss + run->loss_count, run->loss_count);
	}
}

/* One tile, wholly. */
static enum status run_tile(struct lane *lane, int64_t tile)
{
	static const struct machine_hooks all = {.call = on_call,
	                                         .input = on_input,
	                                         .output = on_output,
	                                         .seed = on_seed,
	                                         .gradient = on_gradient,
	                                         .convert = on_convert,
	                                         .spill = on_spill,
	                                         .fetch = on_fetch,
	                                         .progress = on_progress};
	struct run *run = lane->run;
	struct job *job = run->job;
	struct machine_hooks hooks = all;
	hooks.context = lane;
	hooks.point = run->options->journal ? on_point : NULL;
	lane->tile = tile;
	lane->fetches = 0;
	lane->first_row = (lane->chunk * job->per_chunk + tile) * job->tile.rows;
	int64_t left = job->rows - lane->first_row;
	lane->plan = job->tiled && left < job->tile.rows ? &job->rest : &job->tile;
	lane->rows = job->tiled ? lane->plan->rows : 1;
	aim_partials(lane);
	if (lane->recompute.hashes)
		recompute_begin(&lane->recompute);
	if (lane->loss)
		memset(lane->loss + 2 * run->loss_count * tile, 0, 2 * (size_t)run->loss_count * sizeof *lane->loss);
	struct machine_options options = {.want_value = run->options->value != NULL,
	                                  .store = run->options->job.store,
	                                  .hooks = &hooks,
	                                  .allocator = run->options->job.allocator};
	struct counters counters = {0};
	enum status status = STATUS_OK;
	if (run->options->trace) {
		trace_hooks(&hooks);
		status = trace_live(lane, EVENT_START, 0);
	}
	if (status == STATUS_OK)
		status = machine_run(&lane->plan->units, lane->schedule, &options, &counters, &lane->diags);
	if (status == STATUS_OK && run->options->trace)
		status = trace_live(lane, EVENT_LIVE, 0);
	if (counters.peak_bytes > lane->measured.peak_bytes)
		lane->measured.peak_bytes = counters.peak_bytes;
	int64_t peak = lane->measured.peak_bytes;
	int64_t stored =
		lane->measured.stored_bytes > counters.stored_bytes ? lane->measured.stored_bytes : counters.stored_bytes;
	lane->measured = counters;
	lane->measured.peak_bytes = peak;
	lane->measured.stored_bytes = stored;
	return status;
}

/* Lanes. */

static enum status read_chunk(struct lane *lane, int64_t rows)
{
	struct run *run = lane->run;
	const struct job *job = run->job;
	enum dtype dtype = dtype_compute(job->input.dtype);
	int64_t count = rows * (job->input_row / (dtype == DTYPE_F32 ? 4 : 8));
	return reader_read(run->reader, lane->input, dtype, count, &lane->diags);
}

static enum status write_chunk(struct lane *lane, int64_t rows)
{
	struct run *run = lane->run;
	const struct job *job = run->job;
	enum dtype in = dtype_compute(job->input.dtype), out = dtype_compute(job->whole.output.dtype);
	enum status status = STATUS_OK;
	if (run->options->gradient)
		status = writer_write(run->options->gradient, lane->gradient, in,
		                      rows * (job->input_row / (in == DTYPE_F32 ? 4 : 8)), &lane->diags);
	if (status == STATUS_OK && lane->value)
		status = writer_write(run->options->value, lane->value, out,
		                      rows * (job->output_row / (out == DTYPE_F32 ? 4 : 8)), &lane->diags);
	return status;
}

static int64_t chunk_rows(const struct run *run, int64_t chunk, int64_t *tiles)
{
	const struct job *job = run->job;
	int64_t full = job->per_chunk * job->tile.rows, left = job->rows - chunk * full;
	int64_t rows = left < full ? left : full;
	*tiles = (rows + job->tile.rows - 1) / job->tile.rows;
	return rows;
}

static void fail(struct lane *lane, enum status status)
{
	lane->status = status;
	atomic_store(&lane->run->failed, true);
	pthread_mutex_lock(&lane->run->lock);
	pthread_cond_broadcast(&lane->run->turned);
	pthread_mutex_unlock(&lane->run->lock);
}

/*
 * Takes the lane's next chunk and reads it when it is its turn; false at the end.
 * Chunks go round the lanes, so that what each lane holds is known beforehand.
 */
static bool take_chunk(struct lane *lane, int64_t *rows, int64_t *tiles)
{
	struct run *run = lane->run;
	enum status status = STATUS_OK;
	lane->chunk = lane->chunk < 0 ? lane->index : lane->chunk + run->job->lanes;
	if (lane->chunk >= run->chunks)
		return false;
	pthread_mutex_lock(&run->lock);
	while (run->next_chunk != lane->chunk && !atomic_load(&run->failed))
		pthread_cond_wait(&run->turned, &run->lock);
	bool more = !atomic_load(&run->failed);
	if (more) {
		*rows = chunk_rows(run, lane->chunk, tiles);
		status = read_chunk(lane, *rows);
		run->next_chunk++;
		pthread_cond_broadcast(&run->turned);
	}
	pthread_mutex_unlock(&run->lock);
	if (status)
		fail(lane, status);
	return more && !status;
}

/* Gives what a chunk has made, when it is its turn. */
static enum status give_chunk(struct lane *lane, int64_t rows, int64_t tiles)
{
	struct run *run = lane->run;
	enum status status = STATUS_OK;
	pthread_mutex_lock(&run->lock);
	while (run->turn != lane->chunk && !atomic_load(&run->failed))
		pthread_cond_wait(&run->turned, &run->lock);
	if (!atomic_load(&run->failed)) {
		for (int64_t tile = 0; tile < tiles; tile++)
			add_partials(lane, tile);
		status = write_chunk(lane, rows);
		run->turn++;
		pthread_cond_broadcast(&run->turned);
	}
	pthread_mutex_unlock(&run->lock);
	return status;
}

/* Tiles are short: progress is made of them. */
static void note_tile(struct run *run, int64_t rows)
{
	if (!run->options->progress)
		return;
	pthread_mutex_lock(&run->lock);
	run->rows_done += rows;
	run->options->progress(run->options->progress_context, NULL, (double)run->rows_done / (double)run->job->rows, 0, 0);
	pthread_mutex_unlock(&run->lock);
}

static void *lane_main(void *context)
{
	struct lane *lane = context;
	unsigned before = flush_begin(lane->run->options->flush_denormals);
	int64_t rows, tiles;
	while (take_chunk(lane, &rows, &tiles)) {
		enum status status = STATUS_OK;
		for (int64_t tile = 0; tile < tiles && status == STATUS_OK; tile++) {
			status = run_tile(lane, tile);
			if (status == STATUS_OK)
				note_tile(lane->run, lane->rows);
		}
		if (status == STATUS_OK)
			status = give_chunk(lane, rows, tiles);
		if (status) {
			fail(lane, status);
			break;
		}
	}
	flush_end(before);
	return NULL;
}

static enum status lane_open_spill(struct lane *lane)
{
	const struct run *run = lane->run;
	const struct job *job = run->job;
	const int64_t wanted = job->predicted.spill_bytes * job->lanes; /* of all: no lane writes before all are open */
	if (!job->predicted.spill_writes && !run->options->journal)
		return spill_check_room(run->options->spill, 0, &lane->diags);
	lane->ahead = schedule_copy(job->schedule);
	enum status status = lane->ahead ? STATUS_OK : diag_memory(&lane->diags);
	if (status == STATUS_OK)
		status = spill_open(&lane->spill, (size_t)job->staging, run->options->job.allocator, &lane->diags);
	if (status || run->options->journal) /* which opens the file when the input is known */
		return status;
	status = spill_check_room(run->options->spill, wanted, &lane->diags);
	return status ? status : spill_create(&lane->spill, run->options->spill, &lane->diags);
}

static enum status lane_open(struct lane *lane, struct run *run, int index)
{
	const struct job *job = run->job;
	const struct allocator *allocator = run->options->job.allocator;
	*lane = (struct lane){
		.run = run, .index = index, .chunk = run->job->tiled ? -1 : 0, .spill = {.fd = -1, .allocator = allocator}};
	arena_init(&lane->arena, allocator);
	diags_init(&lane->diags, &lane->arena);
	lane->params = arena_array(&lane->arena, run->params->count + 1, sizeof *lane->params);
	if (!lane->params)
		return diag_memory(&lane->diags);
	lane->schedule = schedule_copy(job->schedule);
	enum status status = lane->schedule ? STATUS_OK : diag_memory(&lane->diags);
	if (status == STATUS_OK && run->options->spill)
		status = lane_open_spill(lane);
	if (status == STATUS_OK && run->options->compare)
		status = recompute_open(&lane->recompute, job->whole.steps, allocator, &lane->diags);
	int64_t slab = job->tile.slab > job->rest.slab ? job->tile.slab : job->rest.slab;
	if (status == STATUS_OK)
		status = slab_get(&lane->slab, slab, allocator, &lane->diags);
	if (status || !job->tiled)
		return status;
	int64_t rows = job->tile.rows * job->per_chunk;
	bool value = run->options->value && !job->whole.sums;
	int64_t input = (rows * job->input_row + 63) / 64 * 64,
			output = value ? (rows * job->output_row + 63) / 64 * 64 : 0;
	int64_t partials = job->per_chunk * run->sum_doubles * (int64_t)sizeof(double);
	int64_t loss = job->whole.sums ? job->per_chunk * 2 * run->loss_count * (int64_t)sizeof(double) : 0;
	status = slab_get(&lane->blocks, 2 * input + output + partials + loss, allocator, &lane->diags);
	if (status)
		return status;
	char *next = lane->blocks.base;
	lane->input = next;
	lane->gradient = next + input;
	lane->value = value ? next + 2 * input : NULL;
	lane->partials = (double *)(void *)(next + 2 * input + output);
	lane->loss = job->whole.sums ? (double *)(void *)(next + 2 * input + output + partials) : NULL;
	return STATUS_OK;
}

static void lane_close(struct lane *lane)
{
	const struct allocator *allocator = lane->run->options->job.allocator;
	slab_put(&lane->slab, allocator);
	slab_put(&lane->blocks, allocator);
	spill_close(&lane->spill);
	recompute_close(&lane->recompute, allocator);
	if (lane->schedule)
		schedule_free(lane->schedule);
	if (lane->ahead)
		schedule_free(lane->ahead);
	arena_free(&lane->arena);
}

/* The one tile of a chain that is not streamed. */
static enum status run_whole(struct run *run, struct lane *lane)
{
	unsigned before = flush_begin(run->options->flush_denormals);
	enum status status = run_tile(lane, 0);
	flush_end(before);
	return status;
}

static enum status run_lanes(struct run *run, struct lane *lanes)
{
	int count = run->job->lanes;
	pthread_mutex_init(&run->lock, NULL);
	pthread_cond_init(&run->turned, NULL);
	for (int i = 1; i < count; i++)
		if (pthread_create(&lanes[i].thread, NULL, lane_main, &lanes[i]) == 0)
			lanes[i].started = true;
		else
			fail(&lanes[i], diag_file(&lanes[i].diags, STATUS_LIMIT, NULL, -1,
			                          "cannot start %d workers: --threads asks for fewer", count));
	lane_main(&lanes[0]);
	for (int i = 1; i < count; i++)
		if (lanes[i].started)
			pthread_join(lanes[i].thread, NULL);
	pthread_cond_destroy(&run->turned);
	pthread_mutex_destroy(&run->lock);
	for (int i = 0; i < count; i++)
		if (lanes[i].status && lanes[i].diags.errors)
			return lanes[i].status;
	for (int i = 0; i < count; i++)
		if (lanes[i].status)
			return lanes[i].status;
	return STATUS_OK;
}

static void count_lanes(struct run *run, const struct lane *lanes)
{
	struct counters *measured = &run->result->measured;
	const struct job *job = run->job;
	int64_t peak = 0, stored = 0, staging = 0;
	const struct lane *seen = &lanes[0];
	for (int i = 0; i < job->lanes; i++) {
		peak += lanes[i].measured.peak_bytes;
		stored += lanes[i].measured.stored_bytes;
		staging += (int64_t)lanes[i].spill.staging_size;
		recompute_add(&run->result->recomputed, &lanes[i].recompute);
		if (!seen->measured.steps)
			seen = &lanes[i];
		if (lanes[i].store_error > run->result->store_error)
			run->result->store_error = lanes[i].store_error;
	}
	*measured = seen->measured;
	measured->stored_bytes = stored;
	measured->peak_bytes = job->predicted.peak_bytes - job->slabs - job->lanes * job->staging + peak + staging;
}

/* Params' gradients. */

static void *zeros_get(const struct allocator *allocator, size_t size)
{
	void *zeros = allocator_get(allocator, size + 1, 1);
	return zeros ? memset(zeros, 0, size) : NULL;
}

/* What the array at hand adds to; what earlier ones have added to stays. */
static enum status gradients_begin(struct run *run, struct diags *diags)
{
	struct grad_result *result = run->result;
	const struct allocator *allocator = run->options->job.allocator;
	size_t count = run->chain->param_count;
	if (!result->params)
		result->params = arena_array(run->arena, count + 1, sizeof *result->params);
	if (!result->params)
		return diag_memory(diags);
	result->param_count = count;
	for (size_t i = 0; i < count; i++) {
		struct param_gradient *g = &result->params[i];
		if (!run->chain->params[i].differentiated)
			continue;
		g->type = run->params->bound[i].type;
		g->size = (size_t)type_bytes(&g->type);
		g->sum_size = (size_t)param_sum_bytes(&run->chain->params[i]);
		if (job_has_rows(run->job, i) && !g->rows)
			g->rows = zeros_get(allocator, g->size);
		else if (!job_has_rows(run->job, i) && !g->hi)
			g->hi = zeros_get(allocator, g->sum_size);
		if (job_has_rows(run->job, i) ? !g->rows : !g->hi)
			return diag_memory(diags);
		g->lo = g->hi && g->type.dtype == DTYPE_F64 ? g->hi + shape_count(&g->type.shape) : NULL;
	}
	return STATUS_OK;
}

/* The sums, rounded once: to the rows, or where they lie, from the first on, as no element takes more than a sum. */
static void gradients_finish(struct grad_result *result)
{
	for (size_t i = 0; i < result->param_count; i++) {
		struct param_gradient *g = &result->params[i];
		const bool wide = g->type.dtype == DTYPE_F64;
		const int64_t count = g->hi ? shape_count(&g->type.shape) : 0;
		char *to = g->rows ? g->rows : (void *)g->hi;
		for (int64_t k = 0; k < count; k++) {
			const double sum = g->lo && isfinite(g->hi[k]) ? g->hi[k] + g->lo[k] : g->hi[k];
			double row = g->rows && wide ? ((double *)g->rows)[k] : g->rows ? (double)((float *)g->rows)[k] : 0;
			row = g->rows ? row + sum : sum;
			const float narrow = (float)row;
			memcpy(to + k * (wide ? 8 : 4), wide ? (const void *)&row : &narrow, wide ? 8 : 4);
		}
		g->data = to;
	}
}

static void note_first_uses(struct run *run)
{
	const struct lowered *whole = &run->job->whole;
	for (size_t i = 0; i < run->params->count; i++)
		run->first_use[i] = -1;
	for (int64_t s = whole->steps; s-- > 0;) {
		const struct body *body = lowered_step(whole, s, NULL)->body;
		for (size_t k = 0; k < body->instr_count; k++) {
			const uint32_t reads[] = {body->instrs[k].v, body->instrs[k].a};
			for (int r = 0; r < 2; r++)
				if (reads[r] != NO_VALUE && body->values[reads[r]].from == FROM_PARAM)
					run->first_use[body->values[reads[r]].param.param] = s;
		}
	}
}

/* What has not been said while the backward pass ran: all params of a tiled chain, the rest, and the input. */
static enum status last_events(struct run *run, struct diags *diags)
{
	enum status status = STATUS_OK;
	bool all = run->job->tiled || policy_by_value(run->job->policy);
	for (int64_t s = run->job->whole.steps; s-- > 0 && all && status == STATUS_OK;)
		status = params_ready(run, s, diags);
	if (status == STATUS_OK)
		status = params_ready(run, -1, diags);
	return status ? status : gradient_ready(run, run->chain->input, &run->job->input, 0, diags);
}

/* The cotangent's file: read where it is wanted, or whole where it must be. */
static enum status open_cotangent(struct run *run, struct diags *diags)
{
	const char *path = run->options->cotangent;
	if (!path)
		return STATUS_OK;
	const struct type *want = &run->job->whole.output;
	char a[TYPE_TEXT], b[TYPE_TEXT];
	struct array array;
	enum status status =
		array_load(&array, path, NULL, run->options->special, true, run->options->job.allocator, &run->scratch, diags);
	if (status)
		return status;
	if (!shape_equal(&array.type.shape, &want->shape)) {
		array_free(&array, run->options->job.allocator);
		return diag_file(diags, STATUS_DATA, path, -1, "the cotangent is %s and the chain's output is %s",
		                 type_format(&array.type, a), type_format(want, b));
	}
	size_t count = (size_t)shape_count(&want->shape);
	status = slab_get(&run->cotangent_array, type_bytes(want), run->options->job.allocator, diags);
	if (status == STATUS_OK) {
		bool from64 = dtype_compute(array.type.dtype) == DTYPE_F64, to64 = dtype_compute(want->dtype) == DTYPE_F64;
		if (from64 == to64)
			memcpy(run->cotangent_array.base, array.data, array.size);
		else if (to64)
			kernels_get(DTYPE_F32)->to_f64((double *)(void *)run->cotangent_array.base, array.data, count);
		else
			kernels_get(DTYPE_F64)->to_f32((float *)(void *)run->cotangent_array.base, array.data, count);
	}
	run->has_cotangent = true;
	array_free(&array, run->options->job.allocator);
	return status;
}

/* The value of a chain whose output is a sum over all tiles. */
static enum status write_loss(struct run *run, struct diags *diags)
{
	const struct lowered *whole = &run->job->whole;
	const struct step *last = lowered_step(whole, whole->steps - 1, NULL);
	const struct instr *instr = &last->body->instrs[last->body->instr_count - 1];
	struct op_call call = {.op = instr->op,
	                       .attrs = instr->attrs,
	                       .v = instr->of_v,
	                       .a = instr->of_a,
	                       .y = instr->of_y,
	                       .whole = run->job->rows,
	                       .kernels = kernels_get(instr->of_y->dtype)};
	struct slab out;
	enum status status = slab_get(&out, type_bytes(instr->of_y), run->options->job.allocator, diags);
	if (status)
		return status;
	sum_finish(&call, out.base, run->loss_hi, run->loss_lo, run->loss_count);
	status = writer_write(run->options->value, out.base, instr->of_y->dtype, run->loss_count, diags);
	slab_put(&out, run->options->job.allocator);
	return status;
}

static enum status prepare(struct run *run, struct diags *diags)
{
	struct job *job = run->job;
	enum status status = STATUS_OK;
	run->kernels[0] = kernels_get(DTYPE_F32);
	run->kernels[1] = kernels_get(DTYPE_F64);
	for (size_t i = 0; i < job->whole.distinct_count && status == STATUS_OK; i++)
		status = params_check(run->params, job->whole.distinct[i]->body, run->chain, diags);
	if (status == STATUS_OK && job->tile.units.uses_gemm)
		status = blas_load(diags);
	if (status == STATUS_OK)
		status = gradients_begin(run, diags);
	if (status == STATUS_OK)
		status = open_cotangent(run, diags);
	if (status)
		return status;
	run->sum_doubles = job->partial_bytes / (int64_t)sizeof(double);
	if (job->whole.sums && job->tiled) {
		run->loss_count = shape_count(&job->whole.output.shape);
		run->loss_hi = arena_array(&run->scratch, (size_t)run->loss_count + 1, 2 * sizeof(double));
		if (!run->loss_hi)
			return diag_memory(diags);
		run->loss_lo = run->loss_hi + run->loss_count;
	}
	if (run->options->event) {
		run->first_use = arena_array(&run->scratch, run->params->count + 1, sizeof *run->first_use);
		if (!run->first_use)
			return diag_memory(diags);
		note_first_uses(run);
	}
	int64_t chunk = job->tile.rows * job->per_chunk;
	run->chunks = job->tiled ? (job->rows + chunk - 1) / chunk : 1;
	return status;
}

static enum status end_outputs(struct run *run, struct diags *diags)
{
	enum status status = run->outputs_begun ? STATUS_OK : begin_outputs(run, diags);
	if (status == STATUS_OK && run->options->value && run->job->tiled && run->job->whole.sums)
		status = write_loss(run, diags);
	if (status == STATUS_OK && run->options->gradient)
		status = writer_end(run->options->gradient, diags);
	if (status == STATUS_OK && run->options->value)
		status = writer_end(run->options->value, diags);
	if (status == STATUS_OK && run->options->event)
		status = last_events(run, diags);
	return status;
}

static enum status run_array(struct run *run, struct diags *diags)
{
	struct lane *lanes = arena_array(&run->scratch, (size_t)run->job->lanes, sizeof *lanes);
	if (!lanes)
		return diag_memory(diags);
	enum status status = prepare(run, diags);
	allocator_trim();
	int open = 0;
	if (status == STATUS_OK && run->job->team > 1) {
		run->team = team_open(run->job->team, run->job->member_bytes, run->options->job.allocator);
		status = run->team ? STATUS_OK : diag_memory(diags);
	}
	for (; open < run->job->lanes && status == STATUS_OK; open++) {
		status = lane_open(&lanes[open], run, open);
		if (status)
			diags_take(diags, &lanes[open].diags);
	}
	if (status == STATUS_OK && run->job->tiled)
		status = begin_outputs(run, diags);
	pthread_mutex_init(&run->trace_lock, NULL);
	if (status == STATUS_OK) {
		status = run->job->tiled ? run_lanes(run, lanes) : run_whole(run, &lanes[0]);
		for (int i = 0; i < run->job->lanes; i++)
			diags_take(diags, &lanes[i].diags);
	}
	if (status == STATUS_OK) {
		count_lanes(run, lanes);
		status = end_outputs(run, diags);
	}
	for (int i = 0; i < open; i++)
		lane_close(&lanes[i]);
	team_close(run->team);
	run->team = NULL;
	pthread_mutex_destroy(&run->trace_lock);
	slab_put(&run->cotangent_array, run->options->job.allocator);
	return status;
}

/* The job of an array of type INPUT: that of the array before, or a new one. */
static enum status make_job(struct grad_result *result, const struct chain *chain, const struct type *input,
                            const struct grad_options *options, struct diags *diags)
{
	if (result->has_job && type_equal(&result->job.input, input))
		return STATUS_OK;
	if (result->has_job)
		job_free(&result->job);
	result->has_job = false;
	arena_free(&result->job_arena);
	arena_init(&result->job_arena, options->job.allocator);
	const double begun = seconds();
	enum status status = job_make(&result->job, chain, input, &options->job, &result->job_arena, diags);
	result->planning += seconds() - begun;
	result->has_job = !status;
	return status;
}

enum status grad_run(struct chain *chain, struct params *params, struct reader *reader,
                     const struct grad_options *options, struct grad_result *result, struct arena *arena,
                     struct diags *diags)
{
	memset(result, 0, sizeof *result);
	arena_init(&result->job_arena, options->job.allocator);
	enum status status = STATUS_OK;
	struct timespec begun;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	for (;;) {
		bool end = false;
		status = reader_next(reader, &end, diags);
		if (status || end)
			break;
		if (options->gradient)
			run_follow_format(options->gradient, reader);
		if (options->value)
			run_follow_format(options->value, reader);
		struct type input = run_input_type(chain, &reader->type, options->dtype);
		if (result->arrays == 0) /* gradients are summed over arrays, in the type of the first */
			params_settle(params, chain, dtype_compute(input.dtype));
		status = make_job(result, chain, &input, options, diags);
		if (status)
			break;
		result->predicted = result->job.predicted;
		struct run run = {.chain = chain,
		                  .params = params,
		                  .options = options,
		                  .result = result,
		                  .job = &result->job,
		                  .reader = reader,
		                  .begun = begun,
		                  .arena = arena};
		arena_init(&run.scratch, options->job.allocator);
		status = run_array(&run, diags);
		arena_free(&run.scratch);
		if (status)
			break;
		result->arrays++;
		result->value_type = result->job.whole.output;
	}
	if (status == STATUS_OK)
		gradients_finish(result);
	return status;
}

void grad_done(struct grad_result *result)
{
	if (result->has_journal)
		journal_close(&result->journal, true);
	result->has_journal = false;
}

void grad_free(struct grad_result *result, const struct allocator *allocator)
{
	if (result->has_journal)
		journal_close(&result->journal, false);
	if (result->has_job)
		job_free(&result->job);
	arena_free(&result->job_arena);
	for (size_t i = 0; i < result->param_count; i++) {
		allocator_put(allocator, result->params[i].rows, result->params[i].size + 1);
		allocator_put(allocator, result->params[i].hi, result->params[i].sum_size + 1);
	}
}
