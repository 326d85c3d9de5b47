/*
 * Formulas: the text of an operation on values, and the type of its result by the table of operations. An operation whose
 * operands are all known is computed at once (folding.c).
 *
 * A value that several nodes read gets a name by `let`, and so does a formula that would be too long. All others stand
 * within the formula that reads them.
 * Tests: tests/scripts/check-import
 */
#include "onnx/translate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Operations of a formula within another one, and of all that an operation reads. Equal layers get equal formulas. */
enum { INNER_MOST = 4, FORMULA_MOST = 6, WORDS_MOST = 512, LISTED_MOST = 16 };

static struct arena *arena_of(const struct node *node) { return node->importer->context->arena; }

struct value *formula(struct node *node, const struct type *type, enum dtype held, const char *text, int level)
{
	struct value *v = text ? arena_alloc(arena_of(node), sizeof *v) : NULL;
	if (!v)
		return short_of_memory(node);
	*v = (struct value){
		.type = *type, .computed = held, .text = text, .level = level, .size = 1, .maker = node->proto->name};
	return v;
}

struct value *constant(struct node *node, const struct tensor *tensor)
{
	struct value *v = tensor ? arena_alloc(arena_of(node), sizeof *v) : NULL;
	if (!v)
		return short_of_memory(node);
	*v = (struct value){.type = tensor->type, .computed = tensor->type.dtype, .constant = tensor};
	return v;
}

struct value *filled(struct node *node, enum dtype dtype, const struct shape *shape, double number)
{
	static const struct shape no_axes;
	return constant(node, tensor_make(node->importer, dtype, shape ? shape : &no_axes, &number, true));
}

struct value *number_like(struct node *node, const struct value *like, double number)
{
	return like ? filled(node, like->type.dtype, NULL, number) : NULL;
}

struct value *numbers_of(struct node *node, enum dtype dtype, const double *numbers, const struct shape *shape,
                         int64_t count)
{
	const struct shape vector = {1, {count}};
	return constant(node, tensor_make(node->importer, dtype, shape ? shape : &vector, numbers, false));
}

const char *number_text(struct node *node, double number, enum dtype dtype)
{
	char text[40];
	if (symbol_in(node->importer, number))
		return refuse(node, "a number depends on an extent that the model leaves open; --shape gives it");
	number_format(text, number, dtype_is_integer(dtype) ? DTYPE_F64 : dtype);
	const char *copy = arena_printf(arena_of(node), "%s", text);
	return copy ? copy : short_of_memory(node);
}

const char *list_text(struct node *node, const int64_t *numbers, size_t count)
{
	const char *text = "[";
	for (size_t i = 0; i < count && text; i++)
		text = arena_printf(arena_of(node), "%s%s%" PRId64, text, i ? "," : "", numbers[i]);
	text = text ? arena_printf(arena_of(node), "%s]", text) : NULL;
	return text ? text : short_of_memory(node);
}

/* Returns the part of the model of a node: its name up to the last '/'. */
static const char *part_of_name(struct node *node, const char *name)
{
	const char *slash = name ? strrchr(name, '/') : NULL;
	return slash ? arena_strndup(arena_of(node), name, (size_t)(slash - name)) : "";
}

static void add_statement(struct node *node, const char *maker, const char *text, const char *comment)
{
	struct importer *im = node->importer;
	struct sentence *s =
		arena_append(arena_of(node), &im->statements, &im->statement_count, &im->statement_capacity, sizeof *s);
	const char *part = part_of_name(node, maker ? maker : node->proto->name);
	if (s && text && part)
		*s = (struct sentence){text, comment, part, im->depth};
	else
		short_of_memory(node);
}

void state(struct node *node, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	add_statement(node, NULL, arena_vprintf(arena_of(node), format, arguments), NULL);
	va_end(arguments);
}

void block_begin(struct node *node) { node->importer->depth++; }

void block_end(struct node *node)
{
	node->importer->depth--;
	state(node, "}");
}

