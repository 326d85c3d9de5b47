/*
 * Values get letters in the order in which the parts make them, from a on. A value that a part passes on in a slot of the
 * state keeps its letter in the parts that read it. The parts of a loop have the letters of its first iteration. Params
 * keep their names.
 *
 * The program comes first, a line for each part.
 * Tests: tests/cases/explain.test
 */
#include "report/explanation.h"

#include <stdio.h>
#include <string.h>

/* The combining macron U+0304 in UTF-8; it takes no column. */
static const char macron[] = "\xcc\x84";

/* The letters that are given so far, from part to part. */
struct letters {
	const struct dictionary *taken; /* names that no letter may be */
	uint32_t used;
	const char **slots;  /* by slot of the state: the letter of its value; NULL: none yet */
	const char ***given; /* by part: the letters of its values (struct part); NULL: none yet */
};

/* A part of the chain, and the lines that explain it. */
struct part {
	const struct explanation *e;
	struct letters *shared;
	const struct step *step;
	const struct linear *linear;
	const struct body *body; /* the body that is being written */
	struct arena *arena;
	struct text_list forward, backward, saved;
	const char **letters;   /* by value of the recording body; NULL: none */
	bool *kept;             /* by value of the recording body: it is a residual */
	uint32_t *total, *rank; /* by recorded value: number of its cotangents; by backward value: which of them, from 1 */
	bool macrons;
	bool brief;             /* lines have neither types nor notes */
	struct grown_text line; /* the line that is being written, through TO */
	const struct text *to;
};

static void end_line(struct part *part, struct text_list *program)
{
	(void)text_list_add(program, text_grown(&part->line), part->arena);
}

/* Puts the names of CHAIN, which no letter may be, into TAKEN. Returns false if memory is short. */
static bool take_names(struct dictionary *taken, const struct chain *chain, struct arena *arena)
{
	bool put = !chain->input || dictionary_put(taken, arena, chain->input, taken);
	for (size_t i = 0; i < chain->param_count && put; i++)
		put = dictionary_put(taken, arena, chain->params[i].name, taken);
	for (size_t i = 0; i < chain->name_count && put; i++)
		put = dictionary_put(taken, arena, chain->names[i], taken);
	return put;
}

static bool is_taken(const struct part *part, const char *name)
{
	return op_find(name) != OP_COUNT || dictionary_find(part->shared->taken, name);
}

/* Returns the next of a, b, ... z, ba, bb, ... Skips names, bare or after d_, of the chain or of an operation. */
static const char *next_letter(struct part *part)
{
	for (;;) {
		char name[16] = "d_", *p = name + sizeof name - 1;
		uint32_t number = part->shared->used++;
		do {
			*--p = (char)('a' + number % 26);
			number /= 26;
		} while (number);
		const size_t length = strlen(p);
		memmove(name + 2, p, length + 1);
		if (!is_taken(part, name + 2) && !is_taken(part, name))
			return arena_strndup(part->arena, name + 2, length);
	}
}

/* Returns the letter of VALUE of the recording body; "" if memory is short. */
static const char *letter_of(struct part *part, uint32_t value)
{
	return part->letters[value] ? part->letters[value] : "";
}

/* Gives letters to the results of BODY that are no cotangents. BODY is the recording or the backward one of PART. */
static void name_results(struct part *part, const struct body *body)
{
	const bool back = body == part->linear->backward;
	for (size_t i = 0; i < body->instr_count; i++) {
		uint32_t made[INSTR_WRITES];
		const size_t count = instr_writes(&body->instrs[i], made);
		for (size_t k = 0; k < count; k++) {
			const struct value *v = &body->values[made[k]];
			const uint32_t value = back ? v->primal : made[k];
			if (!(back && v->cotangent) && !part->letters[value])
				part->letters[value] = next_letter(part);
		}
	}
}

/* Gives the letters of what PART writes to the slots. */
static void write_slots(struct part *part)
{
	const struct body *body = part->linear->record;
	const char **slots = part->shared->slots;
	for (size_t i = 0; i < body->out_count; i++) {
		const struct value *v = &body->values[body->outs[i].value];
		const struct param_ref *ref = v->from == FROM_PARAM ? step_param(part->step, &v->param) : NULL;
		if (body->outs[i].kind != PORT_RESIDUAL) /* an element of a param gets a letter where it is read */
			slots[step_slot(part->step, &body->outs[i])] = !ref              ? part->letters[body->outs[i].value]
			                                               : ref->count == 0 ? part->e->chain->params[ref->param].name
			                                                                 : NULL;
	}
}

