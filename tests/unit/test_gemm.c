/*
 * Matrix products by our own kernel on every instruction set, and by OpenBLAS if it is
 * installed, against sums in long double. The cases have values in C, NaN, infinities and
 * leading dimensions. The bits of a block must not depend on its neighbours.
 */
#include "ops/kernels.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/arena.h"
#include "ops/general.h"
#include "suite.h"

static double noise(uint64_t *state)
{
	*state = *state * 6364136223846793005U + 1442695040888963407U;
	return (double)(*state >> 33) / 0x1p30 - 1;
}

/* One way to compute a product: the loops of a table, or gemm() if it is NULL. */
struct way {
	const struct kernels *own;
	enum dtype dtype;
};

static void multiply(const struct way *way, const struct product *product)
{
	if (way->own)
		way->own->loops->gemm(product, false);
	else
		gemm(way->dtype, product);
}

static double get(enum dtype dtype, const void *array, int64_t i)
{
	return dtype == DTYPE_F64 ? ((const double *)array)[i] : (double)((const float *)array)[i];
}

static void set(enum dtype dtype, void *array, int64_t i, double x)
{
	if (dtype == DTYPE_F64)
		((double *)array)[i] = x;
	else
		((float *)array)[i] = (float)x;
}

/* Transposed factors or not, C accumulated or not. Rows of A, B and C are longer than their contents. */
static void check_product(const struct way *way, int64_t m, int64_t n, int64_t k, int64_t more)
{
	const double epsilon = way->dtype == DTYPE_F64 ? DBL_EPSILON : (double)FLT_EPSILON;
	for (int form = 0; form < 8; form++) {
		const bool ta = form & 1, tb = form & 2, add = form & 4;
		const int64_t lda = (ta ? m : k) + more, ldb = (tb ? k : n) + more, ldc = n + more;
		const int64_t sa = (ta ? k : m) * lda, sb = (tb ? n : k) * ldb, sc = m * ldc;
		const size_t size = way->dtype == DTYPE_F64 ? 8 : 4;
		void *a = malloc((size_t)sa * size + 1), *b = malloc((size_t)sb * size + 1), *c = malloc((size_t)sc * size + 1);
		uint64_t seed = 3;
		for (int64_t i = 0; i < sa; i++)
			set(way->dtype, a, i, noise(&seed));
		for (int64_t i = 0; i < sb; i++)
			set(way->dtype, b, i, noise(&seed));
		for (int64_t i = 0; i < sc; i++)
			set(way->dtype, c, i, add || i % ldc >= n ? 0.5 : (double)NAN);
		multiply(way, &(struct product){m, n, k, {a, lda, ta}, {b, ldb, tb}, c, ldc, .accumulate = add});
		for (int64_t i = 0; i < m; i++) {
			for (int64_t j = 0; j < n; j++) {
				long double sum = add ? 0.5L : 0;
				for (int64_t p = 0; p < k; p++)
					sum += (long double)get(way->dtype, a, ta ? p * lda + i : i * lda + p) *
					       (long double)get(way->dtype, b, tb ? j * ldb + p : p * ldb + j);
				const double got = get(way->dtype, c, i * ldc + j);
				ck_assert_msg(fabs(got - (double)sum) <= epsilon * (double)(k + 4),
				              "%s %ld x %ld x %ld form %d: [%ld,%ld] %g, not %g",
				              way->own ? way->own->isa : blas_name(), (long)m, (long)n, (long)k, form, (long)i, (long)j,
				              got, (double)sum);
			}
			for (int64_t j = n; j < ldc && i + 1 < m; j++)
				ck_assert_double_eq(get(way->dtype, c, i * ldc + j), 0.5);
		}
		free(a);
		free(b);
		free(c);
	}
}

/* Stores the ways of this machine: our own kernel on each instruction set, and gemm(). */
static size_t ways_of(struct way ways[10], bool blas)
{
	size_t count = 0;
	for (int type = 0; type < 2; type++) {
		const enum dtype dtype = type ? DTYPE_F64 : DTYPE_F32;
		const struct kernels *tables[4];
		const size_t sets = kernels_all(dtype, tables);
		for (size_t i = 0; i < sets && !blas; i++)
			ways[count++] = (struct way){tables[i], dtype};
		ways[count++] = (struct way){NULL, dtype};
	}
	return count;
}

