/*
 * ckptc explain: the forward program and the backward program of each part of
 * the chain side by side, as the policy makes them. What is saved is marked on
 * the left, what is recomputed on the right.
 */
#include <stdio.h>
#include <string.h>

#include "cli/job_options.h"
#include "report/actions.h"
#include "report/dot.h"

enum { LEFT_WIDTH = 64 };

/* Lines of a body's text. */
struct lines {
	struct arena *arena;
	char **items;
	size_t count, capacity, used, room;
	char *line;
	bool failed;
};

static void end_line(struct lines *l)
{
	char **grown = arena_grow(l->arena, l->items, l->count, &l->capacity, sizeof *grown);
	char *copy = arena_strndup(l->arena, l->line ? l->line : "", l->used);
	if (!grown || !copy) {
		l->failed = true;
		return;
	}
	l->items = grown;
	grown[l->count++] = copy;
	l->used = 0;
}

static void add_text(void *context, const char *text, size_t length)
{
	struct lines *l = context;
	for (size_t i = 0; i < length && !l->failed; i++) {
		if (text[i] == '\n') {
			end_line(l);
			continue;
		}
		char *grown = arena_grow(l->arena, l->line, l->used, &l->room, 1);
		if (!grown) {
			l->failed = true;
			return;
		}
		l->line = grown;
		grown[l->used++] = text[i];
	}
}

static void put_pair(const struct text *text, const char *left, const char *right, bool color)
{
	bool again = strstr(right, "# recomputed") != NULL;
	text_printf(text, "%-*s", LEFT_WIDTH, left);
	if (strlen(left) > LEFT_WIDTH)
		text_printf(text, "\n%-*s", LEFT_WIDTH, "");
	text_printf(text, " | %s%s%s\n", again && color ? "\033[33m" : "", right, again && color ? "\033[0m" : "");
}

/* One part of the chain, as texts. */
struct part_text {
	struct lines forward, backward;
	const char **saved;
	size_t saved_count;
};

static enum status part_make(struct session *s, const struct compiled_step *code, struct part_text *part)
{
	*part = (struct part_text){.forward.arena = &s->arena, .backward.arena = &s->arena};
	body_dump(code->linear.record, &s->chain, add_text, &part->forward);
	body_dump(code->linear.backward, &s->chain, add_text, &part->backward);
	part->saved_count = code->linear.residual_count;
	part->saved = arena_array(&s->arena, part->saved_count + 1, sizeof *part->saved);
	for (size_t i = 0; part->saved && i < part->saved_count; i++) {
		const struct residual *r = &code->linear.residuals[i];
		const char *what = r->slot != NO_VALUE ? "(the state before)" : r->origin.op ? r->origin.op : "";
		char type[TYPE_TEXT];
		part->saved[i] = arena_printf(&s->arena, "%s%s%s", type_format(r->type, type), *what ? " " : "", what);
	}
	bool failed = part->forward.failed || part->backward.failed || s->arena.failed;
	return failed ? diag_memory(&s->diags) : STATUS_OK;
}

static void put_part(const struct part_text *part, const struct text *text, bool color)
{
	const struct lines *left = &part->forward, *right = &part->backward;
	put_pair(text, "forward", "backward", color);
	for (size_t i = 0; i < left->count || i < right->count; i++)
		put_pair(text, i < left->count ? left->items[i] : "", i < right->count ? right->items[i] : "", color);
	text_put(text, "saved across:");
	for (size_t i = 0; i < part->saved_count; i++)
		text_printf(text, "%s %s", i ? "," : "", part->saved[i]);
	text_put(text, part->saved_count ? "\n" : " nothing\n");
}

static void put_strings(const struct text *text, const char *key, const char *const *items, size_t count)
{
	text_printf(text, ",\"%s\":[", key);
	for (size_t i = 0; i < count; i++) {
		text_put(text, i ? "," : "");
		text_json(text, items[i]);
	}
	text_put(text, "]");
}

static void put_part_json(const struct part_text *part, size_t number, const struct text *text)
{
	text_printf(text, "%s{\"part\":%zu", number > 1 ? "," : "", number);
	put_strings(text, "forward", (const char *const *)part->forward.items, part->forward.count);
	put_strings(text, "backward", (const char *const *)part->backward.items, part->backward.count);
	put_strings(text, "saved", part->saved, part->saved_count);
	text_put(text, "}");
}

/* Rows of csv, or a line each: part, program, text. */
static void put_part_rows(const struct part_text *part, size_t number, const struct text *text, bool csv)
{
	const struct {
		const char *name;
		const char *const *items;
		size_t count;
	} sides[] = {{"forward", (const char *const *)part->forward.items, part->forward.count},
	             {"backward", (const char *const *)part->backward.items, part->backward.count},
	             {"saved", part->saved, part->saved_count}};
	for (size_t k = 0; k < sizeof sides / sizeof *sides; k++)
		for (size_t i = 0; i < sides[k].count; i++) {
			text_printf(text, csv ? "%zu,%s," : "part %zu %s: ", number, sides[k].name);
			if (csv)
				text_csv(text, sides[k].items[i]);
			else
				text_put(text, sides[k].items[i]);
			text_put(text, "\n");
		}
}

