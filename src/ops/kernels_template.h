/*
 * All kernels of one instruction set for one type, made from ops.def. The includer
 * defines TYPE_F32 or TYPE_F64 (undefined at the end) after vmath_template.h. The
 * table is table_f32 or table_f64.
 *
 * A row becomes inline functions and loops around them: one for its FORWARD expression,
 * one that stores the kept values too, and one for each derivative. The parameters of a
 * derivative are g and what NEEDS declares; one that reads anything else does not compile.
 *
 * A loop computes a multiple of STRIDE elements: a vector, and at least the 8 elements
 * whose mask bits share a byte. The rest goes through the same loop in a padded copy, so
 * that an element has the same bits at every index. Each element is loaded before it is
 * stored: out may be any input block.
 */
#ifdef TYPE_F32
#define N(NAME) NAME##_f32
#define V(NAME) NAME##_f
#define VEC vf
#define LANE_MASK vi
#define REAL float
#define LANES LANES_F
#else
#define N(NAME) NAME##_f64
#define V(NAME) NAME##_d
#define VEC vd
#define LANE_MASK vl
#define REAL double
#define LANES LANES_D
#endif
#define SPLAT(X) V(splat)((REAL)(X))

#ifndef KERNELS_TEMPLATE_ONCE
#define KERNELS_TEMPLATE_ONCE

/* ---- the names that ops.def's expressions use ---- */
#define P(I) number[I]
#define M_ZERO SPLAT(0)
#define M_HALF SPLAT(0.5)
#define M_ONE SPLAT(1)
#define M_TWO_OVER_SQRT_PI SPLAT(0x1.20dd750429b6dp+0)
#define M_SELECT(MASK, YES, NO) V(select)(MASK, YES, NO)
#define M_IF(FLAG, YES, NO) ((FLAG)[0] != 0 ? (YES) : (NO))
#define M_ABS(X) V(abs)(X)
#define M_SIGN(X) V(sign)(X)
#define M_MAX(X, Y) V(max)(X, Y)
#define M_MIN(X, Y) V(min)(X, Y)
#define M_RELU(X) V(relu)(X)
#define M_FLOOR(X) V(floor)(X)
#define M_SQRT(X) V(sqrt)(X)
#define M_RSQRT(X) V(rsqrt)(X)
#define M_POW(X, Y) V(pow)(X, Y)
#define M_EXP(X) V(exp)(X)
#define M_EXP_MINUS_SQUARE(X) V(gauss)(X)
#define M_EXPM1(X) V(expm1)(X)
#define M_LOG(X) V(log)(X)
#define M_LOG1P(X) V(log1p)(X)
#define M_SIN(X) V(sin)(X)
#define M_COS(X) V(cos)(X)
#define M_TAN(X) V(tan)(X)
#define M_ASIN(X) V(asin)(X)
#define M_ACOS(X) V(acos)(X)
#define M_ATAN(X) V(atan)(X)
#define M_SINH(X) V(sinh)(X)
#define M_COSH(X) V(cosh)(X)
#define M_TANH(X) V(tanh)(X)
#define M_SIGMOID(X) V(sigmoid)(X)
#define M_SOFTPLUS(X) V(softplus)(X)
#define M_SILU(X) V(silu)(X)
#define M_SILU_DERIVATIVE(X) V(silu_derivative)(X)
#define M_GELU(X) V(gelu)(X)
#define M_GELU_DERIVATIVE(X) V(gelu_derivative)(X)
#define M_GELU_TANH(X) V(gelu_tanh)(X)
#define M_GELU_TANH_DERIVATIVE(X) V(gelu_tanh_derivative)(X)
#define M_ERF(X) V(erf)(X)