static void load(struct arena *arena)
{
	struct diags diags;
	setenv("CKPTC_BLAS", "openblas", 1);
	arena_init(arena, &allocator_system);
	diags_init(&diags, arena);
	ck_assert_int_eq(blas_load(LIBRARY_PRODUCTS, 1, &diags), STATUS_OK);
}

/* The rows of the last two are whole pages, so they are packed. */
START_TEST(test_products)
{
	static const int64_t sizes[][3] = {{1, 1, 1},    {2, 3, 4},   {12, 32, 7},    {13, 33, 300}, {25, 70, 257},
	                                   {130, 5, 9},  {1, 90, 40}, {90, 1, 40},    {1, 1, 1000},  {5, 400, 3},
	                                   {300, 20, 2}, {7, 9, 0},   {0, 5, 3},      {3, 0, 5},     {1, 3000, 5},
	                                   {6, 16, 600}, {4, 8, 1},   {14, 33, 1024}, {130, 17, 512}};
	struct way ways[10];
	struct arena arena;
	if (_i)
		load(&arena);
	const size_t count = ways_of(ways, _i != 0);
	for (size_t w = 0; w < count; w++)
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			/* only gemm() is called for products without elements */
			if (ways[w].own && sizes[i][0] * sizes[i][1] * sizes[i][2] == 0)
				continue;
			check_product(&ways[w], sizes[i][0], sizes[i][1], sizes[i][2], 0);
			check_product(&ways[w], sizes[i][0], sizes[i][1], sizes[i][2], 3);
		}
	if (_i)
		arena_free(&arena);
}
END_TEST

/* A B that is packed before gives the bits of one that the product packs, more than once. */
START_TEST(test_packed_before)
{
	static const int64_t sizes[][3] = {{1, 1, 1},   {13, 33, 300},  {25, 70, 257},
	                                   {130, 5, 9}, {300, 700, 20}, {40, 2600, 600}};
	struct way ways[10];
	const size_t count = ways_of(ways, false);
	uint64_t seed = 7;
	for (size_t w = 0; w < count; w++)
		for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes && ways[w].own; i++) {
			const int64_t m = sizes[i / 2][0], n = sizes[i / 2][1], k = sizes[i / 2][2];
			const size_t size = dtype_size(ways[w].dtype);
			const bool transposed = i % 2;
			char *const arrays[] = {malloc((size_t)(m * k) * size), malloc((size_t)(k * n) * size),
			                        malloc((size_t)(m * n) * size), malloc((size_t)(m * n) * size),
			                        malloc((size_t)product_panel(k, n, size) * size)};
			for (int64_t j = 0; j < m * k; j++)
				set(ways[w].dtype, arrays[0], j, noise(&seed));
			for (int64_t j = 0; j < k * n; j++)
				set(ways[w].dtype, arrays[1], j, noise(&seed));
			struct product product = {.m = m,
			                          .n = n,
			                          .k = k,
			                          .a = {arrays[0], k, false},
			                          .b = {arrays[1], transposed ? k : n, transposed},
			                          .ldc = n};
			product.c = arrays[2];
			ways[w].own->loops->gemm(&product, true);
			ways[w].own->loops->gemm_pack(arrays[4], &product.b, k, n);
			product.b = (struct factor){arrays[4], 0, false};
			for (int time = 0; time < 2; time++) {
				memset(arrays[3], 0xff, (size_t)(m * n) * size);
				product.c = arrays[3];
				ways[w].own->loops->gemm(&product, true);
				ck_assert_msg(!memcmp(arrays[2], arrays[3], (size_t)(m * n) * size), "%s %ld x %ld x %ld",
				              ways[w].own->isa, (long)m, (long)n, (long)k);
			}
			for (size_t j = 0; j < sizeof arrays / sizeof *arrays; j++)
				free(arrays[j]);
		}
}
END_TEST

