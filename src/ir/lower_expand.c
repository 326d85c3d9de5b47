/*
 * Operations that are put together from others: einsum and outer. So their derivatives, tiles and residuals are those of
 * the others. The operands of a tridiagonal are broadcast here, too.
 *
 * einsum contracts its operands pair by pair, in the order that multiplies least. An axis that one operand has alone is
 * summed before. Axes that both have and that stay are the batch of a product; what is contracted is its inner axis. A pair
 * without inner axes, or with them alone, is multiplied element by element.
 *
 * The order follows from the extents of whole arrays, so a tile has the operations of the whole.
 * Tests: tests/cases/einsum.test
 */
#include "ir/lowering.h"

#include <string.h>

#include "base/checked.h"
#include "ops/subscripts.h"

/* An array, or the shape of one, with a label for each axis. SET has a bit for each label, as all sets here. */
struct labelled {
	uint32_t value;
	uint64_t set;
	int ndim;
	unsigned char label[MAX_DIMS];
};

struct expansion {
	struct lowering *l;
	const struct node *stage;
	int64_t extent[LABELS]; /* in the whole arrays */
	struct labelled result; /* its value is not set */
	struct labelled operands[MAX_VALUES];
	int count;
};

static uint64_t label_bit(unsigned label) { return (uint64_t)1 << label; }

static void add_label(struct labelled *x, unsigned label)
{
	x->label[x->ndim++] = (unsigned char)label;
	x->set |= label_bit(label);
}

static const struct shape *shape_in(const struct expansion *e, const struct labelled *x)
{
	return &e->l->body->values[x->value].type->shape;
}

static int axis_of(const struct labelled *x, unsigned label)
{
	const unsigned char *at = memchr(x->label, (int)label, (size_t)x->ndim);
	return at ? (int)(at - x->label) : -1;
}

/* Returns the extent of AXIS of X, of the whole array in a tile, too. */
static int64_t whole_extent(const struct expansion *e, const struct labelled *x, int axis)
{
	const struct value *value = &e->l->body->values[x->value];
	const bool cut = e->l->rows && value->streamed && axis == 0;
	return value->type->shape.dim[axis] + (cut ? e->l->whole_rows - e->l->rows : 0);
}

/* Operations on one labelled array. */

static void begin_attrs(struct attrs *attrs, enum op op)
{
	memset(attrs, 0, sizeof *attrs); /* bytes are compared */
	attrs_default(attrs, op);
}

static enum status put_made(struct expansion *e, enum op op, const struct attrs *attrs, uint32_t a, uint32_t *value)
{
	struct operands in = operands_of(*value, a);
	return lowering_put_op(e->l, e->stage, op, attrs, &in, value);
}

/* Gives VALUE the shape TO, without a change of its elements. */
static enum status put_reshape(struct expansion *e, const struct shape *to, uint32_t *value)
{
	struct attrs attrs;
	if (shape_equal(&e->l->body->values[*value].type->shape, to))
		return STATUS_OK;
	begin_attrs(&attrs, OP_reshape);
	attrs.shape = *to;
	return put_made(e, OP_reshape, &attrs, NO_VALUE, value);
}

/* Puts the axes of X in the order of LABEL. */
static enum status put_transpose(struct expansion *e, struct labelled *x, const unsigned char *label)
{
	struct attrs attrs;
	if (!memcmp(x->label, label, (size_t)x->ndim))
		return STATUS_OK;
	begin_attrs(&attrs, OP_transpose);
	attrs.has_axis = true;
	attrs.axis_count = x->ndim;
	for (int i = 0; i < x->ndim; i++)
		attrs.axis[i] = axis_of(x, label[i]);
	memcpy(x->label, label, (size_t)x->ndim);
	return put_made(e, OP_transpose, &attrs, NO_VALUE, &x->value);
}

/* Removes the axes of SET, whose extent is 1. */
static enum status put_squeeze(struct expansion *e, struct labelled *x, uint64_t set)
{
	struct shape shape = {0};
	struct labelled left = {.value = x->value};
	if (!set)
		return STATUS_OK;
	for (int i = 0; i < x->ndim; i++)
		if (!(set & label_bit(x->label[i]))) {
			shape.dim[shape.ndim++] = shape_in(e, x)->dim[i];
			add_label(&left, x->label[i]);
		}
	TRY(put_reshape(e, &shape, &left.value));
	*x = left;
	return STATUS_OK;
}

