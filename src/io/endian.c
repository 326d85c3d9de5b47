/* The order of bytes here: a file of its own, so that tests/unit/test_endian.c can put the other in its place. */
#include "io/array.h"

#include <string.h>

bool convert_little_endian(void)
{
	const uint16_t one = 1;
	unsigned char first;
	memcpy(&first, &one, 1);
	return first == 1;
}