/* A product that subtracts a row, and multiplies, gives the bits of these operations after the product. */
START_TEST(test_lessened)
{
	static const int64_t sizes[][3] = {{1, 1, 1},   {13, 33, 300},  {25, 70, 257},  {24, 64, 64},
	                                   {130, 5, 9}, {300, 700, 20}, {40, 2600, 600}};
	struct way ways[10];
	const size_t count = ways_of(ways, false);
	uint64_t seed = 11;
	for (size_t w = 0; w < count; w++)
		for (size_t i = 0; i < 4 * (sizeof sizes / sizeof *sizes) && ways[w].own; i++) {
			const int64_t m = sizes[i / 4][0], n = sizes[i / 4][1], k = sizes[i / 4][2], ldc = n + 3;
			const enum dtype dtype = ways[w].dtype;
			const size_t size = dtype_size(dtype);
			const bool add = i & 1, multiplies = i & 2;
			const int64_t counts[] = {m * k, k * n, n, m * ldc, m * ldc};
			void *arrays[5], *const wanted = malloc((size_t)(m * ldc) * size);
			for (size_t j = 0; j < 5; j++) {
				arrays[j] = malloc((size_t)counts[j] * size);
				for (int64_t e = 0; e < counts[j]; e++)
					set(dtype, arrays[j], e, noise(&seed));
			}
			struct product product = {
				m, n, k, {arrays[0], k, false}, {arrays[1], n, false}, wanted, ldc, .accumulate = add};
			memcpy(wanted, arrays[4], (size_t)(m * ldc) * size);
			ways[w].own->loops->gemm(&product, true);
			for (int64_t e = 0; e < m * ldc; e++) {
				const double less = e % ldc < n ? get(dtype, arrays[2], e % ldc) : 0, x = get(dtype, wanted, e) - less;
				const double rounded = dtype == DTYPE_F32 ? (double)(float)x : x;
				set(dtype, wanted, e, e % ldc < n && multiplies ? rounded * get(dtype, arrays[3], e) : rounded);
			}
			product.c = arrays[4];
			product.less = arrays[2];
			product.times = multiplies ? arrays[3] : NULL;
			ways[w].own->loops->gemm(&product, true);
			ck_assert_msg(!memcmp(wanted, arrays[4], (size_t)(m * ldc) * size), "%s %ld x %ld x %ld", ways[w].own->isa,
			              (long)m, (long)n, (long)k);
			for (size_t j = 0; j < 5; j++)
				free(arrays[j]);
			free(wanted);
		}
}
END_TEST

/* A NaN, or an infinity times 0, gives NaN in its row and column alone. */
START_TEST(test_special_values)
{
	struct way ways[10];
	struct arena arena;
	if (_i)
		load(&arena);
	const size_t count = ways_of(ways, _i != 0);
	static const int64_t sizes[][2] = {{20, 40}, {1, 40}, {20, 1}};
	for (size_t w = 0; w < count; w++)
		for (int s = 0; s < 3; s++) {
			enum { K = 30 };
			const enum dtype dtype = ways[w].dtype;
			const int64_t m = sizes[s][0], n = sizes[s][1];
			double a[20 * K] = {0}, b[K * 40] = {0}, c[20 * 40];
			memset(c, 0xff, sizeof c);
			set(dtype, a, (m - 1) * K + 5, (double)NAN);
			set(dtype, b, 7 * n, (double)INFINITY);
			multiply(&ways[w], &(struct product){m, n, K, {a, K, false}, {b, n, false}, c, n, .accumulate = false});
			for (int64_t i = 0; i < m; i++)
				for (int64_t j = 0; j < n; j++)
					ck_assert_msg(!isnan(get(dtype, c, i * n + j)) == (i != m - 1 && j != 0),
					              "%s: [%ld,%ld] of %ld x %ld is %g", ways[w].own ? ways[w].own->isa : blas_name(),
					              (long)i, (long)j, (long)m, (long)n, get(dtype, c, i * n + j));
		}
	if (_i)
		arena_free(&arena);
}
END_TEST

