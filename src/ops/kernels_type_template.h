/*
 * The kernels of one type. The includer, kernels_template.h, defines TYPE_F32 or TYPE_F64
 * (undefined at the end).
 *
 * A loop computes a multiple of STRIDE elements. STRIDE is a vector, or the 8 elements whose
 * mask bits share a byte if a vector is shorter. The rest goes through the same loop in a
 * padded copy, so that an element has the same bits at every index. Each element is loaded
 * before it is stored, so out may be any input block.
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
#define TYPED(NAME) N(NAME)

enum { N(STRIDE) = LANES < 8 ? 8 : LANES };
#define STRIDE N(STRIDE)

/* as in NumPy: a NaN of either operand passes, and of two zeros a is the result */
LANEWISE VEC V(max)(VEC v, VEC a) { return V(select)(v != v, v, V(greater)(v, a)); }
LANEWISE VEC V(min)(VEC v, VEC a) { return V(select)(v != v, v, V(lesser)(v, a)); }
#ifndef ISA_RELU
LANEWISE VEC V(relu)(VEC v) { return V(select)(v <= SPLAT(0), SPLAT(0), v); }
#endif
LANEWISE VEC V(sign)(VEC v)
{
	return V(select)(v > SPLAT(0), SPLAT(1), V(select)(v < SPLAT(0), SPLAT(-1), v + SPLAT(0)));
}

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

/*
 * ---- signs in memory: two bits an element, a byte for four. The low half of a byte has the bits that are set for -1
 * and 1, the high half those that are set for -1 and NaN; element i has bits i % 4 and 4 + i % 4 of byte i / 4. ----
 */

LANEWISE VEC N(load_sign)(const void *from, size_t index)
{
	const unsigned char *byte = (const unsigned char *)from + index / 4;
	unsigned odd = 0, high = 0;

	for (int i = 0; 4 * i < LANES; i++) {
		odd |= (byte[i] & 15U) << 4 * i;
		high |= (unsigned)(byte[i] >> 4) << 4 * i;
	}
	if (LANES < 4) {
		odd = (odd >> index % 4) & ((1U << LANES) - 1);
		high = (high >> index % 4) & ((1U << LANES) - 1);
	}
	const LANE_MASK one = V(mask)(odd);
	return V(select)(V(mask)(high), V(select)(one, SPLAT(-1), SPLAT(NAN)), V(select)(one, SPLAT(1), SPLAT(0)));
}

LANEWISE void N(store_sign)(void *to, size_t index, VEC v)
{
	unsigned char *byte = (unsigned char *)to + index / 4;
	const unsigned odd = V(bits)((v < SPLAT(0)) | (v > SPLAT(0))), high = V(bits)(~(v >= SPLAT(0)));

	if (LANES < 4 && index % 4)
		byte[0] = (unsigned char)(byte[0] | odd << index % 4 | high << (4 + index % 4));
	else
		for (int i = 0; 4 * i < LANES; i++)
			byte[i] = (unsigned char)((odd >> 4 * i & 15U) | (high >> 4 * i & 15U) << 4);
}

/* ---- a loop over a block: whole strides, then the rest in a padded copy ---- */

/* Returns TO with BYTES bytes of FROM from byte START on, then ones, which suit all functions. NULL if FROM is. */
static const void *N(pad)(REAL to[N(STRIDE)], const void *from, size_t start, size_t bytes)
{
	if (!from)
		return NULL;
	for (int i = 0; i < STRIDE; i++)
		to[i] = 1;
	return memcpy(to, (const char *)from + start, bytes);
}

