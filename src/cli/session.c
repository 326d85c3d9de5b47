/* Opening the chain, arrays and reports. */
#include "cli/session.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suggest.h"
#include "exec/run.h"

/* The chain. */

enum status session_read_file(struct session *s, const char *path, char **text, size_t *length)
{
	struct input input;
	enum status status = input_open(&input, path, false, &s->arena, &s->diags);
	if (status)
		return status;
	size_t capacity = 1 << 14, used = 0, got = 0;
	char *data = arena_alloc(&s->arena, capacity);
	while (data && !status) {
		status = input_read(&input, data + used, capacity - used, &got, &s->diags);
		used += got;
		if (!status && used > MAX_SOURCE)
			status = diag_file(&s->diags, STATUS_LIMIT, input.name, -1, "a text beyond the limit of %d MiB",
			                   MAX_SOURCE >> 20);
		if (status || used < capacity)
			break;
		char *grown = arena_alloc(&s->arena, 2 * capacity);
		if (grown)
			memcpy(grown, data, used);
		data = grown;
		capacity *= 2;
	}
	input_close(&input);
	TRY_ALLOC(data, &s->diags);
	*text = data;
	*length = used;
	return status;
}

/* Hints at -e if FILE does not exist, and its name can be parsed as a chain. */
static void hint_text(struct session *s)
{
	const struct source source = {s->line.file, s->line.file, strlen(s->line.file)};
	struct syntax syntax;
	struct diags told;
	diags_init(&told, &s->arena);
	const struct context context = {s->arena.allocator, &s->arena, &told};
	if (access(s->line.file, F_OK) == 0 || syntax_parse(&context, &syntax, &source))
		return;
	diag_hint(&s->diags, "a chain that is no file is given with -e, as in: ckptc %s -e '%s'", s->command->name,
	          s->line.file);
}

enum status session_load_syntax(struct session *s)
{
	s->directory = ".";
	if (s->line.text) {
		s->source = (struct source){"<command-line>", s->line.text, strlen(s->line.text)};
	} else if (s->line.file) {
		char *text = NULL;
		size_t length = 0;
		enum status status = session_read_file(s, s->line.file, &text, &length);
		if (status) {
			hint_text(s);
			return status;
		}
		const char *slash = strrchr(s->line.file, '/');
		if (slash)
			s->directory =
				slash == s->line.file ? "/" : arena_strndup(&s->arena, s->line.file, (size_t)(slash - s->line.file));
		s->source = (struct source){strcmp(s->line.file, "-") ? s->line.file : "<stdin>", text, length};
	} else {
		return with_hint(s, usage_error(s, "no chain"),
		                 "give a file, or the chain itself with -e, as in: ckptc %s -e 'add 1; sin'", s->command->name);
	}
	return syntax_parse(&s->context, &s->syntax, &s->source);
}

/* The first name in POLICY, which is no sum P+Q, that no value of the chain has; or NULL. */
static const char *unknown_alone(const struct session *s, const struct policy *policy)
{
	for (size_t i = 0; i < policy->name_count; i++) {
		bool known = false;
		for (size_t k = 0; k < s->chain.name_count; k++)
			known |= !strcmp(s->chain.names[k], policy->names[i]);
		if (!known)
			return policy->names[i];
	}
	return NULL;
}

/* The same for any POLICY. P+Q+R is (P+Q)+R, so the last name found is the first in the text. */
static const char *unknown_name(const struct session *s, const struct policy *policy)
{
	const char *first = NULL;
	for (; policy->left; policy = policy->left) {
		const char *name = unknown_alone(s, policy->right);
		first = name ? name : first;
	}
	const char *name = unknown_alone(s, policy);
	return name ? name : first;
}

static enum status unknown_value(struct session *s, enum status status, const char *name)
{
	const struct word_list names = {s->chain.names, s->chain.name_count, 0};
	return with_nearest(s, status, name, names,
	                    arena_printf(&s->arena, "a stage `name %s` gives the current value that name", name));
}

/* Names in POLICIES must be names of the chain. */
static enum status check_names(struct session *s, const struct policy_list *policies)
{
	enum status status = STATUS_OK;
	for (size_t i = 0; i < policies->count && !status; i++) {
		const char *text = policies->items[i].text, *name = unknown_name(s, &policies->items[i]);
		if (name)
			status =
				unknown_value(s, usage_error(s, "policy '%s': no value of the chain is named '%s'", text, name), name);
	}
	return status;
}

/* Names in the policies of checkpoint blocks must be names of the chain. */
static enum status check_blocks(struct session *s)
{
	enum status status = STATUS_OK;
	for (const struct block_policy *block = s->chain.block_policies; block && !status; block = block->next) {
		const char *name = unknown_name(s, block->policy);
		if (name)
			status = unknown_value(s,
			                       diag_at(&s->diags, STATUS_CHAIN, s->chain.source, block->span,
			                               "no value of the chain is named '%s'", name),
			                       name);
	}
	return status;
}