/* Returns the elements of TENSOR from FIRST on, as nested lists of its axes from AXIS on. */
static const char *nested_text(struct node *node, const struct tensor *tensor, int axis, int64_t *first)
{
	if (axis == tensor->type.shape.ndim)
		return number_text(node, tensor_at(tensor, (*first)++), tensor->type.dtype);
	const char *text = "[";
	for (int64_t i = 0; i < tensor->type.shape.dim[axis] && text; i++) {
		const char *inner = nested_text(node, tensor, axis + 1, first);
		text = inner ? arena_printf(arena_of(node), "%s%s%s", text, i ? ", " : "", inner) : NULL;
	}
	return text ? arena_printf(arena_of(node), "%s]", text) : NULL;
}

/* Returns the text that gives the elements of V in its declaration, or NULL if a file must have them. */
static const char *initial_text(struct node *node, const struct value *v)
{
	const struct tensor *tensor = v->constant;
	const int64_t count = shape_count(&tensor->type.shape);
	int64_t first = 0;
	if (v->weight || !tensor->numbers)
		return NULL;
	if (count == 0)
		return "zeros";
	if (tensor->splat && tensor->numbers[0] == 0)
		return "zeros";
	if (tensor->splat && tensor->numbers[0] == 1)
		return "ones";
	if (tensor->splat) {
		const char *number = number_text(node, tensor->numbers[0], tensor->type.dtype);
		return number ? arena_printf(arena_of(node), "full(%s)", number) : NULL;
	}
	return count <= LISTED_MOST ? nested_text(node, tensor, 0, &first) : NULL;
}

/* Returns the chain's string for KEY, or NULL if it has bytes that no string can. */
static const char *quoted(struct node *node, const char *key)
{
	char *text = arena_alloc(arena_of(node), 2 * strlen(key) + 3), *at = text;
	if (!text)
		return short_of_memory(node);
	*at++ = '"';
	for (; *key; key++) {
		if (*key == '\n' || *key == '\r')
			return NULL;
		if (*key == '"' || *key == '\\')
			*at++ = '\\';
		*at++ = *key;
	}
	*at++ = '"';
	*at = '\0';
	return text;
}

static bool key_is_free(const struct importer *im, const char *key)
{
	for (size_t i = 0; i < im->weight_count; i++)
		if (im->weights[i].name && !strcmp(im->weights[i].name, key))
			return false;
	return true;
}

/* Adds V to the file of weights, as KEY. Returns the text that loads it. */
static const char *stored_text(struct node *node, const struct value *v, const char *key)
{
	struct importer *im = node->importer;
	const void *data = tensor_data(im, v->constant);
	struct named_array *array =
		arena_append(arena_of(node), &im->weights, &im->weight_count, &im->weight_capacity, sizeof *array);
	if (!data || !array)
		return short_of_memory(node);
	*array = (struct named_array){.name = key, .type = v->constant->type, .data = data};
	array->type.dtype = dtype_written(array->type.dtype);
	const char *text = quoted(node, key);
	return text ? arena_printf(arena_of(node), "load(\"%s\", %s)", im->request->tensors, text) : NULL;
}

/* Refuses a constant whose shape or elements depend on an open extent. */
static bool is_settled(struct node *node, const struct value *v)
{
	bool open = false;
	const struct tensor *tensor = v->constant;
	for (int i = 0; i < v->type.shape.ndim; i++)
		open |= symbol_in(node->importer, (double)v->type.shape.dim[i]);
	const int64_t count = tensor->splat ? 1 : shape_count(&tensor->type.shape);
	for (int64_t i = 0; dtype_is_integer(v->type.dtype) && tensor->numbers && i < count && !open; i++)
		open = symbol_in(node->importer, tensor->numbers[i]);
	if (open)
		refuse(node, "an array depends on an extent that the model leaves open; --shape gives it");
	return !open;
}

/* Returns the key of V, a constant, in a dictionary; NULL if it has none. */
static const char *constant_key(struct node *node, const struct value *v)
{
	const struct tensor *t = v->constant;
	if (v->weight || !t->numbers)
		return NULL;
	const size_t count = t->splat ? 1 : (size_t)shape_count(&t->type.shape);
	uint64_t hash = hash_bytes(HASH_START, t->type.shape.dim, (size_t)t->type.shape.ndim * sizeof *t->type.shape.dim);
	hash = hash_bytes(hash, t->numbers, count * sizeof *t->numbers);
	return arena_printf(arena_of(node), "%d %d %" PRIx64, (int)t->type.dtype, t->splat, hash);
}

