/*
 * Finds the source of the values, the type and the weakness of each param and const.
 *
 * Invariant: a bound array is held in the computing type of its param's dtype, and all its extents are known.
 * Values arrive as doubles or floats and are rounded once, to the declared dtype. Then --dtype may convert them.
 * Tests: tests/unit/test_params.c
 */
#include "load/params.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/suggest.h"

struct binder {
	struct params *params;
	struct chain *chain;
	const struct params_options *options;
	struct loader loader;       /* its context is the binder's */
	struct param_place *places; /* by param: the member of --params that it has, or zeros */
	struct byte_set types;      /* of params, each once */
	struct arena *arena;
	struct diags *diags;
};

/* The source of a param's values. */
struct param_source {
	struct array array;      /* of a file: type as there, data NULL if only types are wanted; else only a type */
	struct type type;        /* of the param */
	const struct init *init; /* it has the values; NULL: a file has them, or NONE */
	const void *in_place;    /* the caller's values, which have the param's type and are not copied; or NULL */
	struct init number;      /* --param NAME=3.5 */
	double value;
	bool weak;
	bool none;        /* there are no values: only a declared type is known, if any */
	const char *text; /* name of the source in messages */
};

static enum status check_bindings(const struct binder *b)
{
	const size_t count = b->chain->param_count;
	const char **names = arena_array(b->arena, count + 1, sizeof *names);
	TRY_ALLOC(names, b->diags);
	for (size_t k = 0; k < count; k++)
		names[k] = b->chain->params[k].name;
	for (size_t i = 0; i < b->options->binding_count; i++) {
		const char *name = b->options->bindings[i].name;
		size_t k = 0;
		while (k < count && strcmp(names[k], name) != 0)
			k++;
		if (k < b->chain->input_count) {
			diag_file(b->diags, STATUS_USAGE, NULL, -1, "--param %s: '%s' is an input", name, name);
			return diag_hint(b->diags, "-i %s=FILE gives its arrays", name);
		}
		if (k < count)
			continue;
		diag_file(b->diags, STATUS_USAGE, NULL, -1, "--param %s: the chain has no param or const of that name", name);
		const char *near = suggest_nearest(name, names, count);
		if (near)
			diag_hint(b->diags, "did you mean '%s'?", near);
		return STATUS_USAGE;
	}
	return STATUS_OK;
}

const char *params_file(const struct init *init, const char *directory, struct arena *arena)
{
	const bool plain = init->path[0] == '/' || !strcmp(directory, ".");
	return plain ? init->path : arena_printf(arena, "%s/%s", directory, init->path);
}

/* Loads ARRAY, or gets it from rank 0, which loads it. */
static enum status load_array(struct binder *b, struct array *array, const char *path, const char *key)
{
	const struct ranks *ranks = b->options->ranks;
	if (ranks_index(ranks) == 0)
		TRY(loader_load(&b->loader, array, path, key));
	if (!ranks)
		return STATUS_OK;
	struct array sent = *array;
	TRY(ranks_broadcast(ranks, &sent, sizeof sent));
	if (ranks_index(ranks) > 0) {
		*array = sent;
		array->data = sent.size ? allocator_get(b->loader.context->allocator, sent.size, 1) : NULL;
		TRY_ALLOC(array->data || !sent.size, b->diags);
	}
	return ranks_broadcast(ranks, array->data, array->size);
}

/*
 * If only types are wanted and PARAM's is declared, its file need not exist yet. A file that cannot be read is not
 * absent: reading it reports the error.
 */
static enum status source_file(struct binder *b, const struct param *param, const char *path, const char *key,
                               struct param_source *source)
{
	struct stat st;
	source->text = key ? arena_printf(b->arena, "%s(%s)", path, key) : path;
	TRY_ALLOC(source->text, b->diags);
	source->none = !b->options->data && param->declared->given && strcmp(path, "-") != 0 && io_stat(path, &st) != 0 &&
	               errno == ENOENT;
	if (source->none)
		return STATUS_OK;
	TRY(load_array(b, &source->array, path, key));
	source->weak = source->array.type.shape.ndim == 0;
	return STATUS_OK;
}

