/*
 * What the files of this folder share.
 *
 *     value     what a name of the model stands for: a constant, or a formula over names of the chain
 *     weight    an initialiser of the model that the chain declares, and that is not folded
 *     symbol    an extent that the model leaves open. While the model is read it is a prime number, from which arithmetic
 *               on shapes makes multiples; such a number in the chain is `*` or -1
 *     sentence  a line of the chain, below all declarations
 *     refusal   a node that the chain language cannot say, and the reason
 */
#ifndef ONNX_IMPORTER_H
#define ONNX_IMPORTER_H

#include "base/hash.h"
#include "onnx/import.h"
#include "ops/op.h"

#include "onnx.pb-c.h"

/* A tensor that is known while the model is read. */
struct tensor {
	struct type type;
	bool splat;            /* all elements are NUMBERS[0] */
	const double *numbers; /* the elements; NULL: RAW alone has them, since they are many */
	const void *raw;       /* the elements as files have them; NULL: there is no such copy */
};

/* How tightly a formula holds together: HACKING's grammar, from loose to tight. */
enum level {
	LEVEL_OR = 1,
	LEVEL_AND,
	LEVEL_NOT,
	LEVEL_COMPARE,
	LEVEL_SUM,
	LEVEL_PRODUCT,
	LEVEL_SIGN,
	LEVEL_POWER,
	LEVEL_ATOM
};

struct value {
	const char *name;              /* in the model; NULL: it has none */
	struct type type;              /* in the model */
	enum dtype computed;           /* in the chain; DTYPE_COUNT: it takes the type of the array that it meets */
	const struct tensor *constant; /* or NULL */
	bool weight;                   /* CONSTANT is a weight */
	bool is_statistic;             /* a weight that is always a const */
	const char *text;              /* the formula; NULL: the constant has not been declared */
	int level;                     /* enum level of TEXT */
	bool is_name;                  /* TEXT is a name, which may stand several times */
	int size;                      /* operations in TEXT */
	bool multiplies;               /* TEXT has a product of matrices, or a convolution */
	const char *maker;             /* the name of the node that has made it; NULL: none */
};

struct sentence {
	const char *text;
	const char *comment; /* the model's name of the value that it binds, where the chain's differs; or NULL */
	const char *part;    /* the part of the model that it belongs to; "" if the model names none */
	int depth;           /* of blocks around it */
};

/* A line above the statements: an input, a param or a const. */
struct declaration {
	const char *name, *text;
	const char *comment; /* as of a statement; or NULL */
	const char *key;     /* in the file of weights; NULL: the line has the values itself */
	bool param;
	bool replaced; /* by another declaration: it is not written */
};

struct refusal {
	const char *node, *operator, * reason;
};

enum { SYMBOLS_MOST = 8, GRAPHS_MOST = 64 };
struct symbol {
	const char *name;
	int64_t prime;
	int64_t extent;      /* of --shape; 0: it stays open */
	struct value *zeros; /* as many as the extent, under a name of the chain; NULL: none yet */
};

struct importer {
	const struct context *context;
	const struct import_request *request;
	const Onnx__ModelProto *model;
	struct dictionary names;     /* of the chain that are taken: to their struct value, or to this importer */
	struct dictionary constants; /* that are declared and no weights: a struct value each, by a hash */
	struct symbol symbols[SYMBOLS_MOST];
	size_t symbol_count;
	struct declaration *inputs;
	size_t input_count, input_capacity;
	struct declaration *declared; /* params and consts */
	size_t declared_count, declared_capacity;
	struct sentence *statements;
	size_t statement_count, statement_capacity;
	struct named_array *weights;
	size_t weight_count, weight_capacity;
	struct refusal *refusals;
	size_t refusal_count, refusal_capacity;
	bool weights_in_nodes; /* the model has none among its initializers: some exporters write them as Constant nodes */
	int depth;             /* of the blocks that are open */
	int graphs;            /* that are being read, one within the other */
	enum status outcome;   /* of the first failure that is no refusal */
};

