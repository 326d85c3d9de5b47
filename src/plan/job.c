/*
 * Joins what a gradient needs: the chain is lowered and cut into tiles, its steps are
 * compiled for each size of tile, and a schedule is made for their costs. The machine
 * then predicts the counters of a tile, and this file adds them up for all workers.
 */
#include "plan/job.h"

#include <string.h>

#include "base/checked.h"
#include "base/pool.h"
#include "plan/job_parts.h"

static struct type tile_input(const struct job *job)
{
	struct type type = job->input;
	if (job->tiles.flat) {
		type.shape.ndim = 1;
		type.shape.dim[0] = job->tiles.rows;
	}
	return type;
}

static enum status make_tile(struct job *job, const struct job_options *options, struct tile_plan *tile, int64_t rows,
                             struct diags *diags)
{
	const struct context context = {job->allocator, job->arena, diags};
	const struct type input = tile_input(job);
	const bool by_value = policy_by_value(job->policy), whole = tiles_are_whole(&job->tiles, &job->whole);
	const enum lower_what what = by_value ? LOWER_UNROLLED : LOWER_STEPS;
	enum status status = STATUS_OK;
	tile->rows = rows;
	if (whole && !by_value)
		tile->lowered = job->whole;
	else if (whole)
		status = lower(&context, &tile->lowered, job->chain, &job->whole.portion, &input, what);
	else
		status = lower_tile(&context, &tile->lowered, &job->whole, &input, what, rows);
	if (status == STATUS_OK)
		status = compiled_make(&context, &tile->compiled, &tile->lowered, job->policy);
	if (status == STATUS_OK && options->costs)
		status = options->costs(options->costs_context, &tile->compiled, rows, diags);
	return status;
}

/* Bytes of the state that a tile leaves for the output, and of all tiles' state together. */
static int64_t state_bytes(const struct job *job) { return job->tiles.state * (int64_t)sizeof(double); }

/* The sums are saturated: job_set_costs and total find what is beyond all bounds. */
void job_fixed_bytes(const struct job *job, const struct job_options *options, int64_t *worker, int64_t *all)
{
	*all = saturated_add(options->param_bytes, state_bytes(job) + (job->team - 1) * job->member_bytes);
	for (size_t i = 0; i < job->chain->param_count; i++) {
		const struct param *param = &job->chain->params[i];
		const struct type type = param_type(param, &job->input);
		if (param->differentiated)
			*all = saturated_add(*all, job_has_rows(job, i) ? type_bytes(&type) : job_sum_bytes(job, i));
	}
	if (options->has_cotangent)
		*all = saturated_add(*all, type_bytes(&job->whole.output));
	*worker = 0;
	if (!job->tiles.tiled)
		return;
	const struct tiles *tiles = &job->tiles;
	*worker = tiles->tile * tiles->per_chunk * (2 * tiles->input_row + (options->want_value ? tiles->output_row : 0));
	/* a chunk has one tile where a tile's sums have many bytes */
	*worker = saturated_add(*worker, saturated_add(job->partials.bytes, state_bytes(job)) * tiles->per_chunk);
}

/* Fails with STATUS_LIMIT if the BYTES of all workers' arrays are so many that sums could exceed int64. */
static enum status check_bytes(double bytes, struct diags *diags)
{
	if (bytes <= (double)POOL_MOST)
		return STATUS_OK;
	return diag_file(diags, STATUS_LIMIT, NULL, -1,
	                 "the chain's arrays have %.3g bytes together: no more than 2^60 can be planned", bytes);
}

bool job_rest_alone(const struct job *job)
{
	const struct tiles *tiles = &job->tiles;
	const int64_t chunks = tiles_chunks(tiles);
	return tiles->rest && chunks == tiles->workers && tiles_rows_of(tiles, chunks - 1) < tiles->tile;
}

/*
 * Adds up the counters of all workers. Chunks are dealt in turn, so only the worker of
 * the last chunk has the rest. If that chunk is its only one and has no other tile, the
 * worker needs the slab of the rest alone.
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
	TRY(check_bytes((double)all + job->tiles.workers * ((double)worker + (double)last_slab), diags));
	job->slabs = (job->tiles.workers - 1) * job->tile.slab + last_slab;
	c->stored_bytes = (job->tiles.workers - 1) * c->stored_bytes + last_stored;
	job->staging = c->spill_state > rest->spill_state ? c->spill_state : rest->spill_state;
	c->peak_bytes = all + job->tiles.workers * worker + job->slabs;
	/* If a budget is too small for the copy, the worker waits for its writes. */
	if (job->policy->kind == POLICY_budget && c->peak_bytes + job->tiles.workers * job->staging > job->policy->number)
		job->staging = 0;
	c->peak_bytes += job->tiles.workers * job->staging;
	return STATUS_OK;
}