/* Gives letters to what PART reads and makes, and to the slots that it writes. */
static void give_letters(struct part *part)
{
	const struct body *body = part->linear->record;
	const char **slots = part->shared->slots;
	for (size_t i = 0; i < body->in_count; i++) {
		const uint32_t slot = step_slot(part->step, &body->ins[i]);
		slots[slot] = slots[slot] ? slots[slot] : next_letter(part);
		part->letters[body->ins[i].value] = slots[slot];
	}
	name_results(part, body);
	name_results(part, part->linear->backward);
	write_slots(part);
}

/* Writes the name of a cotangent. Only parts of a sum get numbers; a param's gradient has parts, but no sum to name. */
static void put_cotangent(struct part *part, uint32_t value)
{
	const uint32_t primal = part->body->values[value].primal, total = part->total[primal], rank = part->rank[value];
	const struct value *of = &part->linear->record->values[primal];
	const bool summed = of->from == FROM_PARAM;
	text_printf(part->to, "%s%s%s", part->macrons ? "" : "d_",
	            summed ? part->e->chain->params[step_param(part->step, &of->param)->param].name
	                   : letter_of(part, primal),
	            part->macrons ? macron : "");
	if (summed ? total > 1 : rank < total)
		text_printf(part->to, ".%u", rank);
}

/* Returns the type of VALUE, of the recording body: integers, which are held as doubles, have their own. */
static struct type shown_type(const struct part *part, uint32_t value)
{
	const struct value *v = &part->linear->record->values[value];
	return (struct type){dtype_is_integer(v->dtype) ? v->dtype : v->type->dtype, v->type->shape};
}

static void put_value(struct part *part, uint32_t value, bool typed)
{
	const struct value *v = &part->body->values[value];
	const struct param_ref *ref = v->from == FROM_PARAM ? step_param(part->step, &v->param) : NULL;
	char type[TYPE_TEXT];
	if (v->from == FROM_PARAM) {
		text_put(part->to, part->e->chain->params[ref->param].name);
		for (uint32_t i = 0; i < ref->count; i++)
			if (ref->index[i].loop >= 0)
				text_printf(part->to, "[i%d]", (int)ref->index[i].loop);
			else
				text_printf(part->to, "[%lld]", (long long)ref->index[i].value);
	} else if (v->cotangent) {
		put_cotangent(part, value);
	} else {
		text_put(part->to, letter_of(part, part->body == part->linear->backward ? v->primal : value));
	}
	if (!typed)
		return;
	const bool back = part->body == part->linear->backward;
	const struct type shown = v->cotangent ? *v->type : shown_type(part, back ? v->primal : value);
	text_printf(part->to, ":%s", type_format(&shown, type));
}

static void put_ports(struct part *part, const struct port *ports, size_t count, bool typed)
{
	for (size_t i = 0; i < count; i++) {
		text_put(part->to, i ? " " : "");
		put_value(part, ports[i].value, typed);
	}
}

/* Appends which values of INSTR are saved; of a value that is not the result, also what it is. */
static void put_saved(struct part *part, const struct instr *instr)
{
	uint32_t made[INSTR_WRITES];
	const size_t count = instr_writes(instr, made);
	const char *before = "  # saves ";
	for (size_t i = 0; i < count; i++) {
		if (!part->kept[made[i]])
			continue;
		text_printf(part->to, "%s%s", before, letter_of(part, made[i]));
		if (made[i] != instr->out)
			text_printf(part->to, " (%s)", linear_maker(part->body, made[i]));
		before = ", ";
	}
}