/* For VALUE of --param, FILE or FILE:MEMBER. */
static enum status bound_file(struct binder *b, const struct param *param, const char *value,
                              struct param_source *source)
{
	struct param_place place;
	TRY(params_split(value, b->arena, b->diags, &place));
	const enum status status = source_file(b, param, place.file, place.member, source);
	if (status == STATUS_IO && place.member)
		diag_hint_more(b->diags, "'%s' is no file either", value);
	return status;
}

static enum status source_memory(struct binder *b, const struct param *param, const struct memory_array *array,
                                 struct param_source *source)
{
	const enum dtype have = array->type.dtype;
	const bool as_declared = !param->declared->given || param->declared->type.dtype == have;
	source->text = "its array";
	if (b->options->data && b->options->dtype == DTYPE_COUNT && dtype_compute(have) == have && as_declared &&
	    array->type.shape.ndim > 0) { /* a scalar may be weak: it is held as a double, too */
		source->array.type = array->type;
		source->in_place = array->data;
		if (array->data)
			return STATUS_OK;
	}
	TRY(array_copy(&b->loader, &source->array, array));
	source->weak = source->array.type.shape.ndim == 0;
	return STATUS_OK;
}

static enum status find_source(struct binder *b, const struct param *param, struct param_source *source)
{
	const size_t index = (size_t)(param - b->chain->params);
	for (size_t i = 0; i < b->options->array_count; i++)
		if (!strcmp(b->options->arrays[i].name, param->name))
			return source_memory(b, param, &b->options->arrays[i], source);
	const struct input_place *input =
		param->input && b->options->input_places ? &b->options->input_places[index] : NULL;
	if (input && input->file)
		return source_file(b, param, input->file, input->member, source);
	source->none = param->input;
	if (param->input)
		return STATUS_OK;
	const char *value = NULL;
	const struct param_place *place = &b->places[index];
	const struct init *init = param->init;
	for (size_t i = 0; i < b->options->binding_count; i++)
		if (!strcmp(b->options->bindings[i].name, param->name))
			value = b->options->bindings[i].value;
	if (value) {
		if (!number_parse(value, strlen(value), &source->value))
			return bound_file(b, param, value, source);
		source->number = (struct init){.kind = INIT_NUMBER, .values = &source->value, .count = 1};
		init = &source->number;
	}
	if (!value && place->file)
		return source_file(b, param, place->file, place->member, source);
	if (init->kind == INIT_LOAD) {
		const char *path = params_file(init, b->options->directory, b->arena);
		TRY_ALLOC(path, b->diags);
		const enum status status = source_file(b, param, path, init->key, source);
		if (status)
			diag_hint_more(b->diags, "loaded at %s:%u:%u", b->chain->source->name, init->span.line, init->span.column);
		return status;
	}
	source->none = init->kind == INIT_NONE;
	if (source->none)
		return STATUS_OK;
	source->init = init;
	source->weak = !init_needs_type(init->kind);
	source->text = "its list"; /* a number fits every type */
	source->array.type.dtype = DTYPE_F64;
	if (init->shape)
		source->array.type.shape = *init->shape;
	return STATUS_OK;
}

/* Reports that PARAM has no value, or that neither its declaration nor SOURCE has its shape. */
static enum status fail_shapeless(const struct binder *b, const struct param *param, const struct param_source *source)
{
	static const char *const names[] = {[INIT_ZEROS] = "zeros", [INIT_ONES] = "ones",     [INIT_EYE] = "eye",
	                                    [INIT_TRIL] = "tril",   [INIT_TRIU] = "triu",     [INIT_ARANGE] = "arange",
	                                    [INIT_FULL] = "full",   [INIT_NORMAL] = "normal", [INIT_UNIFORM] = "uniform"};
	const char *word = param_word(param), *name = param->name;
	if (source->none && param->input) {
		diag_at(b->diags, STATUS_USAGE, b->chain->source, param->span, "input '%s' has no data", name);
		return b->diags->library ? diag_hint(b->diags, "give it by ckptc_chain_bind")
		                         : diag_hint(b->diags, "give it by -i %s=FILE", name);
	}
	if (source->none) {
		diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span, "%s '%s' has no value", word, name);
		if (b->diags->library)
			return diag_hint(b->diags, "give one by ckptc_chain_bind, or write `= zeros` or `= normal(STD, SEED)`");
		diag_hint(b->diags, "give one with --param %s=FILE or =NUMBER, or with --params FILE", name);
		if (param->declared->given)
			diag_hint_more(b->diags, "or write `= zeros` or `= normal(STD, SEED)`");
		else if (b->options->data)
			diag_hint_more(b->diags, "or write a type and a value: `%s %s: f32[256,256] = zeros`", word, name);
		else
			diag_hint_more(b->diags, "a type is enough here: `%s %s: f32[256,256]`", word, name);
		return STATUS_CHAIN;
	}
	diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span, "%s '%s' needs a type: '%s' has no shape of its own",
	        word, name, names[param->init->kind]);
	return diag_hint(b->diags, "declare every extent, as in: %s %s: f32[256,256] = ...", word, name);
}

