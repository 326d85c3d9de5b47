/*
 * Measures the time of programs. Time does not depend on values, so all arrays of numbers hold 0.5.
 * Measurements are kept, except under a policy by value, whose programs depend on the policy.
 * Tests: tests/unit/test_costs.c, tests/cases/costs.test
 */
#include "measure/costs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/system.h"
#include "evaluate/evaluate.h"
#include "evaluate/slab.h"
#include "io/spill.h"

enum { TURNS = 5 };
static const double enough = 2e8; /* nanoseconds of evaluations after which a program gets no further ones */

static double nanoseconds(void) { return 1e9 * clock_seconds(); }

static void fill_array(char *at, const struct type *type)
{
	const int64_t count = shape_count(&type->shape);
	if (dtype_bits(type->dtype))
		memset(at, 0x55, (size_t)type_bytes(type));
	else
		kernels_get(dtype_compute(type->dtype))->loops->fill(at, 0.5, (size_t)count);
}

static int64_t room(const struct type *type) { return round_up(type_bytes(type), ARRAY_ALIGN); }

struct measuring {
	const struct lowered *lowered;
	const struct bound_param *params;
	void *spare;                   /* for one param's gradient */
	const struct particulars *own; /* of the step that is measured */
	const struct allocator *allocator;
	struct team *team;
	struct external_set *programs;
	struct arena *arena;
	struct diags *diags;
};

/* Fills the ins of E that are set in FILLED, or all if that is NULL: an evaluation may overwrite them. */
static void fill_ins(const struct evaluation *e, const bool *filled)
{
	const struct body *body = e->program->body;
	for (size_t i = 0; i < body->in_count; i++)
		if (!filled || filled[i])
			fill_array((char *)(uintptr_t)e->ins[i], body->values[body->ins[i].value].type);
}

/*
 * Sets *MEDIAN to the median time of a few evaluations of E, in nanoseconds. Before each of them RECORD runs, unless it
 * is NULL, and makes the ins that are not in FILLED.
 */
static enum status time_evaluation(const struct evaluation *e, const struct evaluation *record, const bool *filled,
                                   double *median)
{
	double times[TURNS], all = 0;
	size_t iterations = 0;
	/* The first evaluation touches all memory and is not counted. */
	for (bool first = true; iterations < TURNS && (iterations == 0 || all < enough); first = false) {
		if (record) {
			fill_ins(record, NULL);
			TRY(evaluate(record));
		}
		fill_ins(e, filled);
		const double begun = nanoseconds();
		TRY(evaluate(e));
		times[iterations] = nanoseconds() - begun;
		all += first ? 0 : times[iterations];
		iterations += !first;
	}
	qsort(times, iterations, sizeof *times, compare_doubles);
	*median = times[iterations / 2];
	return STATUS_OK;
}

static int64_t port_bytes(const struct body *body)
{
	int64_t bytes = 0;
	for (size_t i = 0; i < body->in_count; i++)
		bytes += room(body->values[body->ins[i].value].type);
	for (size_t i = 0; i < body->out_count; i++)
		bytes += room(body->values[body->outs[i].value].type);
	return bytes;
}

/* Sets PLACES to arrays for COUNT PORTS, one after another from NEXT on. Returns their end. */
static char *place_ports(const struct body *body, const struct port *ports, size_t count, char *next, void **places)
{
	for (size_t i = 0; i < count; i++) {
		places[i] = next;
		next += room(body->values[ports[i].value].type);
	}
	return next;
}

/* Makes *E the evaluation of PROGRAM with its workspace at *NEXT and its arrays after that. Moves *NEXT to their end. */
static bool place_program(struct measuring *m, const struct program *program, char **next, struct evaluation *e)
{
	const struct body *body = program->body;
	void **ins = arena_array(m->arena, body->in_count + 1, sizeof *ins);
	void **outs = arena_array(m->arena, body->out_count + 1, sizeof *outs);
	int64_t *counters = arena_array(m->arena, (size_t)program->levels + 1, sizeof *counters);
	if (!ins || !outs || !counters)
		return false;
	*e = (struct evaluation){.program = program,
	                         .ins = (const void *const *)ins,
	                         .outs = outs,
	                         .params = m->params,
	                         .own = m->own,
	                         .counters = counters,
	                         .workspace = *next,
	                         .spare = m->spare,
	                         .programs = m->programs,
	                         .diags = m->diags,
	                         .team = m->team,
	                         .flat = m->lowered->flat};
	*next = place_ports(body, body->ins, body->in_count, *next + program->workspace, ins);
	*next = place_ports(body, body->outs, body->out_count, *next, outs);
	return true;
}