enum status session_load_chain(struct session *s)
{
	enum status status = session_load_syntax(s);
	if (!status)
		status = chain_resolve(&s->context, &s->chain, &s->syntax);
	if (!status)
		status = policy_parse_blocks(&s->context, &s->chain);
	if (!status)
		status = check_blocks(s);
	if (!status)
		status = check_names(s, &s->set.policies);
	return status ? status : check_names(s, &s->set.compared);
}

/* Arrays. */

enum status session_open_input(struct session *s)
{
	TRY(input_open(&s->in.input, s->line.values[OPTION_INPUT], false, &s->arena, &s->diags));
	s->in.open = true;
	reader_init(&s->in.reader, &s->in.input, &s->set.reading, &s->arena);
	if (s->chain.input_type.given)
		reader_declare(&s->in.reader, s->chain.input_type.type.dtype);
	return STATUS_OK;
}

enum status session_end_input(struct session *s)
{
	bool end;
	enum status status = reader_next(&s->in.reader, &end, &s->diags);
	if (!status && !end)
		diag_warn(&s->diags, "the input holds several arrays: 'ckptc %s' takes the first", s->command->name);
	return status;
}

enum status session_open_costs(struct session *s)
{
	static const char *const words[] = {"table", "measured"};
	const char *value = s->line.values[OPTION_COSTS];
	if (!value || !strcmp(value, words[0]))
		return STATUS_OK;
	struct costs_source *costs = arena_alloc(&s->arena, sizeof *costs);
	struct source *source = arena_alloc(&s->arena, sizeof *source);
	struct spec *spec = arena_alloc(&s->arena, sizeof *spec);
	TRY_ALLOC(costs && source && spec, &s->diags);
	*costs =
		(struct costs_source){.name = value, .threads = s->set.threads, .allocator = s->allocator, .arena = &s->arena};
	s->costs = costs;
	if (!strcmp(value, words[1]))
		return s->line.given[OPTION_SPILL] ? costs_measure_disk(costs, s->line.values[OPTION_SPILL], &s->diags)
		                                   : STATUS_OK;
	char *text = NULL;
	size_t length = 0;
	enum status status = session_read_file(s, value, &text, &length);
	const char *near = status ? suggest_nearest(value, words, sizeof words / sizeof *words) : NULL;
	if (near)
		diag_hint(&s->diags, "did you mean '%s'?", near);
	if (status)
		return status;
	*source = (struct source){value, text, length};
	costs->spec = spec;
	status = spec_read(spec, source, &s->arena, &s->diags);
	costs->spill = (struct spill_costs){.write = spec->costs.spill_write, .read = spec->costs.spill_read};
	costs->spill_known = !status;
	return status;
}

double session_predicted_ms(const struct session *s, const struct job *job)
{
	const struct counters *c = &job->predicted;
	const double all = c->forward_cost + c->backward_cost + c->recomputed_cost;
	if (!s->costs)
		return 0;
	if (s->costs->spec)
		return all * s->costs->spec->milliseconds;
	const double tiles = job->tiles.tiled ? (double)job->tiles.rows / (double)job->tile.rows : 1;
	return 1e-6 * all * tiles / job->tiles.workers;
}

enum status session_bind(struct session *s, bool data, enum dtype compute)
{
	const struct params_options options = {.bindings = s->line.params,
	                                       .binding_count = s->line.param_count,
	                                       .directory = s->directory,
	                                       .special = s->line.given[OPTION_SPECIAL],
	                                       .cast = s->line.given[OPTION_CAST],
	                                       .data = data,
	                                       .compute = compute,
	                                       .dtype = s->set.dtype};
	return params_bind(&s->context, &s->bound, &s->chain, &options);
}

/* True if the declaration gives every extent. */
static bool declared_whole(const struct declared *declared)
{
	for (int i = 0; i < declared->type.shape.ndim; i++)
		if (declared->type.shape.dim[i] < 0)
			return false;
	return declared->given;
}

static enum status input_type(struct session *s, struct type *type)
{
	if (s->line.given[OPTION_SHAPE] && !s->line.given[OPTION_INPUT]) {
		*type = s->set.shape;
	} else if (!s->line.given[OPTION_INPUT] && declared_whole(&s->chain.input_type)) {
		*type = s->chain.input_type.type;
	} else {
		if (!s->line.given[OPTION_INPUT] && isatty(0))
			return with_hint(
				s, usage_error(s, "the type of the input is not known"),
				"give --shape f32[64,256], declare it in the chain (input x: f32[64,256]), or pipe the data in");
		bool end;
		enum status status = session_open_input(s);
		if (!status)
			status = reader_next(&s->in.reader, &end, &s->diags);
		if (status == STATUS_DATA && !s->line.given[OPTION_INPUT] && s->in.input.eof &&
		    s->in.input.offset + (int64_t)s->in.input.end == 0)
			diag_hint(&s->diags, "where there is no data, give its type: --shape f32[64,256]");
		if (status)
			return status;
		*type = s->in.reader.type;
	}
	*type = run_input_type(&s->chain, type, s->set.dtype);
	return STATUS_OK;
}

enum status session_bind_types(struct session *s, struct type *type)
{
	enum status status = input_type(s, type);
	return status ? status : session_bind(s, false, dtype_compute(type->dtype));
}

