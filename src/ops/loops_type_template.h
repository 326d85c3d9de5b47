/*
 * The inner loops of one type. The includer, loops_template.h, defines TYPE_F32 or TYPE_F64
 * (undefined at the end).
 */
#ifdef TYPE_F32
#define N(NAME) NAME##_f32
#define REAL float
#define LANE_INTEGER int32_t
#define TAIL_INTEGER int16_t
#define FABS fabsf
#define GEMM_MULTIPLY_ADD MULTIPLY_ADD_f32
#else
#define N(NAME) NAME##_f64
#define REAL double
#define LANE_INTEGER int64_t
#define TAIL_INTEGER int32_t
#define FABS fabs
#define GEMM_MULTIPLY_ADD MULTIPLY_ADD_f64
#endif

/* ---- vectors as wide as the registers, and the transposition of matrices by them ---- */

enum { N(LANES) = VECTOR_BYTES / sizeof(REAL) };
enum { N(FRACTION) = sizeof(REAL) == 4 ? 23 : 52 }; /* bits of a number's fraction */
static const REAL N(UNITS) = sizeof(REAL) == 4 ? (REAL)0x1p38 : (REAL)0x1p83; /* of a tail, in a head of 1 */

typedef REAL N(vector) __attribute__((vector_size(VECTOR_BYTES)));
typedef LANE_INTEGER N(lanes) __attribute__((vector_size(VECTOR_BYTES)));
typedef REAL N(loose) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));

/* Lane i of the result is lane ORDER[i] of A, or lane ORDER[i] - LANES of B. */
static inline N(vector) N(interleave)(N(vector) a, N(vector) b, N(lanes) order)
{
#if __has_builtin(__builtin_shuffle)
	return __builtin_shuffle(a, b, order);
#else /* clang, for fuzzing */
	N(vector) mixed;
	for (int i = 0; i < N(LANES); i++)
		mixed[i] = order[i] < N(LANES) ? a[order[i]] : b[order[i] - N(LANES)];
	return mixed;
#endif
}

/* Returns the lanes of X, rotated so that lane BY comes first. */
static inline __attribute__((always_inline)) N(vector) N(rotated)(N(vector) x, int by)
{
	N(lanes) order;
	for (int i = 0; i < N(LANES); i++)
		order[i] = (i + by) % N(LANES);
	return N(interleave)(x, x, order);
}

/*
 * Transposes a square of LANES by LANES, of which only the first ROWS are read; the others are zeros. Interleaving the
 * two halves of the rows rotates the bits of an element's index by one. log2(LANES) such rounds exchange the bits of its
 * row with those of its column.
 */
static inline __attribute__((always_inline)) void N(transpose_rows)(REAL *to, int64_t to_row, const REAL *from,
                                                                    int64_t from_row, const int rows)
{
	N(lanes) low, high;
	for (int i = 0; i < N(LANES); i++) {
		low[i] = i / 2 + i % 2 * N(LANES);
		high[i] = low[i] + N(LANES) / 2;
	}
	N(vector) v[N(LANES)], mixed_rows[N(LANES)];
	for (int i = 0; i < N(LANES); i++)
		v[i] = i < rows ? (N(vector)) * (const N(loose) *)(from + i * from_row) : (N(vector)){0};
#pragma GCC unroll 4
	for (int round = 1; round < N(LANES); round *= 2) {
#pragma GCC unroll 8
		for (int i = 0; i < N(LANES) / 2; i++) {
			mixed_rows[2 * i] = N(interleave)(v[i], v[i + N(LANES) / 2], low);
			mixed_rows[2 * i + 1] = N(interleave)(v[i], v[i + N(LANES) / 2], high);
		}
#pragma GCC unroll 16
		for (int i = 0; i < N(LANES); i++)
			v[i] = mixed_rows[i];
	}
	for (int i = 0; i < N(LANES); i++)
		*(N(loose) *)(to + i * to_row) = v[i];
}

static void N(transpose_square)(REAL *to, int64_t to_row, const REAL *from, int64_t from_row)
{
	N(transpose_rows)(to, to_row, from, from_row, N(LANES));
}

/*
 * TO[c, r] = FROM[r, c], four vectors of rows at a time, so that reads and writes use whole
 * cache lines. Squares are transposed in registers, and the edges element by element.
 */
static void N(transpose)(void *to, int64_t to_row, const void *from, int64_t from_row, int64_t rows, int64_t columns)
{
	enum { STRETCH = 4 * N(LANES) };
	REAL *const y = to;
	const REAL *const x = from;
	const int64_t whole_columns = columns / N(LANES) * N(LANES);
	for (int64_t begin = 0; begin < rows; begin += STRETCH) {
		const int64_t end = rows - begin < STRETCH ? rows : begin + STRETCH;
		const int64_t whole = begin + (end - begin) / N(LANES) * N(LANES);
		for (int64_t c = 0; c < whole_columns; c += N(LANES))
			for (int64_t r = begin; r < whole; r += N(LANES))
				N(transpose_square)(y + c * to_row + r, to_row, x + r * from_row + c, from_row);
		for (int64_t c = whole < end ? 0 : whole_columns; c < columns; c++)
			for (int64_t r = c < whole_columns ? whole : begin; r < end; r++)
				y[c * to_row + r] = x[r * from_row + c];
	}
}

/*
 * SUM_OF defines the sums over lines of TERM, an expression in x, in A's element w, and in the line's parameter p. A lane
 * that gets no element adds -0, which changes nothing. NEGATIVE: terms may be. Short lines are summed side by side, each in its own lane of the
 * vectors, by the same additions as a line alone.
 */
#define TERM_ELEMENT(I) const double x MAYBE_UNUSED = (double)v[I], w MAYBE_UNUSED = (double)a[I]

