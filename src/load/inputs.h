/*
 * The inputs of a chain after the first. Each is a param whose arrays arrive one after another, with those of the first
 * input: record by record. A run reads such an array row by row, or loads it whole.
 */
#ifndef LOAD_INPUTS_H
#define LOAD_INPUTS_H

#include "io/files.h"
#include "language/chain.h"

/* Where the arrays of an input are. FILE NULL: nowhere, only the type is known. */
struct input_place {
	const char *file, *member; /* "-": standard input; MEMBER: of FILE, an archive, or NULL */
	bool archive;              /* FILE is an archive: without MEMBER, its only member */
	const struct type *shape;  /* of --shape, or NULL */
	const char *columns;       /* of --columns, or NULL */
	char delimiter;            /* of --delimiter, or 0 */
};
/* A value of --shape: the type of the input NAME, or of the first if NAME is NULL. */
struct input_shape {
	const char *name;
	struct type type;
};
/* What a user gives for the inputs: values of -i and --shape. */
struct inputs_given {
	const char *const *texts;
	size_t count;
	const struct input_shape *shapes;
	size_t shape_count;
	/* values of --columns and --delimiter, for the first input or, behind NAME=, for the input NAME */
	const char *const *columns, *const *delimiters;
	size_t columns_count, delimiter_count;
	const char *const *cotangents; /* files of the arrays of chain->cotangents; NULL: there are none */
	const char *option;            /* that gives the texts, as it was typed: -i or --input */
};
/*
 * Sets *PLACES, in the arena, to those of CHAIN's inputs: [0] is the first, [1 + I] that of chain->params[I]. A text is FILE
 * for the first; NAME=FILE; FILE:MEMBER for the input MEMBER, else for the first; NAME=FILE:MEMBER; or an archive for all that
 * no other text names. A file that has the whole text as its name is FILE. The first input is standard input if it has
 * neither a file nor a type. Fails with STATUS_USAGE if an input is given twice, or two would be standard input; with
 * STATUS_DATA if an archive lacks one.
 */
enum status inputs_place(const struct context *context, const struct chain *chain, const struct inputs_given *given,
                         struct input_place **places);
/* Opens the arrays at PLACE, which has a file, as MEMBER, in the format of OPTIONS unless it is an archive. */
enum status input_place_open(const struct context *context, const struct input_place *place,
                             const struct reader_options *options, struct opened_member *member);

/* An input after the first. */
struct further_input {
	size_t param;                /* its index in chain->params */
	struct opened_member arrays; /* if OPENED */
	bool opened;
	struct type type; /* of the current array, as the chain sees it: the param's type */
	void *data;       /* SIZE bytes: the current array in the computing type, if it is LOADED */
	size_t size;
	bool loaded;
};
struct inputs {
	struct further_input *items; /* in the order of declaration, which is that of chain->params */
	size_t count;
	bool changed; /* inputs_next has given an array another type than the array before had */
	const char *first_name;
	struct chain *chain; /* whose computing type follows from the arrays */
	enum dtype dtype;    /* of the options */
};
struct inputs_options {
	const struct input_place *input_places; /* as inputs_place sets them */
	struct reader_options reading;          /* of the first input */
	enum dtype dtype;                       /* --dtype, or DTYPE_COUNT */
};
/* Opens the inputs of CHAIN after the first, and sets their params. Fails with STATUS_USAGE where one has no place. */
enum status inputs_open(const struct context *context, struct inputs *inputs, struct chain *chain,
                        const struct inputs_options *options);
/*
 * Moves to the next record, of which the first input has an array unless END. Fails with STATUS_DATA if another input ends
 * before, or has more arrays. Without files, sets the types alone.
 */
enum status inputs_next(struct inputs *inputs, const struct chain *chain, bool end, struct diags *diags);
/* Loads the current array of INPUT, unless it is loaded. */
enum status input_load(const struct context *context, const struct chain *chain, struct further_input *input);
void inputs_close(struct inputs *inputs, const struct allocator *allocator);

#endif