static void set_spill_costs(struct job *job, const struct job_options *options)
{
	struct step_costs *costs = &job->costs;
	double bytes = 0;
	for (size_t i = 0; i < costs->run_count; i++)
		bytes += (double)costs->runs[i].cost.state * (double)costs->runs[i].count;
	if (!options->spill) {
		costs->spill_write = costs->spill_read = step_costs_assumed_spill(costs);
		return;
	}
	/* Costs per byte are charged for the mean size of the states. */
	const double scale = !options->spill->by_byte ? 1 : costs->steps > 0 ? bytes / (double)costs->steps : 0;
	costs->spill_write = options->spill->write * scale;
	costs->spill_read = options->spill->read * scale;
}

/* The bytes of a step; a double, since huge arrays exceed int64. */
static double step_bytes(const struct step_cost *cost)
{
	return (double)cost->state + (double)cost->residual + (double)cost->forward_temporary +
	       (double)cost->record_temporary + (double)cost->backward_temporary;
}

enum status job_set_costs(struct job *job, const struct job_options *options, struct diags *diags)
{
	int64_t worker, all;
	job_fixed_bytes(job, options, &worker, &all);
	const int64_t fixed = saturated_add(worker, all / job->tiles.workers);
	const bool in_order = job->policy->kind == POLICY_budget; /* only a budget walks the costs */
	const struct context context = {job->allocator, job->arena, diags};
	enum status status = compiled_costs(&context, &job->tile.compiled, in_order, fixed, &job->costs);
	double bytes = (double)fixed;
	for (size_t i = 0; i < job->costs.run_count && !status; i++)
		bytes += (double)job->costs.runs[i].count * step_bytes(&job->costs.runs[i].cost);
	if (!status)
		status = check_bytes(job->tiles.workers * bytes, diags);
	if (!status)
		set_spill_costs(job, options);
	return status;
}

static enum status make_schedule(struct job *job, const struct job_options *options, struct diags *diags)
{
	job->scheduled = *job->policy;
	if (policy_by_value(job->policy)) {
		/* The whole chain is one step, recorded and run backward. */
		static const struct step_run one = {.count = 1};
		job->scheduled = policy_save_all;
		job->costs = (struct step_costs){.runs = &one, .run_count = 1, .steps = 1};
		job->schedule = policy_schedule(&job->scheduled, &job->costs, job->allocator);
		return job->schedule ? STATUS_OK : diag_memory(diags);
	}
	TRY(job_set_costs(job, options, diags));
	if (job->policy->kind == POLICY_budget)
		return job_make_budget(job, options, diags);
	job->schedule = policy_schedule(&job->scheduled, &job->costs, job->allocator);
	return job->schedule ? STATUS_OK : diag_memory(diags);
}

/*
 * Cuts the array into tiles. The steps decide whether it can be cut. The body of a forward pass decides where, so that
 * forward passes and gradients have the same blocks of sums.
 */
static enum status cut(struct job *job, const struct job_options *options, struct diags *diags)
{
	if (job->whole.streamable && !options->whole) {
		const struct context context = {job->allocator, job->arena, diags};
		enum status status = lower(&context, &job->forward, job->chain, &job->whole.portion, &job->input, LOWER_RUN);
		if (status == STATUS_OK)
			status = job_find_partials(job, job->forward.whole, diags);
		if (status)
			return status;
		tiles_cut(&job->tiles, &job->forward,
		          &(struct tile_wants){.rows = options->tile,
		                               .threads = options->threads,
		                               .gradient = true,
		                               .partial_bytes = job->partials.bytes});
		if (job->tiles.tiled)
			return STATUS_OK;
	}
	job->partials.bytes = 0;
	tiles_keep_whole(&job->tiles, &job->whole);
	return STATUS_OK;
}

static enum status make_tiles(struct job *job, const struct job_options *options, struct diags *diags)
{
	const struct tiles *tiles = &job->tiles;
	enum status status = make_tile(job, options, &job->tile, tiles->tiled ? tiles->tile : 0, diags);
	if (status == STATUS_OK && tiles->rest)
		status = make_tile(job, options, &job->rest, tiles->rest, diags);
	if (status == STATUS_OK)
		job->team = tiles->tiled ? 1 : compiled_team(&job->tile.compiled, options->threads, &job->member_bytes);
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
	if (!bytes || policy_make(policy, POLICY_budget, bytes, job->arena))
		return policy;
	(void)diag_memory(diags);
	return NULL;
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
	TRY(lower(&context, &job->whole, chain, &options->portion, input, LOWER_STEPS));
	job->policy = resolve_auto(job, options, diags);
	if (!job->policy)
		return STATUS_LIMIT;
	enum status status = cut(job, options, diags);
	return status ? status : make_tiles(job, options, diags);
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
	const bool budgeted = !status && job->policy->kind == POLICY_budget; /* the search has predicted it */
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
