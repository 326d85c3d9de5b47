/*
 * What to write for a word of NumPy, torch, pandas, R or SQL that is no operation (recipes.def), and for a call with a prefix
 * or a dot, such as np.exp(x) and x.sum(). Hints are made of the source's own words, so that they can be pasted.
 */
#ifndef LANGUAGE_RECIPES_H
#define LANGUAGE_RECIPES_H

#include "base/diag.h"

/* Each function returns text in ARENA, for a hint; NULL if there is no advice, or memory is short. */

/* Of WORD alone, as the user typed it. */
const char *recipe_hint_word(struct arena *arena, const char *word);
/* Of the stage that begins at byte AT of SOURCE: its first word is an operation of others, or one of ours with parentheses. */
const char *recipe_hint_stage(struct arena *arena, const struct source *source, uint32_t at);
/* Of the part of a formula that begins at byte AT of SOURCE with a name or a call, and goes on with a dot. */
const char *recipe_hint_dotted(struct arena *arena, const struct source *source, uint32_t at);
/* Of WORD in place of an option of OPERATION or, if WORD is "2", of an operand too many, of which TEXT is the first. */
const char *recipe_hint_use(struct arena *arena, const char *operation, const char *word, const char *text);

#endif
