/*
 * Our own matrix product, for one type of one instruction set; included by
 * loops_template.h.
 *
 * The blocking is Goto's (Goto and van de Geijn 2008, "Anatomy of
 * high-performance matrix multiplication"): a panel of B, PACK_K by PACK_N, is
 * packed so that the micro-kernel reads it in order; so is a block of A, PACK_M
 * by PACK_K, where enough columns share that work or its rows would fall into one
 * set of the cache; else A is read where it lies. The kernel keeps GEMM_ROWS by
 * two vectors of C in registers. Edges are packed with zeros, and the part of C
 * that is not there is not written.
 * An element of C is one chain over k, added to C every PACK_K: its bits do not
 * depend on where it stands in the matrix. C is not read unless ACCUMULATE.
 *
 * The packed blocks are on the stack (under 600 KiB): nothing is allocated.
 */
#ifndef GEMM_TEMPLATE_ONCE
#define GEMM_TEMPLATE_ONCE
enum { PACK_K = 256, PACK_A_BYTES = 128 << 10, PACK_B_BYTES = 384 << 10 };
#endif
_Static_assert(PRODUCT_STRIPE % GEMM_ROWS == 0, "tiles are cut by PRODUCT_STRIPE rows");

enum {
	N(TILE_M) = GEMM_ROWS,
	N(TILE_N) = 2 * N(LANES),
	N(PACK_M) = PACK_A_BYTES / PACK_K / (int)sizeof(REAL) / N(TILE_M) * N(TILE_M),
	N(PACK_N) = PACK_B_BYTES / PACK_K / (int)sizeof(REAL) / N(TILE_N) * N(TILE_N),
};

/* COUNT elements, at most MOST, and mostly so many: which the compiler then moves by vectors. */
static inline __attribute__((always_inline)) void N(copy)(REAL *restrict to, const REAL *restrict from, int count,
                                                          const int most)
{
	if (count == most)
		for (int i = 0; i < most; i++)
			to[i] = from[i];
	else
		for (int i = 0; i < count; i++)
			to[i] = from[i];
}

/* A[M,K] (element (i, p) at i * ROW + p * COLUMN) as stripes of TILE_M rows, by k. */
static void N(pack_a)(REAL *to, const REAL *a, int64_t row, int64_t column, int64_t m, int64_t k)
{
	for (int64_t i = 0; i < m; i += N(TILE_M)) {
		const int rows = m - i < N(TILE_M) ? (int)(m - i) : N(TILE_M);
		if (rows < N(TILE_M))
			memset(to, 0, sizeof(REAL) * (size_t)(N(TILE_M) * k));
		if (row == 1)
			for (int64_t p = 0; p < k; p++)
				N(copy)(to + p * N(TILE_M), a + p * column + i, rows, N(TILE_M));
		else
			for (int r = 0; r < rows; r++)
				for (int64_t p = 0; p < k; p++)
					to[p * N(TILE_M) + r] = a[(i + r) * row + p * column];
		to += N(TILE_M) * k;
	}
}

/* COLUMNS columns of B, each of K elements one after another, as a stripe. */
static void N(pack_columns)(REAL *to, const REAL *b, int64_t column, int columns, int64_t k)
{
	const int squares = columns / N(LANES) * N(LANES);
	const int64_t depth = k / N(LANES) * N(LANES);
	for (int c = 0; c < squares; c += N(LANES))
		for (int64_t p = 0; p < depth; p += N(LANES))
			N(transpose_square)(to + p * N(TILE_N) + c, N(TILE_N), b + c * column + p, column);
	for (int c = 0; c < columns; c++)
		for (int64_t p = c < squares ? depth : 0; p < k; p++)
			to[p * N(TILE_N) + c] = b[c * column + p];
}

/*
 * B[K,N] as stripes of TILE_N columns, by k; row after row, as it lies in memory. Rows to come are asked for early:
 * weights of several layers are in no near cache when their turn comes.
 */
static void N(pack_b)(REAL *to, const REAL *b, int64_t row, int64_t column, int64_t n, int64_t k)
{
	enum { AHEAD = 32, LINE = 64 / sizeof(REAL) };
	const int last = (int)(n % N(TILE_N));
	if (last > 0)
		memset(to + (n - last) * k, 0, sizeof(REAL) * (size_t)(N(TILE_N) * k));
	if (column != 1) {
		for (int64_t j = 0; j < n; j += N(TILE_N))
			N(pack_columns)(to + j * k, b + j * column, column, n - j < N(TILE_N) ? last : N(TILE_N), k);
		return;
	}
	for (int64_t p = 0; p < k; p++) {
		if (p + AHEAD < k)
			for (int64_t j = 0; j < n; j += LINE)
				__builtin_prefetch(b + (p + AHEAD) * row + j);
		for (int64_t j = 0; j < n; j += N(TILE_N))
			N(copy)(to + j * k + p * N(TILE_N), b + p * row + j, n - j < N(TILE_N) ? last : N(TILE_N), N(TILE_N));
	}
}

