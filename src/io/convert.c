/*
 * Conversions between file types and computing types. The conversions of bf16 and doubles run in blocks of a constant
 * length, which the compiler vectorises. The conversions of f16 have branches; they use the processor's instructions
 * (F16C) where it has them, and give the same bits elsewhere.
 * Tests: tests/unit/test_npy.c, tests/unit/test_text.c
 */
#include "io/array.h"

#include <math.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/system.h"

static float bits_to_float(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof value);
	return value;
}

static uint32_t float_to_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof bits);
	return bits;
}

void convert_f16_to_f32_plain(float *to, const uint16_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t h = from[i], sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
		/* A denormal is a whole multiple of 2^-24. No denormal float is made: it would be slow, or flushed to 0. */
		uint32_t small = float_to_bits((float)(int32_t)rest * 0x1p-24f);
		uint32_t normal = (rest << 13) + (112u << 23), special = 0x7f800000u | rest << 13;
		special |= rest > 0x7c00u ? 0x400000u : 0; /* a NaN becomes a quiet one */
		uint32_t bits = rest < 0x400u ? small : rest < 0x7c00u ? normal : special;
		to[i] = bits_to_float(sign | bits);
	}
}

void convert_f32_to_f16_plain(uint16_t *to, const float *from, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t bits = float_to_bits(from[i]), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu, half;
		if (rest > 0x7f800000u)
			half = 0x7e00u | (rest >> 13 & 0x1ffu);
		else if (rest >= 0x477ff000u)
			half = 0x7c00u;          /* 65520 and above round to infinity */
		else if (rest < 0x38800000u) /* a denormal: adding 0.5 rounds at the place of its last bit */
			half = float_to_bits(bits_to_float(rest) + 0.5f) - 0x3f000000u;
		else
			half = (rest + 0xfffu + (rest >> 13 & 1) - 0x38000000u) >> 13;
		to[i] = (uint16_t)(sign | half);
	}
}

#if defined(__x86_64__)
#define F16C __attribute__((target("avx,f16c")))
enum { LANES = 8 };

/* Converts whole vectors. Returns the number of their elements. */
F16C static size_t f16_to_f32_by_lanes(float *to, const uint16_t *from, size_t count)
{
	size_t i = 0;
	for (; i + LANES <= count; i += LANES)
		_mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
	return i;
}

