/*
 * Lowers terms (language/chain.h): a value, and nodes that are applied to it one after another. A term has the
 * instructions, in the order and at the places, of the stages that say the same.
 *
 * Numbers stay numbers as long as only numbers meet. A number before an array exchanges the operands: 1 - u becomes
 * `rsub 1` on u. A value without the input's rows before one that has them exchanges them too, so that tiles can cut the
 * rows. The bits are the same.
 *
 * A chain is streamable up to a sum if only the sum's result is read after it (note_scope in lower_stage.c). So a term that
 * begins elsewhere, or that sums in an operand, is not streamable.
 * Tests: tests/unit/test_lower.c, tests/cases/formulas.test
 */
#include "ir/lowering.h"

#include <math.h>
#include <string.h>

void lowering_find_swapped(struct lowering *l)
{
	static const struct {
		const char *of, *swapped;
	} rows[] = {{"add", "add"},  {"mul", "mul"},  {"max", "max"},  {"min", "min"},  {"sub", "rsub"}, {"rsub", "sub"},
	            {"div", "rdiv"}, {"rdiv", "div"}, {"pow", "rpow"}, {"rpow", "pow"}, {"lt", "gt"},    {"gt", "lt"},
	            {"le", "ge"},    {"ge", "le"},    {"eq", "eq"},    {"ne", "ne"},    {"and", "and"},  {"or", "or"}};
	for (int op = 0; op < OP_COUNT; op++)
		l->swapped[op] = OP_COUNT;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const enum op op = op_find(rows[i].of);
		if (op != OP_COUNT)
			l->swapped[op] = op_find(rows[i].swapped);
	}
}

enum status lowering_value_of(struct lowering *l, const struct found *found, struct span span, uint32_t *value)
{
	switch (found->kind) {
	case FOUND_NONE:
	case FOUND_NUMBER:
		TRY(lowering_add_constant(l, found->number, chain_computing_type(l->chain, l->out->input.dtype), span, value));
		l->body->values[*value].weak = true;
		return STATUS_OK;
	case FOUND_VALUE:
		*value = found->value;
		break;
	case FOUND_PARAM:
		*value = lowering_param(l, &found->param);
		break;
	case FOUND_COUNTER:
		return lowering_add_counter(l, found, span, value);
	case FOUND_BLOCK:
		return lower_block_operand(l, found, value);
	}
	TRY_ALLOC(*value != NO_VALUE, l->context->diags);
	return STATUS_OK;
}

static void set_value(struct found *found, uint32_t value)
{
	*found = (struct found){.kind = FOUND_VALUE, .value = value};
}

/* Notes that a value is read that is no result of what came before it: after a sum, tiles would each have it. */
static void note_head(struct lowering *l, const struct ref *ref)
{
	if (l->streaming.folds && ref->kind != REF_CURRENT)
		l->streaming.streamable = false;
}

/* True if V and A, arrays, are exchanged: V lacks the rows that A has, or would decide the type though it is weak. */
static bool exchanges(const struct lowering *l, uint32_t v, uint32_t a)
{
	const struct value *values = l->body->values;
	if (values[v].streamed != values[a].streamed)
		return values[a].streamed;
	return values[v].weak && !values[a].weak;
}

/* Applies NODE, an element-wise operation with an operand, to NOW. */
static enum status apply_binary(struct lowering *l, const struct node *node, struct found *now)
{
	struct found operand;
	struct node applied = *node;
	TRY(lowering_find_ref(l, &node->operand, &operand));
	const bool number = operand.kind == FOUND_NUMBER;
	double result;
	if (now->kind == FOUND_NUMBER && number && op_of_numbers(node->op, now->number, &operand.number, &result)) {
		now->number = result;
		return STATUS_OK;
	}
	const enum op swapped = l->swapped[node->op];
	uint32_t v, a;
	if (!number) {
		TRY(lowering_value_of(l, &operand, node->operand.span, &a));
		set_value(&operand, a);
	}
	if (now->kind == FOUND_NUMBER && !number && swapped != OP_COUNT) {
		note_head(l, &node->operand);
		applied.op = swapped;
		l->held_operand = *now;
		v = a;
	} else {
		TRY(lowering_value_of(l, now, node->span, &v));
		l->held_operand = operand;
		if (!number && swapped != OP_COUNT && exchanges(l, v, a)) {
			applied.op = swapped;
			set_value(&l->held_operand, v);
			v = a;
		}
	}
	applied.operand = (struct ref){.kind = REF_HELD, .span = node->operand.span};
	TRY(lowering_op(l, &applied, v, &a));
	set_value(now, a);
	return STATUS_OK;
}