/* Appends WORD and the index of STREAM, with the counters that move it, outermost first, as in "stream=1+6*i0+2*i1". */
static void put_stream(struct part *part, const char *word, const struct stream *stream)
{
	const struct stream_loop *around[MAX_LOOPS];
	uint64_t at = stream->at;
	size_t count = 0;
	for (const struct stream_loop *loop = stream->loops; loop && count < MAX_LOOPS; loop = loop->outer)
		if (loop->step) {
			at -= loop->step * (uint64_t)loop->first;
			around[count++] = loop;
		}
	text_printf(part->to, " %s=%lld", word, (long long)at);
	while (count-- > 0)
		text_printf(part->to, "+%llu*i%d", (unsigned long long)around[count]->step, (int)around[count]->level);
}

/* Appends VALUE, which an instruction reads; nothing for NO_VALUE. */
static void put_read(struct part *part, uint32_t value)
{
	if (value == NO_VALUE)
		return;
	text_put(part->to, " ");
	put_value(part, value, false);
}

static void put_instr(struct part *part, const struct instr *instr)
{
	const bool op = instr->kind <= INSTR_VJP;
	const uint32_t values = instr_value_count(instr), others[] = {instr->y, instr->k, instr->l};
	uint32_t made[INSTR_WRITES];
	const size_t made_count = instr_writes(instr, made);
	if (instr->kind == INSTR_ACCUMULATE)
		text_printf(part->to,
		            "gradient of %s +=", part->e->chain->params[step_param(part->step, &instr->param)->param].name);
	for (size_t i = 0; i < made_count; i++) {
		if (part->brief && made[i] != instr->out)
			continue;
		put_value(part, made[i], !part->brief);
		text_put(part->to, i + 1 < made_count && !part->brief ? " " : " = ");
	}
	if (instr->kind != INSTR_ACCUMULATE)
		text_printf(part->to, "%s%s", instr_word(instr->kind), op ? instr_name(instr) : "");
	put_read(part, instr->g);
	for (uint32_t k = 0; k < values; k++)
		put_read(part, instr_value(instr, k));
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		put_read(part, others[i]);
	const bool number = instr->kind == INSTR_OP ? instr_has_number(instr)
	                                            : op_table[instr->op].class == OP_CLASS_BINARY && !instr->of.a;
	if (instr_adds_counter(instr))
		text_printf(part->to, " i%d", (int)instr->level);
	else if (op && number)
		text_printf(part->to, " %.9g", step_scalar(part->step, instr));
	else if (op && instr->level >= 0)
		text_printf(part->to, " [i%d]", (int)instr->level);
	if (op && own_stream(&part->step->own, instr))
		put_stream(part, instr_use(instr) ? "call" : "stream", own_stream(&part->step->own, instr));
	if (part->body == part->linear->record && !part->brief)
		put_saved(part, instr);
	text_put(part->to, instr->recomputed ? "  # recomputed" : "");
	for (size_t i = 0; i < made_count && instr->recomputed; i++)
		if (made[i] != instr->out)
			text_printf(part->to, ", %s (%s)", letter_of(part, part->body->values[made[i]].primal),
			            linear_maker(part->body, made[i]));
}

static void make_program(struct part *part, const struct body *body, struct text_list *program)
{
	part->body = body;
	text_put(part->to, "{ lambda ; ");
	put_ports(part, body->ins, body->in_count, true);
	text_put(part->to, ". let");
	end_line(part, program);
	for (size_t i = 0; i < body->instr_count; i++) {
		text_put(part->to, "    ");
		put_instr(part, &body->instrs[i]);
		end_line(part, program);
	}
	text_put(part->to, "  in (");
	put_ports(part, body->outs, body->out_count, false);
	text_put(part->to, ") }");
	end_line(part, program);
}

/* Sets PART to STEP. Gives it letters unless it has some. Returns false if memory is short. */
static bool begin_part(struct report *report, const struct explanation *e, struct letters *letters,
                       const struct step *step, struct part *part)
{
	const struct linear *linear = &compiled_step_of(e->compiled, step)->linear;
	*part = (struct part){
		.e = e, .shared = letters, .step = step, .linear = linear, .arena = report->arena, .to = &part->line.text};
	text_grow_in(&part->line, part->arena);
	part->macrons = e->macrons && report->format == REPORT_TABLE;
	part->letters = letters->given[step->id];
	if (part->letters)
		return !part->arena->failed;
	part->letters = arena_array(part->arena, linear->record->value_count + 1, sizeof *part->letters);
	if (part->letters)
		give_letters(part);
	letters->given[step->id] = part->letters;
	return !part->arena->failed;
}