/* The names of one graph or function. */
struct frame {
	struct importer *importer;
	const struct frame *outer; /* of a subgraph; NULL: its names are all */
	const struct node *call;   /* of a function: the node that calls it; else that of OUTER, or NULL */
	struct dictionary values;
	struct dictionary makers; /* the nodes of this graph, by the names that they make */
	struct dictionary reads;  /* how often a name is read: a size_t each */
	struct dictionary forms;  /* of values that are read more than once: see form_of */
	size_t opset_count;
	Onnx__OperatorSetIdProto *const *opsets;
};

enum { OUTPUTS_MOST = 64, INPUTS_MOST = 1024 };
struct node {
	struct importer *importer;
	struct frame *scope;
	const Onnx__NodeProto *proto;
	int64_t version; /* of the operators' set */
	size_t input_count, output_count;
	struct value **inputs;  /* NULL where absent */
	struct value **outputs; /* the translator sets them */
	const char *reason;     /* why the chain cannot say the node; NULL: it can */
};

/* model.c */
enum status model_read(const struct context *context, struct input *input, Onnx__ModelProto **model);
/* Sets *DTYPE to that of ONNX's number TYPE. False if the chain language has none. */
bool model_dtype(int32_t type, enum dtype *dtype);
const char *model_dtype_name(int32_t type);

/* tensor.c */
/* Makes a tensor of PROTO; NAME is for messages. Reads external data. */
enum status tensor_read(struct importer *importer, const Onnx__TensorProto *proto, const char *name,
                        const struct tensor **tensor);
/* Returns a tensor of COUNT numbers, or of one for all elements. NULL if memory is short. */
struct tensor *tensor_make(struct importer *importer, enum dtype dtype, const struct shape *shape,
                           const double *numbers, bool splat);
/* Returns element K. */
static inline double tensor_at(const struct tensor *tensor, int64_t k)
{
	return tensor->numbers[tensor->splat ? 0 : k];
}
/* Returns the elements as --to npy has them, in the computing type of dtype_written; NULL if memory is short. */
const void *tensor_data(struct importer *importer, const struct tensor *tensor);
enum { NUMBERS_MOST = 1 << 20 }; /* elements of constants that are computed while the model is read */

/* graph.c */
enum status graph_read(struct importer *importer);
/*
 * Translates the nodes of GRAPH in SCOPE, whose inputs are set, and stores its outputs in OUTPUTS, which has space for all
 * n_output of them. NULL where a node could not be said.
 */
enum status graph_translate(struct frame *scope, const Onnx__GraphProto *graph, struct value **outputs);
/* Begins the scope of a subgraph of NODE. */
void scope_open(struct frame *scope, const struct node *node, const Onnx__GraphProto *graph);
bool scope_set(struct frame *scope, const char *name, struct value *value);

/* blocks.c */
/* Makes loops of the blocks that the statements repeat. */
enum status blocks_roll(struct importer *importer);

/* folding.c */
/* Returns the value of FORMULA, of the constants OPERANDS that it calls a, b, c; NULL if that fails. */
struct value *fold_formula(struct node *node, const char *formula, struct value *const *operands, int count,
                           const struct type *type);
bool fold_can(const struct value *value);
/* True if the elements of VALUE are known here. */
static inline bool is_foldable(const struct value *value)
{
	return value->constant && value->constant->numbers && !value->weight;
}
/* True if they can be read here: of a weight too. */
static inline bool is_readable(const struct value *value) { return value->constant && value->constant->numbers; }

/* names.c */
/* Returns a free name for the chain that is as near to NAME as the language allows. */
const char *name_take(struct importer *importer, const char *name);
/* True if name_take has made TAKEN of NAME. */
bool name_is_of(const char *taken, const char *name);
/* If NUMBER is a multiple of the prime of an open symbol, returns the factor, else 0. */
int64_t symbol_factor(const struct importer *importer, int64_t number);
/* True if NUMBER depends on an open symbol. */
bool symbol_in(const struct importer *importer, double number);
/* Returns the type that a chain declares for arrays of DTYPE: among integers it can name i32 and i64 alone. */
enum dtype dtype_declared(enum dtype dtype);
/* Returns ARENA's copy of the type as the language has it: a multiple of a symbol is `*`. */
const char *type_text(struct importer *importer, const struct type *type);

#endif
