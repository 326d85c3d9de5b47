/*
 * The residual report of a job: the whole arrays that the machine holds at the end of the first sweep, and the params
 * and consts that the backward pass reads. Order and names are JAX's.
 * Tests: tests/unit/test_residuals.c
 */
#include "plan/job.h"

#include <string.h>

#include "ir/reads.h"

/* The values that the backward pass needs from repeated steps. They are found from the last step to the first. */
struct reach {
	size_t slot_count;
	bool *slots;  /* by slot of the state after the current step: it is needed */
	bool *before; /* by slot of the state before the current step: it is needed */
	bool *values; /* by value of the body: it is needed */
	bool any;     /* some slot is needed */
	bool *used;   /* by param: a needed value reads it */
};

/* Goes back over STEP, of LINEAR's form. It is repeated for the needed slots and, unless KEPT, for its residuals. */
static void reach_over(struct reach *reach, const struct step *step, const struct linear *linear, bool kept)
{
	const struct body *body = linear->record, *forward = step->body;
	const size_t slots = reach->slot_count;
	memcpy(reach->before, reach->slots, slots * sizeof *reach->slots);
	memset(reach->values, 0, body->value_count * sizeof *reach->values);
	for (size_t i = 0; i < forward->out_count; i++) {
		const uint32_t slot = step_slot(step, &forward->outs[i]);
		reach->values[forward->outs[i].value] |= reach->slots[slot];
		reach->before[slot] = false;
	}
	for (size_t i = 0; i < linear->residual_count && !kept; i++)
		reach->values[linear->residuals[i].value] = true;
	for (size_t i = body->instr_count; i-- > 0;) {
		const struct instr *instr = &body->instrs[i];
		bool needed = instr->out != NO_VALUE && reach->values[instr->out];
		for (uint32_t k = 0; instr->kind == INSTR_END && k < instr->loop.carry_count; k++) /* of a fixed_point */
			reach->values[instr->loop.carries[k].result] = reach->values[instr->loop.carries[k].init] = true;
		for (int k = 0; k < MAX_KEEPS; k++)
			needed |= instr->out_keep[k] != NO_VALUE && reach->values[instr->out_keep[k]];
		for (uint32_t k = 0; k < instr_value_count(instr) && needed; k++) {
			const uint32_t value = instr_value(instr, k);
			if (value == NO_VALUE)
				continue;
			reach->values[value] = true;
			if (body->values[value].from == FROM_PARAM)
				reach->used[step_param(step, &body->values[value].param)->param] = true;
		}
	}
	for (size_t i = 0; i < body->in_count; i++)
		reach->before[step_slot(step, &body->ins[i])] |= reach->values[body->ins[i].value];
	bool *made = reach->before;
	reach->before = reach->slots;
	reach->slots = made;
	reach->any = memchr(made, true, slots) != NULL;
}

/*
 * Marks in USED the params that the backward pass reads: in derivatives, and in steps that run again. Of a repeated
 * step only the values that a derivative needs count, as JAX leaves dead operations out of a checkpointed region. A
 * region ends at the next state that is kept.
 */
static enum status mark_params(const struct job *job, const struct compiled_chain *compiled, bool *used)
{
	const struct lowered *lowered = compiled->lowered;
	struct arena *arena = job->context.arena;
	size_t most = 0;
	for (size_t i = 0; i < lowered->distinct_count; i++) {
		const struct step *step = lowered->distinct[i];
		const struct linear *linear = &compiled_step_of(compiled, step)->linear;
		most = linear->record->value_count > most ? linear->record->value_count : most;
		for (size_t k = 0; k < linear->param_count; k++)
			used[step_param(step, &linear->params[k])->param] = true;
	}
	if (compiled->by_value)
		return STATUS_OK;
	struct reach reach = {.slot_count = lowered->slot_count,
	                      .slots = arena_array(arena, lowered->slot_count + 1, sizeof *reach.slots),
	                      .before = arena_array(arena, lowered->slot_count + 1, sizeof *reach.before),
	                      .values = arena_array(arena, most + 1, sizeof *reach.values),
	                      .used = used};
	const unsigned char *held = schedule_held(job->schedule, lowered->steps, arena);
	TRY_ALLOC(reach.slots && reach.before && reach.values && held, job->context.diags);
	for (int64_t i = lowered->steps; i-- > 0;) {
		if (held[i + 1] & (HELD_STATE | HELD_ON_DISK)) {
			memset(reach.slots, 0, reach.slot_count * sizeof *reach.slots);
			reach.any = false;
		}
		const bool recorded = held[i] & HELD_RESIDUAL;
		const struct step *step = lowered_step(lowered, i, NULL);
		if (reach.any || !recorded)
			reach_over(&reach, step, &compiled_step_of(compiled, step)->linear, recorded);
	}
	return STATUS_OK;
}

