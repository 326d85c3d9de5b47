/*
 * The checksum of zip members, CRC-32: eight bytes at a time by tables, or, where the processor multiplies polynomials,
 * 64 bytes at a time, or 256 where its vectors have 64 bytes. Then four 16-byte remainders are folded into later bytes (Gopal et al. 2009, "Fast CRC
 * computation for generic polynomials using PCLMULQDQ instruction", Intel). The last remainder goes through the tables.
 *
 * Bits are reflected: the lowest bit of a byte is the highest power.
 * Tests: tests/unit/test_load.c
 */
#include "io/formats.h"

#include "base/checked.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

static const uint32_t polynomial = 0xedb88320u;

/* table[k][b] is the remainder of byte b followed by k zero bytes */
void zip_crc_init(struct zip_crc *tables)
{
	uint32_t(*table)[256] = tables->table;
	for (uint32_t b = 0; b < 256; b++) {
		uint32_t c = b;
		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? polynomial : 0);
		table[0][b] = c;
	}
	for (uint32_t b = 0; b < 256; b++)
		for (int k = 1; k < 8; k++)
			table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 0xff];
}

struct zip_crc *zip_crc_tables(struct arena *arena)
{
	struct zip_crc *tables = arena_alloc(arena, sizeof *tables);
	if (tables)
		zip_crc_init(tables);
	return tables;
}

/* Returns the remainder of CRC, that of earlier bytes, followed by the SIZE bytes at P. */
static uint32_t add_by_tables(const struct zip_crc *tables, uint32_t crc, const unsigned char *p, size_t size)
{
	const uint32_t(*table)[256] = tables->table;
	for (; size >= 8; size -= 8, p += 8) {
		crc ^= p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
		crc = table[7][crc & 0xff] ^ table[6][crc >> 8 & 0xff] ^ table[5][crc >> 16 & 0xff] ^ table[4][crc >> 24] ^
		      table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
	}
	while (size-- > 0)
		crc = crc >> 8 ^ table[0][(crc ^ *p++) & 0xff];
	return crc;
}

enum { VECTOR = 16, VECTORS = 4, FOLDED = VECTOR * VECTORS, WIDE = 4 * FOLDED };

#if defined(__x86_64__)
#define MULTIPLIES __attribute__((target("pclmul,sse2")))
#define WIDE_MULTIPLIES __attribute__((target("vpclmulqdq,avx512f")))

static bool processor_multiplies(void) { return __builtin_cpu_supports("pclmul"); }

static bool processor_multiplies_wide(void)
{
	return __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f");
}

/* Returns the remainder X moved by the distance that FACTORS stand for, and added to NEXT. */
MULTIPLIES static inline __m128i fold(__m128i x, __m128i factors, __m128i next)
{
	const __m128i low = _mm_clmulepi64_si128(x, factors, 0x00), high = _mm_clmulepi64_si128(x, factors, 0x11);
	return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/* Likewise for SIZE bytes, at least FOLDED and a multiple of VECTOR. */
MULTIPLIES static uint32_t add_by_folds(const struct zip_crc *tables, uint32_t crc, const unsigned char *p, size_t size)
{
	/* the remainders of x^(512+32) and x^(512-32), and of x^(128+32) and x^(128-32) */
	const __m128i far = _mm_set_epi64x(0x1c6e41596, 0x154442bd4), near = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
	const __m128i *from = (const __m128i *)(const void *)p, *const end = (const __m128i *)(const void *)(p + size);
	__m128i x[VECTORS], sum;
	unsigned char last[VECTOR];
	for (int i = 0; i < VECTORS; i++)
		x[i] = _mm_loadu_si128(from++);
	x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)crc));
	for (; end - from >= VECTORS; from += VECTORS)
#pragma GCC unroll 4
		for (int i = 0; i < VECTORS; i++)
			x[i] = fold(x[i], far, _mm_loadu_si128(from + i));
	sum = x[0];
	for (int i = 1; i < VECTORS; i++)
		sum = fold(sum, near, x[i]);
	while (from < end)
		sum = fold(sum, near, _mm_loadu_si128(from++));
	_mm_storeu_si128((__m128i *)(void *)last, sum);
	return add_by_tables(tables, 0, last, sizeof last);
}