static bool same_constant(const struct tensor *a, const struct tensor *b)
{
	const size_t count = a->splat ? 1 : (size_t)shape_count(&a->type.shape);
	return type_equal(&a->type, &b->type) && a->splat == b->splat &&
	       !memcmp(a->numbers, b->numbers, count * sizeof *a->numbers);
}

struct value *declare(struct node *node, struct value *v)
{
	struct importer *im = node->importer;
	if (!v || v->text)
		return v;
	if (v->constant->splat && rows_in(im, &v->type.shape) >= 0)
		return fill_rows(node, v);
	if (!is_settled(node, v))
		return NULL;
	const char *same_key = constant_key(node, v);
	const struct value *same = same_key ? dictionary_find(&im->constants, same_key) : NULL;
	if (same && same_constant(same->constant, v->constant)) {
		v->text = same->text;
		v->computed = same->computed;
		v->level = LEVEL_ATOM;
		v->is_name = true;
		return v;
	}
	const char *name = name_take(im, v->name ? v->name : "constant"), *type = type_text(im, &v->type);
	const char *initial = initial_text(node, v), *key = NULL;
	if (!name || !type)
		return short_of_memory(node);
	if (!initial && !node->reason) {
		key = v->name && quoted(node, v->name) && key_is_free(im, v->name) ? v->name : name;
		for (int i = 2; key && !key_is_free(im, key); i++)
			key = arena_printf(arena_of(node), "%s_%d", name, i);
		initial = key ? stored_text(node, v, key) : NULL;
	}
	if (!initial)
		return node->reason ? NULL : short_of_memory(node);
	const bool param = v->weight && !v->is_statistic && !im->request->consts && !dtype_is_integer(v->type.dtype);
	struct declaration *d =
		arena_append(arena_of(node), &im->declared, &im->declared_count, &im->declared_capacity, sizeof *d);
	const bool renamed = v->name && strcmp(v->name, name) && v->weight && !strchr(v->name, '\n');
	if (!d || !dictionary_put(&im->names, arena_of(node), name, v))
		return short_of_memory(node);
	*d = (struct declaration){.name = name, .key = key, .param = param, .comment = renamed ? v->name : NULL};
	d->text = arena_printf(arena_of(node), "%s %s: %s = %s", param ? "param" : "const", name, type, initial);
	if (!d->text)
		return short_of_memory(node);
	v->text = name;
	v->computed = dtype_declared(v->type.dtype);
	v->level = LEVEL_ATOM;
	v->is_name = true;
	if (same_key && !dictionary_put(&im->constants, arena_of(node), same_key, v))
		return short_of_memory(node);
	return v;
}

/*
 * Returns NAME, of a value between nodes, without what exporters put around: "/fc/MatMul_output_0" is "fc/MatMul". A long
 * path loses its first parts.
 */
static const char *short_name(struct node *node, const char *name)
{
	enum { LONG = 40 };
	static const char *const endings[] = {"_output_0", ":0"};
	const char *text = name;
	for (size_t i = 0; i < 2; i++) {
		const size_t length = strlen(name), all = strlen(endings[i]);
		if (strchr(name, '/') && length > all + 1 && !strcmp(name + length - all, endings[i]))
			text = arena_strndup(arena_of(node), name, length - all);
	}
	text = text ? text : name;
	for (const char *slash = strchr(text, '/'); slash && slash[1] && (slash == text || strlen(text) > LONG);
	     slash = strchr(text, '/'))
		text = slash + 1;
	return text;
}

struct value *bind(struct node *node, struct value *v, const char *what)
{
	if (!v || v->is_name)
		return v;
	if (v->constant && !v->text)
		return declare(node, v);
	const char *name = name_take(node->importer, short_name(node, what));
	if (!name)
		return short_of_memory(node);
	const bool differs = strcmp(name, what) && v->name && !strchr(what, '\n');
	add_statement(node, v->maker, arena_printf(arena_of(node), "let %s = %s", name, v->text), differs ? what : NULL);
	if (!dictionary_put(&node->importer->names, arena_of(node), name, v))
		return short_of_memory(node);
	v->text = name;
	v->level = LEVEL_ATOM;
	v->is_name = true;
	v->size = 0;
	v->multiplies = false;
	return v;
}