/* Sets PART to the lines that explain STEP. Returns false if memory is short. */
static bool make_part(struct report *report, const struct explanation *e, struct letters *letters,
                      const struct step *step, struct part *part)
{
	if (!begin_part(report, e, letters, step, part))
		return false;
	const struct linear *linear = part->linear;
	const struct body *backward = linear->backward;
	char type[TYPE_TEXT];
	part->kept = arena_array(part->arena, linear->record->value_count + 1, sizeof *part->kept);
	part->total = arena_array(part->arena, linear->record->value_count + 1, sizeof *part->total);
	part->rank = arena_array(part->arena, backward->value_count + 1, sizeof *part->rank);
	if (!part->kept || !part->total || !part->rank)
		return false;
	for (size_t i = 0; i < linear->residual_count; i++)
		part->kept[linear->residuals[i].value] = true;
	for (size_t i = 0; i < backward->value_count; i++)
		if (backward->values[i].cotangent)
			part->rank[i] = ++part->total[backward->values[i].primal];
	make_program(part, linear->record, &part->forward);
	make_program(part, backward, &part->backward);
	for (size_t i = 0; i < linear->residual_count; i++) { /* "c:f32[4] (cos)" */
		const struct residual *residual = &linear->residuals[i];
		const char *what = residual->in_state ? "the state before" : residual->op;
		const struct type shown = shown_type(part, residual->value);
		text_printf(part->to, "%s:%s", letter_of(part, residual->value), type_format(&shown, type));
		if (what)
			text_printf(part->to, " (%s)", what);
		end_line(part, &part->saved);
	}
	return !part->arena->failed;
}

static int line_columns(const char *line)
{
	size_t macrons = 0;
	for (const char *p = line; (p = strstr(p, macron)); p += strlen(macron))
		macrons++;
	return (int)(strlen(line) - strlen(macron) * macrons);
}

/* Writes LEFT and RIGHT side by side. If LEFT has more than WIDTH columns, RIGHT comes on the next line. */
static void put_pair(const struct text *text, int width, const char *left, const char *right, bool color)
{
	const bool again = color && strstr(right, "# recomputed");
	const int columns = line_columns(left);
	text_printf(text, "%s%*s", left, columns < width ? width - columns : 0, "");
	if (columns > width)
		text_printf(text, "\n%*s", width, "");
	text_printf(text, " | %s%s%s\n", again ? "\033[33m" : "", right, again ? "\033[0m" : "");
}

static void put_columns(const struct part *part, const struct text *text)
{
	enum { LEAST = 32, MOST = 72 };
	const struct text_list *left = &part->forward, *right = &part->backward, *saved = &part->saved;
	int width = LEAST;
	for (size_t i = 0; i < left->count; i++) {
		const int columns = line_columns(left->items[i]);
		width = columns > width && columns <= MOST ? columns : width;
	}
	put_pair(text, width, "forward", "backward", false);
	for (size_t i = 0; i < left->count || i < right->count; i++)
		put_pair(text, width, i < left->count ? left->items[i] : "", i < right->count ? right->items[i] : "",
		         part->e->color);
	text_put(text, "saved across: ");
	for (size_t i = 0; i < saved->count; i++)
		text_printf(text, "%s%s", i ? ", " : "", saved->items[i]);
	text_put(text, saved->count ? "\n" : "nothing\n");
}

static void put_notation(const struct text *text, bool macrons)
{
	enum { WIDTH = 19 };
	char name[8], parts[32];
	snprintf(name, sizeof name, macrons ? "a%s" : "d_a", macron);
	snprintf(parts, sizeof parts, "%s.1, %s.2, ...", name, name);
	const struct {
		const char *left, *right;
	} rows[] = {{"a, b, ...", "values, by one name in both columns"},
	            {name, "the cotangent of a: the derivative of the output's sum with respect to a"},
	            {parts, "its parts, one for each use of a"},
	            {"vjp OP", "from the cotangent of OP's result, that of OP's input"},
	            {"vjp_operand OP", "the same for OP's operand"}};
	text_put(text, "\n");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		text_printf(text, "%s%*s%s\n", rows[i].left, WIDTH - line_columns(rows[i].left), "", rows[i].right);
}

