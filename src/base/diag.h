/*
 * Diagnostics, and the one way to fail. Every fallible function below the command line
 * returns enum status, and appends the reason to a struct diags before it returns
 * anything but STATUS_OK:
 *
 *     if (count > MOST)
 *         return diag_file(diags, STATUS_LIMIT, path, -1, "more than %d arrays", MOST);
 *
 * Its caller returns the status on by TRY, and adds no second reason. One kind of
 * function may fail otherwise: it fails only when memory is short, and returns NULL or
 * false, or sets a sticky flag such as arena->failed. Its fallible caller returns
 * diag_memory(diags), by TRY_ALLOC where it can. Nothing is printed before diags_render, which main calls.
 */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H

#include "base/arena.h"

#include <stdint.h>

/* The outcome of a fallible function: the program's exit statuses (ckptc(1)), so main() returns one as it is. */
enum status {
	STATUS_OK = 0,
	STATUS_CHECK = 1, /* a check failed */
	STATUS_USAGE = 2, /* the command line */
	STATUS_CHAIN = 3, /* the chain: syntax, names, types */
	STATUS_DATA = 4,  /* npy, text, npz, safetensors */
	STATUS_IO = 5,    /* the system's input and output */
	STATUS_LIMIT = 6, /* memory or a documented limit */
};

/* Returns the status of CALL from the function around it, unless that is STATUS_OK. */
#define TRY(CALL)                                                                                                      \
	do {                                                                                                               \
		const enum status tried = (CALL);                                                                              \
		if (tried)                                                                                                     \
			return tried;                                                                                              \
	} while (0)

/* A half-open stretch of a source, in bytes, with the place of its begin: lines and columns (bytes) count from 1. */
struct span {
	uint32_t begin, end;
	uint32_t line, column;
};

struct source {
	const char *name; /* as messages show it: a path, or <command-line> */
	const char *text;
	size_t length;
};

/* The line of TEXT that holds byte OFFSET, without its line end: pointer and *LENGTH. */
const char *source_line(const struct source *source, uint32_t offset, size_t *length);

struct diag {
	enum status status;          /* STATUS_OK: a warning */
	const struct source *source; /* the text that SPAN and CARET refer to, or NULL */
	struct span span;            /* the place that the message names */
	struct span caret;           /* the place that is underlined; often the same */
	const char *file;            /* without SOURCE: a file, or NULL */
	int64_t offset;              /* byte offset in FILE, or -1 */
	const char *message;
	const char *hint; /* what the user can do, or NULL */
	struct diag *next;
};

struct diags {
	struct arena *arena;
	struct diag *first, *last;
	int errors;
	bool exhausted; /* an out-of-memory error; or a message that memory was too short to keep */
};

/* Where a fallible function takes memory and says what is wrong. One below cli that needs two of the three has it first. */
struct context {
	const struct allocator *allocator; /* memory that the function frees itself, or hands to a slab */
	struct arena *arena;               /* memory that its results live in */
	struct diags *diags;               /* each error is appended here before its status is returned */
};

void diags_init(struct diags *diags, struct arena *arena);

/*
 * Each appends an error, or a warning if STATUS is STATUS_OK. Returns STATUS, so that a
 * caller can `return diag_...`. SOURCE must outlive DIAGS.
 */
__attribute__((format(printf, 5, 6))) enum status diag_at(struct diags *diags, enum status status,
                                                          const struct source *source, struct span span,
                                                          const char *format, ...);
/* OFFSET -1: no place in FILE. FILE NULL: a message alone. */
__attribute__((format(printf, 5, 6))) enum status diag_file(struct diags *diags, enum status status, const char *file,
                                                            int64_t offset, const char *format, ...);
/* Appends the error "out of memory", which needs no memory. Returns STATUS_LIMIT. */
enum status diag_memory(struct diags *diags);
/* Returns so from the function around it, unless POINTER holds. */
#define TRY_ALLOC(POINTER, DIAGS) TRY((POINTER) ? STATUS_OK : diag_memory(DIAGS))

#define diag_warn(DIAGS, ...) (void)diag_file(DIAGS, STATUS_OK, NULL, -1, __VA_ARGS__)

/* Sets the hint of the last diagnostic. Returns its status; STATUS_LIMIT where memory was too short to keep it. */
__attribute__((format(printf, 2, 3))) enum status diag_hint(struct diags *diags, const char *format, ...);
/* Adds to the hint of the last diagnostic, unless that is long already. */
__attribute__((format(printf, 2, 3))) void diag_hint_more(struct diags *diags, const char *format, ...);
/* Underlines CARET instead of the last diagnostic's span. */
void diag_caret(struct diags *diags, struct span caret);
/* Moves the last diagnostic to SPAN of SOURCE, and makes it STATUS. Returns STATUS. */
enum status diag_move(struct diags *diags, enum status status, const struct source *source, struct span span);
/* Appends copies of all diagnostics of FROM, whose arena may be freed afterwards. */
void diags_take(struct diags *diags, const struct diags *from);

/* Receives the next LENGTH bytes of a text. */
typedef void diag_write(void *context, const char *text, size_t length);
/*
 * Renders all diagnostics in this form, each by one call of WRITE:
 *     ckptc: chain.ck:2:8: error: 'tanh' takes no operand
 *         2 | tanh 3
 *           |      ^
 *     ckptc: note: ...
 * A word of more than 400 bytes loses its middle, and a line of the source all but the
 * surroundings of the caret. The first hundred errors and the first hundred warnings are
 * shown; a last note counts the others. Takes no memory from the heap.
 */
void diags_render(const struct diags *diags, bool color, diag_write *write, void *context);
/*
 * Writes TEXT with each byte escaped that could move or confuse a terminal. Returns the
 * columns it takes. WRITE NULL: counts them only.
 */
size_t diag_escape(const char *text, diag_write *write, void *context);

#endif
