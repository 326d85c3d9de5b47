/*
 * Powers of ten to 128 bits, as reading and printing decimals need them.
 * Tests: tests/unit/test_text.c
 */
#include "io/formats.h"

#include <pthread.h>
#include <string.h>

/* The first 128 bits of each power, plus one: rounded up, or too large if they are exact. Written once, under ONCE. */
static struct {
	pthread_once_t once;
	uint128 entries[MOST_POWER - LEAST_POWER + 1];
} powers = {.once = PTHREAD_ONCE_INIT};

/*
 * A fixed-point number of digits of base 2^32, the least digit first. 10^324 has 34 digits before the point. The first
 * 128 bits of 10^-292 reach the 36th digit after the point. BELOW more digits follow a whole number's last, so that 128
 * bits are always there.
 */
enum { BASE_BITS = 32, BELOW = 4, DIGITS = 40 };

static uint128 first_bits(const uint32_t number[DIGITS])
{
	int top = DIGITS - 1;
	while (number[top] == 0)
		top--;
	uint128 bits = 0;
	for (int i = 0; i < 4; i++)
		bits = bits << BASE_BITS | number[top - i];
	const int zeros = __builtin_clz(number[top]);
	return zeros ? bits << zeros | number[top - 4] >> (BASE_BITS - zeros) : bits;
}

static void multiply_by_ten(uint32_t number[DIGITS])
{
	uint64_t carry = 0;
	for (int i = 0; i < DIGITS; i++) {
		carry += (uint64_t)number[i] * 10;
		number[i] = (uint32_t)carry;
		carry >>= BASE_BITS;
	}
}

/* Rounds down. The errors do not add up: floor(floor(x) / 10) is floor(x / 10). */
static void divide_by_ten(uint32_t number[DIGITS])
{
	uint64_t rest = 0;
	for (int i = DIGITS - 1; i >= 0; i--) {
		rest = rest << BASE_BITS | number[i];
		number[i] = (uint32_t)(rest / 10);
		rest %= 10;
	}
}

static void make_powers(void)
{
	uint32_t number[DIGITS] = {[BELOW] = 1};
	for (int e = 0; e <= MOST_POWER; e++, multiply_by_ten(number))
		powers.entries[e - LEAST_POWER] = first_bits(number) + 1;
	memset(number, 0, sizeof number);
	number[DIGITS - 1] = 1;
	for (int e = -1; e >= LEAST_POWER; e--) {
		divide_by_ten(number);
		powers.entries[e - LEAST_POWER] = first_bits(number) + 1;
	}
}

uint128 power_of_ten(int e)
{
	pthread_once(&powers.once, make_powers);
	return powers.entries[e - LEAST_POWER];
}
