/*
 * What translators of operators are made of. A function that returns a value returns NULL if that cannot be said: the
 * node then has its reason (refuse), or the importer its status. An argument of NULL gives NULL. So calls nest without
 * tests in between.
 */
#ifndef ONNX_TRANSLATE_H
#define ONNX_TRANSLATE_H

#include "onnx/importer.h"

#include <string.h>

/* A translator sets the outputs of NODE. */
typedef void translate(struct node *node);

struct operator_row {
	const char *domain; /* "" is ONNX's own */
	const char *name;
	translate *translate;
	const char *operation; /* of the chain, for translators that serve many operators; or NULL */
};
extern const struct operator_row operator_table[];
extern const size_t operator_count;
const struct operator_row *operator_find(const char *domain, const char *name);
/* Returns OPERATION of the row of NODE's operator. */
const char *operation_of(const struct node *node);

/* node.c: what a node has */

/* Says why the chain cannot say NODE, unless that is known already. Returns NULL. */
__attribute__((format(printf, 2, 3))) void *refuse(struct node *node, const char *format, ...);
/* Fails for want of memory. Returns NULL. */
void *short_of_memory(struct node *node);
/* Returns input I, or NULL if the node has none there. */
static inline struct value *input(const struct node *node, size_t i)
{
	return i < node->input_count ? node->inputs[i] : NULL;
}
/* The same; refuses where there is none. */
struct value *needed(struct node *node, size_t i);
/* Sets output I to VALUE. */
void give(struct node *node, size_t i, struct value *value);
/* True if a node or the graph reads output I. */
bool is_wanted(const struct node *node, size_t i);
const Onnx__AttributeProto *attribute(const struct node *node, const char *name);
int64_t attribute_integer(const struct node *node, const char *name, int64_t otherwise);
double attribute_number(const struct node *node, const char *name, double otherwise);
/* Returns the text of attribute NAME, in the arena; OTHERWISE if there is none. */
const char *attribute_text(struct node *node, const char *name, const char *otherwise);

struct integers {
	size_t count;
	int64_t *at; /* NULL: not given */
};
/* Returns the list NAME in the arena, which may be changed. */
struct integers attribute_integers(struct node *node, const char *name);
/* Returns input I as integers. It must be known while the model is read: else refuses, and AT is NULL. WHAT names it. */
struct integers input_integers(struct node *node, size_t i, const char *what);
/* Returns the list that opset SINCE made input I of the attribute NAME. */
struct integers axes_of(struct node *node, const char *name, size_t i, int64_t since);
/* Stores the number in input I as *NUMBER. False if there is none, or it is not known: then refuses. */
bool input_number(struct node *node, size_t i, const char *what, double *number);
int64_t to_integer(double number);
/* Resolves AXIS of NDIM. Refuses, and returns false, where there is none. */
bool resolve_axis(struct node *node, int64_t axis, int ndim, int *resolved);

/* formula.c: values of formulas */

/* Returns a value of no text, which is constant. */
struct value *constant(struct node *node, const struct tensor *tensor);
/* Returns an array of DTYPE and SHAPE that is NUMBER everywhere; without axes if SHAPE is NULL. */
struct value *filled(struct node *node, enum dtype dtype, const struct shape *shape, double number);
struct value *number_like(struct node *node, const struct value *like, double number);
/* Returns a vector, or the array of SHAPE unless that is NULL. */
struct value *numbers_of(struct node *node, enum dtype dtype, const double *numbers, const struct shape *shape,
                         int64_t count);
/*
 * Applies OPERATION to V and, unless NULL, the operands A and B. The arguments are words as in a stage: "2 -1",
 * "axis=[0,2] keepdims=true". Element-wise operations broadcast. An operation that this ckptc lacks is a refusal.
 */
__attribute__((format(printf, 4, 5))) struct value *apply(struct node *node, const char *operation, struct value *v,
                                                          const char *format, ...);
__attribute__((format(printf, 5, 6))) struct value *apply_to(struct node *node, const char *operation, struct value *v,
                                                             struct value *a, const char *format, ...);