/* Returns, by param, the operations that use it. NULL if out of memory. */
static const struct op_names *param_users(const struct job *job)
{
	struct op_names *users = arena_array(job->context.arena, job->chain->param_count + 1, sizeof *users);
	struct reads reads = {.depth = 0};
	struct param_read read;
	bool good = users != NULL;
	for (size_t i = 0; i < job->whole.distinct_count && good; i++) {
		const struct step *step = job->whole.distinct[i];
		for (reads_begin(&reads, step->body, &step->own); good && reads_next(&reads, &read);)
			if (read.by && !instr_use(read.by))
				good = op_names_add(job->context.arena, &users[read.ref->param], op_reading(step->body, reads.at));
	}
	return good ? users : NULL;
}

/* Returns the first name that ORIGIN got outside of blocks, placed where the value itself is made; NULL if none. */
static const struct naming *first_name(const struct job *job, const struct origin *origin)
{
	const struct naming *first = NULL;
	for (const struct naming *n = origin->names; n; n = n->next)
		if (!n->inner)
			first = n;
	struct naming *placed = first ? arena_alloc(job->context.arena, sizeof *placed) : NULL;
	if (!placed)
		return first;
	*placed = *first;
	placed->span = origin->span;
	placed->def = origin->def;
	return placed;
}

/*
 * Returns the name of a row, or NULL. As in JAX it is the name of the value that is kept. If a policy by value saves a
 * value for its name, that name counts. If it saves a value for its operation, as dots does, the row has the first name
 * that the value gets later. Policies by cut except save-all keep the argument itself, so names that later steps give
 * it do not count. A name given within a checkpoint block counts for a value from outside only if it is saved for that.
 */
static const struct naming *shown_name(const struct job *job, const struct origin *origin)
{
	const struct policy *policy = &job->scheduled;
	if (policy_by_value(policy)) {
		struct policy_value value = {.op = origin->op};
		for (const struct naming *n = origin->names; n; n = n->next) {
			value.name = n->name;
			value.index = n->index;
			if (policy_saves(policy, &value))
				return n;
		}
		return origin->argument ? NULL : first_name(job, origin);
	}
	if (origin->argument && job->policy->kind != POLICY_save_all)
		return NULL;
	for (const struct naming *n = origin->names; n; n = n->next)
		if (!n->inner)
			return n;
	return NULL;
}

static enum status merge_report(const struct job *job, const struct held_list *held, const bool *used,
                                struct held_list *list)
{
	struct diags *diags = job->context.diags;
	size_t params = job->chain->param_count, count = 0;
	struct held *rows = arena_array(job->context.arena, held->count + params + 1, sizeof *rows);
	const struct op_names *users = param_users(job);
	TRY_ALLOC(rows && users, diags);
	for (int pass = 0; pass < 3; pass++) {
		/* Params in order of declaration; inputs likewise; consts. */
		for (size_t i = 0; pass == 1 && i < held->count; i++)
			if (held->rows[i].origin.argument && held->rows[i].origin.param == NO_VALUE)
				rows[count++] = held->rows[i];
		for (size_t i = 0; i < params; i++) {
			const struct param *param = &job->chain->params[i];
			if (!used[i] || pass != (param->input ? 1 : param->differentiated ? 0 : 2))
				continue;
			struct type *type = arena_alloc(job->context.arena, sizeof *type);
			TRY_ALLOC(type, diags);
			*type = chain_param_type(job->chain, i, &job->input);
			type->dtype = dtype_is_integer(type->dtype) ? type->dtype : dtype_compute(type->dtype);
			rows[count++] = (struct held){.type = type,
			                              .bytes = type_bytes(type),
			                              .origin = {.argument = true, .param = (uint32_t)i},
			                              .step = -1,
			                              .used_by = users[i]};
		}
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

enum status job_residuals(const struct job *job, struct held_list *list)
{
	/* The report covers whole arrays: unless a tile is one in its own shape, they are compiled here. */
	const bool whole = tiles_are_whole(&job->tiles, &job->whole);
	struct lowered lowered = job->whole;
	struct compiled_chain made;
	const struct compiled_chain *compiled = whole ? &job->tile.compiled : &made;
	struct held_list held = {0};
	const struct machine_options options = {.store = job->options.store, .held = &held};
	struct counters counters;
	const struct context *context = &job->context;
	bool *used = arena_array(context->arena, job->chain->param_count + 1, sizeof *used);
	TRY_ALLOC(used, context->diags);
	if (!whole && policy_by_value(&job->scheduled))
		TRY(lower(context, &lowered, job->chain, &job->whole.portion, &job->input, LOWER_UNROLLED));
	TRY(whole ? STATUS_OK : compiled_make(context, &made, &lowered, &job->scheduled, NULL, COMPILED_SIZES));
	TRY(machine_run(context, compiled, job->schedule, &options, &counters));
	TRY(mark_params(job, compiled, used));
	return merge_report(job, &held, used, list);
}
