/*
 * The residual report of a job: what the machine holds at the end of the first
 * sweep, of whole arrays, with the params that the backward pass reads before it,
 * in JAX's order and under JAX's names.
 */
#include "plan/job.h"

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
