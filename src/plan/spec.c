/*
 * Reads a chain's costs from JSON.
 *
 * Invariant: a size is from 0 to 2^53, and a cost from 0 to 10^15. The bytes of all steps together are at most 2^62,
 * where states and residuals count twice. So no sum of the search or of the cost walk overflows.
 * Tests: tests/cases/spec.test
 */
#include "plan/spec.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/suggest.h"
#include "budget/budget.h"
#include "io/json.h"
#include "memory/cost_walk.h"
#include "plan/short_chains.h"

#define BYTES_MOST 9007199254740992.0 /* 2^53: JSON's numbers are exact up to here */
#define COST_MOST 1e15
#define STEPS_MOST 10000000
#define SUM_MOST ((int64_t)1 << 62)

struct reading {
	struct json_text text;
	struct spec *spec;
	struct arena *arena;
	struct diags *diags;
	const struct json_path *object; /* the current object: an element of "steps"; NULL: the whole text */
};

enum field_kind { VALUE_BYTES, VALUE_COST, VALUE_COUNT, VALUE_FLAG, VALUE_TEXT, VALUE_STEPS };

struct field {
	const char *key;
	enum field_kind kind;
	bool required;
	void *to;
};

/* By enum field_kind: what messages say that the value must be, after its key and "is". */
static const char *const wanted[] = {[VALUE_BYTES] = "a number of bytes: whole, from 0 to 2^53",
                                     [VALUE_COST] = "a cost: a number from 0 to 10^15",
                                     [VALUE_COUNT] = "a whole number of at least 1",
                                     [VALUE_FLAG] = "true or false",
                                     [VALUE_TEXT] = "a string",
                                     [VALUE_STEPS] = "a list of at least one step"};

/* Writes VALUE to *FIELD->to. False if VALUE is not as WANTED says; then *FIELD->to may be anything. */
static bool take_value(const struct reading *r, const struct field *field, json_t *value)
{
	const double number = json_number_value(value);
	switch (field->kind) {
	case VALUE_BYTES:
		if (!json_is_number(value) || !(number >= 0 && number <= BYTES_MOST) || floor(number) < number ||
		    (json_is_integer(value) && json_integer_value(value) > (json_int_t)BYTES_MOST))
			return false;
		*(int64_t *)field->to = (int64_t)number;
		return true;
	case VALUE_COST:
		*(double *)field->to = number;
		return json_is_number(value) && number >= 0 && number <= COST_MOST;
	case VALUE_COUNT:
		*(int64_t *)field->to = json_integer_value(value);
		return json_is_integer(value) && json_integer_value(value) >= 1;
	case VALUE_FLAG:
		*(bool *)field->to = json_is_true(value);
		return json_is_boolean(value);
	case VALUE_TEXT:
		if (json_is_string(value))
			*(const char **)field->to = arena_strndup(r->arena, json_string_value(value), json_string_length(value));
		return json_is_string(value);
	case VALUE_STEPS:
		*(json_t **)field->to = value;
		return json_is_array(value) && json_array_size(value) > 0;
	}
	return false;
}

static enum status unknown_key(const struct reading *r, const char *key, const struct field *fields, size_t count)
{
	const char *names[16], *list = "";
	const struct json_path path = {r->object, key, 0};
	for (size_t i = 0; i < count; i++) {
		names[i] = fields[i].key;
		const char *longer = arena_printf(r->arena, "%s%s%s", list, i ? ", " : "", names[i]);
		list = longer ? longer : list;
	}
	const char *near = suggest_nearest(key, names, count);
	enum status status = json_wrong(&r->text, &path, STATUS_DATA, "unknown key '%.60s'", key);
	if (near)
		diag_hint(r->diags, "did you mean '%s'?", near);
	else
		diag_hint(r->diags, "keys are %s", list);
	return status;
}

static enum status read_object(const struct reading *r, json_t *object, const struct field *fields, size_t count)
{
	if (!json_is_object(object))
		return json_wrong(&r->text, r->object, STATUS_DATA, "an object { ... } is wanted here");
	const char *key;
	json_t *value;
	json_object_foreach(object, key, value)
	{
		size_t i = 0;
		while (i < count && strcmp(fields[i].key, key) != 0)
			i++;
		if (i == count)
			return unknown_key(r, key, fields, count);
		if (!take_value(r, &fields[i], value))
			return json_wrong(&r->text, &(struct json_path){.parent = r->object, .key = key}, STATUS_DATA, "'%s' is %s",
			                  key, wanted[fields[i].kind]);
		TRY_ALLOC(!r->arena->failed, r->diags);
	}
	for (size_t i = 0; i < count; i++)
		if (fields[i].required && !json_object_get(object, fields[i].key))
			return json_wrong(&r->text, r->object, STATUS_DATA, "the key '%s' is missing", fields[i].key);
	return STATUS_OK;
}

