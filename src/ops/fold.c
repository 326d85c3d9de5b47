/*
 * Operations over the leading axis, block by block. Each block of rows has a state, and the states are added in order.
 * So an array gives the same bits whole and in tiles, if each tile is a block.
 *
 *     state      parts for each element of the result, or of a row                            operations
 *     extreme    the extreme                                                                  amax amin any all
 *     sum        the sum, its rounding error (Neumaier 1974)                                  sum
 *     mean       the sum, its error, a scale that keeps it in range                           mean losses, derivatives of
 *                                                                                             var std log_softmax
 *     counted    the same, and the number of rows that count                                  cross_entropy
 *     product    a number, and an exponent of 2 that is 0 within its range                    prod
 *     squares    the sum, its error, the scale of the squares                                 norm rmsnorm
 *     exponents  the sum, its error, the shift of the exponents (Milakov, Gimelshein 2018)    logsumexp softmax log_softmax
 *     moments    the sum, its error, the squared deviations, their error, the number of rows, var std layernorm
 *                the scale (Chan, Golub, LeVeque 1979)
 *     means      two sums, each with its error, and their scales                              derivative of layernorm
 *     factors    a product, as above, and the numbers of zeros and of infinities beside it    derivative of prod
 *
 * Another kind joins STATE_EXTREME and so on in kind_of, fold_parts, fold_begin, state_lines, add_state and fold_finish.
 * Tests: tests/unit/test_general.c, tests/unit/test_edges_lines.c
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

enum state_kind {
	STATE_EXTREME,
	STATE_SUM,
	STATE_MEAN,
	STATE_COUNTED,
	STATE_PRODUCT,
	STATE_SQUARES,
	STATE_EXPONENTS,
	STATE_MOMENTS,
	STATE_MEANS,
	STATE_FACTORS
};

static enum state_kind kind_of(struct fold_op fold)
{
	if (fold.back)
		return fold.op == OP_layernorm || fold.op == OP_rmsnorm                      ? STATE_MEANS
		       : fold.op == OP_var || fold.op == OP_std || fold.op == OP_log_softmax ? STATE_MEAN
		       : fold.op == OP_prod                                                  ? STATE_FACTORS
		                                                                             : STATE_SUM;
	switch (fold.op) {
	case OP_amax:
	case OP_amin:
	case OP_any:
	case OP_all:
		return STATE_EXTREME;
	case OP_cross_entropy:
		return STATE_COUNTED;
	case OP_prod:
		return STATE_PRODUCT;
	case OP_norm:
	case OP_rmsnorm:
		return STATE_SQUARES;
	case OP_logsumexp:
	case OP_softmax:
	case OP_log_softmax:
		return STATE_EXPONENTS;
	case OP_layernorm:
	case OP_var:
	case OP_std:
		return STATE_MOMENTS;
	case OP_sum:
		return STATE_SUM;
	default: /* mean and losses */
		return STATE_MEAN;
	}
}

int fold_parts(struct fold_op fold)
{
	static const int parts[] = {
		[STATE_EXTREME] = 1, [STATE_SUM] = 2,       [STATE_MEAN] = 3,    [STATE_COUNTED] = 4, [STATE_PRODUCT] = 2,
		[STATE_SQUARES] = 3, [STATE_EXPONENTS] = 3, [STATE_MOMENTS] = 6, [STATE_MEANS] = 6,   [STATE_FACTORS] = 4};
	return parts[kind_of(fold)];
}

/* Returns the doubles of the statistics for each element of a row: see finish_norm and statistic_back. */
static int statistics_of(struct fold_op fold)
{
	const bool two = !fold.back || kind_of(fold) == STATE_MEANS || fold.op == OP_log_softmax;
	return two ? 2 : kind_of(fold) == STATE_FACTORS ? 4 : 1;
}

int64_t fold_count(enum op op, const struct type *v, const struct type *y)
{
	if (!op_normalizes(op))
		return shape_count(&y->shape);
	return v->shape.dim[0] > 0 ? shape_count(&v->shape) / v->shape.dim[0] : 0;
}

bool fold_applies(struct fold_op fold) { return fold.back || op_normalizes(fold.op); }

