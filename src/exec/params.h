/*
 * The arrays of params and consts, in the computing types. Their values come from the
 * chain's init, from --param or from files.
 */
#ifndef EXEC_PARAMS_H
#define EXEC_PARAMS_H

#include "exec/evaluate.h"
#include "io/load.h"

struct param_binding { /* --param NAME=FILE or NAME=3.5 */
	const char *name, *value;
};

struct params_options {
	const char *directory; /* of the chain's file, for load() */
	bool special, cast;    /* reads devices and FIFOs; rounds integers beyond 2^53 */
	bool data;             /* loads the data; else types only (residuals, plan, explain) */
	enum dtype compute;    /* of weak params, until params_settle changes it */
	enum dtype dtype;      /* of all other params; DTYPE_COUNT: as declared */
};

struct params {
	struct bound_param *bound; /* by index in chain->params */
	size_t count;
	int64_t bytes; /* of all arrays */
	const struct allocator *allocator;
	struct array *arrays; /* in the computing type */
	struct array *exact;  /* weak params as doubles */
};

/* The file that INIT, an INIT_LOAD of a chain in DIRECTORY, loads. NULL when out of memory. */
const char *params_file(const struct init *init, const char *directory, struct arena *arena);
/*
 * Finds the type of every param (declared, from its init or its file's header)
 * and sets typed, weak and type in CHAIN's params; loads the data too where
 * OPTIONS want it. STATUS_CHAIN for a param without value or of another type than
 * declared (both are named), STATUS_USAGE for a binding of an unknown name (with a
 * suggestion), STATUS_DATA, STATUS_IO. Where OPTIONS want types alone, the file of a
 * param that is declared may be yet to be made.
 *
 * A number, a list without a declared type and a 0-d array without one are weak.
 */
enum status params_bind(struct params *params, struct chain *chain, const struct param_binding *bindings, size_t count,
                        const struct params_options *options, const struct allocator *allocator, struct arena *arena,
                        struct diags *diags);
/* Converts the weak params from their exact values to COMPUTE (F32 or F64), once the input's type is known. */
void params_settle(struct params *params, const struct chain *chain, enum dtype compute);
/*
 * Checks the params' values that BODY's operations require to be in range (the classes
 * of cross_entropy). Fails with STATUS_DATA at the operation's place.
 */
enum status params_check(const struct params *params, const struct body *body, const struct chain *chain,
                         struct diags *diags);
void params_free(struct params *params);

#endif