/* *RECORDS: the cost of recording without the value was given. */
static enum status read_step(const struct reading *r, json_t *object, struct step_run *run, const char **name,
                             bool *records)
{
	struct step_cost *c = &run->cost;
	*run = (struct step_run){.count = 1, .cost.keeps_input = true};
	const struct field fields[] = {{"name", VALUE_TEXT, false, name},
	                               {"count", VALUE_COUNT, false, &run->count},
	                               {"state_bytes", VALUE_BYTES, true, &c->state},
	                               {"residual_bytes", VALUE_BYTES, true, &c->residual},
	                               {"forward", VALUE_COST, true, &c->forward},
	                               {"backward", VALUE_COST, true, &c->backward},
	                               {"record", VALUE_COST, false, &c->record},
	                               {"forward_temporary_bytes", VALUE_BYTES, false, &c->forward_temporary},
	                               {"record_temporary_bytes", VALUE_BYTES, false, &c->record_temporary},
	                               {"backward_temporary_bytes", VALUE_BYTES, false, &c->backward_temporary},
	                               {"keeps_input", VALUE_FLAG, false, &c->keeps_input},
	                               {"keeps_output", VALUE_FLAG, false, &c->keeps_output}};
	TRY(read_object(r, object, fields, sizeof fields / sizeof *fields));
	/* Unless the text says otherwise, a recording step needs as much workspace as a forward one. */
	if (!json_object_get(object, "record_temporary_bytes"))
		c->record_temporary = c->forward_temporary;
	*records = json_object_get(object, "record");
	if (!*records)
		c->record = c->forward;
	return STATUS_OK;
}

enum run_fit { RUN_FITS, RUN_TOO_LONG, RUN_TOO_LARGE };
#define TOO_LONG "more than the limit of %d steps"
#define TOO_LARGE "all steps together take more than the limit of 2^62 bytes"

/* Counts the steps and bytes of RUN into SPEC's steps and *SUM, and tells whether they exceed a limit. */
static enum run_fit count_run(struct spec *spec, const struct step_run *run, __int128 *sum)
{
	const struct step_cost *c = &run->cost;
	/* Twice the states and residuals: a sum may count a state beside the residuals that hold it. */
	*sum += (__int128)run->count * 2 * (c->state + c->residual) + c->forward_temporary + c->record_temporary +
	        c->backward_temporary;
	if (run->count > STEPS_MOST || (spec->costs.steps += run->count) > STEPS_MOST)
		return RUN_TOO_LONG;
	return *sum > SUM_MOST ? RUN_TOO_LARGE : RUN_FITS;
}

static enum status read_steps(struct reading *r, json_t *steps)
{
	const struct json_path list = {NULL, "steps", 0};
	struct spec *spec = r->spec;
	size_t count = json_array_size(steps);
	struct step_run *runs = arena_array(r->arena, count, sizeof *runs);
	bool *records = arena_array(r->arena, count, sizeof *records);
	spec->names = arena_array(r->arena, count, sizeof *spec->names);
	TRY_ALLOC(runs && records && spec->names, r->diags);
	__int128 sum = (__int128)spec->costs.fixed + spec->costs.output;
	for (size_t i = 0; i < count; i++) {
		const struct json_path step = {&list, NULL, i}, count_path = {&step, "count", 0};
		r->object = &step;
		TRY(read_step(r, json_array_get(steps, i), &runs[i], &spec->names[i], &records[i]));
		const enum run_fit fit = count_run(spec, &runs[i], &sum);
		if (fit == RUN_TOO_LONG)
			return json_wrong(&r->text, &count_path, STATUS_LIMIT, TOO_LONG, STEPS_MOST);
		if (fit == RUN_TOO_LARGE)
			return json_wrong(&r->text, r->object, STATUS_LIMIT, TOO_LARGE);
	}
	r->object = NULL;
	spec->costs.runs = runs;
	spec->records = records;
	spec->costs.run_count = count;
	return STATUS_OK;
}

