/* The values of zeros, ones, eye, full, normal and uniform are the same on every machine and in every run. */
#include "exec/init.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

bool init_needs_type(enum init_kind kind) { return kind >= INIT_ZEROS; }

/* Ten rounds of Philox 4x32; the constants are the paper's. */
static void philox(const uint32_t key[2], uint64_t counter, uint32_t out[4])
{
	uint32_t k0 = key[0], k1 = key[1];
	uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0;
	for (int round = 0; round < 10; round++) {
		uint64_t p0 = (uint64_t)0xD2511F53 * c0, p1 = (uint64_t)0xCD9E8D57 * c2;
		uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c1 = (uint32_t)p1;
		c3 = (uint32_t)p0;
		c0 = n0;
		c2 = n2;
		k0 += 0x9E3779B9;
		k1 += 0xBB67AE85;
	}
	out[0] = c0;
	out[1] = c1;
	out[2] = c2;
	out[3] = c3;
}

static double unit(uint32_t low, uint32_t high) { return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53; }

/* Writes COUNT random elements from element FIRST on; FIRST is even. */
static void fill_random(const struct init *init, size_t first, size_t count, double *values)
{
	bool normal = init->kind == INIT_NORMAL;
	uint64_t seed = (uint64_t)(int64_t)init->values[normal ? 1 : 2];
	const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
	for (size_t i = 0; i < count; i += 2) {
		uint32_t bits[4];
		philox(key, (first + i) / 2, bits);
		double pair[2] = {unit(bits[0], bits[1]), unit(bits[2], bits[3])};
		if (normal) {
			/* 1 - u is in (0, 1], where the logarithm is finite. */
			double radius = init->values[0] * sqrt(-2 * log1p(-pair[0])), angle = 2 * M_PI * pair[1];
			pair[0] = radius * cos(angle);
			pair[1] = radius * sin(angle);
		} else {
			double low = init->values[0], high = init->values[1];
			pair[0] = low + (high - low) * pair[0];
			pair[1] = low + (high - low) * pair[1];
		}
		memcpy(values + i, pair, (count - i < 2 ? 1 : 2) * sizeof *values);
	}
}

void init_fill(const struct init *init, const struct shape *shape, int64_t first, int64_t count, double *values)
{
	double value = 0;
	switch (init->kind) {
	case INIT_LIST:
		if (count) /* an empty list has no values to copy from */
			memcpy(values, init->values + first, (size_t)count * sizeof *values);
		return;
	case INIT_NORMAL:
	case INIT_UNIFORM:
		fill_random(init, (size_t)first, (size_t)count, values);
		return;
	case INIT_ONES:
		value = 1;
		break;
	case INIT_NUMBER:
	case INIT_FULL:
		value = init->values[0];
		break;
	default:
		break;
	}
	for (int64_t i = 0; i < count; i++)
		values[i] = value;
	if (init->kind != INIT_EYE || count == 0)
		return;
	const int64_t across = shape->dim[1] + 1;
	for (int64_t i = (first + across - 1) / across;
	     i < shape->dim[0] && i < shape->dim[1] && i * across < first + count; i++)
		values[i * across - first] = 1;
}
