/*
 * Records: what every report is made of. A report declares the fields of its records once, in a static table; this
 * file alone writes them:
 *
 *     json    {"key":value,...}, objects in an array; a value that is not known is null
 *     csv     a line of keys, then a line for each record
 *     table   a line of headings, then aligned columns, numbers to the right
 *     lines   the first field's value, then key=value for each field that is known; a flag is its key alone
 *
 * text.c has their texts: aligned columns, and strings escaped for JSON, XML and CSV.
 */
#ifndef REPORT_RECORD_H
#define REPORT_RECORD_H

#include "base/text.h"

#include <stddef.h>

/* A text that grows in an arena; at one address, to which `text` refers. It stops growing when memory is short. */
struct grown_text {
	struct text text;
	struct arena *arena;
	char *bytes; /* USED bytes, not terminated; or NULL */
	size_t used, capacity;
};
void text_grow_in(struct grown_text *grown, struct arena *arena);
/* Returns the text so far, terminated, and begins the next text. NULL when memory is short. */
const char *text_grown(struct grown_text *grown);

struct text_list {
	const char **items;
	size_t count, capacity;
};
/* Adds TEXT. False if that is NULL, or memory is short. */
bool text_list_add(struct text_list *list, const char *text, struct arena *arena);

enum report_format { REPORT_TABLE, REPORT_JSON, REPORT_CSV, REPORT_LINES };

/* A JSON string with its quotes; control characters and invalid UTF-8 escaped. NULL is null. */
void text_json(const struct text *text, const char *string);
/*
 * Text within XML, or within an attribute in double quotes: escaped. Line ends and tabs become spaces. Control
 * characters, and bytes that are not UTF-8, become U+FFFD, as XML cannot hold them.
 */
void text_xml(const struct text *text, const char *string);
/* A CSV field, quoted where it must be. */
void text_csv(const struct text *text, const char *field);
/* "1.5 KiB": bytes for people. */
const char *text_bytes(int64_t bytes, char buffer[32]);

/*
 * A table of CELLS, row by row, the headings first. A column is as wide as its widest cell, and aligned to the right if
 * its bit is set in RIGHT. Characters that would move a terminal's cursor are escaped.
 */
void text_table(const struct text *text, const char *const *cells, size_t rows, size_t columns, uint64_t right);

enum field_form {
	IN_JSON = 1,
	IN_CSV = 2,
	IN_TABLE = 4,
	IN_LINES = 8,
	IN_FIGURES = 16, /* see report_figures */
	IN_ROWS = IN_CSV | IN_TABLE,
	IN_ALL = IN_JSON | IN_ROWS | IN_LINES,
};

/* The C type of a field, and the value that means unknown. */
enum field_kind {
	FIELD_TEXT,   /* const char *; NULL */
	FIELD_WHOLE,  /* int64_t; NO_WHOLE */
	FIELD_NUMBER, /* double; NAN */
	FIELD_FLAG,   /* bool */
	FIELD_TEXTS,  /* struct field_list of const char *, in JSON alone */
	FIELD_WHOLES, /* struct field_list of int64_t, in JSON alone */
};
#define NO_WHOLE INT64_MIN

struct field_list {
	const void *items;
	size_t count;
};

struct field {
	const char *key;     /* in JSON, CSV and lines */
	const char *heading; /* in tables; NULL: the key */
	unsigned forms;      /* where it stands: a sum of enum field_form */
	unsigned groups;     /* it is part of records with one of these; 0: of all */
	enum field_kind kind;
	size_t offset;       /* in the record */
	const char *numeral; /* NUMBER: a format for printf */
	bool exact;          /* NUMBER: JSON has all digits */
	const char *unknown; /* what tables show; NULL: nothing */
};

/* The kind and the offset of a field that is MEMBER of struct STRUCT. */
#define FIELD(STRUCT, KIND, MEMBER) .kind = FIELD_##KIND, .offset = offsetof(struct STRUCT, MEMBER)

struct record_kind {
	const char *key; /* of the array in JSON */
	const struct field *fields;
	size_t field_count;
	/* A record as a line, in place of key=value; also in place of a table if no field is IN_TABLE. Or NULL. */
	void (*line)(const void *record, const struct text *text);
};

#define RECORD_KIND(KEY, FIELDS, LINE)                                                                                 \
	{                                                                                                                  \
		KEY, FIELDS, sizeof FIELDS / sizeof *FIELDS, LINE                                                              \
	}

/* Where a report goes. If memory is short the arena's flag is set, and the report is not whole. */
struct report {
	const struct text *text;
	enum report_format format;
	struct arena *arena;
	int depth;  /* of JSON's brackets */
	bool comma; /* before the next of JSON's values */
};

/*
 * Pieces of JSON, with commas and the last line's end; nothing in other formats. KEY is NULL within an array. The first
 * value with a key opens the report's object, which stays open: at the end `depth` is 1.
 */
void report_open(struct report *report, const char *key, char bracket);
void report_close(struct report *report, char bracket);
void report_text(struct report *report, const char *key, const char *value);
void report_whole(struct report *report, const char *key, int64_t value);
/* RECORD alone, as an object. GROUPS are those that it has. */
void report_record(struct report *report, const char *key, const struct record_kind *kind, const void *record,
                   unsigned groups);

/*
 * CSV and tables of few records side by side: a line for each field that is IN_FIGURES, with its name and its value in
 * each of COUNT RECORDS. In tables names take WIDTHS[0] columns and values WIDTHS[1].
 */
void report_figures(struct report *report, const struct record_kind *kind, unsigned groups, const void *const *records,
                    size_t count, const int widths[2]);

/* Records of one kind, one after another. */
struct records {
	struct report *report;
	const struct record_kind *kind;
	enum report_format format; /* the report's; lines in place of a table */
	unsigned groups;
	struct text_list cells; /* of a table, which is written at the end */
	size_t columns;
	uint64_t right; /* a bit for each column of numbers */
};

/* GROUPS are those that any record has: tables and CSV leave out the columns of others. */
void records_begin(struct records *records, struct report *report, const struct record_kind *kind, unsigned groups);
void records_put(struct records *records, const void *record, unsigned groups);
void records_end(struct records *records);

#endif