/* Writes to REST bytes that have, after a remainder of 0, the remainder of CRC and the SIZE bytes at P, some WIDEs. */
WIDE_MULTIPLIES static void fold_wide(unsigned char rest[WIDE], uint32_t crc, const unsigned char *p, size_t size)
{
	/* the remainders of x^(2048+32) and x^(2048-32) */
	const __m512i far = _mm512_broadcast_i32x4(_mm_set_epi64x(0x1322d1430, 0x11542778a));
	__m512i x[VECTORS];
	for (int i = 0; i < VECTORS; i++)
		x[i] = _mm512_loadu_si512(p + i * WIDE / VECTORS);
	x[0] = _mm512_xor_si512(x[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
	for (size_t at = WIDE; at < size; at += WIDE)
#pragma GCC unroll 4
		for (int i = 0; i < VECTORS; i++) {
			const __m512i low = _mm512_clmulepi64_epi128(x[i], far, 0x00),
						  high = _mm512_clmulepi64_epi128(x[i], far, 0x11);
			x[i] = _mm512_xor_si512(_mm512_xor_si512(low, high), _mm512_loadu_si512(p + at + i * WIDE / VECTORS));
		}
	for (int i = 0; i < VECTORS; i++)
		_mm512_storeu_si512(rest + i * WIDE / VECTORS, x[i]);
}
#else
static bool processor_multiplies(void) { return false; }
static bool processor_multiplies_wide(void) { return false; }
#define fold_wide(rest, crc, p, size) ((void)(rest))
#define add_by_folds(tables, crc, p, size) (crc)
#endif

uint32_t zip_crc_add(const struct zip_crc *tables, uint32_t crc, const void *data, size_t size)
{
	const unsigned char *p = data;
	const size_t wide = size >= 2 * WIDE && processor_multiplies_wide() ? size / WIDE * WIDE : 0;
	crc = ~crc;
	if (wide) {
		unsigned char rest[WIDE];
		fold_wide(rest, crc, p, wide);
		crc = add_by_folds(tables, 0, rest, sizeof rest);
		p += wide;
		size -= wide;
	}
	const size_t folded = size >= FOLDED && processor_multiplies() ? size / VECTOR * VECTOR : 0;
	if (folded)
		crc = add_by_folds(tables, crc, p, folded);
	return ~add_by_tables(tables, crc, p + folded, size - folded);
}

/* Returns the remainder of the product of the polynomials A and B. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;
	for (; a; a <<= 1, b = b >> 1 ^ (b & 1 ? polynomial : 0))
		product ^= a >> 31 ? b : 0;
	return product;
}

uint32_t zip_crc_power(size_t size)
{
	uint32_t moved = UINT32_C(1) << 31, power = UINT32_C(1) << 23; /* 1; x^8, then its squares */
	for (; size > 0; size >>= 1, power = multiply(power, power))
		if (size & 1)
			moved = multiply(moved, power);
	return moved;
}

uint32_t zip_crc_move(uint32_t crc, uint32_t power) { return multiply(crc, power); }

uint32_t zip_crc_join(uint32_t first, uint32_t second, size_t size)
{
	return zip_crc_move(first, zip_crc_power(size)) ^ second;
}

int64_t zip_piece_bytes(size_t size)
{
	enum { LEAST = 1 << 20, UNIT = 4096 };
	return greater(round_up(ceil_div((int64_t)size, ZIP_PIECES), UNIT), LEAST);
}

struct shared_bytes {
	const struct zip_crc *tables;
	const char *data;
	int64_t piece;
	uint32_t crcs[ZIP_PIECES];
};

/* A team_part. */
static void checksum_piece(void *context, void *memory, int64_t begin, int64_t end)
{
	struct shared_bytes *shared = context;
	(void)memory;
	shared->crcs[begin / shared->piece] = zip_crc_add(shared->tables, 0, shared->data + begin, (size_t)(end - begin));
}

uint32_t zip_crc_add_shared(struct team *team, const struct zip_crc *tables, uint32_t crc, const void *data,
                            size_t size)
{
	struct shared_bytes shared = {.tables = tables, .data = data, .piece = zip_piece_bytes(size)};
	if (!team || (int64_t)size <= shared.piece)
		return zip_crc_add(tables, crc, data, size);
	team_run(team, (int64_t)size, shared.piece, checksum_piece, &shared);
	for (int64_t at = 0; at < (int64_t)size; at += shared.piece)
		crc = zip_crc_join(crc, shared.crcs[at / shared.piece], (size_t)lesser((int64_t)size - at, shared.piece));
	return crc;
}
