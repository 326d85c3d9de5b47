/* The shortest decimal that reads back as a binary number (number.c alone needs it). */
#ifndef IO_SHORTEST_H
#define IO_SHORTEST_H

#include <stdint.h>

/* Bits of precision, and the exponent of the last bit of the least numbers. */
struct precision {
	int bits, least;
};

/*
 * SIZE, positive, finite and of that PRECISION, as *DIGITS times 10^*EXPONENT: of the
 * decimals that read back as SIZE and have the fewest digits the nearest, of two as
 * near the even one. There are at most 17 digits, of which some at the end may be 0.
 */
void shortest_decimal(double size, const struct precision *precision, uint64_t *digits, int *exponent);

#endif
