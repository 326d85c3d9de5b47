/*
 * Opens the inputs after the first, and moves them from record to record.
 *
 * Invariant: an input's param has the type of its current array, since both are one struct.
 * Tests: tests/cases/inputs.test
 */
#include "load/inputs.h"

#include <string.h>
#include <sys/stat.h>

#include "base/suggest.h"
#include "base/text.h"
#include "load/params.h"

struct placing {
	const struct context *context;
	const struct chain *chain;
	struct input_place *of; /* by input */
	const char *archive;    /* that has all inputs which no other text names; or NULL */
	const char *option;     /* as inputs_given's */
};

static const char *name_of(const struct placing *p, size_t input)
{
	return input == 0 ? p->chain->input : p->chain->params[input - 1].name;
}

/* Returns the input whose name is the LENGTH bytes at NAME; the number of inputs if there is none. */
static size_t find_placed(const struct placing *p, const char *name, size_t length)
{
	size_t i = 0;
	while (i <= chain_declared_inputs(p->chain) &&
	       (strlen(name_of(p, i)) != length || memcmp(name_of(p, i), name, length) != 0))
		i++;
	return i;
}

/* True if FILE, a value of -i, is an archive of inputs. One input has that only by its name: else a zip is no array. */
static bool has_inputs(const struct placing *p, const char *file)
{
	static const char *const endings[] = {".npz", ".safetensors"};
	bool named = chain_declared_inputs(p->chain) > 0;
	for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
		const size_t length = strlen(file), tail = strlen(endings[i]);
		named |= length > tail && !strcmp(file + length - tail, endings[i]);
	}
	return named && archive_is(file);
}

/* Gives INPUT the file and the member AT. */
static enum status place_input(struct placing *p, size_t input, const struct param_place *at)
{
	struct input_place *place = &p->of[input];
	struct diags *diags = p->context->diags;
	if (place->file && !chain_declared_inputs(p->chain))
		return diag_file(diags, STATUS_USAGE, NULL, -1, "%s was given twice; the first was '%s'", p->option,
		                 place->file);
	if (place->file) {
		diag_file(diags, STATUS_USAGE, NULL, -1, "%s gives the input '%s' twice; the first was '%s'", p->option,
		          name_of(p, input), place->file);
		return diag_hint(diags, "-i NAME=FILE gives the input NAME");
	}
	place->file = at->file;
	place->member = at->member;
	place->archive = at->member || has_inputs(p, at->file);
	return STATUS_OK;
}

static bool is_input_name(const char *text, size_t length)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
	return length > 0 && strspn(text, letters) >= length && !(*text >= '0' && *text <= '9');
}

/* Reports that OPTION has the name of no input: the LENGTH bytes at NAME. */
static enum status refuse_name(const struct placing *p, const char *name, size_t length, const char *option)
{
	const char *names[64], *copy = arena_strndup(p->context->arena, name, length);
	size_t count = 0;
	struct diags *diags = p->context->diags;
	TRY_ALLOC(copy, diags);
	for (; count <= chain_declared_inputs(p->chain) && count < 64; count++)
		names[count] = name_of(p, count);
	diag_file(diags, STATUS_USAGE, NULL, -1, "%s %s=: the chain has no input of that name", option, copy);
	const char *near = suggest_nearest(copy, names, count);
	if (near)
		return diag_hint(diags, "did you mean '%s'?", near);
	return diag_hint(diags, "its input%s: %s", count == 1 ? "" : "s", text_join(names, count, p->context->arena));
}