/* By our own kernel, elements have the same bits in a smaller product of two or more rows and columns. */
START_TEST(test_place)
{
	enum { M = 40, N = 90, K = 300 };
	static double a[M * K], b[K * N], whole[M * N], part[M * N];
	struct way ways[10];
	const size_t count = ways_of(ways, false);
	for (size_t w = 0; w < count; w++) {
		const enum dtype dtype = ways[w].dtype;
		const size_t size = dtype == DTYPE_F64 ? 8 : 4;
		uint64_t seed = 1;
		if (!ways[w].own)
			continue;
		for (int i = 0; i < M * K; i++)
			set(dtype, a, i, noise(&seed));
		for (int i = 0; i < K * N; i++)
			set(dtype, b, i, noise(&seed));
		multiply(&ways[w], &(struct product){M, N, K, {a, K, false}, {b, N, false}, whole, N, .accumulate = false});
		for (int row = 0; row + 2 <= M; row += 7) {
			const struct factor rows = {(char *)a + (size_t)(row * K) * size, K, false};
			const struct factor columns = {(char *)b + (size_t)row * size, N, false};
			multiply(&ways[w], &(struct product){2, N - row, K, rows, columns, part, N, .accumulate = false});
			for (int i = 0; i < 2; i++)
				ck_assert_mem_eq((char *)part + (size_t)(i * N) * size,
				                 (char *)whole + (size_t)((row + i) * N + row) * size, (size_t)(N - row) * size);
		}
	}
}
END_TEST

/* The first columns of each block, fewer the earlier it is. */
static int64_t some_columns(void *context, int64_t first, int64_t count)
{
	(void)context;
	return 20 + first + count;
}

/* Notes that DONE was called for all rows up to a block's end. */
static void note_rows(void *context, int64_t first, int64_t count)
{
	int64_t *rows = context;
	ck_assert_int_eq(first, *rows);
	*rows += count;
}

/* A product in blocks of rows has the bits of the whole one in the columns that are wanted, and writes no others. */
START_TEST(test_blocks)
{
	enum { M = 40, N = 60, MOST_K = 300 };
	static double a[M * MOST_K], b[MOST_K * N], whole[M * N], part[M * N], untouched[M * N];
	static const int64_t depths[] = {16, MOST_K};
	struct way ways[10];
	const size_t count = ways_of(ways, false);
	memset(untouched, 0x11, sizeof untouched);
	for (size_t w = 0; w < 2 * count; w++) {
		const struct way *way = &ways[w / 2];
		const int64_t k = depths[w % 2];
		const size_t size = way->dtype == DTYPE_F64 ? 8 : 4;
		uint64_t seed = 1;
		int64_t rows = 0;
		if (!way->own)
			continue;
		for (int64_t i = 0; i < M * k; i++)
			set(way->dtype, a, i, noise(&seed));
		for (int64_t i = 0; i < k * N; i++)
			set(way->dtype, b, i, noise(&seed));
		struct product product = {M, N, k, {a, k, false}, {b, N, false}, whole, N, .accumulate = false};
		multiply(way, &product);
		product.c = memcpy(part, untouched, sizeof part);
		way->own->loops->gemm_blocks(&product, &(struct row_blocks){12, some_columns, note_rows, &rows});
		ck_assert_int_eq(rows, M);
		for (int64_t i = 0; i < M; i++) {
			const int64_t end = i / 12 * 12 + 12, columns = 20 + (end < M ? end : M);
			const size_t at = (size_t)(i * N) * size, wanted = (size_t)columns * size;
			ck_assert_mem_eq((char *)part + at, (char *)whole + at, wanted);
			ck_assert_mem_eq((char *)part + at + wanted, (char *)untouched + at + wanted, (size_t)N * size - wanted);
		}
	}
}
END_TEST

/*
 * Zeros of both signs in A (sides 0 to 3) or B (4 to 7): below the diagonal, above it, outside a band, and all but some
 * whole lines. A sparse product has the bits of any other, also where a NaN or an infinity in the other factor meets them.
 */
static bool is_hidden(int kind, int line, int p)
{
	const int diagonal = 4 * line;
	switch (kind) {
	case 0:
		return p > diagonal;
	case 1:
		return p < diagonal;
	case 2:
		return p > diagonal + 20 || p + 20 < diagonal;
	default:
		return line % 40 < 24;
	}
}

