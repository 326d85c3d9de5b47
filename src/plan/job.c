/*
 * How a gradient is cut into tiles.
 *
 * A streamable chain is turned back tile by tile, and a tile's arrays should
 * stay in the second-level cache. Where something is summed over the streamed
 * axis (a loss, a param's gradient) the tile is the block of that sum, and its
 * rows depend on the chain and its types alone: so the same bits come out for
 * any --tile, --threads and policy. So it is where matrices are multiplied, of
 * which a row's bits depend on the rows beside it. --tile then sets how many blocks
 * a worker takes at a time.
 */
#include "plan/job.h"

#include <math.h>
#include <string.h>

#include "plan/tile.h"

enum { CHUNK_BYTES = 256 << 10, PARTIAL_BYTES = 1 << 20 };

int64_t param_sum_bytes(const struct param *param)
{
	int64_t count = shape_count(&param->type.shape);
	return count * (int64_t)sizeof(double) * (dtype_compute(param->type.dtype) == DTYPE_F64 ? 2 : 1);
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
	struct type input = tile_input(job);
	bool by_value = policy_by_value(job->policy);
	tile->rows = rows;
	enum status status = lower(&tile->lowered, job->chain, &input, by_value ? LOWER_UNROLLED : LOWER_STEPS,
	                           job->tiled ? rows : 0, job->arena, diags);
	if (status == STATUS_OK)
		status = units_make(&tile->units, &tile->lowered, job->policy, job->arena, diags);
	if (status == STATUS_OK && options->costs)
		status = options->costs(options->costs_context, &tile->units, rows, diags);
	return status;
}

bool job_has_rows(const struct job *job, size_t i) { return job->tiled && job->whole.streamed_params[i]; }

int64_t job_partial_bytes(const struct job *job, size_t i)
{
	const struct param *param = &job->chain->params[i];
	if (!param->differentiated || job_has_rows(job, i))
		return 0;
	if (!job->once[i])
		return param_sum_bytes(param);
	return (shape_count(&param->type.shape) * (int64_t)dtype_size(dtype_compute(param->type.dtype)) + 7) / 8 * 8;
}

/* Where a forward run's body reads its params. */
struct reads {
	const struct body *body;
	int32_t levels[MAX_LOOPS]; /* of the loops that are open */
	int depth;
	bool *seen, *once; /* by param: whether there is a read, and whether none reads what was read before */
};

