/*
 * Params and consts: their arrays from the chain's init, from --param, from
 * files; in the computing types.
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
	bool special, cast;    /* devices and FIFOs are read; integers beyond 2^53 are rounded */
	bool data;             /* loads the data too, not only types (for residuals, plan, explain) */
	enum dtype compute;    /* what weak params are held in until params_settle says otherwise */
	enum dtype dtype;      /* what all others are held in, whatever they are declared as; DTYPE_COUNT: what they are */
};

struct params {
	struct bound_param *bound; /* by index in chain->params */
	size_t count;
	int64_t bytes; /* of all arrays */
	const struct allocator *allocator;
	struct array *arrays; /* what is held: in the computing type */
	struct array *exact;  /* weak ones as doubles, whatever they are held as now */
};

/* The file that INIT, an INIT_LOAD of a chain in DIRECTORY, loads; NULL where memory is short. */
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
/* Holds the weak params in COMPUTE (F32 or F64), from their exact values. For when the input's type is known. */
void params_settle(struct params *params, const struct chain *chain, enum dtype compute);
/*
 * Whether what BODY's operations take of params can be their operands (classes of
 * cross_entropy). STATUS_DATA with the place of the operation where not.
 */
enum status params_check(const struct params *params, const struct body *body, const struct chain *chain,
                         struct diags *diags);
void params_free(struct params *params);

#endif
