/*
 * Losses: means over the whole array, tile by tile. A tile is summed in pieces of fixed
 * size (cross_entropy: in rows), each by kernels.h. The sums of the pieces are added
 * with their rounding errors kept (Neumaier). At the end the sum is divided by the element
 * count of the whole array (cross_entropy: by the rows that it does not ignore, which tiles count). The array kept for the
 * derivative has the broadcast shape of v and t (cross_entropy: v's shape). That of mae holds signs. The sum itself is the
 * loss with reduction=sum.
 *
 * nll picks an element of each row, of which ir/lower_loss.c makes the other losses over classes.
 * Tests: tests/unit/test_general.c, tests/cases/losses.test
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

static struct type broadcast_type(const struct type *v, const struct type *a)
{
	struct type type = *v;
	(void)shape_broadcast(&v->shape, &a->shape, &type.shape);
	return type;
}

int64_t loss_scratch(const struct type *v, const struct type *a, bool by_a)
{
	const struct type type = broadcast_type(v, a);
	const int64_t count = shape_count(&type.shape);
	if (count == shape_count(&v->shape) && (!by_a || count == shape_count(&a->shape)))
		return 0;
	const int64_t bytes = type_bytes(&type);
	return bytes > INT64_MAX / 2 ? INT64_MAX : 2 * bytes;
}

/* True if CALL gives a sum, not a mean. */
static bool is_sum(const struct op_call *call) { return call->attrs && call->attrs->reduction == REDUCTION_SUM; }

/* Counts the elements of the whole array: WHOLE replaces V's leading extent if A keeps it. */
static double count_whole(const struct op_call *call)
{
	const struct type type = broadcast_type(call->v, call->a);
	const struct shape *shape = &type.shape, *v = &call->v->shape;
	const bool leading = v->ndim > 0 && v->ndim == shape->ndim && v->dim[0] == shape->dim[0];
	double count = 1;
	for (int i = 0; i < shape->ndim; i++)
		count *= (double)(i == 0 && leading ? call->whole : shape->dim[i]);
	return count;
}

double loss_divisor(const struct op_call *call, const double *state)
{
	return is_sum(call) ? 1 : call->op == OP_cross_entropy ? state[3] : count_whole(call);
}

/* Returns where K, the array kept for the derivative or NULL, has element I, a multiple of 4. */
static void *kept_at(const struct op_call *call, void *k, int64_t i)
{
	if (!k)
		return NULL;
	return call->op == OP_mae ? (char *)k + i / 4 : element_of(k, element_size(call->v->dtype), i);
}

void *loss_kept_at(const struct op_call *call, void *k, int64_t row)
{
	const struct type type = call->op == OP_cross_entropy ? *call->v : broadcast_type(call->v, call->a);
	return kept_at(call, k, row * (shape_count(&type.shape) / call->v->shape.dim[0]));
}

static double loss_delta(const struct op_call *call) { return call->attrs ? call->attrs->delta : 1; }

/* Elements of V and of the target A, and their differences D, which are rounded to the type. */
struct loss_piece {
	const void *v, *a;
	void *d;
	size_t n;
};

/* Returns the loss of V and A over SUM_FAR. It is in the range wherever the mean over any array is. */
static double far_loss(const struct op_call *call, double v, double a)
{
	const double part = 0x1p32; /* its square is SUM_FAR */
	const double size = fabs(v / part - a / part), delta = loss_delta(call);
	if (call->op == OP_mae)
		return size / part;
	if (call->op == OP_mse)
		return size * size;
	return size * part <= delta ? 0.5 * size * size : delta * ((size - 0.5 * (delta / part)) / part);
}

/* Stores in TO the sum of the losses of PIECE, whose plain sum is beyond the range. Leaves TO if one of them is not finite. */
static void sum_far_losses(const struct op_call *call, struct mean_sum *to, const struct loss_piece *piece)
{
	const enum dtype dtype = call->v->dtype;
	struct mean_sum sum = {0, 0, SUM_FAR};
	for (size_t i = 0; i < piece->n; i++) {
		const double loss = far_loss(call, element_get(dtype, piece->v, i), element_get(dtype, piece->a, i));
		if (!isfinite(loss))
			return;
		sum_add(&sum.hi, &sum.lo, loss, 0);
	}
	*to = sum;
	if (dtype == DTYPE_F32) /* doubles hold all sums of floats */
		*to = (struct mean_sum){sum.hi * SUM_FAR, sum.lo * SUM_FAR, 1};
}