/* The same for COUNT values, V[0] and its operands. */
__attribute__((format(printf, 5, 6))) struct value *
apply_several(struct node *node, const char *operation, struct value *const v[], int count, const char *format, ...);
struct value *binary(struct node *node, const char *operation, struct value *v, struct value *a);
static inline struct value *unary(struct node *node, const char *operation, struct value *v)
{
	return apply(node, operation, v, " ");
}
/* V + NUMBER, and V * NUMBER. */
struct value *plus(struct node *node, struct value *v, double number);
struct value *times(struct node *node, struct value *v, double number);
/* V where CONDITION is not 0, else B. */
struct value *choose(struct node *node, struct value *condition, struct value *v, struct value *b);
/* Gives V a name in the chain, so that its formula stands once. Returns V. */
struct value *once(struct node *node, struct value *v);
/* The same, for WHAT. */
struct value *bind(struct node *node, struct value *v, const char *what);
/* Returns V as one of DTYPE; a copy that is known to be of DTYPE where nothing changes. */
struct value *convert(struct node *node, struct value *v, enum dtype dtype);
/* Returns V modulo 2 to the bits of DTYPE, an integer type: the upper half is below 0 if that is signed. */
struct value *wrapped(struct node *node, struct value *v, enum dtype dtype);
/* Returns V, whose type in the model is DTYPE. */
struct value *typed(struct node *node, struct value *v, enum dtype dtype);
/* Makes sure that V has a text. Returns V. */
struct value *declare(struct node *node, struct value *v);
/* Appends the statement of this text, in the block that is open. */
__attribute__((format(printf, 2, 3))) void state(struct node *node, const char *format, ...);
/* Begins and ends a block of statements. */
void block_begin(struct node *node);
void block_end(struct node *node);
/* Returns NUMBERS as a list: "[1, 2]". */
const char *list_text(struct node *node, const int64_t *numbers, size_t count);
/* Returns the text of a number of the chain. */
const char *number_text(struct node *node, double number, enum dtype dtype);
/* Returns a value of TYPE whose formula is TEXT. */
struct value *formula(struct node *node, const struct type *type, enum dtype held, const char *text, int level);

/* rows.c: arrays with an extent that the model leaves open */

/* Returns the only axis of SHAPE whose extent is an open symbol's, if no other depends on one; else -1. */
int rows_in(const struct importer *importer, const struct shape *shape);
/* Sets the text of V, a constant whose elements are all one number and whose shape has such an axis. Returns V. */
struct value *fill_rows(struct node *node, struct value *v);

/* arrange.c: values with elements in other places */

struct value *reshape(struct node *node, struct value *v, const struct shape *shape);
struct value *transpose(struct node *node, struct value *v, const int axes[]);
/* Exchanges two axes. */
struct value *exchange(struct node *node, struct value *v, int a, int b);
/* A part of an axis. COUNT elements from FIRST on, STEP apart. */
struct part {
	int64_t first, count, step;
};
struct value *part_of(struct node *node, struct value *v, const struct part parts[]);
/* Elements FIRST to FIRST + COUNT - 1 of AXIS. */
struct value *range_of(struct node *node, struct value *v, int axis, int64_t first, int64_t count);
/* Element INDEX of AXIS, which goes. */
struct value *pick(struct node *node, struct value *v, int axis, int64_t index);
struct value *join(struct node *node, struct value *const *values, size_t count, int axis);
struct value *new_axis(struct node *node, struct value *v, int axis);
struct value *drop_axis(struct node *node, struct value *v, int axis);
struct value *expand(struct node *node, struct value *v, const struct shape *shape);
struct value *padded(struct node *node, struct value *v, int axis, int64_t before, int64_t after, double with);
/* The parts of axis AXIS of TABLE at INDICES. */
struct value *taken(struct node *node, struct value *indices, struct value *table, int axis);
/* Sums, means and so on over AXES; all if NULL. */
struct value *reduced(struct node *node, const char *operation, struct value *v, const struct integers *axes,
                      bool keeps);

#endif