/* where. */

static bool is_where(const struct node *node) { return node->kind == NODE_OP && node->op == OP_where; }

/* Makes FOUND an array, unless it is a number. */
static enum status array_of_found(struct lowering *l, struct found *found, struct span span)
{
	uint32_t value;
	if (found->kind == FOUND_NUMBER)
		return STATUS_OK;
	TRY(lowering_value_of(l, found, span, &value));
	set_value(found, value);
	return STATUS_OK;
}

static bool found_streams(const struct lowering *l, const struct found *found)
{
	return found->kind == FOUND_VALUE && l->body->values[found->value].streamed;
}

static bool is_active(const struct lowering *l, const struct found *found)
{
	return found->kind == FOUND_VALUE && l->body->values[found->value].active;
}

/* Applies the operation OP, with the operand A (NULL: none), for NODE to *VALUE. */
static enum status apply_condition(struct lowering *l, const struct node *node, enum op op, const struct found *a,
                                   struct found *value)
{
	struct node made = {.kind = NODE_OP, .span = node->span, .op = op};
	struct attrs attrs;
	uint32_t v = value->value;
	if (value->kind == FOUND_NUMBER) { /* `not` */
		value->number = value->number == 0;
		return STATUS_OK;
	}
	memset(&attrs, 0, sizeof attrs); /* bytes are compared */
	attrs_default(&attrs, op);
	made.attrs = byte_set_keep(&l->kept, &attrs, attrs_size(&attrs, op), NULL);
	TRY_ALLOC(made.attrs, l->context->diags);
	if (a) {
		l->held_operand = *a;
		made.operand = (struct ref){.kind = REF_HELD, .span = node->span};
	}
	TRY(lowering_op(l, &made, v, &v));
	set_value(value, v);
	return STATUS_OK;
}

/* Applies NODE, a `where`, to V, an array, with the condition C and the second choice B. *RESULT may be V, C or B. */
static enum status apply_choice(struct lowering *l, const struct node *node, const struct found *v,
                                const struct found *c, const struct found *b, struct found *result)
{
	struct ref other = {.kind = REF_HELD, .index = 1, .span = node->more[0].span};
	struct node made = *node;
	uint32_t value = v->value;
	l->held_operand = *c;
	l->held_other = *b;
	made.operand = (struct ref){.kind = REF_HELD, .span = node->operand.span};
	made.more = &other;
	TRY(lowering_op(l, &made, value, &value));
	set_value(result, value);
	return STATUS_OK;
}

/* Returns the dtype of a choice between A and B, arrays or numbers. *WEAK: it yields to that of an array that the choice meets. */
static enum dtype choice_dtype(const struct lowering *l, const struct found *a, const struct found *b, bool *weak)
{
	const struct found *both[] = {a, b};
	enum dtype dtype = DTYPE_COUNT;
	for (int i = 0; i < 2; i++) {
		const struct value *value = both[i]->kind == FOUND_VALUE ? &l->body->values[both[i]->value] : NULL;
		if (!value || value->weak)
			continue;
		const enum dtype own = dtype_is_integer(value->dtype) ? l->chain->integers : value->dtype;
		dtype = dtype == DTYPE_COUNT ? own : dtype_promote(dtype, own);
	}
	*weak = dtype == DTYPE_COUNT;
	return *weak ? chain_computing_type(l->chain, l->out->input.dtype) : dtype;
}

