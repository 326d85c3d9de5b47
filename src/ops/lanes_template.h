/*
 * Vectors as wide as the registers of one instruction set, for one type, and the
 * transposition of matrices by them; included by loops_template.h.
 */
enum { N(LANES) = VECTOR_BYTES / sizeof(REAL) };

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

/*
 * Transposes a square of LANES by LANES. Interleaving the two halves of the rows
 * rotates the bits of an element's index by one. log2(LANES) such rounds exchange
 * the bits of its row with those of its column.
 */
static void N(transpose_square)(REAL *to, int64_t to_row, const REAL *from, int64_t from_row)
{
	N(lanes) low, high;
	for (int i = 0; i < N(LANES); i++) {
		low[i] = i / 2 + i % 2 * N(LANES);
		high[i] = low[i] + N(LANES) / 2;
	}
	N(vector) v[N(LANES)], mixed_rows[N(LANES)];
	for (int i = 0; i < N(LANES); i++)
		v[i] = *(const N(loose) *)(from + i * from_row);
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

/*
 * TO[c, r] = FROM[r, c]: STRETCH rows at a time, so that reads and writes use whole cache
 * lines; squares in registers, and the edges element by element.
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
