/*
 * Multiplicative hashing (Knuth, The Art of Computer Programming, volume 3, section
 * 6.4) in four lanes of 64-bit words, so that four multiplications run at once. It is not
 * a published function. Each step can be reversed: an exclusive or, a product with an odd
 * number, and an exclusive or with the value's own high bits, which a product never moves
 * down. So two arrays of one size that differ in a single word, or in a single byte after
 * the last four whole words, never have the same hash.
 */
#include "base/hash.h"

#include <string.h>

/* 2^64 over the golden ratio, odd. */
static const uint64_t golden = 0x9e3779b97f4a7c15u;

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
	const unsigned char *from = bytes;
	uint64_t lanes[4] = {hash ^ 1, hash ^ 2, hash ^ 3, hash ^ 4};
	size_t i = 0;
	for (; i + 32 <= size; i += 32)
		for (int k = 0; k < 4; k++) {
			uint64_t word;
			memcpy(&word, from + i + 8 * (size_t)k, sizeof word);
			lanes[k] = (lanes[k] ^ word) * golden;
			lanes[k] ^= lanes[k] >> 32;
		}
	for (; i < size; i++)
		lanes[0] = (lanes[0] ^ from[i]) * golden;
	uint64_t sum = hash ^ size;
	for (int k = 0; k < 4; k++) {
		sum = (sum ^ lanes[k]) * golden;
		sum ^= sum >> 29;
	}
	return sum;
}
