/*
 * How a gradient is cut into tiles.
 *
 * A streamable chain is reversed tile by tile, and a tile's arrays should
 * stay in the second-level cache. Where something is summed over the streamed
 * axis (a loss, a param's gradient) the tile is the block of that sum, and its
 * rows depend on the chain and its types alone: so the same bits come out for
 * any --tile, --threads and policy. So it is where matrices are multiplied, of
 * which a row's bits depend on the rows beside it. --tile then sets how many blocks
 * a worker takes at a time.
 */
#include "plan/job.h"

#include <string.h>

#include "base/checked.h"
#include "base/pool.h"
#include "plan/job_parts.h"
#include "plan/tile.h"

enum { CHUNK_BYTES = 256 << 10, PARTIAL_BYTES = 1 << 20 };

int64_t job_sum_bytes(const struct job *job, size_t i)
{
	const struct type type = param_type(&job->chain->params[i], &job->input);
	return shape_count(&type.shape) * (int64_t)sizeof(double) * (dtype_compute(type.dtype) == DTYPE_F64 ? 2 : 1);
}

static int64_t row_bytes(const struct type *type, int64_t rows)
{
	return rows > 0 ? type_bytes(type) / rows : type_bytes(type);
}

static struct type tile_input(const struct job *job)
{
	struct type type = job->input;
	if (job->flat) {
		type.shape.ndim = 1;
		type.shape.dim[0] = job->rows;
	}
	return type;
}

static enum status make_tile(struct job *job, const struct job_options *options, struct tile_plan *tile, int64_t rows,
                             struct diags *diags)
{
	const struct context context = {job->allocator, job->arena, diags};
	struct type input = tile_input(job);
	bool by_value = policy_by_value(job->policy);
	tile->rows = rows;
	const enum lower_what what = by_value ? LOWER_UNROLLED : LOWER_STEPS;
	enum status status = job->tiled ? lower_tile(&context, &tile->lowered, &job->whole, &input, what, rows)
	                                : lower(&context, &tile->lowered, job->chain, &job->whole.portion, &input, what);
	if (status == STATUS_OK)
		status = compiled_make(&context, &tile->compiled, &tile->lowered, job->policy);
	if (status == STATUS_OK && options->costs)
		status = options->costs(options->costs_context, &tile->compiled, rows, diags);
	return status;
}

bool job_has_rows(const struct job *job, size_t i) { return job->tiled && job->whole.streamed_params[i]; }

int64_t job_partial_bytes(const struct job *job, size_t i)
{
	const struct param *param = &job->chain->params[i];
	if (!param->differentiated || job_has_rows(job, i))
		return 0;
	if (!job->once[i])
		return job_sum_bytes(job, i);
	const struct type type = param_type(param, &job->input);
	return round_up(type_bytes(&type), sizeof(double));
}

/* Where a forward run's body reads its params. */
struct reads {
	const struct body *body;
	int32_t levels[MAX_LOOPS]; /* of the loops that are open */
	int depth;
	bool *seen, *once; /* by param: whether there is a read, and whether none reads what was read before */
};

/* Whether REF is another part of its param in each iteration of each open loop. */
static bool varies(const struct reads *reads, const struct param_ref *ref)
{
	for (int d = 0; d < reads->depth; d++) {
		uint32_t k = 0;
		while (k < ref->count && ref->index[k].loop != reads->levels[d])
			k++;
		if (k == ref->count)
			return false;
	}
	return true;
}

static void note_read(struct reads *reads, uint32_t index)
{
	const struct value *value = index == NO_VALUE ? NULL : &reads->body->values[index];
	if (!value || value->from != FROM_PARAM)
		return;
	const uint32_t p = value->param.param;
	reads->once[p] = !reads->seen[p] && varies(reads, &value->param);
	reads->seen[p] = true;
}