/* Returns where RECORD, an evaluation of LINEAR's recording body, has the residual INDEX. */
static const void *find_residual(const struct linear *linear, const struct evaluation *record, uint32_t index)
{
	const struct body *body = linear->record;
	const uint32_t value = linear->residuals[index].value;
	if (body->values[value].from == FROM_PORT)
		return record->ins[body->values[value].port];
	size_t i = 0;
	while (body->outs[i].value != value)
		i++;
	return record->outs[i];
}

/* Sets *MEDIAN to the time of FORM's backward program, on what its recording program makes: a program's records. */
static enum status time_backward(struct measuring *m, const struct compiled_step *form, double *median)
{
	const struct body *body = form->backward.body;
	const int64_t bytes = form->record.workspace + form->backward.workspace + port_bytes(form->record.body);
	bool *filled = arena_array(m->arena, body->in_count + 1, sizeof *filled);
	struct evaluation record, backward;
	struct slab slab;
	TRY_ALLOC(filled, m->diags);
	TRY(slab_get(&slab, bytes + port_bytes(body), m->allocator, m->diags));
	char *next = slab.base;
	const bool placed =
		place_program(m, &form->record, &next, &record) && place_program(m, &form->backward, &next, &backward);
	const void **ins = (const void **)(uintptr_t)(placed ? backward.ins : NULL);
	for (size_t i = 0; placed && i < body->in_count; i++) {
		filled[i] = body->ins[i].kind != PORT_RESIDUAL;
		if (!filled[i])
			ins[i] = find_residual(&form->linear, &record, body->ins[i].index);
	}
	const enum status status = placed ? time_evaluation(&backward, &record, filled, median) : diag_memory(m->diags);
	slab_put(&slab, m->allocator);
	return status;
}

/* Sets *MEDIAN to PROGRAM's time in nanoseconds, on arrays that it allocates and frees. */
static enum status time_program(struct measuring *m, const struct program *program, double *median)
{
	struct evaluation e;
	struct slab slab;
	TRY(slab_get(&slab, program->workspace + port_bytes(program->body), m->allocator, m->diags));
	char *next = slab.base;
	const enum status status =
		place_program(m, program, &next, &e) ? time_evaluation(&e, NULL, NULL, median) : diag_memory(m->diags);
	slab_put(&slab, m->allocator);
	return status;
}

/* Sets TIMES to those of FORM. Recording without the value takes what a forward execution does, if that has the value. */
static enum status time_form(struct measuring *m, const struct compiled_step *form, struct measured_times *times)
{
	const struct linear *linear = &form->linear;
	TRY(time_program(m, &form->forward, &times->forward));
	if (linear->record_skip <= linear->skipped)
		times->record = times->forward;
	else if (linear->record_cost > 0)
		TRY(time_program(m, &form->record_only, &times->record));
	return m->programs ? time_backward(m, form, &times->backward) : time_program(m, &form->backward, &times->backward);
}

/* Makes the sums that programs hold 0 again: backward calls of measurements are in them. Overwrites the made-up params. */
static enum status drop_sums(const struct measuring *m, const struct bound_param *params)
{
	const struct chain *chain = m->lowered->chain;
	for (uint32_t i = 0; m->programs && i < chain->program_count; i++)
		for (uint32_t k = 0; k < chain->programs[i].operand_count; k++)
			if (chain->programs[i].traits.sums >> k & 1)
				TRY(external_sum(m->programs, i, k, (void *)(uintptr_t)params[chain->programs[i].params[k]].data,
				                 m->diags));
	return STATUS_OK;
}

