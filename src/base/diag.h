/*
 * Diagnostics are collected, never printed, below the command line: a fallible
 * function appends what went wrong and returns its status. Text that comes from
 * a file is escaped when it is rendered.
 */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H

#include "base/arena.h"
#include "base/source.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum severity { SEVERITY_ERROR, SEVERITY_WARNING, SEVERITY_NOTE };

struct diag {
	enum severity severity;
	enum status status;
	const struct source *source; /* a place in a text: span and caret hold */
	struct span span;            /* the place that is named */
	struct span caret;           /* what is underlined; often the same */
	const char *file;            /* else a file, or NULL */
	int64_t offset;              /* byte offset in FILE, or -1 */
	const char *message;
	const char *hint; /* what to do, or NULL */
	struct diag *next;
};

struct diags {
	struct arena *arena;
	struct diag *first, *last;
	int errors;
	bool exhausted; /* memory was too short to keep a message */
};

void diags_init(struct diags *diags, struct arena *arena);

/* Each appends an error and returns STATUS, so that a caller can `return diag_...`. */
__attribute__((format(printf, 5, 6))) enum status diag_at(struct diags *diags, enum status status,
                                                          const struct source *source, struct span span,
                                                          const char *format, ...);
/* OFFSET -1: no place in FILE. FILE NULL: a message alone. */
__attribute__((format(printf, 5, 6))) enum status diag_file(struct diags *diags, enum status status, const char *file,
                                                            int64_t offset, const char *format, ...);
__attribute__((format(printf, 2, 3))) void diag_warn(struct diags *diags, const char *format, ...);
__attribute__((format(printf, 4, 5))) void diag_warn_at(struct diags *diags, const struct source *source,
                                                        struct span span, const char *format, ...);
/* What to do about the last diagnostic. */
__attribute__((format(printf, 2, 3))) void diag_hint(struct diags *diags, const char *format, ...);
/* The same, after what is there already; no more once that is long. */
__attribute__((format(printf, 2, 3))) void diag_hint_more(struct diags *diags, const char *format, ...);
/* Underlines CARET in place of the last diagnostic's span. */
void diag_caret(struct diags *diags, struct span caret);
/* Puts the last diagnostic, whatever its place, at SPAN of SOURCE, and makes it STATUS, which is returned. */
enum status diag_move(struct diags *diags, enum status status, const struct source *source, struct span span);
/* Says again in DIAGS all that FROM has, whose arena may go then. */
void diags_take(struct diags *diags, const struct diags *from);
/* Memory is short: STATUS_LIMIT, and "out of memory" is rendered without allocating. */
enum status diag_memory(struct diags *diags);

/*
 * Renders all diagnostics, as
 *     ckptc: chain.ck:2:8: error: 'tanh' takes no operand
 *         2 | tanh 3
 *           |      ^
 *     ckptc: note: ...
 * through WRITE, a piece at a time. The source line is shown without its
 * indentation. Of errors, and of warnings, the first hundred; a last note counts
 * those beyond. Needs no memory.
 */
typedef void diag_write(void *context, const char *text, size_t length);
void diags_render(const struct diags *diags, bool color, diag_write *write, void *context);
/* Writes TEXT, whose bytes are anybody's, as messages show it; the columns that it takes. WRITE NULL: counts alone. */
size_t diag_escape(const char *text, diag_write *write, void *context);

/*
 * The candidate nearest to NAME by Damerau-Levenshtein distance, of those as near the
 * one that begins like it. Where none is near enough to be meant (more edits than a
 * third of the length, at least 1...2; other cases of letters hardly count), one that
 * NAME is a longer or shorter form of, by how it begins; or NULL.
 */
const char *suggest_nearest(const char *name, const char *const *candidates, size_t count);

#endif
