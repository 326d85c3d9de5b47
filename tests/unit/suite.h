/* What every suite does beside its tests: cases, the run, and main's exit status. */
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "asserts.h"

/* Under ASan, which makes them ten times as slow, long tests do less: fewer and shorter cases of the same code. */
#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif

/* A new case of SUITE, for main to add tests to. */
static inline TCase *suite_make_case(Suite *suite, const char *name)
{
	TCase *tests = tcase_create(name);
	suite_add_tcase(suite, tests);
	return tests;
}

/* True, and says so, if PATH is not there: a test of it is left out. */
static inline bool suite_lacks(const char *path)
{
	if (access(path, F_OK) == 0)
		return false;
	printf("left out: there is no %s\n", path);
	return true;
}

/* Runs SUITE and frees it: EXIT_SUCCESS where no test failed. */
static inline int suite_run(Suite *suite)
{
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* a failing child loses what it has not written */
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	const int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
