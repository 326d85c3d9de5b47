/* What the library's functions return, for the suites of ckptc.h. */
#ifndef UNIT_API_ERRORS_H
#define UNIT_API_ERRORS_H

#include <string.h>

#include "asserts.h"
#include "ckptc.h"

/* Asserts that STATUS and ERROR's are WANTED, and that ERROR's message has PART. */
static inline void expect(int status, int wanted, const struct ckptc_error *error, const char *part)
{
	ck_assert_int_eq(status, wanted);
	ck_assert_int_eq(error->status, wanted);
	ck_assert_msg(strstr(error->message, part), "'%s' lacks '%s'", error->message, part);
}

#endif
