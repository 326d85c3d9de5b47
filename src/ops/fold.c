/*
 * Operations over the leading axis, block by block. Each block of rows has a state, and the states are added in order.
 * So an array gives the same bits whole and in tiles, if each tile is a block.
 *
 *     state      parts for each element of the result, or of a row                            operations
 *     extreme    the extreme                                                                  amax amin
 *     sum        the sum, its rounding error (Neumaier 1974)                                  sum mean losses rmsnorm
 *     product    a mantissa, an exponent of 2                                                 prod
 *     squares    the sum, its error, the scale of the squares                                 norm
 *     exponents  the sum, its error, the shift of the exponents (Milakov, Gimelshein 2018)    logsumexp softmax log_softmax
 *     moments    the sum, its error, the squared deviations, their error, the number of rows  var std layernorm
 *                (Chan, Golub, LeVeque 1979)
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

enum state_kind { STATE_EXTREME, STATE_SUM, STATE_PRODUCT, STATE_SQUARES, STATE_EXPONENTS, STATE_MOMENTS };

static enum state_kind kind_of(enum op op)
{
	switch (op) {
	case OP_amax:
	case OP_amin:
		return STATE_EXTREME;
	case OP_prod:
		return STATE_PRODUCT;
	case OP_norm:
		return STATE_SQUARES;
	case OP_logsumexp:
	case OP_softmax:
	case OP_log_softmax:
		return STATE_EXPONENTS;
	case OP_layernorm:
	case OP_var:
	case OP_std:
		return STATE_MOMENTS;
	default:
		return STATE_SUM;
	}
}

int fold_parts(enum op op)
{
	static const int parts[] = {[STATE_EXTREME] = 1, [STATE_SUM] = 2,       [STATE_PRODUCT] = 2,
	                            [STATE_SQUARES] = 3, [STATE_EXPONENTS] = 3, [STATE_MOMENTS] = 5};
	return parts[kind_of(op)];
}

int64_t fold_count(enum op op, const struct type *v, const struct type *y)
{
	if (!op_normalizes(op))
		return shape_count(&y->shape);
	return v->shape.dim[0] > 0 ? shape_count(&v->shape) / v->shape.dim[0] : 0;
}

/* The statistics of a NORM are two doubles for each element of a row: see finish_norm. */
struct type fold_type(enum op op, const struct type *v, const struct type *y)
{
	if (!op_normalizes(op))
		return *y;
	return (struct type){DTYPE_F64, {2, {2, fold_count(op, v, y)}}};
}

void fold_begin(enum op op, double *state, int64_t count)
{
	const double first = op == OP_amax ? -INFINITY : op == OP_amin ? INFINITY : 0;
	for (int64_t i = 0; i < fold_parts(op) * count; i++)
		state[i] = first;
	for (int64_t i = 0; op == OP_prod && i < count; i++)
		state[i] = 1;
}

/* Returns a product's MANTISSA in [0.5, 1), and adds its exponent to *EXPONENT. 0, infinities and NaN stay. */
static double split(double mantissa, double *exponent)
{
	int e = 0;
	const double m = frexp(mantissa, &e);
	*exponent += m == 0 || !isfinite(m) ? 0 : e;
	return m;
}

/* Multiplies N elements one after another. Powers of 2 leave the product before it could overflow or underflow. */
static void multiply_line(enum dtype dtype, const void *v, size_t n, double *mantissa, double *exponent)
{
	double m = 1, e = 0;
	for (size_t j = 0; j < n; j++) {
		double x = element_get(dtype, v, j);
		if (!(fabs(x) > 0x1p-400 && fabs(x) < 0x1p400))
			x = split(x, &e);
		m *= x;
		if (!(fabs(m) > 0x1p-400 && fabs(m) < 0x1p400))
			m = split(m, &e);
	}
	*mantissa = m;
	*exponent = e;
}

