/*
 * Joins what a gradient needs: the chain is lowered and cut into tiles, its steps are compiled for each size of tile,
 * and a schedule is made for their costs. The machine predicts the counters of a tile. Here its bytes are added up for
 * all workers.
 * Tests: tests/unit/test_tiles.c, tests/unit/test_residuals.c
 */
#include "plan/job.h"

#include "base/checked.h"
#include "base/pool.h"
#include "ir/levels.h"
#include "plan/job_parts.h"
#include "plan/short_chains.h"

/* Sets TILE's additions, before other costs than the op table's replace these. */
static enum status count_additions(struct job *job, struct tile_plan *tile)
{
	struct arena arena;
	struct step_costs costs = {0};
	arena_init(&arena, job->context.allocator);
	const struct context context = {arena.allocator, &arena, job->context.diags};
	const enum status status = compiled_costs(&context, &tile->compiled, false, 0, &costs);
	tile->additions = 0;
	for (size_t i = 0; i < costs.run_count && !status; i++)
		tile->additions += (double)costs.runs[i].count * (costs.runs[i].cost.forward + costs.runs[i].cost.backward);
	arena_free(&arena);
	return status;
}

/* Lowers TILE, of ROWS rows, for the policies by which tiles are compiled: those by value, or those of steps. */
static enum status lower_rows(struct job *job, struct tile_plan *tile, int64_t rows)
{
	struct type input = job->input;
	const bool by_value = policy_by_value(job_tile_policy(job)), whole = tiles_are_whole(&job->tiles, &job->whole);
	const enum lower_what what = by_value ? LOWER_UNROLLED : LOWER_STEPS;
	if (job->tiles.flat) {
		input.shape.ndim = 1;
		input.shape.dim[0] = job->tiles.rows;
	}
	tile->rows = rows;
	if (!whole)
		TRY(lower_tile(&job->context, &tile->lowered, &job->whole, &input, what, rows));
	else if (by_value)
		TRY(lower(&job->context, &tile->lowered, job->chain, &job->whole.portion, &input, what));
	if (by_value)
		return policy_check_bindings(&job->context, job_tile_policy(job), &tile->lowered.bindings);
	if (!whole)
		return STATUS_OK;
	tile->lowered = job->whole;
	return STATUS_OK;
}

static enum status compile_rows(struct job *job, struct tile_plan *tile)
{
	const struct policy *policy = job_tile_policy(job);
	const bool unexecuted = job->options.unexecuted || job->passes;      /* passes have programs of their own */
	const bool every = job->options.costs || job->options.every_program; /* costs may be measured */
	const unsigned uses = (unexecuted && !job->options.costs ? COMPILED_SIZES : 0) | (every ? 0 : COMPILED_CALLED) |
	                      (job->passes && !job->options.unexecuted && !every ? COMPILED_LINEAR : 0) |
	                      (job->options.want_value ? COMPILED_VALUE : 0);
	TRY(compiled_make(&job->context, &tile->compiled, &tile->lowered, policy, job->sums.written, uses));
	if (policy->kind == POLICY_budget || (job->options.unexecuted && !policy_by_value(policy)))
		TRY(count_additions(job, tile)); /* a budget may come from an unexecuted job of another policy */
	if (!job->options.costs)
		return STATUS_OK;
	return job->options.costs(job->options.costs_context, &tile->compiled, tile->rows, job->context.diags);
}

/* Bytes of the states that one tile leaves; 0 if tiles do not fold. All tiles' total has as many. */
static int64_t state_bytes(const struct job *job) { return job->tiles.state * (int64_t)sizeof(double); }

bool job_reads_cotangent(const struct job *job)
{
	const struct tiles *tiles = &job->tiles;
	const bool rows = job->passes ? job->passes->seed > 0 : !tiles->folds;
	return job->options.cotangent_rows && tiles->tiled && rows;
}

int64_t job_wave_bytes(const struct job *job)
{
	if (!tiles_wave(&job->tiles))
		return 0;
	return job->passes ? job->passes->programs.wave : job->tile.compiled.wave;
}

