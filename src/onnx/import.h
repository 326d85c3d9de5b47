/* Chains from ONNX models. */
#ifndef ONNX_IMPORT_H
#define ONNX_IMPORT_H

#include "io/files.h"

/* An input of the model that the user describes: its type, whose first extent may be -1 (any), or its values. */
struct import_input {
	const char *name; /* in the model or in the chain; NULL: the only input */
	struct type type;
};
struct import_constant {
	const char *name;
	struct array values; /* the values that the input always has */
};

struct import_request {
	const char *path;    /* of the model */
	const char *tensors; /* the name of the file of weights, as the chain loads it */
	bool consts;         /* weights are consts; else floating ones are params */
	const struct import_input *inputs;
	size_t input_count;
	const struct import_constant *constants;
	size_t constant_count;
};

struct imported {
	const char *text; /* the chain */
	size_t length;
	struct named_array *weights; /* for tensors_put */
	size_t weight_count;
};

/*
 * Reads the model that INPUT holds and makes its chain. Fails with STATUS_DATA if it is no model, with STATUS_CHAIN if the
 * chain language cannot say some of its nodes (one message lists them all), with STATUS_LIMIT beyond a limit. The arena
 * of CONTEXT holds the result.
 */
enum status import_model(const struct context *context, const struct import_request *request, struct input *input,
                         struct imported *imported);

#endif
