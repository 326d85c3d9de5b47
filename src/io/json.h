/*
 * JSON with places. jansson parses the text and keeps no places. So a caller names a
 * wrong value by its path, and json_wrong looks the path up in the text again, which is
 * then known to be valid.
 */
#ifndef IO_JSON_H
#define IO_JSON_H

#include <jansson.h>

#include "base/diag.h"

struct json_text {
	const struct source *source;
	/* Byte of the file where the text begins, for messages that count bytes; -1: messages give line and column. */
	int64_t offset;
	const struct context *context;
	json_t *top;        /* the parsed text, NULL where it is not open */
	struct arena arena; /* its values */
};

/* A value: KEY of the object PARENT, or with KEY NULL element INDEX of the array PARENT. A NULL path is the whole text. */
struct json_path {
	const struct json_path *parent;
	const char *key;
	size_t index;
};

/*
 * Parses SOURCE, which must outlive TEXT, as must CONTEXT. STATUS_DATA with the place where it is not valid
 * JSON or has a key twice in one object.
 */
enum status json_open(struct json_text *text, const struct source *source, int64_t offset,
                      const struct context *context);
void json_close(struct json_text *text);
/*
 * Reports an error at the value PATH, at the nearest value around it where that is missing or its key is
 * spelled with escapes. The message begins with the path of the element that holds it: "steps[3]: ".
 * Returns STATUS.
 */
__attribute__((format(printf, 4, 5))) enum status json_wrong(const struct json_text *text, const struct json_path *path,
                                                             enum status status, const char *format, ...);

#endif
