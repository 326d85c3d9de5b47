/*
 * Our own matrix product, for one type of one instruction set; included by
 * loops_type_template.h.
 *
 * The blocking is Goto's (Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication"). A panel of B,
 * PACK_K by PACK_N, is packed into stripes that a tile reads in order. If B's rows are contiguous, the first tile of a
 * stripe packs it: its products hide the wait for B.
 *
 * A block of A, PACK_M by PACK_K, is packed too in three cases: it is transposed; enough columns share that work; or its
 * rows would fall into one set of the cache. The tiles of the first stripe of B pack it, likewise. Of other blocks only
 * the last rows, which fill no tile, are packed.
 *
 * A tile of C, TILE_M rows by two vectors, stays in registers. Stripes at the edges are filled up with zeros, and the part
 * of a tile outside C is not written.
 *
 * For each PACK_K products an element of C has one chain of additions, in order of k, which is
 * then added to C. So an element's bits do not depend on its index in C. A product with a vector
 * adds in another order (dot_rows, add_rows). The old C is read only if the product accumulates. After its last chain an
 * element is lessened and multiplied, if the product says so, while it is in a register.
 *
 * Of a sparse product's tile only the depths are computed where neither stripe has zeros alone. A sum that begins with 0
 * stays 0 while products of 0 and finite numbers are added, and no such product changes a sum that is not 0.
 *
 * The packed blocks are on the stack (512 KiB, with AVX2 640): nothing is allocated.
 */
_Static_assert(PRODUCT_STRIPE % GEMM_ROWS == 0, "PRODUCT_STRIPE rows are whole tiles");

_Static_assert(PRODUCT_DEPTH % PACK_K == 0, "PRODUCT_DEPTH products are whole chains of additions");
_Static_assert(2 * VECTOR_BYTES <= TILE_BYTES, "a tile reads at most TILE_BYTES of a row of B at once");

enum {
	N(TILE_M) = GEMM_ROWS,
	N(TILE_N) = 2 * N(LANES),
	N(PACK_M) = PACK_A_BYTES / PACK_K / (int)sizeof(REAL) / N(TILE_M) * N(TILE_M),
	N(PACK_N) = PACK_B_BYTES / PACK_K / (int)sizeof(REAL) / N(TILE_N) * N(TILE_N),
	N(MOST_N) = 8 * N(PACK_N), /* columns of a panel of B that is less than PACK_K deep */
};

/*
 * Packs TILE_M rows of A, ROW apart, of K contiguous elements each. Squares of LANES columns are transposed. A column
 * of a square has up to LANES rows, of which the last may be unused.
 */
static void N(pack_rows)(REAL *to, const REAL *a, int64_t row, int64_t k)
{
	const int64_t squares = k / N(LANES) * N(LANES);
	for (int64_t p = 0; p < squares; p += N(LANES))
#pragma GCC unroll 4
		for (int r = 0; r < N(TILE_M); r += N(LANES)) {
			enum { REST = N(TILE_M) % N(LANES) };
			const bool whole = r + N(LANES) <= N(TILE_M);
			REAL square[N(LANES)][N(LANES)];
			N(transpose_rows)(&square[0][0], N(LANES), a + r * row + p, row, whole ? N(LANES) : REST);
			for (int c = 0; c < N(LANES); c++)
				memcpy(to + (p + c) * N(TILE_M) + r, square[c], sizeof(REAL) * (whole ? N(LANES) : REST));
		}
	for (int r = 0; r < N(TILE_M); r++)
		for (int64_t p = squares; p < k; p++)
			to[p * N(TILE_M) + r] = a[r * row + p];
}

/*
 * Packs A[M,K] into stripes. Element (i, p) lies at i + p * COLUMN: A's transpose is read in order, M elements at a time.
 * Stripes begin at the same place of a page, so DEPTH columns of one are written before the next stripe.
 */
static void N(pack_transposed_a)(REAL *to, const REAL *a, int64_t column, int64_t m, int64_t k)
{
	enum { DEPTH = 8, LINE = 64 / sizeof(REAL) };
	const int64_t whole = m - m % N(TILE_M);
	for (int64_t p = 0; p < k; p += DEPTH, to += DEPTH * N(TILE_M), a += DEPTH * column) {
		const int depth = k - p < DEPTH ? (int)(k - p) : DEPTH;
		for (int64_t i = 0; i < whole; i += N(TILE_M)) {
			for (int q = 0; q < depth; q++) {
				__builtin_prefetch(a + (q + DEPTH) * column + i);
				memcpy(to + i * k + q * N(TILE_M), a + i + q * column, sizeof(REAL) * N(TILE_M));
			}
		}
		for (int64_t i = whole; i < m; i++)
			for (int q = 0; q < depth; q++)
				to[whole * k + i - whole + q * N(TILE_M)] = a[i + q * column];
	}
}

