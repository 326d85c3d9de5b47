/*
 * Finds the source of the values, the type and the weakness of each param and const.
 *
 * Invariant: a bound array is held in the computing type of its param's dtype, and all
 * its extents are known. Values arrive as doubles or floats and are rounded once, to the
 * declared dtype.
 */
#include "exec/params.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/suggest.h"
#include "exec/init.h"

struct binder {
	struct params *params;
	struct chain *chain;
	const struct param_binding *bindings;
	size_t count;
	struct params_options options;
	struct loader loader;
	struct arena *arena;
	struct diags *diags;
};

/* The source of a param's values. */
struct param_source {
	struct array array; /* type as in the file; data NULL if only types are wanted, or the type is declared */
	const struct init *init;
	struct init number; /* --param NAME=3.5 */
	bool weak;
	const char *text; /* its name in messages */
	bool literal;     /* INIT has the values */
	bool none;        /* only the declared type is known */
};

/* Names. */

static enum status check_bindings(const struct binder *b)
{
	for (size_t i = 0; i < b->count; i++) {
		bool known = false;
		for (size_t k = 0; k < b->chain->param_count && !known; k++)
			known = !strcmp(b->chain->params[k].name, b->bindings[i].name);
		if (known)
			continue;
		diag_file(b->diags, STATUS_USAGE, NULL, -1, "--param %s: the chain has no param or const of that name",
		          b->bindings[i].name);
		const char **names = arena_array(b->arena, b->chain->param_count + 1, sizeof *names);
		for (size_t k = 0; names && k < b->chain->param_count; k++)
			names[k] = b->chain->params[k].name;
		const char *near = names ? suggest_nearest(b->bindings[i].name, names, b->chain->param_count) : NULL;
		if (near)
			diag_hint(b->diags, "did you mean '%s'?", near);
		return STATUS_USAGE;
	}
	return STATUS_OK;
}

static const char *find_binding(const struct binder *b, const char *name)
{
	for (size_t i = b->count; i-- > 0;)
		if (!strcmp(b->bindings[i].name, name))
			return b->bindings[i].value;
	return NULL;
}

/* Sources. */

const char *params_file(const struct init *init, const char *directory, struct arena *arena)
{
	const bool plain = init->path[0] == '/' || !strcmp(directory, ".");
	return plain ? init->path : arena_printf(arena, "%s/%s", directory, init->path);
}

/* True if no file is at PATH. A file that cannot be read is not absent: reading it reports the error. */
static bool is_absent(const char *path)
{
	struct stat st;
	return strcmp(path, "-") != 0 && stat(path, &st) != 0 && errno == ENOENT;
}

/* If only types are wanted and PARAM's is declared, its file need not exist yet. */
static enum status source_file(struct binder *b, const struct param *param, const char *path, const char *key,
                               struct param_source *source)
{
	source->text = path;
	source->none = !b->options.data && param->declared.given && is_absent(path);
	if (source->none)
		return STATUS_OK;
	const enum status status = loader_load(&b->loader, &source->array, path, key);
	source->weak = status == STATUS_OK && source->array.type.shape.ndim == 0;
	return status;
}

static enum status source_init(struct binder *b, const struct param *param, const struct init *init,
                               struct param_source *source)
{
	source->init = init;
	source->array.type.dtype = DTYPE_F64;
	switch (init->kind) {
	case INIT_NONE:
		source->none = true;
		return STATUS_OK;
	case INIT_LOAD: {
		const char *path = params_file(init, b->options.directory, b->arena);
		return path ? source_file(b, param, path, init->key, source) : diag_memory(b->diags);
	}
	case INIT_NUMBER:
	case INIT_LIST:
		source->literal = source->weak = true;
		source->text = "its list"; /* a number fits every type */
		if (init->kind == INIT_LIST)
			source->array.type.shape = init->shape;
		return STATUS_OK;
	default:
		source->literal = true;
		return STATUS_OK;
	}
}

static enum status find_source(struct binder *b, const struct param *param, struct param_source *source)
{
	const char *value = find_binding(b, param->name);
	if (!value)
		return source_init(b, param, &param->init, source);
	double *number = arena_alloc(b->arena, sizeof *number);
	TRY_ALLOC(number, b->diags);
	size_t length = strlen(value);
	if (length && number_parse(value, length, number) == length) {
		source->number = (struct init){.kind = INIT_NUMBER, .values = number, .count = 1};
		return source_init(b, param, &source->number, source);
	}
	return source_file(b, param, value, NULL, source);
}