static enum status read_unit(const struct reading *r, const char *unit)
{
	static const struct {
		const char *name;
		double milliseconds;
	} units[] = {{"s", 1000}, {"ms", 1}, {"us", 1e-3}, {"ns", 1e-6}, {"none", 0}};
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (!strcmp(units[i].name, unit)) {
			r->spec->unit = units[i].name;
			r->spec->milliseconds = units[i].milliseconds;
			return STATUS_OK;
		}
	return json_wrong(&r->text, &(struct json_path){.key = "time_unit"}, STATUS_DATA,
	                  "'time_unit' is \"s\", \"ms\", \"us\", \"ns\" or \"none\", not \"%.40s\"", unit);
}

/* Sets the costs that a spec does not give: OUTPUT, SPILL_WRITE and SPILL_READ say which. */
static void set_defaults(struct step_costs *costs, bool output, bool spill_write, bool spill_read)
{
	if (output)
		costs->output = costs->runs[costs->run_count - 1].cost.state;
	if (spill_write)
		costs->spill_write = step_costs_assumed_spill(costs);
	if (spill_read)
		costs->spill_read = step_costs_assumed_spill(costs);
}

static enum status read_top(struct reading *r, json_t *top)
{
	struct spec *spec = r->spec;
	json_t *steps = NULL;
	const char *unit = "ms", *note;
	const struct field fields[] = {{"name", VALUE_TEXT, false, &spec->name},
	                               {"note", VALUE_TEXT, false, &note},
	                               {"time_unit", VALUE_TEXT, false, &unit},
	                               {"fixed_bytes", VALUE_BYTES, false, &spec->costs.fixed},
	                               {"output_bytes", VALUE_BYTES, false, &spec->costs.output},
	                               {"spill_write", VALUE_COST, false, &spec->costs.spill_write},
	                               {"spill_read", VALUE_COST, false, &spec->costs.spill_read},
	                               {"steps", VALUE_STEPS, true, &steps}};
	TRY(read_object(r, top, fields, sizeof fields / sizeof *fields));
	TRY(read_unit(r, unit));
	TRY(read_steps(r, steps));
	set_defaults(&spec->costs, !json_object_get(top, "output_bytes"), !json_object_get(top, "spill_write"),
	             !json_object_get(top, "spill_read"));
	return STATUS_OK;
}

enum status spec_read(struct spec *spec, const struct source *source, struct arena *arena, struct diags *diags)
{
	const struct context context = {arena->allocator, arena, diags};
	struct reading r = {.spec = spec, .arena = arena, .diags = diags};
	*spec = (struct spec){0};
	enum status status = json_open(&r.text, source, -1, &context);
	if (!status)
		status = read_top(&r, r.text.top);
	json_close(&r.text);
	return status;
}

void spec_write(const struct text *text, const struct step_costs *costs, const char *unit)
{
	text_printf(text, "{\"time_unit\": \"%s\", \"fixed_bytes\": %lld, \"output_bytes\": %lld,\n", unit,
	            (long long)costs->fixed, (long long)costs->output);
	text_printf(text, " \"spill_write\": %.17g, \"spill_read\": %.17g, \"steps\": [", costs->spill_write,
	            costs->spill_read);
	for (size_t i = 0; i < costs->run_count; i++) {
		const struct step_cost *c = &costs->runs[i].cost;
		text_printf(text, "%s\n {\"count\": %lld, \"forward\": %.17g, \"record\": %.17g, \"backward\": %.17g, ",
		            i ? "," : "", (long long)costs->runs[i].count, c->forward, c->record, c->backward);
		text_printf(text, "\"state_bytes\": %lld, \"residual_bytes\": %lld, ", (long long)c->state,
		            (long long)c->residual);
		text_printf(text, "\"forward_temporary_bytes\": %lld, \"record_temporary_bytes\": %lld, ",
		            (long long)c->forward_temporary, (long long)c->record_temporary);
		text_printf(text, "\"backward_temporary_bytes\": %lld, \"keeps_input\": %s, \"keeps_output\": %s}",
		            (long long)c->backward_temporary, c->keeps_input ? "true" : "false",
		            c->keeps_output ? "true" : "false");
	}
	text_printf(text, "]}\n");
}

static bool is_bytes(int64_t bytes) { return bytes >= 0 && bytes <= (int64_t)BYTES_MOST; }
static bool is_cost(double cost) { return cost >= 0 && cost <= COST_MOST; }