#ifdef TYPE_F32
#define SUM_OF(NAME, TERM, NEGATIVE)                                                                                   \
	static inline __attribute__((always_inline)) double NAME##_block_f32(const REAL *v, const REAL *a,                 \
	                                                                     double p MAYBE_UNUSED, size_t n)              \
	{                                                                                                                  \
		double lane[SUM_LANES];                                                                                        \
		size_t k = 0;                                                                                                  \
		for (int j = 0; j < SUM_LANES; j++)                                                                            \
			lane[j] = -0.0;                                                                                            \
		for (; k + SUM_LANES <= n; k += SUM_LANES)                                                                     \
			for (size_t j = 0; j < SUM_LANES; j++) {                                                                   \
				TERM_ELEMENT(k + j);                                                                                   \
				lane[j] += TERM;                                                                                       \
			}                                                                                                          \
		for (size_t j = 0; j < SUM_LANES; j++)                                                                         \
			if (k + j < n) {                                                                                           \
				TERM_ELEMENT(k + j);                                                                                   \
				lane[j] += TERM;                                                                                       \
			}                                                                                                          \
		return fold_lanes(lane);                                                                                       \
	}                                                                                                                  \
	static double NAME##_any_f32(const REAL *v, const REAL *a, double p MAYBE_UNUSED, size_t n, double *rest)          \
	{                                                                                                                  \
		struct levels levels;                                                                                          \
		size_t i = 0;                                                                                                  \
		*rest = 0;                                                                                                     \
		if (n < SUM_FEW) {                                                                                             \
			double total = n ? -0.0 : 0;                                                                               \
			for (; i < n; i++) {                                                                                       \
				TERM_ELEMENT(i);                                                                                       \
				total += TERM;                                                                                         \
			}                                                                                                          \
			return total;                                                                                              \
		}                                                                                                              \
		if (n <= SUM_BLOCK)                                                                                            \
			return NAME##_block_f32(v, a, p, n);                                                                       \
		levels.blocks = 0;                                                                                             \
		for (; i + SUM_BLOCK <= n; i += SUM_BLOCK)                                                                     \
			levels_add(&levels, NAME##_block_f32(v + i, a + i, p, SUM_BLOCK));                                         \
		if (i < n)                                                                                                     \
			levels_add(&levels, NAME##_block_f32(v + i, a + i, p, n - i));                                             \
		return levels_total(&levels);                                                                                  \
	}                                                                                                                  \
	static inline __attribute__((always_inline)) void NAME##_across_f32(                                               \
		double *out, double *rest, const REAL *v, const REAL *a, const double *q, size_t n)                            \
	{                                                                                                                  \
		const size_t lanes = n < SUM_FEW ? 1 : SUM_LANES;                                                              \
		double lane[SUM_LANES][SUMS_ACROSS], own[SUMS_ACROSS];                                                                       \
		for (size_t i = 0; i < SUMS_ACROSS; i++)                                                                       \
			own[i] = q ? q[i] : 0;                                                                                     \
		for (size_t j = 0; j < lanes; j++)                                                                             \
			for (size_t i = 0; i < SUMS_ACROSS; i++)                                                                   \
				lane[j][i] = -0.0;                                                                                     \
		for (size_t j = 0; j < n; j++)                                                                                 \
			for (size_t i = 0; i < SUMS_ACROSS; i++) {                                                                 \
				TERM_ELEMENT(i * n + j);                                                                               \
				const double p MAYBE_UNUSED = own[i];                                                                  \
				lane[j % lanes][i] += TERM;                                                                            \
			}                                                                                                          \
		for (size_t width = lanes / 2; width; width /= 2)                                                              \
			for (size_t j = 0; j < width; j++)                                                                         \
				for (size_t i = 0; i < SUMS_ACROSS; i++)                                                               \
					lane[j][i] += lane[j + width][i];                                                                  \
		memcpy(out, lane[0], sizeof lane[0]);                                                                          \
		memset(rest, 0, sizeof lane[0]);                                                                               \
	}                                                                                                                  \
	SUM_OF_LINES(NAME, f32)
#else
/*
 * Eight sums, each with a second number for the rounding errors. It becomes NaN once the sum is infinite or NaN. ONE is 1:
 * see ADD_BESIDE.
 */
enum { WIDE_VECTORS = SUMS_ACROSS / LANES_f64 };
struct wide_lanes {
	wide_vector sum[WIDE_VECTORS], lost[WIDE_VECTORS], one;
};
#define EACH_WIDE _Pragma("GCC unroll 4") for (int i = 0; i < WIDE_VECTORS; i++)

static inline __attribute__((always_inline)) void wide_lanes_begin(struct wide_lanes *wide)
{
	EACH_WIDE {
		wide->sum[i] = -(wide_vector){0};
		wide->lost[i] = (wide_vector){0};
	}
	wide->one = (wide_vector){0} + 1;
	HIDE(wide->one);
}

/*
 * Adds a term to each sum. If none is NEGATIVE, Dekker's formula for the rounding error serves. It is inexact only where a
 * term is above the sum before it. The sum doubles there, so these errors are at most one unit of its last place in all.
 */
static inline __attribute__((always_inline)) void wide_lanes_add(struct wide_lanes *wide,
                                                                 const double term[SUMS_ACROSS], bool negative)
{
	EACH_WIDE {
		const wide_vector x = *(const loose_f64 *)(term + i * LANES_f64), old = wide->sum[i];
		if (negative) {
			wide_vector_add(&wide->sum[i], &wide->lost[i], x, wide->one);
		} else {
			wide->sum[i] = old + x;
			wide->lost[i] += x - SUBTRACT_BESIDE(wide->sum[i], old, wide->one);
		}
	}
}

static inline __attribute__((always_inline)) void wide_lanes_store(const struct wide_lanes *wide,
                                                                   double sum[SUMS_ACROSS], double lost[SUMS_ACROSS])
{
	EACH_WIDE {
		*(loose_f64 *)(sum + i * LANES_f64) = wide->sum[i];
		*(loose_f64 *)(lost + i * LANES_f64) = wide->lost[i];
	}
}
#undef EACH_WIDE

/* Returns the sum of the lanes, which are added pairwise: lane j and j + 4, then j + 2, j + 1. */
static inline __attribute__((always_inline)) double wide_lanes_fold(struct wide_lanes *wide, double *rest)
{
	wide_vector *const sum = wide->sum, *const lost = wide->lost;
	_Pragma("GCC unroll 4") for (int width = WIDE_VECTORS / 2; width > 0; width /= 2)
		_Pragma("GCC unroll 4") for (int i = 0; i < width; i++)
		{
			wide_vector_add(&sum[i], &lost[i], sum[i + width], wide->one);
			lost[i] += lost[i + width];
		}
	_Pragma("GCC unroll 4") for (int width = LANES_f64 / 2; width > 0; width /= 2)
	{
		const wide_vector other = rotated_f64(lost[0], width);
		wide_vector_add(&sum[0], &lost[0], rotated_f64(sum[0], width), wide->one);
		lost[0] += other;
	}
	*rest = lost[0][0];
	return sum[0][0];
}

#define SUM_OF(NAME, TERM, NEGATIVE)                                                                                   \
	static double NAME##_any_f64(const REAL *v, const REAL *a, double p MAYBE_UNUSED, size_t n, double *rest)          \
	{                                                                                                                  \
		struct wide_lanes wide;                                                                                        \
		size_t k = 0;                                                                                                  \
		if (n <= SUM_SHORT) {                                                                                          \
			double total = n ? -0.0 : 0, lost = 0;                                                                     \
			for (; k < n; k++) {                                                                                       \
				TERM_ELEMENT(k);                                                                                       \
				wide_add(&total, &lost, TERM, NEGATIVE);                                                               \
			}                                                                                                          \
			*rest = lost;                                                                                              \
			return total;                                                                                              \
		}                                                                                                              \
		wide_lanes_begin(&wide);                                                                                       \
		double term[SUMS_ACROSS];                                                                                      \
		for (; k + SUMS_ACROSS <= n; k += SUMS_ACROSS) {                                                               \
			__builtin_prefetch(v + k + PREFETCH);                                                                      \
			for (size_t j = 0; j < SUMS_ACROSS; j++) {                                                                 \
				TERM_ELEMENT(k + j);                                                                                   \
				term[j] = TERM;                                                                                        \
			}                                                                                                          \
			wide_lanes_add(&wide, term, NEGATIVE);                                                                     \
		}                                                                                                              \
		for (size_t j = 0; j < SUMS_ACROSS && k < n; j++) {                                                            \
			TERM_ELEMENT(k + j < n ? k + j : 0);                                                                       \
			term[j] = k + j < n ? TERM : -0.0;                                                                         \
		}                                                                                                              \
		if (k < n)                                                                                                     \
			wide_lanes_add(&wide, term, NEGATIVE);                                                                     \
		return wide_lanes_fold(&wide, rest);                                                                           \
	}                                                                                                                  \
	static inline __attribute__((always_inline)) void NAME##_across_f64(                                               \
		double *out, double *rest, const REAL *v, const REAL *a, const double *q, size_t n)                            \
	{                                                                                                                  \
		struct wide_lanes wide;                                                                                        \
		double own[SUMS_ACROSS];                                                                                       \
		for (size_t i = 0; i < SUMS_ACROSS; i++)                                                                       \
			own[i] = q ? q[i] : 0;                                                                                     \
		wide_lanes_begin(&wide);                                                                                       \
		for (size_t j = 0; j < n; j++) {                                                                               \
			double term[SUMS_ACROSS];                                                                                  \
			for (size_t i = 0; i < SUMS_ACROSS; i++) {                                                                 \
				TERM_ELEMENT(i * n + j);                                                                               \
				const double p MAYBE_UNUSED = own[i];                                                                  \
				term[i] = TERM;                                                                                        \
			}                                                                                                          \
			wide_lanes_add(&wide, term, NEGATIVE);                                                                     \
		}                                                                                                              \
		wide_lanes_store(&wide, out, rest);                                                                            \
	}                                                                                                                  \
	SUM_OF_LINES(NAME, f64)