/* ---- NEEDS: parameters (T: the type of a kept value), and the loop's arguments (FETCH: how a kept value is read) ---- */
#define SEE_NIL(T)
#define SEE_ZERO(T)
#define SEE_V(T) , VEC v
#define SEE_A(T) , VEC a
#define SEE_Y(T) , VEC y
#define SEE_K(T) , T k
#define SEE_KL(T) , T k, T l
#define SEE_VA(T) , VEC v, VEC a
#define SEE_VY(T) , VEC v, VEC y
#define SEE_AY(T) , VEC a, VEC y
#define SEE_VAY(T) , VEC v, VEC a, VEC y
#define SHOW_V , V(load)(s.v, i)
#define SHOW_A , form ? scalar : V(load)(s.a, i)
#define SHOW_Y , V(load)(s.y, i)
#define SHOWN_NIL(FETCH)
#define SHOWN_ZERO(FETCH)
#define SHOWN_V(FETCH) SHOW_V
#define SHOWN_A(FETCH) SHOW_A
#define SHOWN_Y(FETCH) SHOW_Y
#define SHOWN_K(FETCH) , FETCH(s.k, i)
#define SHOWN_KL(FETCH) , FETCH(s.k, i), FETCH(s.l, i)
#define SHOWN_VA(FETCH) SHOW_V SHOW_A
#define SHOWN_VY(FETCH) SHOW_V SHOW_Y
#define SHOWN_AY(FETCH) SHOW_A SHOW_Y
#define SHOWN_VAY(FETCH) SHOW_V SHOW_A SHOW_Y
/* 1 if there is a derivative */
#define GIVEN(NEEDS) (NEEDS_##NEEDS != NEEDS_ZERO)

/* ---- KEEPS ---- */
#define KEPT_NOTHING VEC
#define KEPT_VALUE(OP, EXPRESSION) VEC
#define KEPT_MASK(OP, CONDITION) LANE_MASK
#define KEPT_MASKS(OP, CONDITION, OP2, CONDITION2) LANE_MASK
#define FETCH_NOTHING V(load)
#define FETCH_VALUE(OP, EXPRESSION) V(load)
#define FETCH_MASK(OP, CONDITION) N(load_mask)
#define FETCH_MASKS(OP, CONDITION, OP2, CONDITION2) N(load_mask)
#define KEEPING_NOTHING
#define KEEPING_VALUE(OP, EXPRESSION) V(store)(s.keep[0], i, EXPRESSION);
#define KEEPING_MASK(OP, CONDITION) N(store_mask)(s.keep[0], i, CONDITION);
#define KEEPING_MASKS(OP, CONDITION, OP2, CONDITION2)                                                                  \
	N(store_mask)(s.keep[0], i, CONDITION);                                                                            \
	N(store_mask)(s.keep[1], i, CONDITION2);
#define KEPT_COUNT_NOTHING 0
#define KEPT_COUNT_VALUE(OP, EXPRESSION) 1
#define KEPT_COUNT_MASK(OP, CONDITION) 1
#define KEPT_COUNT_MASKS(OP, CONDITION, OP2, CONDITION2) 2
#define MASKED_NOTHING false
#define MASKED_VALUE(OP, EXPRESSION) false
#define MASKED_MASK(OP, CONDITION) true
#define MASKED_MASKS(OP, CONDITION, OP2, CONDITION2) true

#define UNUSED __attribute__((unused))
#define LOOP static __attribute__((noinline)) void

#define REPEAT_8(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define REPEAT_10(X) REPEAT_8(X) X(8) X(9)
#define REPEAT_12(X) REPEAT_10(X) X(10) X(11)
#define REPEAT_16(X) REPEAT_12(X) X(12) X(13) X(14) X(15)
#define REPEAT_PASTE(COUNT) REPEAT_##COUNT
#define REPEAT_TILE(COUNT) REPEAT_PASTE(COUNT)
#define EACH(NAME, I) r##I = N(value_##NAME)(r##I, a, number);
#define EACH_8(NAME)                                                                                                   \
	EACH(NAME, 0) EACH(NAME, 1) EACH(NAME, 2) EACH(NAME, 3) EACH(NAME, 4) EACH(NAME, 5) EACH(NAME, 6) EACH(NAME, 7)