static __attribute__((noinline)) void N(drive)(kernel *loop, const struct kernel_args *args, int kept_bits)
{
	const size_t rest = args->n % STRIDE, start = args->n - rest;

	/* passes ARGS itself: to copy it, wide loads would wait for the stores that have just filled it */
	if (!rest) {
		loop(args);
		return;
	}
	struct kernel_args part = *args;
	if (start) {
		part.n = start;
		loop(&part);
	}

	_Alignas(64) REAL padded[10][STRIDE];
	const size_t at = start * sizeof(REAL), bytes = rest * sizeof(REAL);
	const size_t kept = (size_t)kept_bits; /* an element's, 0 for numbers */
	const size_t kept_at = kept ? start * kept / 8 : at, kept_bytes = kept ? (rest * kept + 7) / 8 : bytes;
	part.v = N(pad)(padded[0], args->v, at, bytes);
	part.a = N(pad)(padded[1], args->a, at, bytes);
	part.y = N(pad)(padded[2], args->y, at, bytes);
	part.g = N(pad)(padded[3], args->g, at, bytes);
	part.k = N(pad)(padded[4], args->k, kept_at, kept_bytes);
	part.l = N(pad)(padded[5], args->l, kept_at, kept_bytes);
	part.b = N(pad)(padded[9], args->b, at, bytes);
	part.out = padded[6];
	part.keep[0] = padded[7];
	part.keep[1] = padded[8];
	part.n = STRIDE;
	loop(&part);
	for (int i = 0; i < MAX_KEEPS; i++) {
		unsigned char *const last = (unsigned char *)padded[7 + i] + kept_bytes - 1;
		if (kept && args->keep[i]) /* the bits beyond the end are 0 */
			*last &= (unsigned char)(kept == 1 ? 0xffU >> (7 - (rest - 1) % 8) : 0x11U * (0xfU >> (3 - (rest - 1) % 4)));
		unpad(args->keep[i], padded[7 + i], kept_at, kept_bytes);
	}
	unpad(args->out, padded[6], at, bytes);
}