static void check_sparse(const struct way *way, int side, int form, double other)
{
	enum { M = 70, N = 75, K = 300 };
	static double a[M * K], b[K * N], some[M * N], all[M * N];
	const enum dtype dtype = way->dtype;
	const bool ta = form & 1, tb = form & 2;
	uint64_t seed = 1;
	for (int i = 0; i < M; i++)
		for (int p = 0; p < K; p++) {
			const bool zero = side < 4 && is_hidden(side, i, p);
			set(dtype, a, ta ? p * M + i : i * K + p, zero ? (p % 2 ? 0.0 : -0.0) : noise(&seed));
		}
	for (int p = 0; p < K; p++)
		for (int j = 0; j < N; j++) {
			const bool zero = side >= 4 && is_hidden(side - 4, j, p);
			set(dtype, b, tb ? j * K + p : p * N + j, zero ? (p % 2 ? 0.0 : -0.0) : noise(&seed));
		}
	if (side < 4)
		set(dtype, b, tb ? 7 * K + 150 : 150 * N + 7, other);
	else
		set(dtype, a, ta ? 150 * M + 7 : 7 * K + 150, other);
	struct product product = {M, N, K, {a, ta ? M : K, ta}, {b, tb ? K : N, tb}, some, N, .sparse = true};
	multiply(way, &product);
	product.sparse = false;
	product.c = all;
	multiply(way, &product);
	ck_assert_mem_eq(some, all, M * N * (dtype == DTYPE_F64 ? 8 : 4));
}

START_TEST(test_sparse)
{
	struct way ways[10];
	const size_t count = ways_of(ways, false);
	for (size_t w = 0; w < count; w++)
		for (int side = 0; side < 8; side++)
			for (int form = 0; form < 4; form++) {
				check_sparse(&ways[w], side, form, 0.5);
				check_sparse(&ways[w], side, form, (double)NAN);
				check_sparse(&ways[w], side, form, (double)-INFINITY);
			}
}
END_TEST

/* The matrix to which pieces go, and how often each of its elements was in one. */
struct collected {
	enum dtype dtype;
	double *sums;
	int *times;
	void *added; /* the matrix to which pieces are added in place, or NULL */
};

static void *place(void *context, const struct matrix_piece *piece)
{
	const struct collected *to = context;
	ck_assert_ptr_null(piece->data);
	return to->added;
}

static void collect(void *context, const struct matrix_piece *piece)
{
	const struct collected *to = context;
	for (int64_t r = 0; r < piece->rows; r++)
		for (int64_t c = 0; c < piece->columns; c++) {
			const int64_t at = piece->first + r * piece->width + c;
			if (to->added)
				ck_assert_ptr_null(piece->data);
			else
				to->sums[at] = get(to->dtype, piece->data, r * piece->columns + c);
			to->times[at]++;
		}
}

/* A product V op W of M rows, with W of [K, N], in the order that OP wants. */
static void check_pieces(enum op op, enum dtype dtype, int64_t m, int64_t n, int64_t k)
{
	const bool dot = op == OP_dot, linear = op == OP_linear;
	const struct type v = {dtype, {2, {dot ? k : m, dot ? m : k}}}, y = {dtype, {2, {dot ? n : m, dot ? m : n}}};
	const struct type a = {dtype, {2, {dot || linear ? n : k, dot || linear ? k : n}}};
	const int64_t counts[] = {m * k, k * n, m * n};
	const size_t size = dtype_size(dtype);
	void *arrays[3], *scratch = aligned_alloc(64, ((size_t)product_piece_bytes(&a) + 63) / 64 * 64 + 64);
	struct collected to = {dtype, calloc((size_t)counts[1] + 1, sizeof(double)),
	                       calloc((size_t)counts[1] + 1, sizeof(int)), NULL};
	void *const added = calloc((size_t)counts[1] + 1, size);
	uint64_t state = 5;
	for (int i = 0; i < 3; i++) {
		arrays[i] = malloc((size_t)counts[i] * size + 1);
		for (int64_t j = 0; j < counts[i]; j++)
			set(dtype, arrays[i], j, noise(&state));
	}
	const struct op_call call = {
		.op = op, .v = &v, .a = &a, .y = &y, .scratch = scratch, .kernels = kernels_get(dtype)};
	for (int64_t j = 0; j < counts[1]; j++)
		set(dtype, added, j, (double)NAN);
	ck_assert(product_in_pieces(op, &v, &a));
	ck_assert_int_eq(product_depth(op, &v, &a), m);
	product_pieces(&call, arrays[2], (const void *const[MAX_NEEDS]){arrays[0]},
	               &(struct piece_user){.end = collect, .context = &to});
	to.added = added; /* which is first written, then added to, in pieces of another size */
	for (int i = 0; i < 2; i++)
		product_pieces(&call, arrays[2], (const void *const[MAX_NEEDS]){arrays[0]},
		               &(struct piece_user){place, collect, &to, .new = i == 0, .large = i == 1});
	for (int64_t i = 0; i < k * n; i++) {
		const int64_t row = i / a.shape.dim[1], column = i % a.shape.dim[1];
		const int64_t in = dot || linear ? column : row, out = dot || linear ? row : column;
		long double sum = 0;
		for (int64_t j = 0; j < m; j++)
			sum += (long double)get(dtype, arrays[0], dot ? in * m + j : j * k + in) *
			       get(dtype, arrays[2], dot ? out * m + j : j * n + out);
		const double most = (double)m * (double)m * (dtype == DTYPE_F64 ? DBL_EPSILON : FLT_EPSILON);
		ck_assert_msg(fabsl(to.sums[i] - sum) <= most, "%s, %lld: %g, not %Lg", op_table[op].name, (long long)i,
		              to.sums[i], sum);
		ck_assert_msg(fabsl(get(dtype, added, i) - 2 * sum) <= 2 * most, "%s, %lld: %g added twice, not %Lg",
		              op_table[op].name, (long long)i, get(dtype, added, i), 2 * sum);
		ck_assert_int_eq(to.times[i], 3);
	}
	for (int i = 0; i < 3; i++)
		free(arrays[i]);
	free(scratch);
	free(to.sums);
	free(to.times);
	free(added);
}

