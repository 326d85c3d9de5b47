/* Tests: tests/cases/folds.test */
#include "ir/levels.h"

#include <string.h>

#include "ops/general.h"

/* Instructions FIRST .. LAST that run as one: an operation, or a loop over operations. */
struct unit {
	uint32_t first, last;
};

static struct unit unit_from(const struct body *body, uint32_t first)
{
	const struct instr *instr = &body->instrs[first];
	return (struct unit){first, instr->kind == INSTR_LOOP ? instr->loop.match : first};
}

static struct unit unit_to(const struct body *body, uint32_t last)
{
	const struct instr *instr = &body->instrs[last];
	return (struct unit){instr->kind == INSTR_END ? instr->loop.match : last, last};
}

/* Calls SEE for each value that UNIT reads and does not make. */
static void each_read(const struct body *body, struct unit unit, void (*see)(void *context, uint32_t value),
                      void *context)
{
	for (uint32_t i = unit.first; i <= unit.last; i++) {
		const struct instr *instr = &body->instrs[i];
		uint32_t reads[INSTR_READS];
		const size_t count = instr_reads(instr, reads);
		for (size_t k = 0; k < count; k++) {
			const struct value *v = &body->values[reads[k]];
			if (v->from != FROM_INSTR || v->instr < unit.first || v->instr > unit.last)
				see(context, reads[k]);
		}
		for (uint32_t k = 0; instr->kind == INSTR_LOOP && i == unit.first && k < instr->loop.carry_count; k++)
			see(context, instr->loop.carries[k].init);
	}
}

/* Calls SEE for each value that the fold INSTR reads: of a derivative those that its statistics need. */
static void each_folded(const struct body *body, struct unit unit, void (*see)(void *context, uint32_t value),
                        void *context)
{
	const struct instr *instr = &body->instrs[unit.first];
	const uint32_t reads[] = {instr->v, instr->a, instr->y, op_normalizes(instr->op) ? instr->g : NO_VALUE};
	if (instr->kind != INSTR_VJP)
		each_read(body, unit, see, context);
	for (size_t k = 0; instr->kind == INSTR_VJP && k < sizeof reads / sizeof *reads; k++)
		if (reads[k] != NO_VALUE)
			see(context, reads[k]);
}

/* Calls SEE for each value that UNIT makes for later instructions. */
static void each_made(const struct body *body, struct unit unit, void (*see)(void *context, uint32_t value),
                      void *context)
{
	const struct instr *last = &body->instrs[unit.last];
	uint32_t writes[INSTR_WRITES];
	const size_t count = last->kind == INSTR_END ? 0 : instr_writes(last, writes);
	for (size_t k = 0; k < count; k++)
		see(context, writes[k]);
	for (uint32_t k = 0; last->kind == INSTR_END && k < last->loop.carry_count; k++)
		see(context, last->loop.carries[k].final);
}

/* What a walk knows of the unit that it visits. */
struct visit {
	struct levels *levels;
	uint32_t level;
	bool rows, needed;
};

static void see_reach(void *context, uint32_t value)
{
	struct visit *visit = context;
	visit->level = visit->levels->level[value] > visit->level ? visit->levels->level[value] : visit->level;
	visit->rows |= visit->levels->rows[value];
}

static void set_reach(void *context, uint32_t value)
{
	const struct visit *visit = context;
	visit->levels->level[value] = visit->level;
	visit->levels->rows[value] = visit->rows;
}

/* The derivative of a sum makes rows of values that have none. */
static void see_rows(void *context, uint32_t value)
{
	struct visit *visit = context;
	visit->rows |= visit->levels->body->values[value].streamed;
}

/* Returns what UNIT reads, and whether it belongs to passes. */
static struct visit visit_reads(struct levels *s, struct unit unit)
{
	struct visit visit = {.levels = s};
	each_read(s->body, unit, see_reach, &visit);
	each_made(s->body, unit, see_rows, &visit);
	return visit;
}

static void see_needed(void *context, uint32_t value)
{
	struct visit *visit = context;
	visit->needed |= visit->levels->needed[value];
}