/* Too large sums are saturated. job_set_costs and job_finish report them. */
void job_fixed_bytes(const struct job *job, int64_t *worker, int64_t *all)
{
	const struct job_options *options = &job->options;
	*all = saturated_add(options->param_bytes, state_bytes(job) + (job->team - 1) * job->member_bytes);
	for (size_t i = 0; i < job->chain->param_count; i++)
		*all = saturated_add(*all, job_sum_bytes(job, i));
	for (size_t i = 0; i < job->chain->input_count; i++) {
		const struct type type = chain_param_type(job->chain, i, &job->input);
		const bool loaded = job->chain->params[i].arrives && !tiles_other_row(&job->tiles, &job->whole, i);
		*all = saturated_add(*all, loaded ? type_bytes(&type) : 0);
	}
	if (options->has_cotangent && !job_reads_cotangent(job))
		*all = saturated_add(*all, type_bytes(&job->whole.output));
	*worker = job_wave_bytes(job);
	if (!job->tiles.tiled)
		return;
	const struct tiles *tiles = &job->tiles;
	*worker += tiles_input_rows(tiles) * tiles->input_row + tiles->tile * tiles->per_chunk * tiles->gradient_row;
	*worker = saturated_add(*worker, options->want_value ? tiles_value_rows(tiles, true) * tiles->output_row : 0);
	*worker = saturated_add(*worker, tiles_param_bytes(tiles, &job->whole));
	*worker = saturated_add(*worker, saturated_add(tiles_other_bytes(tiles, &job->whole), job_rows_bytes(job)));
	*worker = saturated_add(*worker, tiles_message_bytes(tiles));
	*worker = saturated_add(*worker, saturated_add(job->sums.apart, state_bytes(job)) * tiles->per_chunk);
}

enum status job_check_bytes(const struct job *job, double bytes)
{
	if (bytes <= (double)POOL_MOST)
		return STATUS_OK;
	return diag_file(job->context.diags, STATUS_LIMIT, NULL, -1,
	                 "the chain's arrays have %.3g bytes together: no more than 2^60 can be planned", bytes);
}

bool job_rest_alone(const struct job *job)
{
	const struct tiles *tiles = &job->tiles;
	const int64_t chunks = tiles_chunks(tiles);
	const int64_t ranks = greater(job->options.ranks, 1);
	/* Rank 0 has the most chunks. If another rank has the last one, all of rank 0's workers have full tiles. */
	return tiles->rest && (chunks - 1) % ranks == 0 && ceil_div(chunks, ranks) == tiles->workers &&
	       tiles_rows_of(tiles, chunks - 1) < tiles->tile;
}

void job_count_rows(const struct job *job, struct counters *counters)
{
	counters->passes = greater(job->tiles.passes, 1);
	counters->halo_rows = tiles_halo(&job->tiles);
	counters->halo_share = (double)counters->halo_rows / (double)job->tiles.window;
}

enum status job_predict_tile(struct job *job, int64_t rows, int64_t most, struct counters *counters)
{
	struct machine_options options = {.rows = rows, .want_value = job->options.want_value, .store = job->options.store};
	const struct long_chain chain = {&job->scheduled, &job->costs, &job->tile.compiled, &options};
	bool known;
	TRY(short_chains_predict(&job->context, &chain, counters, &known));
	options.most = most;
	if (!known)
		TRY(machine_run(&job->context, &job->tile.compiled, job->schedule, &options, counters));
	*(rows ? &job->tile.rest_slab : &job->tile.slab) = counters->peak_bytes;
	return STATUS_OK;
}

/*
 * Only the worker of the last chunk has the rest: chunk I belongs to worker I % WORKERS. If that chunk is its only one
 * and has no other tile, the worker needs the slab of the rest alone.
 */
enum status job_finish(struct job *job)
{
	struct counters *c = &job->predicted, rest = {0};
	const int64_t workers = job->tiles.workers;
	int64_t worker, all, last_slab = job->tile.slab, last_stored = c->stored_bytes;
	job_fixed_bytes(job, &worker, &all);
	job_count_rows(job, c);
	if (job->tiles.rest) {
		TRY(job_predict_tile(job, job->tiles.rest, 0, &rest));
		const bool alone = job_rest_alone(job);
		last_slab = alone ? rest.peak_bytes : greater(rest.peak_bytes, last_slab);
		last_stored = alone ? rest.stored_bytes : greater(rest.stored_bytes, last_stored);
	}
	TRY(job_check_bytes(job, (double)all + (double)workers * ((double)worker + (double)last_slab)));
	job->slabs = (workers - 1) * job->tile.slab + last_slab;
	c->stored_bytes = (workers - 1) * c->stored_bytes + last_stored;
	job->staging = greater(c->spill_state, rest.spill_state);
	c->peak_bytes = all + workers * worker + job->slabs;
	/* If a budget is too small for all workers' copies, there is none, and a worker waits for its writes. */
	if (job->policy->kind == POLICY_budget && c->peak_bytes + workers * job->staging > job->policy->number)
		job->staging = 0;
	c->peak_bytes += workers * job->staging;
	return STATUS_OK;
}

