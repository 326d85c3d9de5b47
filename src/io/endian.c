/*
 * The machine's byte order, in a file of its own: tests/unit/test_endian.c replaces it by the other one.
 * Tests: tests/unit/test_endian.c
 */
#include "io/array.h"

#include <string.h>

bool convert_little_endian(void)
{
	const uint16_t one = 1;
	unsigned char first;
	memcpy(&first, &one, 1);
	return first == 1;
}