static void mark_needed(void *context, uint32_t value)
{
	((const struct visit *)context)->levels->needed[value] = true;
}

/* Marks a result that the unit reads, if it exists before the unit's part begins. */
static void mark_passed(void *context, uint32_t value)
{
	const struct visit *visit = context;
	const struct levels *s = visit->levels;
	if (!s->rows[value] && s->level[value] > 0 && (visit->rows || visit->level > s->level[value]))
		s->passed[value] = true;
}

/* Sets level and rows of all values, and lists all folds. What a loss keeps for its derivative does not wait for it. */
static void set_levels(struct levels *s)
{
	const struct body *body = s->body;
	uint32_t more = 0;
	for (uint32_t i = 0; i < body->value_count; i++)
		s->rows[i] = body->values[i].from != FROM_INSTR && body->values[i].streamed;
	for (struct unit unit = {0, 0}; unit.first < body->instr_count; unit.first = unit.last + 1) {
		const struct instr *instr = &body->instrs[unit.first];
		const bool folds = body_folds(body, instr), makes_rows = instr_makes_rows(instr);
		unit = unit_from(body, unit.first);
		struct visit visit = visit_reads(s, unit), folded = {.levels = s};
		if (folds)
			each_folded(body, unit, see_reach, &folded);
		const uint32_t level = folded.level + 1;
		visit.level = folds && makes_rows && level > visit.level ? level : visit.level;
		each_made(body, unit, set_reach, &visit);
		if (!folds)
			continue;
		const uint32_t result = makes_rows ? (uint32_t)body->value_count + more++ : instr->out;
		s->folds[s->fold_count++] = (struct fold){unit.first, level, result};
		s->level[result] = level;
		s->rows[result] = false;
	}
}

static const struct fold *fold_of(const struct levels *s, uint32_t instr)
{
	for (uint32_t i = 0; i < s->fold_count; i++)
		if (s->folds[i].instr == instr)
			return &s->folds[i];
	return NULL;
}

/* Notes that VALUE is wanted when all folds have their results: an out, or what is added to the gradient of a param. */
static void need_last(struct levels *s, uint32_t value)
{
	const uint32_t pass = s->level[value] + 1;
	s->needed[value] = true;
	if (!s->rows[value])
		return;
	s->last = true;
	s->passes = pass > s->passes ? pass : s->passes;
}

/* Sets needed and passed of what the unit reads, if it is needed. */
static void see_unit(struct levels *s, struct unit unit)
{
	const struct body *body = s->body;
	const struct instr *instr = &body->instrs[unit.first];
	const struct fold *fold = fold_of(s, unit.first);
	struct visit visit = visit_reads(s, unit);
	visit.needed = instr->kind == INSTR_ACCUMULATE;
	if (visit.needed)
		need_last(s, instr->v);
	each_made(body, unit, see_needed, &visit);
	if (!visit.needed)
		return;
	each_read(body, unit, mark_needed, &visit);
	each_read(body, unit, mark_passed, &visit);
	if (fold && (instr_makes_rows(instr) || s->needed[fold->result]))
		s->needed[fold->result] = s->passed[fold->result] = true;
}

/* Sets needed and passed, keeps the folds that are needed, and counts passes. */
static void find_needed(struct levels *s)
{
	const struct body *body = s->body;
	for (size_t i = 0; i < body->out_count; i++) {
		const uint32_t out = body->outs[i].value;
		need_last(s, out);
		s->passed[out] |= !s->rows[out];
		if (!s->rows[out] && s->level[out] == 0)
			s->level[out] = 1; /* of params alone: it is made after the first pass */
		s->passes = s->level[out] > s->passes ? s->level[out] : s->passes;
	}
	for (size_t i = 0; i < body->in_count; i++)
		s->passed[body->ins[i].value] |= !s->rows[body->ins[i].value];
	for (uint32_t i = (uint32_t)body->instr_count; i > 0;) {
		const struct unit unit = unit_to(body, i - 1);
		see_unit(s, unit);
		i = unit.first;
	}
	uint32_t kept = 0;
	for (uint32_t i = 0; i < s->fold_count; i++)
		if (s->needed[s->folds[i].result])
			s->folds[kept++] = s->folds[i];
	s->fold_count = kept;
	for (uint32_t i = 0; i < kept; i++)
		s->count = s->folds[i].level > s->count ? s->folds[i].level : s->count;
	s->passes = s->count > s->passes ? s->count : s->passes;
}