/* Packs A[M,K], whose element (i, p) lies at i * ROW + p * COLUMN, into stripes: TILE_M rows, column by column. */
static void N(pack_a)(REAL *to, const REAL *a, int64_t row, int64_t column, int64_t m, int64_t k)
{
	if (m % N(TILE_M))
		memset(to + m / N(TILE_M) * N(TILE_M) * k, 0, sizeof(REAL) * (size_t)(N(TILE_M) * k));
	if (row == 1) {
		N(pack_transposed_a)(to, a, column, m, k);
		return;
	}
	for (int64_t i = 0; i < m; i += N(TILE_M)) {
		const int rows = m - i < N(TILE_M) ? (int)(m - i) : N(TILE_M);
		if (column == 1 && rows == N(TILE_M))
			N(pack_rows)(to, a + i * row, row, k);
		else
			for (int r = 0; r < rows; r++)
				for (int64_t p = 0; p < k; p++)
					to[p * N(TILE_M) + r] = a[(i + r) * row + p * column];
		to += N(TILE_M) * k;
	}
}

/* Packs COLUMNS columns of B, each of K contiguous elements, COLUMN apart, into a stripe. */
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

/* Copies TILE_N elements. Of a plain loop the compiler makes a call of memmove. */
static inline void N(copy_stripe_row)(REAL *to, const REAL *from)
{
	const N(vector) first = *(const N(loose) *)from, second = *(const N(loose) *)(from + N(LANES));
	*(N(loose) *)to = first;
	*(N(loose) *)(to + N(LANES)) = second;
}

/*
 * Packs B[K,N] into stripes: TILE_N columns, row by row. If B's rows are contiguous they are read in order. Here the
 * processor prefetches them: it did so no better with prefetches of later rows. The tiles before prefetch the panel.
 */
static void N(pack_b)(REAL *to, const REAL *b, int64_t row, int64_t column, int64_t n, int64_t k)
{
	const int last = (int)(n % N(TILE_N));
	if (last > 0)
		memset(to + (n - last) * k, 0, sizeof(REAL) * (size_t)(N(TILE_N) * k));
	if (column != 1) {
		for (int64_t j = 0; j < n; j += N(TILE_N))
			N(pack_columns)(to + j * k, b + j * column, column, n - j < N(TILE_N) ? last : N(TILE_N), k);
		return;
	}
	for (int64_t p = 0; p < k; p++) {
		for (int64_t j = 0; j < n - last; j += N(TILE_N))
			N(copy_stripe_row)(to + j * k + p * N(TILE_N), b + p * row + j);
		for (int64_t j = n - last; j < n; j++)
			to[(n - last) * k + p * N(TILE_N) + j - (n - last)] = b[p * row + j];
	}
}

/*
 * A tile of C, and its stripes of A and B of depth DEPTH. A is packed; or its element (i, p) lies at i * A_ROW + p *
 * A_COLUMN, is read there, and perhaps packed to PACK_A. B is packed; or its row p begins at B_AT[p]; or its rows begin B_ROW
 * apart, and the tile packs them to PACK_B.
 */
struct N(tile) {
	REAL *c;
	int64_t ldc;
	const REAL *a, *b;
	const REAL *less, *times; /* at its part of C, as a product's */
	const int64_t *b_at;
	REAL *pack_a, *pack_b;
	int64_t a_row, a_column, b_row, depth;
	int rows, columns;
	bool add;
};

/* Where a tile finds its stripe of A: packed, in rows, or in rows or columns that it packs. */
enum N(a_form) { N(A_PACKED), N(A_ROWS), N(A_FRESH_ROWS), N(A_FRESH_COLUMNS) };
/* Where a tile finds its stripe of B: packed, at B_AT, or in rows that it packs. */
enum N(stripe_form) { N(PACKED), N(APART), N(FRESH) };

/*
 * Computes the tile T, whose stripes have the forms A_FORM and FORM. Only HEIGHT rows of the tile and VECTORS of its two
 * vectors are computed. Every caller passes constants for these four.
 * A prefetch behind the end of B does nothing.
 */
