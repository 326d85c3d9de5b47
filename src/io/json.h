/*
 * JSON with places. jansson parses the text and keeps no places. So a caller names a wrong value by its path, and
 * json_wrong looks up the path in the text, which is then known to be valid JSON.
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
	struct arena arena; /* for the parsed values */
};

/* A value: KEY of the object PARENT, or, if KEY is NULL, element INDEX of the array PARENT. NULL: the whole text. */
struct json_path {
	const struct json_path *parent;
	const char *key;
	size_t index;
};

/*
 * Parses SOURCE, which must live as long as json_wrong is called, and CONTEXT as long as TEXT. Fails with STATUS_DATA
 * and the place where SOURCE is not valid JSON or an object has a key twice. Then TEXT is closed.
 */
enum status json_open(struct json_text *text, const struct source *source, int64_t offset,
                      const struct context *context);
void json_close(struct json_text *text);
/*
 * Reports an error at the value PATH, or, where that is missing or its key is spelled with escapes, at the nearest
 * value around it. The message begins with the path of the element or of the key's object: "steps[3]: ". Returns
 * STATUS.
 */
__attribute__((format(printf, 4, 5))) enum status json_wrong(const struct json_text *text, const struct json_path *path,
                                                             enum status status, const char *format, ...);

#endif