/* Reads TEXT, a value of -i. */
static enum status place_text(struct placing *p, const char *text)
{
	struct stat file;
	struct param_place at = {text, NULL};
	const char *equals = strchr(text, '=');
	const size_t name = equals ? (size_t)(equals - text) : 0, none = chain_declared_inputs(p->chain) + 1;
	const bool whole = !strcmp(text, "-") || io_stat(text, &file) == 0;
	size_t input = equals && !whole ? find_placed(p, text, name) : none;
	const bool named = input < none;
	if (named)
		at.file = equals + 1;
	else if (name && !whole && (chain_declared_inputs(p->chain) || io_stat(equals + 1, &file) == 0) &&
	         is_input_name(text, name))
		return refuse_name(p, text, name, "-i");
	if (!whole)
		TRY(params_split(at.file, p->context->arena, p->context->diags, &at));
	if (at.member && (!archive_is(at.file))) /* the colon belongs to the name of a file that is not there */
		at = (struct param_place){named ? equals + 1 : text, NULL};
	if (named)
		return place_input(p, input, &at);
	input = at.member ? find_placed(p, at.member, strlen(at.member)) : none;
	if (input < none || at.member || !has_inputs(p, at.file))
		return place_input(p, input < none ? input : 0, &at);
	if (p->archive)
		return diag_file(p->context->diags, STATUS_USAGE, NULL, -1, "-i gives two archives, '%s' and '%s'", p->archive,
		                 text);
	p->archive = text;
	return STATUS_OK;
}

/* The names of an archive's members. */
struct members {
	const char *const *names;
	size_t count;
};

/* Sets *FOUND to the one of MEMBERS that is INPUT; to NULL if none is. Fails with STATUS_DATA if two are, by other signs than `_`. */
static enum status choose_member(const struct placing *p, size_t input, const struct members *members,
                                 const char **found)
{
	const char *other = NULL, *name = name_of(p, input);
	*found = NULL;
	for (size_t i = 0; i < members->count; i++) {
		if (!strcmp(members->names[i], name)) {
			*found = members->names[i]; /* the exact name wins */
			return STATUS_OK;
		}
		if (!member_is(members->names[i], name))
			continue;
		other = *found ? members->names[i] : NULL;
		*found = *found ? *found : members->names[i];
	}
	if (!*found && members->count == 1 && p->of[input].file != p->archive)
		*found = members->names[0];
	if (!other)
		return STATUS_OK;
	diag_file(p->context->diags, STATUS_DATA, p->of[input].file, -1,
	          "its members '%s' and '%s' would both be the input '%s'", *found, other, name);
	return diag_hint(p->context->diags, "-i %s=FILE:MEMBER chooses one", name);
}

/* Reports that the archive FILE, which has MEMBERS, has none for the COUNT inputs LACKING. */
static enum status refuse_archive(const struct placing *p, const char *file, const struct members *members,
                                  const char *const *lacking, size_t count)
{
	struct diags *diags = p->context->diags;
	struct arena *arena = p->context->arena;
	const char *quote = count == 1 ? "'" : "";
	diag_file(diags, STATUS_DATA, file, -1, "has no member for the input%s %s%s%s", count > 1 ? "s" : "", quote,
	          text_join(lacking, count, arena), quote);
	diag_hint(diags, "its members: %s", text_join(members->names, members->count, arena));
	diag_hint_more(diags, "-i %s=FILE:MEMBER chooses one", lacking[0]);
	return STATUS_DATA;
}

/* Finds the members of inputs from FIRST on that are in the archive of FIRST and have no member yet. */
static enum status place_archive(struct placing *p, size_t first)
{
	const char *file = p->of[first].file, **lacking;
	struct loader loader = {.context = p->context};
	struct members members;
	size_t count = 0;
	const enum status status = loader_names(&loader, file, &members.names, &members.count);
	loader_close(&loader);
	TRY(status);
	if (members.count == 0)
		return diag_file(p->context->diags, STATUS_DATA, file, -1, "has no members");
	lacking = arena_array(p->context->arena, chain_declared_inputs(p->chain) + 1, sizeof *lacking);
	TRY_ALLOC(lacking, p->context->diags);
	for (size_t i = first; i <= chain_declared_inputs(p->chain); i++) {
		struct input_place *place = &p->of[i];
		if (!place->archive || place->member || strcmp(place->file, file) != 0)
			continue;
		TRY(choose_member(p, i, &members, &place->member));
		place->archive = place->member || chain_declared_inputs(p->chain);
		if (!place->member &&
		    chain_declared_inputs(p->chain)) /* the reader refuses the file of one input as no array */
			lacking[count++] = name_of(p, i);
	}
	return count ? refuse_archive(p, file, &members, lacking, count) : STATUS_OK;
}