F16C static size_t f32_to_f16_by_lanes(uint16_t *to, const float *from, size_t count)
{
	size_t i = 0;
	for (; i + LANES <= count; i += LANES)
		_mm_storeu_si128((__m128i *)(void *)(to + i),
		                 _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
	return i;
}
#else
#define f16_to_f32_by_lanes(to, from, count) 0
#define f32_to_f16_by_lanes(to, from, count) 0
#endif

void convert_f16_to_f32(float *to, const uint16_t *from, size_t count)
{
	const size_t done = processor_has_f16c() ? f16_to_f32_by_lanes(to, from, count) : 0;
	convert_f16_to_f32_plain(to + done, from + done, count - done);
}

void convert_f32_to_f16(uint16_t *to, const float *from, size_t count)
{
	const size_t done = processor_has_f16c() ? f32_to_f16_by_lanes(to, from, count) : 0;
	convert_f32_to_f16_plain(to + done, from + done, count - done);
}

/* Defines NAME, which converts COUNT elements by ONE. */
#define BY_BLOCKS(NAME, TO, FROM, ONE)                                                                                 \
	static inline void NAME##_block(TO *restrict to, const FROM *restrict from)                                        \
	{                                                                                                                  \
		for (size_t i = 0; i < BLOCK; i++)                                                                             \
			to[i] = ONE(from[i]);                                                                                      \
	}                                                                                                                  \
	void NAME(TO *to, const FROM *from, size_t count)                                                                  \
	{                                                                                                                  \
		size_t i = 0;                                                                                                  \
		for (; i + BLOCK <= count; i += BLOCK)                                                                         \
			NAME##_block(to + i, from + i);                                                                            \
		for (; i < count; i++)                                                                                         \
			to[i] = ONE(from[i]);                                                                                      \
	}
enum { BLOCK = 16 };

static inline float f64_to_f32_odd(double value)
{
	const float nearest = (float)value;
	const double exact = value < 0 ? -value : value;
	const uint32_t bits = float_to_bits(nearest), above = (double)bits_to_float(bits & 0x7fffffffu) > exact;
	return bits_to_float((bits - above) | (nearest < value || nearest > value));
}

static inline float bf16_to_f32(uint16_t value) { return bits_to_float((uint32_t)value << 16); }

static inline uint16_t f32_to_bf16(float value)
{
	const uint32_t bits = float_to_bits(value), rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
	return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
}

BY_BLOCKS(convert_f64_to_f32_odd, float, double, f64_to_f32_odd)
BY_BLOCKS(convert_bf16_to_f32, float, uint16_t, bf16_to_f32)
BY_BLOCKS(convert_f32_to_bf16, uint16_t, float, f32_to_bf16)
#undef BY_BLOCKS

#define SWAP(T, REVERSED)                                                                                              \
	for (unsigned char *p = data, *end = p + count * sizeof(T); p < end; p += sizeof(T)) {                             \
		T value;                                                                                                       \
		memcpy(&value, p, sizeof value);                                                                               \
		value = REVERSED(value);                                                                                       \
		memcpy(p, &value, sizeof value);                                                                               \
	}
void convert_swap(void *data, size_t size, size_t count)
{
	if (size == 2)
		SWAP(uint16_t, __builtin_bswap16)
	else if (size == 4)
		SWAP(uint32_t, __builtin_bswap32)
	else if (size == 8)
		SWAP(uint64_t, __builtin_bswap64)
}
#undef SWAP

/* Defines widen_NAME, which converts values of type T to floats or doubles. VALUE is an expression of x[i]. */
#define WIDEN(NAME, T, VALUE)                                                                                          \
	static void widen_##NAME(void *to, enum dtype compute, const void *from, size_t count)                             \
	{                                                                                                                  \
		const T *x = from;                                                                                             \
		if (compute == DTYPE_F32)                                                                                      \
			for (size_t i = 0; i < count; i++)                                                                         \
				((float *)to)[i] = (float)(VALUE);                                                                     \
		else                                                                                                           \
			for (size_t i = 0; i < count; i++)                                                                         \
				((double *)to)[i] = (double)(VALUE);                                                                   \
	}
WIDEN(f32, float, x[i])
WIDEN(f64, double, x[i])
WIDEN(i8, int8_t, x[i])
WIDEN(i16, int16_t, x[i])
WIDEN(i32, int32_t, x[i])
WIDEN(i64, int64_t, x[i])
WIDEN(u8, uint8_t, x[i])
WIDEN(u16, uint16_t, x[i])
WIDEN(u32, uint32_t, x[i])
WIDEN(u64, uint64_t, x[i])
WIDEN(bool, unsigned char, x[i] != 0)
#undef WIDEN

enum { PIECE = 512 };

void convert_from_file(void *to, enum dtype compute, const void *from, enum dtype dtype, size_t count)
{
	static void (*const table[])(void *, enum dtype, const void *, size_t) = {
		[DTYPE_F32] = widen_f32, [DTYPE_F64] = widen_f64, [DTYPE_I8] = widen_i8,    [DTYPE_I16] = widen_i16,
		[DTYPE_I32] = widen_i32, [DTYPE_I64] = widen_i64, [DTYPE_U8] = widen_u8,    [DTYPE_U16] = widen_u16,
		[DTYPE_U32] = widen_u32, [DTYPE_U64] = widen_u64, [DTYPE_BOOL] = widen_bool};
	float piece[PIECE];
	if (dtype > DTYPE_BF16) {
		table[dtype](to, compute, from, count);
		return;
	}
	void (*const widen)(float *, const uint16_t *, size_t) =
		dtype == DTYPE_F16 ? convert_f16_to_f32 : convert_bf16_to_f32;
	if (compute == DTYPE_F32) {
		widen(to, from, count);
		return;
	}
	for (size_t done = 0; done < count; done += PIECE) {
		const size_t n = count - done < PIECE ? count - done : PIECE;
		widen(piece, (const uint16_t *)from + done, n);
		widen_f32((double *)to + done, DTYPE_F64, piece, n);
	}
}

double value_cut(double value, enum dtype dtype)
{
	/* The most of 64 bits are the greatest doubles below 2^63 and 2^64. */
	static const struct {
		double from, to;
	} ranges[] = {[DTYPE_I8] = {-0x1p7, 0x1p7 - 1},    [DTYPE_I16] = {-0x1p15, 0x1p15 - 1},
	              [DTYPE_I32] = {-0x1p31, 0x1p31 - 1}, [DTYPE_I64] = {-0x1p63, 0x1.fffffffffffffp62},
	              [DTYPE_U8] = {0, 0x1p8 - 1},         [DTYPE_U16] = {0, 0x1p16 - 1},
	              [DTYPE_U32] = {0, 0x1p32 - 1},       [DTYPE_U64] = {0, 0x1.fffffffffffffp63}};
	if (dtype == DTYPE_BOOL)
		return value != 0;
	if (isnan(value))
		return 0;
	return value < ranges[dtype].from ? ranges[dtype].from
	       : value > ranges[dtype].to ? ranges[dtype].to
	                                  : trunc(value) + 0.0;
}

/* Defines narrow_NAME, which makes elements of type T of floats or doubles. */
#define NARROW(NAME, T, DTYPE)                                                                                         \
	static void narrow_##NAME(void *to, const void *from, enum dtype compute, size_t count)                            \
	{                                                                                                                  \
		T *x = to;                                                                                                     \
		if (compute == DTYPE_F32)                                                                                      \
			for (size_t i = 0; i < count; i++)                                                                         \
				x[i] = (T)value_cut((double)((const float *)from)[i], DTYPE);                                          \
		else                                                                                                           \
			for (size_t i = 0; i < count; i++)                                                                         \
				x[i] = (T)value_cut(((const double *)from)[i], DTYPE);                                                 \
	}
NARROW(i8, int8_t, DTYPE_I8)
NARROW(i16, int16_t, DTYPE_I16)
NARROW(i32, int32_t, DTYPE_I32)
NARROW(i64, int64_t, DTYPE_I64)
NARROW(u8, uint8_t, DTYPE_U8)
NARROW(u16, uint16_t, DTYPE_U16)
NARROW(u32, uint32_t, DTYPE_U32)
NARROW(u64, uint64_t, DTYPE_U64)
NARROW(bool, unsigned char, DTYPE_BOOL)
#undef NARROW

void convert_to_file(void *to, enum dtype dtype, const void *from, enum dtype compute, size_t count)
{
	static void (*const table[])(void *, const void *, enum dtype, size_t) = {
		[DTYPE_I8] = narrow_i8,   [DTYPE_I16] = narrow_i16, [DTYPE_I32] = narrow_i32,
		[DTYPE_I64] = narrow_i64, [DTYPE_U8] = narrow_u8,   [DTYPE_U16] = narrow_u16,
		[DTYPE_U32] = narrow_u32, [DTYPE_U64] = narrow_u64, [DTYPE_BOOL] = narrow_bool};
	float piece[PIECE];
	if (dtype_is_integer(dtype)) {
		table[dtype](to, from, compute, count);
		return;
	}
	if (dtype == DTYPE_F32 || dtype == DTYPE_F64) {
		(compute == DTYPE_F32 ? widen_f32 : widen_f64)(to, dtype, from, count);
		return;
	}
	void (*const narrow)(uint16_t *, const float *, size_t) =
		dtype == DTYPE_F16 ? convert_f32_to_f16 : convert_f32_to_bf16;
	if (compute == DTYPE_F32) {
		narrow(to, from, count);
		return;
	}
	for (size_t done = 0; done < count; done += PIECE) {
		const size_t n = count - done < PIECE ? count - done : PIECE;
		convert_f64_to_f32_odd(piece, (const double *)from + done, n);
		narrow((uint16_t *)to + done, piece, n);
	}
}

/* Halves are rounded to nearest even. For integers a fraction is cut off, as casts do in C and NumPy; no -0 stays. */
void values_round(void *values, enum dtype held, size_t count, enum dtype dtype)
{
	uint16_t half[PIECE];
	if (dtype < DTYPE_F32)
		for (size_t done = 0; done < count; done += PIECE) {
			const size_t n = count - done < PIECE ? count - done : PIECE;
			void *piece = (char *)values + done * dtype_size(held);
			convert_to_file(half, dtype, piece, held, n);
			convert_from_file(piece, held, half, dtype, n);
		}
	for (size_t i = 0; dtype > DTYPE_F64 && i < count; i++) {
		const double value = held == DTYPE_F32 ? (double)((float *)values)[i] : ((double *)values)[i];
		const double rounded = dtype == DTYPE_BOOL ? value != 0 : trunc(value) + 0.0;
		if (held == DTYPE_F32)
			((float *)values)[i] = (float)rounded;
		else
			((double *)values)[i] = rounded;
	}
}