bool levels_find(struct levels *s, const struct body *body, struct arena *arena)
{
	uint32_t folds = 0, more = 0;
	for (size_t i = 0; i < body->instr_count; i++) {
		folds += body_folds(body, &body->instrs[i]);
		more += body_folds(body, &body->instrs[i]) && instr_makes_rows(&body->instrs[i]);
	}
	const size_t count = body->value_count + more;
	*s = (struct levels){.body = body, .value_count = (uint32_t)count};
	s->folds = arena_array(arena, folds + 1, sizeof *s->folds);
	s->level = arena_array(arena, count, sizeof *s->level);
	bool *marks = arena_array(arena, 3 * count, sizeof *marks);
	if (!s->folds || !s->level || !marks)
		return false;
	s->rows = marks;
	s->needed = marks + count;
	s->passed = s->needed + count;
	set_levels(s);
	find_needed(s);
	return true;
}

bool levels_fit(const struct levels *s, const struct body *body)
{
	bool fit = body->instr_count == s->body->instr_count && body->value_count == s->body->value_count;
	for (size_t i = 0; fit && i < body->instr_count; i++) {
		const struct instr *a = &body->instrs[i], *b = &s->body->instrs[i];
		fit = a->kind == b->kind && a->op == b->op && a->v == b->v && a->a == b->a && a->out == b->out &&
		      (instr_use(a) || !memcmp(a->more, b->more, sizeof a->more));
	}
	for (size_t i = 0; fit && i < body->value_count; i++)
		fit = body->values[i].streamed == s->body->values[i].streamed;
	return fit;
}

/* A part while it is made: of pass PASS within ROWS, or after it. */
struct extraction {
	const struct levels *levels;
	const struct body *from;
	uint32_t pass;
	bool rows;
	bool *wanted;  /* by value: the part reads it or makes it for others */
	bool *taken;   /* by instruction */
	uint32_t *now; /* by instruction: its new index */
};

static bool is_fold_result(const struct levels *s, uint32_t value)
{
	for (uint32_t i = 0; i < s->fold_count; i++)
		if (s->folds[i].result == value)
			return true;
	return false;
}

/* True if VALUE is an array before the part begins. */
static bool is_given(const struct extraction *x, uint32_t value)
{
	const struct levels *s = x->levels;
	if (value < x->from->value_count && x->from->values[value].from == FROM_PORT)
		return true;
	return s->passed[value] && (x->rows || s->level[value] < x->pass || is_fold_result(s, value));
}

/* True if the part makes VALUE for later ones. */
static bool is_made_here(const struct extraction *x, uint32_t value)
{
	const struct levels *s = x->levels;
	for (size_t i = 0; x->rows && x->pass == s->passes && i < x->from->out_count; i++)
		if (x->from->outs[i].value == value)
			return s->rows[value];
	return !x->rows && s->passed[value] && s->level[value] == x->pass && !is_fold_result(s, value);
}

/* Returns the fold that instruction INDEX is in this part, or NULL. */
static const struct fold *folds_here(const struct extraction *x, uint32_t index)
{
	const struct fold *fold = x->rows ? fold_of(x->levels, index) : NULL;
	return fold && fold->level == x->pass ? fold : NULL;
}

/* True if instruction INDEX adds to the gradient of a param in this part. */
static bool accumulates_here(const struct extraction *x, uint32_t index)
{
	const struct levels *s = x->levels;
	const struct instr *instr = &x->from->instrs[index];
	if (instr->kind != INSTR_ACCUMULATE)
		return false;
	if (s->rows[instr->v] || x->rows)
		return s->rows[instr->v] && x->rows && x->pass == s->passes;
	return x->pass == (s->level[instr->v] > 1 ? s->level[instr->v] : 1);
}

