/*
 * Systems of equations and factors of square matrices, by LAPACK. Stacks are computed matrix by matrix.
 *
 * LAPACK's matrices are by columns, so what it gets is the transpose of ours. A singular matrix gives infinities and NaN,
 * and one that is not positive definite a factor of NaN, as in JAX. A derivative factors its matrix again: the factors are
 * not kept, since they take the bytes of the matrix.
 *
 * Derivatives: Giles 2008, "Collected matrix derivative results for forward and reverse mode algorithmic
 * differentiation", sections 2.2.3 (inv), 2.2.4 (det), 2.3.1 (solve); of cholesky Murray 2016, "Differentiation of the
 * Cholesky decomposition", equation 9.
 * Tests: tests/unit/test_general.c, tests/cases/linalg.test
 */
#include "ops/linalg.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "ops/lines.h"

/* Matrices of one size, one after another, and what LAPACK needs for one. */
struct squares {
	const struct lapack *lapack;
	enum dtype dtype;
	size_t size; /* of an element */
	int n;
	int64_t count, square; /* matrices; elements of each */
	char *work;            /* a matrix, or what getri needs */
	int *pivots;
};

enum { GETRI_BLOCK = 64 }; /* columns that getri inverts at a time */

static int64_t rows_of(const struct type *type) { return type->shape.dim[type->shape.ndim - 1]; }

/* Returns the bytes of MATRICES matrices of TYPE's last two axes, and of the pivots. */
static int64_t scratch_of_squares(const struct type *type, int64_t matrices)
{
	const int64_t n = rows_of(type), size = (int64_t)element_size(type->dtype);
	const int64_t square = saturated((__int128)n * n * size);
	const int64_t work = lesser(greater(square, n * GETRI_BLOCK * size), INT64_MAX - ARRAY_ALIGN);
	return saturated((__int128)matrices * round_up(work, ARRAY_ALIGN) +
	                 round_up(n * (int64_t)sizeof(int), ARRAY_ALIGN));
}

static char *scratch_matrix(const struct op_call *call, const struct type *type, int64_t index)
{
	const int64_t n = rows_of(type), size = (int64_t)element_size(type->dtype);
	return (char *)call->scratch + round_up(n * (int64_t)sizeof(int), ARRAY_ALIGN) +
	       index * round_up(greater(n * n, n * GETRI_BLOCK) * size, ARRAY_ALIGN);
}

static struct squares squares_of(const struct op_call *call, const struct type *type)
{
	const int64_t n = rows_of(type);
	struct shape stack = type->shape;
	stack.ndim -= 2;
	return (struct squares){.lapack = lapack_get(type->dtype),
	                        .dtype = type->dtype,
	                        .size = element_size(type->dtype),
	                        .n = (int)n,
	                        .count = shape_count(&stack),
	                        .square = n * n,
	                        .work = scratch_matrix(call, type, 0),
	                        .pivots = call->scratch};
}

static double get(const struct squares *s, const void *matrix, int64_t at)
{
	return s->dtype == DTYPE_F32 ? ((const float *)matrix)[at] : ((const double *)matrix)[at];
}

static void put(const struct squares *s, void *matrix, int64_t at, double value)
{
	if (s->dtype == DTYPE_F32)
		((float *)matrix)[at] = (float)value;
	else
		((double *)matrix)[at] = value;
}

static void fill_nan(const struct squares *s, void *matrix)
{
	for (int64_t i = 0; i < s->square; i++)
		put(s, matrix, i, NAN);
}

static void negate(const struct squares *s, void *array, int64_t n)
{
	const double minus = -1;
	kernels_get(s->dtype)->loops->multiply(array, array, &minus, (size_t)n, 1);
}

/* Stores in TO the transpose of the matrix FROM of ROWS x COLUMNS. */
static void transpose_matrix(const struct squares *s, void *to, const void *from, int64_t rows, int64_t columns)
{
	const struct shape shape = {2, {rows, columns}};
	const int axes[MAX_DIMS] = {1, 0};
	permute(kernels_get(s->dtype)->loops, to, from, &shape, axes);
}