/* Types. */

static bool whole(const struct shape *shape)
{
	for (int i = 0; i < shape->ndim; i++)
		if (shape->dim[i] < 0)
			return false;
	return true;
}

/* The keyword that declares PARAM. */
static const char *word_of(const struct param *param) { return param->differentiated ? "param" : "const"; }

static enum status need_value(const struct binder *b, const struct param *param)
{
	diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span, "%s '%s' has no value", word_of(param), param->name);
	diag_hint(b->diags, "give one with --param %s=FILE or --param %s=NUMBER", param->name, param->name);
	return STATUS_CHAIN;
}

static enum status need_type(const struct binder *b, const struct param *param)
{
	static const char *const names[] = {[INIT_ZEROS] = "zeros", [INIT_ONES] = "ones",     [INIT_EYE] = "eye",
	                                    [INIT_FULL] = "full",   [INIT_NORMAL] = "normal", [INIT_UNIFORM] = "uniform"};
	const char *kind = word_of(param);
	diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span, "%s '%s' needs a type: '%s' has no shape of its own",
	        kind, param->name, names[param->init.kind]);
	diag_hint(b->diags, "declare every extent, as in: %s %s: f32[256,256] = ...", kind, param->name);
	return STATUS_CHAIN;
}

static enum status mismatch(const struct binder *b, const struct param *param, const struct param_source *source)
{
	char want[TYPE_TEXT], have[TYPE_TEXT];
	type_format(&param->declared.type, want);
	const char *kind = word_of(param);
	if (source->literal) {
		diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span, "%s '%s' is %s, but %s is %s", kind, param->name,
		        want, source->text, shape_format(&source->array.type.shape, have));
	} else {
		diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span, "%s '%s' is %s, but %s holds %s", kind,
		        param->name, want, source->text, type_format(&source->array.type, have));
	}
	return STATUS_CHAIN;
}

/* Sets PARAM's type from its declaration and its source. */
static enum status find_type(const struct binder *b, struct param *param, const struct param_source *source)
{
	const struct declared *declared = &param->declared;
	/* a number fills a declared array */
	const bool number = declared->given && source->literal && source->init->kind == INIT_NUMBER;
	const bool shapeless = source->none || number || (source->literal && init_needs_type(source->init->kind));
	if (shapeless && !(declared->given && whole(&declared->type.shape)))
		return source->none ? need_value(b, param) : need_type(b, param);
	if (source->none && b->options.data)
		return need_value(b, param);
	param->type = shapeless ? declared->type : source->array.type;
	param->weak = source->weak && !declared->given;
	if (declared->given && !shapeless) {
		if (!array_fits(&source->array, &declared->type.shape))
			return mismatch(b, param, source);
		param->type.dtype = declared->type.dtype;
		param->type.shape.ndim = declared->type.shape.ndim;
	}
	if (param->type.dtype > DTYPE_F64)
		param->type.dtype = DTYPE_F64;
	if (param->weak)
		param->type.dtype = b->options.compute;
	if (!type_addressable(&param->type))
		return diag_at(b->diags, STATUS_LIMIT, b->chain->source, param->span, "%s '%s' is too large to address",
		               word_of(param), param->name);
	if (source->literal && source->init->kind == INIT_EYE && param->type.shape.ndim != 2)
		return diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span,
		               "'eye' makes a matrix, and '%s' has %d dimensions", param->name, param->type.shape.ndim);
	param->typed = true;
	return STATUS_OK;
}

/* Checks the arguments of normal(deviation, seed) and uniform(low, high, seed). */
static enum status check_random(const struct binder *b, const struct param *param, const struct param_source *source)
{
	if (!source->literal || (source->init->kind != INIT_NORMAL && source->init->kind != INIT_UNIFORM))
		return STATUS_OK;
	const double *values = source->init->values, seed = values[source->init->count - 1];
	const bool normal = source->init->kind == INIT_NORMAL;
	if (normal && !(values[0] >= 0 && isfinite(values[0])))
		return diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span,
		               "the standard deviation of %s '%s' is not a finite number of at least 0", word_of(param),
		               param->name);
	if (!normal && !isfinite(values[1] - values[0]))
		return diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span, "the range of %s '%s' is not finite",
		               word_of(param), param->name);
	if (seed == floor(seed) && fabs(seed) <= 0x1p53)
		return STATUS_OK;
	return diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span,
	               "the seed of %s '%s' is not a whole number of at most 2^53", word_of(param), param->name);
}