/* Adds the sum of PIECE's losses to TO. Stores what the derivative needs in K. The differences may be overwritten. */
static void add_losses(const struct op_call *call, struct mean_sum *to, const struct loss_piece *from, void *k)
{
	void *const d = from->d;
	const size_t n = from->n;
	const struct loops *loops = call->kernels->loops;
	const double delta = loss_delta(call);
	struct mean_sum piece = {.scale = 1};
	struct kernel_args args = {.out = k, .v = d, .number = {-delta, delta}, .n = n};
	switch (call->op) {
	case OP_mse:
		if (k)
			memcpy(k, d, n * element_size(loops->dtype));
		loops->sum.squares(&piece.hi, &piece.lo, d, n, 1);
		break;
	case OP_mae:
		if (k)
			call->kernels->forward_keep[OP_abs][0](&(struct kernel_args){.out = d, .v = d, .keep = {k}, .n = n});
		loops->sum.magnitudes(&piece.hi, &piece.lo, d, n, 1);
		break;
	default:
		if (k)
			call->kernels->forward[OP_clip][0](&args);
		loops->sum.huber(&piece.hi, &piece.lo, d, &delta, n, 1);
	}
	if (!isfinite(piece.hi))
		sum_far_losses(call, &piece, from);
	mean_add(to, piece);
}

static void sum_differences(const struct op_call *call, struct mean_sum *sum, const void *v, const void *a, void *k)
{
	const struct type type = broadcast_type(call->v, call->a);
	const size_t size = element_size(type.dtype);
	const int64_t count = shape_count(&type.shape);
	const bool whole_v = shape_count(&call->v->shape) == count, whole_a = shape_count(&call->a->shape) == count;
	for (int64_t i = 0; i < count; i += LOSS_PIECE) {
		_Alignas(64) double from_v[LOSS_PIECE], from_a[LOSS_PIECE], d[LOSS_PIECE];
		const int64_t n = count - i < LOSS_PIECE ? count - i : LOSS_PIECE;
		const struct loss_piece piece = {whole_v ? element_at(v, size, i) : from_v,
		                                 whole_a ? element_at(a, size, i) : from_a, d, (size_t)n};
		if (!whole_v)
			broadcast_fill(call->kernels, from_v, &(struct broadcast){v, call->v, &type}, i, n);
		if (!whole_a)
			broadcast_fill(call->kernels, from_a, &(struct broadcast){a, call->a, &type}, i, n);
		call->kernels->forward[OP_sub][0](&(struct kernel_args){.out = d, .v = piece.v, .a = piece.a, .n = piece.n});
		add_losses(call, sum, &piece, kept_at(call, k, i));
	}
}

/*
 * Returns the class of row I, NO_CLASS if element I of CLASSES is not an integer from 0 to N - 1, or IGNORED. CLASSES has
 * its own computing type, because f32 does not hold all integers.
 */
enum { NO_CLASS = -1, IGNORED = -2 };
static int64_t class_of(const struct op_call *call, const void *classes, int64_t i, int64_t n)
{
	const double x = element_get(call->a->dtype, classes, (size_t)i);
	if (loss_ignores(call->attrs, x))
		return IGNORED;
	return x >= 0 && x < (double)n && x == floor(x) ? (int64_t)x : NO_CLASS;
}

double loss_rows(const struct op_call *call, const void *classes)
{
	const int64_t rows = shape_count(&call->a->shape);
	double count = 0;
	for (int64_t i = 0; i < rows; i++)
		count += !loss_ignores(call->attrs, element_get(call->a->dtype, classes, (size_t)i));
	return count;
}