/* Sums X over the axes of SET. */
static enum status put_sum(struct expansion *e, struct labelled *x, uint64_t set)
{
	struct attrs attrs;
	struct labelled left = {.value = x->value};
	if (!set)
		return STATUS_OK;
	begin_attrs(&attrs, OP_sum);
	attrs.has_axis = true;
	for (int i = 0; i < x->ndim; i++)
		if (set & label_bit(x->label[i]))
			attrs.axis[attrs.axis_count++] = i;
		else
			add_label(&left, x->label[i]);
	TRY(put_made(e, OP_sum, &attrs, NO_VALUE, &left.value));
	*x = left;
	return STATUS_OK;
}

/* Takes the diagonal of axes I and K of X, which have one label. It is the last axis of what X becomes. */
static enum status put_diagonal(struct expansion *e, struct labelled *x, int i, int k)
{
	struct attrs attrs;
	const unsigned label = x->label[i];
	struct labelled made = {.value = x->value};
	begin_attrs(&attrs, OP_transpose);
	attrs.has_axis = true;
	for (int at = 0; at < x->ndim; at++)
		if (at != i && at != k) {
			attrs.axis[attrs.axis_count++] = at;
			made.label[made.ndim++] = x->label[at]; /* it may stand once more */
		}
	attrs.axis[attrs.axis_count++] = i;
	attrs.axis[attrs.axis_count++] = k;
	if (i != x->ndim - 2 || k != x->ndim - 1)
		TRY(put_made(e, OP_transpose, &attrs, NO_VALUE, &made.value));
	begin_attrs(&attrs, OP_diag);
	TRY(put_made(e, OP_diag, &attrs, NO_VALUE, &made.value));
	made.set = x->set;
	made.label[made.ndim++] = (unsigned char)label;
	*x = made;
	return STATUS_OK;
}

static enum status put_diagonals(struct expansion *e, struct labelled *x)
{
	for (int k = 1; k < x->ndim; k++) {
		const unsigned char *first = memchr(x->label, x->label[k], (size_t)k);
		if (!first)
			continue;
		TRY(put_diagonal(e, x, (int)(first - x->label), k));
		k = 0; /* the axes have another order */
	}
	return STATUS_OK;
}

/* Pairs. */

/* The labels of an array to be made, in order. */
struct order {
	int count;
	unsigned char label[LABELS];
};

static void add_in_order(struct order *order, uint64_t set, const struct labelled *by)
{
	for (int i = 0; by && i < by->ndim; i++)
		if (set & label_bit(by->label[i]) && !memchr(order->label, by->label[i], (size_t)order->count))
			order->label[order->count++] = by->label[i];
}

/* Appends the labels of SET: those of the result in its order, then others in that of X and Y. */
static void add_to_order(const struct expansion *e, struct order *order, uint64_t set, const struct labelled *x,
                         const struct labelled *y)
{
	add_in_order(order, set, &e->result);
	add_in_order(order, set, x);
	add_in_order(order, set, y);
}

static int64_t extent_in(const struct expansion *e, const struct labelled *x, unsigned label)
{
	const int axis = axis_of(x, label);
	return axis < 0 ? 1 : shape_in(e, x)->dim[axis];
}

/* Appends to SHAPE the extents in X of COUNT labels. */
static void add_extents(const struct expansion *e, struct shape *shape, const struct labelled *x,
                        const unsigned char *label, int count)
{
	for (int i = 0; i < count; i++)
		shape->dim[shape->ndim++] = extent_in(e, x, label[i]);
}

/* Returns the product of the extents in X of COUNT labels. */
static int64_t merged(const struct expansion *e, const struct labelled *x, const unsigned char *label, int count)
{
	int64_t extent = 1;
	for (int i = 0; i < count; i++)
		extent = saturated((__int128)extent * extent_in(e, x, label[i]));
	return extent;
}

static enum status too_many_axes(const struct expansion *e)
{
	return LOWERING_FAIL(e->l, STATUS_LIMIT, e->stage->span, "'%s': more than %d dimensions",
	                     op_table[e->stage->op].name, MAX_DIMS);
}

