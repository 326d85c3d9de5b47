/*
 * Vectors of the widest registers of one instruction set, for one type, and matrices
 * turned over their diagonal by them; included by loops_template.h.
 */
enum { N(LANES) = VECTOR_BYTES / sizeof(REAL) };

typedef REAL N(vector) __attribute__((vector_size(VECTOR_BYTES)));
typedef LANE_INTEGER N(lanes) __attribute__((vector_size(VECTOR_BYTES)));
typedef REAL N(loose) __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));

/* Lanes of A and B by turns, as ORDER counts them: from LANES on they are B's. */
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

/*
 * A square of LANES by LANES, turned over its diagonal: halves interleaved as
 * often as it takes for an index's bits to have gone round by half of them.
 */
static void N(transpose_square)(REAL *to, int64_t to_row, const REAL *from, int64_t from_row)
{
	N(lanes) low, high;
	for (int i = 0; i < N(LANES); i++) {
		low[i] = i / 2 + i % 2 * N(LANES);
		high[i] = low[i] + N(LANES) / 2;
	}
	N(vector) v[N(LANES)], turned[N(LANES)];
	for (int i = 0; i < N(LANES); i++)
		v[i] = *(const N(loose) *)(from + i * from_row);
#pragma GCC unroll 4
	for (int round = 1; round < N(LANES); round *= 2) {
#pragma GCC unroll 8
		for (int i = 0; i < N(LANES) / 2; i++) {
			turned[2 * i] = N(interleave)(v[i], v[i + N(LANES) / 2], low);
			turned[2 * i + 1] = N(interleave)(v[i], v[i + N(LANES) / 2], high);
		}
#pragma GCC unroll 16
		for (int i = 0; i < N(LANES); i++)
			v[i] = turned[i];
	}
	for (int i = 0; i < N(LANES); i++)
		*(N(loose) *)(to + i * to_row) = v[i];
}

/*
 * TO[c, r] = FROM[r, c]: a stretch of rows at a time, so that what is read of a row and
 * what is written of one is so at once; squares in registers, and what is left one by one.
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