/* Returns the loss of a row: LOG, of its sum of exponentials by the LARGEST element, less what LOGIT is above that. */
static struct mean_sum row_loss(double log, double logit, double largest)
{
	const double loss = log - (logit - largest);
	if (isfinite(loss) || !isfinite(log) || !isfinite(logit))
		return (struct mean_sum){loss, 0, 1};
	return (struct mean_sum){largest / SUM_FAR - logit / SUM_FAR, 0, SUM_FAR};
}

/*
 * Adds -log_softmax(row)[class] of each row that counts to LOSSES, and the number of these rows to *COUNTED. Stores the
 * softmax in K unless that is NULL.
 */
static void sum_rows(const struct op_call *call, struct mean_sum *losses, double *counted, const void *v, const void *a,
                     void *k)
{
	const struct loops *loops = call->kernels->loops;
	const enum dtype dtype = call->v->dtype;
	const size_t size = element_size(dtype);
	const int64_t n = call->v->shape.dim[call->v->shape.ndim - 1], rows = shape_count(&call->a->shape);
	for (int64_t first = 0; first < rows; first += LINES_SOME) {
		double largest[LINES_SOME], sum[LINES_SOME], rest[LINES_SOME], all[LINES_SOME];
		const int64_t here = rows - first < LINES_SOME ? rows - first : LINES_SOME;
		void *kept = k ? element_of(k, size, first * n) : NULL;
		const struct lines lines = {element_at(v, size, first * n), (size_t)n, (size_t)here};
		lines_largest(loops, largest, lines);
		lines_sum_exp(call, loops, kept, lines, largest, (struct wide_sums){sum, rest, NULL});
		for (int64_t i = 0; i < here; i++)
			all[i] = sum[i] + rest[i];
		if (kept)
			loops->divide(kept, kept, all, (size_t)n, (size_t)here);
		for (int64_t i = 0; i < here; i++) {
			const int64_t class = class_of(call, a, first + i, n);
			if (class == IGNORED)
				continue;
			const double logit = class < 0 ? NAN : element_get(dtype, v, (size_t)((first + i) * n + class));
			mean_add(losses, row_loss(log_of_sum(sum[i], rest[i]), logit, largest[i]));
			++*counted;
		}
	}
}

void loss_partial(const struct op_call *call, double *state, const void *v, const void *a, void *k)
{
	enum { SUM_PARTS = 3 };
	struct mean_sum sum = {0};
	double counted = 0;
	if (call->more) {
		sum = (struct mean_sum){state[0], state[1], state[2]};
		counted = call->op == OP_cross_entropy ? state[SUM_PARTS] : 0;
	}
	if (call->op == OP_cross_entropy)
		sum_rows(call, &sum, &counted, v, a, k);
	else
		sum_differences(call, &sum, v, a, k);
	memcpy(state, (const double[]){sum.hi, sum.lo, sum.scale}, sizeof sum);
	if (call->op == OP_cross_entropy)
		state[SUM_PARTS] = counted;
}

/* Y is NULL if a recomputation needs only the kept array. */
static void forward_loss(const struct op_call *call, void *y, const void *v, const void *a, void *k)
{
	double state[4];
	loss_partial(call, state, v, a, k);
	if (y)
		sums_store(call->v->dtype, y, (struct wide_sums){&state[0], &state[1], &state[2]}, loss_divisor(call, state),
		           1);
}

/*
 * Stores the N elements of K times FACTOR in TO. A factor that is no normal number is applied in three steps: half of its
 * power of two, its mantissa, and the other half. So a product that is normal keeps its precision.
 */
static void scale(const struct op_call *call, void *to, const void *k, struct split_product factor, size_t n)
{
	const struct loops *loops = call->kernels->loops;
	const double whole = split_value(factor);
	if (call->op == OP_mae) {
		loops->fill(to, whole, n);
	} else if (loops->dtype == DTYPE_F64 ? isnormal(whole) : isnormal((float)whole)) {
		loops->multiply(to, k, &whole, n, 1);
	} else if (isnormal(whole) || !isnormal(factor.mantissa)) {
		loops->multiply_wide(to, k, &whole, n, 1);
	} else {
		const int half = (int)factor.exponent / 2;
		const double first = ldexp(1, half), second = ldexp(1, (int)factor.exponent - half);
		loops->multiply_wide(to, k, &first, n, 1);
		loops->multiply_wide(to, to, &factor.mantissa, n, 1);
		loops->multiply_wide(to, to, &second, n, 1);
	}
	if (call->op != OP_mae)
		return;
	call->kernels->vjp_v[OP_abs][0](&(struct kernel_args){.out = to, .g = to, .k = k, .n = n});
}

