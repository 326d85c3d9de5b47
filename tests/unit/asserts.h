/*
 * Check's assertions, without a note of each that holds. Check writes every note to a
 * file, and reads the file in a time that grows with the square of their number. With
 * sanitizers that was half of the suites' time.
 */
#ifndef UNIT_ASSERTS_H
#define UNIT_ASSERTS_H

#include <check.h>

#undef ck_assert
#undef ck_assert_msg
#define ck_assert(condition) ck_assert_msg(condition, "Assertion '%s' failed", #condition)
#define ck_assert_msg(condition, ...) ((condition) ? (void)0 : ck_abort_msg(__VA_ARGS__))

#endif