/*
 * C[rows,columns] of one tile from a stripe of A, whose element (i, p) is at i * row + p * column, and one of B;
 * of the tile's rows and the two vectors of B only HEIGHT and VECTORS are computed.
 */
static inline __attribute__((always_inline)) void N(tile_of)(REAL *c, int64_t ldc, const REAL *a, const int64_t row,
                                                             const int64_t column, const REAL *b, int64_t k, int rows,
                                                             int columns, bool add, const int height, const int vectors)
{
	N(vector) sum[N(TILE_M)][2];
#pragma GCC unroll 16
	for (int i = 0; i < height; i++)
		sum[i][0] = sum[i][1] = (N(vector)){0};
	for (int64_t p = 0; p < k; p++) {
		const N(vector) b0 = *(const N(loose) *)(b + p * N(TILE_N));
		const N(vector) b1 = *(const N(loose) *)(b + p * N(TILE_N) + N(LANES));
#pragma GCC unroll 16
		for (int i = 0; i < height; i++) {
			const N(vector) x = a[i * row + p * column] - (N(vector)){0};
			sum[i][0] = GEMM_MULTIPLY_ADD(x, b0, sum[i][0]);
			if (vectors > 1)
				sum[i][1] = GEMM_MULTIPLY_ADD(x, b1, sum[i][1]);
		}
	}
	if (rows == height && columns == N(TILE_N)) {
#pragma GCC unroll 16
		for (int i = 0; i < height; i++) {
			N(loose) *to = (N(loose) *)(c + i * ldc);
			if (add) {
				sum[i][0] += to[0];
				sum[i][1] += to[1];
			}
			to[0] = sum[i][0];
			to[1] = sum[i][1];
		}
		return;
	}
	REAL whole[N(TILE_M)][N(TILE_N)];
#pragma GCC unroll 16
	for (int i = 0; i < height; i++) {
		*(N(loose) *)&whole[i][0] = sum[i][0];
		*(N(loose) *)&whole[i][N(LANES)] = sum[i][1];
	}
	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++)
			c[i * ldc + j] = add ? c[i * ldc + j] + whole[i][j] : whole[i][j];
}

/*
 * The tile of a packed stripe: of few columns one vector of each row, else both, of no more thirds of the tile (of four
 * rows: 1, 2, or all) than its rows reach into. And the tile of one whose rows lie as they are, all of them there.
 */
static __attribute__((noinline)) void N(tile_packed)(REAL *c, int64_t ldc, const REAL *a, const REAL *b, int64_t k,
                                                     int rows, int columns, bool add)
{
	enum { THIRD = N(TILE_M) / 3 };
	if (columns <= (int)N(LANES))
		N(tile_of)(c, ldc, a, 1, N(TILE_M), b, k, rows, columns, add, N(TILE_M), 1);
	else if (rows <= THIRD)
		N(tile_of)(c, ldc, a, 1, N(TILE_M), b, k, rows, columns, add, THIRD, 2);
	else if (rows <= 2 * THIRD)
		N(tile_of)(c, ldc, a, 1, N(TILE_M), b, k, rows, columns, add, 2 * THIRD, 2);
	else
		N(tile_of)(c, ldc, a, 1, N(TILE_M), b, k, rows, columns, add, N(TILE_M), 2);
}

static __attribute__((noinline)) void N(tile_in_place)(REAL *c, int64_t ldc, const REAL *a, int64_t row, const REAL *b,
                                                       int64_t k, int columns, bool add)
{
	if (columns > (int)N(LANES))
		N(tile_of)(c, ldc, a, row, 1, b, k, N(TILE_M), columns, add, N(TILE_M), 2);
	else
		N(tile_of)(c, ldc, a, row, 1, b, k, N(TILE_M), columns, add, N(TILE_M), 1);
}

/*
 * How many of a block's rows are read where they lie: packing costs about as much
 * as the product with one stripe of B.
 */
static int64_t N(rows_in_place)(int64_t row, int64_t column, int64_t height, int64_t width)
{
	enum { SHARED = 32, SET_BYTES = 4096 };
	if (column != 1 || row * (int64_t)sizeof(REAL) % SET_BYTES == 0 || width > SHARED * (int64_t)N(TILE_N))
		return 0;
	return height / N(TILE_M) * N(TILE_M);
}

