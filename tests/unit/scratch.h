/* The arena, the diagnostics and the context of a suite's tests. Each test begins with empty ones. */
#ifndef TESTS_SCRATCH_H
#define TESTS_SCRATCH_H

#include "base/diag.h"

static struct arena arena;
static struct diags diags;
static struct context scratch;

static inline void scratch_begin(const struct allocator *allocator)
{
	arena_init(&arena, allocator);
	diags_init(&diags, &arena);
	scratch = (struct context){allocator, &arena, &diags};
}

/* A fixture, alone or as part of a suite's own. */
static inline void scratch_setup(void) { scratch_begin(&allocator_system); }
static inline void scratch_teardown(void) { arena_free(&arena); }

/* Of the last diagnostic; empty where there is none. */
static inline const char *scratch_message(void) { return diags.last ? diags.last->message : ""; }
static inline const char *scratch_hint(void) { return diags.last && diags.last->hint ? diags.last->hint : ""; }

#endif