LINES(state_lines)
{
	const struct lines lines = {at->in[0], n, count};
	double *const *wide = at->wide;
	const enum state_kind kind = kind_of(call->op);
	if (kind != STATE_EXTREME && kind != STATE_PRODUCT)
		memset(wide[1], 0, count * sizeof *wide[1]);
	switch (kind) {
	case STATE_EXTREME:
		(call->op == OP_amax ? loops->largest : loops->smallest)(wide[0], lines.data, n, count);
		break;
	case STATE_SUM: /* of rmsnorm: others do not go by lines */
		loops->sum.squares(wide[0], lines.data, n, count);
		break;
	case STATE_PRODUCT:
		for (size_t i = 0; i < count; i++)
			multiply_line(loops->dtype, line_at(loops, lines.data, n, i), n, &wide[0][i], &wide[1][i]);
		break;
	case STATE_SQUARES:
		lines_sum_squares(loops, lines, wide[0], wide[2]);
		break;
	case STATE_EXPONENTS:
		lines_largest(loops, wide[2], lines);
		lines_sum_exp(call, loops, NULL, lines, wide[2], wide[0]);
		break;
	case STATE_MOMENTS: {
		double mean[LINES_SOME];
		loops->sum.values(wide[0], lines.data, n, count);
		for (size_t i = 0; i < count; i++) {
			mean[i] = wide[0][i] / (double)n;
			wide[3][i] = 0;
			wide[4][i] = (double)n;
		}
		loops->sum.deviations(wide[2], lines.data, mean, n, count);
	}
	}
}

void fold_partial(const struct op_call *call, double *state, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	const int64_t count = fold_count(call->op, call->v, call->y);
	struct line_arrays to = {.out = NULL};
	for (int i = 0; i < fold_parts(call->op); i++)
		to.wide[i] = state + i * count;
	if (call->op == OP_sum || call->op == OP_mean)
		sum_partial_axes(call, state, state + count, v);
	else if (op_table[call->op].scope == SCOPE_SUM)
		sum_partial_loss(call, state, state + count, v, a, keep ? keep[0] : NULL);
	else
		reduction_walk(call, to, v, state_lines);
}

/* (HI + LO) times the square of SCALE (norm), or times exp(SCALE) (exponents). */
struct scaled_sum {
	double hi, lo, scale;
};

/* Returns SUM, of the blocks before, plus BLOCK. Finite sums other than 0 are brought to the larger scale first. */
static struct scaled_sum add_scaled(bool squares, struct scaled_sum sum, struct scaled_sum block)
{
	if (block.hi == 0)
		return sum;
	if (sum.hi == 0 || !isfinite(block.hi)) {
		block.hi = sum.hi == 0 ? block.hi : sum.hi + block.hi;
		return block;
	}
	if (!isfinite(sum.hi))
		return sum;
	const bool grows = block.scale > sum.scale;
	const double ratio = grows ? sum.scale / block.scale : block.scale / sum.scale;
	const double factor = squares ? ratio * ratio : exp(-fabs(block.scale - sum.scale));
	struct scaled_sum *const smaller = grows ? &sum : &block;
	smaller->hi *= factor;
	smaller->lo *= factor;
	sum.scale = grows ? block.scale : sum.scale;
	if (squares && isinf(sum.hi + block.hi)) {
		sum = (struct scaled_sum){sum.hi * 0x1p-20, sum.lo * 0x1p-20, sum.scale * 0x1p10};
		block = (struct scaled_sum){block.hi * 0x1p-20, block.lo * 0x1p-20, 0};
	}
	sum_add(&sum.hi, &sum.lo, block.hi, block.lo);
	return sum;
}

/* Element I of a state of COUNT elements, and of the next block's, FROM. */
struct state_pair {
	double *state;
	const double *from;
	int64_t count, i;
};

static double *part(const struct state_pair *p, int k) { return p->state + k * p->count + p->i; }
static double from(const struct state_pair *p, int k) { return p->from[k * p->count + p->i]; }