/* A record: a part in JSON; in CSV and lines, one line of a part's program. */
struct program_line {
	int64_t part;
	const char *program, *line;
	struct field_list forward, backward, saved;
};

static const struct field program_fields[] = {
	{"part", NULL, IN_JSON | IN_CSV, 0, FIELD(program_line, WHOLE, part)},
	{"program", NULL, IN_CSV, 0, FIELD(program_line, TEXT, program)},
	{"text", NULL, IN_CSV, 0, FIELD(program_line, TEXT, line)},
	{"forward", NULL, IN_JSON, 0, FIELD(program_line, TEXTS, forward)},
	{"backward", NULL, IN_JSON, 0, FIELD(program_line, TEXTS, backward)},
	{"saved", NULL, IN_JSON, 0, FIELD(program_line, TEXTS, saved)},
};

static void put_program_line(const void *record, const struct text *text)
{
	const struct program_line *row = record;
	text_printf(text, "part %lld %s: %s\n", (long long)row->part, row->program, row->line);
}

static const struct record_kind program_kind = RECORD_KIND("parts", program_fields, put_program_line);

static void report_part(struct records *records, const struct part *part, int64_t number)
{
	const char *const names[] = {"forward", "backward", "saved"};
	const struct text_list *const programs[] = {&part->forward, &part->backward, &part->saved};
	struct program_line row = {.part = number,
	                           .forward = {part->forward.items, part->forward.count},
	                           .backward = {part->backward.items, part->backward.count},
	                           .saved = {part->saved.items, part->saved.count}};
	if (records->format == REPORT_JSON) {
		records_put(records, &row, 0);
		return;
	}
	for (size_t k = 0; k < sizeof programs / sizeof *programs; k++)
		for (size_t i = 0; i < programs[k]->count; i++) {
			row.program = names[k];
			row.line = programs[k]->items[i];
			records_put(records, &row, 0);
		}
}

/* Writes the order in which parts run, with its loops, in JSON. */
static void report_items(struct report *report, const struct item *items, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		report_open(report, NULL, '{');
		if (items[i].step) {
			report_whole(report, "part", items[i].step->id + 1);
		} else {
			report_whole(report, "times", items[i].iterations);
			report_open(report, "body", '[');
			report_items(report, items[i].items, items[i].count);
			report_close(report, ']');
		}
		report_close(report, '}');
	}
}

/* The program, whose lines are being made. */
struct program_text {
	struct report *report;
	const struct explanation *e;
	struct letters *letters;
	struct text_list lines;
	struct grown_text line;
};

/* Writes which values PART reads now in place of those that have its letters. */
static void put_others(const struct part *part, const struct text *to)
{
	const struct body *body = part->linear->record;
	const char *word = ", with ";
	for (size_t i = 0; i < body->in_count; i++) {
		const char *now = part->shared->slots[step_slot(part->step, &body->ins[i])];
		const char *letter = part->letters[body->ins[i].value];
		if (!now || !letter || !strcmp(now, letter))
			continue;
		text_printf(to, "%s%s for %s", word, now, letter);
		word = ", ";
	}
}

/* Adds the line of STEP, in DEPTH loops: what it computes, as far as that has space in a line. */
static bool add_part_line(struct program_text *p, const struct step *step, int depth)
{
	enum { WIDTH = 80 }; /* columns before the last operation */
	struct part part;
	const struct text *to = &p->line.text;
	text_printf(to, "%*spart %u  ", 2 * depth, "", step->id + 1);
	const bool known = p->letters->given[step->id];
	if (!begin_part(p->report, p->e, p->letters, step, &part))
		return false;
	if (known) { /* another loop over the same step */
		text_put(to, "as above");
		put_others(&part, to);
		write_slots(&part);
		return text_list_add(&p->lines, text_grown(&p->line), p->report->arena);
	}
	part.brief = true;
	part.body = part.linear->record;
	size_t i = 0;
	for (; i < part.body->instr_count; i++) {
		put_instr(&part, &part.body->instrs[i]);
		const char *line = text_grown(&part.line);
		if (!line || (i && p->line.used + strlen(line) > WIDTH))
			break;
		text_printf(to, "%s%s", i ? "; " : "", line);
	}
	if (i < part.body->instr_count) {
		put_instr(&part, &part.body->instrs[part.body->instr_count - 1]);
		const char *last = text_grown(&part.line);
		text_printf(to, "; %s%s", i + 1 < part.body->instr_count ? "...; " : "", last ? last : "");
	}
	text_put(to, part.body->instr_count ? "" : "nothing is computed");
	return text_list_add(&p->lines, text_grown(&p->line), p->report->arena);
}

