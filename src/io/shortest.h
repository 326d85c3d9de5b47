/* The shortest decimal that reads back as a binary number (number.c alone needs it). */
#ifndef IO_SHORTEST_H
#define IO_SHORTEST_H

#include <stdint.h>

/* Bits of precision, and the exponent of the last bit of denormal numbers. */
struct precision {
	int bits, least;
};

/*
 * Writes SIZE, positive, finite and of that PRECISION, as *DIGITS times 10^*EXPONENT: the
 * decimal with the fewest digits that reads back as SIZE; of several the nearest, of two as
 * near the even one. It has at most 17 digits, and may end in zeros.
 */
void shortest_decimal(double size, const struct precision *precision, uint64_t *digits, int *exponent);

#endif
