/*
 * The values are the same in every run, and on every machine up to the rounding of normal's log1p, cos and sin.
 * Tests: tests/unit/test_params.c, tests/cases/run.test
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "load/params.h"

/* Ten rounds of Philox 4x32; the constants are the paper's. */
static void philox(const uint32_t key[2], uint64_t counter, uint32_t out[4])
{
	uint32_t k0 = key[0], k1 = key[1];
	uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32), c2 = 0, c3 = 0; /* kept in registers, unlike OUT */
	for (int round = 0; round < 10; round++, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
		const uint64_t p0 = (uint64_t)0xD2511F53 * c0, p1 = (uint64_t)0xCD9E8D57 * c2;
		c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)p1;
		c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)p0;
	}
	memcpy(out, (uint32_t[]){c0, c1, c2, c3}, 4 * sizeof *out);
}

static double unit(uint32_t low, uint32_t high) { return (double)(((uint64_t)high << 32 | low) >> 11) * 0x1p-53; }

/* Writes COUNT random elements from element FIRST on; FIRST is even. */
static void fill_random(const struct init *init, size_t first, size_t count, double *values)
{
	const bool normal = init->kind == INIT_NORMAL;
	const double *arguments = init->values;
	const uint64_t seed = (uint64_t)(int64_t)arguments[normal ? 1 : 2];
	const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
	for (size_t i = 0; i < count; i += 2) {
		uint32_t bits[4];
		philox(key, (first + i) / 2, bits);
		double pair[2] = {unit(bits[0], bits[1]), unit(bits[2], bits[3])};
		if (normal) {
			/* 1 - u is in (0, 1], where the logarithm is finite. */
			const double radius = arguments[0] * sqrt(-2 * log1p(-pair[0])), angle = 2 * M_PI * pair[1];
			pair[0] = radius * cos(angle);
			pair[1] = radius * sin(angle);
		} else {
			pair[0] = arguments[0] + (arguments[1] - arguments[0]) * pair[0];
			pair[1] = arguments[0] + (arguments[1] - arguments[0]) * pair[1];
		}
		memcpy(values + i, pair, (count - i < 2 ? 1 : 2) * sizeof *values);
	}
}

/* Writes ones on and beside the main diagonal of each matrix, those of the last two axes, and zeros on its other side. */
static void fill_triangle(bool lower, const struct shape *shape, int64_t first, int64_t count, double *values)
{
	for (int64_t i = 0; i < count; i++) {
		const int64_t columns = shape->dim[shape->ndim - 1], rows = shape->dim[shape->ndim - 2];
		const int64_t row = (first + i) / columns % rows, column = (first + i) % columns;
		values[i] = lower ? column <= row : column >= row;
	}
}

void init_fill(const struct init *init, const struct shape *shape, int64_t first, int64_t count, double *values)
{
	if (init->kind == INIT_LIST) {
		if (count) /* an empty list has no values to copy from */
			memcpy(values, init->values + first, (size_t)count * sizeof *values);
		return;
	}
	if (init->kind == INIT_NORMAL || init->kind == INIT_UNIFORM) {
		fill_random(init, (size_t)first, (size_t)count, values);
		return;
	}
	if (init->kind == INIT_ARANGE) {
		const double start = init->count ? init->values[0] : 0, step = init->count ? init->values[1] : 1;
		for (int64_t i = 0; i < count; i++)
			values[i] = start + (double)(first + i) * step;
		return;
	}
	if (init->kind == INIT_TRIL || init->kind == INIT_TRIU) {
		fill_triangle(init->kind == INIT_TRIL, shape, first, count, values);
		return;
	}
	const bool given = init->kind == INIT_NUMBER || init->kind == INIT_FULL;
	const double value = given ? init->values[0] : init->kind == INIT_ONES;
	for (int64_t i = 0; i < count; i++)
		values[i] = value;
	if (init->kind != INIT_EYE || count == 0)
		return;
	const int64_t across = shape->dim[1] + 1;
	for (int64_t i = ceil_div(first, across); i < shape->dim[0] && i < shape->dim[1] && i * across < first + count; i++)
		values[i * across - first] = 1;
}