/* Factors the matrix A, copied to TO. What is there is the factors of A's transpose. */
static void factor(const struct squares *s, void *to, const void *a)
{
	int info;
	memcpy(to, a, (size_t)s->square * s->size);
	s->lapack->getrf(&s->n, &s->n, to, &s->n, s->pivots, &info);
}

/* Solves A X = B, or A' X = B if TRANSPOSED, by FACTORS. B has COLUMNS columns, one after another, and becomes X. */
static void solve_by_factors(const struct squares *s, const void *factors, bool transposed, void *b, int columns)
{
	int info;
	s->lapack->getrs(transposed ? "N" : "T", &s->n, &columns, factors, &s->n, s->pivots, b, &s->n, &info, 1);
}

/* A stack of systems A X = V, whose axes before the matrices broadcast. */
struct systems {
	struct squares squares; /* the matrices A; its COUNT is the number of systems */
	int columns;            /* of V */
	int64_t right;          /* elements of V for a system */
	struct shape stack;
	int64_t step_a[MAX_DIMS], step_v[MAX_DIMS]; /* elements to the next along each axis of the stack; 0: broadcast */
};

/* Sets STEP for a factor of SHAPE, whose last LAST axes are a system's, along the axes of STACK. */
static void steps_of(int64_t step[MAX_DIMS], const struct shape *shape, int last, const struct shape *stack)
{
	int64_t elements = 1;
	for (int i = shape->ndim - last; i < shape->ndim; i++)
		elements *= shape->dim[i];
	for (int i = 1; i <= stack->ndim; i++) {
		const int own = shape->ndim - last - i;
		const int64_t extent = own >= 0 ? shape->dim[own] : 1;
		step[stack->ndim - i] = extent == 1 ? 0 : elements;
		elements *= extent;
	}
}

static struct systems systems_of(const struct op_call *call)
{
	const struct shape *v = &call->v->shape, *y = &call->y->shape;
	const int last = v->ndim == 1 ? 1 : 2;
	struct systems s = {.squares = squares_of(call, call->a), .stack = *y};
	s.columns = last == 1 ? 1 : (int)v->dim[v->ndim - 1];
	s.right = (int64_t)s.squares.n * s.columns;
	s.stack.ndim = y->ndim - last;
	s.squares.count = shape_count(&s.stack);
	steps_of(s.step_a, &call->a->shape, 2, &s.stack);
	steps_of(s.step_v, v, last, &s.stack);
	return s;
}

/* Returns the first element, in an array of these STEPS, of system INDEX. *FIRST: no system before it has the same. */
static int64_t system_at(const struct systems *s, const int64_t step[MAX_DIMS], int64_t index, bool *first)
{
	int64_t at = 0;
	*first = true;
	for (int i = s->stack.ndim - 1; i >= 0; i--) {
		const int64_t k = index % s->stack.dim[i];
		at += k * step[i];
		*first &= step[i] != 0 || k == 0;
		index /= s->stack.dim[i];
	}
	return at;
}

/* Factors the matrix of system INDEX in FACTORS, unless that of the system before is the same. *BEFORE is where that was. */
static void factor_system(const struct systems *s, int64_t index, const void *a, void *factors, int64_t *before)
{
	bool first;
	const int64_t at = system_at(s, s->step_a, index, &first);
	if (at != *before)
		factor(&s->squares, factors, element_at(a, s->squares.size, at));
	*before = at;
}

/* Stores in X the solution of system INDEX, of the right side B, by FACTORS. COLUMNS is room for B. */
static void solve_system(const struct systems *s, const void *factors, bool transposed, void *columns, const void *b,
                         void *x)
{
	transpose_matrix(&s->squares, columns, b, s->squares.n, s->columns);
	solve_by_factors(&s->squares, factors, transposed, columns, s->columns);
	transpose_matrix(&s->squares, x, columns, s->columns, s->squares.n);
}

int64_t solve_scratch(const struct type *v, const struct type *a, bool backward)
{
	const int64_t n = rows_of(a), columns = v->shape.ndim == 1 ? 1 : rows_of(v), size = (int64_t)element_size(a->dtype);
	const int64_t right = saturated((__int128)n * columns * size + ARRAY_ALIGN);
	return saturated((__int128)scratch_of_squares(a, 2) + (backward ? 2 : 1) * (__int128)right);
}