/*
 * Applies NODE, a `where`, to NOW, its first choice. A first choice that lacks rows would make all rows meet:
 *
 *     where(c, 1, b)     is where(not c, b, 1) if b has the rows. NaN is true, and `not` of it is 0.
 *     where(c, 1, 2)     begins with the condition as 1 or 0 if that alone has the rows: 1 replaces it where c holds, and
 *                        2 elsewhere.
 */
static enum status apply_where(struct lowering *l, const struct node *node, struct found *now)
{
	struct found c, b;
	const enum op not = op_find("not"), ne = op_find("ne");
	l->guards++;
	TRY(lowering_find_ref(l, &node->operand, &c));
	TRY(array_of_found(l, &c, node->operand.span));
	TRY(lowering_find_ref(l, &node->more[0], &b));
	TRY(array_of_found(l, &b, node->more[0].span));
	l->guards--;
	if (now->kind == FOUND_NUMBER && c.kind == FOUND_NUMBER && b.kind == FOUND_NUMBER) {
		now->number = c.number != 0 ? now->number : b.number;
		return STATUS_OK;
	}
	TRY(array_of_found(l, now, node->span));
	const struct value *values = l->body->values;
	const bool weak = now->kind == FOUND_NUMBER || values[now->value].weak;
	const bool exchanges = b.kind == FOUND_VALUE && !found_streams(l, now) &&
	                       (values[b.value].streamed || (weak && !values[b.value].weak && !found_streams(l, &c)));
	struct found inverse = c;
	if (exchanges) {
		TRY(apply_condition(l, node, not, NULL, &inverse));
		return apply_choice(l, node, &b, &inverse, now, now);
	}
	if (!found_streams(l, now) && found_streams(l, &c)) {
		struct found chosen = c;
		bool yields;
		const enum dtype dtype = choice_dtype(l, now, &b, &yields);
		TRY(apply_condition(l, node, ne, &(struct found){.kind = FOUND_NUMBER}, &chosen));
		TRY(lowering_convert(l, &chosen.value, dtype, node->span));
		l->body->values[chosen.value].weak = yields;
		TRY(apply_condition(l, node, not, NULL, &inverse));
		/* A choice between values without a derivative keeps no mask, so it comes first. */
		const struct found first = *now;
		if (is_active(l, now) && !is_active(l, &b)) {
			TRY(apply_choice(l, node, &chosen, &c, &b, now));
			return apply_choice(l, node, now, &inverse, &first, now);
		}
		TRY(apply_choice(l, node, &chosen, &inverse, &first, now));
		return apply_choice(l, node, now, &c, &b, now);
	}
	if (now->kind == FOUND_NUMBER) {
		uint32_t v;
		TRY(lowering_value_of(l, now, node->span, &v));
		set_value(now, v);
	}
	return apply_choice(l, node, now, &c, &b, now);
}

/* Indices. */

enum status lowering_number(struct lowering *l, const struct ref *ref, const char *what, double *number)
{
	struct found found;
	const bool numeric = l->numeric;
	const struct span span = ref->span;
	l->numeric = true;
	TRY(lowering_find_ref(l, ref, &found));
	l->numeric = numeric;
	if (found.kind != FOUND_NUMBER)
		return LOWERING_FAIL(l, STATUS_CHAIN, span,
		                     found.kind == FOUND_COUNTER
		                         ? "%s is one number for all iterations, and '%.*s' differs in each"
		                         : "%s is a number, and '%.*s' is none in this call",
		                     what, (int)(span.end - span.begin), l->chain->source->text + span.begin);
	*number = found.number;
	return STATUS_OK;
}

/* Sets ARGUMENT of a slice to REF, an integer; leaves it if REF is REF_NONE. */
static enum status set_bound(struct lowering *l, struct attrs *attrs, const char *argument, const struct ref *ref)
{
	double number;
	struct complaint complaint = {.arena = l->context->arena};
	if (ref->kind == REF_NONE)
		return STATUS_OK;
	TRY(lowering_number(l, ref, "an index", &number));
	const struct argument value = argument_of_double(number);
	if (attrs_set(attrs, OP_slice, argument, -1, &value, &complaint) == STATUS_OK)
		return STATUS_OK;
	TRY_ALLOC(complaint.message, l->context->diags);
	return LOWERING_FAIL(l, STATUS_CHAIN, ref->span, "an index is an integer, not %.17g", number);
}