/* Returns the first step that runs in ITEM. */
static const struct step *first_step(const struct item *item)
{
	while (!item->step)
		item = &item->items[0];
	return item->step;
}

/* Returns the head of LOOP, which had the letters BEFORE at its begin: which values later iterations read in their place. */
static const char *describe_loop(struct program_text *p, const struct item *loop, const char *const *before, int depth)
{
	const struct text *to = &p->line.text;
	const struct slot_map *live = first_step(loop)->live_in;
	const char *word = ", from the second on with ";
	text_printf(to, "%*s%lld time%s", 2 * depth, "", (long long)loop->iterations, loop->iterations == 1 ? "" : "s");
	for (size_t i = 0; i < p->e->compiled->lowered->slot_count && loop->iterations > 1; i++) {
		const char *now = p->letters->slots[i];
		if (!before[i] || !now || !strcmp(before[i], now) || !has_slot(live, (uint32_t)i))
			continue;
		text_printf(to, "%s%s for %s", word, now, before[i]);
		word = ", ";
	}
	text_put(to, ":");
	return text_grown(&p->line);
}

static bool add_lines(struct program_text *p, const struct item *items, size_t count, int depth);

static bool add_loop(struct program_text *p, const struct item *loop, int depth)
{
	const size_t slots = p->e->compiled->lowered->slot_count, head = p->lines.count;
	struct arena *arena = p->report->arena, scratch; /* many loops may have many slots */
	arena_init(&scratch, arena->allocator);
	const char **before = arena_array(&scratch, slots + 1, sizeof *before);
	bool added = before && text_list_add(&p->lines, "", arena); /* its line is known when the body has letters */
	if (added) {
		memcpy(before, p->letters->slots, slots * sizeof *before);
		added = add_lines(p, loop->items, loop->count, depth + 1);
	}
	if (added)
		p->lines.items[head] = describe_loop(p, loop, before, depth);
	arena->failed |= scratch.failed;
	arena_free(&scratch);
	return added && !arena->failed;
}

static bool add_lines(struct program_text *p, const struct item *items, size_t count, int depth)
{
	for (size_t i = 0; i < count; i++) {
		const struct item *item = &items[i];
		if (item->step ? !add_part_line(p, item->step, depth) : item->iterations > 0 && !add_loop(p, item, depth))
			return false;
	}
	return true;
}

/* Sets LETTERS to those before the first part: the input has a, which all slots hold. Returns a; NULL if memory is short. */
static const char *begin_letters(struct letters *letters, const struct explanation *e, const struct dictionary *taken,
                                 struct arena *arena)
{
	const struct lowered *lowered = e->compiled->lowered;
	struct part part = {.e = e, .shared = letters, .arena = arena};
	*letters = (struct letters){.taken = taken,
	                            .slots = arena_array(arena, lowered->slot_count + 1, sizeof *letters->slots),
	                            .given = arena_array(arena, lowered->distinct_count + 1, sizeof *letters->given)};
	const char *input = letters->slots && letters->given ? next_letter(&part) : NULL;
	for (size_t i = 0; i < lowered->slot_count && input; i++)
		letters->slots[i] = input;
	return input;
}

/* Gives letters to all parts, and writes the program to a table: what each part computes, and the loops around them. */
static bool put_program(struct report *report, const struct explanation *e, const struct dictionary *taken,
                        struct letters *letters)
{
	const struct lowered *lowered = e->compiled->lowered;
	const char *input = begin_letters(letters, e, taken, report->arena);
	struct program_text p = {.report = report, .e = e, .letters = letters};
	text_grow_in(&p.line, report->arena);
	if (!input || !add_lines(&p, lowered->items, lowered->item_count, 0))
		return false;
	if (report->format != REPORT_TABLE || e->compiled->by_value) /* a policy by value makes one part of all */
		return true;
	text_printf(report->text, "%s is the input %s\n", input, e->chain->input);
	for (size_t i = 0; i < p.lines.count; i++)
		text_printf(report->text, "%s\n", p.lines.items[i]);
	return true;
}