static enum status mismatch(const struct binder *b, const struct param *param, const struct param_source *source)
{
	const struct type *type = &source->array.type;
	char want[TYPE_TEXT], have[TYPE_TEXT];
	return diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span, "%s '%s' is %s, but %s %s %s",
	               param_word(param), param->name, type_format(&param->declared->type, want), source->text,
	               source->init ? "is" : "holds",
	               source->init ? shape_format(&type->shape, have) : type_format(type, have));
}

/* Sets SOURCE's type from PARAM's declaration and the source, and whether PARAM is weak. */
static enum status find_type(const struct binder *b, struct param *param, struct param_source *source)
{
	const struct declared *declared = param->declared;
	/* a number fills a declared array */
	const bool number = declared->given && source->init && source->init->kind == INIT_NUMBER;
	const bool shapeless = source->none || number || (source->init && init_needs_type(source->init->kind));
	if ((shapeless && !declared_whole(declared)) || (source->none && b->options->data))
		return fail_shapeless(b, param, source);
	if (declared->given && !shapeless && !array_fit(&source->array, &declared->type.shape))
		return mismatch(b, param, source);
	source->type = shapeless ? declared->type : source->array.type;
	param->weak = source->weak && !declared->given && !param->input;
	if (declared->given)
		source->type.dtype = declared->type.dtype;
	if (source->type.dtype > DTYPE_F64 && !b->chain->keeps_integers)
		source->type.dtype = DTYPE_F64;
	if (param->weak)
		source->type.dtype = dtype_compute(b->options->compute);
	if (!type_addressable(&source->type))
		return diag_at(b->diags, STATUS_LIMIT, b->chain->source, param->span, "%s '%s' is too large to address",
		               param_word(param), param->name);
	const enum init_kind kind = source->init ? source->init->kind : INIT_NONE;
	const int ndim = source->type.shape.ndim;
	if ((kind == INIT_EYE && ndim != 2) || ((kind == INIT_TRIL || kind == INIT_TRIU) && ndim < 2))
		return diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span,
		               "'%s' makes a matrix, and '%s' has %d dimension%s", source->init->text, param->name, ndim,
		               ndim == 1 ? "" : "s");
	if (kind == INIT_ARANGE && ndim != 1)
		return diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span,
		               "'arange' makes a vector, and '%s' has %d dimensions", param->name, ndim);
	return STATUS_OK;
}

/* Checks the arguments of normal(deviation, seed) and uniform(low, high, seed). */
static enum status check_random(const struct binder *b, const struct param *param, const struct init *init)
{
	const char *what, *want;
	if (!init || (init->kind != INIT_NORMAL && init->kind != INIT_UNIFORM))
		return STATUS_OK;
	const double *values = init->values, seed = values[init->count - 1];
	if (init->kind == INIT_NORMAL && !(values[0] >= 0 && isfinite(values[0]))) {
		what = "standard deviation";
		want = "a finite number of at least 0";
	} else if (init->kind == INIT_UNIFORM && !isfinite(values[1] - values[0])) {
		what = "range";
		want = "finite";
	} else if (!(seed == floor(seed) && fabs(seed) <= 0x1p53)) {
		what = "seed";
		want = "a whole number of at most 2^53";
	} else {
		return STATUS_OK;
	}
	return diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span, "the %s of %s '%s' is not %s", what,
	               param_word(param), param->name, want);
}