static inline __attribute__((always_inline)) void N(tile_of)(const struct N(tile) *t, const enum N(a_form) a_form,
                                                             const int height, const int vectors,
                                                             const enum N(stripe_form) form)
{
	enum { AHEAD = 32 };
	const bool fresh = a_form == N(A_FRESH_ROWS) || a_form == N(A_FRESH_COLUMNS);
	const int64_t row = a_form == N(A_PACKED) || a_form == N(A_FRESH_COLUMNS) ? 1 : t->a_row;
	const int64_t column = a_form == N(A_PACKED) ? N(TILE_M) : a_form == N(A_FRESH_COLUMNS) ? t->a_column : 1;
	const REAL *const a = t->a, *const b = t->b;
	REAL *const pack_a = t->pack_a, *const pack_b = t->pack_b;
	const int64_t *const b_at = t->b_at;
	REAL *const c = t->c;
	const int64_t ldc = t->ldc, depth = t->depth, b_row = t->b_row;
	const bool add = t->add;
	const REAL *const less = t->less, *const times = t->times;
	N(vector) sum[N(TILE_M)][2];
#pragma GCC unroll 16
	for (int i = 0; i < height; i++)
		sum[i][0] = sum[i][1] = (N(vector)){0};
	for (int64_t p = 0; p < depth; p++) {
		const REAL *const line = b + (form == N(APART) ? b_at[p] : p * (form == N(FRESH) ? b_row : N(TILE_N)));
		const N(vector) b0 = *(const N(loose) *)line, b1 = *(const N(loose) *)(line + N(LANES));
		if (form == N(FRESH)) {
			*(N(loose) *)(pack_b + p * N(TILE_N)) = b0;
			*(N(loose) *)(pack_b + p * N(TILE_N) + N(LANES)) = b1;
			__builtin_prefetch(line + AHEAD * b_row, 0, 2);
			__builtin_prefetch(line + AHEAD * b_row + N(TILE_N) - 1, 0, 2);
		}
		if (a_form == N(A_FRESH_COLUMNS)) {
			memcpy(pack_a + p * N(TILE_M), a + p * column, sizeof(REAL) * N(TILE_M));
			__builtin_prefetch(a + (p + AHEAD) * column);
			__builtin_prefetch(a + (p + AHEAD) * column + N(TILE_M) - 1);
		} else if (fresh) {
#pragma GCC unroll 16
			for (int i = 0; i < height; i++)
				pack_a[p * N(TILE_M) + i] = a[i * row + p * column];
		}
#pragma GCC unroll 16
		for (int i = 0; i < height; i++) {
			const N(vector) x = a[i * row + p * column] - (N(vector)){0};
			sum[i][0] = GEMM_MULTIPLY_ADD(x, b0, sum[i][0]);
			if (vectors > 1)
				sum[i][1] = GEMM_MULTIPLY_ADD(x, b1, sum[i][1]);
		}
	}
	if (t->rows == height && t->columns == N(TILE_N)) {
#pragma GCC unroll 16
		for (int i = 0; i < height; i++) {
			N(loose) *to = (N(loose) *)(c + i * ldc);
			if (add) {
				sum[i][0] += to[0];
				sum[i][1] += to[1];
			}
			if (less) {
				sum[i][0] -= *(const N(loose) *)less;
				sum[i][1] -= *(const N(loose) *)(less + N(LANES));
			}
			if (times) {
				sum[i][0] *= *(const N(loose) *)(times + i * ldc);
				sum[i][1] *= *(const N(loose) *)(times + i * ldc + N(LANES));
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
	for (int i = 0; i < t->rows; i++)
		for (int j = 0; j < t->columns; j++) {
			REAL sum_of = add ? c[i * ldc + j] + whole[i][j] : whole[i][j];
			if (less)
				sum_of -= less[j];
			c[i * ldc + j] = times ? sum_of * times[i * ldc + j] : sum_of;
		}
}

/*
 * Computes the tile of a packed stripe of A. If one vector holds all columns, only one of each row is computed. Else,
 * if a third or two thirds of the tile hold all rows, only these are computed (one or two rows if TILE_M is 4).
 */
static inline __attribute__((always_inline)) void N(tile_of_packed)(const struct N(tile) *t, const enum N(stripe_form) form)
{
	enum { THIRD = N(TILE_M) / 3 };
	if (t->columns <= (int)N(LANES))
		N(tile_of)(t, N(A_PACKED), N(TILE_M), 1, form);
	else if (t->rows <= THIRD)
		N(tile_of)(t, N(A_PACKED), THIRD, 2, form);
	else if (t->rows <= 2 * THIRD)
		N(tile_of)(t, N(A_PACKED), 2 * THIRD, 2, form);
	else
		N(tile_of)(t, N(A_PACKED), N(TILE_M), 2, form);
}

/* Computes the tile of rows of A that are read in place: all of a tile, or a third or two. */
static inline __attribute__((always_inline)) void N(tile_of_rows)(const struct N(tile) *t, const enum N(stripe_form) form)
{
	enum { THIRD = N(TILE_M) / 3 };
	if (t->rows == THIRD)
		N(tile_of)(t, N(A_ROWS), THIRD, 2, form);
	else if (t->rows == 2 * THIRD)
		N(tile_of)(t, N(A_ROWS), 2 * THIRD, 2, form);
	else if (t->columns > (int)N(LANES))
		N(tile_of)(t, N(A_ROWS), N(TILE_M), 2, form);
	else
		N(tile_of)(t, N(A_ROWS), N(TILE_M), 1, form);
}

/* Computes a whole tile, and packs its stripe of A, whose rows or columns are contiguous. */
static inline __attribute__((always_inline)) void N(tile_of_fresh)(const struct N(tile) *t,
                                                                   const enum N(stripe_form) form)
{
	if (t->a_row == 1)
		N(tile_of)(t, N(A_FRESH_COLUMNS), N(TILE_M), 2, form);
	else
		N(tile_of)(t, N(A_FRESH_ROWS), N(TILE_M), 2, form);
}

typedef void N(tile_function)(const struct N(tile) *t);
#define TILE(NAME, KIND, FORM)                                                                                         \
	static __attribute__((noinline)) void N(NAME)(const struct N(tile) *t) { N(KIND)(t, N(FORM)); }
TILE(tile_packed, tile_of_packed, PACKED)
TILE(tile_packed_apart, tile_of_packed, APART)
TILE(tile_packed_fresh, tile_of_packed, FRESH)
TILE(tile_in_place, tile_of_rows, PACKED)
TILE(tile_in_place_apart, tile_of_rows, APART)
TILE(tile_in_place_fresh, tile_of_rows, FRESH)
TILE(tile_fresh, tile_of_fresh, PACKED)
TILE(tile_fresh_apart, tile_of_fresh, APART)
TILE(tile_fresh_fresh, tile_of_fresh, FRESH)
#undef TILE

/*
 * Returns how many of a block's HEIGHT rows are read in place: those of all whole tiles, and a third or two thirds of one,
 * or none. Packing costs about as much as the product with one stripe of B: a few do not repay it.
 */
static int64_t N(rows_in_place)(int64_t row, int64_t column, int64_t height, int64_t width)
{
	enum { SHARED = 32, SET_BYTES = 4096 };
	if (column != 1 || row * (int64_t)sizeof(REAL) % SET_BYTES == 0 || width > SHARED * (int64_t)N(TILE_N))
		return 0;
	const int64_t rest = height % N(TILE_M), third = N(TILE_M) / 3;
	return rest == third || rest == 2 * third ? height : height - rest;
}

/*
 * The panel of B that is packed next: RUNS runs of LENGTH contiguous elements, STEP apart. Each tile prefetches some LINES,
 * so that the panel comes from memory while tiles are computed. RUN and AT are where the next tile continues.
 */
struct N(ahead) {
	const REAL *from;
	int64_t step, runs, length, run, at;
	int64_t lines;
};

static void N(prefetch_ahead)(struct N(ahead) *to)
{
	enum { LINE = 64 / sizeof(REAL) };
	for (int64_t i = 0; i < to->lines && to->run < to->runs; i++) {
		__builtin_prefetch(to->from + to->run * to->step + to->at, 0, 2);
		to->at += LINE;
		if (to->at >= to->length) {
			to->at = 0;
			to->run++;
		}
	}
}

/* C = A B (+ C) by strides: element (i, p) of A lies at i * a_row + p * a_column, and B's likewise. */
struct N(strided) {
	int64_t m, n, k;
	const REAL *a;
	int64_t a_row, a_column;
	const REAL *b;
	int64_t b_row, b_column;
	const int64_t *b_at; /* or NULL; B's row p begins at B_AT[p], and b_column is 1 */
	const REAL *less, *times; /* as a product's */
	bool accumulate, sparse;
	REAL *panel; /* B, packed: parts of PACK_K rows, each in stripes; or NULL */
	bool fresh; /* of a block: the first tiles of its whole stripes of B pack them */
	REAL *c;
	int64_t ldc;
	struct N(ahead) *ahead; /* multiply_panels sets it */
};

/*
 * True if the first tiles of X's whole stripes of B pack them. It pays for few rows: a stripe is read in short pieces, far
 * apart, and packing a whole panel of a B that is not in the cache reads it faster. A sparse product looks at the stripes
 * before.
 */
static bool N(is_fresh)(const struct N(strided) *x)
{
	enum { ROWS_MOST = 128 };
	return !x->b_at && !x->panel && x->b_column == 1 && !x->sparse && x->m <= ROWS_MOST;
}

/* The part of a stripe's depth outside of which the stripe has zeros alone. */
struct N(depth) {
	int64_t begin, end;
};
/* Those of a block's stripes of A and of B. */
struct N(depths) {
	struct N(depth) a[N(PACK_M) / N(TILE_M)], b[N(MOST_N) / N(TILE_N)];
};

/* ROWS rows of LENGTH elements, ROW elements apart. */
struct N(region) {
	const REAL *at;
	int64_t row, rows, length;
};

static bool N(has_zeros_alone)(const struct N(region) *region)
{
	int other = 0;
	for (int64_t i = 0; i < region->rows; i++)
		for (int64_t j = 0; j < region->length; j++)
			other |= region->at[i * region->row + j] != 0;
	return !other;
}

static bool N(is_finite)(const struct N(region) *region)
{
	int other = 0;
	for (int64_t i = 0; i < region->rows; i++)
		for (int64_t j = 0; j < region->length; j++)
			other |= !(FABS(region->at[i * region->row + j]) < (REAL)INFINITY);
	return !other;
}

/*
 * Sets *DEPTH, that of a stripe which begins at AT, as far as whole vectors of depths have zeros alone. An index more in
 * depth lies STEP elements on; the stripe has ROWS rows, ROW apart. Returns false if *DEPTH is the whole one, K.
 */
static bool N(find_depth)(struct N(depth) *depth, const struct N(region) *stripe, int64_t step, int64_t k)
{
	struct N(region) part = *stripe;
	int64_t begin = 0, end = k;
	part.length = N(LANES) * step;
	for (; end >= N(LANES); end -= N(LANES)) {
		part.at = stripe->at + (end - N(LANES)) * step;
		if (!N(has_zeros_alone)(&part))
			break;
	}
	for (; begin + N(LANES) <= end; begin += N(LANES)) {
		part.at = stripe->at + begin * step;
		if (!N(has_zeros_alone)(&part))
			break;
	}
	*depth = (struct N(depth)){begin, end};
	return begin > 0 || end < k;
}

/* Sets the depths of BLOCK, of which IN_PLACE rows are not packed: the whole ones unless it is sparse. */
static void N(find_depths)(struct N(depths) *depths, const struct N(strided) *block, int64_t in_place,
                           const REAL *packed, const REAL *panel)
{
	const int64_t k = block->k, all = N(TILE_M) * k, stripes = (block->m + N(TILE_M) - 1) / N(TILE_M);
	const int64_t across = (block->n + N(TILE_N) - 1) / N(TILE_N), placed = (in_place + N(TILE_M) - 1) / N(TILE_M);
	bool less_a = false, less_b = false;
	for (int64_t s = 0; s < stripes; s++) {
		const struct N(region) stripe = {packed + (s - placed) * all, 0, 1, 0};
		const int64_t left = in_place - s * N(TILE_M), rows = left < N(TILE_M) ? left : N(TILE_M);
		const struct N(region) there = {block->a + s * N(TILE_M) * block->a_row, block->a_row, rows, 0};
		depths->a[s] = (struct N(depth)){0, k};
		if (block->sparse)
			less_a |= N(find_depth)(&depths->a[s], s < placed ? &there : &stripe, s < placed ? 1 : N(TILE_M), k);
	}
	for (int64_t s = 0; s < across; s++) {
		depths->b[s] = (struct N(depth)){0, k};
		if (block->sparse)
			less_b |= N(find_depth)(&depths->b[s], &(struct N(region)){panel + s * N(TILE_N) * k, 0, 1, 0}, N(TILE_N), k);
	}
	if (less_a && !N(is_finite)(&(struct N(region)){panel, 0, 1, across * N(TILE_N) * k}))
		for (int64_t s = 0; s < stripes; s++)
			depths->a[s] = (struct N(depth)){0, k};
	const struct N(region) there = {block->a, block->a_row, in_place, k}, rest = {packed, 0, 1, (stripes - placed) * all};
	if (less_b && !(N(is_finite)(&there) && N(is_finite)(&rest)))
		for (int64_t s = 0; s < across; s++)
			depths->b[s] = (struct N(depth)){0, k};
}

/* Prefetches the part of C that T writes: its rows lie in as many pages, and the tile's products hide the wait. */
static void N(prefetch_c)(const struct N(tile) *t)
{
	for (int64_t i = 0; i < t->rows; i++) {
		__builtin_prefetch(t->c + i * t->ldc, 1);
		__builtin_prefetch(t->c + i * t->ldc + t->columns - 1, 1);
	}
}

/*
 * Computes BLOCK, whose B is packed in PANEL, or is packed there now if it is fresh, unless it has B_AT. The rows of A that
 * are not read in place are packed to PACKED. The first tiles of whole stripes of A pack these: their products hide the wait
 * for A. A sparse block looks at its stripes before, so it packs all.
 */
static void N(multiply_block)(const struct N(strided) *block, REAL *packed, REAL *panel)
{
	enum { A_PACKED, A_IN_PLACE, A_FRESH };
	static N(tile_function) *const tiles[][3] = {
		[A_PACKED] = {N(tile_packed), N(tile_packed_apart), N(tile_packed_fresh)},
		[A_IN_PLACE] = {N(tile_in_place), N(tile_in_place_apart), N(tile_in_place_fresh)},
		[A_FRESH] = {N(tile_fresh), N(tile_fresh_apart), N(tile_fresh_fresh)}};
	const int64_t m = block->m, width = block->n, k = block->k, row = block->a_row, column = block->a_column;
	const int64_t in_place = N(rows_in_place)(row, column, m, width);
	const int64_t fresh = block->sparse || width < N(TILE_N) ? in_place : m - (m - in_place) % N(TILE_M);
	struct N(depths) depths;
	N(pack_a)(packed + (fresh - in_place) * k, block->a + fresh * row, row, column, m - fresh, k);
	N(find_depths)(&depths, block, in_place, packed, panel);
	struct N(tile) t = {
		.ldc = block->ldc, .a_row = row, .a_column = column, .b_row = block->b_row, .add = block->accumulate};
	/* rows in place come once into the first cache, for all stripes of B; a packed stripe of A is read in order */
	const bool by_rows = in_place == m;
	int64_t i = 0, j = 0;
	while (i < m && j < width) {
		const struct N(depth) *const across = &depths.b[j / N(TILE_N)], *const down = &depths.a[i / N(TILE_M)];
		const int64_t begin = down->begin > across->begin ? down->begin : across->begin;
		const int64_t end = down->end < across->end ? down->end : across->end;
		t.columns = width - j < N(TILE_N) ? (int)(width - j) : N(TILE_N);
		const bool packs_b = block->fresh && i == 0 && t.columns == N(TILE_N);
		const enum N(stripe_form) form = block->b_at ? N(APART) : packs_b ? N(FRESH) : N(PACKED);
		const int form_a = i < in_place ? A_IN_PLACE : j == 0 && i < fresh ? A_FRESH : A_PACKED;
		t.rows = m - i < N(TILE_M) ? (int)(m - i) : N(TILE_M);
		t.depth = end > begin ? end - begin : 0;
		t.pack_b = panel + j * k;
		t.b = form == N(PACKED) ? t.pack_b + begin * N(TILE_N) : block->b + j;
		t.b_at = block->b_at ? block->b_at + begin : NULL;
		t.c = block->c + i * block->ldc + j;
		t.less = block->less ? block->less + j : NULL;
		t.times = block->times ? block->times + i * block->ldc + j : NULL;
		t.pack_a = packed + (i - in_place) * k;
		t.a = form_a == A_PACKED ? t.pack_a + begin * N(TILE_M) : block->a + i * row + begin * column;
		N(prefetch_c)(&t);
		N(prefetch_ahead)(block->ahead);
		tiles[form_a][form](&t);
		if (by_rows && (j += N(TILE_N)) >= width) {
			j = 0;
			i += N(TILE_M);
		} else if (!by_rows && (i += N(TILE_M)) >= m) {
			i = 0;
			j += N(TILE_N);
		}
	}
}

/* Computes ROWS, whose B is packed in PANEL or is fresh, block by block. */
static void N(multiply_rows)(const struct N(strided) *rows, REAL *packed, REAL *panel)
{
	struct N(strided) block = *rows;
	for (int64_t i = 0; i < rows->m; i += N(PACK_M)) {
		block.m = rows->m - i < N(PACK_M) ? rows->m - i : N(PACK_M);
		block.a = rows->a + i * rows->a_row;
		block.c = rows->c + i * rows->ldc;
		block.times = rows->times ? rows->times + i * rows->ldc : NULL;
		N(multiply_block)(&block, packed, panel);
		block.fresh = false;
	}
}

/* Returns the panel of B that comes after that of BLOCK, which begins at column J and depth P of X. */
static struct N(ahead) N(panel_after)(const struct N(strided) *x, int64_t j, int64_t p)
{
	enum { LINE = 64 / sizeof(REAL), MOST_LINES = 16 };
	const bool below = p + PACK_K < x->k;
	const int64_t row = below ? p + PACK_K : 0, column = below ? j : j + N(PACK_N);
	int64_t n = x->n - column < N(PACK_N) ? x->n - column : N(PACK_N), k = x->k - row < PACK_K ? x->k - row : PACK_K;
	if (x->b_at || x->panel || n <= 0 || N(is_fresh)(x))
		return (struct N(ahead)){0};
	const int64_t tiles = (x->m + N(TILE_M) - 1) / N(TILE_M) * (N(PACK_N) / N(TILE_N));
	const int64_t lines = n * k / LINE / tiles + 1;
	const bool rows = x->b_column == 1;
	return (struct N(ahead)){.from = x->b + row * x->b_row + column * x->b_column,
	                         .step = rows ? x->b_row : x->b_column,
	                         .runs = rows ? k : n,
	                         .length = rows ? n : k,
	                         .lines = lines < MOST_LINES ? lines : MOST_LINES};
}

static int64_t N(stripes)(int64_t n) { return (n + N(TILE_N) - 1) / N(TILE_N); }

static void N(multiply_panels)(const struct N(strided) *x, REAL *packed, REAL *panel)
{
	for (int64_t j = 0; j < x->n; j += N(PACK_N)) {
		struct N(strided) block = *x;
		block.n = x->n - j < N(PACK_N) ? x->n - j : N(PACK_N);
		for (int64_t p = 0; p < x->k; p += PACK_K) {
			struct N(ahead) ahead = N(panel_after)(x, j, p);
			block.ahead = &ahead;
			block.k = x->k - p < PACK_K ? x->k - p : PACK_K;
			block.accumulate = x->accumulate || p > 0;
			const bool last = p + PACK_K >= x->k;
			block.less = last && x->less ? x->less + j : NULL;
			block.times = last && x->times ? x->times + j : NULL;
			block.b = x->b_at ? x->b + j : x->b + p * x->b_row + j * x->b_column;
			block.b_at = x->b_at ? x->b_at + p : NULL;
			block.fresh = N(is_fresh)(x);
			const int64_t whole = block.fresh ? block.n / N(TILE_N) * N(TILE_N) : 0;
			REAL *const here = x->panel ? x->panel + p * N(stripes)(x->n) * N(TILE_N) + j * block.k : panel;
			if (!x->b_at && !x->panel && whole < block.n)
				N(pack_b)(panel + whole * block.k, block.b + whole * x->b_column, x->b_row, x->b_column, block.n - whole, block.k);
			block.a = x->a + p * x->a_column;
			block.c = x->c + j;
			N(multiply_rows)(&block, packed, here);
		}
	}
}

/*
 * A function touches each page of its frame (-fstack-clash-protection). That takes as long as a small product. So the
 * buffers are as large as X needs them: one stripe of A if its rows are read in place.
 */
static __attribute__((noinline)) void N(multiply_large)(const struct N(strided) *x)
{
	const int64_t width = x->n < N(PACK_N) ? x->n : N(PACK_N), depth = x->k < PACK_K ? x->k : PACK_K;
	const bool in_place = N(rows_in_place)(x->a_row, x->a_column, N(TILE_M), width) > 0;
	const int64_t height = in_place ? 1 : x->m < N(PACK_M) ? x->m : N(PACK_M);
	const int64_t rows = (height + N(TILE_M) - 1) / N(TILE_M) * N(TILE_M);
	const int64_t columns = x->panel ? 0 : N(stripes)(width) * N(TILE_N);
	struct {
		_Alignas(64) REAL line[64 / sizeof(REAL)];
	} packed[rows * depth * (int64_t)sizeof(REAL) / 64 + 1], panel[columns * depth * (int64_t)sizeof(REAL) / 64 + 1];
	N(multiply_panels)(x, packed->line, panel->line);
}

enum { N(SMALL) = 8192 / (int)sizeof(REAL) };
static __attribute__((noinline)) void N(multiply_small)(const struct N(strided) *x)
{
	_Alignas(64) REAL packed[N(SMALL)], panel[N(SMALL)];
	N(multiply_panels)(x, packed, panel);
}

/* True if EXTENT rows or columns, packed DEPTH deep in stripes of STRIPE, fit in a small buffer. */
static bool N(fits)(int64_t extent, int64_t stripe, int64_t depth)
{
	return extent <= N(SMALL) && (extent + stripe - 1) / stripe * stripe * depth <= N(SMALL);
}

static void N(gemm_packed)(const struct N(strided) *x)
{
	if (x->k <= PACK_K && N(fits)(x->m, N(TILE_M), x->k) && (x->panel || N(fits)(x->n, N(TILE_N), x->k)))
		N(multiply_small)(x);
	else
		N(multiply_large)(x);
}

/* y = M x (+ y), where M has K columns, or y = M' x (+ y), where it has K rows. M's rows lie LD apart. */
struct N(matrix_vector) {
	REAL *y;
	int64_t y_step; /* 1 for M' x */
	const REAL *matrix;
	int64_t ld;
	const REAL *x;
	int64_t x_step; /* 1 for M x */
	int64_t length, k; /* elements of y; products in each */
	bool add;
};

/* y = M x (+ y). Four vectors sum most products of a row. Their lanes are added up, then the products left over. */
static void N(dot_rows)(const struct N(matrix_vector) *t)
{
	enum { WIDTH = 4 * N(LANES) };
	const REAL *matrix = t->matrix, *const x = t->x;
	for (int64_t i = 0; i < t->length; i++, matrix += t->ld) {
		N(vector) sum[4] = {{0}};
		int64_t p = 0;
		for (; p + WIDTH <= t->k; p += WIDTH)
#pragma GCC unroll 4
			for (int j = 0; j < 4; j++)
				sum[j] = GEMM_MULTIPLY_ADD(*(const N(loose) *)(matrix + p + j * N(LANES)),
				                           *(const N(loose) *)(x + p + j * N(LANES)), sum[j]);
		sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
		REAL total = 0;
		for (int j = 0; j < N(LANES); j++)
			total += sum[0][j];
		for (; p < t->k; p++)
			total += matrix[p] * x[p];
		REAL *const y = t->y + i * t->y_step;
		*y = t->add ? *y + total : total;
	}
}

/* Returns a vector whose first COUNT lanes come from FROM; the others are 0. */
static N(vector) N(part)(const REAL *from, int64_t count)
{
	N(vector) whole = {0};
	memcpy(&whole, from, sizeof(REAL) * (size_t)count);
	return whole;
}

/* Adds ROWS rows of M from row I on, times their elements of x, to WIDTH elements of y from J on. */
static inline __attribute__((always_inline)) void N(add_some_rows)(const struct N(matrix_vector) *t, int64_t i,
                                                                   int64_t j, int64_t width, const int rows)
{
	REAL *const to = t->y + j;
	const REAL *const matrix = t->matrix + i * t->ld + j, *const x = t->x + i * t->x_step;
	const int64_t ld = t->ld, step = t->x_step;
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

/* y = M' x (+ y). For each block of y, which stays in the cache, adds all rows of M times their elements of x. */
static void N(add_rows)(const struct N(matrix_vector) *t)
{
	enum { BLOCK = 2048, ROWS = 8 };
	for (int64_t j = 0; j < t->length; j += BLOCK) {
		const int64_t width = t->length - j < BLOCK ? t->length - j : BLOCK;
		if (!t->add)
			memset(t->y + j, 0, sizeof(REAL) * (size_t)width);
		int64_t i = 0;
		for (; i + ROWS <= t->k; i += ROWS)
			N(add_some_rows)(t, i, j, width, ROWS);
		for (; i < t->k; i++)
			N(add_some_rows)(t, i, j, width, 1);
	}
}

static struct N(strided) N(strided_of)(const struct product *p)
{
	return (struct N(strided)){.m = p->m,
	                           .n = p->n,
	                           .k = p->k,
	                           .a = p->a.data,
	                           .a_row = p->a.transposed ? 1 : p->a.ld,
	                           .a_column = p->a.transposed ? p->a.ld : 1,
	                           .b = p->b.data,
	                           .b_row = p->b.transposed ? 1 : p->b.ld,
	                           .b_column = p->b.transposed ? p->b.ld : 1,
	                           .accumulate = p->accumulate,
	                           .sparse = p->sparse,
	                           .less = p->less,
	                           .times = p->times,
	                           .panel = p->b.ld ? NULL : (REAL *)(uintptr_t)p->b.data,
	                           .c = p->c,
	                           .ldc = p->ldc};
}

static void N(gemm)(const struct product *product, bool tiles)
{
	typedef struct N(matrix_vector) vector_product;
	const struct N(strided) x = N(strided_of)(product);
	if (tiles)
		N(gemm_packed)(&x);
	else if (x.n == 1 && x.a_column == 1 && (x.b_row == 1 || x.k == 1))
		N(dot_rows)(&(vector_product){x.c, x.ldc, x.a, x.a_row, x.b, 1, x.m, x.k, x.accumulate});
	else if (x.n == 1 && x.a_row == 1 && x.ldc == 1)
		N(add_rows)(&(vector_product){x.c, 1, x.a, x.a_column, x.b, x.b_row, x.m, x.k, x.accumulate});
	else if (x.m == 1 && x.b_row == 1 && (x.a_column == 1 || x.k == 1))
		N(dot_rows)(&(vector_product){x.c, 1, x.b, x.b_column, x.a, 1, x.n, x.k, x.accumulate});
	else if (x.m == 1 && x.b_column == 1)
		N(add_rows)(&(vector_product){x.c, 1, x.b, x.b_row, x.a, x.a_column, x.n, x.k, x.accumulate});
	else
		N(gemm_packed)(&x);
}

static void N(gemm_pack)(void *to, const struct factor *b, int64_t k, int64_t n)
{
	const REAL *const from = b->data;
	const int64_t row = b->transposed ? 1 : b->ld, column = b->transposed ? b->ld : 1;
	for (int64_t p = 0; p < k; p += PACK_K)
		N(pack_b)((REAL *)to + p * N(stripes)(n) * N(TILE_N), from + p * row, row, column, n, k - p < PACK_K ? k - p : PACK_K);
}

/* A B that fits in one panel is packed once for all blocks. */
static void N(gemm_blocks)(const struct product *product, const struct row_blocks *blocks)
{
	_Alignas(64) REAL packed[N(PACK_M) * PACK_K], panel[N(PACK_N) * PACK_K];
	struct N(strided) x = N(strided_of)(product);
	struct N(ahead) nothing = {0};
	const int64_t stripes = N(stripes)(x.n);
	const bool fits = x.k <= PACK_K && x.n <= N(MOST_N) && stripes * N(TILE_N) * x.k <= N(PACK_N) * PACK_K;
	x.ahead = &nothing;
	if (fits)
		N(pack_b)(panel, x.b, x.b_row, x.b_column, x.n, x.k);
	for (int64_t i = 0; i < product->m; i += x.m) {
		x.m = product->m - i < blocks->rows ? product->m - i : blocks->rows;
		x.n = blocks->columns(blocks->context, i, x.m);
		if (fits)
			N(multiply_rows)(&x, packed, panel);
		else
			N(multiply_panels)(&x, packed, panel);
		x.a += x.m * x.a_row;
		x.c += x.m * x.ldc;
		blocks->done(blocks->context, i, x.m);
	}
}

static void N(gemm_apart)(const struct product *product, const int64_t *b_at)
{
	_Alignas(64) REAL packed[N(PACK_M) * PACK_K];
	struct N(strided) x = N(strided_of)(product);
	x.b_at = b_at;
	N(multiply_panels)(&x, packed, NULL);
}
