/*
 * Diagnostics, and the one way to fail. A fallible function below cli returns enum status, and appends the reason to a
 * struct diags before it returns any status but STATUS_OK:
 *
 *     if (count > MOST)
 *         return diag_file(diags, STATUS_LIMIT, path, -1, "more than %d arrays", MOST);
 *
 * Its caller passes the status on by TRY, and adds no second reason. A function that fails only when memory is short
 * may instead return NULL or false, or set a flag that stays set, such as `failed` of an arena. Its caller then returns
 * diag_memory(diags), by TRY_ALLOC where it can. Only diags_render, which main calls once, shows diagnostics.
 */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H

#include "base/arena.h"

#include <stdint.h>

/* The outcome of a fallible function. The values are the program's exit statuses (ckptc(1)). */
enum status {
	STATUS_OK = 0,
	STATUS_CHECK = 1,   /* a check of `ckptc check` failed */
	STATUS_USAGE = 2,   /* wrong command line */
	STATUS_CHAIN = 3,   /* wrong chain: syntax, names, types */
	STATUS_DATA = 4,    /* wrong data: npy, text, npz, safetensors, costs */
	STATUS_IO = 5,      /* the system failed to read or write */
	STATUS_LIMIT = 6,   /* out of memory, or beyond a documented limit */
	STATUS_PROGRAM = 7, /* an external program failed (external/external.h) */
	/* Another rank has failed, which reports it (ranks/ranks.h). It needs no diagnostic, and no process exits with it. */
	STATUS_OTHER_RANK = 8,
	/* No failure, and none that lower returns: lowering has come to where a run ends (ir/lower_place.c). */
	STATUS_PLACE = 9,
	STATUS_STOPPED = 10, /* a caller of the library has stopped the run (ckptc_run_options), with a diagnostic */
};

/* Evaluates CALL. The function that uses TRY returns its status, unless that is STATUS_OK. */
#define TRY(CALL)                                                                                                      \
	do {                                                                                                               \
		const enum status tried = (CALL);                                                                              \
		if (tried)                                                                                                     \
			return tried;                                                                                              \
	} while (0)

/* Bytes BEGIN .. END-1 of a source. LINE and COLUMN are those of byte BEGIN, counted from 1; a column is a byte. */
struct span {
	uint32_t begin, end;
	uint32_t line, column;
};

struct source {
	const char *name; /* as messages show it: a path, or <command-line> */
	const char *text;
	size_t length;
};

/* Returns the line of SOURCE that holds byte OFFSET. Writes its length, without the line end, to *LENGTH. */
const char *source_line(const struct source *source, uint32_t offset, size_t *length);

struct diag {
	enum status status;          /* STATUS_OK: a warning */
	const struct source *source; /* the text that SPAN and CARET refer to, or NULL */
	struct span span;            /* the place */
	struct span caret; /* the place that is named and underlined instead; line 0: SPAN is named, on one line */
	const char *file;  /* if SOURCE is NULL: a file, or NULL */
	int64_t offset;    /* byte offset in FILE, or -1 */
	const char *message;
	const char *hint;         /* what the user can do, or NULL */
	bool command;             /* HINT ends in a command, so nothing may follow */
	const char *const *items; /* lines below the message, or NULL */
	size_t item_count;
	struct diag *next;
};

struct diags {
	struct arena *arena;
	struct diag *first, *last;
	int errors;
	bool exhausted; /* memory was short: for the work, or to keep a diagnostic */
	bool library;   /* the reader calls libckptc: hints name what ckptc.h declares, not options of the command */
};

/* The first argument of most functions below cli that need two of the three members. */
struct context {
	const struct allocator *allocator; /* for memory that is freed before the arena, such as slabs and schedules */
	struct arena *arena;               /* for all other results */
	struct diags *diags;               /* for its errors and warnings */
};

void diags_init(struct diags *diags, struct arena *arena);

