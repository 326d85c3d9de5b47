/* Between file types and computing types, element by element; loops that vectorise. */
#include "io/array.h"

#include <string.h>

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

void convert_f16_to_f32(float *to, const uint16_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t h = from[i], sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
		/* A denormal is a whole number of 2^-24; no denormal float is made, which would be slow or flushed. */
		uint32_t small = float_to_bits((float)(int32_t)rest * 0x1p-24f);
		uint32_t normal = (rest << 13) + (112u << 23), special = 0x7f800000u | rest << 13;
		uint32_t bits = rest < 0x400u ? small : rest < 0x7c00u ? normal : special;
		to[i] = bits_to_float(sign | bits);
	}
}

void convert_f32_to_f16(uint16_t *to, const float *from, size_t count)
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

void convert_f64_to_f32_odd(float *to, const double *from, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const float nearest = (float)from[i];
		const double exact = from[i] < 0 ? -from[i] : from[i];
		const uint32_t bits = float_to_bits(nearest), above = (double)bits_to_float(bits & 0x7fffffffu) > exact;
		to[i] = bits_to_float((bits - above) | (nearest < from[i] || nearest > from[i]));
	}
}

void convert_bf16_to_f32(float *to, const uint16_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] = bits_to_float((uint32_t)from[i] << 16);
}

void convert_f32_to_bf16(uint16_t *to, const float *from, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint32_t bits = float_to_bits(from[i]);
		uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
		to[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x40u : rounded);
	}
}

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