bool session_error_is_data(const struct session *s)
{
	return s->set.format != REPORT_TABLE && ((s->line.given[OPTION_STATS] && !s->line.values[OPTION_STATS]) ||
	                                         (s->line.given[OPTION_RESIDUALS] && !s->line.values[OPTION_RESIDUALS]));
}

/* Refuses to append the output to the input: it would be read as more input, without end. */
static enum status refuse_append(struct session *s)
{
	const bool behind = fcntl(s->out.output.fd, F_GETFL) & O_APPEND || s->out.output.base > s->in.input.base;
	if (!s->in.open || !behind || !stream_is_one(s->in.input.fd, s->out.output.fd))
		return STATUS_OK;
	enum status status = reader_find_format(&s->in.reader, &s->diags);
	if (status || s->in.reader.format == FORMAT_TEXT ||
	    s->in.reader.format == FORMAT_CSV) /* text is read whole before anything is written */
		return status;
	return diag_file(&s->diags, STATUS_USAGE, s->in.input.name, -1,
	                 "the output would be appended to it, and read as more input");
}

enum status session_open_output(struct session *s, const char *path)
{
	enum status status = output_open(&s->out.output, path, &s->arena, &s->diags);
	s->out.open = status == STATUS_OK;
	return status ? status : refuse_append(s);
}

void session_make_writer(struct session *s, struct writer *writer, struct output *output)
{
	bool terminal = isatty(output->fd);
	const bool over = s->in.open && s->in.input.size >= 0 && stream_is_one(s->in.input.fd, output->fd);
	if (over) /* written in order, rows never overwrite rows that are still to be read */
		output->seekable = false;
	struct writer_options options = {.format = s->set.to != FORMAT_AUTO ? s->set.to : s->in.reader.format,
	                                 .layout = s->in.reader.layout,
	                                 .display = s->set.to == FORMAT_AUTO && terminal,
	                                 .reader = over ? &s->in.reader : NULL};
	if (options.display)
		options.format = FORMAT_TEXT;
	writer_init(writer, output, &options, &s->arena);
}

/* Complete files. */

struct whole {
	struct output output;
	struct whole *next;
};

enum status session_put(struct session *s, struct output *output)
{
	if (!output->temporary)
		return output_commit(output, &s->diags);
	struct whole *whole = arena_alloc(&s->arena, sizeof *whole);
	if (!whole) {
		output_abort(output);
		return diag_memory(&s->diags);
	}
	*whole = (struct whole){.output = *output};
	*(s->whole ? s->whole_end : &s->whole) = whole;
	s->whole_end = &whole->next;
	return STATUS_OK;
}

enum status session_commit(struct session *s)
{
	enum status status = STATUS_OK;
	for (struct whole *whole = s->whole; whole && !status; whole = whole->next)
		status = output_flush(&whole->output, &s->diags);
	for (; s->whole && !status; s->whole = s->whole->next)
		status = output_commit(&s->whole->output, &s->diags);
	return status;
}

/* Texts. */

enum { TEXT_BUFFER = 1 << 15 };

static void flush_text(struct text_file *file)
{
	if (!file->status && file->used)
		file->status = output_write(&file->output, file->buffer, file->used, &file->session->diags);
	file->used = 0;
}

static void write_text(void *context, const char *text, size_t length)
{
	struct text_file *file = context;
	while (length > 0) {
		size_t room = TEXT_BUFFER - file->used, n = length < room ? length : room;
		memcpy(file->buffer + file->used, text, n);
		file->used += n;
		text += n;
		length -= n;
		if (file->used == TEXT_BUFFER)
			flush_text(file);
	}
}

enum status session_open_text(struct session *s, struct text_file *file, const char *path, bool error)
{
	*file = (struct text_file){.session = s};
	file->buffer = arena_alloc(&s->arena, TEXT_BUFFER);
	TRY_ALLOC(file->buffer, &s->diags);
	file->text = (struct text){write_text, file};
	file->report =
		(struct report){.text = &file->text, .format = s->set.format, .arena = &s->arena, .diags = &s->diags};
	if (path || !error)
		return output_open(&file->output, path, &s->arena, &s->diags);
	file->output = (struct output){.fd = 2, .name = "<stderr>", .arena = &s->arena};
	return STATUS_OK;
}

enum status session_open_report(struct session *s, struct text_file *file)
{
	return session_open_text(s, file, s->line.values[OPTION_OUTPUT], false);
}

enum status session_close_text(struct text_file *file, enum status status)
{
	file->status = status ? status : file->status;
	flush_text(file);
	if (!file->status)
		return session_put(file->session, &file->output);
	output_abort(&file->output);
	return file->status;
}

void session_close(struct session *s)
{
	if (s->in.open) {
		reader_free(&s->in.reader);
		input_close(&s->in.input);
	}
	if (s->out.open)
		output_abort(&s->out.output);
	for (; s->whole; s->whole = s->whole->next)
		output_abort(&s->whole->output);
	params_free(&s->bound);
	arena_free(&s->arena);
}