/* Allocates the chain's params in SLAB, which the caller frees. Measures all forward and backward programs. */
static enum status time_programs(struct measuring *m, struct slab *slab, const struct compiled_chain *compiled,
                                 struct measured_times *costs)
{
	const struct chain *chain = m->lowered->chain;
	struct bound_param *params = arena_array(m->arena, chain->param_count + 1, sizeof *params);
	struct measured_times *times = arena_array(m->arena, compiled->form_count + 1, sizeof *times); /* by form */
	int64_t bytes = 0, most = 0;
	TRY_ALLOC(params && times, m->diags);
	for (size_t i = 0; i < chain->param_count; i++) {
		const struct type type = chain_param_type(chain, i, &m->lowered->input);
		params[i].shape = &chain->params[i].type->shape;
		params[i].dtype = dtype_compute(type.dtype);
		bytes = saturated_add(bytes, room(&type));
		most = greater(most, room(&type));
	}
	bytes = saturated_add(bytes, most);
	TRY(slab_get(slab, bytes, m->allocator, m->diags));
	m->spare = slab->base;
	char *next = slab->base + most;
	for (size_t i = 0; i < chain->param_count; i++) {
		const struct type type = bound_type(&params[i]);
		fill_array(next, &type);
		params[i].data = next;
		next += room(&type);
	}
	m->params = params;
	for (size_t i = 0, done = 0; i < compiled->lowered->distinct_count; i++) {
		const uint32_t form = compiled->form_of[i]; /* forms are numbered in the order of their first steps */
		if (form == done) {
			m->own = &compiled->lowered->distinct[i]->own;
			TRY(time_form(m, &compiled->forms[form], &times[form]));
			done++;
		}
		costs[i] = times[form];
	}
	return drop_sums(m, params);
}

static enum status measure(struct costs_source *source, const struct compiled_chain *compiled, int64_t rows,
                           struct measured_times *costs, struct diags *diags)
{
	struct arena arena;
	struct slab slab = {0};
	arena_init(&arena, source->allocator);
	struct measuring m = {.lowered = compiled->lowered,
	                      .allocator = source->allocator,
	                      .programs = source->programs,
	                      .arena = &arena,
	                      .diags = diags};
	const int64_t each = rows ? 0 : compiled->member;
	const int members = rows ? 1 : team_members(source->threads, compiled->widest, each);
	enum status status = blas_load(compiled->libraries, source->threads, diags);
	if (!status)
		status = team_open(&m.team, members, each, source->allocator, diags);
	if (!status)
		status = time_programs(&m, &slab, compiled, costs);
	team_close(m.team);
	slab_put(&slab, source->allocator);
	arena_free(&arena);
	if (source->programs)
		external_forget(source->programs); /* the params that they have are made up */
	return status;
}

/* Finds or makes measurements. Unless the policy is by value, the input's type and ROWS determine compiled steps. */
static enum status find_measured(struct costs_source *source, const struct compiled_chain *compiled, int64_t rows,
                                 struct measured_times **costs, struct diags *diags)
{
	const struct type *input = &compiled->lowered->input;
	for (struct measured_costs *m = source->measured; m && !compiled->by_value; m = m->next)
		if (m->rows == rows && type_equal(&m->input, input)) {
			*costs = m->compiled;
			return STATUS_OK;
		}
	struct measured_costs *made = arena_alloc(source->arena, sizeof *made);
	*costs = arena_array(source->arena, compiled->lowered->distinct_count + 1, sizeof **costs);
	TRY_ALLOC(made && *costs, diags);
	*made = (struct measured_costs){.input = *input,
	                                .rows = rows,
	                                .compiled = *costs,
	                                .count = compiled->lowered->distinct_count,
	                                .next = source->measured};
	const bool kept = source->kept.count == compiled->lowered->distinct_count && rows == 0 && !compiled->by_value;
	enum status status = kept ? STATUS_OK : measure(source, compiled, rows, *costs, diags);
	if (kept && source->kept.count)
		memcpy(*costs, source->kept.steps, source->kept.count * sizeof **costs);
	if (!status && !compiled->by_value)
		source->measured = made;
	return status;
}

void costs_keep(void *context, struct journal_costs *costs)
{
	const struct costs_source *source = context;
	const struct measured_costs *last = source->measured;
	if (last)
		*costs = (struct journal_costs){last->compiled, last->count, source->spill.write, source->spill.read};
}

static enum status time_disk(struct costs_source *source, struct spill *spill, struct slab *slab, const char *directory,
                             struct diags *diags)
{
	enum { BYTES = 32 << 20 };
	TRY(spill_check_room(directory, BYTES, diags));
	TRY(spill_open(spill, 0, source->allocator, diags));
	TRY(spill_create(spill, directory, diags));
	TRY(slab_get(slab, BYTES, source->allocator, diags));
	memset(slab->base, 0x5a, BYTES);
	struct spill_piece piece = {slab->base, BYTES};
	const struct spill_pieces pieces = {.items = &piece, .count = 1};
	const double begun = nanoseconds();
	TRY(spill_write_at_once(spill, 0, &pieces, diags));
	if (fdatasync(spill->fd))
		return diag_file(diags, STATUS_IO, directory, -1, "cannot write the spill file: %s", strerror(errno));
	const double written = nanoseconds();
	TRY(spill_read(spill, 0, &pieces, diags));
	source->spill = (struct spill_costs){(written - begun) / BYTES, (nanoseconds() - written) / BYTES, true};
	source->spill_known = true;
	return STATUS_OK;
}