FORWARD(solve)
{
	const struct systems s = systems_of(call);
	char *const columns = scratch_matrix(call, call->a, 2);
	int64_t before = -1;
	for (int64_t i = 0; i < s.squares.count; i++) {
		bool first;
		const void *b = element_at(v, s.squares.size, system_at(&s, s.step_v, i, &first));
		factor_system(&s, i, a, s.squares.work, &before);
		solve_system(&s, s.squares.work, false, columns, b, element_of(y, s.squares.size, i * s.right));
	}
}

/* Adds N elements of FROM to TO, or stores them if FIRST. */
static void add_or_store(const struct squares *s, void *to, const void *from, int64_t n, bool first)
{
	if (first)
		memcpy(to, from, (size_t)n * s->size);
	else
		kernels_get(s->dtype)->loops->accumulate(to, from, (size_t)n);
}

VJP(solve)
{
	const void *const matrices = needs[1], *const y = needs[2];
	const struct systems s = systems_of(call);
	const size_t size = s.squares.size;
	const int64_t right_bytes = round_up(s.right * (int64_t)size, ARRAY_ALIGN);
	char *const columns = scratch_matrix(call, call->a, 2), *const solved = columns + right_bytes;
	char *const outer = scratch_matrix(call, call->a, 1);
	int64_t before = -1;
	for (int64_t i = 0; i < s.squares.count; i++) {
		bool first;
		factor_system(&s, i, matrices, s.squares.work, &before);
		solve_system(&s, s.squares.work, true, columns, element_at(g, size, i * s.right), solved);
		if (dv) {
			const int64_t at = system_at(&s, s.step_v, i, &first);
			add_or_store(&s.squares, element_of(dv, size, at), solved, s.right, first);
		}
		if (!da)
			continue;
		const int64_t at = system_at(&s, s.step_a, i, &first);
		negate(&s.squares, solved, s.right);
		gemm(s.squares.dtype,
		     &(struct product){
				 .a = {.data = solved, .ld = s.columns},
				 .b = {.data = writable(element_at(y, size, i * s.right)), .ld = s.columns, .transposed = true},
				 .c = outer,
				 .ldc = s.squares.n,
				 .m = s.squares.n,
				 .n = s.squares.n,
				 .k = s.columns});
		add_or_store(&s.squares, element_of(da, size, at), outer, s.squares.square, first);
	}
}

int64_t square_scratch(const struct type *v, bool backward) { return scratch_of_squares(v, backward ? 2 : 1); }

/* Inverts the matrix A in TO. A singular one gives NaN. */
static void invert(const struct squares *s, void *to, const void *a)
{
	const int length = s->n * GETRI_BLOCK;
	int info;
	factor(s, to, a);
	s->lapack->getri(&s->n, to, &s->n, s->pivots, s->work, &length, &info);
	if (info)
		fill_nan(s, to);
}

FORWARD(inv)
{
	const struct squares s = squares_of(call, call->v);
	for (int64_t i = 0; i < s.count; i++)
		invert(&s, element_of(y, s.size, i * s.square), element_at(v, s.size, i * s.square));
}

/* Computes C = op(A) op(B) of square matrices. */
static void multiply_squares(const struct squares *s, void *c, struct factor a, struct factor b)
{
	a.ld = b.ld = s->n;
	gemm(s->dtype, &(struct product){.a = a, .b = b, .c = c, .ldc = s->n, .m = s->n, .n = s->n, .k = s->n});
}

/* dv = -y' g y' */
VJP(inv)
{
	const struct squares s = squares_of(call, call->v);
	for (int64_t i = 0; dv && i < s.count; i++) {
		const struct factor y = {.data = writable(element_at(needs[2], s.size, i * s.square)), .transposed = true};
		void *const to = element_of(dv, s.size, i * s.square);
		multiply_squares(&s, s.work, y, (struct factor){.data = writable(element_at(g, s.size, i * s.square))});
		negate(&s, s.work, s.square);
		multiply_squares(&s, to, (struct factor){.data = s.work}, y);
	}
}