struct value *once(struct node *node, struct value *v)
{
	const char *what = node->output_count && *node->proto->output[0] ? node->proto->output[0] : "value";
	if (!v)
		return NULL;
	return bind(node, v, v->name && *v->name ? v->name : arena_printf(arena_of(node), "%s_in", what));
}

static const struct {
	const char *operation, *sign;
	int level;
} signs[] = {
	{"add", "+", LEVEL_SUM},     {"sub", "-", LEVEL_SUM},     {"mul", "*", LEVEL_PRODUCT},
	{"div", "/", LEVEL_PRODUCT}, {"mod", "%", LEVEL_PRODUCT}, {"matmul", "@", LEVEL_PRODUCT},
	{"pow", "^", LEVEL_POWER},   {"lt", "<", LEVEL_COMPARE},  {"le", "<=", LEVEL_COMPARE},
	{"gt", ">", LEVEL_COMPARE},  {"ge", ">=", LEVEL_COMPARE}, {"eq", "==", LEVEL_COMPARE},
	{"ne", "!=", LEVEL_COMPARE}, {"and", "and", LEVEL_AND},   {"or", "or", LEVEL_OR},
};
enum { SIGNS = sizeof signs / sizeof *signs };

static int find_sign(const char *operation)
{
	int i = 0;
	while (i < SIGNS && strcmp(signs[i].operation, operation))
		i++;
	return i;
}

/* An application: the operation, its values, and its arguments as words. */
struct application {
	const char *name;
	enum op op;
	struct value *v[MAX_VALUES];
	int count;
	char words[WORDS_MOST];
	struct attrs attrs;
	struct type type;
	enum dtype computed;
};

/* Reads the number that begins TEXT. */
static bool parse_number(const char *text, size_t length, struct argument *argument)
{
	char *end;
	if (!length || !number_parse(text, length, &argument->number))
		return false;
	argument->kind = ARGUMENT_NUMBER;
	const long long integer = strtoll(text, &end, 10);
	argument->integer = end == text + length;
	argument->as_integer = integer;
	return true;
}

static bool read_list(struct node *node, const char *text, size_t length, struct argument *argument)
{
	double *numbers = arena_array(arena_of(node), length + 1, sizeof *numbers);
	int64_t *integers = arena_array(arena_of(node), length + 1, sizeof *integers);
	bool whole = true;
	if (!numbers || !integers)
		return short_of_memory(node), false;
	for (const char *at = text + 1, *end = text + length - 1; at < end;) {
		const size_t part = strcspn(at, ",]");
		struct argument one = {0};
		if (!parse_number(at, part, &one))
			return false;
		numbers[argument->count] = one.number;
		integers[argument->count++] = one.as_integer;
		whole &= one.integer;
		at += part + 1;
	}
	argument->kind = ARGUMENT_LIST;
	argument->numbers = numbers;
	argument->integers = whole ? integers : NULL;
	return true;
}

/* Sets the argument that LENGTH bytes of TEXT say. INDEX is the number of those without a name. */
static bool set_word(struct node *node, struct application *a, const char *text, size_t length, int *index)
{
	const bool string = *text == '"';
	const char *equals = string ? NULL : memchr(text, '=', length);
	const size_t before = equals ? (size_t)(equals - text) + 1 : 0;
	const char *name = equals ? arena_strndup(arena_of(node), text, before - 1) : NULL;
	const char *value = string ? arena_strndup(arena_of(node), text + 1, length - 2)
	                           : arena_strndup(arena_of(node), text + before, length - before);
	struct argument argument = {.kind = ARGUMENT_WORD};
	struct complaint complaint = {.arena = arena_of(node)};
	if (!value || (equals && !name))
		return short_of_memory(node), false;
	argument.word = value;
	if (!strcmp(value, "true") || !strcmp(value, "false")) {
		argument.kind = ARGUMENT_BOOL;
		argument.boolean = *value == 't';
	} else if (*value == '[') {
		if (!read_list(node, value, strlen(value), &argument))
			return false;
	} else if (!string) {
		(void)parse_number(value, strlen(value), &argument);
	}
	if (attrs_set(&a->attrs, a->op, name, name ? 0 : (*index)++, &argument, &complaint) == STATUS_OK)
		return true;
	return refuse(node, "%s", complaint.message ? complaint.message : "out of memory"), false;
}