/*
 * Adds the steps of COUNT ITEMS to *HEAD up to the first whose backward pass reads a residual or a state. Returns
 * whether there is such a step.
 */
static bool count_head(const struct compiled_chain *compiled, const struct item *items, size_t count, int64_t *head)
{
	for (const struct item *item = items; item < items + count; item++) {
		const int64_t before = *head;
		if (item->step ? compiled_step_of(compiled, item->step)->linear.residual_count > 0
		               : count_head(compiled, item->items, item->count, head))
			return true;
		*head = before + item->steps;
	}
	return false;
}

enum { HEAD_STATE = 64 << 10 /* bytes: smaller states save too little for a schedule other than the policy's own */ };

enum status job_set_costs(struct job *job)
{
	struct step_costs *costs = &job->costs;
	const struct spill_costs *spill = job->options.spill;
	const bool in_order = job->policy->kind == POLICY_budget; /* only a budget walks the costs */
	int64_t worker, all;
	job_fixed_bytes(job, &worker, &all);
	const int64_t fixed = saturated_add(worker, all / job->tiles.workers);
	TRY(compiled_costs(&job->context, &job->tile.compiled, in_order, fixed, costs));
	(void)count_head(&job->tile.compiled, job->tile.lowered.items, job->tile.lowered.item_count, &costs->head);
	if (costs->head <= costs->steps / 2 || step_costs_largest_state(costs) < HEAD_STATE)
		costs->head = 0;
	double bytes = (double)fixed, states = 0; /* huge arrays exceed int64 */
	for (size_t i = 0; i < costs->run_count; i++) {
		const struct step_cost *cost = &costs->runs[i].cost;
		const double count = (double)costs->runs[i].count;
		states += (double)cost->state * count;
		bytes += count * ((double)cost->state + (double)cost->residual + (double)cost->forward_temporary +
		                  (double)cost->record_temporary + (double)cost->backward_temporary);
	}
	TRY(job_check_bytes(job, job->tiles.workers * bytes));
	costs->spill_write = costs->spill_read = step_costs_assumed_spill(costs);
	if (spill) {
		/* Costs per byte are charged for the mean size of the states before the steps. */
		const double scale = !spill->by_byte ? 1 : costs->steps > 0 ? states / (double)costs->steps : 0;
		costs->spill_write = spill->write * scale;
		costs->spill_read = spill->read * scale;
	}
	return STATUS_OK;
}

static enum status lower_forward(const struct job *job, struct arena *arena, struct lowered *forward)
{
	const struct context context = {job->context.allocator, arena, job->context.diags};
	return lower(&context, forward, job->chain, &job->whole.portion, &job->input, LOWER_RUN);
}

bool job_keeps_whole(const struct job_options *options)
{
	return options->resumable && options->ranks <= 1 && !options->tile;
}

/* Returns the rows of a tile of FORWARD's sum over rows; 0 if the sum is not cut. */
static int64_t tile_of_sum(const struct lowered *forward, const struct tile_wants *wants)
{
	struct tiles tiles;
	tiles_cut(&tiles, forward, wants);
	return tiles.folds ? tiles.tile : 0;
}

/* Sets job->sums and, if the rows can be cut, job->tiles. A chain without params that cannot be cut needs no forward body. */
static enum status find_cut(struct job *job, bool streamable, struct arena *arena)
{
	const struct job_options *options = &job->options;
	struct lowered forward = {0};
	bool any = streamable || (job->whole.folds && !job->whole.because.reason);
	for (size_t i = 0; i < job->chain->param_count; i++)
		any |= job->chain->params[i].differentiated;
	TRY(any ? lower_forward(job, arena, &forward) : STATUS_OK);
	TRY(job_find_sums(job, forward.whole));
	struct tile_wants wants = {.rows = options->tile,
	                           .threads = options->threads,
	                           .ranks = options->ranks,
	                           .whole = options->whole_bytes,
	                           .gradient = true,
	                           .sums = job->sums.any,
	                           .value = options->want_value,
	                           .alike = !options->costs_measured,
	                           .ordered = job->sums.ordered,
	                           .apart = job->sums.apart};
	const bool other = job->whole.gradient_at.slot && job->whole.because.reason; /* the place may have other rows */
	const bool folds = !other && forward.levels && forward.levels->count > 0;
	if (streamable)
		tiles_cut(&job->tiles, &forward, &wants);
	else if (folds && !job->whole.streamable)
		return job_cut_passes(job, &forward, &wants);
	else if (folds)
		job->tiles.block = tile_of_sum(&forward, &wants);
	return STATUS_OK;
}