/* The log of the determinant: NaN if that is negative. */
FORWARD(logdet)
{
	const struct squares s = squares_of(call, call->v);
	for (int64_t i = 0; i < s.count; i++) {
		bool negative = false;
		double sum = 0;
		if (s.n)
			factor(&s, s.work, element_at(v, s.size, i * s.square));
		for (int64_t k = 0; k < s.n; k++) {
			const double pivot = get(&s, s.work, k * s.n + k);
			negative ^= (pivot < 0) ^ (s.pivots[k] != k + 1);
			sum += log(fabs(pivot));
		}
		put(&s, y, i, negative && sum > -INFINITY ? NAN : sum);
	}
}

VJP(logdet)
{
	const struct squares s = squares_of(call, call->v);
	void *const inverse = scratch_matrix(call, call->v, 1);
	for (int64_t i = 0; dv && s.n && i < s.count; i++) {
		void *const to = element_of(dv, s.size, i * s.square);
		const double scale = get(&s, g, i);
		invert(&s, inverse, element_at(needs[0], s.size, i * s.square));
		transpose_matrix(&s, to, inverse, s.n, s.n);
		kernels_get(s.dtype)->loops->multiply(to, to, &scale, (size_t)s.square, 1);
	}
}

/* Stores in TO the mean of the matrix A and its transpose. They may be one. */
static void symmetrize(const struct squares *s, void *to, const void *a)
{
	for (int64_t i = 0; i < s->n; i++)
		for (int64_t k = 0; k <= i; k++) {
			const double mean = (get(s, a, i * s->n + k) + get(s, a, k * s->n + i)) / 2;
			put(s, to, i * s->n + k, mean);
			put(s, to, k * s->n + i, mean);
		}
}

/* Keeps the lower triangle of A, with DIAGONAL times its diagonal. */
static void keep_lower(const struct squares *s, void *a, double diagonal)
{
	for (int64_t i = 0; i < s->n; i++) {
		put(s, a, i * s->n + i, get(s, a, i * s->n + i) * diagonal);
		memset(element_of(a, s->size, i * s->n + i + 1), 0, (size_t)(s->n - 1 - i) * s->size);
	}
}

FORWARD(cholesky)
{
	const struct squares s = squares_of(call, call->v);
	for (int64_t i = 0; i < s.count; i++) {
		void *const to = element_of(y, s.size, i * s.square);
		int info;
		symmetrize(&s, to, element_at(v, s.size, i * s.square));
		s.lapack->potrf("U", &s.n, to, &s.n, &info, 1); /* by columns the lower triangle is the upper one */
		if (info)
			fill_nan(&s, to);
		keep_lower(&s, to, 1);
	}
}

/* dv = (s + s') / 2, s = y'^-1 P y^-1, P the lower triangle of y' g with half of its diagonal */
VJP(cholesky)
{
	const struct squares s = squares_of(call, call->v);
	void *const lower = scratch_matrix(call, call->v, 1);
	for (int64_t i = 0; dv && i < s.count; i++) {
		const void *const l = element_at(needs[2], s.size, i * s.square);
		void *const to = element_of(dv, s.size, i * s.square);
		int info;
		memcpy(lower, element_at(g, s.size, i * s.square), (size_t)s.square * s.size);
		keep_lower(&s, lower, 1);
		multiply_squares(&s, to, (struct factor){.data = writable(l), .transposed = true},
		                 (struct factor){.data = lower});
		keep_lower(&s, to, 0.5);
		/* By columns: TO is P', l is y', upper. P' becomes y^-1' P', then its transpose P y^-1, and that y'^-1 P y^-1. */
		s.lapack->trtrs("U", "N", "N", &s.n, &s.n, l, &s.n, to, &s.n, &info, 1, 1, 1);
		transpose_matrix(&s, s.work, to, s.n, s.n);
		s.lapack->trtrs("U", "N", "N", &s.n, &s.n, l, &s.n, s.work, &s.n, &info, 1, 1, 1);
		symmetrize(&s, to, s.work);
	}
}