/* Finds the params of which BODY reads no element twice. */
static enum status find_once(struct job *job, const struct body *body, struct diags *diags)
{
	const size_t count = job->chain->param_count;
	struct reads reads = {.body = body,
	                      .seen = arena_array(job->arena, count + 1, sizeof *reads.seen),
	                      .once = arena_array(job->arena, count + 1, sizeof *reads.once)};
	if (!reads.seen || !reads.once)
		return diag_memory(diags);
	memset(reads.seen, 0, count);
	memset(reads.once, 0, count);
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind == INSTR_LOOP) {
			reads.levels[reads.depth++] = instr->level;
			for (uint32_t c = 0; c < instr->loop.carry_count; c++) {
				note_read(&reads, instr->loop.carries[c].init); /* read in a iteration, so never once */
				note_read(&reads, instr->loop.carries[c].result);
			}
		} else if (instr->kind == INSTR_END) {
			reads.depth--;
		} else {
			note_read(&reads, instr->v);
			note_read(&reads, instr->a);
			if (instr->op == OP_identity) /* the copy that `use` has in a forward run alone: its readers may be many */
				note_read(&reads, instr->v);
		}
	}
	for (size_t i = 0; i < body->out_count; i++)
		note_read(&reads, body->outs[i].value);
	job->once = reads.once;
	return STATUS_OK;
}

/* Bytes of what is summed to a loss, of tiles and in all: two doubles an element. */
static int64_t loss_bytes(const struct job *job)
{
	return job->tiled && job->whole.sums ? 2 * (int64_t)sizeof(double) * shape_count(&job->whole.output.shape) : 0;
}

/* The sums are saturated: job_set_costs and total find what is beyond all bounds. */
void job_fixed_bytes(const struct job *job, const struct job_options *options, int64_t *worker, int64_t *all)
{
	*all = saturated_add(options->param_bytes, loss_bytes(job) + (job->team - 1) * job->member_bytes);
	for (size_t i = 0; i < job->chain->param_count; i++) {
		const struct param *param = &job->chain->params[i];
		const struct type type = param_type(param, &job->input);
		if (param->differentiated)
			*all = saturated_add(*all, job_has_rows(job, i) ? type_bytes(&type) : job_sum_bytes(job, i));
	}
	if (options->has_cotangent)
		*all = saturated_add(*all, type_bytes(&job->whole.output));
	*worker = 0;
	if (!job->tiled)
		return;
	int64_t rows = job->tile.rows * job->per_chunk;
	*worker = rows * 2 * job->input_row + (options->want_value && !job->whole.sums ? rows * job->output_row : 0);
	/* Of many bytes there is one tile to a chunk: see choose_chunk. */
	*worker = saturated_add(*worker, saturated_add(job->partial_bytes, loss_bytes(job)) * job->per_chunk);
}

/* Whether all workers' arrays have so few BYTES together that sums of them are within int64. */
static enum status check_bytes(double bytes, struct diags *diags)
{
	if (bytes <= (double)POOL_MOST)
		return STATUS_OK;
	return diag_file(diags, STATUS_LIMIT, NULL, -1,
	                 "the chain's arrays have %.3g bytes together: no more than 2^60 can be planned", bytes);
}

bool job_rest_alone(const struct job *job)
{
	const int64_t chunk = job->tile.rows * job->per_chunk, chunks = chunk ? (job->rows + chunk - 1) / chunk : 1;
	return job->rest.rows && chunks == job->workers && job->rows - (chunks - 1) * chunk < job->tile.rows;
}

/*
 * All workers together. Chunks go round the workers, so only the worker that has the
 * last chunk meets the rest; where it has no other and the chunk is the rest
 * alone, that is all that it holds.
 */
static enum status total(struct job *job, const struct job_options *options, const struct counters *rest,
                         struct diags *diags)
{
	struct counters *c = &job->predicted;
	int64_t worker, all;
	job_fixed_bytes(job, options, &worker, &all);
	int64_t last_slab = job->tile.slab, last_stored = c->stored_bytes;
	if (job->rest.rows) {
		const bool alone = job_rest_alone(job);
		last_slab = alone || job->rest.slab > last_slab ? job->rest.slab : last_slab;
		last_stored = alone || rest->stored_bytes > last_stored ? rest->stored_bytes : last_stored;
	}
	enum status status = check_bytes((double)all + job->workers * ((double)worker + (double)last_slab), diags);
	if (status)
		return status;
	job->slabs = (job->workers - 1) * job->tile.slab + last_slab;
	c->stored_bytes = (job->workers - 1) * c->stored_bytes + last_stored;
	job->staging = c->spill_state > rest->spill_state ? c->spill_state : rest->spill_state;
	c->peak_bytes = all + job->workers * worker + job->slabs;
	/* A budget that has no room for the copy has states written while the run waits. */
	if (job->policy->kind == POLICY_budget && c->peak_bytes + job->workers * job->staging > job->policy->number)
		job->staging = 0;
	c->peak_bytes += job->workers * job->staging;
	return STATUS_OK;
}

