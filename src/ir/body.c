/*
 * Builds bodies, and answers questions about them.
 * Tests: tests/unit/test_lower.c, tests/unit/test_program.c
 */
#include "ir/body.h"

#include <string.h>

static const struct {
	const char *word;                   /* for instr_word */
	bool element;                       /* for instr_is_element */
} instrs[] = {[INSTR_OP] = {"", false}, /* depends on the operation */
              [INSTR_VJP_V] = {"vjp ", true},
              [INSTR_VJP_A] = {"vjp_operand ", true},
              [INSTR_VJP_B] = {"vjp_operand_2 ", true},
              [INSTR_VJP] = {"vjp ", false},
              [INSTR_ADD] = {"add_any", true},
              [INSTR_SUM_TO] = {"reduce_sum", false},
              [INSTR_ZERO] = {"zeros", true},
              [INSTR_ACCUMULATE] = {"accumulate", false},
              [INSTR_LOOP] = {"loop", false},
              [INSTR_WHILE] = {"while", false},
              [INSTR_END] = {"end", false},
              [INSTR_CHECK] = {"check ", false}};

const struct attrs *own_attrs(const struct particulars *own, const struct instr *instr, struct attrs *copy)
{
	size_t count;
	if (instr->own_scalar == NO_VALUE)
		return instr->attrs;
	memcpy(copy, instr->attrs, attrs_size(instr->attrs, instr->op));
	double *constants = attrs_constants(copy, instr->op, &count);
	memcpy(constants, own->scalars + instr->own_scalar, count * sizeof *constants);
	return copy;
}

void body_init(struct body *body, struct arena *arena)
{
	*body = (struct body){.arena = arena};
	arena_append(arena, &body->regions, &body->region_count, &body->region_capacity, sizeof *body->regions);
}

uint32_t body_add_value(struct body *body, const struct type *type)
{
	struct value *value =
		arena_append(body->arena, &body->values, &body->value_count, &body->value_capacity, sizeof *value);
	if (!value)
		return NO_VALUE;
	value->type = type;
	value->dtype = type->dtype;
	return (uint32_t)body->value_count - 1;
}

struct instr *body_add_instr(struct body *body, enum instr_kind kind)
{
	struct instr *instr =
		arena_append(body->arena, &body->instrs, &body->instr_count, &body->instr_capacity, sizeof *instr);
	if (!instr)
		return NULL;
	instr->kind = kind;
	instr->level = -1;
	instr->own_scalar = instr->own_stream = NO_VALUE;
	instr->v = instr->a = instr->y = instr->k = instr->l = instr->g = instr->out = instr->out_a = NO_VALUE;
	for (int i = 0; i < MAX_OPERANDS - 1; i++)
		instr->more[i] = NO_VALUE;
	for (int i = 0; i < MAX_KEEPS; i++)
		instr->out_keep[i] = NO_VALUE;
	return instr;
}

bool body_add_in(struct body *body, enum port_kind kind, uint32_t index, uint32_t value)
{
	struct port *port = arena_append(body->arena, &body->ins, &body->in_count, &body->in_capacity, sizeof *port);
	if (port)
		*port = (struct port){kind, index, value};
	return port != NULL;
}

bool body_add_out(struct body *body, enum port_kind kind, uint32_t index, uint32_t value)
{
	struct port *port = arena_append(body->arena, &body->outs, &body->out_count, &body->out_capacity, sizeof *port);
	if (port)
		*port = (struct port){kind, index, value};
	return port != NULL;
}

bool instr_is_element(const struct instr *instr)
{
	return instr->kind == INSTR_OP ? op_table[instr->op].class != OP_CLASS_GENERAL : instrs[instr->kind].element;
}

/* Removes NO_VALUE from LIST, which has COUNT values. Returns the new count. */
static size_t drop_no_values(uint32_t *list, size_t count)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (list[i] != NO_VALUE)
			list[kept++] = list[i];
	return kept;
}