/* Returns the kind of value that a field of RUN should have and has not, in *FIELD its key; VALUE_FLAG if all is right. */
static enum field_kind wrong_field(const struct step_run *run, const char **field)
{
	const struct step_cost *c = &run->cost;
	const struct {
		const char *key;
		enum field_kind kind;
		bool right;
	} fields[] = {{"count", VALUE_COUNT, run->count >= 1},
	              {"forward", VALUE_COST, is_cost(c->forward)},
	              {"backward", VALUE_COST, is_cost(c->backward)},
	              {"record", VALUE_COST, is_cost(c->record)},
	              {"state_bytes", VALUE_BYTES, is_bytes(c->state)},
	              {"residual_bytes", VALUE_BYTES, is_bytes(c->residual)},
	              {"forward_temporary_bytes", VALUE_BYTES, is_bytes(c->forward_temporary)},
	              {"record_temporary_bytes", VALUE_BYTES, is_bytes(c->record_temporary)},
	              {"backward_temporary_bytes", VALUE_BYTES, is_bytes(c->backward_temporary)}};
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		if (!fields[i].right) {
			*field = fields[i].key;
			return fields[i].kind;
		}
	return VALUE_FLAG;
}

static enum status check_totals(const struct step_costs *costs, struct diags *diags)
{
	const bool bytes = is_bytes(costs->fixed) && (costs->output == -1 || is_bytes(costs->output));
	const bool write = costs->spill_write == -1 || is_cost(costs->spill_write);
	const bool read = costs->spill_read == -1 || is_cost(costs->spill_read);
	if (!costs->run_count)
		return diag_file(diags, STATUS_DATA, NULL, -1, "'steps' is %s", wanted[VALUE_STEPS]);
	if (!bytes)
		return diag_file(diags, STATUS_DATA, NULL, -1, "'%s' is %s",
		                 is_bytes(costs->fixed) ? "output_bytes" : "fixed_bytes", wanted[VALUE_BYTES]);
	if (!write || !read)
		return diag_file(diags, STATUS_DATA, NULL, -1, "'%s' is %s", write ? "spill_read" : "spill_write",
		                 wanted[VALUE_COST]);
	return STATUS_OK;
}

enum status spec_make(struct spec *spec, const struct step_costs *costs, struct arena *arena, struct diags *diags)
{
	*spec = (struct spec){.costs = *costs};
	TRY(check_totals(costs, diags));
	struct step_run *runs = arena_array(arena, costs->run_count, sizeof *runs);
	spec->names = arena_array(arena, costs->run_count, sizeof *spec->names);
	TRY_ALLOC(runs && spec->names, diags);
	memcpy(runs, costs->runs, costs->run_count * sizeof *runs);
	spec->costs.runs = runs;
	spec->costs.steps = 0;
	__int128 sum = (__int128)costs->fixed + greater(costs->output, 0);
	for (size_t i = 0; i < costs->run_count; i++) {
		const char *key = NULL;
		const enum field_kind kind = wrong_field(&runs[i], &key);
		if (key)
			return diag_file(diags, STATUS_DATA, NULL, -1, "steps[%zu]: '%s' is %s", i, key, wanted[kind]);
		const enum run_fit fit = count_run(spec, &runs[i], &sum);
		if (fit == RUN_TOO_LONG)
			return diag_file(diags, STATUS_LIMIT, NULL, -1, "steps[%zu]: " TOO_LONG, i, STEPS_MOST);
		if (fit == RUN_TOO_LARGE)
			return diag_file(diags, STATUS_LIMIT, NULL, -1, "steps[%zu]: " TOO_LARGE, i);
	}
	set_defaults(&spec->costs, costs->output < 0, costs->spill_write < 0, costs->spill_read < 0);
	return STATUS_OK;
}

enum status spec_policy(const struct context *context, const struct spec *spec, int64_t memory, struct policy *policy)
{
	policy->disk_bytes = spec->disk_bytes;
	policy->spills = spec->on_disk;
	if (policy_by_value(policy)) {
		diag_file(context->diags, STATUS_USAGE, NULL, -1,
		          "policy '%s' chooses among values within steps, which steps of given costs have not", policy->text);
		return diag_hint(context->diags,
		                 "use every:N, sqrt, recursive, revolve:S, budget:BYTES, disk-revolve:S or online:S");
	}
	if (policy->kind != POLICY_auto)
		return STATUS_OK;
	/* The chain runs elsewhere: the memory of this machine does not limit it. */
	if (!memory)
		policy->kind = POLICY_save_all;
	policy->number = memory;
	policy->text = memory ? arena_printf(context->arena, "budget:%lld", (long long)memory) : "save-all";
	return policy->text ? STATUS_OK : diag_memory(context->diags);
}