/* Finds the members of inputs in the archives that they are in. */
static enum status place_members(struct placing *p)
{
	for (size_t i = 0; i <= chain_declared_inputs(p->chain); i++)
		if (!p->of[i].file && p->archive) {
			p->of[i].file = p->archive;
			p->of[i].archive = true;
		}
	for (size_t i = 0; i <= chain_declared_inputs(p->chain); i++)
		if (p->of[i].archive && !p->of[i].member)
			TRY(place_archive(p, i));
	return STATUS_OK;
}

static enum status place_shape(struct placing *p, const struct input_shape *shape)
{
	const size_t none = chain_declared_inputs(p->chain) + 1;
	const size_t input = shape->name ? find_placed(p, shape->name, strlen(shape->name)) : 0;
	if (input < none) {
		p->of[input].shape = &shape->type;
		return STATUS_OK;
	}
	return refuse_name(p, shape->name, strlen(shape->name), "--shape");
}

/* Sets *PLACE to the input that TEXT, a value of OPTION, names as NAME=, or to the first; and *VALUE to what follows. */
static enum status place_option(struct placing *p, const char *option, const char *text, struct input_place **place,
                                const char **value)
{
	const char *equals = strchr(text, '=');
	const size_t name = equals && equals > text ? (size_t)(equals - text) : 0;
	const size_t none = chain_declared_inputs(p->chain) + 1, input = name ? find_placed(p, text, name) : none;
	if (input == none && name && chain_declared_inputs(p->chain) && is_input_name(text, name))
		return refuse_name(p, text, name, option);
	*place = &p->of[input < none ? input : 0];
	*value = input < none ? equals + 1 : text;
	return STATUS_OK;
}

/* Reports that OPTION is given twice for the input PLACE, or that there is no file for it. */
static enum status refuse_option(const struct placing *p, const char *option, const struct input_place *place)
{
	const char *name = name_of(p, (size_t)(place - p->of));
	if (!place->file)
		return diag_file(p->context->diags, STATUS_USAGE, NULL, -1,
		                 "%s is for data that are read, and the input '%s' has a type alone", option, name);
	return diag_file(p->context->diags, STATUS_USAGE, NULL, -1, "%s is given twice for the input '%s'", option, name);
}

static enum status place_columns(struct placing *p, const char *text)
{
	struct input_place *place;
	const char *value;
	TRY(place_option(p, "--columns", text, &place, &value));
	if (place->columns)
		return refuse_option(p, "--columns", place);
	place->columns = value;
	return *value ? STATUS_OK
	              : diag_file(p->context->diags, STATUS_USAGE, NULL, -1,
	                          "--columns takes names or numbers of columns, as in a,c or 0,2,5:8");
}

static enum status place_delimiter(struct placing *p, const char *text)
{
	struct input_place *place;
	const char *value;
	TRY(place_option(p, "--delimiter", text, &place, &value));
	if (place->delimiter)
		return refuse_option(p, "--delimiter", place);
	place->delimiter = !strcmp(value, "\\t") || !strcmp(value, "tab") ? '\t' : !strcmp(value, "blank") ? ' ' : *value;
	const bool word = !strcmp(value, "\\t") || !strcmp(value, "tab") || !strcmp(value, "blank");
	if (*value && (word || (!value[1] && strchr(" \t,;:|!$%&*/=@^~<>?", *value))))
		return STATUS_OK;
	return diag_file(p->context->diags, STATUS_USAGE, NULL, -1,
	                 "--delimiter takes a sign such as , ; : or |, or tab or blank, not '%s'", value);
}

/* Fails if an option for tables is for an input without a file. */
static enum status check_options(const struct placing *p)
{
	for (size_t i = 0; i <= chain_declared_inputs(p->chain); i++) {
		if (!p->of[i].file && p->of[i].columns)
			return refuse_option(p, "--columns", &p->of[i]);
		if (!p->of[i].file && p->of[i].delimiter)
			return refuse_option(p, "--delimiter", &p->of[i]);
	}
	return STATUS_OK;
}