/* Sets *ROWS to whether tiles without windows would cut the array if a journal did not keep it whole. */
static enum status find_kept_rows(const struct job *job, struct arena *arena, bool *rows)
{
	struct job trial = *job;
	*rows = false;
	if (!job_keeps_whole(&job->options))
		return STATUS_OK;
	trial.options.resumable = false;
	TRY(find_cut(&trial, trial.whole.streamable, arena));
	*rows = trial.tiles.tiled && !trial.tiles.windows;
	return STATUS_OK;
}

/*
 * Cuts the array into tiles, or leaves it whole. The steps decide whether rows can be cut. The body of a forward pass
 * decides where, so that forward passes and gradients have the same blocks of sums. The steps' bodies cannot decide
 * that: whether a param's element is read twice depends on the loops around a step, which are outside its body. Only
 * the forward body has the fold of the tiles. A job that makes no value of that fold does not keep the body.
 */
static enum status cut_array(struct job *job)
{
	struct arena arena;
	bool kept_rows = false;
	tiles_keep_whole(&job->tiles, &job->whole);
	arena_init(&arena, job->context.allocator);
	enum status status = find_kept_rows(job, &arena, &kept_rows);
	if (!status)
		status = find_cut(job, job->whole.streamable && !job_keeps_whole(&job->options), &arena);
	arena_free(&arena);
	allocator_trim(); /* the body may be large */
	TRY(status);
	const int64_t block = job->tiles.block, sum_block = job->tiles.sum_block;
	if (!job->tiles.tiled) {
		const struct because because = job->tiles.because;
		tiles_keep_whole(&job->tiles, &job->whole);
		job->tiles.because = because;
	}
	job->tiles.sum_block = sum_block;
	if (job->whole.gradient_at.slot)
		job->tiles.gradient_row = job->tiles.tiled && !job->whole.gradient_at.streamed
		                              ? 0
		                              : type_bytes(job->whole.gradient_at.computed) / job->tiles.rows;
	job->tiles.block = block; /* so that folds have the bits of a forward run */
	job_settle_sums(job, kept_rows);
	const bool needed = job->tiles.folds && !job->passes && job->options.want_value && !job->options.unexecuted;
	return needed ? lower_forward(job, job->context.arena, &job->forward) : STATUS_OK;
}

static enum status resolve_auto(struct job *job)
{
	const struct job_options *options = &job->options;
	const int64_t bytes = options->memory ? options->memory : options->memory_available / 2;
	job->policy = options->policy;
	if (job->policy->kind != POLICY_auto)
		return STATUS_OK;
	struct policy *policy = arena_alloc(job->context.arena, sizeof *policy);
	TRY_ALLOC(policy, job->context.diags);
	*policy = policy_save_all;
	job->policy = policy;
	if (job->chain->has_conditions && options->memory)
		return job_choose_online(job, policy);
	TRY_ALLOC(!bytes || policy_make(policy, POLICY_budget, bytes, job->context.arena), job->context.diags);
	return STATUS_OK;
}

static enum status lower_tiles(struct job *job)
{
	const struct tiles *tiles = &job->tiles;
	TRY(lower_rows(job, &job->tile, tiles->tiled ? tiles->window : 0));
	if (tiles->rest)
		lowered_cut_rows(&job->tile.lowered, tiles->rest);
	return STATUS_OK;
}

/* Compiles the tiles, which are lowered. */
static enum status compile_tiles(struct job *job)
{
	const struct tiles *tiles = &job->tiles;
	TRY(compile_rows(job, &job->tile));
	const struct compiled_chain *compiled = &job->tile.compiled;
	const int64_t member = job->passes ? 0 : compiled->member;
	job->member_bytes = tiles->workers > 1 ? 0 : member;
	job->team = job->passes ? 1 : team_members(tiles_members(tiles, job->options.threads), compiled->widest, member);
	return STATUS_OK;
}