static void want_value(void *context, uint32_t value) { ((const struct extraction *)context)->wanted[value] = true; }

struct wanted_visit {
	const struct extraction *x;
	bool wanted;
};

static void see_wanted(void *context, uint32_t value)
{
	struct wanted_visit *visit = context;
	visit->wanted |= visit->x->wanted[value] && !is_given(visit->x, value);
}

/* Marks the instructions of the part, and the values that it reads. */
static void take_instructions(struct extraction *x)
{
	const struct levels *s = x->levels;
	for (uint32_t i = 0; i < s->body->value_count; i++)
		x->wanted[i] = is_made_here(x, i);
	for (uint32_t i = (uint32_t)x->from->instr_count; i > 0;) {
		const struct unit unit = unit_to(x->from, i - 1);
		const struct fold *here = folds_here(x, unit.first);
		struct wanted_visit visit = {x, here != NULL || accumulates_here(x, unit.first)};
		each_made(x->from, unit, see_wanted, &visit);
		for (uint32_t k = unit.first; visit.wanted && k <= unit.last; k++)
			x->taken[k] = true;
		if (here)
			each_folded(x->from, unit, want_value, x);
		else if (visit.wanted)
			each_read(x->from, unit, want_value, x);
		if (visit.wanted && !here && fold_of(s, unit.first) && instr_makes_rows(&x->from->instrs[unit.first]))
			x->wanted[fold_of(s, unit.first)->result] = true;
		i = unit.first;
	}
}

/* Copies the values to the part's body, with the new ones, and makes ports of the given ones. */
static bool copy_values(const struct extraction *x, struct body *body, struct body_part *part, struct arena *arena)
{
	const struct levels *s = x->levels;
	uint32_t *ins = arena_array(arena, s->value_count + 1, sizeof *ins);
	body->values = arena_array(arena, s->value_count + 1, sizeof *body->values);
	body->ins = arena_array(arena, s->value_count + 1, sizeof *body->ins);
	struct type *types = arena_array(arena, s->fold_count + 1, sizeof *types);
	static const struct type none = {.dtype = DTYPE_F64};
	if (!ins || !body->values || !body->ins || !types)
		return false;
	body->in_count = 0;
	body->value_count = s->value_count;
	memcpy(body->values, x->from->values, x->from->value_count * sizeof *body->values);
	for (size_t i = x->from->value_count; i < s->value_count; i++) /* of folds that are not needed */
		body->values[i] = (struct value){.type = &none, .dtype = DTYPE_F64, .from = FROM_PORT};
	for (uint32_t i = 0; i < s->fold_count; i++) {
		const struct instr *instr = &x->from->instrs[s->folds[i].instr];
		types[i] = fold_type(instr_fold(instr), instr->of.v, instr->of.y);
		if (instr_makes_rows(instr))
			body->values[s->folds[i].result] =
				(struct value){.type = &types[i], .dtype = DTYPE_F64, .from = FROM_INSTR, .instr = s->folds[i].instr};
	}
	for (uint32_t i = 0; i < s->value_count; i++) {
		struct value *v = &body->values[i];
		if (x->wanted[i] && is_given(x, i)) {
			v->from = FROM_PORT;
			v->port = (uint32_t)body->in_count;
			ins[body->in_count] = i;
			body->ins[body->in_count++] = (struct port){.kind = PORT_SLOT, .value = i};
		} else if (v->from == FROM_INSTR) {
			v->instr = x->now[v->instr];
		}
	}
	part->ins = ins;
	return true;
}

/* Lets a fold that makes rows of statistics make these, if it is HERE, or read them. */
static void set_statistics(struct instr *instr, const struct fold *fold, bool here)
{
	uint32_t *const statistics = instr->kind == INSTR_VJP ? &instr->l : &instr->k;
	if (here)
		instr->out = fold->result;
	else
		*statistics = fold->result;
	for (int k = 0; here && k < MAX_KEEPS; k++)
		instr->out_keep[k] = NO_VALUE;
	if (here && instr->kind == INSTR_VJP) {
		instr->k = NO_VALUE;
		instr->g = op_normalizes(instr->op) ? instr->g : NO_VALUE;
	}
}