/* Fails if two inputs are standard input. The first is it if nothing is given for it. */
static enum status check_standard(struct placing *p)
{
	const char *reads = NULL;
	if (!p->of[0].file && !p->of[0].shape)
		p->of[0].file = "-";
	for (size_t i = 0; i <= p->chain->input_count; i++) {
		if (!p->of[i].file || strcmp(p->of[i].file, "-") != 0)
			continue;
		if (reads) {
			diag_file(p->context->diags, STATUS_USAGE, NULL, -1,
			          "the inputs '%s' and '%s' would both be read from standard input", reads, name_of(p, i));
			if (!strncmp(reads, "--", 2)) /* cotangents both */
				return STATUS_USAGE;
			return diag_hint(p->context->diags, "-i %s=FILE gives one of them", reads);
		}
		reads = name_of(p, i);
	}
	return STATUS_OK;
}

enum status inputs_place(const struct context *context, const struct chain *chain, const struct inputs_given *given,
                         struct input_place **places)
{
	struct placing p = {.context = context, .chain = chain, .option = given->option};
	p.of = *places = arena_array(context->arena, chain->input_count + 1, sizeof *p.of);
	TRY_ALLOC(p.of, context->diags);
	for (size_t i = 0; i < given->count; i++)
		TRY(place_text(&p, given->texts[i]));
	for (size_t i = 0; i < given->shape_count; i++)
		TRY(place_shape(&p, &given->shapes[i]));
	for (size_t i = 0; i < given->columns_count; i++)
		TRY(place_columns(&p, given->columns[i]));
	for (size_t i = 0; i < given->delimiter_count; i++)
		TRY(place_delimiter(&p, given->delimiters[i]));
	for (size_t i = 0; i < chain->cotangent_count; i++)
		(*places)[1 + chain->cotangents[i].param].file = given->cotangents[i];
	TRY(place_members(&p));
	TRY(check_standard(&p));
	return check_options(&p);
}

enum status input_place_open(const struct context *context, const struct input_place *place,
                             const struct reader_options *options, struct opened_member *member)
{
	struct reader_options reading = *options;
	*member = (struct opened_member){.loaded.data = NULL};
	reading.columns = place->columns;
	reading.delimiter = place->delimiter;
	if (place->member || place->archive)
		return member_open(context, &reading, place->file, place->member, member);
	TRY(input_open(&member->input, place->file, false, context->arena, context->diags));
	reader_init(&member->rows, &member->input, &reading, context->arena);
	return STATUS_OK;
}

/* Reports that the input of PARAM has no data, and no type either if TYPES alone are wanted. */
static enum status refuse_unbound(const struct context *context, const struct chain *chain, const struct param *param,
                                  bool types)
{
	diag_at(context->diags, STATUS_USAGE, chain->source, param->span, "input '%s' has no data", param->name);
	diag_hint(context->diags, "-i %s=FILE gives its arrays", param->name);
	if (types)
		diag_hint_more(context->diags, "--shape %s=f32[64,256] their type alone", param->name);
	return STATUS_USAGE;
}

static enum status open_one(const struct context *context, struct further_input *input, struct chain *chain,
                            const struct input_place *place, const struct inputs_options *options)
{
	struct param *param = &chain->params[input->param];
	struct reader_options reading = options->reading;
	param->arrives = true;
	param->weak = false;
	param->type = &input->type;
	input->type.dtype = DTYPE_I64; /* until the first record: of no type to compute in */
	reading.raw.shape.ndim = -1;
	reading.typed = place->shape != NULL;
	if (place->shape)
		reading.raw = *place->shape;
	reading.text_shape = place->shape             ? &place->shape->shape
	                     : param->declared->given ? &param->declared->type.shape
	                                              : NULL;
	if (!place->file && !(reading.types && (place->shape || declared_whole(param->declared))))
		return refuse_unbound(context, chain, param, reading.types);
	if (!place->file) {
		const struct type *type = place->shape ? place->shape : &param->declared->type;
		input->type = input_type_of(chain, param->declared, type, options->dtype);
		return STATUS_OK;
	}
	TRY(input_place_open(context, place, &reading, &input->arrays));
	input->opened = true;
	if (param->declared->given)
		input->arrays.rows.declared = param->declared->type.dtype;
	return STATUS_OK;
}