static void set_spill_costs(struct job *job, const struct job_options *options)
{
	struct step_costs *costs = &job->costs;
	double bytes = 0;
	for (size_t i = 0; i < costs->run_count; i++)
		bytes += (double)costs->runs[i].cost.state * (double)costs->runs[i].count;
	if (!options->spill) {
		costs->spill_write = costs->spill_read = assumed_spill_cost(costs);
		return;
	}
	/* By the mean of the states, where costs are of a byte. */
	const double scale = !options->spill->by_byte ? 1 : costs->steps > 0 ? bytes / (double)costs->steps : 0;
	costs->spill_write = options->spill->write * scale;
	costs->spill_read = options->spill->read * scale;
}

/* All that a step takes, in bytes: beyond int64 where arrays are huge. */
static double step_bytes(const struct step_cost *cost)
{
	return (double)cost->state + (double)cost->residual + (double)cost->forward_temporary +
	       (double)cost->record_temporary + (double)cost->backward_temporary;
}

enum status job_set_costs(struct job *job, const struct job_options *options, struct diags *diags)
{
	int64_t worker, all;
	job_fixed_bytes(job, options, &worker, &all);
	const int64_t fixed = saturated_add(worker, all / job->workers);
	const bool in_order = job->policy->kind == POLICY_budget; /* which alone walks them */
	const struct context context = {job->allocator, job->arena, diags};
	enum status status = compiled_costs(&context, &job->tile.compiled, in_order, fixed, &job->costs);
	double bytes = (double)fixed;
	for (size_t i = 0; i < job->costs.run_count && !status; i++)
		bytes += (double)job->costs.runs[i].count * step_bytes(&job->costs.runs[i].cost);
	if (!status)
		status = check_bytes(job->workers * bytes, diags);
	if (!status)
		set_spill_costs(job, options);
	return status;
}

static enum status make_schedule(struct job *job, const struct job_options *options, struct diags *diags)
{
	job->scheduled = *job->policy;
	if (policy_by_value(job->policy)) {
		/* One step, recorded and reversed. */
		static const struct step_run one = {.count = 1};
		job->scheduled = policy_save_all;
		job->costs = (struct step_costs){.runs = &one, .run_count = 1, .steps = 1};
		return policy_schedule(&job->scheduled, &job->costs, job->allocator, &job->schedule, diags);
	}
	enum status status = job_set_costs(job, options, diags);
	if (status)
		return status;
	if (job->policy->kind == POLICY_budget)
		return job_make_budget(job, options, diags);
	return policy_schedule(&job->scheduled, &job->costs, job->allocator, &job->schedule, diags);
}

/* What --tile asks for, in the rows of tiles; 0 where it does not. */
static int64_t tile_wanted(const struct job *job, const struct job_options *options)
{
	const int64_t rows = job->input.shape.dim[0];
	if (options->tile >= rows)
		return job->rows;
	return options->tile * (job->rows / rows);
}

/* Returns the rows of a tile, and sets how many tiles a worker takes at a time, and how many workers there are. */
static int64_t choose_chunk(struct job *job, const struct job_options *options)
{
	const int64_t rows = job->rows, wanted = tile_wanted(job, options);
	const bool fixed = job->whole.sums || job->partial_bytes || tile_multiplies(job->forward.whole);
	int64_t tile = wanted && !fixed ? wanted : job->block;
	if (tile > rows)
		tile = rows;
	const int64_t chunk = wanted ? wanted : CHUNK_BYTES / (job->input_row > 0 ? job->input_row : 1);
	job->per_chunk = chunk / tile > 0 ? (chunk + tile - 1) / tile : 1;
	if (wanted && !fixed)
		job->per_chunk = 1;
	const int64_t summed = saturated_add(job->partial_bytes, loss_bytes(job));
	if (summed > 0 && job->per_chunk > PARTIAL_BYTES / summed)
		job->per_chunk = PARTIAL_BYTES / summed > 1 ? PARTIAL_BYTES / summed : 1;
	const int64_t tiles = (rows + tile - 1) / tile;
	if (job->per_chunk > tiles)
		job->per_chunk = tiles;
	const int64_t chunks = (tiles + job->per_chunk - 1) / job->per_chunk;
	job->workers = options->threads < 1 ? 1 : options->threads;
	if (job->workers > chunks)
		job->workers = (int)chunks;
	return tile;
}