/* Converts COUNT values between computing types. To F32 for a half DTYPE, rounds to odd: the caller rounds again. */
static void convert_values(void *to, enum dtype compute, const void *from, enum dtype held, size_t count,
                           enum dtype dtype)
{
	if (compute == DTYPE_F32 && held == DTYPE_F64 && (dtype == DTYPE_F16 || dtype == DTYPE_BF16))
		convert_f64_to_f32_odd(to, from, count);
	else
		convert_to_file(to, compute, from, held, count);
}

static enum status fail_memory(const struct chain *chain, const struct param *param, size_t size, struct diags *diags)
{
	return diag_at(diags, STATUS_LIMIT, chain->source, param->span, "out of memory: %s '%s' has %zu bytes",
	               param_word(param), param->name, size);
}

static enum status new_array(const struct binder *b, const struct param *param, struct array *array,
                             const struct type *type, enum dtype held)
{
	array->type = *type;
	array->type.dtype = held;
	array->size = (size_t)type_bytes(&array->type);
	array->data = allocator_get(b->params->allocator, array->size, 1);
	return array->data ? STATUS_OK : fail_memory(b->chain, param, array->size, b->diags);
}

/* Fills HELD from INIT, for a param of DTYPE, piece by piece: doubles of all values would take thrice the memory. */
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
		convert_values((float *)held->data + done, DTYPE_F32, values, DTYPE_F64, (size_t)n, dtype);
	}
}

/* Sets HELD to SOURCE's values in the computing type. Takes SOURCE's array if it has that type, else makes one. */
static enum status fill_held(const struct binder *b, const struct param *param, struct param_source *source,
                             struct array *held)
{
	const enum dtype want = dtype_compute(source->type.dtype);
	if (!source->init && dtype_compute(source->array.type.dtype) == want) {
		*held = source->array;
		held->type = source->type;
		held->type.dtype = want;
		source->array.data = NULL;
		return STATUS_OK;
	}
	TRY(new_array(b, param, held, &source->type, want));
	if (source->init)
		fill_literal(source->init, held, source->type.dtype);
	else
		convert_values(held->data, want, source->array.data, dtype_compute(source->array.type.dtype),
		               (size_t)shape_count(&held->type.shape), source->type.dtype);
	return STATUS_OK;
}

/* Sets ARRAY to PARAM's values, rounded to the declared dtype, then converted to the options' if they have one. */
static enum status load_values(const struct binder *b, const struct param *param, struct param_source *source,
                               struct array *array)
{
	const enum dtype to = b->options->dtype;
	TRY(fill_held(b, param, source, array));
	if (param->declared->given)
		values_round(array->data, array->type.dtype, (size_t)shape_count(&array->type.shape),
		             param->declared->type.dtype);
	if (to == DTYPE_COUNT || to == array->type.dtype || dtype_is_integer(source->type.dtype))
		return STATUS_OK;
	struct array converted;
	TRY(new_array(b, param, &converted, &array->type, to));
	convert_to_file(converted.data, to, array->data, array->type.dtype, (size_t)shape_count(&array->type.shape));
	array_free(array, b->params->allocator);
	*array = converted;
	return STATUS_OK;
}

/* Loads SOURCE's array, which is left in its file, if data are wanted, unless PARAM has the type that it has there. */
static enum status keep_stored(const struct binder *b, const struct param *param, struct param_source *source)
{
	struct stored_array **const stored = &b->params->stored[param - b->chain->params];
	const enum dtype to = b->options->dtype, have = source->array.type.dtype;
	if (!*stored ||
	    (!param->weak && !dtype_is_integer(have) && source->type.dtype == have && (to == DTYPE_COUNT || to == have)))
		return STATUS_OK;
	if (b->options->data) {
		TRY(new_array(b, param, &source->array, &source->array.type, have));
		TRY(stored_load(*stored, source->array.data, b->loader.team, b->loader.context));
	}
	stored_close(*stored);
	*stored = NULL;
	return STATUS_OK;
}

/* Returns the one copy of TYPE, or NULL. Bytes of a set are compared, so those between and beyond its fields are zeros. */
static const struct type *keep_type(struct binder *b, const struct type *type)
{
	struct type whole;
	memset(&whole, 0, sizeof whole);
	whole.dtype = type->dtype;
	whole.shape.ndim = type->shape.ndim;
	memcpy(whole.shape.dim, type->shape.dim, (size_t)type->shape.ndim * sizeof *whole.shape.dim);
	return byte_set_keep(&b->types, &whole, sizeof whole, NULL);
}