/* Defines NAME_FORM, the kernel that calls NAME_any, compiled for FORM alone, through drive. */
#define KERNEL(NAME, FORM, KEPT_BITS)                                                                                     \
	static __attribute__((noinline)) void N(NAME##_loop_##FORM)(const struct kernel_args *args)                        \
	{                                                                                                                  \
		N(NAME##_any)(args, FORM);                                                                                     \
	}                                                                                                                  \
	static UNUSED void N(NAME##_##FORM)(const struct kernel_args *args)                                                \
	{                                                                                                                  \
		N(drive)(N(NAME##_loop_##FORM), args, KEPT_BITS);                                                                 \
	}
/* Defines the kernels NAME_0 and NAME_1. The statements run for each vector, whose first element is i, if GIVEN. */
#define KERNELS(NAME, GIVEN, KEPT_BITS, ...)                                                                              \
	LANEWISE void N(NAME##_any)(const struct kernel_args *args, const int form UNUSED)                                 \
	{                                                                                                                  \
		if (!(GIVEN))                                                                                                  \
			return;                                                                                                    \
		const struct kernel_args s = *args;                                                                            \
		const VEC number[2] UNUSED = {SPLAT(s.number[0]), SPLAT(s.number[1])};                                         \
		const VEC scalar UNUSED = SPLAT(s.scalar);                                                                     \
		for (size_t i = 0; i < s.n; i += LANES) {                                                                      \
			__VA_ARGS__                                                                                                \
		}                                                                                                              \
	}                                                                                                                  \
	KERNEL(NAME, 0, KEPT_BITS)                                                                                            \
	KERNEL(NAME, 1, KEPT_BITS)

/* Operand INDEX of OPERANDS, 1 or 2, which is the array FROM unless it is the last and a number. */
#define OPERAND_AT(INDEX, OPERANDS, FROM) \
	((OPERANDS) > (INDEX) || ((OPERANDS) == (INDEX) && !form) ? V(load)(FROM, i) : scalar)
/* Defines the forward kernels, without and with kept values, of an operation with OPERANDS operands. */
#define FORWARD_KERNELS(NAME, OPERANDS, KEEPS, FORWARD)                                                                \
	LANEWISE VEC N(value_##NAME)(VEC v UNUSED, VEC a UNUSED, VEC b UNUSED, const VEC number[2] UNUSED)                 \
	{                                                                                                                  \
		return FORWARD;                                                                                                \
	}                                                                                                                  \
	KERNELS(forward_##NAME, true, 0, const VEC a = OPERAND_AT(1, OPERANDS, s.a);                                       \
	        const VEC b = OPERAND_AT(2, OPERANDS, s.b);                                                                \
	        V(store)(s.out, i, N(value_##NAME)(V(load)(s.v, i), a, b, number));)                                       \
	KERNELS(keep_##NAME, KIND_##KEEPS != KEEP_NOTHING, BITS_OF(KEEPS), const VEC v UNUSED = V(load)(s.v, i); \
	        const VEC a UNUSED = OPERAND_AT(1, OPERANDS, s.a); const VEC b UNUSED = OPERAND_AT(2, OPERANDS, s.b);      \
	        const VEC y = FORWARD; KEEPING_##KEEPS V(store)(s.out, i, y);)
#define DERIVATIVE_KERNELS(NAME, OPERANDS, KEEPS, NEEDS, DERIVATIVE)                                                   \
	KERNELS(NAME, GIVEN(NEEDS), BITS_OF(KEEPS), enum { operands = OPERANDS }; SEE_##NEEDS(FETCH_##KEEPS)               \
	        const VEC g = V(load)(s.g, i); V(store)(s.out, i, DERIVATIVE);)
#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, NEEDS, FLOPS, FORWARD, DERIVATIVE, DOC)                                   \
	FORWARD_KERNELS(NAME, 0, KEEPS, FORWARD)                                                                           \
	DERIVATIVE_KERNELS(vjp_v_##NAME, 0, KEEPS, NEEDS, DERIVATIVE)
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, NEEDS_A, FLOPS, FORWARD, DERIVATIVE_V, DERIVATIVE_A, DOC)                  \
	FORWARD_KERNELS(NAME, 1, KEEPS, FORWARD)                                                                           \
	DERIVATIVE_KERNELS(vjp_v_##NAME, 1, KEEPS, NEEDS_V, DERIVATIVE_V)                                                  \
	DERIVATIVE_KERNELS(vjp_a_##NAME, 1, KEEPS, NEEDS_A, DERIVATIVE_A)
#define TERNARY(NAME, GROUP, NAMES, KEEPS, NEEDS_V, NEEDS_A, NEEDS_B, FLOPS, FORWARD, BY_V, BY_A, BY_B, DOC)           \
	FORWARD_KERNELS(NAME, 2, KEEPS, FORWARD)                                                                           \
	DERIVATIVE_KERNELS(vjp_v_##NAME, 2, KEEPS, NEEDS_V, BY_V)                                                          \
	DERIVATIVE_KERNELS(vjp_a_##NAME, 2, KEEPS, NEEDS_A, BY_A)                                                          \
	DERIVATIVE_KERNELS(vjp_b_##NAME, 2, KEEPS, NEEDS_B, BY_B)
#include "ops/ops.def"

KERNELS(round_f16, true, 0, V(store)(s.out, i, V(round_f16)(V(load)(s.v, i)));)
KERNELS(round_bf16, true, 0, V(store)(s.out, i, V(round_bf16)(V(load)(s.v, i)));)

/* ---- a run in registers ---- */

/*
 * A run is a chain of cheap element-wise operations that are computed as one (compile/runs.c). ISA_TILE vectors stay in
 * registers from its first step to its last. A step is a jump to the label of its operation. The labels of expensive
 * operations compute nothing: op_runs_in_registers keeps these out of runs. A loop ends with a step that jumps back.
 * The open loops are on a stack, the innermost on top. The fields that most steps read are packed, so that a thousand
 * steps stay in the nearest cache. Scalars have the type of the run: a conversion would cost as much as an addition.
 */
struct N(packed) {
	REAL scalar;
	uint32_t op; /* enum op; OP_COUNT ends a loop, OP_COUNT + 1 the run; or one of the labels below */
};

/* max and min with a number other than 0: one instruction does it, as the result of a NaN or a tie is v bit by bit */
enum { N(STEP_max_number) = OP_COUNT + 2, N(STEP_min_number) };
LANEWISE VEC N(value_max_number)(VEC v, VEC a, VEC b UNUSED, const VEC number[2] UNUSED) { return V(greater)(a, v); }
LANEWISE VEC N(value_min_number)(VEC v, VEC a, VEC b UNUSED, const VEC number[2] UNUSED) { return V(lesser)(a, v); }

/* Returns the label that computes STEP fastest. */
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
#define TERNARY(NAME, ...) [OP_##NAME] = &&next,
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

#define TILE_READ(NAME, I) VEC r##I = V(load)(v, (I)*LANES);
	EACH_VECTOR(TILE_READ, )
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
next: /* a run has no general operation, and none with two operands */
	step++;
	goto *labels[step->op];

#define TILE_VALUE(NAME, I) r##I = N(value_##NAME)(r##I, a, a, number);
#define STEP(NAME, FLOPS)                                                                                              \
	do_##NAME : if ((FLOPS) < 8)                                                                                       \
	{                                                                                                                  \
		const VEC a UNUSED = SPLAT(step->scalar);                                                                      \
		const double *const numbers UNUSED = steps[step - packed].number;                                              \
		const VEC number[2] UNUSED = {SPLAT(numbers[0]), SPLAT(numbers[1])};                                           \
		EACH_VECTOR(TILE_VALUE, NAME)                                                                                       \
	}                                                                                                                  \
	step++;                                                                                                            \
	goto *labels[step->op];
#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, NEEDS, FLOPS, ...) STEP(NAME, FLOPS)
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, NEEDS_A, FLOPS, ...) STEP(NAME, FLOPS)
#include "ops/ops.def"
	STEP(max_number, 1)
	STEP(min_number, 1)

done:
#define TILE_WRITE(NAME, I) V(store)(out, (I)*LANES, r##I);
	EACH_VECTOR(TILE_WRITE, )
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

/* Both forms of a kernel; NULL for both unless it is GIVEN. */
#define FORMS(GIVEN, NAME, OPERAND)                                                                                    \
	{                                                                                                                  \
		(GIVEN) ? N(NAME##_0) : NULL, (GIVEN) ? OPERAND ? N(NAME##_1) : N(NAME##_0) : NULL                             \
	}
#define ROW(NAME, OPERAND, KEEPS, NEEDS)                                                                               \
	.forward[OP_##NAME] = FORMS(true, forward_##NAME, OPERAND),                                                        \
	.forward_keep[OP_##NAME] = FORMS(KIND_##KEEPS != KEEP_NOTHING, keep_##NAME, OPERAND),                              \
	.vjp_v[OP_##NAME] = FORMS(GIVEN(NEEDS), vjp_v_##NAME, OPERAND),
#define UNARY(NAME, GROUP, ARGUMENTS, KEEPS, NEEDS, ...) ROW(NAME, 0, KEEPS, NEEDS)
#define BINARY(NAME, GROUP, KEEPS, NEEDS_V, NEEDS_A, ...)                                                              \
	ROW(NAME, 1, KEEPS, NEEDS_V).vjp_a[OP_##NAME] = FORMS(GIVEN(NEEDS_A), vjp_a_##NAME, 1),
#define TERNARY(NAME, GROUP, NAMES, KEEPS, NEEDS_V, NEEDS_A, NEEDS_B, ...)                                             \
	ROW(NAME, 1, KEEPS, NEEDS_V).vjp_a[OP_##NAME] = FORMS(GIVEN(NEEDS_A), vjp_a_##NAME, 1),                            \
	.vjp_b[OP_##NAME] = FORMS(GIVEN(NEEDS_B), vjp_b_##NAME, 1),
const struct kernels TYPED(PASTED(kernels_, ISA)) = {
	.isa = QUOTED(ISA),
	.dtype = sizeof(REAL) == sizeof(float) ? DTYPE_F32 : DTYPE_F64,
	.loops = &TYPED(ISA_LOOPS),
#include "ops/ops.def"
	.run = N(run),
	.round = {[DTYPE_F16] = N(round_f16_0), [DTYPE_BF16] = N(round_bf16_0)},
};

#undef N
#undef V
#undef VEC
#undef LANE_MASK
#undef REAL
#undef LANES
#undef TYPE_F32
#undef TYPE_F64
