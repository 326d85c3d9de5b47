/*
 * The arrays of params and consts, in the computing types. Their values come from the
 * chain's init, from --param or from files.
 */
#ifndef LOAD_PARAMS_H
#define LOAD_PARAMS_H

#include "io/files.h"
#include "ir/body.h"
#include "load/inputs.h"
#include "ranks/ranks.h"

struct param_binding { /* --param NAME=FILE, NAME=FILE:MEMBER or NAME=3.5 */
	const char *name, *value;
};

struct params_options {
	const struct memory_array *arrays; /* by name, before bindings; each is of a param or const of the chain */
	size_t array_count;
	const struct param_binding *bindings; /* of several for one name the last counts */
	size_t binding_count;
	const char *const *files; /* of --params: of several that have a member for a param the last counts */
	size_t file_count;
	const char *directory; /* of the chain's file, for load() */
	bool special, cast;    /* special: reads devices and FIFOs; cast: rounds integers beyond 2^53 */
	const double *missing; /* as of struct loader */
	int threads;           /* likewise */
	int64_t leaves;        /* likewise; then the caller calls params_load for what it needs in memory */
	bool data;             /* loads the data; else types only (residuals, plan, explain) */
	enum dtype compute;    /* of weak params, until params_settle changes it */
	enum dtype dtype;      /* of all other params; DTYPE_COUNT: as declared, or as in the file */
	const struct input_place
		*input_places;         /* by input after the first: of those that do not arrive (load/inputs.h); or NULL */
	const struct ranks *ranks; /* rank 0 reads files, and gives all others the arrays; NULL: there are no others */
};

/* A param's array in its computing type. */
struct bound_array {
	const struct shape *shape;
	const void *data; /* NULL if only types are wanted, or if the param is left in its file */
	enum dtype dtype; /* F32 or F64 */
};
static inline struct type bound_array_type(const struct bound_array *array)
{
	return (struct type){array->dtype, *array->shape};
}

struct params {
	struct bound_array *bound; /* by index in chain->params */
	size_t count;
	int64_t bytes; /* of all arrays, also if their data are not loaded */
	const struct allocator *allocator;
	void **arrays;                /* in the computing type; a weak param's have room for doubles */
	void **exact;                 /* weak params as doubles */
	size_t *sizes;                /* of these arrays, as allocated; of a weak param, of each */
	struct stored_array **stored; /* of params that are left in their files: their arrays are NULL; else NULL */
};

/* Returns the path of the file that INIT, an INIT_LOAD of a chain in DIRECTORY, loads. NULL if out of memory. */
const char *params_file(const struct init *init, const char *directory, struct arena *arena);
/*
 * Sets typed, weak and type in CHAIN's params, but for inputs that arrive (load/inputs.h). The type is declared, or comes from the init or a file's header. Loads
 * the data too if OPTIONS want it; else the file of a declared param need not exist yet. Fails with STATUS_CHAIN if
 * a param has no value or another shape than declared. Fails with STATUS_USAGE, and perhaps a suggestion, if a
 * binding's name is unknown; and with STATUS_DATA, STATUS_IO or STATUS_LIMIT.
 *
 * Without a declared type, a number, a list and a 0-d array of a file are weak.
 */
enum status params_bind(const struct context *context, struct params *params, struct chain *chain,
                        const struct params_options *options);
/* Loads the values of param INDEX, which is left in its file, by the threads of TEAM. Fails as params_bind does. */
enum status params_load(const struct context *context, struct params *params, const struct chain *chain, size_t index,
                        struct team *team);
/* Converts the weak params from their exact values to COMPUTE (F32 or F64), once the input's type is known. */
void params_settle(struct params *params, const struct chain *chain, enum dtype compute);
/*
 * Checks that loaded params are in the range that BODY's operations require of their second
 * operand, as of cross_entropy's classes. OWN: the step's particulars if steps share BODY, or NULL. Fails with
 * STATUS_DATA at the operation's place.
 */
enum status params_check(const struct params *params, const struct body *body, const struct particulars *own,
                         const struct chain *chain, struct diags *diags);
void params_free(struct params *params);

/* param_files.c */

/* A file, and the member of it that has the values of a param. MEMBER NULL: the file's only array. FILE NULL: none. */
struct param_place {
	const char *file, *member;
};
/*
 * Splits VALUE, a FILE or FILE:MEMBER of --param, into *PLACE. Both may hold colons, and the longest beginning that is
 * a file is FILE. If none is, FILE ends at the last colon. Fails with STATUS_LIMIT alone.
 */
enum status params_split(const char *value, struct arena *arena, struct diags *diags, struct param_place *place);
/*
 * Sets PLACES, zeroed and by index in chain->params, to the members of the files of --params. Warns of members that are
 * no param or const, and of params and consts that neither these files nor bindings name. Fails with STATUS_DATA if a
 * file is neither npz nor safetensors, or two of its members would be one param.
 */
enum status params_match(const struct context *context, struct loader *loader, const struct chain *chain,
                         const struct params_options *options, struct param_place *places);

/* init.c */

/* True if an init of KIND has no shape of its own and so needs a declared type. */
static inline bool init_needs_type(enum init_kind kind) { return kind >= INIT_ZEROS; }
/*
 * Writes COUNT elements, from element FIRST on, of an array of SHAPE, as doubles. FIRST
 * is even. INIT is neither a LOAD nor NONE; the values of a LIST fit SHAPE.
 *
 * normal(std, seed) and uniform(lo, hi, seed) draw by the seed and the element's index alone. Philox4x32-10 (Salmon et
 * al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) makes two doubles u of 53 bits in [0, 1) for each pair
 * of elements. Its key is the seed, its counter the index of the pair. uniform is lo + (hi - lo) u; normal is std times
 * the Box-Muller transform of the pair.
 */
void init_fill(const struct init *init, const struct shape *shape, int64_t first, int64_t count, double *values);

#endif