/* Values. */

/* Rounds to float. The caller rounds a half DTYPE's floats again, so these are rounded to odd. */
static void narrow(float *to, const double *from, size_t count, enum dtype dtype)
{
	if (dtype == DTYPE_F16 || dtype == DTYPE_BF16) {
		convert_f64_to_f32_odd(to, from, count);
		return;
	}
	for (size_t i = 0; i < count; i++)
		to[i] = (float)from[i];
}

static void widen(double *to, const float *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] = (double)from[i];
}

static enum status new_array(const struct binder *b, const struct param *param, struct array *array,
                             const struct type *type, enum dtype held)
{
	array->type = *type;
	array->type.dtype = held;
	array->size = (size_t)type_bytes(&array->type);
	array->data = allocator_get(b->params->allocator, array->size, 1);
	if (array->data)
		return STATUS_OK;
	return diag_at(b->diags, STATUS_LIMIT, b->chain->source, param->span, "out of memory: %s '%s' has %zu bytes",
	               word_of(param), param->name, array->size);
}

/* Fills HELD from INIT, rounded to DTYPE, piece by piece: doubles of all values would take three times the memory. */
static void fill_literal(const struct init *init, struct array *held, enum dtype dtype)
{
	enum { PIECE = 512 };
	const int64_t count = shape_count(&held->type.shape);
	double values[PIECE];
	if (held->type.dtype == DTYPE_F64) {
		init_fill(init, &held->type.shape, 0, count, held->data);
		return;
	}
	for (int64_t done = 0; done < count; done += PIECE) {
		const int64_t n = count - done < PIECE ? count - done : PIECE;
		init_fill(init, &held->type.shape, done, n, values);
		narrow((float *)held->data + done, values, (size_t)n, dtype);
	}
}

/* Moves the values of SOURCE to HELD, in the computing type. */
static enum status fill(const struct binder *b, const struct param *param, struct param_source *source,
                        struct array *held)
{
	enum dtype want = dtype_compute(param->type.dtype);
	struct array *from = &source->array;
	size_t count = (size_t)shape_count(&param->type.shape);
	if (!source->literal && dtype_compute(from->type.dtype) == want) {
		*held = *from;
		*from = (struct array){0};
	} else {
		TRY(new_array(b, param, held, &param->type, want));
		if (source->literal)
			fill_literal(source->init, held, param->type.dtype);
		else if (want == DTYPE_F32)
			narrow(held->data, from->data, count, param->type.dtype);
		else
			widen(held->data, from->data, count);
	}
	held->type = param->type;
	held->type.dtype = want;
	return STATUS_OK;
}

/* Converts ARRAY to the dtype of the options, if they name one. */
static enum status convert(const struct binder *b, const struct param *param, struct array *array)
{
	const enum dtype to = b->options.dtype;
	const size_t count = (size_t)shape_count(&array->type.shape);
	struct array from = *array;
	if (to == DTYPE_COUNT || to == from.type.dtype)
		return STATUS_OK;
	enum status status = new_array(b, param, array, &from.type, to);
	if (status) {
		*array = from;
		return status;
	}
	if (to == DTYPE_F32)
		narrow(array->data, from.data, count, DTYPE_F32);
	else
		widen(array->data, from.data, count);
	array_free(&from, b->params->allocator);
	return STATUS_OK;
}

/* Fills a weak param: its exact values, and a block that can hold them in either computing type. */
static enum status fill_weak(const struct binder *b, const struct param *param, struct param_source *source,
                             size_t index)
{
	struct param exact = *param;
	exact.type.dtype = DTYPE_F64;
	enum status status = fill(b, &exact, source, &b->params->exact[index]);
	if (status == STATUS_OK)
		status = new_array(b, param, &b->params->arrays[index], &param->type, DTYPE_F64);
	return status;
}