enum status job_prepare(const struct context *context, struct job *job, const struct chain *chain,
                        const struct type *input, const struct job_options *options)
{
	*job = (struct job){.context = *context, .options = *options, .chain = chain, .input = *input};
	struct portion portion = options->portion;
	portion.blocks = job_keeps_whole(options);
	TRY(lower(context, &job->whole, chain, &portion, input, LOWER_STEPS));
	TRY(resolve_auto(job));
	TRY(cut_array(job));
	TRY(lower_tiles(job));
	return compile_tiles(job);
}

static enum status plan(struct job *job)
{
	static const struct step_run one = {.count = 1};
	const struct policy *policy = job_tile_policy(job);
	const bool by_value = policy_by_value(policy); /* the whole chain is one step, recorded and run backward */
	job->scheduled = *policy;
	job->scheduled.spills = job->options.on_disk;
	if (job->policy->kind == POLICY_online && job->options.on_disk && job->options.resumable && !job->tiles.tiled)
		job->scheduled.number = 0; /* a killed run can resume from each state on disk if there are no others */
	if (job->options.disk_bytes)
		job->scheduled.disk_bytes = greater(job->options.disk_bytes / job->tiles.workers, 1);
	if (by_value)
		job->costs = (struct step_costs){.runs = &one, .run_count = 1, .steps = 1};
	else
		TRY(job_set_costs(job));
	if (policy->kind == POLICY_budget)
		return job_make_budget(job);
	job->schedule = policy_schedule(&job->scheduled, &job->costs, job->context.allocator);
	TRY_ALLOC(job->schedule, job->context.diags);
	if (job->passes)
		return job_plan_passes(job);
	if (job->options.unpredicted)
		return STATUS_OK;
	TRY(job_predict_tile(job, 0, 0, &job->predicted));
	return job_finish(job);
}

enum status job_make(const struct context *context, struct job *job, const struct chain *chain,
                     const struct type *input, const struct job_options *options)
{
	enum status status = job_prepare(context, job, chain, input, options);
	if (!status)
		status = plan(job);
	if (status)
		job_free(job);
	return status;
}

/* Sets JOB to what it has of BASE, with OPTIONS. */
static enum status begin_from(const struct context *context, struct job *job, const struct job *base,
                              const struct job_options *options)
{
	*job = (struct job){.context = *context,
	                    .options = *options,
	                    .chain = base->chain,
	                    .input = base->input,
	                    .whole = base->whole,
	                    .forward = base->forward,
	                    .tiles = base->tiles,
	                    .team = base->team,
	                    .member_bytes = base->member_bytes,
	                    .tile = base->tile,
	                    .sums = base->sums,
	                    .passes = base->passes};
	return resolve_auto(job);
}

enum status job_make_from(const struct context *context, struct job *job, const struct job *base,
                          const struct job_options *options)
{
	enum status status = begin_from(context, job, base, options);
	const bool by_value = !status && policy_by_value(job->policy);
	if (!status && by_value != policy_by_value(base->policy))
		status = lower_tiles(job);
	if (!status && (by_value || policy_by_value(base->policy)) && job->policy != base->policy)
		status = compile_tiles(job);
	if (!status)
		status = plan(job);
	if (status)
		job_free(job);
	return status;
}

enum status job_lower_region(const struct context *context, struct job *region, const struct job *base)
{
	static const struct policy nothing = {.kind = POLICY_nothing};
	struct job_options options = base->options;
	options.policy = &nothing;
	options.unexecuted = true;
	options.costs = NULL;
	TRY(begin_from(context, region, base, &options));
	return lower_tiles(region);
}

bool job_saves_nothing(const struct job *job, bool opened)
{
	struct diags ignored;
	struct job other = *job; /* lowered and cut alike */
	diags_init(&ignored, job->context.arena);
	other.context.diags = &ignored;
	other.schedule = NULL;
	other.policy = other.options.policy = &policy_save_all;
	other.options.costs = NULL; /* bytes do not depend on them, and a file's costs are those of the whole chain */
	other.options.portion.opened = opened;
	other.options.unexecuted = true;
	enum status status =
		opened ? job_prepare(&other.context, &other, job->chain, &job->input, &other.options) : lower_tiles(&other);
	if (!status && !opened)
		status = compile_tiles(&other);
	if (!status)
		status = plan(&other);
	job_free(&other);
	return !status && job->predicted.peak_bytes >= other.predicted.peak_bytes;
}

void job_free(struct job *job)
{
	schedule_free(job->schedule);
	job->schedule = NULL;
}