/* Whether REF is another part of its param in each turn of each open loop. */
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
			for (uint32_t c = 0; c < instr->carry_count; c++) {
				note_read(&reads, instr->carries[c].init); /* read in a turn, so never once */
				note_read(&reads, instr->carries[c].result);
			}
		} else if (instr->kind == INSTR_END) {
			reads.depth--;
		} else {
			note_read(&reads, instr->v);
			note_read(&reads, instr->a);
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

/* Bytes that are held whatever the schedule does: for one lane, and for all. */
static void fixed_bytes(const struct job *job, const struct job_options *options, int64_t *lane, int64_t *all)
{
	int64_t gradients = 0;
	for (size_t i = 0; i < job->chain->param_count; i++)
		if (job->chain->params[i].differentiated)
			gradients += job_has_rows(job, i) ? type_bytes(&job->chain->params[i].type)
			                                  : param_sum_bytes(&job->chain->params[i]);
	*all = options->param_bytes + gradients + loss_bytes(job) + (job->team - 1) * job->member_bytes;
	if (options->has_cotangent)
		*all += type_bytes(&job->whole.output);
	*lane = 0;
	if (!job->tiled)
		return;
	int64_t rows = job->tile.rows * job->per_chunk;
	*lane = rows * 2 * job->input_row + (options->want_value && !job->whole.sums ? rows * job->output_row : 0);
	*lane += (job->partial_bytes + loss_bytes(job)) * job->per_chunk;
}

/*
 * Long chains of one step that is run again and again. Under the policies below
 * the bytes held grow in proportion to the number of whole segments, or not at
 * all once all snapshots are in use; so three short chains of the same step, with
 * the same last segment, say what the long one holds. Where they do not lie on one
 * line, or the policy is another, the answer is no, and the machine runs the whole.
 */
enum { LONG_CHAIN = 20000, SHORT_CHAINS = 3 };

struct shortening {
	struct policy policy;  /* of the short chains */
	int64_t first, stride; /* steps of the shortest; more of each next one */
};

static bool shorten(const struct job *job, int64_t steps, struct shortening *s)
{
	*s = (struct shortening){.policy = job->scheduled};
	int64_t period = job->scheduled.number, length = job->scheduled.length > 1 ? job->scheduled.length : 1;
	switch (job->scheduled.kind) {
	case POLICY_save_all:
		s->first = s->stride = 64;
		break;
	case POLICY_sqrt:
		period = (int64_t)ceil(sqrt((double)steps));
		s->policy = (struct policy){.kind = POLICY_every, .text = "every", .number = period};
		/* fall through */
	case POLICY_every:
		s->stride = 2 * period;
		s->first = s->stride + steps % period;
		break;
	case POLICY_revolve:
		s->stride = (4 * period + 8) * length;
		s->first = s->stride + steps % length;
		break;
	default:
		return false;
	}
	int64_t last = s->first + (SHORT_CHAINS - 1) * s->stride;
	return job->scheduled.max_checkpoints == 0 && last < steps / 2 &&
	       (job->scheduled.kind == POLICY_revolve || (steps - s->first) % (s->stride / 2 > 0 ? s->stride / 2 : 1) == 0);
}

static enum status predict_short(struct job *job, const struct job_options *options, const struct tile_plan *tile,
                                 const struct shortening *s, int64_t steps, struct counters *counters,
                                 struct diags *diags)
{
	struct item item = tile->lowered.items[0];
	struct lowered lowered = tile->lowered;
	struct units units = tile->units;
	struct step_run run = job->costs.runs[0];
	struct step_costs costs = job->costs;
	struct machine_options machine = {
		.want_value = options->want_value, .store = options->store, .allocator = job->allocator};
	struct schedule *schedule;
	item.turns = item.steps = steps;
	lowered.items = &item;
	lowered.steps = costs.steps = run.count = steps;
	costs.runs = &run;
	units.lowered = &lowered;
	enum status status = policy_schedule(&s->policy, &costs, job->allocator, &schedule, diags);
	if (status)
		return status;
	status = machine_run(&units, schedule, &machine, counters, diags);
	schedule_free(schedule);
	return status;
}

/* The value at STEPS of the line through three, where they are on one. */
static bool extend(const int64_t y[SHORT_CHAINS], const struct shortening *s, int64_t steps, int64_t *value)
{
	int64_t rise = y[1] - y[0], half = s->stride / 2 > 0 ? s->stride / 2 : 1;
	if (y[2] - y[1] != rise || (rise && rise % (s->stride / half)))
		return false;
	*value = y[0] + (rise ? rise / (s->stride / half) * ((steps - s->first) / half) : 0);
	return true;
}

static enum status predict_long(struct job *job, const struct job_options *options, struct tile_plan *tile,
                                struct counters *counters, bool *known, struct diags *diags)
{
	const struct lowered *lowered = &tile->lowered;
	struct shortening s;
	struct counters c[SHORT_CHAINS];
	*known = false;
	if (policy_by_value(job->policy) || lowered->steps < LONG_CHAIN || lowered->item_count != 1 ||
	    lowered->items[0].step || lowered->items[0].count != 1 || !lowered->items[0].items[0].step ||
	    job->costs.run_count != 1 || !shorten(job, lowered->steps, &s))
		return STATUS_OK;
	int64_t steps = lowered->steps, evaluations = policy_evaluations(&job->scheduled, steps);
	for (int i = 0; i < SHORT_CHAINS; i++) {
		enum status status = predict_short(job, options, tile, &s, s.first + i * s.stride, &c[i], diags);
		if (status)
			return status;
	}
	int64_t peak[] = {c[0].peak_bytes, c[1].peak_bytes, c[2].peak_bytes};
	int64_t stored[] = {c[0].stored_bytes, c[1].stored_bytes, c[2].stored_bytes};
	int64_t held[] = {c[0].checkpoints, c[1].checkpoints, c[2].checkpoints};
	const struct linear *linear = &tile->units.units[lowered->items[0].items[0].step->id].linear;
	*counters = (struct counters){.steps = steps};
	*known = evaluations >= 0 && linear->recomputed == 0 && extend(peak, &s, steps, &counters->peak_bytes) &&
	         extend(stored, &s, steps, &counters->stored_bytes) && extend(held, &s, steps, &counters->checkpoints);
	counters->evaluations = evaluations;
	counters->forward_cost = (double)steps * linear->forward_cost;
	counters->backward_cost = (double)steps * linear->backward_cost;
	counters->recomputed_cost = (double)(evaluations - steps) * linear->forward_cost;
	return STATUS_OK;
}

/* MOST: bytes of the slab beyond which nothing else matters; 0: it does. */
static enum status predict_tile(struct job *job, const struct job_options *options, struct tile_plan *tile,
                                int64_t most, struct counters *counters, struct diags *diags)
{
	struct machine_options machine = {
		.most = most, .want_value = options->want_value, .store = options->store, .allocator = job->allocator};
	bool known;
	enum status status = predict_long(job, options, tile, counters, &known, diags);
	if (status == STATUS_OK && !known)
		status = machine_run(&tile->units, job->schedule, &machine, counters, diags);
	tile->slab = counters->peak_bytes;
	return status;
}

/*
 * All lanes together. Chunks go round the lanes, so only the lane that has the
 * last chunk meets the rest; where it has no other and the chunk is the rest
 * alone, that is all that it holds.
 */
static void total(struct job *job, const struct job_options *options, const struct counters *rest)
{
	struct counters *c = &job->predicted;
	int64_t lane, all, chunk = job->tile.rows * job->per_chunk;
	fixed_bytes(job, options, &lane, &all);
	int64_t last_slab = job->tile.slab, last_stored = c->stored_bytes;
	if (job->rest.rows) {
		int64_t chunks = (job->rows + chunk - 1) / chunk;
		bool alone = chunks == job->lanes && job->rows - (chunks - 1) * chunk < job->tile.rows;
		last_slab = alone || job->rest.slab > last_slab ? job->rest.slab : last_slab;
		last_stored = alone || rest->stored_bytes > last_stored ? rest->stored_bytes : last_stored;
	}
	job->slabs = (job->lanes - 1) * job->tile.slab + last_slab;
	c->stored_bytes = (job->lanes - 1) * c->stored_bytes + last_stored;
	job->staging = c->spill_state > rest->spill_state ? c->spill_state : rest->spill_state;
	c->peak_bytes = all + job->lanes * lane + job->slabs;
	/* A budget that has no room for the copy has states written while the run waits. */
	if (job->policy->kind == POLICY_budget && c->peak_bytes + job->lanes * job->staging > job->policy->number)
		job->staging = 0;
	c->peak_bytes += job->lanes * job->staging;
}

/*
 * A schedule for a budget. The verifier, which policies ask, knows of a lane's
 * slab only what arrays take, and takes no account of values that two states hold
 * both; what holes and copies add, and such values save, the machine says: it is
 * the judge.
 */
struct judging {
	struct job *job;
	const struct job_options *options;
};

static enum status judge_peak(void *context, const struct policy *family, struct schedule *schedule, int64_t most,
                              struct counters *counters, int64_t *peak, struct diags *diags)
{
	struct judging *judging = context;
	struct job *job = judging->job;
	const int64_t slab = most - job->costs.fixed;
	job->schedule = schedule;
	job->scheduled = *family;
	enum status status = predict_tile(job, judging->options, &job->tile, slab > 0 ? slab : 1, counters, diags);
	job->schedule = NULL;
	*peak = job->costs.fixed + counters->peak_bytes;
	return status;
}

/* Bytes of the state before STEP that are in the state after it too. */
static int64_t passing_bytes(const struct step *step)
{
	int64_t bytes = 0;
	for (uint32_t i = 0; i < step->live_in_count; i++) {
		bool passes = false, counted = false;
		for (uint32_t k = 0; k < step->live_out_count; k++)
			passes |= step->live_out[k] == step->live_in[i];
		for (size_t k = 0; k < step->body->out_count; k++)
			passes &= step->body->outs[k].kind != PORT_SLOT || step->body->outs[k].index != step->live_in[i];
		for (uint32_t k = 0; k < i; k++)
			counted |= step->class_in[k] == step->class_in[i];
		if (passes && !counted)
			bytes += type_bytes(step->in_types[i]);
	}
	return bytes;
}

/*
 * How far the truth may be below the verifier's bytes: by a state that is lent or
 * never made, by a tenth for other arrays, and by the values that states share.
 */
static void set_bounds(struct budget_judge *judge, const struct job *job)
{
	static const double unshared = 0.9;
	double share = 1;
	for (size_t i = 0; i < job->costs.run_count; i++)
		if (job->costs.runs[i].cost.state > judge->slack)
			judge->slack = job->costs.runs[i].cost.state;
	for (size_t i = 0; i < job->tile.lowered.distinct_count; i++) {
		const struct step *step = job->tile.lowered.distinct[i];
		int64_t all = 0, passing = passing_bytes(step);
		for (uint32_t k = 0; k < step->live_in_count; k++)
			all += type_bytes(step->in_types[k]);
		if (passing < all && (double)(all - passing) < share * (double)all)
			share = (double)(all - passing) / (double)all;
	}
	judge->share = share * unshared;
}

/*
 * Whether disk-revolve:SNAPSHOTS, with the copy of a state on its way to disk or
 * without, is within GOAL's bytes; none says the least bytes too, where GOAL has
 * nothing.
 */
static enum status disk_fits(struct judging *judging, struct budget_goal *goal, int64_t snapshots, bool staged,
                             struct counters *counters, bool *fits, struct diags *diags)
{
	const struct policy policy = {.kind = POLICY_disk_revolve, .number = snapshots};
	const int64_t most = snapshots == 0 ? INT64_MAX : goal->bytes; /* of none all bytes are wanted */
	struct job *job = judging->job;
	struct schedule *schedule;
	int64_t peak = 0;
	*counters = (struct counters){0};
	enum status status = policy_schedule(&policy, &job->costs, job->allocator, &schedule, diags);
	if (status == STATUS_OK)
		status = judge_peak(judging, &policy, schedule, most, counters, &peak, diags);
	schedule_free(schedule);
	*fits = peak + (staged ? counters->spill_state : 0) <= goal->bytes;
	if (snapshots == 0 && !goal->schedule && peak < goal->least)
		goal->least = peak;
	return status;
}

/* The most snapshots that fit, and what they count; -1 where none do. */
static enum status most_snapshots(struct judging *judging, struct budget_goal *goal, bool staged, int64_t *snapshots,
                                  struct counters *counters, struct diags *diags)
{
	int64_t low = -1, high = judging->job->costs.steps; /* low fits, high does not, or is of no use */
	for (int64_t s = 0; high - low > 1; s = low + (high - low) / 2) {
		struct counters tried;
		bool fits;
		enum status status = disk_fits(judging, goal, s, staged, &tried, &fits, diags);
		if (status)
			return status;
		*(fits ? &low : &high) = s;
		if (fits)
			*counters = tried;
		if (low < 0)
			break;
	}
	*snapshots = low;
	return STATUS_OK;
}

/*
 * States on disk, where that is cheaper than what GOAL has, which fits in memory
 * alone, or where it has nothing: disk-revolve with as many snapshots as there is
 * room for. The copy that is written while the run goes on comes before all of
 * them but the first.
 */
static enum status offer_disk(struct judging *judging, struct budget_goal *goal, struct diags *diags)
{
	struct job *job = judging->job;
	struct counters counters;
	int64_t snapshots;
	enum status status = most_snapshots(judging, goal, true, &snapshots, &counters, diags);
	if (status == STATUS_OK && snapshots < 1)
		status = most_snapshots(judging, goal, false, &snapshots, &counters, diags);
	if (status || snapshots < 0)
		return status;
	const double disk =
		(double)counters.spill_writes * job->costs.spill_write + (double)counters.spill_reads * job->costs.spill_read;
	if (goal->schedule && goal->counters.recomputed_cost <= counters.recomputed_cost + disk)
		return STATUS_OK;
	schedule_free(goal->schedule);
	goal->schedule = NULL;
	goal->counters = counters;
	goal->family = (struct policy){.kind = POLICY_disk_revolve, .number = snapshots};
	goal->family.text = arena_printf(job->arena, "disk-revolve:%lld", (long long)snapshots);
	if (!goal->family.text)
		return diag_memory(diags);
	return policy_schedule(&goal->family, &job->costs, job->allocator, &goal->schedule, diags);
}

/* Schedules for COUNT budgets of bytes of one lane, in memory, and on disk where that may be; the caller frees them. */
static enum status search_goals(struct judging *judging, const struct budget_judge *judge, struct budget_goal *goals,
                                size_t count, struct diags *diags)
{
	struct job *job = judging->job;
	enum status status = budget_search(&job->costs, goals, count, judge, job->allocator, diags);
	for (size_t i = 0; i < count && status == STATUS_OK && judging->options->on_disk && job->costs.steps > 1; i++)
		status = offer_disk(judging, &goals[i], diags);
	return status;
}

/* GOALS that have nothing, and room for what FOUND has, take that. */
static enum status share_goal(const struct budget_goal *found, int64_t peak, struct budget_goal *goals, size_t count,
                              struct diags *diags)
{
	for (size_t i = 0; i < count; i++) {
		if (goals[i].schedule || goals[i].bytes < peak)
			continue;
		goals[i] = (struct budget_goal){.bytes = goals[i].bytes,
		                                .schedule = schedule_copy(found->schedule),
		                                .family = found->family,
		                                .time = found->time,
		                                .counters = found->counters};
		if (!goals[i].schedule)
			return diag_memory(diags);
	}
	return STATUS_OK;
}

/*
 * A search for few bytes tries little, and the least that it names is of what it
 * tried. So GOALS that have nothing name bytes for which there is something while a
 * search for one byte less finds nothing.
 */
static enum status settle_least(struct judging *judging, const struct budget_judge *judge, struct budget_goal *goals,
                                size_t count, struct diags *diags)
{
	enum status status = STATUS_OK;
	int64_t least = INT64_MAX;
	for (size_t i = 0; i < count; i++)
		if (!goals[i].schedule && goals[i].least < least)
			least = goals[i].least;
	for (bool lower = least < INT64_MAX; lower && !status;) {
		struct budget_goal goal = {.bytes = least - 1};
		status = search_goals(judging, judge, &goal, 1, diags);
		lower = !status && goal.schedule;
		if (lower) {
			least = judging->job->costs.fixed + goal.counters.peak_bytes;
			status = share_goal(&goal, least, goals, count, diags);
		}
		schedule_free(goal.schedule);
	}
	for (size_t i = 0; i < count; i++)
		if (!goals[i].schedule)
			goals[i].least = least;
	return status;
}

/* Schedules for COUNT budgets of BYTES each, of whole jobs. */
static enum status seek_budgets(struct job *job, const struct job_options *options, struct budget_goal *goals,
                                size_t count, struct diags *diags)
{
	struct judging judging = {.job = job, .options = options};
	struct budget_judge judge = {.peak = judge_peak, .context = &judging};
	int64_t lane, all;
	fixed_bytes(job, options, &lane, &all);
	set_bounds(&judge, job);
	for (size_t i = 0; i < count; i++)
		goals[i].bytes = (goals[i].bytes - all) / job->lanes - lane + job->costs.fixed;
	enum status status = search_goals(&judging, &judge, goals, count, diags);
	if (!status)
		status = settle_least(&judging, &judge, goals, count, diags);
	for (size_t i = 0; i < count && status; i++) {
		schedule_free(goals[i].schedule);
		goals[i].schedule = NULL;
	}
	return status;
}

/* JOB, for POLICY, has what was found, if anything was. */
static void take_goal(struct job *job, const struct job_options *options, const struct policy *policy,
                      const struct budget_goal *goal)
{
	int64_t lane, all;
	fixed_bytes(job, options, &lane, &all);
	job->policy = policy;
	job->schedule = goal->schedule;
	job->scheduled = goal->family;
	job->predicted = goal->counters;
	job->tile.slab = goal->counters.peak_bytes;
	if (!goal->schedule)
		job->least_bytes = all + job->lanes * (lane + goal->least - job->costs.fixed);
}

static enum status make_budget(struct job *job, const struct job_options *options, struct diags *diags)
{
	const bool is_auto = options->policy->kind == POLICY_auto;
	struct budget_goal goal = {.bytes = job->policy->number};
	enum status status = seek_budgets(job, options, &goal, 1, diags);
	if (status)
		return status;
	take_goal(job, options, job->policy, &goal);
	if (!goal.schedule)
		return budget_infeasible(job->policy->number, job->least_bytes, is_auto ? "--memory " : "budget:", diags);
	/* Without --memory `auto` is save-all where that fits. */
	static const struct policy save_all = {.kind = POLICY_save_all, .text = "save-all"};
	if (is_auto && !options->memory && goal.family.kind == POLICY_save_all)
		job->policy = &save_all;
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

/* What the steps cost, as policies by cut see them. */
static enum status set_costs(struct job *job, const struct job_options *options, struct diags *diags)
{
	int64_t lane, all;
	fixed_bytes(job, options, &lane, &all);
	enum status status = units_costs(&job->tile.units, lane + all / job->lanes, &job->costs, job->arena, diags);
	if (!status)
		set_spill_costs(job, options);
	return status;
}

static enum status make_schedule(struct job *job, const struct job_options *options, struct diags *diags)
{
	job->scheduled = *job->policy;
	if (policy_by_value(job->policy)) {
		/* One step, recorded and turned back. */
		static const struct step_run one = {.count = 1};
		job->scheduled = (struct policy){.kind = POLICY_save_all, .text = "save-all"};
		job->costs = (struct step_costs){.runs = &one, .run_count = 1, .steps = 1};
		return policy_schedule(&job->scheduled, &job->costs, job->allocator, &job->schedule, diags);
	}
	enum status status = set_costs(job, options, diags);
	if (status)
		return status;
	if (job->policy->kind == POLICY_budget)
		return make_budget(job, options, diags);
	return policy_schedule(&job->scheduled, &job->costs, job->allocator, &job->schedule, diags);
}

static enum status choose_tiles(struct job *job, const struct job_options *options, struct diags *diags)
{
	const struct lowered *whole = &job->whole;
	job->tiled = whole->streamable && !options->whole;
	job->flat = job->tiled && whole->flat;
	job->rows = !job->tiled ? 1 : job->flat ? shape_count(&job->input.shape) : whole->whole_rows;
	if (job->rows == 0)
		job->tiled = job->flat = false;
	job->lanes = 1;
	job->per_chunk = 1;
	int64_t rows = job->rows;
	if (!job->tiled)
		return make_tile(job, options, &job->tile, 0, diags);
	struct lowered run;
	enum status status = lower(&run, job->chain, &job->input, LOWER_RUN, 0, job->arena, diags);
	if (status == STATUS_OK)
		status = find_once(job, run.whole, diags);
	if (status)
		return status;
	for (size_t i = 0; i < job->chain->param_count; i++)
		job->partial_bytes += job_partial_bytes(job, i);
	job->block = tile_block_of(&run, rows);
	job->input_row = row_bytes(&whole->input, rows);
	job->output_row = whole->sums ? 0 : row_bytes(&whole->output, rows);
	int64_t tile = job->block;
	bool fixed = whole->sums || job->partial_bytes || tile_multiplies(run.whole);
	if (options->tile && !fixed)
		tile = options->tile;
	if (tile > rows)
		tile = rows;
	int64_t chunk = options->tile ? options->tile : CHUNK_BYTES / (job->input_row > 0 ? job->input_row : 1);
	job->per_chunk = chunk / tile > 0 ? (chunk + tile - 1) / tile : 1;
	if (options->tile && !fixed)
		job->per_chunk = 1;
	const int64_t summed = job->partial_bytes + loss_bytes(job);
	if (summed > 0 && job->per_chunk > PARTIAL_BYTES / summed)
		job->per_chunk = PARTIAL_BYTES / summed > 1 ? PARTIAL_BYTES / summed : 1;
	int64_t tiles = (rows + tile - 1) / tile;
	if (job->per_chunk > tiles)
		job->per_chunk = tiles;
	int64_t chunks = (tiles + job->per_chunk - 1) / job->per_chunk;
	job->lanes = options->threads < 1 ? 1 : options->threads;
	if (job->lanes > chunks)
		job->lanes = (int)chunks;
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
	*policy = (struct policy){.kind = POLICY_save_all, .text = "save-all"};
	int64_t bytes = options->memory ? options->memory : options->memory_available / 2;
	if (bytes) {
		policy->kind = POLICY_budget;
		policy->number = bytes;
		policy->text = arena_printf(job->arena, "budget:%lld", (long long)bytes);
	}
	return policy;
}

/* All that is needed for a schedule. */
static enum status prepare(struct job *job, const struct chain *chain, const struct type *input,
                           const struct job_options *options, struct arena *arena, struct diags *diags)
{
	memset(job, 0, sizeof *job);
	job->chain = chain;
	job->input = *input;
	job->policy = options->policy;
	job->arena = arena;
	job->allocator = options->allocator;
	enum status status = lower(&job->whole, chain, input, LOWER_STEPS, 0, arena, diags);
	if (status)
		return status;
	job->policy = resolve_auto(job, options, diags);
	if (!job->policy)
		return STATUS_LIMIT;
	status = choose_tiles(job, options, diags);
	if (status == STATUS_OK)
		job->team = job->tiled ? 1 : units_team(&job->tile.units, options->threads, &job->member_bytes);
	return status;
}

/* The figures of the whole, with the schedule made and a tile's in job->predicted. */
static enum status finish(struct job *job, const struct job_options *options, struct diags *diags)
{
	struct counters rest = {0};
	enum status status = STATUS_OK;
	if (job->rest.rows)
		status = predict_tile(job, options, &job->rest, 0, &rest, diags);
	if (status == STATUS_OK)
		total(job, options, &rest);
	return status;
}

enum status job_make(struct job *job, const struct chain *chain, const struct type *input,
                     const struct job_options *options, struct arena *arena, struct diags *diags)
{
	enum status status = prepare(job, chain, input, options, arena, diags);
	const bool budgeted = !status && job->policy->kind == POLICY_budget; /* whose schedule is judged */
	if (status == STATUS_OK)
		status = make_schedule(job, options, diags);
	if (status == STATUS_OK && !budgeted)
		status = predict_tile(job, options, &job->tile, 0, &job->predicted, diags);
	return status ? status : finish(job, options, diags);
}

enum status job_make_budgets(struct job *jobs, const struct policy *const *policies, size_t count,
                             const struct chain *chain, const struct type *input, const struct job_options *options,
                             struct arena *arena, struct diags *diags)
{
	struct job_options first = *options;
	first.policy = policies[0];
	memset(jobs, 0, count * sizeof *jobs);
	struct budget_goal *goals = arena_array(arena, count, sizeof *goals);
	if (!goals)
		return diag_memory(diags);
	enum status status = prepare(&jobs[0], chain, input, &first, arena, diags);
	if (!status)
		status = set_costs(&jobs[0], &first, diags);
	for (size_t i = 0; i < count && !status; i++)
		goals[i].bytes = policies[i]->number;
	if (!status)
		status = seek_budgets(&jobs[0], &first, goals, count, diags);
	if (status)
		return status;
	for (size_t i = count; i-- > 0;) {
		jobs[i] = jobs[0];
		take_goal(&jobs[i], &first, policies[i], &goals[i]);
	}
	for (size_t i = 0; i < count && !status; i++)
		if (jobs[i].schedule)
			status = finish(&jobs[i], &first, diags);
	return status;
}

void job_free(struct job *job)
{
	if (job->schedule)
		schedule_free(job->schedule);
	job->schedule = NULL;
}

/* The report. */

static void mark_body(const struct body *body, bool *used)
{
	for (size_t i = 0; i < body->instr_count; i++) {
		const uint32_t reads[] = {body->instrs[i].v, body->instrs[i].a};
		for (size_t k = 0; k < sizeof reads / sizeof *reads; k++)
			if (reads[k] != NO_VALUE && body->values[reads[k]].from == FROM_PARAM)
				used[body->values[reads[k]].param.param] = true;
	}
}

/* Params that the backward pass reads: in derivatives, and wherever a step is recomputed. */
static enum status mark_params(const struct job *job, const struct units *units, bool *used, struct diags *diags)
{
	bool *recorded = arena_array(job->arena, units->lowered->distinct_count + 1, sizeof *recorded);
	if (!recorded)
		return diag_memory(diags);
	for (size_t i = 0; i < units->lowered->distinct_count; i++) {
		const struct linear *linear = &units->units[i].linear;
		for (size_t k = 0; k < linear->param_count; k++)
			used[linear->params[k].param] = true;
	}
	if (units->by_value)
		return STATUS_OK;
	/* Steps that run again: those of a RECORD or FORWARD after the first sweep. */
	struct action action;
	int64_t end = units->lowered->steps;
	bool swept = false;
	schedule_rewind(job->schedule);
	while (schedule_next(job->schedule, &action)) {
		bool runs = action.kind == ACT_FORWARD || action.kind == ACT_RECORD;
		for (int64_t i = action.begin; runs && swept && i < action.end; i++) {
			const struct step *step = lowered_step(units->lowered, i, NULL);
			if (!recorded[step->id])
				mark_body(step->body, used);
			recorded[step->id] = true;
		}
		swept |= runs && action.end == end;
	}
	return STATUS_OK;
}

static void add_argument(struct held *rows, size_t *count, const struct type *type, uint32_t param,
                         const char *const *used_by, size_t used_by_count)
{
	struct held *row = &rows[(*count)++];
	*row = (struct held){.type = type, .step = -1, .used_by = used_by, .used_by_count = used_by_count};
	row->origin.argument = true;
	row->origin.param = param;
}

/* Operations that use param INDEX, for the report's consumer: COUNT *NAMES. False where memory is short. */
static bool param_users(const struct job *job, uint32_t index, const char ***names, size_t *count)
{
	size_t capacity = 0;
	*names = NULL;
	*count = 0;
	for (size_t i = 0; i < job->whole.distinct_count; i++) {
		const struct body *body = job->whole.distinct[i]->body;
		for (size_t k = 0; k < body->instr_count; k++) {
			uint32_t a = body->instrs[k].a;
			if (a == NO_VALUE || body->values[a].from != FROM_PARAM || body->values[a].param.param != index)
				continue;
			const char *name = op_table[body->instrs[k].op].name;
			bool known = false;
			for (size_t n = 0; n < *count; n++)
				known |= (*names)[n] == name;
			if (known)
				continue;
			const char **grown = arena_grow(job->arena, *names, *count, &capacity, sizeof *grown);
			if (!grown)
				return false;
			*names = grown;
			grown[(*count)++] = name;
		}
	}
	return true;
}

/*
 * The name that a row goes by, or NULL, as JAX gives it to the value that is
 * kept: under a policy by value that is the named value where the policy saves it
 * for its name. In front of a cut the argument is what is kept, whatever a step
 * after it calls it. A name from within a checkpoint block is no name of what comes
 * from outside.
 */
static const struct naming *shown_name(const struct job *job, const struct origin *origin)
{
	const struct policy *policy = job->policy;
	if (policy_by_value(policy)) {
		struct policy_value value = {.op = origin->op};
		for (const struct naming *n = origin->names; n; n = n->next) {
			value.name = n->name;
			if (policy_saves(policy, &value))
				return n;
		}
		return NULL;
	}
	if (origin->argument && policy->kind != POLICY_save_all)
		return NULL;
	for (const struct naming *n = origin->names; n; n = n->next)
		if (!n->inner)
			return n;
	return NULL;
}

static enum status merge_report(const struct job *job, const struct held_list *held, const bool *used,
                                struct held_list *list, struct diags *diags)
{
	size_t params = job->chain->param_count, count = 0;
	struct held *rows = arena_array(job->arena, held->count + params + 1, sizeof *rows);
	if (!rows)
		return diag_memory(diags);
	for (int pass = 0; pass < 3; pass++) {
		/* Params as declared, the input, consts. */
		for (size_t i = 0; pass != 1 && i < params; i++) {
			const struct param *param = &job->chain->params[i];
			if (!used[i] || param->differentiated != (pass == 0))
				continue;
			struct type *type = arena_alloc(job->arena, sizeof *type);
			size_t users = 0;
			const char **names;
			if (!type || !param_users(job, (uint32_t)i, &names, &users))
				return diag_memory(diags);
			*type = param->type;
			type->dtype = dtype_compute(type->dtype);
			add_argument(rows, &count, type, (uint32_t)i, names, users);
		}
		for (size_t i = 0; pass == 1 && i < held->count; i++)
			if (held->rows[i].origin.argument && held->rows[i].origin.param == NO_VALUE)
				rows[count++] = held->rows[i];
	}
	for (size_t i = 0; i < held->count; i++)
		if (!held->rows[i].origin.argument)
			rows[count++] = held->rows[i];
	for (size_t i = 0; i < count; i++)
		rows[i].origin.shown = shown_name(job, &rows[i].origin);
	list->rows = rows;
	list->count = count;
	return STATUS_OK;
}

enum status job_residuals(const struct job *job, struct held_list *list, struct diags *diags)
{
	/* Of whole arrays: one tile. */
	struct lowered lowered;
	struct units units;
	struct held_list held = {0};
	struct counters counters;
	bool *used = arena_array(job->arena, job->chain->param_count + 1, sizeof *used);
	if (!used)
		return diag_memory(diags);
	bool by_value = policy_by_value(job->policy);
	enum status status =
		lower(&lowered, job->chain, &job->input, by_value ? LOWER_UNROLLED : LOWER_STEPS, 0, job->arena, diags);
	if (status == STATUS_OK)
		status = units_make(&units, &lowered, job->policy, job->arena, diags);
	if (status)
		return status;
	struct machine_options options = {
		.store = DTYPE_COUNT, .held = &held, .arena = job->arena, .allocator = job->allocator};
	status = machine_run(&units, job->schedule, &options, &counters, diags);
	if (status == STATUS_OK)
		status = mark_params(job, &units, used, diags);
	return status ? status : merge_report(job, &held, used, list, diags);
}