static void add_moments(const struct state_pair *p)
{
	const double rows = *part(p, 4), more = from(p, 4);
	if (rows > 0 && more > 0) {
		const double apart = (from(p, 0) + from(p, 1)) / more - (*part(p, 0) + *part(p, 1)) / rows;
		sum_add(part(p, 2), part(p, 3), apart * apart * (rows * more / (rows + more)), 0);
	}
	sum_add(part(p, 0), part(p, 1), from(p, 0), from(p, 1));
	sum_add(part(p, 2), part(p, 3), from(p, 2), from(p, 3));
	*part(p, 4) = rows + more;
}

static void add_state(enum op op, enum state_kind kind, const struct state_pair *p)
{
	double *const first = part(p, 0);
	switch (kind) {
	case STATE_EXTREME: { /* keeps the larger (amax) or smaller one, or a NaN */
		const bool stays = isnan(*first) || (op == OP_amax ? from(p, 0) <= *first : from(p, 0) >= *first);
		*first = stays ? *first : from(p, 0);
		break;
	}
	case STATE_SUM:
		sum_add(first, part(p, 1), from(p, 0), from(p, 1));
		break;
	case STATE_PRODUCT:
		*part(p, 1) += from(p, 1);
		*first = split(*first * from(p, 0), part(p, 1));
		break;
	case STATE_SQUARES:
	case STATE_EXPONENTS: {
		const struct scaled_sum sum = {*first, *part(p, 1), *part(p, 2)}, block = {from(p, 0), from(p, 1), from(p, 2)};
		const struct scaled_sum made = add_scaled(kind == STATE_SQUARES, sum, block);
		*first = made.hi;
		*part(p, 1) = made.lo;
		*part(p, 2) = made.scale;
		break;
	}
	case STATE_MOMENTS:
		add_moments(p);
	}
}

void fold_add(enum op op, double *state, const double *from, int64_t count)
{
	const enum state_kind kind = kind_of(op);
	for (int64_t i = 0; i < count; i++)
		add_state(op, kind, &(struct state_pair){state, from, count, i});
}

/*
 * Stores the statistics of a NORM, for each element of a row: the mean and the scale (layernorm, rmsnorm: a mean of 0);
 * the shift and the sum of exponentials, or its logarithm (softmax, log_softmax). A line with inf gives NaNs.
 */
static void finish_norm(const struct op_call *call, double *y, const double *state, int64_t count)
{
	const double *hi = state, *lo = state + count, *third = state + 2 * count, *fourth = third + count;
	const double rows = (double)call->whole, eps = call->attrs->eps;
	for (int64_t i = 0; i < count; i++) {
		const double sum = hi[i] + lo[i];
		switch (call->op) {
		case OP_layernorm:
			y[i] = sum / rows;
			y[count + i] = 1 / sqrt((third[i] + fourth[i]) / rows + eps);
			break;
		case OP_rmsnorm:
			y[i] = 0;
			y[count + i] = 1 / sqrt(sum / rows + eps);
			break;
		default:
			y[i] = third[i];
			y[count + i] = call->op == OP_log_softmax ? log(sum) : isinf(sum) ? (double)NAN : sum;
		}
	}
}

void fold_finish(const struct op_call *call, void *y, const double *state, int64_t count)
{
	const double *hi = state, *lo = state + count, *third = state + 2 * count;
	const bool axes = call->op == OP_sum || call->op == OP_mean;
	const enum dtype dtype = call->y->dtype;
	if (op_normalizes(call->op)) {
		finish_norm(call, y, state, count);
		return;
	}
	switch (kind_of(call->op)) {
	case STATE_EXTREME:
		elements_set(dtype, y, hi, (size_t)count);
		break;
	case STATE_SUM:
		sums_store(dtype, y, hi, lo, axes ? reduction_divisor(call) : loss_divisor(call), (size_t)count);
		break;
	case STATE_PRODUCT:
		for (int64_t i = 0; i < count; i++)
			element_set(dtype, y, (size_t)i, ldexp(hi[i], (int)fmax(-5000, fmin(lo[i], 5000))));
		break;
	case STATE_MOMENTS:
		for (int64_t i = 0; i < count; i++)
			element_set(dtype, y, (size_t)i,
			            reduction_result(call->op, third[i] + third[count + i], third[2 * count + i]));
		break;
	default:
		for (int64_t i = 0; i < count; i++)
			element_set(dtype, y, (size_t)i, reduction_result(call->op, hi[i] + lo[i], third[i]));
	}
}