/* Notes if PARAM is a const that is a number. If the chain has been read with its number, SOURCE must have that. */
static enum status note_number(const struct binder *b, struct param *param, const struct param_source *source)
{
	param->is_number = !param->differentiated && param->weak && source->init && source->init->kind == INIT_NUMBER;
	param->number = param->is_number ? source->init->values[0] : 0;
	if (!param->read_as_number || (param->is_number && param->number == param->init->values[0]))
		return STATUS_OK;
	diag_at(b->diags, STATUS_CHAIN, b->chain->source, param->span,
	        "the chain is read with the number '%s', so no other value can be bound to it", param->name);
	if (b->diags->library)
		return STATUS_CHAIN;
	return diag_hint(b->diags, "give it as a number, as in --param %s=%.17g", param->name, param->init->values[0]);
}

static enum status bind_param(struct binder *b, size_t index, struct param_source *source)
{
	struct param *param = &b->chain->params[index];
	struct array array = {.data = NULL}, exact = {.data = NULL};
	if (param->arrives) {
		b->params->bound[index].shape = &param->type->shape;
		return STATUS_OK;
	}
	const enum status found = find_source(b, param, source);
	b->params->stored[index] = source->array.stored;
	TRY(found);
	TRY(find_type(b, param, source));
	TRY(note_number(b, param, source));
	TRY(check_random(b, param, source->init));
	TRY(keep_stored(b, param, source));
	enum status status = STATUS_OK;
	if (b->options->data && !param->weak && !b->params->stored[index] && !source->in_place)
		status = load_values(b, param, source, &array);
	if (b->options->data && param->weak) { /* the exact values, and a block that holds them in either computing type */
		const enum dtype compute = source->type.dtype;
		source->type.dtype = DTYPE_F64;
		status = fill_held(b, param, source, &exact);
		if (!status)
			status = new_array(b, param, &array, &source->type, DTYPE_F64);
		source->type.dtype = compute;
	}
	b->params->arrays[index] = array.data;
	b->params->exact[index] = exact.data;
	b->params->sizes[index] = exact.data ? exact.size : array.size;
	TRY(status);
	if (!param->weak && b->options->dtype != DTYPE_COUNT && !dtype_is_integer(source->type.dtype))
		source->type.dtype = b->options->dtype;
	param->type = keep_type(b, &source->type);
	TRY_ALLOC(param->type, b->diags);
	b->params->bound[index] = (struct bound_array){.shape = &param->type->shape,
	                                               .dtype = dtype_compute(param->type->dtype),
	                                               .data = source->in_place ? source->in_place : array.data};
	const struct type bound = bound_array_type(&b->params->bound[index]);
	/* A weak param has exact doubles, and a copy in F32 or F64. */
	const int64_t bytes = param->weak ? 16 * shape_count(&bound.shape) : type_bytes(&bound);
	b->params->bytes = saturated_add(b->params->bytes, bytes);
	return STATUS_OK;
}

enum status params_bind(const struct context *context, struct params *params, struct chain *chain,
                        const struct params_options *options)
{
	const size_t n = chain->param_count;
	struct binder b = {.params = params,
	                   .chain = chain,
	                   .options = options,
	                   .loader = {.special = options->special,
	                              .cast = options->cast || !options->data,
	                              .missing = options->missing,
	                              .types = !options->data,
	                              .threads = options->threads,
	                              .leaves = options->ranks ? 0 : options->leaves,
	                              .context = context},
	                   .types = {.kept = context->arena, .scratch = context->arena},
	                   .arena = context->arena,
	                   .diags = context->diags};
	*params = (struct params){.count = n, .allocator = context->allocator};
	TRY(check_bindings(&b));
	chain->integers = options->dtype == DTYPE_COUNT ? DTYPE_F64 : options->dtype;
	if (n == 0 && !options->file_count)
		return STATUS_OK;
	b.places = arena_array(b.arena, n + 1, sizeof *b.places);
	params->bound = arena_array(b.arena, n + 1, sizeof *params->bound);
	params->arrays = arena_array(b.arena, n + 1, sizeof *params->arrays);
	params->exact = arena_array(b.arena, n + 1, sizeof *params->exact);
	params->sizes = arena_array(b.arena, n + 1, sizeof *params->sizes);
	params->stored = arena_array(b.arena, n + 1, sizeof *params->stored);
	TRY_ALLOC(b.places && params->bound && params->arrays && params->exact && params->sizes && params->stored, b.diags);
	enum status status = params_match(context, &b.loader, chain, options, b.places);
	for (size_t i = 0; i < n && status == STATUS_OK; i++) {
		struct param_source source = {.none = false};
		status = bind_param(&b, i, &source);
		array_free(&source.array, context->allocator);
	}
	loader_close(&b.loader);
	if (status == STATUS_OK)
		chain_find_widest(chain);
	if (status == STATUS_OK)
		params_settle(params, chain, dtype_compute(options->compute));
	return status;
}