uint32_t instr_indices(const struct instr *instr)
{
	const bool operation = (instr->kind == INSTR_OP && !instr_use(instr)) || instr->kind == INSTR_CHECK;
	const unsigned which = operation ? op_indices(instr->op) : 0;
	return which == NEED_V ? instr->v : which == NEED_A ? instr->a : NO_VALUE;
}

size_t instr_reads(const struct instr *instr, uint32_t reads[INSTR_READS])
{
	if (instr->kind == INSTR_CHECK) {
		reads[0] = instr_indices(instr);
		return 1;
	}
	const bool more = !instr_use(instr);
	const uint32_t values[INSTR_VALUES] = {instr->v,
	                                       instr->a,
	                                       instr->y,
	                                       instr->k,
	                                       instr->l,
	                                       instr->g,
	                                       more ? instr->more[0] : NO_VALUE,
	                                       more ? instr->more[1] : NO_VALUE};
	memcpy(reads, values, sizeof values);
	if (instr_use(instr))
		memcpy(reads + INSTR_VALUES, instr_use(instr)->operands, instr_use(instr)->count * sizeof *reads);
	return drop_no_values(reads, INSTR_VALUES + (instr_use(instr) ? instr_use(instr)->count : 0));
}

size_t instr_writes(const struct instr *instr, uint32_t writes[INSTR_WRITES])
{
	memcpy(writes, (uint32_t[4]){instr->out, instr->out_a, instr->out_keep[0], instr->out_keep[1]}, 4 * sizeof *writes);
	if (instr_use(instr) && instr->kind == INSTR_VJP)
		memcpy(writes + 4, instr_use(instr)->outs, instr_use(instr)->count * sizeof *writes);
	return drop_no_values(writes, instr_use(instr) && instr->kind == INSTR_VJP ? 4 + instr_use(instr)->count : 4);
}

static bool collects(const struct instr *instr) { return instr->kind == INSTR_OP && instr->op == OP_COLLECT; }

/* Returns the first instruction of the loop of a fixed_point that instruction AT ends, if nothing WANTED is left by it; else AT. */
static size_t begin_of_unread(const struct body *body, size_t at, const bool *wanted)
{
	const struct instr *end = &body->instrs[at];
	if (end->kind != INSTR_END)
		return at;
	const struct loop_part *loop = &body->instrs[end->loop.match].loop;
	const struct instr *next = &body->instrs[end->loop.match + 1];
	bool read = next->kind != INSTR_WHILE || (next->op != OP_SOLUTION && next->op != OP_IMPLICIT);
	for (uint32_t k = 0; k < loop->carry_count; k++)
		read |= wanted[loop->carries[k].final];
	return read ? at : end->loop.match;
}

/*
 * Does as body_find_live. Unless CHECKED is NULL, sets those of its elements to false whose instructions cannot become CHECKs:
 * they are live, for an out or for the indices of a later CHECK, or read no indices.
 */
static bool *find_live(const struct body *body, bool *checked, struct arena *arena)
{
	int depth = 0;
	bool *const wanted = arena_array(arena, body->value_count + 1, sizeof *wanted);
	bool *const live = arena_array(arena, body->instr_count + 1, sizeof *live);
	if (!wanted || !live)
		return NULL;
	for (size_t i = 0; i < body->out_count; i++)
		wanted[body->outs[i].value] = true;
	for (size_t i = body->instr_count; i-- > 0;) {
		const struct instr *instr = &body->instrs[i];
		uint32_t list[INSTR_READS], made[INSTR_WRITES];
		const size_t begin = begin_of_unread(body, i, wanted);
		if (begin < i) {
			for (; checked && i > begin; i--)
				checked[i] = false;
			i = begin;
			continue;
		}
		depth += instr->kind == INSTR_END;
		for (uint32_t k = 0; instr->kind == INSTR_END && k < instr->loop.carry_count; k++)
			wanted[instr->loop.carries[k].result] = true;
		live[i] = (depth > 0 && !collects(instr)) || instr->kind == INSTR_ACCUMULATE || instr->kind == INSTR_CHECK;
		size_t n = instr_writes(instr, made);
		for (size_t k = 0; k < n; k++)
			live[i] |= wanted[made[k]];
		if (checked)
			checked[i] &= !live[i] && instr_indices(instr) != NO_VALUE;
		if (checked && checked[i])
			wanted[instr_indices(instr)] = true;
		n = live[i] ? instr_reads(instr, list) : 0;
		for (size_t k = 0; k < n; k++)
			wanted[list[k]] = true;
		if (instr->kind != INSTR_LOOP)
			continue;
		depth--;
		for (uint32_t k = 0; k < instr->loop.carry_count; k++)
			wanted[instr->loop.carries[k].init] = wanted[instr->loop.carries[k].result] = true;
	}
	return live;
}