/* The derivative by W comes in pieces that cover it once, whatever its extents, apart or in place. */
START_TEST(test_pieces)
{
	static const int64_t sizes[][3] = {{3, 5, 7},      {1, 1, 1},     {4, 1, 900},   {4, 900, 1},
	                                   {2, 1000, 300}, {7, 300, 700}, {0, 20, 30},   {5, 40, 0},
	                                   {1, 70000, 1},  {2, 1, 70000}, {2, 1500, 700}};
	static const enum op ops[] = {OP_matmul, OP_linear, OP_dot};
	struct arena arena;
	if (_i)
		load(&arena);
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (size_t o = 0; o < 3; o++)
			for (int type = 0; type < 2; type++)
				check_pieces(ops[o], type ? DTYPE_F64 : DTYPE_F32, sizes[i][0], sizes[i][1], sizes[i][2]);
	if (_i)
		arena_free(&arena);
}
END_TEST

/* A matrix of COLUMNS elements of SIZE bytes, as a product's operand_rows; it fails at row FAILS. */
struct matrix {
	const char *data;
	int64_t columns, fails;
	size_t size;
	_Atomic int64_t elements; /* read or written so far */
	char *to;
};

static bool read_matrix(void *context, const struct operand_part *part, void *to)
{
	struct matrix *m = context;
	for (int64_t i = 0; i < part->count; i++)
		memcpy((char *)to + (size_t)(i * part->pitch) * m->size,
		       m->data + (size_t)((part->row + i) * m->columns + part->column) * m->size,
		       (size_t)part->length * m->size);
	m->elements += part->count * part->length;
	return m->fails < part->row || m->fails >= part->row + part->count;
}

/* The derivative by a matrix, whose rows are written to TO. */
static bool write_matrix(void *context, const struct operand_part *part, const void *from)
{
	struct matrix *m = context;
	ck_assert(part->column == 0 && part->length == m->columns && part->pitch == m->columns);
	memcpy(m->to + (size_t)(part->row * m->columns) * m->size, from, (size_t)(part->count * m->columns) * m->size);
	m->elements += part->count * part->length;
	return m->fails < part->row || m->fails >= part->row + part->count;
}