#define EACH_10(NAME) EACH_8(NAME) EACH(NAME, 8) EACH(NAME, 9)
#define EACH_12(NAME) EACH_10(NAME) EACH(NAME, 10) EACH(NAME, 11)
#define EACH_16(NAME) EACH_12(NAME) EACH(NAME, 12) EACH(NAME, 13) EACH(NAME, 14) EACH(NAME, 15)
#define EACH_PASTE(COUNT) EACH_##COUNT
#define EACH_TILE(COUNT) EACH_PASTE(COUNT)
#define STEP(NAME, FLOPS)                                                                                              \
	do_##NAME : if ((FLOPS) < 8)                                                                                       \
	{                                                                                                                  \
		const VEC a UNUSED = SPLAT(step->scalar);                                                                      \
		const double *const numbers UNUSED = steps[step - packed].number;                                              \
		const VEC number[2] UNUSED = {SPLAT(numbers[0]), SPLAT(numbers[1])};                                           \
		EACH_TILE(ISA_TILE)(NAME)                                                                                      \
	}                                                                                                                  \
	step++;                                                                                                            \
	goto *labels[step->op];
#define QUOTE(X) #X
#define QUOTED(X) QUOTE(X)
#endif

enum { N(STRIDE) = LANES < 8 ? 8 : LANES };
#define STRIDE N(STRIDE)

/* ---- masks in memory: bit i % 8 of byte i / 8 ---- */

LANEWISE LANE_MASK N(load_mask)(const void *from, size_t index)
{
	const unsigned char *byte = (const unsigned char *)from + index / 8;
	unsigned bits = byte[0];

	if (LANES > 8)
		bits |= (unsigned)byte[1] << 8;
	if (LANES < 8)
		bits = (bits >> index % 8) & ((1U << LANES) - 1);
	return V(mask)(bits);
}

LANEWISE void N(store_mask)(void *to, size_t index, LANE_MASK mask)
{
	unsigned char *byte = (unsigned char *)to + index / 8;
	const unsigned bits = V(bits)(mask);

	if (LANES < 8 && index % 8)
		byte[0] = (unsigned char)(byte[0] | bits << index % 8);
	else
		byte[0] = (unsigned char)bits;
	if (LANES > 8)
		byte[1] = (unsigned char)(bits >> 8);
}

/* ---- a loop over a block: whole strides, then the rest in a padded copy ---- */

struct N(padded) {
	_Alignas(64) REAL element[7][N(STRIDE)];
	unsigned char mask[4][(N(STRIDE) + 7) / 8];
};

/* Copies COUNT elements from START on and pads them with ones, which no function minds. */
static const void *N(pad)(REAL to[N(STRIDE)], const void *from, size_t start, size_t count)
{
	if (!from)
		return NULL;
	for (int i = 0; i < STRIDE; i++)
		to[i] = 1;
	memcpy(to, (const REAL *)from + start, count * sizeof(REAL));
	return to;
}

static const void *N(pad_mask)(unsigned char *to, const void *from, size_t start, size_t count)
{
	if (!from)
		return NULL;
	memset(to, 0, (N(STRIDE) + 7) / 8);
	memcpy(to, (const unsigned char *)from + start / 8, (count + 7) / 8);
	return to;
}

/* Copies COUNT results to START: elements, or a mask, whose bits beyond the end are cleared. */
static void N(unpad)(void *to, const void *from, size_t start, size_t count)
{
	if (to)
		memcpy((REAL *)to + start, from, count * sizeof(REAL));
}

static void N(unpad_mask)(void *to, unsigned char *from, size_t start, size_t count)
{
	if (!to)
		return;
	from[(count - 1) / 8] &= (unsigned char)(0xffU >> (7 - (count - 1) % 8));
	memcpy((unsigned char *)to + start / 8, from, (count + 7) / 8);
}