enum status costs_measure_disk(struct costs_source *source, const char *directory, struct diags *diags)
{
	struct spill spill = {.fd = -1, .allocator = source->allocator};
	struct slab slab = {0};
	if (source->kept.count) {
		source->spill = (struct spill_costs){source->kept.write, source->kept.read, true};
		source->spill_known = true;
		return STATUS_OK;
	}
	const enum status status = time_disk(source, &spill, &slab, directory, diags);
	slab_put(&slab, source->allocator);
	spill_close(&spill);
	return status;
}

/* Returns PART of WHOLE; 0 if that is 0. */
static double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

/* Returns the part of a forward execution's cost that a recording of LINEAR without the value takes. */
static double record_share(const struct linear *linear)
{
	return linear->record_skip <= linear->skipped ? 1 : share(linear->record_cost, linear->forward_cost);
}

/* Sets COSTS, of COMPILED's one step, to the sums of the costs of the steps in the file. */
static void sum_costs(const struct step_costs *given, const struct compiled_chain *compiled,
                      struct measured_times *costs)
{
	for (size_t r = 0; r < given->run_count; r++) {
		costs->forward += given->runs[r].cost.forward * (double)given->runs[r].count;
		costs->backward += given->runs[r].cost.backward * (double)given->runs[r].count;
	}
	costs->record = costs->forward * record_share(&compiled->forms[0].linear);
}

/* Sets a compiled step's costs to the mean of its steps' costs in the file; under a policy by value, to their sum. */
static enum status read_costs(const struct costs_source *source, const struct compiled_chain *compiled,
                              struct measured_times *costs, struct diags *diags)
{
	const struct step_costs *given = &source->spec->costs;
	const struct lowered *lowered = compiled->lowered;
	double *steps = arena_array(source->arena, lowered->distinct_count + 1, sizeof *steps);
	TRY_ALLOC(steps && costs, diags);
	if (compiled->by_value) {
		sum_costs(given, compiled, costs);
		return STATUS_OK;
	}
	int64_t step = 0;
	for (size_t r = 0; r < given->run_count; r++) {
		const struct step_cost *cost = &given->runs[r].cost;
		for (int64_t i = 0; i < given->runs[r].count; i++, step++) {
			const struct step *of = lowered_step(lowered, step, NULL);
			const double records = source->spec->records[r] ? 1 : record_share(&compiled_step_of(compiled, of)->linear);
			costs[of->id].forward += cost->forward;
			costs[of->id].record += records * cost->record;
			costs[of->id].backward += cost->backward;
			steps[of->id]++;
		}
	}
	for (size_t i = 0; i < lowered->distinct_count; i++) {
		costs[i].forward = share(costs[i].forward, steps[i]);
		costs[i].record = share(costs[i].record, steps[i]);
		costs[i].backward = share(costs[i].backward, steps[i]);
	}
	return STATUS_OK;
}

enum status costs_of(void *context, struct compiled_chain *compiled, int64_t rows, struct diags *diags)
{
	struct costs_source *source = context;
	const bool given = source->spec;
	const size_t count = compiled->lowered->distinct_count;
	struct measured_times *costs = NULL;
	if (given && source->spec->costs.steps != compiled->lowered->steps)
		return diag_file(diags, STATUS_DATA, source->name, -1, "has costs of %lld steps, and the chain has %lld",
		                 (long long)source->spec->costs.steps, (long long)compiled->lowered->steps);
	if (given)
		costs = arena_array(source->arena, count + 1, sizeof *costs);
	TRY(given ? read_costs(source, compiled, costs, diags) : find_measured(source, compiled, rows, &costs, diags));
	for (size_t i = 0; i < count; i++) {
		const struct linear *linear = &compiled->forms[compiled->form_of[i]].linear;
		struct step_times *times = &compiled->times[i];
		/* A file's backward cost excludes what blocks recompute, which costs its share of the forward cost. */
		const double all = given ? linear->forward_cost : linear->recompute_cost + linear->backward_cost;
		const double again = share(linear->recompute_cost, all);
		times->recompute = again * (given ? costs[i].forward : costs[i].backward);
		times->backward = given ? costs[i].backward : (1 - again) * costs[i].backward;
		times->forward = costs[i].forward;
		times->record = costs[i].record;
		times->once = costs[i].forward * share(linear->once_cost, linear->forward_cost);
	}
	return STATUS_OK;
}