/* The derivatives of CALL, of V by the rows of OPERAND or by W, have the same bits. V, W and G are its arrays. */
static void check_back(const struct op_call *call, const void *const arrays[3], struct operand_rows *operand)
{
	struct matrix *matrix = operand->context;
	const size_t v_bytes = (size_t)type_bytes(call->v), a_bytes = (size_t)type_bytes(call->a);
	char *dv = malloc(v_bytes), *da = malloc(a_bytes), *have = malloc(v_bytes);
	matrix->to = malloc(a_bytes);
	matrix->elements = 0;
	matrix->fails = -1;
	op_vjp_get(call->op)(call, dv, da, arrays[2], (const void *const[MAX_NEEDS]){arrays[0], arrays[1]});
	memset(have, 0xff, v_bytes);
	memset(matrix->to, 0xff, a_bytes);
	ck_assert(product_back_by_rows(call, have, arrays[0], arrays[2], operand));
	ck_assert(!memcmp(have, dv, v_bytes));
	ck_assert(!memcmp(matrix->to, da, a_bytes));
	ck_assert_int_eq(matrix->elements, 2 * shape_count(&call->a->shape));
	memset(matrix->to, 0xff, a_bytes);
	ck_assert(product_back_by_rows(call, NULL, arrays[0], arrays[2], operand));
	ck_assert(!memcmp(matrix->to, da, a_bytes));
	operand->write = NULL;
	memset(have, 0xff, v_bytes);
	ck_assert(product_back_by_rows(call, have, arrays[0], arrays[2], operand));
	ck_assert(!memcmp(have, dv, v_bytes));
	ck_assert_int_eq(matrix->elements, 4 * shape_count(&call->a->shape));
	matrix->fails = 1;
	ck_assert(!product_back_by_rows(call, have, arrays[0], arrays[2], operand));
	operand->write = write_matrix;
	ck_assert(!product_back_by_rows(call, NULL, arrays[0], arrays[2], operand));
	free(dv), free(da), free(have), free(matrix->to);
}

/* A product by a matrix whose rows are read has the bits of that by one in memory. Returns false if it is not computed. */
static bool check_rows(enum op op, enum dtype dtype, const int64_t sizes[3], int members)
{
	const size_t size = dtype == DTYPE_F64 ? 8 : 4;
	const int64_t rows = sizes[0], k = op == OP_linear ? sizes[2] : sizes[1], n = op == OP_linear ? sizes[1] : sizes[2];
	const struct type v = {dtype, {2, {rows, k}}}, a = {dtype, {2, {sizes[1], sizes[2]}}}, y = {dtype, {2, {rows, n}}};
	struct team *team;
	struct diags diags;
	ck_assert_int_eq(team_open(&team, members, 0, &allocator_system, &diags), STATUS_OK);
	const int64_t forward = product_rows_bytes(op, PART_RESULT, &v, &a, members);
	const int64_t back = product_rows_bytes(op, PART_LEFT, &v, &a, members), block = back > forward ? back : forward;
	if (!forward) {
		team_close(team);
		return false;
	}
	ck_assert_int_le(block, type_bytes(&a) / 4);
	char *x = malloc((size_t)type_bytes(&v)), *w = malloc((size_t)type_bytes(&a)),
		 *blocks = malloc((size_t)(block * members));
	char *want = malloc((size_t)type_bytes(&y)), *have = malloc((size_t)type_bytes(&y));
	uint64_t seed = 5;
	for (int64_t i = 0; i < rows * k; i++)
		set(dtype, x, i, noise(&seed));
	for (int64_t i = 0; i < sizes[1] * sizes[2]; i++)
		set(dtype, w, i, noise(&seed));
	memset(have, 0xff, (size_t)type_bytes(&y));
	const struct op_call call = {.op = op, .v = &v, .a = &a, .y = &y, .kernels = kernels_get(dtype), .team = team};
	op_forward_get(op)(&call, want, x, w, NULL);
	struct matrix matrix = {w, sizes[2], -1, size, 0, NULL};
	struct operand_rows operand = {.read = read_matrix,
	                               .write = write_matrix,
	                               .context = &matrix,
	                               .blocks = blocks,
	                               .bytes = block,
	                               .threads = members};
	ck_assert(product_from_rows(&call, have, x, &operand));
	ck_assert_msg(!memcmp(have, want, (size_t)type_bytes(&y)), "op %d, dtype %d, %ld rows by %ld x %ld", (int)op,
	              (int)dtype, (long)rows, (long)sizes[1], (long)sizes[2]);
	ck_assert_int_eq(matrix.elements, sizes[1] * sizes[2]);
	matrix.fails = sizes[1] - 1;
	ck_assert(!product_from_rows(&call, have, x, &operand));
	if (back)
		check_back(&call, (const void *const[3]){x, w, want}, &operand);
	free(x), free(w), free(blocks), free(want), free(have);
	team_close(team);
	return true;
}

