/*
 * Check, but that an assertion that holds is not noted. Check writes each into a file,
 * which the suite's own process reads in a time that is quadratic in their number: with
 * sanitizers that was half the time of the suites.
 */
#ifndef UNIT_ASSERTS_H
#define UNIT_ASSERTS_H

#include <check.h>

#undef ck_assert
#undef ck_assert_msg
#define ck_assert(condition) ck_assert_msg(condition, "Assertion '%s' failed", #condition)
#define ck_assert_msg(condition, ...) ((condition) ? (void)0 : ck_abort_msg(__VA_ARGS__))

#endif