/*
 * diag_at and diag_file append an error, or a warning if STATUS is STATUS_OK. They return STATUS, so that a caller can
 * `return diag_...`. SOURCE must outlive DIAGS.
 */
__attribute__((format(printf, 5, 6))) enum status diag_at(struct diags *diags, enum status status,
                                                          const struct source *source, struct span span,
                                                          const char *format, ...);
/* OFFSET is a byte of FILE, or -1 to show none. FILE is NULL if the message concerns no file. */
__attribute__((format(printf, 5, 6))) enum status diag_file(struct diags *diags, enum status status, const char *file,
                                                            int64_t offset, const char *format, ...);
/* Records the error "out of memory"; this takes no memory. Returns STATUS_LIMIT. */
enum status diag_memory(struct diags *diags);
/* If POINTER is NULL or false, the function that uses TRY_ALLOC returns diag_memory(DIAGS). */
#define TRY_ALLOC(POINTER, DIAGS) TRY((POINTER) ? STATUS_OK : diag_memory(DIAGS))

#define diag_warn(DIAGS, ...) (void)diag_file(DIAGS, STATUS_OK, NULL, -1, __VA_ARGS__)

/* Sets the last diagnostic's hint, and returns its status. If memory has been short, only returns STATUS_LIMIT. */
__attribute__((format(printf, 2, 3))) enum status diag_hint(struct diags *diags, const char *format, ...);
/*
 * Sets the last diagnostic's hint to text that can be pasted into a shell: a command, or names of files. Each %s of
 * FORMAT, which has no other directive, is a file's name, quoted where the shell needs it (base/shell.h).
 */
__attribute__((format(printf, 2, 3))) enum status diag_hint_command(struct diags *diags, const char *format, ...);
/*
 * Appends "; " and the text to the last diagnostic's hint, unless that is over 200 bytes. Without a hint, sets it. The
 * text comes first if the hint is of diag_hint_command.
 */
__attribute__((format(printf, 2, 3))) void diag_hint_more(struct diags *diags, const char *format, ...);
/* Sets the lines below the last diagnostic's message: COUNT of them, which outlive DIAGS. */
void diag_items(struct diags *diags, const char *const *items, size_t count);
/* The last diagnostic names and underlines CARET instead of its span; if CARET has line 0, it underlines nothing. */
void diag_caret(struct diags *diags, struct span caret);
/* Changes the last error's place and caret to SPAN of SOURCE, and its status to STATUS. Returns STATUS. */
enum status diag_move(struct diags *diags, enum status status, const struct source *source, struct span span);
/* Appends copies of all diagnostics of FROM to DIAGS. FROM's arena may be freed then, but not the sources. */
void diags_take(struct diags *diags, const struct diags *from);

/* Receives the next LENGTH bytes of a text. */
typedef void diag_write(void *context, const char *text, size_t length);
/*
 * Renders the diagnostics, "out of memory" as the last. Each takes this form and one call of WRITE:
 *     ckptc: chain.ck:2:8: error: 'tanh' takes no operand
 *         2 | tanh 3
 *           |      ^
 *     ckptc: note: ...
 * Items follow the message, each on a line. A word or a file name of more than 400 bytes is shown without its middle, and so is a message or hint of more than
 * 2000 bytes. At most 100 bytes of a source line are shown, around the caret. Only the first 100 errors and the first 100
 * warnings are shown; a note counts the others. Takes no memory from the heap.
 */
void diags_render(const struct diags *diags, bool color, diag_write *write, void *context);
/*
 * Writes TEXT, with a space for a tab, and \xHH for each byte of invalid UTF-8 or of a character utf8_shows refuses.
 * Returns the number of columns, one for each character written. If WRITE is NULL, only counts them.
 */
size_t diag_escape(const char *text, diag_write *write, void *context);
/* Does as diag_escape. A TEXT of more than 400 bytes loses its middle, so at most 1600 bytes are written. */
size_t diag_escape_cell(const char *text, diag_write *write, void *context);

#endif