static enum status bind_param(struct binder *b, size_t index)
{
	struct param *param = &b->chain->params[index];
	struct param_source source = {0};
	enum status status = find_source(b, param, &source);
	if (status == STATUS_OK)
		status = find_type(b, param, &source);
	if (status == STATUS_OK)
		status = check_random(b, param, &source);
	struct array *array = &b->params->arrays[index];
	if (status == STATUS_OK && b->options.data && param->weak) {
		status = fill_weak(b, param, &source, index);
	} else if (status == STATUS_OK && b->options.data) {
		status = fill(b, param, &source, array);
		if (status == STATUS_OK && param->declared.given)
			values_round(array->data, array->type.dtype, (size_t)shape_count(&array->type.shape),
			             param->declared.type.dtype);
		if (status == STATUS_OK)
			status = convert(b, param, array);
	}
	array_free(&source.array, b->params->allocator);
	if (status)
		return status;
	if (!param->weak && b->options.dtype != DTYPE_COUNT)
		param->type.dtype = b->options.dtype;
	struct bound_param *bound = &b->params->bound[index];
	bound->type = param->type;
	bound->type.dtype = dtype_compute(param->type.dtype);
	bound->data = array->data;
	/* A weak param has two arrays, each with room for doubles. */
	const int64_t bytes = param->weak ? 16 * shape_count(&param->type.shape) : type_bytes(&bound->type);
	b->params->bytes = saturated_add(b->params->bytes, bytes);
	return STATUS_OK;
}

enum status params_bind(struct params *params, struct chain *chain, const struct param_binding *bindings, size_t count,
                        const struct params_options *options, const struct allocator *allocator, struct arena *arena,
                        struct diags *diags)
{
	size_t n = chain->param_count;
	const struct context context = {allocator, arena, diags};
	*params = (struct params){.count = n, .allocator = allocator};
	struct binder b = {.params = params,
	                   .chain = chain,
	                   .bindings = bindings,
	                   .count = count,
	                   .options = *options,
	                   .loader = {.special = options->special,
	                              .cast = options->cast || !options->data,
	                              .types = !options->data,
	                              .context = &context},
	                   .arena = arena,
	                   .diags = diags};
	b.options.compute = dtype_compute(options->compute);
	enum status status = check_bindings(&b);
	if (status || n == 0)
		return status;
	params->bound = arena_array(arena, n, sizeof *params->bound);
	params->arrays = arena_array(arena, n, sizeof *params->arrays);
	params->exact = arena_array(arena, n, sizeof *params->exact);
	TRY_ALLOC(params->bound && params->arrays && params->exact, diags);
	for (size_t i = 0; i < n && status == STATUS_OK; i++)
		status = bind_param(&b, i);
	loader_close(&b.loader);
	if (status == STATUS_OK)
		params_settle(params, chain, b.options.compute);
	return status;
}

void params_settle(struct params *params, const struct chain *chain, enum dtype compute)
{
	for (size_t i = 0; i < params->count; i++) {
		const struct param *param = &chain->params[i];
		if (!param->weak)
			continue;
		params->bound[i].type.dtype = compute;
		struct array *array = &params->arrays[i];
		const struct array *exact = &params->exact[i];
		if (!array->data)
			continue;
		size_t count = (size_t)shape_count(&param->type.shape);
		array->type.dtype = compute;
		if (compute == DTYPE_F32)
			narrow(array->data, exact->data, count, DTYPE_F32);
		else if (count)
			memcpy(array->data, exact->data, count * sizeof(double));
	}
}

/*
 * Returns the first element of the part REF of an array of TYPE, and sets *PART to its
 * type. If a loop counter selects the part, *PART covers all parts that it may select.
 */
static int64_t part_of(const struct type *type, const struct param_ref *ref, struct type *part)
{
	int64_t first = 0;
	*part = *type;
	for (uint32_t i = 0; i < ref->count && ref->index[i].loop < 0; i++) {
		shape_drop_leading(&part->shape);
		first += ref->index[i].value * shape_count(&part->shape);
	}
	return first;
}

enum status params_check(const struct params *params, const struct body *body, const struct chain *chain,
                         struct diags *diags)
{
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind != INSTR_OP || instr->a == NO_VALUE || body->values[instr->a].from != FROM_PARAM)
			continue;
		const struct param_ref *ref = &body->values[instr->a].param;
		const struct bound_param *bound = &params->bound[ref->param];
		struct type part;
		const size_t first = (size_t)part_of(&bound->type, ref, &part) * dtype_size(dtype_compute(part.dtype));
		char message[OP_CHECK_TEXT];
		if (bound->data && !op_check_operand(instr->op, instr->of.v, &part, (const char *)bound->data + first, message))
			return diag_at(diags, STATUS_DATA, chain->source, instr->span, "'%s': %s", op_table[instr->op].name,
			               message);
	}
	return STATUS_OK;
}

void params_free(struct params *params)
{
	for (size_t i = 0; params->arrays && params->exact && i < params->count; i++) {
		array_free(&params->arrays[i], params->allocator);
		array_free(&params->exact[i], params->allocator);
	}
	params->arrays = params->exact = NULL;
	params->count = 0;
}