/* C[height,width] from a block of A, which is packed in PACKED, and a packed panel of B, both DEPTH deep. */
static void N(multiply_block)(REAL *c, int64_t ldc, const REAL *a, int64_t row, int64_t column, REAL *packed,
                              const REAL *panel, int64_t height, int64_t width, int64_t depth, bool add)
{
	const int64_t in_place = N(rows_in_place)(row, column, height, width);
	N(pack_a)(packed, a + in_place * row, row, column, height - in_place, depth);
	for (int64_t j = 0; j < width; j += N(TILE_N)) {
		const int columns = width - j < N(TILE_N) ? (int)(width - j) : N(TILE_N);
		const REAL *b = panel + j * depth;
		int64_t i = 0;
		for (; i < in_place; i += N(TILE_M))
			N(tile_in_place)(c + i * ldc + j, ldc, a + i * row, row, b, depth, columns, add);
		for (; i < height; i += N(TILE_M))
			N(tile_packed)(c + i * ldc + j, ldc, packed + (i - in_place) * depth, b, depth,
			               height - i < N(TILE_M) ? (int)(height - i) : N(TILE_M), columns, add);
	}
}

/* A product by strides: element (i, p) of A lies at i * a_row + p * a_column, and B's likewise. */
struct N(strided) {
	int64_t m, n, k;
	const REAL *a;
	int64_t a_row, a_column;
	const REAL *b;
	int64_t b_row, b_column;
	bool accumulate;
	REAL *c;
	int64_t ldc;
};

static void N(multiply_panels)(const struct N(strided) *x, REAL *packed, REAL *panel)
{
	for (int64_t j = 0; j < x->n; j += N(PACK_N)) {
		const int64_t width = x->n - j < N(PACK_N) ? x->n - j : N(PACK_N);
		for (int64_t p = 0; p < x->k; p += PACK_K) {
			const int64_t depth = x->k - p < PACK_K ? x->k - p : PACK_K;
			N(pack_b)(panel, x->b + p * x->b_row + j * x->b_column, x->b_row, x->b_column, width, depth);
			for (int64_t i = 0; i < x->m; i += N(PACK_M))
				N(multiply_block)(x->c + i * x->ldc + j, x->ldc, x->a + i * x->a_row + p * x->a_column, x->a_row,
				                  x->a_column, packed, panel, x->m - i < N(PACK_M) ? x->m - i : N(PACK_M), width, depth,
				                  x->accumulate || p > 0);
		}
	}
}

/* In functions of their own, since each page of a frame is touched on entry (-fstack-clash-protection). */
static __attribute__((noinline)) void N(multiply_large)(const struct N(strided) *x)
{
	_Alignas(64) REAL packed[N(PACK_M) * PACK_K], panel[N(PACK_N) * PACK_K];
	N(multiply_panels)(x, packed, panel);
}

enum { N(LITTLE) = 8192 / (int)sizeof(REAL) };
static __attribute__((noinline)) void N(multiply_little)(const struct N(strided) *x)
{
	_Alignas(64) REAL packed[N(LITTLE)], panel[N(LITTLE)];
	N(multiply_panels)(x, packed, panel);
}

/* Whether EXTENT in stripes of STRIPE, packed DEPTH deep, is little. */
static bool N(fits)(int64_t extent, int64_t stripe, int64_t depth)
{
	return extent <= N(LITTLE) && (extent + stripe - 1) / stripe * stripe * depth <= N(LITTLE);
}

static void N(gemm_packed)(const struct N(strided) *x)
{
	if (x->k <= PACK_K && N(fits)(x->m, N(TILE_M), x->k) && N(fits)(x->n, N(TILE_N), x->k))
		N(multiply_little)(x);
	else
		N(multiply_large)(x);
}

/* y[i * step] = M[i,:] . x (+ y), the rows of M being k long: four vectors of partial sums. */
static void N(dot_rows)(REAL *y, int64_t step, const REAL *matrix, int64_t ld, const REAL *x, int64_t m, int64_t k,
                        bool add)
{
	enum { WIDTH = 4 * N(LANES) };
	for (int64_t i = 0; i < m; i++, matrix += ld) {
		N(vector) sum[4] = {{0}};
		int64_t p = 0;
		for (; p + WIDTH <= k; p += WIDTH)
#pragma GCC unroll 4
			for (int j = 0; j < 4; j++)
				sum[j] = GEMM_MULTIPLY_ADD(*(const N(loose) *)(matrix + p + j * N(LANES)),
				                           *(const N(loose) *)(x + p + j * N(LANES)), sum[j]);
		sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
		REAL total = 0;
		for (int j = 0; j < N(LANES); j++)
			total += sum[0][j];
		for (; p < k; p++)
			total += matrix[p] * x[p];
		y[i * step] = add ? y[i * step] + total : total;
	}
}