struct type fold_type(struct fold_op fold, const struct type *v, const struct type *y)
{
	if (!fold_applies(fold))
		return *y;
	return (struct type){DTYPE_F64, {2, {statistics_of(fold), fold_count(fold.op, v, y)}}};
}

void fold_begin(struct fold_op fold, double *state, int64_t count)
{
	const enum op op = fold.back && fold.op != OP_prod ? OP_sum : fold.op;
	const double first = op == OP_amax ? -INFINITY : op == OP_amin ? INFINITY : op == OP_all;
	for (int64_t i = 0; i < fold_parts(fold) * count; i++)
		state[i] = first;
	for (int64_t i = 0; op == OP_prod && i < count; i++)
		state[i] = 1;
}

LINES(state_lines)
{
	const struct lines lines = {at->in[0], n, count};
	double *const *wide = at->wide;
	const enum state_kind kind = kind_of((struct fold_op){call->op, false});
	if (kind != STATE_EXTREME && kind != STATE_PRODUCT)
		memset(wide[1], 0, count * sizeof *wide[1]);
	switch (kind) {
	case STATE_EXTREME:
		if (call->op == OP_any || call->op == OP_all)
			lines_true(call, loops, lines, wide[0]);
		else
			(call->op == OP_amax ? loops->largest : loops->smallest)(wide[0], lines.data, n, count);
		break;
	case STATE_PRODUCT:
		loops->products(wide[0], wide[1], lines.data, n, n, count);
		break;
	case STATE_SQUARES:
		lines_sum_squares(loops, lines, wide[0], wide[2]);
		break;
	case STATE_EXPONENTS:
		lines_largest(loops, wide[2], lines);
		lines_sum_exp(call, loops, NULL, lines, wide[2], (struct wide_sums){wide[0], wide[1], NULL});
		break;
	case STATE_MOMENTS:
		lines_moments(loops, lines, (struct line_moments){wide[0], wide[1], wide[2], wide[3], wide[5]});
		for (size_t i = 0; i < count; i++)
			wide[4][i] = (double)n;
		break;
	default: /* sums do not go by lines; others are of derivatives alone */
		break;
	}
}

void fold_partial(const struct op_call *call, double *state, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	const int64_t count = fold_count(call->op, call->v, call->y);
	struct line_arrays to = {.out = NULL};
	for (int i = 0; i < fold_parts((struct fold_op){call->op, false}); i++)
		to.wide[i] = state + i * count;
	if (call->op == OP_sum || call->op == OP_mean)
		sum_partial_axes(call, (struct wide_sums){to.wide[0], to.wide[1], to.wide[2]}, v);
	else if (op_table[call->op].scope == SCOPE_SUM)
		loss_partial(call, state, v, a, keep ? keep[0] : NULL);
	else
		reduction_walk(call, to, v, state_lines);
}

void fold_partial_back(const struct op_call *call, double *state, const void *g, const void *const needs[MAX_NEEDS])
{
	const struct fold_op fold = {call->op, true};
	const int64_t count = fold_count(call->op, call->v, call->y);
	struct line_arrays to = {.out = NULL};
	memset(state, 0, (size_t)(fold_parts(fold) * count) * sizeof *state);
	for (int i = 0; i < fold_parts(fold); i++)
		to.wide[i] = state + i * count;
	if (op_normalizes(call->op))
		axis_statistics(call, to, g, needs);
	else if (call->op == OP_cross_entropy)
		memcpy(state, (const double[]){loss_rows(call, needs[1]), 0}, 2 * sizeof *state);
	else
		reduction_statistics(call, to, needs);
}

/* Returns TYPE with ROWS rows. */
static struct type with_rows(const struct type *type, int64_t rows)
{
	struct type some = *type;
	some.shape.dim[0] = rows;
	return some;
}