bool *body_find_live(const struct body *body, struct arena *arena) { return find_live(body, NULL, arena); }

bool body_check_indices(struct body *body, bool *wanted, struct arena *arena)
{
	const bool *live = find_live(body, wanted, arena);
	for (size_t i = 0; live && i < body->instr_count; i++) {
		struct instr *instr = &body->instrs[i];
		if (!wanted[i])
			continue;
		instr->kind = INSTR_CHECK;
		instr->out = instr->out_keep[0] = instr->out_keep[1] = NO_VALUE;
	}
	return live != NULL;
}

uint32_t body_goes_on(const struct body *body, uint32_t value)
{
	const struct value *out = &body->values[value];
	const struct instr *made = out->from == FROM_INSTR ? &body->instrs[out->instr] : NULL;
	const bool adds = made && made->kind == INSTR_VJP && made->op == OP_slice;
	if (!made || (!adds && !collects(made)) || made->a == NO_VALUE)
		return NO_VALUE;
	return body->values[made->a].from == FROM_PORT ? body->values[made->a].port : NO_VALUE;
}

bool body_collects(const struct body *body, uint32_t value)
{
	const struct value *out = &body->values[value];
	const struct instr *made = out->from == FROM_INSTR ? &body->instrs[out->instr] : NULL;
	return made && collects(made) && (made->a == NO_VALUE || body->values[made->a].from == FROM_PORT);
}

/* True if anything but READER, unless that is NULL, reads VALUE: an instruction, a loop that carries it, or an out but OUT. */
static bool has_other_reader(const struct body *body, uint32_t value, const struct instr *reader, size_t out)
{
	bool found = reader && reader->v == value;
	for (size_t i = 0; i < body->out_count; i++)
		found |= body->outs[i].value == value && i != out;
	for (size_t i = 0; i < body->instr_count && !found; i++) {
		const struct instr *instr = &body->instrs[i];
		uint32_t list[INSTR_READS];
		const size_t count = instr != reader ? instr_reads(instr, list) : 0;
		for (size_t k = 0; k < count; k++)
			found |= list[k] == value;
		for (uint32_t k = 0; instr->kind == INSTR_LOOP && k < instr->loop.carry_count; k++)
			found |= instr->loop.carries[k].init == value || instr->loop.carries[k].result == value;
	}
	return found;
}

enum dtype body_dtype_written(const struct body *body, uint32_t value)
{
	const struct value *v = &body->values[value];
	const struct instr *made = v->from == FROM_INSTR ? &body->instrs[v->instr] : NULL;
	if (made && made->kind == INSTR_OP && made->op == OP_identity)
		return body_dtype_written(body, made->v);
	return made && made->kind == INSTR_OP && made->op == OP_cast ? v->dtype : dtype_written(v->dtype);
}