/* Applies the operation OP with ATTRS, for NODE, to *VALUE. */
static enum status apply_shaping(struct lowering *l, const struct node *node, enum op op, const struct attrs *attrs,
                                 uint32_t *value)
{
	struct operands in = operands_of(*value, NO_VALUE);
	return lowering_put_op(l, node, op, attrs, &in, value);
}

/* Takes the part of *VALUE along AXIS whose index is BY, the counter of a loop, which REF names. */
static enum status take_counted(struct lowering *l, const struct node *node, const struct ref *ref,
                                const struct found *by, int axis, uint32_t *value)
{
	const struct value array = l->body->values[*value];
	struct attrs attrs;
	TRY(lowering_check_counter(l, ref, by, array.type->shape.dim[axis], array.type));
	memset(&attrs, 0, sizeof attrs); /* bytes are compared */
	attrs_default(&attrs, OP_slice);
	attrs.axis[0] = axis;
	attrs.start = (struct slice_bound){true, by->counter.value};
	attrs.stop = (struct slice_bound){true, by->counter.value + 1};
	if (array.streamed && axis == 0)
		lowering_need_whole(l, node->span, "it reads one row");
	TRY(apply_shaping(l, node, OP_slice, &attrs, value));
	l->body->instrs[l->body->instr_count - 1].level = by->counter.loop;
	return STATUS_OK;
}

/* Takes PART of *VALUE along AXIS. */
static enum status take_part(struct lowering *l, const struct node *node, const struct index_bounds *part, int axis,
                             uint32_t *value)
{
	struct attrs attrs;
	memset(&attrs, 0, sizeof attrs); /* bytes are compared */
	attrs_default(&attrs, OP_slice);
	attrs.axis[0] = axis;
	if (part->kind == INDEX_SLICE) {
		TRY(set_bound(l, &attrs, "start", &part->begin));
		TRY(set_bound(l, &attrs, "stop", &part->stop));
		TRY(set_bound(l, &attrs, "step", &part->step));
		if (!attrs.start.given && !attrs.stop.given && attrs.step == 1)
			return STATUS_OK;
		return apply_shaping(l, node, OP_slice, &attrs, value);
	}
	const struct type *type = l->body->values[*value].type;
	const int64_t extent = type->shape.dim[axis];
	struct found by;
	char text[TYPE_TEXT];
	if (part->begin.kind == REF_COUNTER || part->begin.kind == REF_ARGUMENT) {
		TRY(lowering_find_ref(l, &part->begin, &by));
		if (by.kind == FOUND_COUNTER)
			return take_counted(l, node, &part->begin, &by, axis, value);
	}
	TRY(set_bound(l, &attrs, "start", &part->begin));
	if (attrs.start.at >= extent || attrs.start.at < -extent)
		return LOWERING_FAIL(l, STATUS_CHAIN, part->begin.span, "index %lld is out of range for axis %d of %s",
		                     (long long)attrs.start.at, axis, type_format(type, text));
	attrs.start.at += attrs.start.at < 0 ? extent : 0;
	attrs.stop = (struct slice_bound){true, attrs.start.at + 1};
	return apply_shaping(l, node, OP_slice, &attrs, value);
}

/* Returns the number of axes that the index NODE has parts for, the `...` left out. */
static int count_axes(const struct node *node)
{
	int axes = 0;
	for (size_t i = 0; i < node->bound_count; i++)
		axes += node->bounds[i].kind == INDEX_AT || node->bounds[i].kind == INDEX_SLICE;
	return axes;
}

/*
 * Sets *MADE to SHAPE, that of NODE's slices, without the axes of single elements and with the new ones. False if it has
 * more than MAX_DIMS.
 */