static bool set_arguments(struct node *node, struct application *a)
{
	int index = 0;
	attrs_default(&a->attrs, a->op);
	for (const char *at = a->words; *at;) {
		const size_t length = strcspn(at, " ");
		if (length && !set_word(node, a, at, length, &index))
			return false;
		at += length + (at[length] == ' ');
	}
	return true;
}

/* Sets the type of the result. */
static bool infer_type(struct node *node, struct application *a)
{
	const struct type *operands[MAX_OPERANDS] = {NULL};
	struct complaint complaint = {.arena = arena_of(node)};
	a->type = a->v[0]->type;
	if (op_table[a->op].class != OP_CLASS_GENERAL) {
		for (int i = 1; i < a->count; i++)
			if (!shape_broadcast(&a->type.shape, &a->v[i]->type.shape, &a->type.shape))
				return refuse(node, "its shapes %s and %s do not fit", type_text(node->importer, &a->v[0]->type),
				              type_text(node->importer, &a->v[i]->type)),
				       false;
		return true;
	}
	for (int i = 1; i < a->count; i++)
		operands[i - 1] = &a->v[i]->type;
	if (op_infer(a->op, &a->attrs, &a->v[0]->type, operands, &a->type, &complaint) == STATUS_OK)
		return true;
	return refuse(node, "%s", complaint.message ? complaint.message : "out of memory"), false;
}

/* Returns the type that the chain computes with where values of A and B widest. */
static enum dtype widest(enum dtype a, enum dtype b)
{
	if (a == DTYPE_COUNT || b == DTYPE_COUNT)
		return a == DTYPE_COUNT ? b : a;
	return dtype_promote(dtype_is_integer(a) ? DTYPE_F64 : a, dtype_is_integer(b) ? DTYPE_F64 : b);
}

/* Returns the type of the result in the chain. */
static enum dtype hold(const struct application *a)
{
	const struct op_info *info = &op_table[a->op];
	enum dtype held = DTYPE_COUNT;
	bool integers = true;
	for (int i = 0; i < a->count; i++) {
		const struct value *v = a->v[i];
		integers &= v->computed == DTYPE_COUNT || dtype_is_integer(v->computed);
		if (op_promotes(a->op, (uint32_t)i) && !(i == 0 && op_indices(a->op) == NEED_V))
			held = widest(held, v->computed);
	}
	if (!strncmp(a->name, "arg", 3)) /* argmax, argsort and the like give indices */
		return DTYPE_I64;
	if (op_gives_condition(a->op) && integers)
		return DTYPE_COUNT;
	if (info->class == OP_CLASS_GENERAL && a->count == 1 && dtype_is_integer(a->v[0]->computed))
		return op_only_moves(a->op) ? a->v[0]->computed : DTYPE_F64;
	return held;
}

/* Returns the number by which operand I can stand in an element-wise operation, or NULL if it cannot. */
static const char *as_number(struct node *node, const struct application *a, int i)
{
	const struct value *v = a->v[i];
	if (!is_foldable(v) || op_table[a->op].class == OP_CLASS_GENERAL)
		return NULL;
	const int64_t count = shape_count(&v->type.shape);
	if (count < 1 || (!v->constant->splat && count > 1))
		return NULL;
	struct shape others = {0};
	for (int k = 0; k < a->count; k++)
		if (k != i)
			shape_broadcast(&others, &a->v[k]->type.shape, &others);
	return shape_equal(&others, &a->type.shape) ? number_text(node, v->constant->numbers[0], v->type.dtype) : NULL;
}

/* Returns the text of operand I within a formula of LEVEL. */
static const char *operand_text(struct node *node, const struct application *a, int i, int level)
{
	const char *number = as_number(node, a, i);
	if (number)
		return *number == '-' && level > LEVEL_SIGN ? arena_printf(arena_of(node), "(%s)", number) : number;
	if (node->reason || !declare(node, a->v[i]))
		return NULL;
	const bool twice = a->v[i]->multiplies && op_is_product(a->op);
	if ((twice || a->v[i]->size > INNER_MOST) && !once(node, a->v[i]))
		return NULL;
	const struct value *v = a->v[i];
	return v->level < level ? arena_printf(arena_of(node), "(%s)", v->text) : v->text;
}

