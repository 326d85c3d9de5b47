/*
 * Discrete Fourier transforms of lines side by side, for one type of one instruction set; included by
 * loops_type_template.h. kernels.h has the layout of a block of lines.
 *
 * A pass of radix R is Stockham's (Cochran et al. 1967, "What is the fast Fourier transform?"): it needs no exchange of
 * elements at the end. With n = s R m, where s is the product of the radices of earlier passes,
 *
 *     y[q + s (R p + k)] = w^(p k) sum_j x[q + s (p + m j)] exp(-2 pi i j k / R),    w = exp(-2 pi i s / n)
 *
 * No product is fused with an addition, and a lane has one line. So the bits of a line depend neither on the lines beside
 * it nor on the instruction set.
 */
enum {
	N(ABREAST) = FFT_BYTES / sizeof(REAL), /* lines of a block */
	N(FFT_ROW) = 2 * N(ABREAST),
	N(FFT_VECTORS) = FFT_BYTES / VECTOR_BYTES,
};

#define FFT_INLINE static inline __attribute__((always_inline))
#define EACH_RADIX(FIRST) _Pragma("GCC unroll 8") for (int k = (FIRST); k < radix; k++)

/* A complex number of each of some lines. */
struct N(complex) {
	N(vector) re, im;
};

FFT_INLINE struct N(complex) N(plus)(struct N(complex) a, struct N(complex) b)
{
	return (struct N(complex)){a.re + b.re, a.im + b.im};
}
FFT_INLINE struct N(complex) N(minus)(struct N(complex) a, struct N(complex) b)
{
	return (struct N(complex)){a.re - b.re, a.im - b.im};
}
FFT_INLINE struct N(complex) N(times)(struct N(complex) a, REAL re, REAL im)
{
	return (struct N(complex)){a.re * re - a.im * im, a.re * im + a.im * re};
}
FFT_INLINE struct N(complex) N(product)(struct N(complex) a, struct N(complex) b)
{
	return (struct N(complex)){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
FFT_INLINE struct N(complex) N(scaled)(struct N(complex) a, REAL by)
{
	return (struct N(complex)){a.re * by, a.im * by};
}
/* a - i b and a + i b */
FFT_INLINE struct N(complex) N(minus_i)(struct N(complex) a, struct N(complex) b)
{
	return (struct N(complex)){a.re + b.im, a.im - b.re};
}
FFT_INLINE struct N(complex) N(plus_i)(struct N(complex) a, struct N(complex) b)
{
	return (struct N(complex)){a.re - b.im, a.im + b.re};
}

FFT_INLINE void N(dft_3)(struct N(complex) z[])
{
	const REAL sine = (REAL)0x1.bb67ae8584caap-1;
	const struct N(complex) sum = N(plus)(z[1], z[2]), difference = N(scaled)(N(minus)(z[1], z[2]), sine);
	const struct N(complex) middle = N(minus)(z[0], N(scaled)(sum, (REAL)0.5));
	z[0] = N(plus)(z[0], sum);
	z[1] = N(minus_i)(middle, difference);
	z[2] = N(plus_i)(middle, difference);
}

/* Of elements STEP apart, from Z on. */
FFT_INLINE void N(dft_4)(struct N(complex) *z, const int step)
{
	const struct N(complex) even = N(plus)(z[0], z[2 * step]), even_less = N(minus)(z[0], z[2 * step]);
	const struct N(complex) odd = N(plus)(z[step], z[3 * step]), odd_less = N(minus)(z[step], z[3 * step]);
	z[0] = N(plus)(even, odd);
	z[step] = N(minus_i)(even_less, odd_less);
	z[2 * step] = N(minus)(even, odd);
	z[3 * step] = N(plus_i)(even_less, odd_less);
}

FFT_INLINE void N(dft_5)(struct N(complex) z[])
{
	const REAL c1 = (REAL)0x1.3c6ef372fe950p-2, c2 = (REAL)-0x1.9e3779b97f4a8p-1;
	const REAL s1 = (REAL)0x1.e6f0e134454ffp-1, s2 = (REAL)0x1.2cf2304755a5ep-1;
	const struct N(complex) p1 = N(plus)(z[1], z[4]), p2 = N(plus)(z[2], z[3]);
	const struct N(complex) d1 = N(minus)(z[1], z[4]), d2 = N(minus)(z[2], z[3]);
	const struct N(complex) m1 = N(plus)(z[0], N(plus)(N(scaled)(p1, c1), N(scaled)(p2, c2)));
	const struct N(complex) m2 = N(plus)(z[0], N(plus)(N(scaled)(p1, c2), N(scaled)(p2, c1)));
	const struct N(complex) e1 = N(plus)(N(scaled)(d1, s1), N(scaled)(d2, s2));
	const struct N(complex) e2 = N(minus)(N(scaled)(d1, s2), N(scaled)(d2, s1));
	z[0] = N(plus)(z[0], N(plus)(p1, p2));
	z[1] = N(minus_i)(m1, e1);
	z[2] = N(minus_i)(m2, e2);
	z[3] = N(plus_i)(m2, e2);
	z[4] = N(plus_i)(m1, e1);
}

FFT_INLINE void N(dft_8)(struct N(complex) z[])
{
	const REAL half = (REAL)0x1.6a09e667f3bcdp-1;
	N(dft_4)(z, 2);
	N(dft_4)(z + 1, 2);
	const struct N(complex) w1 = {(z[3].re + z[3].im) * half, (z[3].im - z[3].re) * half};
	const struct N(complex) w3 = {(z[7].im - z[7].re) * half, (z[7].re + z[7].im) * -half};
	const struct N(complex) e0 = z[0], e1 = z[2], e2 = z[4], e3 = z[6], o0 = z[1], o2 = z[5];
	z[0] = N(plus)(e0, o0);
	z[4] = N(minus)(e0, o0);
	z[1] = N(plus)(e1, w1);
	z[5] = N(minus)(e1, w1);
	z[2] = N(minus_i)(e2, o2);
	z[6] = N(plus_i)(e2, o2);
	z[3] = N(plus)(e3, w3);
	z[7] = N(minus)(e3, w3);
}

/* Of an odd RADIX. Element STEP * k of ROOTS is exp(-2 pi i k / RADIX). */
static void N(dft_odd)(struct N(complex) z[], int radix, const REAL *roots, int64_t step)
{
	const int half = radix / 2;
	struct N(complex) sums[FFT_MOST_RADIX / 2 + 1], differences[FFT_MOST_RADIX / 2 + 1], first = z[0];
	for (int k = 1; k <= half; k++) {
		sums[k] = N(plus)(z[k], z[radix - k]);
		differences[k] = N(minus)(z[k], z[radix - k]);
		z[0] = N(plus)(z[0], sums[k]);
	}
	for (int j = 1; j <= half; j++) {
		struct N(complex) even = first, odd = {0};
		for (int k = 1; k <= half; k++) {
			const REAL *const root = roots + 2 * step * (j * k % radix);
			even = N(plus)(even, N(scaled)(sums[k], root[0]));
			odd = N(minus)(odd, N(scaled)(differences[k], root[1]));
		}
		z[j] = N(minus_i)(even, odd);
		z[radix - j] = N(plus_i)(even, odd);
	}
}

struct N(fft_pass) {
	const REAL *x;
	REAL *y;
	int64_t x_row, x_imaginary, y_real, y_imaginary; /* in elements */
	int64_t n, s, m;
	const REAL *roots, *turns, *by; /* the last two of struct fft_block */
	REAL scale;
	int radix;
};

FFT_INLINE void N(dft)(struct N(complex) z[], const int radix, const struct N(fft_pass) *f)
{
	switch (radix) {
	case 1:
		break;
	case 2: {
		const struct N(complex) first = z[0];
		z[0] = N(plus)(first, z[1]);
		z[1] = N(minus)(first, z[1]);
		break;
	}
	case 3:
		N(dft_3)(z);
		break;
	case 4:
		N(dft_4)(z, 1);
		break;
	case 5:
		N(dft_5)(z);
		break;
	case 8:
		N(dft_8)(z);
		break;
	default:
		N(dft_odd)(z, radix, f->roots, f->n / radix);
	}
}

/* What becomes of the elements of a pass: nothing; powers of w multiply them; or, in the last pass, SCALE or BY does. */
enum N(fft_end) { N(FFT_PLAIN), N(FFT_TURNED), N(FFT_SCALED), N(FFT_BY) };

/* Computes those elements of a pass that have this p. */
FFT_INLINE void N(fft_part)(const struct N(fft_pass) *f, int64_t p, const int radix, const enum N(fft_end) end)
{
	const int64_t apart = f->s * f->m * f->x_row, y_apart = f->s * N(FFT_ROW);
	REAL w[2 * FFT_MOST_RADIX];
	if (end == N(FFT_TURNED))
		EACH_RADIX(1)
		{
			w[2 * k] = f->roots[2 * (k * p * f->s)];
			w[2 * k + 1] = f->roots[2 * (k * p * f->s) + 1];
		}
	for (int64_t q = 0; q < f->s; q++) {
		const REAL *const x = f->x + (q + f->s * p) * f->x_row;
		REAL *const y = f->y + (q + f->s * radix * p) * N(FFT_ROW);
		for (int c = 0; c < N(FFT_VECTORS) * N(LANES); c += N(LANES)) {
			struct N(complex) z[FFT_MOST_RADIX];
			EACH_RADIX(0)
			{
				z[k].re = *(const N(vector) *)(x + k * apart + c);
				z[k].im = *(const N(vector) *)(x + k * apart + f->x_imaginary + c);
			}
			N(dft)(z, radix, f);
			EACH_RADIX(0)
			{
				struct N(complex) out = z[k];
				if (end == N(FFT_TURNED) && k > 0)
					out = N(times)(out, w[2 * k], w[2 * k + 1]);
				if (end == N(FFT_SCALED))
					out = N(scaled)(out, f->scale);
				if (end == N(FFT_BY)) {
					const int64_t row = q + k * f->s;
					const REAL *const by = f->by + row * N(FFT_ROW) + c;
					out = N(times)(out, f->turns[2 * row], f->turns[2 * row + 1]);
					out = N(product)(out, (struct N(complex)){*(const N(vector) *)by, *(const N(vector) *)(by + N(ABREAST))});
				}
				*(N(vector) *)(y + k * y_apart + f->y_real + c) = out.re;
				*(N(vector) *)(y + k * y_apart + f->y_imaginary + c) = out.im;
			}
		}
	}
}

FFT_INLINE void N(fft_parts)(const struct N(fft_pass) *f, const int radix)
{
	if (f->m == 1 && f->by)
		N(fft_part)(f, 0, radix, N(FFT_BY));
	else if (f->m == 1)
		N(fft_part)(f, 0, radix, N(FFT_SCALED));
	else
		N(fft_part)(f, 0, radix, N(FFT_PLAIN));
	for (int64_t p = 1; p < f->m; p++)
		N(fft_part)(f, p, radix, N(FFT_TURNED));
}

static void N(fft_any)(const struct N(fft_pass) *f) { N(fft_parts)(f, f->radix); }
static void N(fft_2)(const struct N(fft_pass) *f) { N(fft_parts)(f, 2); }
static void N(fft_3)(const struct N(fft_pass) *f) { N(fft_parts)(f, 3); }
static void N(fft_4)(const struct N(fft_pass) *f) { N(fft_parts)(f, 4); }
static void N(fft_5)(const struct N(fft_pass) *f) { N(fft_parts)(f, 5); }
static void N(fft_8)(const struct N(fft_pass) *f) { N(fft_parts)(f, 8); }

static void *N(fft)(const struct fft_block *block)
{
	static void (*const passes[])(const struct N(fft_pass) *f) = {
		[2] = N(fft_2), [3] = N(fft_3), [4] = N(fft_4), [5] = N(fft_5), [8] = N(fft_8)};
	const struct fft_radices *const radices = block->radices;
	struct N(fft_pass) f = {.x = block->from.real,
	                        .x_row = block->from.row,
	                        .x_imaginary = block->from.imaginary,
	                        .y_imaginary = N(ABREAST),
	                        .n = radices->n,
	                        .s = 1,
	                        .m = radices->n,
	                        .roots = radices->roots,
	                        .turns = block->turns,
	                        .by = block->by,
	                        .scale = (REAL)block->scale};
	for (int i = 0; i < radices->count; i++) {
		f.radix = radices->radix[i];
		f.m /= f.radix;
		f.y = block->work[(i + 1) % 2];
		if (i + 1 == radices->count && block->swapped) {
			f.y_real = N(ABREAST);
			f.y_imaginary = 0;
		}
		if (f.radix < (int)(sizeof passes / sizeof *passes) && passes[f.radix])
			passes[f.radix](&f);
		else
			N(fft_any)(&f);
		f.s *= f.radix;
		f.x = f.y;
		f.x_row = N(FFT_ROW);
		f.x_imaginary = N(ABREAST);
	}
	return block->work[radices->count % 2];
}

/* Pairs as vectors of real and of imaginary parts. The compiler must not make these: it fuses products with sums there. */
FFT_INLINE struct N(complex) N(load_pairs)(const REAL *x)
{
	N(lanes) even, odd;
	for (int i = 0; i < N(LANES); i++) {
		even[i] = 2 * i;
		odd[i] = 2 * i + 1;
	}
	const N(vector) low = *(const N(loose) *)x, high = *(const N(loose) *)(x + N(LANES));
	return (struct N(complex)){N(interleave)(low, high, even), N(interleave)(low, high, odd)};
}
FFT_INLINE void N(store_pairs)(REAL *y, struct N(complex) z)
{
	N(lanes) low, high;
	for (int i = 0; i < N(LANES); i++) {
		low[i] = i / 2 + i % 2 * N(LANES);
		high[i] = low[i] + N(LANES) / 2;
	}
	*(N(loose) *)y = N(interleave)(z.re, z.im, low);
	*(N(loose) *)(y + N(LANES)) = N(interleave)(z.re, z.im, high);
}
/* Load or store COUNT pairs, at most LANES. */
FFT_INLINE struct N(complex) N(load_some)(const REAL *x, int64_t count)
{
	REAL pairs[2 * N(LANES)] = {0};
	if (count == N(LANES))
		return N(load_pairs)(x);
	memcpy(pairs, x, (size_t)count * 2 * sizeof *x);
	return N(load_pairs)(pairs);
}
FFT_INLINE void N(store_some)(REAL *y, struct N(complex) z, int64_t count)
{
	REAL pairs[2 * N(LANES)];
	if (count == N(LANES)) {
		N(store_pairs)(y, z);
		return;
	}
	N(store_pairs)(pairs, z);
	memcpy(y, pairs, (size_t)count * 2 * sizeof *y);
}

/* Reads COUNT pairs of each of ROWS rows. */
static void N(fft_take)(void *block, const void *from, int64_t row, size_t rows, int count, bool swapped)
{
	REAL *re = (REAL *)block + (swapped ? N(ABREAST) : 0), *im = (REAL *)block + (swapped ? 0 : N(ABREAST));
	const REAL *x = from;
	for (size_t r = 0; r < rows; r++, x += row, re += N(FFT_ROW), im += N(FFT_ROW)) {
		if (count < N(ABREAST)) {
			for (int i = 0; i < N(ABREAST); i++) {
				re[i] = i < count ? x[2 * i] : 0;
				im[i] = i < count ? x[2 * i + 1] : 0;
			}
			continue;
		}
#pragma GCC unroll 4
		for (int c = 0; c < N(ABREAST); c += N(LANES)) {
			const struct N(complex) z = N(load_pairs)(x + 2 * c);
			*(N(vector) *)(re + c) = z.re;
			*(N(vector) *)(im + c) = z.im;
		}
	}
}

static void N(fft_put)(void *to, int64_t row, const void *block, size_t rows, int count, bool swapped)
{
	const REAL *re = (const REAL *)block + (swapped ? N(ABREAST) : 0);
	const REAL *im = (const REAL *)block + (swapped ? 0 : N(ABREAST));
	REAL *y = to;
	for (size_t r = 0; r < rows; r++, y += row, re += N(FFT_ROW), im += N(FFT_ROW)) {
		if (count < N(ABREAST)) {
			for (int i = 0; i < count; i++) {
				y[2 * i] = re[i];
				y[2 * i + 1] = im[i];
			}
			continue;
		}
#pragma GCC unroll 4
		for (int c = 0; c < N(ABREAST); c += N(LANES)) {
			const struct N(complex) z = {*(const N(vector) *)(re + c), *(const N(vector) *)(im + c)};
			N(store_pairs)(y + 2 * c, z);
		}
	}
}

/*
 * The 2 H numbers of a real line are the parts of H complex ones (Sorensen et al. 1987, "Real-valued fast Fourier transform
 * algorithms"). With w = exp(-pi i / H), E and O the transforms of the even and of the odd numbers,
 *
 *     E[k] = (Z[k] + conj Z[H-k]) / 2,    O[k] = (Z[k] - conj Z[H-k]) / 2i,    X[k] = E[k] + w^k O[k]
 *
 * X[H-k] is the conjugate of E[k] - w^k O[k]. Here A is number k, B number H - k, and W is w^k times HALF.
 */
FFT_INLINE void N(real_pair)(struct N(complex) *a, struct N(complex) *b, struct N(complex) w, REAL half)
{
	const struct N(complex) even = {(a->re + b->re) * half, (a->im - b->im) * half};
	const struct N(complex) odd = {a->im + b->im, b->re - a->re};
	const struct N(complex) turned = N(product)(odd, w), less = N(minus)(even, turned);
	*a = N(plus)(even, turned);
	*b = (struct N(complex)){less.re, -less.im};
}
/* The inverse: Z[k] = (X[k] + conj X[H-k]) + i conj(w^k) (X[k] - conj X[H-k]), times HALF. */
FFT_INLINE void N(half_pair)(struct N(complex) *a, struct N(complex) *b, struct N(complex) w, REAL half)
{
	const struct N(complex) sum = {(a->re + b->re) * half, (a->im - b->im) * half};
	const struct N(complex) difference = {a->re - b->re, a->im + b->im};
	const struct N(complex) turned = N(product)(difference, (struct N(complex)){w.im, w.re});
	const struct N(complex) less = N(minus)(sum, turned);
	*a = N(plus)(sum, turned);
	*b = (struct N(complex)){less.re, -less.im};
}

/* Number 0, and number H of X, of lines side by side. The imaginary parts lie ABREAST elements behind the real ones. */
FFT_INLINE void N(real_ends)(REAL *z, int64_t h, const int abreast)
{
	for (int i = 0; i < abreast; i++) {
		const REAL even = z[i], odd = z[i + abreast];
		z[i] = even + odd;
		z[2 * abreast * h + i] = even - odd;
		z[i + abreast] = z[2 * abreast * h + i + abreast] = 0;
	}
}
FFT_INLINE void N(half_ends)(REAL *z, const REAL *x, int64_t h, const int abreast)
{
	for (int i = 0; i < abreast; i++) {
		const REAL first = x[i], last = x[2 * abreast * h + i];
		z[i] = first + last;
		z[i + abreast] = first - last;
	}
}

/* Numbers 1 to H - 1 of a block. */
FFT_INLINE void N(pair_rows)(REAL *z, const REAL *x, int64_t h, const REAL *roots, REAL half, const bool back)
{
	for (int64_t k = 1; k <= h / 2; k++) {
		const int64_t at = k * N(FFT_ROW), mirrored = (h - k) * N(FFT_ROW);
		const struct N(complex) w = {roots[2 * k] * half - (N(vector)){0}, roots[2 * k + 1] * half - (N(vector)){0}};
		for (int c = 0; c < N(ABREAST); c += N(LANES)) {
			struct N(complex) a, b;
			a.re = *(const N(vector) *)(x + at + c);
			a.im = *(const N(vector) *)(x + at + N(ABREAST) + c);
			b.re = *(const N(vector) *)(x + mirrored + c);
			b.im = *(const N(vector) *)(x + mirrored + N(ABREAST) + c);
			if (back)
				N(half_pair)(&a, &b, w, half);
			else
				N(real_pair)(&a, &b, w, half);
			*(N(vector) *)(z + at + c) = a.re;
			*(N(vector) *)(z + at + N(ABREAST) + c) = a.im;
			*(N(vector) *)(z + mirrored + c) = b.re;
			*(N(vector) *)(z + mirrored + N(ABREAST) + c) = b.im;
		}
	}
}

/* Returns the first COUNT lanes of Z in reverse order. The others have any values. */
FFT_INLINE struct N(complex) N(reversed)(struct N(complex) z, int64_t count)
{
	N(lanes) order;
	for (int i = 0; i < N(LANES); i++)
		order[i] = (LANE_INTEGER)(count - 1 - i) & (N(LANES) - 1);
	return (struct N(complex)){N(interleave)(z.re, z.re, order), N(interleave)(z.im, z.im, order)};
}

/* Numbers 1 to H - 1 of a line. */
FFT_INLINE void N(pair_numbers)(REAL *z, const REAL *x, int64_t h, const REAL *roots, REAL half, const bool back)
{
	for (int64_t k = 1; k <= h / 2; k += N(LANES)) {
		const int64_t left = h / 2 - k + 1, count = left < N(LANES) ? left : N(LANES), mirrored = h - k - count + 1;
		struct N(complex) a = N(load_some)(x + 2 * k, count), w = N(load_some)(roots + 2 * k, count);
		struct N(complex) b = N(reversed)(N(load_some)(x + 2 * mirrored, count), count);
		if (back)
			N(half_pair)(&a, &b, N(scaled)(w, half), half);
		else
			N(real_pair)(&a, &b, N(scaled)(w, half), half);
		N(store_some)(z + 2 * k, a, count);
		N(store_some)(z + 2 * mirrored, N(reversed)(b, count), count);
	}
}

static void N(fft_real)(void *z, int64_t h, const void *roots, double half, bool block)
{
	if (block) {
		N(real_ends)(z, h, N(ABREAST));
		N(pair_rows)(z, z, h, roots, (REAL)half, false);
	} else {
		N(real_ends)(z, h, 1);
		N(pair_numbers)(z, z, h, roots, (REAL)half, false);
	}
}
static void N(fft_half)(void *z, const void *x, int64_t h, const void *roots, double half, bool block)
{
	if (block) {
		N(half_ends)(z, x, h, N(ABREAST));
		N(pair_rows)(z, x, h, roots, (REAL)half, true);
	} else {
		N(half_ends)(z, x, h, 1);
		N(pair_numbers)(z, x, h, roots, (REAL)half, true);
	}
}

/* Z[0] becomes real, and Z[n - k] the conjugate of Z[k], for 0 < k < n / 2. */
FFT_INLINE void N(mirror)(REAL *z, int64_t n, const int lines)
{
	for (int i = 0; i < lines; i++)
		z[lines + i] = 0;
	for (int64_t k = 1; 2 * k < n; k++) {
		const REAL *const a = z + 2 * lines * k;
		REAL *const b = z + 2 * lines * (n - k);
		_Pragma("GCC ivdep") for (int i = 0; i < lines; i++)
		{
			b[i] = a[i];
			b[lines + i] = -a[lines + i];
		}
	}
}
static void N(fft_mirror)(void *z, int64_t n, bool block)
{
	if (block)
		N(mirror)(z, n, N(ABREAST));
	else
		N(mirror)(z, n, 1);
}

static void N(multiply_pairs)(void *out, const void *v, const void *a, bool conjugate, double scale, size_t n)
{
	const REAL *x = v, *w = a;
	const REAL sign = conjugate ? -1 : 1;
	REAL *y = out;
	for (size_t i = 0; i < n; i += N(LANES), x += 2 * N(LANES), w += 2 * N(LANES), y += 2 * N(LANES)) {
		const int64_t count = n - i < N(LANES) ? (int64_t)(n - i) : N(LANES);
		struct N(complex) by = N(load_some)(w, count);
		by.im *= sign;
		N(store_some)(y, N(scaled)(N(product)(N(load_some)(x, count), by), (REAL)scale), count);
	}
}

#undef EACH_RADIX
#undef FFT_INLINE