START_TEST(test_rows)
{
	static const int64_t sizes[][3] = {{64, 1024, 1000},  {1, 2048, 1030}, {7, 4100, 833}, {3, 1281, 5000},
	                                   {1100, 1025, 770}, {13, 9000, 129}, {2, 70000, 20}};
	setenv("CKPTC_BLAS", "none", 1);
	int checked = 0;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
		for (int form = 0; form < 4; form++)
			checked += check_rows(form & 1 ? OP_linear : OP_matmul, form & 2 ? DTYPE_F64 : DTYPE_F32, sizes[i],
			                      1 + (int)(i + (size_t)form) % 3);
	ck_assert_int_ge(checked, 16);
}
END_TEST

/* No rows are read for a dot, a stack of matrices, few rows, or one row alone in the last block. */
START_TEST(test_rows_refused)
{
	const struct type v = {DTYPE_F32, {2, {8, 4096}}}, w = {DTYPE_F32, {2, {4096, 4096}}};
	const struct type few = {DTYPE_F32, {2, {512, 4096}}}, odd = {DTYPE_F32, {2, {4097, 4096}}};
	const struct type stack = {DTYPE_F32, {3, {2, 4096, 4096}}}, vector = {DTYPE_F32, {1, {4096}}};
	setenv("CKPTC_BLAS", "none", 1);
	ck_assert_int_gt(product_rows_bytes(OP_linear, PART_RESULT, &v, &w, 2), 0);
	ck_assert_int_eq(product_rows_bytes(OP_dot, PART_RESULT, &v, &w, 2), 0);
	ck_assert_int_eq(product_rows_bytes(OP_matmul, PART_RESULT, &v, &stack, 2), 0);
	ck_assert_int_eq(product_rows_bytes(OP_matmul, PART_RESULT, &v, &vector, 2), 0);
	ck_assert_int_eq(product_rows_bytes(OP_linear, PART_RESULT, &v, &few, 2), 0);
	ck_assert_int_eq(product_rows_bytes(OP_linear, PART_RESULT, &v, &odd, 2), 0);
}
END_TEST

#if !defined(__SANITIZE_ADDRESS__) /* its own mappings exceed any limit */
/* With a limit our own product serves. If CKPTC_BLAS wants OpenBLAS and its buffers cannot be mapped, that fails. */
#if !defined(__SANITIZE_ADDRESS__) /* its own mappings exceed any limit */
START_TEST(test_no_room)
{
	struct arena arena;
	struct diags diags;
	const struct rlimit limit = {100 << 20, 100 << 20};
	arena_init(&arena, &allocator_system);
	diags_init(&diags, &arena);
	if (_i == 2)
		unsetenv("CKPTC_BLAS");
	else
		setenv("CKPTC_BLAS", _i ? "openblas" : "none", 1);
	ck_assert_int_eq(setrlimit(RLIMIT_AS, &limit), 0);
	const enum status status = blas_load(LIBRARY_PRODUCTS, 1, &diags);
	if (_i == 1 && status != STATUS_OK) {
		ck_assert_int_eq(status, STATUS_LIMIT);
		ck_assert_ptr_nonnull(strstr(diags.first->message, "OpenBLAS"));
		ck_assert_ptr_nonnull(strstr(diags.first->hint, "CKPTC_BLAS=openblas asks for it"));
		ck_assert_int_eq(blas_load(LIBRARY_PRODUCTS, 1, &diags), STATUS_LIMIT);
	} else {
		ck_assert_int_eq(status, STATUS_OK);
	}
	ck_assert_str_eq(blas_name(), "own");
	check_product(&(struct way){NULL, DTYPE_F32}, 5, 6, 7, 0);
	arena_free(&arena);
}
END_TEST
#endif
#endif

int main(void)
{
	Suite *suite = suite_create("gemm");
	TCase *tests = suite_make_case(suite, "gemm");
	tcase_set_timeout(tests, 120);
	tcase_add_loop_test(tests, test_products, 0, 2);
	tcase_add_loop_test(tests, test_special_values, 0, 2);
	tcase_add_test(tests, test_place);
	tcase_add_test(tests, test_blocks);
	tcase_add_test(tests, test_packed_before);
	tcase_add_test(tests, test_lessened);
	tcase_add_test(tests, test_sparse);
	tcase_add_loop_test(tests, test_pieces, 0, 2);
	tcase_add_test(tests, test_rows);
	tcase_add_test(tests, test_rows_refused);
#if !defined(__SANITIZE_ADDRESS__)
	tcase_add_loop_test(tests, test_no_room, 0, 3);
#endif
	return suite_run(suite);
}
