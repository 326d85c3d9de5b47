/* The control register of SSE; elsewhere nothing. */
#include "base/flush.h"

#if defined __SSE2__
#include <xmmintrin.h>

enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x40 };

unsigned flush_begin(bool wanted)
{
	unsigned before = _mm_getcsr();
	if (wanted)
		_mm_setcsr(before | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
	return before;
}

void flush_end(unsigned before) { _mm_setcsr(before); }

#else

unsigned flush_begin(bool wanted)
{
	(void)wanted;
	return 0;
}

void flush_end(unsigned before) { (void)before; }

#endif
