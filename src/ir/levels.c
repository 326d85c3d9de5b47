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

static void see_needed(void *context, uint32_t value)
{
	struct visit *visit = context;
	visit->needed |= visit->levels->needed[value];
}

static void need(void *context, uint32_t value) { ((const struct visit *)context)->levels->needed[value] = true; }

/* Marks a result that the unit reads, if it exists before the unit's part begins. */
static void pass_on(void *context, uint32_t value)
{
	const struct visit *visit = context;
	const struct levels *s = visit->levels;
	if (!s->rows[value] && s->level[value] > 0 && (visit->rows || visit->level > s->level[value]))
		s->passed[value] = true;
}

/* Sets level and rows of all values, and lists all folds. */
static void find_reach(struct levels *s)
{
	const struct body *body = s->body;
	uint32_t norms = 0;
	for (uint32_t i = 0; i < body->value_count; i++)
		s->rows[i] = body->values[i].from == FROM_PORT;
	for (struct unit unit = {0, 0}; unit.first < body->instr_count; unit.first = unit.last + 1) {
		const struct instr *instr = &body->instrs[unit.first];
		unit = unit_from(body, unit.first);
		struct visit visit = {.levels = s};
		each_read(body, unit, see_reach, &visit);
		if (body_folds(body, instr)) {
			const bool norm = op_normalizes(instr->op);
			const uint32_t result = norm ? (uint32_t)body->value_count + norms++ : instr->out;
			s->folds[s->fold_count++] = (struct fold){unit.first, ++visit.level, result};
			s->level[result] = visit.level;
			s->rows[result] = false;
			visit.rows = norm;
		}
		each_made(body, unit, set_reach, &visit);
	}
}

static const struct fold *fold_of(const struct levels *s, uint32_t instr)
{
	for (uint32_t i = 0; i < s->fold_count; i++)
		if (s->folds[i].instr == instr)
			return &s->folds[i];
	return NULL;
}

/* Sets needed and passed, and keeps the folds that are needed. */
static void find_needed(struct levels *s)
{
	const struct body *body = s->body;
	const uint32_t output = body->outs[0].value;
	s->needed[output] = true;
	s->passed[output] = !s->rows[output] && s->level[output] > 0;
	for (uint32_t i = (uint32_t)body->instr_count; i > 0;) {
		const struct unit unit = unit_to(body, i - 1);
		struct visit visit = {.levels = s};
		each_made(body, unit, see_needed, &visit);
		if (visit.needed) {
			const struct fold *fold = fold_of(s, unit.first);
			each_read(body, unit, see_reach, &visit);
			each_read(body, unit, need, &visit);
			each_read(body, unit, pass_on, &visit);
			if (fold)
				s->needed[fold->result] = s->passed[fold->result] = true;
		}
		i = unit.first;
	}
	uint32_t kept = 0;
	for (uint32_t i = 0; i < s->fold_count; i++)
		if (s->needed[s->folds[i].result])
			s->folds[kept++] = s->folds[i];
	s->fold_count = kept;
	for (uint32_t i = 0; i < kept; i++)
		s->count = s->folds[i].level > s->count ? s->folds[i].level : s->count;
	s->last = s->rows[output];
}

bool levels_find(struct levels *s, const struct lowered *lowered, struct arena *arena)
{
	const struct body *body = lowered->whole;
	uint32_t folds = 0, norms = 0;
	for (size_t i = 0; i < body->instr_count; i++) {
		folds += body_folds(body, &body->instrs[i]);
		norms += body_folds(body, &body->instrs[i]) && op_normalizes(body->instrs[i].op);
	}
	const size_t count = body->value_count + norms;
	*s = (struct levels){.body = body, .value_count = (uint32_t)count};
	s->folds = arena_array(arena, folds + 1, sizeof *s->folds);
	s->level = arena_array(arena, count, sizeof *s->level);
	bool *marks = arena_array(arena, 3 * count, sizeof *marks);
	if (!s->folds || !s->level || !marks)
		return false;
	s->rows = marks;
	s->needed = marks + count;
	s->passed = s->needed + count;
	find_reach(s);
	find_needed(s);
	return true;
}

bool levels_fit(const struct levels *s, const struct body *body)
{
	bool fit = body->instr_count == s->body->instr_count && body->value_count == s->body->value_count;
	for (size_t i = 0; fit && i < body->instr_count; i++) {
		const struct instr *a = &body->instrs[i], *b = &s->body->instrs[i];
		fit = a->kind == b->kind && a->op == b->op && a->v == b->v && a->a == b->a && a->out == b->out;
	}
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
	if (x->rows)
		return x->pass > s->count && value == x->from->outs[0].value;
	return s->passed[value] && s->level[value] == x->pass && !is_fold_result(s, value);
}

/* Returns the fold that instruction INDEX is in this part, or NULL. */
static const struct fold *folds_here(const struct extraction *x, uint32_t index)
{
	const struct fold *fold = x->rows ? fold_of(x->levels, index) : NULL;
	return fold && fold->level == x->pass ? fold : NULL;
}

static void want(void *context, uint32_t value) { ((const struct extraction *)context)->wanted[value] = true; }

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
		struct wanted_visit visit = {x, here != NULL};
		each_made(x->from, unit, see_wanted, &visit);
		for (uint32_t k = unit.first; visit.wanted && k <= unit.last; k++)
			x->taken[k] = true;
		if (visit.wanted)
			each_read(x->from, unit, want, x);
		if (visit.wanted && !here && fold_of(s, unit.first))
			x->wanted[fold_of(s, unit.first)->result] = true;
		i = unit.first;
	}
}

/* Copies the values to the part's body, with those of NORMs, and makes ports of the given ones. */
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
	for (size_t i = x->from->value_count; i < s->value_count; i++) /* of NORMs that the output does not depend on */
		body->values[i] = (struct value){.type = &none, .dtype = DTYPE_F64, .from = FROM_PORT};
	for (uint32_t i = 0; i < s->fold_count; i++) {
		const struct instr *instr = &x->from->instrs[s->folds[i].instr];
		types[i] = fold_type(instr->op, instr->of.v, instr->of.y);
		if (op_normalizes(instr->op))
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

/* Copies the instructions of the part. A NORM becomes a fold, or reads its statistics. */
static bool copy_instructions(const struct extraction *x, struct body *body, struct arena *arena)
{
	body->instrs = arena_array(arena, x->from->instr_count + 1, sizeof *body->instrs);
	if (!body->instrs)
		return false;
	body->instr_count = 0;
	for (uint32_t i = 0; i < x->from->instr_count; i++) {
		x->now[i] = (uint32_t)body->instr_count;
		if (!x->taken[i])
			continue;
		struct instr *instr = &body->instrs[body->instr_count++];
		const struct fold *fold = fold_of(x->levels, i);
		*instr = x->from->instrs[i];
		if (fold && op_normalizes(instr->op)) {
			const bool here = folds_here(x, i) != NULL;
			instr->out = here ? fold->result : instr->out;
			instr->k = here ? NO_VALUE : fold->result;
		}
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