static __attribute__((noinline)) void N(drive)(kernel *loop, const struct kernel_args *args, bool masked)
{
	const size_t rest = args->n % STRIDE, start = args->n - rest;

	/* ARGS itself: the wide loads of a copy would wait for the stores that have just filled ARGS */
	if (!rest) {
		loop(args);
		return;
	}
	struct kernel_args part = *args;
	if (start) {
		part.n = start;
		loop(&part);
	}

	struct N(padded) padded;
	REAL(*const element)[STRIDE] = padded.element;
	part.v = N(pad)(element[0], args->v, start, rest);
	part.a = N(pad)(element[1], args->a, start, rest);
	part.y = N(pad)(element[2], args->y, start, rest);
	part.g = N(pad)(element[3], args->g, start, rest);
	part.out = element[4];
	part.n = STRIDE;
	if (masked) {
		part.k = N(pad_mask)(padded.mask[0], args->k, start, rest);
		part.l = N(pad_mask)(padded.mask[1], args->l, start, rest);
		part.keep[0] = padded.mask[2];
		part.keep[1] = padded.mask[3];
		loop(&part);
		N(unpad_mask)(args->keep[0], padded.mask[2], start, rest);
		N(unpad_mask)(args->keep[1], padded.mask[3], start, rest);
	} else {
		part.k = N(pad)(element[5], args->k, start, rest);
		part.l = NULL; /* a second kept array is a mask */
		part.keep[0] = element[6];
		loop(&part);
		N(unpad)(args->keep[0], element[6], start, rest);
	}
	N(unpad)(args->out, element[4], start, rest);
}