#endif

SUM_OF(sum, x, true)
SUM_OF(sum_squares, x *x, false)
SUM_OF(sum_products, x *w, true)
SUM_OF(sum_magnitudes, fabs(x), false)
SUM_OF(sum_deviations, (x - p) * (x - p), false)
SUM_OF(sum_huber, fabs(x) <= p ? 0.5 * x * x : p * (fabs(x) - 0.5 * p), false)

#undef SUM_OF
#undef TERM_ELEMENT

static void N(sums)(double *out, double *rest, const void *v, size_t n, size_t count)
{
	N(sum_lines)(out, rest, v, v, NULL, n, count);
}
static void N(sums_squares)(double *out, double *rest, const void *v, size_t n, size_t count)
{
	N(sum_squares_lines)(out, rest, v, v, NULL, n, count);
}
static void N(sums_products)(double *out, double *rest, const void *v, const void *a, size_t n, size_t count)
{
	N(sum_products_lines)(out, rest, v, a, NULL, n, count);
}
static void N(sums_magnitudes)(double *out, double *rest, const void *v, size_t n, size_t count)
{
	N(sum_magnitudes_lines)(out, rest, v, v, NULL, n, count);
}
static void N(sums_deviations)(double *out, double *rest, const void *v, const double *p, size_t n, size_t count)
{
	N(sum_deviations_lines)(out, rest, v, v, p, n, count);
}
static void N(sums_huber)(double *out, double *rest, const void *v, const double *p, size_t n, size_t count)
{
	N(sum_huber_lines)(out, rest, v, v, p, n, count);
}

/* Returns the first element of each of LANES lines, which are N long. */
static inline N(vector) N(gather)(const REAL *v, size_t n)
{
	REAL x[N(LANES)];
	for (size_t i = 0; i < N(LANES); i++)
		x[i] = v[i * n];
	return *(const N(loose) *)x;
}

/*
 * Defines an extreme of lines. A NaN stays: no number beats it, and only a NaN replaces it. A long line is read by 16
 * elements; the last 16 may overlap those before. A short line is read one element after another, alone or beside
 * others, so that both ways return the same one of two zeros or NaNs. The lanes are a vector type because the
 * compiler makes branches of an array.
 */