/* Stores K times FACTOR in TO, summed over the axes along which TO's shape was broadcast. */
static void scale_to(const struct op_call *call, void *to, const struct type *to_type, const struct type *type,
                     const void *k, struct split_product factor)
{
	const int64_t count = shape_count(&type->shape);
	if (count == shape_count(&to_type->shape)) {
		scale(call, to, k, factor, (size_t)count);
		return;
	}
	void *rest = element_of(call->scratch, element_size(type->dtype), count);
	scale(call, call->scratch, k, factor, (size_t)count);
	sum_to_shape(call->kernels, to, to_type, call->scratch, type, rest);
}

/* mse: dv = 2 g d / count; mae and huber: dv = g k / count; dt = -dv; each summed over its broadcast axes. Of a sum, count is 1. */
static void vjp_loss(const struct op_call *call, void *dv, void *da, const void *g, const void *k)
{
	const struct type type = broadcast_type(call->v, call->a);
	struct split_product factor = split(element_get(call->v->dtype, g, 0));
	const double count = is_sum(call) ? 1 : count_whole(call);
	const struct split_product mean = split(factor.mantissa / (count / (call->op == OP_mse ? 2 : 1)));
	factor = (struct split_product){mean.mantissa, factor.exponent + mean.exponent};
	if (dv)
		scale_to(call, dv, call->v, &type, k, factor);
	factor.mantissa = -factor.mantissa;
	if (da)
		scale_to(call, da, call->a, &type, k, factor);
}

#define LOSS(NAME)                                                                                                     \
	FORWARD(NAME) { forward_loss(call, y, v, a, keep ? keep[0] : NULL); }
#define DIFFERENCE(NAME)                                                                                               \
	LOSS(NAME) VJP(NAME) { vjp_loss(call, dv, da, g, needs[3]); }
DIFFERENCE(mse)
DIFFERENCE(mae)
DIFFERENCE(huber)
LOSS(cross_entropy)

/*
 * Returns p - 1 for element AT of a ROW of N probabilities. If p is near 1, that is less exact than the sum of the others,
 * which is 0 only if they are.
 */
static double less_one(const struct loops *loops, const void *row, int64_t at, int64_t n)
{
	const size_t size = element_size(loops->dtype);
	const double p = element_get(loops->dtype, row, (size_t)at);
	double before, behind;
	if (!(p > 0.5))
		return p - 1;
	loops->sum.values(&before, NULL, row, (size_t)at, 1);
	loops->sum.values(&behind, NULL, element_at(row, size, at + 1), (size_t)(n - at - 1), 1);
	return -(before + behind);
}

/* dv = g (softmax - onehot) / rows, or of a sum without the division; NaN in a row without a class, 0 in one that is ignored */
void loss_apply(const struct op_call *call, void *dv, const void *g, const void *const needs[MAX_NEEDS], double rows)
{
	const enum dtype dtype = call->v->dtype;
	const int64_t n = call->v->shape.dim[call->v->shape.ndim - 1], count = shape_count(&call->a->shape);
	const void *classes = needs[1], *softmax = needs[3];
	const double factor = element_get(dtype, g, 0) / (is_sum(call) ? 1 : rows);
	call->kernels->loops->multiply_wide(dv, softmax, &factor, (size_t)(count * n), 1);
	for (int64_t i = 0; i < count; i++) {
		const int64_t class = class_of(call, classes, i, n), at = i * n + (class < 0 ? 0 : class);
		if (class < 0)
			call->kernels->loops->fill(element_of(dv, element_size(dtype), i * n), class == IGNORED ? 0 : NAN,
			                           (size_t)n);
		else
			element_set(dtype, dv, (size_t)at,
			            factor *
			                less_one(call->kernels->loops, element_at(softmax, element_size(dtype), i * n), class, n));
	}
}