void report_explanation(struct report *report, const struct explanation *e)
{
	const struct lowered *lowered = e->compiled->lowered;
	const bool table = report->format == REPORT_TABLE;
	struct records records = {.report = report};
	struct dictionary taken = {0};
	struct letters letters;
	struct part part;
	if (!take_names(&taken, e->chain, report->arena))
		return;
	report_text(report, "policy", e->policy);
	report_whole(report, "steps", lowered->steps);
	report_whole(report, "evaluations", e->evaluations);
	if (table)
		text_printf(report->text, "policy %s: %lld step%s\n", e->policy, (long long)lowered->steps,
		            lowered->steps == 1 ? "" : "s");
	report_open(report, "program", '[');
	if (!table)
		report_items(report, lowered->items, lowered->item_count);
	report_close(report, ']');
	if (!put_program(report, e, &taken, &letters))
		return;
	if (table)
		put_notation(report->text, e->macrons);
	else
		records_begin(&records, report, &program_kind, 0);
	for (size_t i = 0; i < lowered->distinct_count; i++) {
		if (!make_part(report, e, &letters, lowered->distinct[i], &part))
			return;
		if (table) {
			text_printf(report->text, "\npart %zu\n", i + 1);
			put_columns(&part, report->text);
		} else {
			report_part(&records, &part, (int64_t)i + 1);
		}
	}
	if (!table)
		records_end(&records);
}

enum { ON_STEPS = 1, ON_STATE = 2 };

struct action_row {
	const char *name;
	struct action action;
};

static const struct field action_fields[] = {
	{"action", NULL, IN_JSON | IN_CSV, 0, FIELD(action_row, TEXT, name)},
	{"begin", NULL, IN_JSON | IN_CSV, ON_STEPS, FIELD(action_row, WHOLE, action.begin)},
	{"end", NULL, IN_JSON | IN_CSV, ON_STEPS, FIELD(action_row, WHOLE, action.end)},
	{"state", NULL, IN_JSON | IN_CSV, ON_STATE, FIELD(action_row, WHOLE, action.begin)},
	{"slot", NULL, IN_JSON | IN_CSV, ON_STATE, FIELD(action_row, WHOLE, action.slot)},
};

static void put_action_line(const void *record, const struct text *text)
{
	const struct action_row *row = record;
	const struct action *action = &row->action;
	if (action_is_on_steps(action->kind))
		text_printf(text, "%-9s steps %lld to %lld\n", row->name, (long long)action->begin, (long long)action->end - 1);
	else if (action->kind == ACT_DROP || action->kind == ACT_DISCARD)
		text_printf(text, "%-9s slot %lld\n", row->name, (long long)action->slot);
	else
		text_printf(text, "%-9s state %lld, slot %lld\n", row->name, (long long)action->begin, (long long)action->slot);
}

static const struct record_kind action_kind = RECORD_KIND("actions", action_fields, put_action_line);

/* As report_actions; a step of SCHEDULE is EACH steps of the chain. */
static void put_actions(struct report *report, struct schedule *schedule, const char *policy, int64_t steps,
                        int64_t each)
{
	struct action_row row;
	struct records records;
	report_text(report, "policy", policy);
	report_whole(report, "steps", steps);
	records_begin(&records, report, &action_kind, ON_STEPS | ON_STATE);
	schedule_rewind(schedule);
	while (each > 0 && schedule_next(schedule, &row.action)) {
		row.name = action_name(row.action.kind);
		row.action.begin *= each;
		row.action.end *= each;
		records_put(&records, &row, action_is_on_steps(row.action.kind) ? ON_STEPS : ON_STATE);
	}
	records_end(&records);
}

void report_actions(struct report *report, struct schedule *schedule, const char *policy, int64_t steps)
{
	put_actions(report, schedule, policy, steps, 1);
}

void report_schedule(struct report *report, const struct job *job)
{
	const int64_t steps = job->whole.steps, each = policy_by_value(&job->scheduled) ? steps : 1;
	put_actions(report, job->schedule, job->policy->text, steps, each);
}