enum { N(SUM_VECTORS) = SUM_LANES / N(LANES) };
#define EXTREME_OF(NAME, BEATS)                                                                                        \
	static inline N(vector) N(NAME##_either)(N(vector) best, N(vector) x)                                              \
	{                                                                                                                  \
		const N(lanes) beats = (x BEATS best) | (x != x);                                                              \
		return (N(vector))(((N(lanes))x & beats) | ((N(lanes))best & ~beats));                                         \
	}                                                                                                                  \
	static double N(NAME##_of)(const REAL *v, size_t n)                                                                \
	{                                                                                                                  \
		N(vector) lane[N(SUM_VECTORS)];                                                                                \
		if (n <= EXTREME_SHORT) {                                                                                      \
			REAL best = v[0];                                                                                          \
			for (size_t i = 1; i < n; i++)                                                                             \
				best = (v[i] BEATS best) | (v[i] != v[i]) ? v[i] : best;                                               \
			return (double)best;                                                                                       \
		}                                                                                                              \
		memcpy(lane, v, sizeof lane);                                                                                  \
		for (size_t i = SUM_LANES; i < n; i += SUM_LANES) {                                                            \
			const REAL *const next = v + (i + SUM_LANES <= n ? i : n - SUM_LANES);                                     \
			_Pragma("GCC unroll 8") for (int j = 0; j < N(SUM_VECTORS); j++)                                           \
				lane[j] = N(NAME##_either)(lane[j], *(const N(loose) *)(next + j * N(LANES)));                         \
		}                                                                                                              \
		_Pragma("GCC unroll 4") for (int width = N(SUM_VECTORS) / 2; width > 0; width /= 2)                            \
			_Pragma("GCC unroll 8") for (int j = 0; j < width; j++)                                                    \
				lane[j] = N(NAME##_either)(lane[j], lane[j + width]);                                                  \
		_Pragma("GCC unroll 4") for (int width = N(LANES) / 2; width > 0; width /= 2)                                  \
			lane[0] = N(NAME##_either)(lane[0], N(rotated)(lane[0], width));                                            \
		return (double)lane[0][0];                                                                                     \
	}                                                                                                                  \
	static void N(NAME)(double *out, const void *from, size_t n, size_t count)                                         \
	{                                                                                                                  \
		const REAL *v = from;                                                                                          \
		size_t done = 0;                                                                                               \
		for (; n <= EXTREME_SHORT && done + N(LANES) <= count; done += N(LANES), v += N(LANES) * n) {                  \
			N(vector) best = N(gather)(v, n);                                                                          \
			for (size_t j = 1; j < n; j++)                                                                             \
				best = N(NAME##_either)(best, N(gather)(v + j, n));                                                    \
			for (int i = 0; i < N(LANES); i++)                                                                         \
				out[done + (size_t)i] = (double)best[i];                                                               \
		}                                                                                                              \
		for (; done < count; done++, v += n)                                                                           \
			out[done] = N(NAME##_of)(v, n);                                                                            \
	}
EXTREME_OF(largest, >)
EXTREME_OF(smallest, <)

static size_t N(shown)(const void *v, size_t n)
{
	const REAL *const x = v;
	for (int other = 0; n >= SUM_LANES; n -= SUM_LANES) {
		for (size_t i = n - SUM_LANES; i < n; i++)
			other |= x[i] != -(REAL)INFINITY;
		if (other)
			break;
	}
	while (n > 0 && x[n - 1] == -(REAL)INFINITY)
		n--;
	return n;
}

/* Defines the search for the first element that is ABOVE or below a bound. */
#define FIND(NAME, ABOVE)                                                                                              \
	static size_t N(NAME)(const void *v, double bound, size_t n)                                                       \
	{                                                                                                                  \
		enum { BLOCK = 4 * SUM_LANES };                                                                                \
		const REAL *const x = v, limit = (REAL)bound;                                                                  \
		size_t i = 0;                                                                                                  \
		for (; i + BLOCK <= n; i += BLOCK) {                                                                           \
			N(lanes) any = {0};                                                                                        \
			LANE_INTEGER found = 0;                                                                                    \
			for (size_t j = 0; j < BLOCK; j += N(LANES))                                                               \
				any |= *(const N(loose) *)(x + i + j) ABOVE limit;                                                     \
			for (int j = 0; j < N(LANES); j++)                                                                         \
				found |= any[j];                                                                                       \
			if (found)                                                                                                 \
				break;                                                                                                 \
		}                                                                                                              \
		while (i < n && !(x[i] ABOVE limit))                                                                           \
			i++;                                                                                                       \
		return i;                                                                                                      \
	}
FIND(find_above, >)
FIND(find_below, <)

/* Defines NAME: out[i] = EXPRESSION, which reads x[i], the old out[i] as y[i], and the line's number q */
#define BY_NUMBER(NAME, EXPRESSION)                                                                                    \
	static void N(NAME)(void *out, const void *v, const double *p, size_t n, size_t count)                             \
	{                                                                                                                  \
		const REAL *x = v;                                                                                             \
		REAL *y = out;                                                                                                 \
		EACH_LINE((x += n, y += n)) {                                                                                  \
			const REAL q MAYBE_UNUSED = (REAL)p[line];                                                                 \
			EACH y[i] = EXPRESSION;                                                                                    \
		}                                                                                                              \
	}
BY_NUMBER(subtract, x[i] - q)
BY_NUMBER(divide, x[i] / q)
BY_NUMBER(multiply, x[i] * q)
BY_NUMBER(multiply_wide, (REAL)((double)x[i] * p[line]))
BY_NUMBER(log_softmax_derivative, x[i] - y[i] * q)

static void N(normalize)(void *out, const void *v, const double *means, const double *scales, size_t n, size_t count)
{
	const REAL *x = v;
	REAL *y = out;
	EACH_LINE((x += n, y += n)) {
		const double mean = means[line], scale = scales[line];
		EACH y[i] = (REAL)(((double)x[i] - mean) * scale);
	}
}

static void N(normalize_row)(void *out, const void *v, const double *mean, const double *scale, size_t n)
{
	const REAL *x = v;
	REAL *y = out;
	EACH y[i] = (REAL)(((double)x[i] - mean[i]) * scale[i]);
}

static void N(softmax_derivative)(void *out, const void *g, const void *y, const double *p, size_t n, size_t count)
{
	const REAL *c = g, *x = y;
	REAL *to = out;
	EACH_LINE((c += n, x += n, to += n)) {
		const REAL q = (REAL)p[line];
		EACH to[i] = x[i] * (c[i] - q);
	}
}

static void N(normalize_derivative)(void *out, const void *g, const void *y, const struct normalization *p, size_t n,
                                    size_t count)
{
	const REAL *c = g, *x = y;
	REAL *to = out;
	EACH_LINE((c += n, x += n, to += n)) {
		const double mean = p[line].mean, product = p[line].product, scale = p[line].scale;
		EACH to[i] = (REAL)(scale * (((double)c[i] - mean) - (double)x[i] * product));
	}
}

static void N(accumulate)(void *dst, const void *src, size_t n)
{
	const REAL *from = src;
	REAL *to = dst;
	EACH to[i] = from[i] == from[i] ? to[i] + from[i] : from[i];
}

typedef REAL N(half) __attribute__((vector_size(VECTOR_BYTES / 8 * sizeof(REAL)), aligned(sizeof(REAL)), may_alias));

/* Adds COUNT rows from V on to the sums of VECTORS vectors of columns, at most two. */
static inline __attribute__((always_inline)) void N(add_rows_to)(double *hi, double *lo, const REAL *v, int64_t row,
                                                                 const size_t count, const int vectors)
{
	wide_loose *const sums = (wide_loose *)hi, *const losts = (wide_loose *)lo;
	wide_vector sum[2], lost[2], one = (wide_vector){0} + 1;
	HIDE(one);
	_Pragma("GCC unroll 2") for (int j = 0; j < vectors; j++) {
		sum[j] = sums[j];
		lost[j] = losts[j];
	}
	_Pragma("GCC unroll 8") for (size_t r = 0; r < count; r++, v += row)
		_Pragma("GCC unroll 2") for (int j = 0; j < vectors; j++)
			wide_vector_add(&sum[j], &lost[j], __builtin_convertvector(((const N(half) *)v)[j], wide_vector), one);
	_Pragma("GCC unroll 2") for (int j = 0; j < vectors; j++) {
		sums[j] = sum[j];
		losts[j] = lost[j];
	}
}

/* Adds COUNT rows of N elements, and keeps the sums of two vectors of columns in registers meanwhile. */
static inline __attribute__((always_inline)) void N(sum_columns)(double *hi, double *lo, const REAL *v, int64_t row,
                                                                   size_t n, const size_t count)
{
	enum { WIDE = VECTOR_BYTES / 8 };
	size_t i = 0;
	for (; i + 2 * WIDE <= n; i += 2 * WIDE)
		N(add_rows_to)(hi + i, lo + i, v + i, row, count, 2);
	for (; i + WIDE <= n; i += WIDE)
		N(add_rows_to)(hi + i, lo + i, v + i, row, count, 1);
	for (; i < n; i++)
		for (size_t r = 0; r < count; r++)
			wide_add(&hi[i], &lo[i], (double)v[(int64_t)i + (int64_t)r * row], true);
}

static void N(sums_rows)(double *hi, double *lo, const void *v, int64_t row, size_t n, size_t count)
{
	enum { ROWS = 8 };
	const REAL *x = v;
	size_t done = 0;
	memset(hi, 0, n * sizeof *hi);
	memset(lo, 0, n * sizeof *lo);
	for (; done + ROWS <= count; done += ROWS)
		N(sum_columns)(hi, lo, x + (int64_t)done * row, row, n, ROWS);
	for (; done < count; done++)
		N(sum_columns)(hi, lo, x + (int64_t)done * row, row, n, 1);
	finish_sums(hi, lo, lo, n);
}

/* Returns 2^e, where HEAD is in [2^e, 2^(e+1)), or its reciprocal; powers that are no normal number become 0. */
static inline REAL N(power_of)(REAL head, bool reciprocal)
{
	const LANE_INTEGER exponent = ((LANE_INTEGER)1 << (sizeof(REAL) * 8 - 1 - N(FRACTION))) - 1;
	LANE_INTEGER bits;
	REAL power;
	memcpy(&bits, &head, sizeof bits);
	bits &= exponent << N(FRACTION);
	bits = reciprocal ? ((exponent - 1) << N(FRACTION)) - bits : bits;
	memcpy(&power, &bits, sizeof power);
	return power;
}

/* Returns the integer next to X, whose magnitude is at most 2^(FRACTION - 2). */
static inline LANE_INTEGER N(nearest)(REAL x)
{
	const REAL shift = (REAL)(3 * ((LANE_INTEGER)1 << (N(FRACTION) - 1))), moved = x + shift;
	LANE_INTEGER bits, zero;
	memcpy(&bits, &moved, sizeof bits);
	memcpy(&zero, &shift, sizeof zero);
	return bits - zero;
}

/* The error of a + b = sum, by Knuth's formula. */
static inline REAL N(error_of)(REAL a, REAL b, REAL sum)
{
	const REAL part = sum - a;
	return (a - (sum - part)) + (b - part);
}

/* Returns the value of a long sum's TAIL. */
static inline REAL N(tail_value)(REAL head, TAIL_INTEGER tail)
{
	return (REAL)tail * (1 / N(UNITS)) * N(power_of)(head, false);
}

/* Adds X + X_LOW to the long sum *HEAD and *TAIL. */
static inline void N(add_long)(REAL *head, TAIL_INTEGER *tail, REAL x, REAL x_low)
{
	const REAL h = *head, sum = h == h ? h + x : h; /* of two NaNs the first one stays */
	const REAL all = (N(error_of)(h, x, sum) + N(tail_value)(h, *tail)) + x_low;
	const REAL low = FABS(sum) < (REAL)INFINITY ? all : 0, total = sum + low;
	/* Dekker's formula (1971) is exact if |sum| >= |low|. Else SUM is 0 or half a last place of H, and TOTAL is exact. */
	const REAL left = (low - (total - sum)) * N(power_of)(total, true) * N(UNITS);
	const LANE_INTEGER rounded = N(nearest)(left);
	*head = total;
	*tail = (TAIL_INTEGER)(FABS(total) < (REAL)INFINITY ? rounded : 0);
}

static void N(accumulate_long)(void *heads, void *tails, const void *src, const void *src_tails, size_t n)
{
	const REAL *from = src;
	const TAIL_INTEGER *from_tail = src_tails;
	REAL *head = heads;
	TAIL_INTEGER *tail = tails;
	if (from_tail)
		EACH N(add_long)(&head[i], &tail[i], from[i], N(tail_value)(from[i], from_tail[i]));
	else
		EACH N(add_long)(&head[i], &tail[i], from[i], -(REAL)0); /* which the compiler leaves out */
}

static void N(fill)(void *dst, double value, size_t n)
{
	REAL *to = dst;
	EACH to[i] = (REAL)value;
}

static void N(to_f32)(float *out, const void *v, size_t n)
{
	const REAL *from = v;
	EACH out[i] = (float)from[i];
}

static void N(to_f64)(double *out, const void *v, size_t n)
{
	const REAL *from = v;
	EACH out[i] = (double)from[i];
}

/* ---- neighbours: blocks of vectors, or single ones of short rows; the last computes some elements again ---- */

#define EACH_VECTOR _Pragma("GCC unroll 8") for (int j = 0; j < count; j++)
#define LOAD(FROM) (*(const N(loose) *)((const REAL *)(FROM) + i + j * N(LANES)))

static inline __attribute__((always_inline)) void N(differences_block)(REAL *to, const struct differences *d, size_t i,
                                                                       const int count, const int pairs, bool scaled)
{
	N(vector) twice[NEIGHBOUR_VECTORS], sum[NEIGHBOUR_VECTORS];
	EACH_VECTOR twice[j] = 2 * LOAD(d->centre);
	int p = 0;
	do {
		const REAL *const before = d->sides[0][p], *const after = d->sides[1][p];
		const REAL c = (REAL)d->coefficients[p];
		EACH_VECTOR {
			const N(vector) difference = (LOAD(before) - twice[j]) + LOAD(after);
			const N(vector) term = scaled ? difference * c : difference;
			sum[j] = p ? sum[j] + term : term;
		}
	} while (++p < pairs);
	if (d->divisor != 1)
		EACH_VECTOR sum[j] /= (REAL)d->divisor;
	EACH_VECTOR *(N(loose) *)(to + i + j * N(LANES)) = sum[j];
}

/* The same for one element, whose neighbours may be doubled. */
static inline REAL N(difference_at)(const struct differences *d, size_t i)
{
	const REAL x = ((const REAL *)d->centre)[i];
	REAL sum = 0;
	for (int p = 0; p < d->pairs; p++) {
		const REAL before = ((const REAL *)d->sides[0][p])[i] * (REAL)d->times[0][p];
		const REAL after = ((const REAL *)d->sides[1][p])[i] * (REAL)d->times[1][p];
		const REAL term = (REAL)d->coefficients[p] * ((before - 2 * x) + after);
		sum = p ? sum + term : term;
	}
	return sum / (REAL)d->divisor;
}

static inline __attribute__((always_inline)) void N(differences_of)(REAL *to, const struct differences *d, size_t n,
                                                                    const int pairs, bool scaled)
{
	const size_t block = NEIGHBOUR_VECTORS * N(LANES);
	for (size_t i = 0; i < n && n >= block; i += block)
		N(differences_block)(to, d, i + block <= n ? i : n - block, NEIGHBOUR_VECTORS, pairs, scaled);
	for (size_t i = 0; i < n && n < block; i += N(LANES))
		N(differences_block)(to, d, i + N(LANES) <= n ? i : n - N(LANES), 1, pairs, scaled);
}

static void N(differences)(void *out, const struct differences *d, size_t n)
{
	REAL *const to = out;
	bool scaled = false;
	for (int p = 0; p < d->pairs; p++)
		scaled |= d->coefficients[p] != 1;
	if (n < N(LANES) || d->doubles)
		EACH to[i] = N(difference_at)(d, i);
	else if (scaled)
		N(differences_of)(to, d, n, d->pairs, true);
	else if (d->pairs == 1)
		N(differences_of)(to, d, n, 1, false);
	else if (d->pairs == 2)
		N(differences_of)(to, d, n, 2, false);
	else
		N(differences_of)(to, d, n, d->pairs, false);
}

static void N(differences_2d)(void *out, const void *above, const void *v, const void *below, const double ends[2],
                              size_t n)
{
	const REAL left = (REAL)ends[0], right = (REAL)ends[1];
	const REAL *const b = above, *const x = v, *const a = below;
	REAL *const to = out;
	if (n == 1) {
		to[0] = ((b[0] - 2 * x[0]) + a[0]) + ((left - 2 * x[0]) + right);
		return;
	}
	to[0] = ((b[0] - 2 * x[0]) + a[0]) + ((left - 2 * x[0]) + x[1]);
	const size_t last = n - 1;
	_Pragma("GCC ivdep") for (size_t i = 1; i < last; i++) to[i] =
		((b[i] - 2 * x[i]) + a[i]) + ((x[i - 1] - 2 * x[i]) + x[i + 1]);
	to[last] = ((b[last] - 2 * x[last]) + a[last]) + ((x[last - 1] - 2 * x[last]) + right);
}

/* Stores in SUM the results at element I and behind it, in COUNT vectors. */
static inline __attribute__((always_inline)) void N(weighted_block)(N(vector) *sum, const struct weighted_sum *w,
                                                                    size_t term_count, size_t i, const int count)
{
	size_t t = 0;
	do {
		const REAL weight = (REAL)w->weights[t];
		EACH_VECTOR {
			const N(vector) term = LOAD(w->terms[t]) * weight;
			sum[j] = t ? sum[j] + term : term;
		}
	} while (++t < term_count);
	if (w->scale != 1)
		EACH_VECTOR sum[j] *= (REAL)w->scale;
	if (w->add)
		EACH_VECTOR sum[j] = LOAD(w->add) + sum[j];
}

/* The last vector shares elements with the one before. It is made first, since the others may overwrite what is added. */
static inline __attribute__((always_inline)) void N(weighted_of)(REAL *to, const struct weighted_sum *w,
                                                                 size_t term_count, size_t n)
{
	N(vector) sum[NEIGHBOUR_VECTORS], last;
	const size_t block = NEIGHBOUR_VECTORS * N(LANES);
	size_t i = 0;
	N(weighted_block)(&last, w, term_count, n - N(LANES), 1);
	for (; i + block <= n; i += block) {
		const int count = NEIGHBOUR_VECTORS;
		N(weighted_block)(sum, w, term_count, i, count);
		EACH_VECTOR *(N(loose) *)(to + i + j * N(LANES)) = sum[j];
	}
	for (; i + N(LANES) <= n; i += N(LANES)) {
		N(weighted_block)(sum, w, term_count, i, 1);
		*(N(loose) *)(to + i) = *sum;
	}
	*(N(loose) *)(to + n - N(LANES)) = last;
}

static void N(weighted)(void *out, const struct weighted_sum *w, size_t n)
{
	REAL *const to = out;
	if (w->count > 0 && n >= N(LANES)) {
		if (w->count == 3)
			N(weighted_of)(to, w, 3, n);
		else
			N(weighted_of)(to, w, w->count, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		REAL sum = 0;
		for (size_t t = 0; t < w->count; t++) {
			const REAL term = ((const REAL *)w->terms[t])[i] * (REAL)w->weights[t];
			sum = t ? sum + term : term;
		}
		sum *= (REAL)w->scale;
		to[i] = w->add ? ((const REAL *)w->add)[i] + sum : sum;
	}
}
#undef EACH_VECTOR
#undef LOAD

/* ---- laplacian in two rows ---- */

static inline N(vector) N(load)(const REAL *from) { return *(const N(loose) *)from; }
static inline N(vector) N(all)(REAL x) { return x - (N(vector)){0}; } /* of -0 too */

/* Returns the elements to the left of HERE, whose first is the last of BEFORE. */
static inline N(vector) N(shift_up)(N(vector) before, N(vector) here)
{
	N(lanes) order;
	for (int k = 0; k < N(LANES); k++)
		order[k] = N(LANES) - 1 + k;
	return N(interleave)(before, here, order);
}
/* Returns the elements to the right of HERE, whose last is the first of AFTER. */
static inline N(vector) N(shift_down)(N(vector) here, N(vector) after)
{
	N(lanes) order;
	for (int k = 0; k < N(LANES); k++)
		order[k] = 1 + k;
	return N(interleave)(here, after, order);
}

/* The same for HERE at X, between its neighbours BEFORE and AFTER in one row. */
static inline __attribute__((always_inline)) N(vector)
	N(left_of)(N(vector) before MAYBE_UNUSED, N(vector) here MAYBE_UNUSED, const REAL *x MAYBE_UNUSED)
{
#if VECTOR_BYTES < 64 /* a load takes less than a shuffle of two vectors */
	return N(load)(x - 1);
#else
	return N(shift_up)(before, here);
#endif
}
static inline __attribute__((always_inline)) N(vector)
	N(right_of)(N(vector) here MAYBE_UNUSED, N(vector) after MAYBE_UNUSED, const REAL *x MAYBE_UNUSED)
{
#if VECTOR_BYTES < 64
	return N(load)(x + 1);
#else
	return N(shift_down)(here, after);
#endif
}

#define DIFFERENCE(BEFORE, V, AFTER) (((BEFORE) - 2 * (V)) + (AFTER))

/*
 * ADDS is 2 if V is added, 1 if another array is, 0 if none. Three vectors of each row are in registers. What is left
 * after whole vectors is made element by element.
 */
static inline __attribute__((always_inline)) void N(laplacian_pair_of)(const struct row_pair *p, const int adds)
{
	const size_t n = p->n;
	const REAL scale = (REAL)p->scale;
	const REAL *const x[2] = {p->v[0], p->v[1]}, *const add[2] = {p->add[0], p->add[1]};
	const REAL *const above = p->before, *const below = p->after;
	REAL *const to[2] = {p->out[0], p->out[1]};
	N(vector) here[2] = {0}, left[2] = {0}, after[2];
	size_t i = 0;
	for (int r = 0; r < 2 && n >= N(LANES); r++) {
		here[r] = N(load)(x[r]);
		left[r] = N(shift_up)(N(all)((REAL)p->ends[r][0]), here[r]);
	}
	for (; i + N(LANES) <= n; i += N(LANES)) {
		const bool more = i + 2 * N(LANES) <= n;
		const size_t next = i + N(LANES);
		N(vector) y[2] = {DIFFERENCE(N(load)(above + i), here[0], here[1]),
		                  DIFFERENCE(here[0], here[1], N(load)(below + i))};
#pragma GCC unroll 2
		for (int r = 0; r < 2; r++) {
			after[r] = more ? N(load)(x[r] + next) : here[r];
			const N(vector) right = more ? N(right_of)(here[r], after[r], x[r] + i)
			                             : N(shift_down)(here[r], N(all)(next < n ? x[r][next] : (REAL)p->ends[r][1]));
			y[r] = (y[r] + DIFFERENCE(left[r], here[r], right)) * scale;
			*(N(loose) *)(to[r] + i) = adds == 2 ? here[r] + y[r] : adds ? N(load)(add[r] + i) + y[r] : y[r];
			if (more)
				left[r] = N(left_of)(here[r], after[r], x[r] + next);
			here[r] = after[r];
		}
	}
	for (; i < n; i++) {
		const REAL column[4] = {above[i], x[0][i], x[1][i], below[i]};
		for (int r = 0; r < 2; r++) {
			const REAL before = i > 0 ? x[r][i - 1] : (REAL)p->ends[r][0];
			const REAL behind = i + 1 < n ? x[r][i + 1] : (REAL)p->ends[r][1];
			const REAL sum = (DIFFERENCE(column[r], column[r + 1], column[r + 2]) + DIFFERENCE(before, x[r][i], behind)) * scale;
			to[r][i] = adds ? add[r][i] + sum : sum;
		}
	}
}
#undef DIFFERENCE

static void N(laplacian_pair)(const struct row_pair *p)
{
	if (p->add[0] == p->v[0])
		N(laplacian_pair_of)(p, 2);
	else if (p->add[0])
		N(laplacian_pair_of)(p, 1);
	else
		N(laplacian_pair_of)(p, 0);
}

static void N(dropout)(void *out, const void *v, size_t n, const struct dropout *dropout)
{
	const REAL *x = v, factor = (REAL)dropout->scale;
	REAL *to = out;
	uint64_t at = (uint64_t)dropout->first, end = at + n;
	/* the threshold is 2^32 if p is so near 1 that p * 2^32 is rounded up */
	const uint32_t least = dropout->threshold > UINT32_MAX ? UINT32_MAX : (uint32_t)dropout->threshold;
	while (at < end) {
		uint32_t words[RANDOM_WORDS];
		const uint64_t begin = at / RANDOM_WORDS * RANDOM_WORDS;
		const size_t skip = (size_t)(at - begin);
		const size_t here = (end - begin < RANDOM_WORDS ? (size_t)(end - begin) : RANDOM_WORDS) - skip;
		random_words(words, begin / 4, dropout->stream, dropout->seed);
		_Pragma("GCC ivdep") for (size_t i = 0; i < here; i++)
		{
			const REAL kept = x[i] * factor;
			to[i] = words[skip + i] >= least ? kept : 0;
		}
		x += here;
		to += here;
		at += here;
	}
}

/*
 * Multiplies PRODUCT by N elements one after another. Powers of two leave the product, and a factor, that come near the ends
 * of a double's range, and are added to *EXPONENT. They round nothing.
 */
static double N(product_of)(double product, const REAL *v, size_t n, double *exponent)
{
	for (size_t j = 0; j < n; j++) {
		double x = (double)v[j];
		if (!(fabs(x) > 0x1p-400 && fabs(x) < 0x1p400))
			x = product_split(x, exponent);
		product *= x;
		if (!(fabs(product) > 0x1p-400 && fabs(product) < 0x1p400))
			product = product_split(product, exponent);
	}
	return product;
}

/* True if the magnitudes of N elements of V are within 2^-EXPONENT and 2^EXPONENT, at most 126. */
static bool N(is_moderate)(const REAL *v, size_t n, int exponent)
{
	const LANE_INTEGER bias = ((LANE_INTEGER)1 << (sizeof(REAL) * 8 - 2 - N(FRACTION))) - 1;
	const LANE_INTEGER bits[2] = {(bias - exponent) << N(FRACTION), (bias + exponent) << N(FRACTION)};
	REAL least, most; /* 2^-EXPONENT and 2^EXPONENT */
	memcpy(&least, &bits[0], sizeof least);
	memcpy(&most, &bits[1], sizeof most);
	const LANE_INTEGER magnitude = (LANE_INTEGER)(((uint64_t)1 << (sizeof(REAL) * 8 - 1)) - 1);
	N(lanes) far = {0};
	LANE_INTEGER any = 0;
	size_t k = 0;
	for (; k + N(LANES) <= n; k += N(LANES)) {
		const N(vector) size = (N(vector))((N(lanes))(*(const N(loose) *)(v + k)) & magnitude);
		far |= (size < least) | (size > most);
	}
	for (int i = 0; i < N(LANES); i++)
		any |= far[i];
	for (; k < n; k++)
		any |= FABS(v[k]) < least || FABS(v[k]) > most;
	return !any;
}

/* The same for COUNT pieces of N elements that begin STEP apart. */
static bool N(are_moderate)(const REAL *v, size_t step, size_t n, size_t count, int exponent)
{
	if (step == n)
		return N(is_moderate)(v, n * count, exponent);
	for (size_t i = 0; i < count; i++)
		if (!N(is_moderate)(v + i * step, n, exponent))
			return false;
	return true;
}

/* Multiplies PRODUCT[i] by the N elements at V + i * STEP, for AT_ONCE lines. Within a line, each product waits for the last. */
static inline __attribute__((always_inline)) void N(multiply_lines)(double *product, const REAL *v, size_t step, size_t n,
                                                                    const size_t at_once)
{
	double here[8];
	for (size_t i = 0; i < at_once; i++)
		here[i] = product[i];
	for (size_t j = 0; j < n; j++)
		for (size_t i = 0; i < at_once; i++)
			here[i] *= (double)v[i * step + j];
	for (size_t i = 0; i < at_once; i++)
		product[i] = here[i];
}

/*
 * Computes up to eight lines side by side, in blocks of 64 elements. Where a block has elements far from 1, it is multiplied
 * by product_of. The bits are the same: only powers of two leave a product.
 */
static void N(products_some)(double *mantissa, double *exponent, const REAL *v, size_t step, size_t n,
                             size_t count)
{
	enum { BLOCK = 64 };
	for (size_t i = 0; i < count; i++) {
		mantissa[i] = 1;
		exponent[i] = 0;
	}
	for (size_t k = 0; k < n; k += BLOCK) {
		const size_t width = n - k < BLOCK ? n - k : BLOCK;
		const bool moderate = N(are_moderate)(v + k, step, width, count, 14);
		if (moderate && count == 8)
			N(multiply_lines)(mantissa, v + k, step, width, 8);
		else if (moderate && count >= 4)
			N(multiply_lines)(mantissa, v + k, step, width, 4);
		for (size_t i = !moderate || count < 4 ? 0 : count == 8 ? 8 : 4; i < count; i++)
			if (moderate)
				N(multiply_lines)(mantissa + i, v + i * step + k, step, width, 1);
			else
				mantissa[i] = N(product_of)(mantissa[i], v + i * step + k, width, &exponent[i]);
		for (size_t i = 0; i < count; i++)
			if (!(fabs(mantissa[i]) > 0x1p-100 && fabs(mantissa[i]) < 0x1p100))
				mantissa[i] = product_split(mantissa[i], &exponent[i]);
	}
}

/* Computes AT_ONCE pieces side by side, since each product waits for the one before. */
static inline __attribute__((always_inline)) void N(others_of)(REAL *y, const REAL *x, size_t step,
                                                               const struct product_ends *ends, size_t n,
                                                               const size_t at_once)
{
	double ahead[PRODUCTS_SOME][PRODUCT_PIECES], before[PRODUCT_PIECES], after[PRODUCT_PIECES], power[PRODUCT_PIECES];
	for (size_t i = 0; i < at_once; i++) {
		before[i] = ends->before[i];
		after[i] = ends->after[i];
		power[i] = ends->power[i];
	}
	for (size_t j = 0; j < n; j++)
		for (size_t i = 0; i < at_once; i++) {
			ahead[j][i] = before[i];
			before[i] *= (double)x[i * step + j];
		}
	for (size_t j = n; j-- > 0;)
		for (size_t i = 0; i < at_once; i++) {
			const double own = (double)x[i * step + j];
			y[i * step + j] = (REAL)(ahead[j][i] * after[i] * power[i]);
			after[i] *= own;
		}
}

/* Products of N elements stay within 2^-768 and 2^768, and so within 2^-968 and 2^968 with what stands around them. */
static bool N(other_products)(void *out, const void *v, size_t step, const struct product_ends *ends, size_t n,
                              size_t count)
{
	const REAL *const x = v;
	REAL *const y = out;
	const int exponent = n < 7 ? 126 : (int)(768 / n);
	if (!N(are_moderate)(x, step, n, count, exponent))
		return false;
	if (count == PRODUCT_PIECES) {
		N(others_of)(y, x, step, ends, n, PRODUCT_PIECES);
		return true;
	}
	for (size_t i = 0; i < count; i++) {
		const struct product_ends own = {{ends->before[i]}, {ends->after[i]}, {ends->power[i]}};
		N(others_of)(y + i * step, x + i * step, step, &own, n, 1);
	}
	return true;
}

static void N(products)(double *mantissa, double *exponent, const void *v, size_t step, size_t n, size_t count)
{
	for (size_t done = 0, some; done < count; done += some) {
		some = count - done < 8 ? count - done : 8;
		N(products_some)(mantissa + done, exponent + done, (const REAL *)v + done * step, step, n, some);
	}
}

static void N(copy_rows)(const struct rows *to, const struct rows *from, size_t n, size_t count)
{
	enum { LONG = 256 }; /* from this length on the cost of calling memcpy does not matter */
	const int64_t step = from->step, to_step = to->step, to_row = to->row, from_row = from->row;
	const REAL *x = from->at;
	REAL *y = to->at;
	EACH_LINE((y += to_row, x += from_row)) {
		if (to_step != 1)
			EACH y[(int64_t)i * to_step] = x[(int64_t)i * step];
		else if (step == 1 && n >= LONG)
			memcpy(y, x, n * sizeof *y);
		else if (step == 1)
			EACH y[i] = x[i];
		else if (step == 2)
			EACH y[i] = x[2 * i];
		else if (step == -1)
			EACH y[i] = *(x - i);
		else
			EACH y[i] = x[(int64_t)i * step];
	}
}

static void N(add_to_rows)(const struct rows *to, const struct rows *from, size_t n, size_t count)
{
	const int64_t step = to->step, to_row = to->row, from_row = from->row;
	const REAL *x = from->at;
	REAL *y = to->at;
	EACH_LINE((y += to_row, x += from_row)) {
		if (step == 1)
			EACH y[i] += x[i];
		else if (step == 2)
			EACH y[2 * i] += x[i];
		else
			EACH y[(int64_t)i * step] += x[i];
	}
}

static void N(clear_rows)(const struct rows *to, size_t n, size_t count)
{
	const int64_t to_row = to->row;
	REAL *y = to->at;
	if (n < count)
		EACH {
			for (size_t row = 0; row < count; row++)
				y[i + row * (size_t)to_row] = 0;
		}
	else
		EACH_LINE(y += to_row)
			EACH y[i] = 0;
}

static void N(take_larger)(void *out, const void *v, int64_t step, size_t n)
{
	const REAL *x = v;
	REAL *y = out;
#define LARGER(X, Y) (((X) > (Y)) | ((X) != (X)) ? (X) : (Y))
	if (step == 1)
		EACH y[i] = LARGER(x[i], y[i]);
	else if (step == 2)
		EACH y[i] = LARGER(x[2 * i], y[i]);
	else
		EACH y[i] = LARGER(x[(int64_t)i * step], y[i]);
}

/*
 * Columns of a block, some vectors of them at a time: EACH_COLUMN calls OF with the rows from column I on, for 4 vectors,
 * then for 1, and defines I as the first column that is left.
 */
#define EACH_COLUMN(OF)                                                                                                \
	size_t i = 0;                                                                                                      \
	for (; i + 4 * N(LANES) <= n; i += 4 * N(LANES))                                                                   \
		OF(4);                                                                                                         \
	for (; i + N(LANES) <= n; i += N(LANES))                                                                           \
		OF(1)

static inline __attribute__((always_inline)) void N(largest_in_some)(REAL *out, const REAL *v, size_t n, size_t rows,
                                                                     const int vectors)
{
	N(vector) best[4];
	for (int k = 0; k < vectors; k++)
		best[k] = *(const N(loose) *)(out + k * N(LANES));
	for (; rows > 0; rows--, v += n)
#pragma GCC unroll 4
		for (int k = 0; k < vectors; k++) {
			const N(vector) here = *(const N(loose) *)(v + k * N(LANES));
			const N(lanes) larger = (N(lanes))(here > best[k]) | (N(lanes))(here != here);
			best[k] = (N(vector))(((N(lanes))here & larger) | ((N(lanes))best[k] & ~larger));
		}
	for (int k = 0; k < vectors; k++)
		*(N(loose) *)(out + k * N(LANES)) = best[k];
}

static void N(largest_in_columns)(void *out, const void *v, size_t n, size_t rows)
{
	REAL *const y = out;
	const REAL *const x = v;
#define LARGEST_IN(VECTORS) N(largest_in_some)(y + i, x + i, n, rows, VECTORS)
	EACH_COLUMN(LARGEST_IN);
	for (; i < n; i++)
		for (size_t r = 0; r < rows; r++)
			y[i] = LARGER(x[r * n + i], y[i]);
#undef LARGEST_IN
}

static void N(add_columns)(double *out, const void *v, size_t n, size_t rows)
{
	const REAL *x = v;
	for (; rows >= 8; rows -= 8, x += 8 * n) {
		const REAL *const a = x, *const b = x + 2 * n, *const c = x + 4 * n, *const d = x + 6 * n;
		EACH out[i] += (double)(((a[i] + a[n + i]) + (b[i] + b[n + i])) + ((c[i] + c[n + i]) + (d[i] + d[n + i])));
	}
	for (; rows > 0; rows--, x += n)
		EACH out[i] += (double)x[i];
}

static inline __attribute__((always_inline)) void N(subtract_some)(REAL *v, const REAL *p, size_t n, size_t rows,
                                                                   const int vectors)
{
	N(vector) less[4];
	for (int k = 0; k < vectors; k++)
		less[k] = *(const N(loose) *)(p + k * N(LANES));
	for (; rows > 0; rows--, v += n)
#pragma GCC unroll 4
		for (int k = 0; k < vectors; k++)
			*(N(loose) *)(v + k * N(LANES)) -= less[k];
}

static void N(subtract_row)(void *v, const void *p, size_t n, size_t rows)
{
	REAL *const y = v;
	const REAL *const less = p;
#define SUBTRACT(VECTORS) N(subtract_some)(y + i, less + i, n, rows, VECTORS)
	EACH_COLUMN(SUBTRACT);
	for (; i < n; i++)
		for (size_t r = 0; r < rows; r++)
			y[r * n + i] -= less[i];
#undef SUBTRACT
}

static void N(find_larger)(void *out, int64_t *at, int64_t place, const struct rows *v, size_t n)
{
	const REAL *x = v->at;
	const int64_t step = v->step;
	REAL *y = out;
#define FIND_LARGER(STEP)                                                                                              \
	EACH                                                                                                               \
	{                                                                                                                  \
		const REAL here = x[(int64_t)i * (STEP)], best = y[i];                                                         \
		const bool larger = (here > best) | (here != here);                                                            \
		at[i] = larger ? place : at[i];                                                                                \
		y[i] = larger ? here : best;                                                                                   \
	}
	if (step == 1)
		FIND_LARGER(1)
	else if (step == 2)
		FIND_LARGER(2)
	else
		FIND_LARGER(step)
#undef FIND_LARGER
}
#undef LARGER

#include "ops/fft_template.h"
#include "ops/gemm_template.h"

const struct loops TYPED(ISA_LOOPS) = {
	.dtype = sizeof(REAL) == sizeof(float) ? DTYPE_F32 : DTYPE_F64,
	.sum = {N(sums), N(sums_squares), N(sums_magnitudes), N(sums_products), N(sums_deviations), N(sums_huber),
	        N(sums_rows)},
	.accumulate = N(accumulate),
	.accumulate_long = N(accumulate_long),
	.fill = N(fill),
	.to_f32 = N(to_f32),
	.to_f64 = N(to_f64),
	.largest = N(largest),
	.smallest = N(smallest),
	.shown = N(shown),
	.find_above = N(find_above),
	.find_below = N(find_below),
	.products = N(products),
	.other_products = N(other_products),
	.subtract = N(subtract),
	.divide = N(divide),
	.multiply = N(multiply),
	.multiply_wide = N(multiply_wide),
	.normalize = N(normalize),
	.normalize_row = N(normalize_row),
	.softmax_derivative = N(softmax_derivative),
	.log_softmax_derivative = N(log_softmax_derivative),
	.normalize_derivative = N(normalize_derivative),
	.differences = N(differences),
	.differences_2d = N(differences_2d),
	.weighted = N(weighted),
	.laplacian_pair = N(laplacian_pair),
	.dropout = N(dropout),
	.transpose = N(transpose),
	.copy_rows = N(copy_rows),
	.add_rows = N(add_to_rows),
	.clear_rows = N(clear_rows),
	.largest_in_columns = N(largest_in_columns),
	.add_columns = N(add_columns),
	.subtract_row = N(subtract_row),
	.take_larger = N(take_larger),
	.find_larger = N(find_larger),
	.fft = N(fft),
	.fft_take = N(fft_take),
	.fft_put = N(fft_put),
	.fft_real = N(fft_real),
	.fft_half = N(fft_half),
	.fft_mirror = N(fft_mirror),
	.multiply_pairs = N(multiply_pairs),
	.gemm = N(gemm),
	.gemm_pack = N(gemm_pack),
	.gemm_blocks = N(gemm_blocks),
	.gemm_apart = N(gemm_apart),
};

#undef N
#undef REAL
#undef LANE_INTEGER
#undef TAIL_INTEGER
#undef FABS
#undef GEMM_MULTIPLY_ADD
#undef TYPE_F32
#undef TYPE_F64
