/*
 * Reports are made of records, apart from graphs, pictures, traces and some tables. A report declares the fields of its
 * records once, in a static table, and record.c writes them in the format of the report:
 *
 *     json    {"key":value,...}, objects in an array; a value that is not known is null
 *     csv     a line of keys, then a line for each record
 *     table   a line of headings, then aligned columns, numbers to the right
 *     lines   the first field's value, then key=value for each field that is known; a true flag is its key alone
 *     html    the table as an element of a page
 *
 * text.c aligns columns, and escapes strings for JSON, XML and CSV.
 */
#ifndef REPORT_RECORD_H
#define REPORT_RECORD_H

#include "base/text.h"

#include <stddef.h>

/* A text that grows in an arena by writes to TEXT. It must not be copied or moved: TEXT refers to it. */
struct grown_text {
	struct text text;
	struct arena *arena;
	char *bytes; /* USED bytes, not terminated; or NULL */
	size_t used, capacity;
};
void text_grow_in(struct grown_text *grown, struct arena *arena);
/* Returns a copy of the text so far, and empties GROWN. If memory was short, NULL or with gaps, and `failed` is set. */
const char *text_grown(struct grown_text *grown);

struct text_list {
	const char **items;
	size_t count, capacity;
};
/* Appends TEXT, which is not copied. False if TEXT is NULL or memory is short. */
bool text_list_add(struct text_list *list, const char *text, struct arena *arena);

enum report_format { REPORT_TABLE, REPORT_JSON, REPORT_CSV, REPORT_LINES, REPORT_HTML };

/* Writes STRING as a JSON string, or null for NULL. Escapes what utf8_shows refuses; an invalid byte becomes \u00XX. */
void text_json(const struct text *text, const char *string);
/*
 * Writes STRING escaped for XML, also within an attribute in double quotes. Line ends and tabs become spaces. Other
 * control characters and invalid UTF-8 become U+FFFD, since XML cannot hold all of them.
 */
void text_xml(const struct text *text, const char *string);
/* Writes FIELD for CSV: escaped as by diag_escape, and quoted if it has a comma or a quote. */
void text_csv(const struct text *text, const char *field);
/* Writes BYTES to BUFFER for people, in three digits: "2 KiB", "1.5 KiB", "15.3 KiB", "1023 KiB". Returns BUFFER. */
const char *text_bytes(int64_t bytes, char buffer[32]);

/*
 * Writes a table of CELLS, row by row; headings are the first row. There are at most 64 COLUMNS. A column is as wide as
 * its widest cell, and aligned to the right if its bit of RIGHT is set. Cells are escaped as by diag_escape.
 */
void text_table(const struct text *text, const char *const *cells, size_t rows, size_t columns, uint64_t right);

enum field_form {
	IN_JSON = 1,
	IN_CSV = 2,
	IN_TABLE = 4,
	IN_LINES = 8,
	IN_FIGURES = 16, /* see report_figures */
	IN_ROWS = IN_CSV | IN_TABLE,
	IN_ALL = IN_JSON | IN_ROWS | IN_LINES, /* without IN_FIGURES */
};

/* The C type of a field; after the semicolon the value that means unknown. JSON has null for infinite numbers too. */
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
	const char *key;     /* its name in JSON, CSV and lines; an identifier if IN_JSON, since it is not escaped */
	const char *heading; /* its name in tables; NULL: the key */
	unsigned forms;      /* the formats that have it, a sum of enum field_form */
	unsigned groups;     /* records of at least one of these groups have it; 0: all records */
	enum field_kind kind;
	size_t offset;       /* of the value in the record */
	const char *numeral; /* FIELD_NUMBER: a format of printf, unless it is EXACT and IN_JSON alone */
	bool exact;          /* FIELD_NUMBER: JSON has all digits, not NUMERAL */
	const char *unknown; /* what tables show for an unknown value; NULL: nothing */
};

/* Initialises the kind and the offset of a field, which is MEMBER of struct STRUCT. */
#define FIELD(STRUCT, KIND, MEMBER) .kind = FIELD_##KIND, .offset = offsetof(struct STRUCT, MEMBER)

struct record_kind {
	const char *key; /* of the list of records in JSON */
	const struct field *fields;
	size_t field_count;
	/*
	 * Writes RECORD as a line; NULL: key=value. Lines replace a table if no field of the records is IN_TABLE. HTML has
	 * them as they are, so those of its kinds need no escapes.
	 */
	void (*line)(const void *record, const struct text *text);
};

#define RECORD_KIND(KEY, FIELDS, LINE)                                                                                 \
	{                                                                                                                  \
		KEY, FIELDS, sizeof FIELDS / sizeof *FIELDS, LINE                                                              \
	}

/* Where a report goes. If memory is short, the arena's `failed` is set and the report is not whole. */
struct report {
	const struct text *text;
	enum report_format format;
	struct arena *arena;
	int depth;  /* of open brackets in JSON */
	bool comma; /* the next value in JSON needs a comma before it */
};

/*
 * These functions write JSON, with commas and a line end after the last bracket; in other formats, nothing. KEY is NULL
 * within an array, and for a value that is the whole report. A value with a key at depth 0 opens the report's object,
 * which session_close_text closes.
 */
void report_open(struct report *report, const char *key, char bracket);
void report_close(struct report *report, char bracket);
void report_text(struct report *report, const char *key, const char *value);
void report_whole(struct report *report, const char *key, int64_t value);
/* Writes RECORD, of these GROUPS, as an object. */
void report_record(struct report *report, const char *key, const struct record_kind *kind, const void *record,
                   unsigned groups);

/*
 * Writes COUNT RECORDS side by side: for each field of GROUPS that is IN_FIGURES, a line with its name and its values.
 * CSV if that is the report's format, else a table whose names take WIDTHS[0] columns and whose values take WIDTHS[1].
 */
void report_figures(struct report *report, const struct record_kind *kind, unsigned groups, const void *const *records,
                    size_t count, const int widths[2]);

/* A list of records of one kind, which is being written. */
struct records {
	struct report *report;
	const struct record_kind *kind;
	enum report_format format; /* the report's, or lines in place of a table; a table for HTML too */
	unsigned groups;
	struct text_list cells; /* of a table, which records_end writes */
	size_t columns;
	uint64_t right; /* a bit for each column of numbers */
};

/* GROUPS are those of all records together. Tables and CSV omit the columns of other groups. */
void records_begin(struct records *records, struct report *report, const struct record_kind *kind, unsigned groups);
/* GROUPS are RECORD's own. Tables and CSV have empty cells for its other columns. records_end writes the table. */
void records_put(struct records *records, const void *record, unsigned groups);
void records_end(struct records *records);

#endif