static bool indexed_shape(const struct node *node, const struct shape *shape, struct shape *made)
{
	int axis = 0, ndim = 0;
	int64_t dims[2 * MAX_DIMS];
	const int rest = shape->ndim - count_axes(node);
	for (size_t i = 0; i <= node->bound_count && ndim <= MAX_DIMS; i++) {
		const enum index_kind kind = i < node->bound_count ? node->bounds[i].kind : INDEX_REST;
		if (kind == INDEX_NEW)
			dims[ndim++] = 1;
		else if (kind == INDEX_SLICE)
			dims[ndim++] = shape->dim[axis++];
		else if (kind == INDEX_AT)
			axis++;
		for (int left = i < node->bound_count ? rest : shape->ndim - axis; kind == INDEX_REST && left > 0; left--)
			dims[ndim++] = shape->dim[axis++];
	}
	made->ndim = ndim;
	for (int i = 0; i < ndim && ndim <= MAX_DIMS; i++)
		made->dim[i] = dims[i];
	return ndim <= MAX_DIMS;
}

/* Applies NODE, an index: a slice for each part, and a reshape that drops the axes of single elements and adds new ones. */
static enum status apply_parts(struct lowering *l, const struct node *node, uint32_t *value)
{
	const struct type first = *l->body->values[*value].type;
	const int axes = count_axes(node);
	int axis = 0;
	bool reshapes = false;
	char text[TYPE_TEXT];
	if (axes > first.shape.ndim)
		return LOWERING_FAIL(l, STATUS_CHAIN, node->span, "an index of %d ax%s for %s", axes, axes == 1 ? "is" : "es",
		                     type_format(&first, text));
	for (size_t i = 0; i < node->bound_count; i++) {
		const enum index_kind kind = node->bounds[i].kind;
		reshapes |= kind == INDEX_AT || kind == INDEX_NEW;
		if (kind == INDEX_REST)
			axis += first.shape.ndim - axes;
		else if (kind != INDEX_NEW)
			TRY(take_part(l, node, &node->bounds[i], axis++, value));
	}
	if (!reshapes)
		return STATUS_OK;
	struct attrs attrs;
	memset(&attrs, 0, sizeof attrs); /* bytes are compared */
	attrs_default(&attrs, OP_reshape);
	if (!indexed_shape(node, &l->body->values[*value].type->shape, &attrs.shape))
		return LOWERING_FAIL(l, STATUS_LIMIT, node->span, "more than %d dimensions", MAX_DIMS);
	return apply_shaping(l, node, OP_reshape, &attrs, value);
}

/* Terms. */

/* Applies NODE to NOW. */
static enum status apply_node(struct lowering *l, const struct node *node, struct found *now)
{
	const bool operation = node->kind == NODE_OP;
	double result;
	uint32_t value;
	if (operation && op_table[node->op].class == OP_CLASS_BINARY)
		return apply_binary(l, node, now);
	if (operation && now->kind == FOUND_NUMBER && !node->deferred &&
	    op_of_numbers(node->op, now->number, NULL, &result)) {
		now->number = result;
		return STATUS_OK;
	}
	if (is_where(node))
		return apply_where(l, node, now);
	TRY(lowering_value_of(l, now, node->span, &value));
	if (node->kind == NODE_INDEX)
		TRY(apply_parts(l, node, &value));
	else if (node->kind == NODE_CALL)
		TRY(lowering_call(l, node, &value));
	else if (node->kind == NODE_PROGRAM)
		TRY(lower_program(l, node, value, &value));
	else
		TRY(lowering_op(l, node, value, &value));
	set_value(now, value);
	return STATUS_OK;
}

enum status lowering_term(struct lowering *l, const struct term *term, struct found *found)
{
	const struct found around = l->held_operand;
	struct found held = {.kind = FOUND_NONE};
	if (term->before.kind != REF_NONE)
		TRY(lowering_find_ref(l, &term->before, &held));
	note_head(l, &term->value);
	for (const struct node *node = term->first; node; node = node->next)
		l->guards += is_where(node); /* what is before it is its first choice */
	TRY(lowering_find_ref(l, &term->value, found));
	for (const struct node *node = term->first; node; node = node->next) {
		l->guards -= is_where(node);
		l->held_operand = held;
		TRY(apply_node(l, node, found));
	}
	l->held_operand = around;
	return STATUS_OK;
}
