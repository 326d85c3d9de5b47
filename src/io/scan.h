/* Text and csv as numbers, for the reader alone. */
#ifndef IO_SCAN_H
#define IO_SCAN_H

#include "io/array.h"

/* COUNT values in rows of COLUMNS; no row is empty. */
struct numbers {
	double *values;
	size_t count, capacity;
	int64_t rows, columns;
};

/* Scans all of TEXT, which READER has read. STATUS_DATA with the place of a word that is no number, or of a row of another length. */
enum status scan_text(const struct reader *reader, const char *text, size_t length, struct numbers *numbers,
                      struct diags *diags);
void numbers_free(struct numbers *numbers, const struct allocator *allocator);
/*
 * Checks the first LENGTH bytes of a longer text: what cannot be numbers is refused
 * before all of it, which may have no end, is in memory.
 */
enum status scan_begin(const struct reader *reader, const char *text, size_t length, struct diags *diags);
/* Reports that INPUT, which must be held whole, has more than the READ bytes that memory holds. */
enum status scan_out_of_memory(const struct input *input, size_t read, struct diags *diags);

#endif