/* NAME_FORM: the kernel that drives NAME_any, compiled for FORM alone. */
#define KERNEL(NAME, FORM, MASKED)                                                                                     \
	LOOP N(NAME##_loop_##FORM)(const struct kernel_args *args) { N(NAME##_any)(args, FORM); }                          \
	static void N(NAME##_##FORM)(const struct kernel_args *args) { N(drive)(N(NAME##_loop_##FORM), args, MASKED); }

#define BLOCK(...)                                                                                                     \
	const struct kernel_args s = *args;                                                                                \
	const VEC number[2] UNUSED = {SPLAT(s.number[0]), SPLAT(s.number[1])};                                             \
	const VEC scalar UNUSED = SPLAT(s.scalar);                                                                         \
	for (size_t i = 0; i < s.n; i += LANES) {                                                                          \
		__VA_ARGS__                                                                                                    \
	}

/* ---- forward, alone and with kept values ---- */
#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, NEEDS, FLOPS, FORWARD, DERIVATIVE, DOC)                                   \
	LANEWISE VEC N(value_##NAME)(VEC v, VEC a UNUSED, const VEC number[2] UNUSED) { return FORWARD; }                  \
	LANEWISE void N(forward_##NAME##_any)(const struct kernel_args *args, const int form UNUSED)                       \
	{                                                                                                                  \
		BLOCK(V(store)(s.out, i, N(value_##NAME)(V(load)(s.v, i), scalar, number));)                                   \
	}                                                                                                                  \
	KERNEL(forward_##NAME, 0, false)
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, NEEDS_A, FLOPS, FORWARD, DERIVATIVE_V, DERIVATIVE_A, DOC)                  \
	LANEWISE VEC N(value_##NAME)(VEC v UNUSED, VEC a, const VEC number[2] UNUSED) { return FORWARD; }                  \
	LANEWISE void N(forward_##NAME##_any)(const struct kernel_args *args, const int form)                              \
	{                                                                                                                  \
		BLOCK(V(store)(s.out, i, N(value_##NAME)(V(load)(s.v, i), form ? scalar : V(load)(s.a, i), number));)          \
	}                                                                                                                  \
	KERNEL(forward_##NAME, 0, false)                                                                                   \
	KERNEL(forward_##NAME, 1, false)
#include "ops/ops.def"

#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, NEEDS, FLOPS, FORWARD, DERIVATIVE, DOC)                                   \
	LANEWISE void N(keep_##NAME##_any)(const struct kernel_args *args, const int form UNUSED)                          \
	{                                                                                                                  \
		if (KEPT_COUNT_##KEEPS == 0)                                                                                   \
			return;                                                                                                    \
		BLOCK(const VEC v = V(load)(s.v, i); const VEC y = FORWARD; KEEPING_##KEEPS V(store)(s.out, i, y);)            \
	}                                                                                                                  \
	KERNEL(keep_##NAME, 0, MASKED_##KEEPS)
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, NEEDS_A, FLOPS, FORWARD, DERIVATIVE_V, DERIVATIVE_A, DOC)                  \
	LANEWISE void N(keep_##NAME##_any)(const struct kernel_args *args, const int form)                                 \
	{                                                                                                                  \
		if (KEPT_COUNT_##KEEPS == 0)                                                                                   \
			return;                                                                                                    \
		BLOCK(const VEC v UNUSED = V(load)(s.v, i); const VEC a = form ? scalar : V(load)(s.a, i);                     \
		      const VEC y = FORWARD; KEEPING_##KEEPS V(store)(s.out, i, y);)                                           \
	}                                                                                                                  \
	KERNEL(keep_##NAME, 0, MASKED_##KEEPS)                                                                             \
	KERNEL(keep_##NAME, 1, MASKED_##KEEPS)
#include "ops/ops.def"

/* ---- derivatives ---- */
#define DERIVATIVE_KERNEL(NAME, KEEPS, NEEDS, DERIVATIVE)                                                                          \
	LANEWISE VEC N(NAME##_value)(const VEC number[2] UNUSED, VEC g SEE_##NEEDS(KEPT_##KEEPS)) { return DERIVATIVE; }   \
	LANEWISE void N(NAME##_any)(const struct kernel_args *args, const int form UNUSED)                                 \
	{                                                                                                                  \
		if (!GIVEN(NEEDS))                                                                                            \
			return;                                                                                                    \
		BLOCK(V(store)(s.out, i, N(NAME##_value)(number, V(load)(s.g, i) SHOWN_##NEEDS(FETCH_##KEEPS)));)              \
	}
#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, NEEDS, FLOPS, FORWARD, DERIVATIVE, DOC)                                   \
	DERIVATIVE_KERNEL(vjp_v_##NAME, KEEPS, NEEDS, DERIVATIVE)                                                                      \
	KERNEL(vjp_v_##NAME, 0, MASKED_##KEEPS)
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, NEEDS_A, FLOPS, FORWARD, DERIVATIVE_V, DERIVATIVE_A, DOC)                  \
	DERIVATIVE_KERNEL(vjp_v_##NAME, KEEPS, NEEDS_V, DERIVATIVE_V)                                                                  \
	KERNEL(vjp_v_##NAME, 0, MASKED_##KEEPS)                                                                            \
	KERNEL(vjp_v_##NAME, 1, MASKED_##KEEPS)                                                                            \
	DERIVATIVE_KERNEL(vjp_a_##NAME, KEEPS, NEEDS_A, DERIVATIVE_A)                                                                  \
	KERNEL(vjp_a_##NAME, 0, MASKED_##KEEPS)                                                                            \
	KERNEL(vjp_a_##NAME, 1, MASKED_##KEEPS)
#include "ops/ops.def"

/* ---- a run in registers ---- */

/*
 * A tile of ISA_TILE vectors stays in registers from the first step to the last. A step
 * is a jump to the label of its operation; each cheap row of ops.def has one. A loop ends
 * with a step that jumps back. The open loops are on a stack, the innermost on top. What
 * most steps read is packed, so that a thousand steps stay in the nearest cache. Scalars
 * have the type of the run: a conversion would cost as much as an addition.
 */
struct N(packed) {
	REAL scalar;
	uint32_t op; /* enum op; OP_COUNT ends a loop, OP_COUNT + 1 the run; or one of the labels below */
};

/* max and min with a number other than 0: a NaN or a tie is v, bit by bit, so one instruction does it */
enum { N(STEP_max_number) = OP_COUNT + 2, N(STEP_min_number) };
LANEWISE VEC N(value_max_number)(VEC v, VEC a, const VEC number[2] UNUSED) { return V(greater)(a, v); }
LANEWISE VEC N(value_min_number)(VEC v, VEC a, const VEC number[2] UNUSED) { return V(lesser)(a, v); }

/* The label that does a step fastest. */
static uint32_t N(step_label)(const struct run_step *step)
{
	const REAL x = (REAL)step->scalar;

	if (step->op == OP_max && x == 0 && !signbit(x))
		return OP_relu;
	if ((step->op == OP_max || step->op == OP_min) && (x < 0 || x > 0))
		return step->op == OP_max ? N(STEP_max_number) : N(STEP_min_number);
	return step->op;
}

static __attribute__((noinline)) void N(run_tile)(REAL *out, const REAL *v, const struct N(packed) * packed,
                                                  const struct run_step *steps)
{
	static const void *const labels[OP_COUNT + 4] = {
#define UNARY(NAME, ...) [OP_##NAME] = &&do_##NAME,
#define BINARY(NAME, ...) [OP_##NAME] = &&do_##NAME,
#define GENERAL(NAME, ...) [OP_##NAME] = &&next,
#include "ops/ops.def"
		[OP_COUNT] = &&loop,
		[OP_COUNT + 1] = &&done,
		[N(STEP_max_number)] = &&do_max_number,
		[N(STEP_min_number)] = &&do_min_number,
	};
	struct {
		const struct N(packed) * step;
		uint64_t left;
	} open[RUN_MAX_DEPTH];
	int depth = 0;
	const struct N(packed) *step = packed;

#define READ(I) VEC r##I = V(load)(v, (I)*LANES);
	REPEAT_TILE(ISA_TILE)
	(READ)
#undef READ
		goto *labels[step->op];
loop:
	if (depth == 0 || open[depth - 1].step != step) {
		open[depth].step = step;
		open[depth++].left = steps[step - packed].iterations;
	}
	if (--open[depth - 1].left) {
		step = packed + steps[step - packed].target;
		goto *labels[step->op];
	}
	depth--;
next: /* a run has no general operation */
	step++;
	goto *labels[step->op];

#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, NEEDS, FLOPS, ...) STEP(NAME, FLOPS)
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, NEEDS_A, FLOPS, ...) STEP(NAME, FLOPS)
#include "ops/ops.def"
	STEP(max_number, 1)
	STEP(min_number, 1)

done:
#define WRITE(I) V(store)(out, (I)*LANES, r##I);
	REPEAT_TILE(ISA_TILE)(WRITE)
#undef WRITE
}

static void N(run)(void *out, const void *v, const struct run_step *steps, size_t count, size_t n)
{
	enum { TILE = ISA_TILE * LANES };
	struct N(packed) packed[RUN_MAX_STEPS + 1];
	size_t i = 0;

	for (size_t j = 0; j < count; j++)
		packed[j] = (struct N(packed)){(REAL)steps[j].scalar, N(step_label)(&steps[j])};
	packed[count].op = OP_COUNT + 1;

	for (; n - i >= TILE; i += TILE)
		N(run_tile)((REAL *)out + i, (const REAL *)v + i, packed, steps);
	if (i < n) {
		_Alignas(64) REAL tile[TILE];
		for (size_t j = n - i; j < TILE; j++)
			tile[j] = 1;
		memcpy(tile, (const REAL *)v + i, (n - i) * sizeof(REAL));
		N(run_tile)(tile, tile, packed, steps);
		memcpy((REAL *)out + i, tile, (n - i) * sizeof(REAL));
	}
}

/* ---- sums ---- */

/*
 * A sum has the same order in every instruction set. In a block of 128, lane j of 16
 * adds elements j, j + 16, and so on. Then lanes j and j + 8 are added, j + 4, j + 2 and
 * j + 1. Blocks are added pairwise. A short block is filled with -0, which adds nothing.
 */
enum { N(SUM_BLOCK) = 128, N(SUM_LANES) = 16 };

static double N(sum_block)(const REAL *v)
{
	enum { VECTORS = N(SUM_LANES) / LANES_D };
	vd lane[VECTORS];
	double total[N(SUM_LANES)];

	for (int j = 0; j < VECTORS; j++)
		lane[j] = splat_d(-0.0);
	for (int i = 0; i < N(SUM_BLOCK); i += N(SUM_LANES))
#ifdef TYPE_F32
		for (int j = 0; j < VECTORS; j += 2) {
			const vf x = load_f(v, (size_t)(i + j * LANES_D));
			lane[j] += widen_low(x);
			lane[j + 1] += widen_high(x);
		}
#else
		for (int j = 0; j < VECTORS; j++)
			lane[j] += load_d(v, (size_t)(i + j * LANES_D));
#endif
	for (int j = 0; j < VECTORS; j++)
		store_d(total, (size_t)(j * LANES_D), lane[j]);
	for (int width = N(SUM_LANES) / 2; width; width /= 2)
		for (int j = 0; j < width; j++)
			total[j] += total[j + width];
	return total[0];
}

static double N(sum)(const void *from, size_t n)
{
	const REAL *v = from;
	double level[64]; /* level[b]: the sum of 2^b blocks, where bit b of the count is set */
	size_t blocks = 0;

	for (size_t i = 0; i < n; i += N(SUM_BLOCK)) {
		double total;
		if (n - i >= N(SUM_BLOCK)) {
			total = N(sum_block)(v + i);
		} else {
			_Alignas(64) REAL rest[N(SUM_BLOCK)];
			for (size_t j = n - i; j < N(SUM_BLOCK); j++)
				rest[j] = (REAL)-0.0;
			memcpy(rest, v + i, (n - i) * sizeof(REAL));
			total = N(sum_block)(rest);
		}
		int bit = 0;
		for (size_t carry = blocks; carry & 1; carry >>= 1, bit++)
			total = level[bit] + total;
		level[bit] = total;
		blocks++;
	}

	double total = n ? -0.0 : 0.0;
	for (int bit = 0; bit < 64 && blocks >> bit; bit++)
		if (blocks >> bit & 1)
			total = level[bit] + total;
	return total;
}

static void N(accumulate)(void *dst, const void *src, size_t n)
{
	REAL *to = dst;
	const REAL *from = src;
	size_t i = 0;

	for (; i + LANES <= n; i += LANES)
		V(store)(to, i, V(load)(to, i) + V(load)(from, i));
	for (; i < n; i++)
		to[i] += from[i];
}

/* Neumaier's sum: adds the rounding error of hi + x to LO, by Knuth's formula, which has no branch; 0 for infinities */
LANEWISE vd N(add_wide)(vd hi, vd x, vd *lo)
{
	vd error;
	const vd sum = two_sum(hi, x, &error);

	*lo += select_d(abs_d(sum) < splat_d(INFINITY), error, splat_d(0));
	return sum;
}

static void N(accumulate_wide)(double *hi, double *lo, const void *src, size_t n)
{
	const REAL *from = src;

	for (size_t i = 0; i < n; i += LANES_D) {
		const size_t count = n - i < (size_t)LANES_D ? n - i : (size_t)LANES_D;
		vd h = splat_d(0), l = splat_d(0), x = splat_d(0);
		if (count == LANES_D) {
			for (int j = 0; j < LANES_D; j++)
				x[j] = (double)from[i + (size_t)j];
			h = load_d(hi, i);
			l = lo ? load_d(lo, i) : l;
			h = N(add_wide)(h, x, &l);
			store_d(hi, i, h);
			if (lo)
				store_d(lo, i, l);
			continue;
		}
		for (size_t j = 0; j < count; j++) {
			x[j] = (double)from[i + j];
			h[j] = hi[i + j];
			l[j] = lo ? lo[i + j] : 0;
		}
		h = N(add_wide)(h, x, &l);
		for (size_t j = 0; j < count; j++) {
			hi[i + j] = h[j];
			if (lo)
				lo[i + j] = l[j];
		}
	}
}

/* ---- the rest ---- */

static void N(fill)(void *dst, double value, size_t n)
{
	REAL *to = dst;
	const REAL x = (REAL)value;

	for (size_t i = 0; i < n; i++)
		to[i] = x;
}

static void N(to_f32)(float *out, const void *v, size_t n)
{
	const REAL *from = v;

	for (size_t i = 0; i < n; i++)
		out[i] = (float)from[i];
}

static void N(to_f64)(double *out, const void *v, size_t n)
{
	const REAL *from = v;

	for (size_t i = 0; i < n; i++)
		out[i] = (double)from[i];
}

#define ROUNDING(NAME)                                                                                                 \
	LANEWISE void N(NAME##_any)(const struct kernel_args *args, const int form UNUSED)                                 \
	{                                                                                                                  \
		BLOCK(V(store)(s.out, i, V(NAME)(V(load)(s.v, i)));)                                                           \
	}                                                                                                                  \
	KERNEL(NAME, 0, false)                                                                                             \
	static void N(NAME)(void *out, const void *v, size_t n)                                                            \
	{                                                                                                                  \
		const struct kernel_args args = {.out = out, .v = v, .n = n};                                                  \
		N(NAME##_0)(&args);                                                                                            \
	}
ROUNDING(round_f16)
ROUNDING(round_bf16)

static const struct kernels N(table) = {
	.isa = QUOTED(ISA),
#ifdef TYPE_F32
	.dtype = DTYPE_F32,
#else
	.dtype = DTYPE_F64,
#endif
	.forward =
		{
#define UNARY(NAME, ...) [OP_##NAME] = {N(forward_##NAME##_0), N(forward_##NAME##_0)},
#define BINARY(NAME, ...) [OP_##NAME] = {N(forward_##NAME##_0), N(forward_##NAME##_1)},
#include "ops/ops.def"
		},
	.forward_keep =
		{
#define PAIR(GIVEN, FIRST, SECOND)                                                                                     \
	{                                                                                                                  \
		(GIVEN) ? (FIRST) : NULL, (GIVEN) ? (SECOND) : NULL                                                            \
	}
#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, ...)                                                                      \
	[OP_##NAME] = PAIR(KEPT_COUNT_##KEEPS, N(keep_##NAME##_0), N(keep_##NAME##_0)),
#define BINARY(NAME, GROUP, KEEPS, ...) [OP_##NAME] = PAIR(KEPT_COUNT_##KEEPS, N(keep_##NAME##_0), N(keep_##NAME##_1)),
#include "ops/ops.def"
		},
	.vjp_v =
		{
#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, NEEDS, ...)                                                               \
	[OP_##NAME] = PAIR(GIVEN(NEEDS), N(vjp_v_##NAME##_0), N(vjp_v_##NAME##_0)),
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, ...)                                                                       \
	[OP_##NAME] = PAIR(GIVEN(NEEDS_V), N(vjp_v_##NAME##_0), N(vjp_v_##NAME##_1)),
#include "ops/ops.def"
		},
	.vjp_a =
		{
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, NEEDS_A, ...)                                                              \
	[OP_##NAME] = PAIR(GIVEN(NEEDS_A), N(vjp_a_##NAME##_0), N(vjp_a_##NAME##_1)),
#include "ops/ops.def"
		},
	.accumulate = N(accumulate),
	.accumulate_wide = N(accumulate_wide),
	.sum = N(sum),
	.fill = N(fill),
	.run = N(run),
	.to_f32 = N(to_f32),
	.to_f64 = N(to_f64),
	.round_f16 = N(round_f16),
	.round_bf16 = N(round_bf16),
};

#undef PAIR
#undef STRIDE
#undef SPLAT
#undef LANES
#undef REAL
#undef LANE_MASK
#undef VEC
#undef V
#undef N
#undef TYPE_F32
#undef TYPE_F64
