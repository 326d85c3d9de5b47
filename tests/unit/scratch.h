/* The memory of a suite's tests, which each test has anew: an arena, and diagnostics in it. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include "base/arena.h"
#include "base/diag.h"

static struct arena arena;
static struct diags diags;

static inline void scratch_begin(const struct allocator *allocator)
{
	arena_init(&arena, allocator);
	diags_init(&diags, &arena);
}

/* A fixture, alone or as part of a suite's own. */
static inline void scratch_setup(void) { scratch_begin(&allocator_system); }
static inline void scratch_teardown(void) { arena_free(&arena); }

#endif