static void put_runs_json(const struct text *text, const struct item *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (items[i].step) {
			text_printf(text, "%s{\"part\":%u}", i ? "," : "", items[i].step->id + 1);
			continue;
		}
		text_printf(text, "%s{\"times\":%lld,\"body\":[", i ? "," : "", (long long)items[i].iterations);
		put_runs_json(text, items[i].items, items[i].count);
		text_put(text, "]}");
	}
}

static void put_runs(const struct text *text, const struct item *items, size_t count, int depth)
{
	for (size_t i = 0; i < count; i++) {
		if (items[i].step) {
			text_printf(text, "%*spart %u\n", 2 * depth, "", items[i].step->id + 1);
			continue;
		}
		text_printf(text, "%*s%lld times:\n", 2 * depth, "", (long long)items[i].iterations);
		put_runs(text, items[i].items, items[i].count, depth + 1);
	}
}

static void put_head(const struct text *text, enum report_format format, const struct job *job,
                     const struct lowered *lowered)
{
	const bool by_value = policy_by_value(job->policy);
	if (format == REPORT_JSON) {
		text_put(text, "{\"policy\":");
		text_json(text, job->policy->text);
		text_printf(text, ",\"steps\":%lld,\"evaluations\":%lld,\"program\":[", (long long)lowered->steps,
		            (long long)job->predicted.evaluations);
		put_runs_json(text, lowered->items, lowered->item_count);
		text_put(text, "],\"parts\":[");
	} else if (format == REPORT_CSV) {
		text_put(text, "part,program,text\n");
	} else {
		text_printf(text, "policy %s: %lld step%s\n", job->policy->text, (long long)lowered->steps,
		            lowered->steps == 1 ? "" : "s");
		if (!by_value)
			put_runs(text, lowered->items, lowered->item_count, 0);
	}
}

static enum status put_parts(struct session *s, const struct job *job, const struct compiled_chain *compiled,
                             struct text_file *file)
{
	const struct text *text = &file->text;
	enum status status = STATUS_OK;
	put_head(text, s->set.format, job, compiled->lowered);
	for (size_t i = 0; i < compiled->lowered->distinct_count && !status; i++) {
		struct part_text part;
		status = part_make(s, &compiled->steps[i], &part);
		if (status)
			return status;
		if (s->set.format == REPORT_JSON) {
			put_part_json(&part, i + 1, text);
		} else if (s->set.format == REPORT_TABLE) {
			text_printf(text, "\npart %zu\n", i + 1);
			put_part(&part, text, s->line.given[OPTION_COLOR] && s->set.color);
		} else {
			put_part_rows(&part, i + 1, text, s->set.format == REPORT_CSV);
		}
	}
	if (s->set.format == REPORT_JSON)
		text_put(text, "]}\n");
	if (s->set.format != REPORT_TABLE || policy_by_value(job->policy))
		return STATUS_OK;
	text_put(text, "\nschedule\n");
	if (compiled->lowered->steps <= 1000)
		status = report_actions(&file->report, job->schedule, job->policy->text, job->costs.steps);
	else
		text_printf(text, "%lld evaluations; `ckptc plan --schedule` prints the actions\n",
		            (long long)job->predicted.evaluations);
	return status;
}

enum status command_explain(struct session *s)
{
	struct type type;
	struct job job;
	struct text_file file;
	enum status status = session_load_chain(s);
	if (!status)
		status = session_bind_types(s, &type);
	struct job_options options = session_job_options(s, &s->set.policy);
	if (!status)
		status = job_make(&job, &s->chain, &type, &options, &s->arena, &s->diags);
	if (status)
		return status;
	/* Whole types, not a tile's. */
	struct lowered lowered;
	struct compiled_chain compiled;
	bool by_value = policy_by_value(job.policy);
	status = lower(&s->context, &lowered, &s->chain, NULL, &type, by_value ? LOWER_UNROLLED : LOWER_STEPS);
	if (!status)
		status = compiled_make(&s->context, &compiled, &lowered, job.policy);
	if (!status)
		status = session_open_report(s, &file);
	if (status) {
		job_free(&job);
		return status;
	}
	if (s->set.dot)
		status = report_dot(&s->chain, &compiled, &file.text, &s->arena, &s->diags);
	else
		status = put_parts(s, &job, &compiled, &file);
	job_free(&job);
	enum status closed = session_close_text(&file, STATUS_OK);
	return status ? status : closed;
}