unsigned char *spec_held(const struct spec *spec, struct schedule *schedule, struct arena *arena)
{
	unsigned char *flags = schedule_held(schedule, spec->costs.steps, arena);
	bool in_residual = false; /* the residuals of the step before hold the state */
	int64_t at = 0;
	for (size_t run = 0; flags && run < spec->costs.run_count; run++) {
		const struct step_cost *c = &spec->costs.runs[run].cost;
		for (int64_t i = 0; i < spec->costs.runs[run].count; i++, at++) {
			bool recorded = flags[at] & HELD_RESIDUAL;
			if (recorded && c->keeps_input)
				flags[at] |= HELD_STATE;
			if (in_residual)
				flags[at] &= (unsigned char)~HELD_STATE;
			in_residual = recorded && c->keeps_output;
		}
	}
	return flags;
}

static struct disk_offer offer_of(const struct spec *spec)
{
	return (struct disk_offer){.costs = &spec->costs, .disk_bytes = spec->disk_bytes, .limited = spec->disk_bytes > 0};
}

enum status spec_budgets(const struct context *context, const struct spec *spec, struct budget_goal *goals,
                         size_t count)
{
	const struct disk_offer offer = offer_of(spec);
	enum status status = budget_search(context, &spec->costs, NULL, goals, count);
	for (size_t i = 0; i < count && spec->on_disk && !status; i++)
		status = budget_offer_disk(context, &offer, &goals[i]);
	for (size_t i = 0; i < count && status; i++) {
		schedule_free(goals[i].schedule);
		goals[i].schedule = NULL;
	}
	return status;
}

enum status spec_least(const struct context *context, const struct spec *spec, int64_t *least)
{
	const struct disk_offer offer = offer_of(spec);
	TRY(budget_least(context, &spec->costs, least));
	return spec->on_disk ? budget_least_on_disk(context, &offer, least) : STATUS_OK;
}

static bool by_search(const struct policy *policy)
{
	return policy->kind == POLICY_auto || policy->kind == POLICY_budget;
}

/* Sets GOAL's schedule to that of POLICY; other fields too if a search found it. */
static enum status make_schedule(const struct context *context, const struct spec *spec, const struct policy *policy,
                                 struct budget_goal *goal)
{
	const struct disk_offer offer = offer_of(spec);
	goal->bytes = policy->number;
	if (by_search(policy))
		return budget_schedule(context, &spec->costs, spec->on_disk ? &offer : NULL, policy->kind == POLICY_auto, goal);
	goal->schedule = policy_schedule(policy, &spec->costs, context->allocator);
	return goal->schedule ? STATUS_OK : diag_memory(context->diags);
}

enum status spec_schedule(const struct context *context, const struct spec *spec, const struct policy *policy,
                          struct schedule **schedule)
{
	struct budget_goal goal = {0};
	const enum status status = make_schedule(context, spec, policy, &goal);
	*schedule = goal.schedule;
	return status;
}

enum status spec_bound(const struct context *context, const struct spec *spec, const struct budget_goal *goal,
                       struct counters *counters)
{
	counters->bounded = counters->spill_writes == 0;
	return goal->exact || !counters->bounded
	           ? STATUS_OK
	           : budget_gap(context, &spec->costs, goal->bytes - spec->costs.fixed, counters);
}

enum status spec_plan(const struct context *context, const struct spec *spec, const struct policy *policy,
                      struct counters *counters, double *time, struct schedule **schedule)
{
	/* With more snapshots, steps are recomputed so seldom in short chains that their peak may differ. */
	enum { MOST_SNAPSHOTS = 8 };
	const struct long_chain chain = {.policy = policy, .costs = &spec->costs};
	struct budget_goal goal = {0};
	*schedule = NULL;
	TRY(make_schedule(context, spec, policy, &goal));
	*schedule = goal.schedule;
	bool known = false;
	enum status status = STATUS_OK;
	if (policy->kind != POLICY_revolve || policy->number <= MOST_SNAPSHOTS)
		status = short_chains_predict(context, &chain, counters, &known);
	if (!status && !known)
		status = cost_walk(context, *schedule, &spec->costs, NULL, counters, time);
	else
		*time = counters->forward_cost + counters->recomputed_cost + counters->backward_cost;
	if (!status && by_search(policy))
		status = spec_bound(context, spec, &goal, counters);
	if (status) {
		schedule_free(*schedule);
		*schedule = NULL;
	}
	return status;
}