void fold_partial_rows(const struct op_call *call, struct row_range rows, double *state, const void *v, const void *a,
                       void *const keep[MAX_KEEPS])
{
	const struct type *va = call->a;
	const bool along = va && op_runs_along(call->op, call->v, va), loss = !op_normalizes(call->op) && keep && keep[0];
	const int64_t all = call->v->shape.dim[0];
	const struct type v_type = with_rows(call->v, rows.count);
	const struct type a_type = along ? with_rows(va, rows.count) : (struct type){0};
	void *kept[MAX_KEEPS] = {loss ? loss_kept_at(call, keep[0], rows.first) : NULL, NULL};
	struct op_call some = *call;
	some.v = &v_type;
	some.a = along ? &a_type : va;
	if (rows.count == 0) {
		fold_begin((struct fold_op){call->op, false}, state, fold_count(call->op, call->v, call->y));
		return;
	}
	fold_partial(&some, state, element_at(v, 1, rows.first * (type_bytes(call->v) / all)),
	             along ? element_at(a, 1, rows.first * (type_bytes(va) / all)) : a, kept);
}

void fold_partial_rows_back(const struct op_call *call, struct row_range rows, double *state, const void *g,
                            const void *const needs[MAX_NEEDS])
{
	const bool norm = op_normalizes(call->op), a = needs[1] != NULL;
	const int64_t all = call->v->shape.dim[0], at = rows.first * (type_bytes(call->v) / all);
	const struct type v_type = with_rows(call->v, rows.count);
	const struct type a_type = a ? with_rows(call->a, rows.count) : (struct type){0};
	const void *here[MAX_NEEDS] = {needs[0] ? element_at(needs[0], 1, at) : NULL,
	                               a ? element_at(needs[1], 1, rows.first * (type_bytes(call->a) / all)) : NULL,
	                               norm ? element_at(needs[2], 1, at) : needs[2], needs[3]};
	struct op_call some = *call;
	some.v = &v_type;
	some.a = a ? &a_type : call->a;
	if (rows.count == 0)
		fold_begin((struct fold_op){call->op, true}, state, fold_count(call->op, call->v, call->y));
	else
		fold_partial_back(&some, state, norm ? element_at(g, 1, at) : g, here);
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

/* Returns the mean SUM / N less the mean OTHER / M, as exact as if neither mean were rounded. A sum is HI + LO. */
static double mean_difference(const double sum[2], double n, const double other[2], double m)
{
	const double mean = sum_quotient(sum[0], sum[1], n), other_mean = sum_quotient(other[0], other[1], m);
	const double rest = (fma(-mean, n, sum[0]) + sum[1]) / n,
				 other_rest = (fma(-other_mean, m, other[0]) + other[1]) / m;
	return isfinite(mean) && isfinite(other_mean) ? (mean - other_mean) + (rest - other_rest) : mean - other_mean;
}

/*
 * Returns the SCALE of a block's moments, but a power of two near its numbers where their squares could leave the range. A
 * block of zeros has none: the scale of the others stays.
 */
static double moments_scale(double sum, double squares, double scale)
{
	const double size = fmax(fabs(sum), sqrt(squares));
	int exponent = 0;
	if (size == 0 || (size > 0x1p-400 && size < 0x1p400 && squares > 0) || !isfinite(size))
		return size == 0 ? 0 : scale;
	(void)frexp(size, &exponent);
	const double near = scale * ldexp(1, exponent < 1000 ? exponent : 1000);
	return isfinite(near) ? near : scale; /* numbers over a scale so large are moderate */
}

static void add_moments(const struct state_pair *p)
{
	const double rows = *part(p, 4), more = from(p, 4);
	const double own = moments_scale(*part(p, 0), *part(p, 2), *part(p, 5));
	const double other = moments_scale(from(p, 0), from(p, 2), from(p, 5));
	const double scale = own == 0 && other == 0 ? 1 : fmax(own, other);
	const double by = own == 0 ? 0 : *part(p, 5) / scale, from_by = other == 0 ? 0 : from(p, 5) / scale;
	const double sum = from(p, 0) * from_by, rest = from(p, 1) * from_by;
	for (int k = 0; k < 4; k++)
		*part(p, k) *= k < 2 ? by : by * by;
	if (rows > 0 && more > 0) {
		const double block[] = {sum, rest}, before[] = {*part(p, 0), *part(p, 1)};
		const double apart = mean_difference(block, more, before, rows);
		sum_add(part(p, 2), part(p, 3), apart * apart * (rows * more / (rows + more)), 0);
	}
	sum_add(part(p, 0), part(p, 1), sum, rest);
	sum_add(part(p, 2), part(p, 3), from(p, 2) * (from_by * from_by), from(p, 3) * (from_by * from_by));
	*part(p, 4) = rows + more;
	*part(p, 5) = scale;
}

/* Adds the sum whose parts are K[0], K[1], and whose scale is K[2]. */
static void add_mean(const struct state_pair *p, const int k[3])
{
	struct mean_sum sum = {*part(p, k[0]), *part(p, k[1]), *part(p, k[2])};
	mean_add(&sum, (struct mean_sum){from(p, k[0]), from(p, k[1]), from(p, k[2])});
	*part(p, k[0]) = sum.hi;
	*part(p, k[1]) = sum.lo;
	*part(p, k[2]) = sum.scale;
}

static void add_factors(const struct state_pair *p)
{
	const struct split_product one = split(*part(p, 0)), other = split(from(p, 0));
	*part(p, 0) = one.mantissa * other.mantissa;
	*part(p, 1) += from(p, 1) + one.exponent + other.exponent;
}

static void add_state(enum op op, enum state_kind kind, const struct state_pair *p)
{
	double *const first = part(p, 0);
	switch (kind) {
	case STATE_EXTREME: { /* keeps the larger (amax) or smaller one, or a NaN */
		const bool stays =
			isnan(*first) || (op == OP_amax || op == OP_any ? from(p, 0) <= *first : from(p, 0) >= *first);
		*first = stays ? *first : from(p, 0);
		break;
	}
	case STATE_SUM:
		sum_add(first, part(p, 1), from(p, 0), from(p, 1));
		break;
	case STATE_COUNTED:
		*part(p, 3) += from(p, 3);
		add_mean(p, (const int[]){0, 1, 2});
		break;
	case STATE_MEAN:
		add_mean(p, (const int[]){0, 1, 2});
		break;
	case STATE_MEANS:
		add_mean(p, (const int[]){0, 1, 4});
		add_mean(p, (const int[]){2, 3, 5});
		break;
	case STATE_FACTORS:
		*part(p, 2) += from(p, 2);
		*part(p, 3) += from(p, 3);
		add_factors(p);
		break;
	case STATE_PRODUCT:
		add_factors(p);
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

void fold_add(struct fold_op fold, double *state, const double *from, int64_t count)
{
	const enum state_kind kind = kind_of(fold);
	for (int64_t i = 0; i < count; i++)
		add_state(fold.op, kind, &(struct state_pair){state, from, count, i});
}

/*
 * Stores the statistics of a NORM, two for each element of a row. Those of layernorm and rmsnorm are the mean (0 for
 * rmsnorm) and the scale. Those of softmax and log_softmax are the shift, and the sum of exponentials or its logarithm. A line with inf gives NaNs.
 */
static void finish_norm(const struct op_call *call, double *y, const double *state, int64_t count)
{
	const double *hi = state, *lo = state + count, *third = state + 2 * count, *fourth = third + count;
	const double rows = (double)call->whole, eps = call->attrs->eps;
	for (int64_t i = 0; i < count; i++) {
		const double sum = hi[i] + lo[i];
		switch (call->op) {
		case OP_layernorm:
			y[i] = sum_quotient(hi[i], lo[i], rows) * fourth[2 * count + i];
			y[count + i] = normal_scale(third[i] + fourth[i], fourth[2 * count + i], rows, eps);
			break;
		case OP_rmsnorm:
			y[i] = 0;
			y[count + i] = normal_scale(sum, third[i], rows, eps);
			break;
		default:
			y[i] = third[i];
			y[count + i] = call->op == OP_log_softmax ? log_of_sum(hi[i], lo[i]) : isinf(sum) ? (double)NAN : sum;
		}
	}
}

/* Returns statistic K of a derivative: the sum, with its scale for log_softmax, the mean or means, for prod the state. */
static double statistic_back(const struct op_call *call, const double *state, int64_t count, int k)
{
	switch (kind_of((struct fold_op){call->op, true})) {
	case STATE_FACTORS:
		return state[k * count];
	case STATE_MEANS:
		return sum_quotient(state[2 * k * count], state[(2 * k + 1) * count], (double)call->whole) *
		       state[(4 + k) * count];
	case STATE_MEAN:
		if (call->op != OP_log_softmax)
			return reduction_mean(call, (struct mean_sum){state[0], state[count], state[2 * count]});
		return k == 0 ? state[0] + state[count] : state[2 * count];
	default:
		return state[0] + state[count];
	}
}

static void finish_back(const struct op_call *call, double *y, const double *state, int64_t count)
{
	for (int k = 0; k < statistics_of((struct fold_op){call->op, true}); k++)
		for (int64_t i = 0; i < count; i++)
			y[k * count + i] = statistic_back(call, state + i, count, k);
}

void fold_finish(const struct op_call *call, bool back, void *y, const double *state, int64_t count)
{
	if (back) {
		finish_back(call, y, state, count);
		return;
	}
	const double *hi = state, *lo = state + count, *third = state + 2 * count;
	const bool axes = call->op == OP_sum || call->op == OP_mean;
	const enum dtype dtype = call->y->dtype;
	if (op_normalizes(call->op)) {
		finish_norm(call, y, state, count);
		return;
	}
	switch (kind_of((struct fold_op){call->op, false})) {
	case STATE_EXTREME:
		elements_set(dtype, y, hi, (size_t)count);
		break;
	case STATE_SUM:
	case STATE_MEAN:
	case STATE_COUNTED:
		sums_store(dtype, y,
		           (struct wide_sums){writable(hi), writable(lo), call->op == OP_sum ? NULL : writable(third)},
		           axes ? reduction_divisor(call) : loss_divisor(call, state), (size_t)count);
		break;
	case STATE_PRODUCT:
		for (int64_t i = 0; i < count; i++)
			element_set(dtype, y, (size_t)i, split_value((struct split_product){hi[i], lo[i]}));
		break;
	case STATE_MOMENTS:
		for (int64_t i = 0; i < count; i++)
			element_set(dtype, y, (size_t)i,
			            reduction_result(call->op, sum_quotient(third[i], third[count + i], third[2 * count + i]),
			                             third[3 * count + i]));
		break;
	default:
		for (int64_t i = 0; i < count; i++) {
			const double value = call->op == OP_logsumexp ? log_of_sum(hi[i], lo[i]) : hi[i] + lo[i];
			element_set(dtype, y, (size_t)i, reduction_result(call->op, value, third[i]));
		}
	}
}

/* The context of a team that normalizes rows of COUNT elements, each by the statistics of its column. */
struct rows_to_normalize {
	const struct loops *loops;
	char *y;
	const char *v;
	const double *statistics;
	int64_t count;
	bool far; /* a mean is */
};

static void normalize_rows(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct rows_to_normalize *r = context;
	const int64_t bytes = r->count * (int64_t)element_size(r->loops->dtype);
	const double *const mean = r->statistics, *const scale = mean + r->count;
	for (int64_t row = begin; row < end; row++) {
		const char *v = r->v + row * bytes;
		char *y = r->y + row * bytes;
		if (!r->far)
			r->loops->normalize_row(y, v, mean, scale, (size_t)r->count);
		for (int64_t j = 0; r->far && j < r->count; j++)
			element_set(r->loops->dtype, y, (size_t)j,
			            normalized(element_get(r->loops->dtype, v, (size_t)j), mean[j], scale[j]));
	}
}

LINES(apply_lines)
{
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
	const bool far = count_near(DTYPE_F64, statistics, (size_t)count) < (size_t)count;
	struct rows_to_normalize rows = {call->kernels->loops, y, v, statistics, count, far};
	if (y && (call->op == OP_layernorm || call->op == OP_rmsnorm))
		team_run(call->team, view.n, TEAM_PIECE / greater(count, 1) + 1, normalize_rows, &rows);
	else if (y)
		lines_walk(call, &view, &arrays, apply_lines, call->scratch);
	if (kept)
		elements_set(call->v->dtype, kept, statistics + count, (size_t)count);
}

void fold_apply_back(const struct op_call *call, void *dv, const void *g, const void *const needs[MAX_NEEDS],
                     const double *statistics)
{
	const int64_t count = fold_count(call->op, call->v, call->y);
	struct line_arrays by = {.out = NULL};
	for (int i = 0; i < statistics_of((struct fold_op){call->op, true}); i++)
		by.wide[i] = writable(statistics + i * count);
	if (op_normalizes(call->op))
		axis_apply(call, by, dv, g, needs);
	else if (call->op == OP_cross_entropy)
		loss_apply(call, dv, g, needs, statistics[0]);
	else
		reduction_apply(call, by, dv, g, needs);
}

int64_t fold_scratch(struct fold_op fold, const struct type *v, const struct type *y)
{
	int64_t bytes;
	const int64_t each = (2 * fold_parts(fold) + statistics_of(fold)) * (int64_t)sizeof(double);
	return __builtin_mul_overflow(fold_count(fold.op, v, y), each, &bytes) || bytes > INT64_MAX - 2 * ARRAY_ALIGN
	           ? INT64_MAX
	           : bytes + 2 * ARRAY_ALIGN;
}

/* Returns the block of V's rows that begins at row FIRST; no rows behind the last block. */
static struct row_range block_at(const struct op_call *call, int64_t first)
{
	const int64_t left = call->v->shape.dim[0] - first;
	const bool last = call->blocks && first == (call->blocks - 1) * call->block;
	return (struct row_range){first, last ? left : lesser(left, call->block)};
}

void fold_add_rows(const struct op_call *call, struct row_range rows, double *state, double *block, const void *v)
{
	const int64_t count = fold_count(call->op, call->v, call->y);
	for (int64_t end = rows.first + rows.count; rows.first < end; rows.first += rows.count) {
		rows.count = lesser(call->block, end - rows.first);
		fold_partial_rows(call, rows, block, v, NULL, NULL);
		fold_add((struct fold_op){call->op, false}, state, block, count);
	}
}

void fold_blocks(const struct op_call *call, void *y, const void *v, const void *a, void *const keep[MAX_KEEPS])
{
	const bool norm = op_normalizes(call->op);
	const int64_t count = fold_count(call->op, call->v, call->y);
	const int64_t own = op_scratch(call->op, call->attrs, call->v, call->a, call->y, SCRATCH_FORWARD);
	const struct fold_op fold = {call->op, false};
	const int64_t size = fold_parts(fold) * count;
	double *const state = (double *)(void *)((char *)call->scratch + round_up(own, ARRAY_ALIGN));
	double *const block = state + size, *const statistics = block + size;
	fold_begin(fold, state, count);
	for (struct row_range rows = block_at(call, 0); rows.count > 0; rows = block_at(call, rows.first + rows.count)) {
		fold_partial_rows(call, rows, block, v, a, keep);
		fold_add(fold, state, block, count);
	}
	if (norm || y)
		fold_finish(call, false, norm ? statistics : y, state, count);
	if (norm)
		fold_apply(call, y, v, statistics, keep ? keep[0] : NULL);
}

void fold_blocks_back(const struct op_call *call, void *dv, const void *g, const void *const needs[MAX_NEEDS])
{
	const struct fold_op fold = {call->op, true};
	const int64_t count = fold_count(call->op, call->v, call->y);
	const int64_t own = op_scratch(call->op, call->attrs, call->v, NULL, call->y, SCRATCH_BACK);
	const int64_t size = fold_parts(fold) * count;
	double *const state = (double *)(void *)((char *)call->scratch + round_up(own, ARRAY_ALIGN));
	double *const block = state + size, *const statistics = block + size;
	fold_begin(fold, state, count);
	for (struct row_range rows = block_at(call, 0); rows.count > 0; rows = block_at(call, rows.first + rows.count)) {
		fold_partial_rows_back(call, rows, block, g, needs);
		fold_add(fold, state, block, count);
	}
	fold_finish(call, true, statistics, state, count);
	fold_apply_back(call, dv, g, needs, statistics);
}