/* Gives X the axes of ORDER, with extents of 1 for those that it lacks; if LEADING is false, without the first of these. */
static enum status spread_axes(struct expansion *e, struct labelled *x, const struct order *order, bool leading)
{
	struct order own = {0};
	struct shape shape = {0};
	for (int i = 0; i < order->count; i++)
		if (x->set & label_bit(order->label[i]))
			own.label[own.count++] = order->label[i];
	TRY(put_transpose(e, x, own.label));
	for (int i = 0; i < order->count; i++) {
		const bool has = x->set & label_bit(order->label[i]);
		if (has || leading || shape.ndim > 0)
			shape.dim[shape.ndim++] = has ? extent_in(e, x, order->label[i]) : 1;
	}
	return put_reshape(e, &shape, &x->value);
}

/* Sets *RESULT to the products of the elements of X and Y. */
static enum status multiply_elements(struct expansion *e, const struct labelled *x, const struct labelled *y,
                                     struct labelled *result)
{
	struct order order = {0};
	struct attrs attrs;
	add_to_order(e, &order, x->set | y->set, x, y);
	const bool exchanged = order.count > 0 && axis_of(x, order.label[0]) < 0;
	struct labelled v = exchanged ? *y : *x, a = exchanged ? *x : *y;
	if (order.count > MAX_DIMS)
		return too_many_axes(e);
	TRY(spread_axes(e, &v, &order, true));
	TRY(spread_axes(e, &a, &order, false));
	begin_attrs(&attrs, OP_mul);
	TRY(put_made(e, OP_mul, &attrs, a.value, &v.value));
	*result = (struct labelled){.value = v.value, .ndim = order.count, .set = x->set | y->set};
	memcpy(result->label, order.label, (size_t)order.count);
	return STATUS_OK;
}

/* A product of LEFT [BATCH, ROWS, SUMMED] and RIGHT [BATCH, SUMMED, COLUMNS]. */
struct pair {
	struct labelled left, right;
	uint64_t batch, summed, rows, columns;
};

/* Exchanges LEFT and RIGHT if the result begins with an axis of RIGHT, or LEFT has no rows. */
static void orient(const struct expansion *e, struct pair *p)
{
	struct order order = {0};
	add_to_order(e, &order, p->rows | p->columns, &p->left, &p->right);
	if (p->rows && (!p->columns || p->rows & label_bit(order.label[0])))
		return;
	const struct pair old = *p;
	*p = (struct pair){old.right, old.left, old.batch, old.summed, old.columns, old.rows};
}

/* Sets *ORDER to that of the labels of FIRST, SECOND and THIRD; within each that of the result, LEFT and RIGHT. */
static void order_groups(const struct expansion *e, struct order *order, const uint64_t groups[3], const struct pair *p)
{
	order->count = 0;
	for (int i = 0; i < 3; i++)
		add_to_order(e, order, groups[i], &p->left, &p->right);
}

/* Sets *RESULT to the products of P, summed over its inner axes. */
static enum status multiply_pair(struct expansion *e, struct pair *p, struct labelled *result)
{
	struct order left, right, plain;
	struct attrs attrs;
	orient(e, p);
	order_groups(e, &left, (uint64_t[]){p->batch, p->rows, p->summed}, p);
	order_groups(e, &right, (uint64_t[]){p->batch, p->columns, p->summed}, p);
	order_groups(e, &plain, (uint64_t[]){p->batch, p->summed, p->columns}, p);
	const int batch = __builtin_popcountll(p->batch), rows = __builtin_popcountll(p->rows);
	const int inner = __builtin_popcountll(p->summed), columns = __builtin_popcountll(p->columns);
	const bool transposed = columns && !memcmp(right.label, p->right.label, (size_t)right.count);
	if (batch + rows + columns > MAX_DIMS)
		return too_many_axes(e);
	if (!transposed)
		right = plain;
	TRY(put_transpose(e, &p->left, left.label));
	TRY(put_transpose(e, &p->right, right.label));
	const unsigned char *const first_column = right.label + batch + (transposed ? 0 : inner);
	*result = (struct labelled){.ndim = 0};
	for (int i = 0; i < batch + rows; i++)
		add_label(result, left.label[i]);
	for (int i = 0; i < columns; i++)
		add_label(result, first_column[i]);
	struct shape made = {0}, shape = {0};
	add_extents(e, &made, &p->left, left.label, batch + rows);
	add_extents(e, &made, &p->right, first_column, columns);
	/* Rows stay apart if there is no batch: their axes are the product's own. */
	const int64_t sum = merged(e, &p->left, left.label + batch + rows, inner);
	add_extents(e, &shape, &p->left, left.label, batch + (batch ? 0 : rows));
	if (batch)
		shape.dim[shape.ndim++] = merged(e, &p->left, left.label + batch, rows);
	shape.dim[shape.ndim++] = sum;
	TRY(put_reshape(e, &shape, &p->left.value));
	const int64_t width = merged(e, &p->right, first_column, columns);
	shape.ndim = 0;
	add_extents(e, &shape, &p->right, right.label, batch);
	if (transposed)
		shape.dim[shape.ndim++] = width;
	shape.dim[shape.ndim++] = sum;
	if (!transposed && (batch || columns))
		shape.dim[shape.ndim++] = width;
	TRY(put_reshape(e, &shape, &p->right.value));
	const enum op op = transposed ? OP_linear : OP_matmul;
	begin_attrs(&attrs, op);
	result->value = p->left.value;
	TRY(put_made(e, op, &attrs, p->right.value, &result->value));
	return put_reshape(e, &made, &result->value);
}

