/* Tables: delimiters, headers, and the choice of columns. See io/table.c. */
#ifndef IO_TABLE_H
#define IO_TABLE_H

#include "io/array.h"

/* What a reader knows of a text's fields, or of the last axis of an npy array. */
struct table {
	char delimiter; /* between two fields; ' ': blanks; 0 before table_look: the text shows it */
	bool strict;    /* the delimiter alone separates fields, and a quoted field may have line ends */
	bool tabs;      /* any tab of the first line separates fields; else one beside a comma, or at an end, does not */
	bool header;    /* the first line has names */
	bool text;      /* a text, not an array of npy */
	int64_t begin;  /* the text's byte where the first line, or after table_begin the first row, begins */
	uint32_t lines; /* before that byte */
	int64_t fields; /* of a row, those that are not read included; 0: not known */
	const char **names;    /* of the fields; NULL: there is no header */
	bool *reads;           /* by field: its column is chosen; NULL: all are */
	int64_t *next_read;    /* by field: the first column that is read from it on; FIELDS: none is */
	const int64_t *chosen; /* the columns in their order of --columns, CHOSEN_COUNT of them */
	int64_t chosen_count;
	const int64_t *places; /* by chosen column: its number among the chosen, in the order of the file; NULL: the same */
	const char **chosen_names; /* of the columns that are read; NULL: there is no header */
};

/*
 * Finds the delimiter and the header of a text that begins with the LENGTH bytes of TEXT. WHOLE: it has no more. Before,
 * T->strict says that it is csv, T->tabs is set, and T->delimiter is the one of --delimiter.
 */
void table_look(struct table *t, const char *text, size_t length, bool whole);
/* Chooses the columns that COLUMNS, a list of --columns, says; NULL: all. Fails with STATUS_DATA if FILE has no such. */
enum status table_choose(struct table *table, const char *columns, const char *file, const struct context *context);
struct scan;
/* Reads the header of R's text and chooses its columns. SCAN, which has read nothing, is then at the first row. */
enum status table_begin(struct reader *r, struct scan *scan, struct diags *diags);
/* True if the LENGTH bytes of WORD stand for a missing field: none, NA, N/A or null. */
bool table_is_missing(const char *word, size_t length);
/* True if the name PATH ends as that of a csv file does, and of one with tabs. */
bool table_names_csv(const char *path);
bool table_names_tabs(const char *path);
/*
 * Sets the hint of the last error, a word in column FIELD of a row, to the columns that have numbers there. The row begins
 * at LINE, and its text ends at END.
 */
void table_hint_columns(const struct table *t, const char *line, const char *end, int64_t field, struct diags *diags);
/* Writes the name of a header as csv has it to TO, which has capacity for it: at most 2 LENGTH + 3 bytes. Returns its end. */
char *table_put_name(char *to, const char *name, char delimiter);

#endif