enum status params_load(const struct context *context, struct params *params, const struct chain *chain, size_t index,
                        struct team *team)
{
	struct stored_array *const stored = params->stored[index];
	const size_t size = (size_t)stored->bytes;
	params->arrays[index] = allocator_get(params->allocator, size, 1);
	if (!params->arrays[index])
		return fail_memory(chain, &chain->params[index], size, context->diags);
	params->sizes[index] = size;
	params->bound[index].data = params->arrays[index];
	params->stored[index] = NULL;
	const enum status status = stored_load(stored, params->arrays[index], team, context);
	stored_close(stored);
	return status;
}

void params_settle(struct params *params, const struct chain *chain, enum dtype compute)
{
	for (size_t i = 0; i < params->count; i++) {
		if (!chain->params[i].weak)
			continue;
		params->bound[i].dtype = compute;
		if (params->arrays[i])
			convert_to_file(params->arrays[i], compute, params->exact[i], DTYPE_F64,
			                (size_t)shape_count(params->bound[i].shape));
	}
}

/*
 * Returns the first element of the part REF of an array of TYPE, and sets *PART to its
 * type. If a loop counter selects the part, *PART covers all parts that it may select.
 */
static int64_t select_part(const struct type *type, const struct param_ref *ref, struct type *part)
{
	int64_t first = 0;
	*part = *type;
	for (uint32_t i = 0; i < ref->count && ref->index[i].loop < 0; i++) {
		shape_drop_leading(&part->shape);
		first += ref->index[i].value * shape_count(&part->shape);
	}
	return first;
}

enum status params_check(const struct params *params, const struct body *body, const struct particulars *own,
                         const struct chain *chain, struct diags *diags)
{
	for (size_t i = 0; i < body->instr_count; i++) {
		const struct instr *instr = &body->instrs[i];
		if (instr->kind != INSTR_OP || instr->a == NO_VALUE || body->values[instr->a].from != FROM_PARAM)
			continue;
		const struct param_ref *ref = own_param(own, &body->values[instr->a].param);
		const struct bound_array *bound = &params->bound[ref->param];
		struct type part;
		const struct type type = bound_array_type(bound);
		const size_t first = (size_t)select_part(&type, ref, &part) * dtype_size(dtype_compute(part.dtype));
		struct operand_wrong wrong;
		if (!bound->data ||
		    op_check_operand(instr->op, instr->attrs, instr->of.v, &part, (const char *)bound->data + first, &wrong))
			continue;
		const struct span span = own_span(own, instr->span);
		diag_at(diags, STATUS_DATA, chain->source, span, "'%s': %s", instr_written(instr, chain->source, span),
		        wrong.message);
		return *wrong.hint ? diag_hint(diags, "%s", wrong.hint) : STATUS_DATA;
	}
	return STATUS_OK;
}

void params_free(struct params *params)
{
	for (size_t i = 0; params->sizes && i < params->count; i++) {
		if (params->stored && params->stored[i])
			stored_close(params->stored[i]);
		allocator_put(params->allocator, params->arrays ? params->arrays[i] : NULL, params->sizes[i]);
		allocator_put(params->allocator, params->exact ? params->exact[i] : NULL, params->sizes[i]);
	}
	params->sizes = NULL;
	params->count = 0;
}