/* Drops the results of INSTR that the part has already, or does not want. HERE: it is a fold, whose result stays. */
static void drop_unwanted(const struct extraction *x, struct instr *instr, bool here)
{
	uint32_t *const outs[] = {&instr->out, &instr->out_a, &instr->out_keep[0], &instr->out_keep[1]};
	for (size_t k = 0; k < sizeof outs / sizeof *outs; k++)
		if (*outs[k] != NO_VALUE && !(here && k == 0) && (!x->wanted[*outs[k]] || is_given(x, *outs[k])))
			*outs[k] = NO_VALUE;
}

/* Copies the instructions of the part. */
static bool copy_instructions(const struct extraction *x, struct body *body, struct arena *arena)
{
	body->instrs = arena_array(arena, x->from->instr_count + 1, sizeof *body->instrs);
	if (!body->instrs)
		return false;
	body->instr_count = 0;
	int loops = 0; /* around the instruction: a loop is taken whole */
	for (uint32_t i = 0; i < x->from->instr_count; i++) {
		x->now[i] = (uint32_t)body->instr_count;
		if (!x->taken[i])
			continue;
		struct instr *instr = &body->instrs[body->instr_count++];
		const struct fold *fold = fold_of(x->levels, i);
		*instr = x->from->instrs[i];
		loops += (instr->kind == INSTR_LOOP) - (instr->kind == INSTR_END);
		if (loops == 0 && (instr->kind == INSTR_OP || instr->kind == INSTR_VJP))
			drop_unwanted(x, instr, folds_here(x, i) != NULL);
		if (fold && instr_makes_rows(instr))
			set_statistics(instr, fold, folds_here(x, i) != NULL);
	}
	for (uint32_t i = 0; i < body->instr_count; i++) {
		struct instr *instr = &body->instrs[i];
		if (instr->kind == INSTR_LOOP || instr->kind == INSTR_END)
			instr->loop.match = x->now[instr->loop.match];
	}
	return true;
}

static bool add_outs(const struct extraction *x, struct body *body, struct body_part *part, struct arena *arena)
{
	const struct levels *s = x->levels;
	uint32_t *outs = arena_array(arena, s->value_count + 1, sizeof *outs);
	body->outs = arena_array(arena, s->value_count + 1, sizeof *body->outs);
	if (!outs || !body->outs)
		return false;
	body->out_count = 0;
	for (uint32_t i = 0; x->rows && i < s->fold_count; i++)
		if (s->folds[i].level == x->pass)
			outs[body->out_count++] = s->folds[i].result;
	for (uint32_t i = 0; i < s->body->value_count; i++)
		if (is_made_here(x, i))
			outs[body->out_count++] = i;
	for (size_t i = 0; i < body->out_count; i++)
		body->outs[i] = (struct port){.kind = PORT_SLOT, .value = outs[i]};
	part->outs = outs;
	return true;
}

static bool extract(struct extraction *x, struct arena *arena, struct body_part *part)
{
	struct body *body = arena_alloc(arena, sizeof *body);
	bool *marks = arena_array(arena, x->levels->value_count + x->from->instr_count + 1, sizeof *marks);
	x->now = arena_array(arena, x->from->instr_count + 1, sizeof *x->now);
	if (!body || !marks || !x->now)
		return false;
	x->wanted = marks;
	x->taken = marks + x->levels->value_count;
	*body = *x->from;
	part->body = body;
	take_instructions(x);
	return copy_instructions(x, body, arena) && copy_values(x, body, part, arena) && add_outs(x, body, part, arena);
}

bool levels_rows(const struct levels *levels, const struct body *body, uint32_t pass, struct arena *arena,
                 struct body_part *part)
{
	return extract(&(struct extraction){.levels = levels, .from = body, .pass = pass, .rows = true}, arena, part);
}

bool levels_between(const struct levels *levels, uint32_t pass, struct arena *arena, struct body_part *part)
{
	return extract(&(struct extraction){.levels = levels, .from = levels->body, .pass = pass}, arena, part);
}