static enum status choose_tiles(struct job *job, const struct job_options *options, struct diags *diags)
{
	const struct lowered *whole = &job->whole;
	job->tiled = whole->streamable && !options->whole;
	job->flat = job->tiled && whole->flat;
	job->rows = !job->tiled ? 1 : job->flat ? shape_count(&job->input.shape) : whole->whole_rows;
	if (job->rows == 0)
		job->tiled = job->flat = false;
	job->workers = 1;
	job->per_chunk = 1;
	int64_t rows = job->rows;
	if (!job->tiled)
		return make_tile(job, options, &job->tile, 0, diags);
	const struct lowered *run = &job->forward;
	const struct context context = {job->allocator, job->arena, diags};
	enum status status = lower(&context, &job->forward, job->chain, &job->whole.portion, &job->input, LOWER_RUN);
	if (status == STATUS_OK && whole->sums && run->fold == NO_VALUE) { /* what follows reads more than the sum */
		job->tiled = false;
		job->rows = 1;
		return make_tile(job, options, &job->tile, 0, diags);
	}
	if (status == STATUS_OK)
		status = find_once(job, run->whole, diags);
	if (status)
		return status;
	for (size_t i = 0; i < job->chain->param_count; i++)
		job->partial_bytes = saturated_add(job->partial_bytes, job_partial_bytes(job, i));
	job->block = tile_block_of(run, rows);
	job->input_row = row_bytes(&whole->input, rows);
	job->output_row = whole->sums ? 0 : row_bytes(&whole->output, rows);
	const int64_t tile = choose_chunk(job, options);
	status = make_tile(job, options, &job->tile, tile, diags);
	if (status == STATUS_OK && rows % tile)
		status = make_tile(job, options, &job->rest, rows % tile, diags);
	return status;
}

static const struct policy *resolve_auto(struct job *job, const struct job_options *options, struct diags *diags)
{
	if (job->policy->kind != POLICY_auto)
		return job->policy;
	struct policy *policy = arena_alloc(job->arena, sizeof *policy);
	if (!policy) {
		(void)diag_memory(diags);
		return NULL;
	}
	*policy = policy_save_all;
	int64_t bytes = options->memory ? options->memory : options->memory_available / 2;
	if (bytes) {
		policy->kind = POLICY_budget;
		policy->number = bytes;
		policy->text = arena_printf(job->arena, "budget:%lld", (long long)bytes);
	}
	return policy;
}

enum status job_prepare(struct job *job, const struct chain *chain, const struct type *input,
                        const struct job_options *options, struct arena *arena, struct diags *diags)
{
	memset(job, 0, sizeof *job);
	job->chain = chain;
	job->input = *input;
	job->policy = options->policy;
	job->store = options->store;
	job->arena = arena;
	job->allocator = options->allocator;
	const struct context context = {job->allocator, arena, diags};
	enum status status = lower(&context, &job->whole, chain, &options->portion, input, LOWER_STEPS);
	if (status)
		return status;
	job->policy = resolve_auto(job, options, diags);
	if (!job->policy)
		return STATUS_LIMIT;
	status = choose_tiles(job, options, diags);
	if (status == STATUS_OK)
		job->team = job->tiled ? 1 : compiled_team(&job->tile.compiled, options->threads, &job->member_bytes);
	return status;
}

enum status job_finish(struct job *job, const struct job_options *options, struct diags *diags)
{
	struct counters rest = {0};
	enum status status = STATUS_OK;
	if (job->rest.rows)
		status = job_predict_tile(job, options, &job->rest, 0, &rest, diags);
	return status ? status : total(job, options, &rest, diags);
}

enum status job_make(struct job *job, const struct chain *chain, const struct type *input,
                     const struct job_options *options, struct arena *arena, struct diags *diags)
{
	enum status status = job_prepare(job, chain, input, options, arena, diags);
	const bool budgeted = !status && job->policy->kind == POLICY_budget; /* whose schedule is judged */
	if (status == STATUS_OK)
		status = make_schedule(job, options, diags);
	if (status == STATUS_OK && !budgeted)
		status = job_predict_tile(job, options, &job->tile, 0, &job->predicted, diags);
	if (status == STATUS_OK)
		status = job_finish(job, options, diags);
	if (status)
		job_free(job);
	return status;
}

void job_free(struct job *job)
{
	if (job->schedule)
		schedule_free(job->schedule);
	job->schedule = NULL;
}