LINES(apply_lines)
{
	if (call->op == OP_layernorm || call->op == OP_rmsnorm) {
		loops->normalize(at->out, at->in[0], at->wide[0], at->wide[1], n, count);
		return;
	}
	loops->subtract(at->out, at->in[0], at->wide[0], n, count);
	if (call->op == OP_softmax) {
		lines_exp(call, at->out, at->out, n * count);
		loops->divide(at->out, at->out, at->wide[1], n, count);
	} else {
		loops->subtract(at->out, at->out, at->wide[1], n, count);
	}
}

void fold_apply(const struct op_call *call, void *y, const void *v, const double *statistics, void *kept)
{
	const int64_t count = fold_count(call->op, call->v, call->y);
	const struct axis_view view = axis_view_named(call->attrs, &call->v->shape);
	const struct line_arrays arrays = {
		.in = {v}, .out = y, .wide = {writable(statistics), writable(statistics + count)}};
	if (y)
		lines_walk(call, &view, &arrays, apply_lines, call->scratch);
	if (kept)
		elements_set(call->v->dtype, kept, statistics + count, (size_t)count);
}

int64_t fold_scratch(enum op op, const struct type *v, const struct type *y)
{
	int64_t bytes;
	const int64_t each = (2 * fold_parts(op) + 2) * (int64_t)sizeof(double);
	return __builtin_mul_overflow(fold_count(op, v, y), each, &bytes) || bytes > INT64_MAX - 2 * ARRAY_ALIGN
	           ? INT64_MAX
	           : bytes + 2 * ARRAY_ALIGN;
}

/* Returns TYPE with ROWS rows. */
static struct type with_rows(const struct type *type, int64_t rows)
{
	struct type some = *type;
	some.shape.dim[0] = rows;
	return some;
}

void fold_blocks(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	const struct type *va = call->a;
	const bool norm = op_normalizes(call->op), along = va && op_runs_along(call->op, call->v, va);
	const int64_t rows = call->v->shape.dim[0], count = fold_count(call->op, call->v, call->y);
	const int64_t own = op_scratch(call->op, call->attrs, call->v, va, call->y, false);
	const int64_t size = fold_parts(call->op) * count;
	double *const state = (double *)(void *)((char *)call->scratch + round_up(own, ARRAY_ALIGN));
	double *const block = state + size, *const statistics = block + size;
	fold_begin(call->op, state, count);
	for (int64_t first = 0; first < rows; first += call->block) {
		const int64_t here = lesser(rows - first, call->block);
		const struct type v_type = with_rows(call->v, here), a_type = along ? with_rows(va, here) : (struct type){0};
		struct op_call some = *call;
		some.v = &v_type;
		some.a = along ? &a_type : va;
		void *kept[MAX_KEEPS] = {!norm && keep && keep[0] ? loss_kept_at(call, keep[0], first) : NULL, NULL};
		fold_partial(&some, block, (const char *)v + first * (type_bytes(call->v) / rows),
		             along ? (const char *)a + first * (type_bytes(va) / rows) : a, kept);
		fold_add(call->op, state, block, count);
	}
	if (norm || y)
		fold_finish(call, norm ? statistics : y, state, count);
	if (norm)
		fold_apply(call, y, v, statistics, keep ? keep[0] : NULL);
}