/* Returns the text of A. TEXTS are those of its values. */
static const char *call_text(struct node *node, const struct application *a, const char *const texts[])
{
	const bool string = *a->words == '"'; /* it stands before the values */
	const char *text = a->op == OP_where ? arena_printf(arena_of(node), "where(%s, %s", texts[1], texts[0])
	                                     : arena_printf(arena_of(node), "%s(%s%s%s", a->name, string ? a->words : "",
	                                                    string ? ", " : "", texts[0]);
	for (int i = a->op == OP_where ? 2 : 1; i < a->count && text; i++)
		text = arena_printf(arena_of(node), "%s, %s", text, texts[i]);
	for (const char *at = string ? "" : a->words; *at && text;) {
		const size_t length = strcspn(at, " ");
		if (length)
			text = arena_printf(arena_of(node), "%s, %.*s", text, (int)length, at);
		at += length + (at[length] == ' ');
	}
	return text ? arena_printf(arena_of(node), "%s)", text) : NULL;
}

/* Returns the text of A with the texts TEXTS, in the form of its sign if it has one. */
static const char *sign_text(struct node *node, const struct application *a, const char *const texts[])
{
	const int sign = a->count == 2 ? find_sign(a->name) : SIGNS;
	if (sign < SIGNS)
		return arena_printf(arena_of(node), "%s %s %s", texts[0], signs[sign].sign, texts[1]);
	if (!strcmp(a->name, "neg"))
		return arena_printf(arena_of(node), "-%s", texts[0]);
	if (!strcmp(a->name, "not"))
		return arena_printf(arena_of(node), "not %s", texts[0]);
	return call_text(node, a, texts);
}

/* Returns the text of A, and stores its level. */
static const char *compose(struct node *node, struct application *a, int *level)
{
	const int sign = a->count == 2 ? find_sign(a->name) : SIGNS;
	const char *texts[MAX_VALUES];
	*level = LEVEL_ATOM;
	if (sign < SIGNS)
		*level = signs[sign].level;
	if (!strcmp(a->name, "neg"))
		*level = LEVEL_SIGN;
	if (!strcmp(a->name, "not"))
		*level = LEVEL_NOT;
	for (int i = 0; i < a->count; i++) {
		const bool stronger = *level == LEVEL_POWER || *level == LEVEL_COMPARE || i == 1;
		texts[i] = operand_text(node, a, i, sign < SIGNS ? *level + stronger : *level == LEVEL_ATOM ? 0 : *level);
		if (!texts[i])
			return node->reason ? NULL : short_of_memory(node);
	}
	/* A large formula becomes two: its largest operand gets a name. */
	int all = 0, largest = 0;
	for (int i = 0; i < a->count; i++) {
		all += a->v[i]->size;
		largest = a->v[i]->size > a->v[largest]->size ? i : largest;
	}
	if (all > FORMULA_MOST) {
		if (!once(node, a->v[largest]))
			return NULL;
		texts[largest] = a->v[largest]->text;
	}
	return sign_text(node, a, texts);
}

/* Returns the result where all values are known. */
static struct value *compute(struct node *node, struct application *a)
{
	static const char *const names[MAX_VALUES] = {"a", "b", "c", "d"};
	const char *text = sign_text(node, a, names);
	return text ? fold_formula(node, text, a->v, a->count, &a->type) : short_of_memory(node);
}

static struct value *apply_all(struct node *node, struct application *a)
{
	int level;
	bool known = true;
	a->op = op_find(a->name);
	for (int i = 0; i < a->count; i++)
		if (!a->v[i])
			return NULL;
	if (a->op == OP_COUNT)
		return refuse(node, "this ckptc has no operation '%s'", a->name);
	if (!set_arguments(node, a) || !infer_type(node, a))
		return NULL;
	for (int i = 0; i < a->count; i++)
		known &= fold_can(a->v[i]);
	if (known && shape_count(&a->type.shape) <= NUMBERS_MOST && rows_in(node->importer, &a->type.shape) < 0)
		return compute(node, a);
	const char *text = compose(node, a, &level);
	struct value *v = text ? formula(node, &a->type, hold(a), text, level) : NULL;
	for (int i = 0; v && i < a->count; i++) {
		v->size += a->v[i]->size;
		v->multiplies |= a->v[i]->multiplies;
	}
	if (v)
		v->multiplies |= op_is_product(a->op) || a->op == OP_einsum;
	return v;
}