/* Of a tile only if no row is ignored: fold_apply_back has the rows of the whole array. */
VJP(cross_entropy)
{
	const double rows = (double)shape_count(&call->a->shape);
	const double whole = call->v->shape.ndim < 2 ? 1 : rows / (double)call->v->shape.dim[0] * (double)call->whole;
	const bool ignores = call->attrs && call->attrs->ignore.given;
	if (da)
		memset(da, 0, (size_t)rows * element_size(call->a->dtype));
	if (dv)
		loss_apply(call, dv, g, needs, ignores ? loss_rows(call, needs[1]) : whole);
}

/* Rows of V [outer, n, inner] with a class each: row r is the line of n elements at index r of [outer, inner]. */
struct picking {
	const struct op_call *call;
	struct axis_view view;
	const void *classes, *from; /* FROM: V, the weights, or g */
	void *to;
};

/* Calls team_run for FUNCTION with the indices of V's axes before the classes. */
static void pick(const struct op_call *call, const void *classes, const void *from, void *to, team_part *function)
{
	struct picking p = {call, {1, 1, 1}, classes, from, to};
	const int axis = op_class_axis(call->attrs, call->v->shape.ndim);
	for (int i = 0; i < call->v->shape.ndim; i++)
		*(i < axis ? &p.view.outer : i == axis ? &p.view.n : &p.view.inner) *= call->v->shape.dim[i];
	team_run(call->team, p.view.outer, greater(TEAM_PIECE / greater(p.view.n * p.view.inner, 1), 1), function, &p);
}

/* Stores -v[class] of the rows at outer indices BEGIN .. END-1; 0 where the class is ignored, NaN where it is none. */
static void pick_rows(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct picking *p = context;
	const struct axis_view *w = &p->view;
	const enum dtype dtype = p->call->v->dtype;
	for (int64_t row = begin * w->inner; row < end * w->inner; row++) {
		const int64_t class = class_of(p->call, p->classes, row, w->n);
		const int64_t at = (row / w->inner * w->n + class) * w->inner + row % w->inner;
		const double y = class == IGNORED ? 0 : class < 0 ? NAN : -element_get(dtype, p->from, (size_t)at);
		element_set(dtype, p->to, (size_t)row, y);
	}
}

/* Stores the derivative of pick_rows: -g at each row's class, else 0. */
static void unpick_rows(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct picking *p = context;
	const struct axis_view *w = &p->view;
	const enum dtype dtype = p->call->v->dtype;
	const size_t size = element_size(dtype);
	memset(element_of(p->to, size, begin * w->n * w->inner), 0, (size_t)((end - begin) * w->n * w->inner) * size);
	for (int64_t row = begin * w->inner; row < end * w->inner; row++) {
		const int64_t class = class_of(p->call, p->classes, row, w->n);
		const int64_t first = row / w->inner * w->n * w->inner + row % w->inner;
		if (class >= 0)
			element_set(dtype, p->to, (size_t)(first + class * w->inner), -element_get(dtype, p->from, (size_t)row));
		for (int64_t k = 0; class == NO_CLASS && k < w->n; k++)
			element_set(dtype, p->to, (size_t)(first + k * w->inner), NAN);
	}
}

FORWARD(nll) { pick(call, a, v, y, pick_rows); }
VJP(nll)
{
	if (da)
		memset(da, 0, (size_t)type_bytes(call->a));
	if (dv)
		pick(call, needs[1], g, dv, unpick_rows);
}

/* Stores the weight of each row's class; 0 where it is ignored, NaN where it is none. */
static void weigh_rows(void *context, void *memory MAYBE_UNUSED, int64_t begin, int64_t end)
{
	const struct picking *p = context;
	const enum dtype dtype = p->call->y->dtype;
	for (int64_t row = begin * p->view.inner; row < end * p->view.inner; row++) {
		const int64_t class = class_of(p->call, p->classes, row, p->view.n);
		const double weight = class >= 0 && p->from ? element_get(dtype, p->from, (size_t) class) : 1;
		element_set(dtype, p->to, (size_t)row, class == IGNORED ? 0 : class < 0 ? NAN : weight);
	}
}

FORWARD(class_weight) { pick(call, a, call->b, y, weigh_rows); }