/* A vector of which only COUNT elements are there. */
static N(vector) N(part)(const REAL *from, int64_t count)
{
	N(vector) whole = {0};
	memcpy(&whole, from, sizeof(REAL) * (size_t)count);
	return whole;
}

/* to += sum over R < ROWS of x[R * step] * M[R,:], R after R, for WIDTH columns. */
static inline __attribute__((always_inline)) void N(add_some)(REAL *to, const REAL *matrix, int64_t ld, const REAL *x,
                                                              int64_t step, int64_t width, const int rows)
{
	int64_t q = 0;
	for (; q + N(LANES) <= width; q += N(LANES)) {
		N(vector) sum = *(const N(loose) *)(to + q);
#pragma GCC unroll 8
		for (int r = 0; r < rows; r++)
			sum = GEMM_MULTIPLY_ADD(x[r * step] - (N(vector)){0}, *(const N(loose) *)(matrix + r * ld + q), sum);
		*(N(loose) *)(to + q) = sum;
	}
	if (q < width) {
		N(vector) sum = N(part)(to + q, width - q);
		for (int r = 0; r < rows; r++)
			sum = GEMM_MULTIPLY_ADD(x[r * step] - (N(vector)){0}, N(part)(matrix + r * ld + q, width - q), sum);
		memcpy(to + q, &sum, sizeof(REAL) * (size_t)(width - q));
	}
}

/* y = sum over i of x[i * step] * M[i,:] (+ y), the rows of M being n long; by blocks of y that stay in the cache. */
static void N(add_rows)(REAL *y, const REAL *matrix, int64_t ld, const REAL *x, int64_t step, int64_t n, int64_t k,
                        bool add)
{
	enum { BLOCK = 2048, ROWS = 8 };
	for (int64_t j = 0; j < n; j += BLOCK) {
		const int64_t width = n - j < BLOCK ? n - j : BLOCK;
		if (!add)
			memset(y + j, 0, sizeof(REAL) * (size_t)width);
		int64_t i = 0;
		for (; i + ROWS <= k; i += ROWS)
			N(add_some)(y + j, matrix + i * ld + j, ld, x + i * step, step, width, ROWS);
		for (; i < k; i++)
			N(add_some)(y + j, matrix + i * ld + j, ld, x + i * step, step, width, 1);
	}
}

/* Where the elements of a factor lie: (i, p) at i * *ROW + p * *COLUMN. */
static void N(strides_of)(const struct factor *factor, int64_t *row, int64_t *column)
{
	*row = factor->transposed ? 1 : factor->ld;
	*column = factor->transposed ? factor->ld : 1;
}

static struct N(strided) N(strided_of)(const struct product *p)
{
	struct N(strided) x = {.m = p->m,
	                       .n = p->n,
	                       .k = p->k,
	                       .a = p->a.data,
	                       .b = p->b.data,
	                       .accumulate = p->accumulate,
	                       .c = p->c,
	                       .ldc = p->ldc};
	N(strides_of)(&p->a, &x.a_row, &x.a_column);
	N(strides_of)(&p->b, &x.b_row, &x.b_column);
	return x;
}

static void N(gemm_tiles)(const struct product *product)
{
	const struct N(strided) x = N(strided_of)(product);
	N(gemm_packed)(&x);
}

static void N(gemm_own)(const struct product *product)
{
	const struct N(strided) x = N(strided_of)(product);
	if (x.n == 1 && x.a_column == 1 && (x.b_row == 1 || x.k == 1))
		N(dot_rows)(x.c, x.ldc, x.a, x.a_row, x.b, x.m, x.k, x.accumulate);
	else if (x.n == 1 && x.a_row == 1 && x.ldc == 1)
		N(add_rows)(x.c, x.a, x.a_column, x.b, x.b_row, x.m, x.k, x.accumulate);
	else if (x.m == 1 && x.b_row == 1 && (x.a_column == 1 || x.k == 1))
		N(dot_rows)(x.c, 1, x.b, x.b_column, x.a, x.n, x.k, x.accumulate);
	else if (x.m == 1 && x.b_column == 1)
		N(add_rows)(x.c, x.b, x.b_row, x.a, x.a_column, x.n, x.k, x.accumulate);
	else
		N(gemm_packed)(&x);
}