enum status inputs_open(const struct context *context, struct inputs *inputs, struct chain *chain,
                        const struct inputs_options *options)
{
	*inputs = (struct inputs){.first_name = chain->input, .chain = chain, .dtype = options->dtype};
	inputs->items = arena_array(context->arena, chain->input_count + 1, sizeof *inputs->items);
	TRY_ALLOC(inputs->items, context->diags);
	for (size_t i = 0; i < chain->input_count; i++) {
		inputs->items[i].param = i;
		inputs->count++;
		TRY(open_one(context, &inputs->items[i], chain, &options->input_places[1 + i], options));
	}
	return STATUS_OK;
}

/* Reports that INPUT has another number of arrays than the first input. MORE: it has more. */
static enum status refuse_count(const struct inputs *inputs, const struct chain *chain,
                                const struct further_input *input, bool more, struct diags *diags)
{
	const char *name = chain->params[input->param].name;
	const int count = input->arrays.rows.index - more;
	if (more)
		return diag_file(diags, STATUS_DATA, input->arrays.input.name, -1,
		                 "input '%s' has more arrays than '%s', which has %d: each input has one for each record", name,
		                 inputs->first_name, count);
	return diag_file(diags, STATUS_DATA, input->arrays.input.name, -1,
	                 "input '%s' has %d array%s, and '%s' has more: each input has one for each record", name, count,
	                 count == 1 ? "" : "s", inputs->first_name);
}

enum status inputs_next(struct inputs *inputs, const struct chain *chain, bool end, struct diags *diags)
{
	inputs->changed = false;
	for (size_t i = 0; i < inputs->count; i++) {
		struct further_input *input = &inputs->items[i];
		const struct param *param = &chain->params[input->param];
		const struct type before = input->type;
		bool ended;
		if (!input->opened)
			continue;
		TRY(reader_next(&input->arrays.rows, &ended, diags));
		if (ended != end)
			return refuse_count(inputs, chain, input, !ended, diags);
		input->loaded = false;
		if (end)
			continue;
		input->type = input_type_of(chain, param->declared, &input->arrays.rows.type, inputs->dtype);
		inputs->changed |= !type_equal(&before, &input->type);
		inputs->chain->params[input->param].columns = input->arrays.rows.columns;
	}
	if (inputs->count > 0)
		chain_find_widest(inputs->chain);
	return STATUS_OK;
}

enum status input_load(const struct context *context, const struct chain *chain, struct further_input *input)
{
	const enum dtype dtype = dtype_compute(input->type.dtype);
	const size_t size = (size_t)type_bytes(&input->type) + 1;
	struct reader *reader = &input->arrays.rows;
	const struct param *param = &chain->params[input->param];
	if (input->loaded)
		return STATUS_OK;
	TRY(reader_check_size(reader, context->diags)); /* memory is allocated only for what the file can fill */
	if (size != input->size) {
		allocator_put(context->allocator, input->data, input->size);
		input->data = allocator_get(context->allocator, size, 1);
		input->size = input->data ? size : 0;
	}
	if (!input->data)
		return diag_at(context->diags, STATUS_LIMIT, chain->source, param->span,
		               "out of memory: input '%s' has %zu bytes", param->name, size - 1);
	TRY(reader_read(reader, input->data, dtype, reader->count, context->diags));
	input->loaded = true;
	return STATUS_OK;
}

void inputs_close(struct inputs *inputs, const struct allocator *allocator)
{
	for (size_t i = 0; i < inputs->count; i++) {
		struct further_input *input = &inputs->items[i];
		allocator_put(allocator, input->data, input->size);
		if (!input->opened)
			continue;
		reader_free(&input->arrays.rows);
		input_close(&input->arrays.input);
		array_free(&input->arrays.loaded, allocator);
	}
	inputs->count = 0;
}