/* Sets *RESULT to the contraction of operands I and K. */
static enum status contract_pair(struct expansion *e, int i, int k, struct labelled *result)
{
	struct pair p = {.left = e->operands[i], .right = e->operands[k]};
	uint64_t stay = e->result.set;
	for (int at = 0; at < e->count; at++)
		stay |= at == i || at == k ? 0 : e->operands[at].set;
	TRY(put_sum(e, &p.left, p.left.set & ~(p.right.set | stay)));
	TRY(put_sum(e, &p.right, p.right.set & ~(p.left.set | stay)));
	const uint64_t shared = p.left.set & p.right.set;
	p.batch = shared & stay;
	p.summed = shared & ~stay;
	p.rows = p.left.set & ~shared;
	p.columns = p.right.set & ~shared;
	if (p.summed && (p.rows || p.columns))
		return multiply_pair(e, &p, result);
	TRY(multiply_elements(e, &p.left, &p.right, result));
	return put_sum(e, result, p.summed);
}

/* The operands that are left, for the search of an order. */
struct left_over {
	uint64_t set[MAX_VALUES];
	int count;
};

/* Returns LEFT with operands I and K contracted. STAY are the labels of the result. */
static struct left_over contracted(const struct left_over *left, int i, int k, uint64_t stay)
{
	struct left_over next = {.count = 0};
	for (int at = 0; at < left->count; at++)
		if (at != i && at != k)
			stay |= left->set[at];
	for (int at = 0; at < left->count; at++)
		if (at != k)
			next.set[next.count++] = at == i ? (left->set[i] | left->set[k]) & stay : left->set[at];
	return next;
}

/* Returns how many elements an array with the labels of SET has. */
static double elements_of(const struct expansion *e, uint64_t set)
{
	double elements = 1;
	for (unsigned label = 0; label < LABELS; label++)
		elements *= set & label_bit(label) ? (double)e->extent[label] : 1;
	return elements;
}

/* Returns how many products the cheapest order of contractions of LEFT makes, and stores its first pair. */
static double find_order(const struct expansion *e, const struct left_over *left, int *first, int *second)
{
	double least = -1;
	for (int i = 0; i < left->count; i++)
		for (int k = i + 1; k < left->count; k++) {
			int unused[2];
			const struct left_over next = contracted(left, i, k, e->result.set);
			const double cost =
				elements_of(e, left->set[i] | left->set[k]) + find_order(e, &next, &unused[0], &unused[1]);
			if (least >= 0 && cost >= least)
				continue;
			least = cost;
			*first = i;
			*second = k;
		}
	return least < 0 ? 0 : least;
}

static enum status contract_all(struct expansion *e, uint32_t *out)
{
	while (e->count > 1) {
		struct left_over left = {.count = e->count};
		struct labelled result;
		int i = 0, k = 1;
		for (int at = 0; at < e->count; at++)
			left.set[at] = e->operands[at].set;
		(void)find_order(e, &left, &i, &k);
		TRY(contract_pair(e, i, k, &result));
		e->operands[i] = result;
		e->count--;
		memmove(&e->operands[k], &e->operands[k + 1], (size_t)(e->count - k) * sizeof *e->operands);
	}
	struct labelled *last = &e->operands[0];
	TRY(put_sum(e, last, last->set & ~e->result.set));
	TRY(put_transpose(e, last, e->result.label));
	*out = last->value;
	return STATUS_OK;
}

