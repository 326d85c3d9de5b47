/* Chains for tests, from their text. */
#ifndef TESTS_CHAINS_H
#define TESTS_CHAINS_H

#include <string.h>

#include "asserts.h"
#include "language/chain.h"
#include "language/syntax.h"
#include "schedule/policy.h"

/* CHAIN is TEXT's, which is right; its params are of the types that they are declared. */
static inline void chain_make(struct chain *chain, const char *text, struct arena *arena, struct diags *diags)
{
	struct source *source = arena_alloc(arena, sizeof *source);
	struct syntax syntax;
	const struct context context = {arena->allocator, arena, diags};
	ck_assert_ptr_nonnull(source);
	*source = (struct source){"chain", text, strlen(text)};
	memset(chain, 0, sizeof *chain);
	ck_assert_int_eq(syntax_parse(&context, &syntax, source), STATUS_OK);
	ck_assert_int_eq(chain_resolve(&context, chain, &syntax), STATUS_OK);
	ck_assert_int_eq(policy_parse_blocks(&context, chain), STATUS_OK);
	for (size_t i = 0; i < chain->param_count; i++) {
		chain->params[i].type = &chain->params[i].declared->type;
	}
}

#endif