static bool print_words(struct node *node, struct application *a, const char *format, va_list arguments)
{
	const int length = vsnprintf(a->words, sizeof a->words, format, arguments);
	if (length >= 0 && (size_t)length < sizeof a->words)
		return true;
	return refuse(node, "its arguments are too long"), false;
}

struct value *apply(struct node *node, const char *operation, struct value *v, const char *format, ...)
{
	struct application a = {.name = operation, .v = {v}, .count = 1};
	va_list arguments;
	va_start(arguments, format);
	const bool good = print_words(node, &a, format, arguments);
	va_end(arguments);
	return good ? apply_all(node, &a) : NULL;
}

struct value *apply_to(struct node *node, const char *operation, struct value *v, struct value *operand,
                       const char *format, ...)
{
	struct application a = {.name = operation, .v = {v, operand}, .count = 2};
	va_list arguments;
	va_start(arguments, format);
	const bool good = print_words(node, &a, format, arguments);
	va_end(arguments);
	return good ? apply_all(node, &a) : NULL;
}

struct value *apply_several(struct node *node, const char *operation, struct value *const v[], int count,
                            const char *format, ...)
{
	struct application all = {.name = operation, .count = count};
	memcpy(all.v, v, (size_t)count * sizeof *v);
	va_list arguments;
	va_start(arguments, format);
	const bool good = print_words(node, &all, format, arguments);
	va_end(arguments);
	return good ? apply_all(node, &all) : NULL;
}

struct value *binary(struct node *node, const char *operation, struct value *v, struct value *a)
{
	return apply_to(node, operation, v, a, " ");
}

struct value *plus(struct node *node, struct value *v, double number)
{
	return number == 0 ? v : binary(node, "add", v, number_like(node, v, number));
}

struct value *times(struct node *node, struct value *v, double number)
{
	return number == 1 ? v : binary(node, "mul", v, number_like(node, v, number));
}

struct value *choose(struct node *node, struct value *condition, struct value *v, struct value *b)
{
	struct application a = {.name = "where", .v = {v, condition, b}, .count = 3};
	return apply_all(node, &a);
}

struct value *typed(struct node *node, struct value *v, enum dtype dtype)
{
	if (!v || v->type.dtype == dtype)
		return v;
	struct value *copy = arena_alloc(arena_of(node), sizeof *copy);
	if (!copy)
		return short_of_memory(node);
	*copy = *v;
	copy->type.dtype = dtype;
	copy->name = NULL;
	if (v->constant && v->constant->numbers && !v->weight && !v->text) {
		const struct tensor *tensor =
			tensor_make(node->importer, dtype, &v->type.shape, v->constant->numbers, v->constant->splat);
		return constant(node, tensor);
	}
	return copy;
}

struct value *convert(struct node *node, struct value *v, enum dtype dtype)
{
	if (!v)
		return NULL;
	if (is_foldable(v))
		return typed(node, v, dtype);
	const bool from_integer = dtype_is_integer(v->type.dtype), to_integer = dtype_is_integer(dtype);
	if (dtype == DTYPE_BOOL && v->type.dtype != DTYPE_BOOL)
		return typed(node, binary(node, "ne", v, number_like(node, v, 0)), DTYPE_BOOL);
	if (to_integer && from_integer)
		return dtype != DTYPE_BOOL && dtype_size(dtype) < 4 && dtype_size(dtype) < dtype_size(v->type.dtype)
		           ? wrapped(node, v, dtype)
		           : typed(node, v, dtype);
	if (to_integer) {
		struct value *whole = unary(node, "trunc", v);
		if (whole && (whole->computed == DTYPE_F32 || whole->computed == DTYPE_F16 || whole->computed == DTYPE_BF16)) {
			whole = apply(node, "cast", whole, "f64");
			if (whole)
				whole->computed = DTYPE_F64;
		}
		return typed(node, whole, dtype);
	}
	if (v->computed == dtype)
		return typed(node, v, dtype);
	struct value *made = apply(node, "cast", v, "%s", dtype_name(dtype));
	if (made) {
		made->computed = dtype;
		made->type.dtype = dtype;
	}
	return made;
}