/* einsum. */

/* Notes the extents of X, which are -1 before the first. One of 1 broadcasts. */
static void find_extents(struct expansion *e, const struct labelled *x)
{
	for (int i = 0; i < x->ndim; i++)
		if (e->extent[x->label[i]] < 0 || e->extent[x->label[i]] == 1)
			e->extent[x->label[i]] = whole_extent(e, x, i);
}

static enum status lower_einsum(struct expansion *e, uint32_t *out)
{
	struct subscripts subscripts;
	(void)subscripts_read(&subscripts, e->stage->attrs->subscripts); /* which the resolver has checked */
	for (int i = 0; i < LABELS; i++)
		e->extent[i] = -1;
	for (int i = 0; i < e->count; i++) {
		struct labelled *const x = &e->operands[i];
		unsigned char label[MAX_DIMS];
		subscript_labels(&subscripts.operand[i], shape_in(e, x)->ndim, label);
		for (int k = 0; k < shape_in(e, x)->ndim; k++)
			add_label(x, label[k]);
		TRY(put_diagonals(e, x));
		find_extents(e, x);
	}
	uint64_t rest = 0;
	for (int i = 0; i < e->count; i++) {
		uint64_t broadcast = 0;
		for (int k = 0; k < e->operands[i].ndim; k++)
			if (whole_extent(e, &e->operands[i], k) != e->extent[e->operands[i].label[k]])
				broadcast |= label_bit(e->operands[i].label[k]);
		TRY(put_squeeze(e, &e->operands[i], broadcast));
		rest |= e->operands[i].set;
	}
	const struct subscript *result = &subscripts.result;
	for (int k = 0; k <= result->count; k++) {
		for (unsigned label = LETTERS; k == result->rest && label < LABELS; label++)
			if (rest & label_bit(label))
				add_label(&e->result, label);
		if (k < result->count)
			add_label(&e->result, result->label[k]);
	}
	return contract_all(e, out);
}

/* Gives all axes of the operands, V's first, labels of their own. */
static enum status lower_outer(struct expansion *e, uint32_t *out)
{
	unsigned next = 0;
	for (int i = 0; i < e->count; i++)
		for (int k = 0; k < shape_in(e, &e->operands[i])->ndim; k++) {
			add_label(&e->result, next);
			add_label(&e->operands[i], next++);
		}
	return contract_all(e, out);
}

enum status lower_expanded(struct lowering *l, const struct node *node, const struct operands *in, uint32_t *out)
{
	struct expansion e = {.l = l, .stage = node};
	struct type result;
	TRY(lowering_infer(l, node, node->attrs, in, &result));
	l->streaming.flat = false; /* axes are counted */
	while (e.count < MAX_VALUES && in->values[e.count] != NO_VALUE) {
		e.operands[e.count].value = in->values[e.count];
		e.count++;
	}
	return node->op == OP_einsum ? lower_einsum(&e, out) : lower_outer(&e, out);
}

enum status lower_bands(struct lowering *l, const struct node *node, struct operands *in)
{
	const struct value *values = l->body->values;
	const struct shape *v = &values[in->values[0]].type->shape;
	struct attrs attrs;
	begin_attrs(&attrs, OP_broadcast_to);
	struct shape *const shape = &attrs.shape;
	*shape = (struct shape){v->ndim > 0, {v->ndim > 0 ? v->dim[v->ndim - 1] : 0}};
	for (uint32_t k = 1; k < MAX_VALUES; k++) {
		const struct type *const band = values[in->values[k]].type;
		struct shape both, all;
		char own[TYPE_TEXT], text[TYPE_TEXT];
		if (!shape_broadcast(&band->shape, shape, &both) || !shape_broadcast(&both, v, &all) || !shape_equal(&all, v))
			return LOWERING_FAIL(l, STATUS_CHAIN, node->span, "'tridiagonal': a band %s does not broadcast to %s",
			                     shape_format(&band->shape, own), shape_format(v, text));
		*shape = both;
	}
	for (uint32_t k = 1; k < MAX_VALUES; k++) {
		struct operands band = operands_of(in->values[k], NO_VALUE);
		if (!shape_equal(&l->body->values[in->values[k]].type->shape, shape))
			TRY(lowering_put_op(l, node, OP_broadcast_to, &attrs, &band, &in->values[k]));
	}
	return STATUS_OK;
}