bool body_only_collects(const struct body *body, size_t out)
{
	const struct instr *reader = NULL;
	for (uint32_t value = body->outs[out].value; value != NO_VALUE; value = reader->a) {
		const struct value *array = &body->values[value];
		const struct instr *made = array->from == FROM_INSTR ? &body->instrs[array->instr] : NULL;
		const size_t own = reader ? body->out_count : out;
		if (!made || !collects(made) || has_other_reader(body, value, reader, own))
			return false;
		reader = made;
	}
	return true;
}

static bool carry_is_read(const struct carry *carry, const bool *read)
{
	return read[carry->inner] || read[carry->final];
}

/* A derivative shows by the value that it reads with the cotangent, V, A or Y, whether its rows are streamed. */
static bool derivative_folds(const struct body *body, const struct instr *instr)
{
	const uint32_t seen = op_normalizes(instr->op) ? instr->y : instr->v != NO_VALUE ? instr->v : instr->a;
	const bool reads = instr->l == NO_VALUE && seen != NO_VALUE && body->values[seen].streamed;
	if (instr_use(instr) || !reads || !op_folds_back(instr->op))
		return false;
	const enum scope scope = op_scope(instr->op, instr->attrs, instr->of.v, instr->of.a, instr->a_streamed);
	return scope == SCOPE_FOLD || scope == SCOPE_NORM;
}

int64_t instr_state(const struct instr *instr)
{
	return fold_parts(instr_fold(instr)) * fold_count(instr->op, instr->of.v, instr->of.y);
}

bool body_folds(const struct body *body, const struct instr *instr)
{
	if (instr->kind == INSTR_VJP)
		return derivative_folds(body, instr);
	if (instr->kind != INSTR_OP || instr_use(instr) || !body->values[instr->v].streamed)
		return false;
	if (op_normalizes(instr->op))
		return instr->k == NO_VALUE && op_scope(instr->op, instr->attrs, instr->of.v, NULL, false) == SCOPE_NORM;
	return op_folds(instr->op) && instr->out != NO_VALUE && !body->values[instr->out].streamed;
}

bool body_drop_carries(struct body *body)
{
	bool *read = arena_array(body->arena, body->value_count + 1, sizeof *read);
	if (!read)
		return false;
	for (size_t i = 0; i < body->out_count; i++)
		read[body->outs[i].value] = true;
	for (size_t i = 0; i < body->instr_count; i++) {
		uint32_t list[INSTR_READS];
		const size_t count = instr_reads(&body->instrs[i], list);
		for (size_t k = 0; k < count; k++)
			read[list[k]] = true;
	}
	for (bool again = true; again;) { /* a carry that is read makes its init and result read */
		again = false;
		for (size_t i = body->instr_count; i-- > 0;) {
			const struct instr *end = &body->instrs[i];
			for (uint32_t k = 0; end->kind == INSTR_END && k < end->loop.carry_count; k++) {
				const struct carry *carry = &end->loop.carries[k];
				if (!carry_is_read(carry, read) || (read[carry->init] && read[carry->result]))
					continue;
				again = read[carry->init] = read[carry->result] = true;
			}
		}
	}
	for (size_t i = 0; i < body->instr_count; i++) {
		struct loop_part *loop = &body->instrs[i].loop;
		if (body->instrs[i].kind != INSTR_LOOP)
			continue;
		uint32_t count = 0;
		for (uint32_t k = 0; k < loop->carry_count; k++)
			if (carry_is_read(&loop->carries[k], read))
				loop->carries[count++] = loop->carries[k];
		loop->carry_count = body->instrs[loop->match].loop.carry_count = count;
	}
	return true;
}

const char *instr_word(enum instr_kind kind) { return instrs[kind].word; }

const char *instr_written(const struct instr *instr, const struct source *source, struct span span)
{
	char word[32];
	const size_t length = span.end - span.begin;
	if (length >= sizeof word || span.end > source->length)
		return instr_name(instr);
	memcpy(word, source->text + span.begin, length);
	word[length] = '\0';
	const enum op op = instr_use(instr) ? OP_COUNT : op_find(word);
	return op != OP_COUNT ? op_table[op].name : instr_name(instr);
}
