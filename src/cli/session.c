/* Tests: tests/cases/cli.test, tests/cases/errors.test */
#include "cli/session.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/shell.h"
#include "base/suggest.h"
#include "exec/run.h"
#include "external/learn.h"

enum status session_read_file(struct session *s, const char *path, struct source *source)
{
	struct input input;
	enum status status = STATUS_OK;
	char *data = NULL;
	size_t capacity = 1 << 13, used = 0, got = 0;
	TRY(input_open(&input, path, false, &s->arena, &s->diags));
	while (!status && (!data || used == capacity)) {
		capacity *= 2;
		char *grown = arena_alloc(&s->arena, capacity);
		if (grown && data)
			memcpy(grown, data, used);
		data = grown;
		status = data ? input_read(&input, data + used, capacity - used, &got, &s->diags) : diag_memory(&s->diags);
		used += got;
		if (!status && used > MAX_SOURCE)
			status = diag_file(&s->diags, STATUS_LIMIT, input.name, -1, "a text beyond the limit of %d MiB",
			                   MAX_SOURCE >> 20);
	}
	input_close(&input);
	*source = (struct source){path, data, used};
	return status;
}

/* True if FILE does not exist, and its name can be parsed as a chain that begins with no unknown operation. */
static bool is_chain_text(struct session *s, const char *file)
{
	const struct source source = {file, file, strlen(file)};
	struct syntax syntax;
	struct diags own;
	diags_init(&own, &s->arena);
	const struct context context = {s->arena.allocator, &s->arena, &own};
	if (io_access(file, F_OK) == 0 || syntax_parse(&context, &syntax, &source))
		return false;
	const struct statement *first = syntax.chain->first;
	return !first || first->kind != STATEMENT_STAGE || op_find(first->name) != OP_COUNT;
}

/* Gives all ranks the chain that rank 0 has read from standard input, which the launcher gives to that rank alone. */
static enum status share_source(struct session *s)
{
	uint64_t length = s->source.length;
	char *text = (char *)(uintptr_t)s->source.text; /* rank 0 only sends it */
	TRY(ranks_broadcast(s->ranks, &length, sizeof length));
	if (ranks_index(s->ranks) > 0)
		TRY_ALLOC(text = arena_array(&s->arena, length + 1, 1), &s->diags);
	s->source.text = text;
	s->source.length = length;
	return ranks_broadcast(s->ranks, text, length);
}

/* Sets s->source to the chain's text, and s->directory. */
static enum status load_source(struct session *s)
{
	const char *file = s->line.file;
	s->directory = ".";
	if (s->line.text) {
		s->source = (struct source){"<command-line>", s->line.text, strlen(s->line.text)};
		return STATUS_OK;
	}
	if (!file)
		return with_hint(s, usage_error(s, "no chain"),
		                 "give a file, or the chain itself with -e, as in: ckptc %s -e 'add 1; sin'", s->command->name);
	const enum status status = session_read_file(s, file, &s->source);
	if (status && is_chain_text(s, file))
		diag_hint_command(&s->diags, "a chain that is no file is given with -e, as in: ckptc %s -e %s",
		                  s->command->name, file);
	TRY(status);
	const char *slash = strrchr(file, '/');
	if (slash)
		s->directory = slash == file ? "/" : arena_strndup(&s->arena, file, (size_t)(slash - file));
	if (strcmp(file, "-") != 0)
		return STATUS_OK;
	s->source.name = "<stdin>";
	return share_source(s);
}

enum status session_load_syntax(struct session *s)
{
	TRY(load_source(s));
	return syntax_parse(&s->context, &s->syntax, &s->source);
}

/* Fails with STATUS_USAGE if a policy names no value of the chain. */
static enum status check_names(struct session *s, const struct policy_list *policies)
{
	for (size_t i = 0; i < policies->count; i++)
		TRY(policy_check_names(&s->context, &policies->items[i], &s->chain));
	return STATUS_OK;
}

static bool policy_has_name(const struct policy *policy, const char *name)
{
	bool has = false;
	for (; policy && !has; policy = policy->left) {
		const struct policy *alone = policy->left ? policy->right : policy;
		for (size_t i = 0; i < alone->name_count; i++)
			has |= !strcmp(alone->names[i], name);
	}
	return has;
}

/* True if a policy of the command line or of a block chooses values by NAME, or --at does. */
static bool is_chosen(const struct session *s, const char *name)
{
	const struct policy_list *const lists[] = {&s->set.policies, &s->set.compared};
	const struct chain_place *place = s->chain.place;
	bool chosen = place && place->name && !strcmp(place->name, name);
	for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
		for (size_t i = 0; i < lists[k]->count; i++)
			chosen |= policy_has_name(&lists[k]->items[i], name);
	for (const struct block_policy *block = s->chain.block_policies; block; block = block->next)
		chosen |= policy_has_name(block->policy, name);
	return chosen;
}

static void warn_hidden(struct session *s)
{
	for (const struct hidden_name *hidden = s->chain.hidden_names; hidden; hidden = hidden->next)
		diag_at(&s->diags, STATUS_OK, s->chain.source, hidden->span, "the %s '%s' hides the operation of that name",
		        hidden->kind, hidden->name);
}

static void warn_lost(struct session *s)
{
	for (const struct lost_name *lost = s->chain.lost_names; lost; lost = lost->next) {
		if (is_chosen(s, lost->name))
			continue;
		if (!lost->def) {
			diag_at(&s->diags, STATUS_OK, s->chain.source, lost->span,
			        "'%s' is bound at the end and nobody reads it: the result is the current value", lost->name);
			diag_hint(&s->diags, "`use %s` makes it the result", lost->name);
			continue;
		}
		diag_at(&s->diags, STATUS_OK, s->chain.source, lost->span,
		        "'%s' is bound here last and nobody reads it: it ends with the call of '%s'", lost->name, lost->def);
		diag_hint(&s->diags, "`export %s` binds it where '%s' is called", lost->name, lost->def);
	}
}

static void pass_on(void *context, const char *text, size_t length)
{
	(void)context;
	while (length > 0) {
		const ssize_t n = write(io_standard(2), text, length);
		if (n <= 0)
			return; /* nobody reads messages: that is no error */
		text += n;
		length -= (size_t)n;
	}
}

/* Binds the chain's programs as --program says. A command that computes needs all of them. */
static enum status bind_programs(struct session *s)
{
	const bool computes = s->command->letter & (RUN | GRAD | CHECK | PROFILE) && !s->line.given[OPTION_DUMP];
	const struct external_options options = {
		.timeout = s->set.program_timeout, .workers = s->set.program_workers, .pass = pass_on, .ended = s->ended};
	const char **names = arena_array(&s->arena, s->chain.program_count + 1, sizeof *names);
	TRY_ALLOC(names, &s->diags);
	if (s->chain.program_count == 0 && s->line.program_count == 0)
		return STATUS_OK;
	for (size_t i = 0; i < s->chain.program_count; i++)
		names[i] = s->chain.programs[i].name;
	const struct external_bindings bindings = {s->line.programs, s->line.program_count};
	TRY(external_bind(&s->context, names, (uint32_t)s->chain.program_count, &bindings, &options, &s->programs));
	return computes ? external_demand(&s->chain, false, s->programs, &s->diags) : STATUS_OK;
}

enum status session_learn_programs(struct session *s, const struct type *type)
{
	return external_learn(&s->context, &s->chain, NULL, type, s->command->letter & BACKWARDS, s->programs);
}

/* Finds where the inputs are, now that their names are known. */
static enum status place_inputs(struct session *s)
{
	const struct text_list *texts = &s->line.texts[OPTION_INPUT];
	const struct inputs_given given = {.texts = texts->items,
	                                   .count = texts->count,
	                                   .shapes = s->set.shapes,
	                                   .shape_count = s->set.shape_count,
	                                   .columns = s->line.texts[OPTION_COLUMNS].items,
	                                   .columns_count = s->line.texts[OPTION_COLUMNS].count,
	                                   .delimiters = s->line.texts[OPTION_DELIMITER].items,
	                                   .delimiter_count = s->line.texts[OPTION_DELIMITER].count,
	                                   .cotangents = s->cotangent_paths,
	                                   .option = option_shown(s, OPTION_INPUT)};
	TRY(inputs_place(&s->context, &s->chain, &given, &s->input_places));
	const struct type *shape = s->input_places[0].shape;
	if (!shape)
		return STATUS_OK;
	s->set.shape = s->set.reading.raw = *shape; /* which the input's name may have given */
	s->set.reading.typed = true;
	return STATUS_OK;
}

/* Sets GIVEN's names of cotangents, if --cotangent is given for several outputs, whose names are not known yet. */
static enum status name_cotangents(struct session *s, struct given_chain *given)
{
	const struct text_list *texts = &s->line.texts[OPTION_COTANGENT];
	const char **names = arena_array(&s->arena, texts->count + 1, sizeof *names);
	TRY_ALLOC(names, &s->diags);
	if (texts->count < 2)
		return STATUS_OK;
	if (texts->count >= MOST_VALUES)
		return usage_error(s, "--cotangent is given for at most %d outputs", MOST_VALUES - 1);
	for (size_t i = 0; i < texts->count; i++) {
		const size_t length = strcspn(texts->items[i], "=");
		TRY_ALLOC(names[i] = arena_printf(&s->arena, "--cotangent %.*s", (int)length, texts->items[i]), &s->diags);
	}
	given->cotangents = names;
	given->cotangent_count = texts->count;
	return STATUS_OK;
}

enum { IR_VERSION_FIELD = '\b' }; /* the first byte of ONNX models that exporters write */

/* Reads the chain with the numbers of --param: a count or an extent may be one. */
static enum status read_chain(struct session *s)
{
	struct given_number *items = arena_array(&s->arena, s->line.param_count + 1, sizeof *items);
	struct given_chain given = {.items = items};
	TRY_ALLOC(items, &s->diags);
	if (s->line.file && s->source.length && s->source.text[0] == IR_VERSION_FIELD) {
		diag_file(&s->diags, STATUS_CHAIN, s->source.name, -1, "it is an ONNX model, not a chain");
		return diag_hint_command(&s->diags, "make a chain of it: ckptc import %s", s->line.file);
	}
	TRY(name_cotangents(s, &given));
	for (size_t i = 0; i < s->line.param_count; i++) {
		const struct param_binding *param = &s->line.params[i];
		if (number_parse(param->value, strlen(param->value), &items[given.count].number))
			items[given.count++].name = param->name;
	}
	return chain_read_given(&s->context, &s->chain, &s->source, &given);
}

/* Returns the output that TEXT, as NAME=FILE, names, if no file has that name. Then *PATH is FILE, else TEXT. */
static const struct chain_output *split_output(const struct session *s, const char *text, const char **path)
{
	struct stat file;
	const char *equals = text ? strchr(text, '=') : NULL;
	const bool whole = !equals || io_stat(text, &file) == 0;
	const struct chain_output *output = whole ? NULL : chain_find_output(&s->chain, text, (size_t)(equals - text));
	*path = output ? equals + 1 : text;
	return output;
}

/* Reports that OPTION has the name of no output, which is the LENGTH bytes at NAME. */
static enum status refuse_output_name(struct session *s, const char *option, const char *name, size_t length)
{
	const char *names[64], *copy = arena_strndup(&s->arena, name, length);
	size_t count = 0;
	TRY_ALLOC(copy, &s->diags);
	for (; count < s->chain.output_count && count < 64; count++)
		names[count] = s->chain.outputs[count].name;
	return with_nearest(s, usage_error(s, "--%s %s: the chain has no output of that name", option, copy), copy,
	                    (struct text_list){names, count, 0}, "declare it, as in: output NAME");
}

/*
 * Sets *OUTPUT to the one that TEXT, a value NAME=FILE of --cotangent, names, and *PATH to FILE; else to NULL, and *PATH to
 * TEXT. A NAME of no output is an error: there is no file to read.
 */
static enum status find_cotangent(struct session *s, const char *text, const struct chain_output **output,
                                  const char **path)
{
	struct stat file;
	const char *equals = text ? strchr(text, '=') : NULL;
	*output = split_output(s, text, path);
	if (*output && !**path)
		return usage_error(s, "--cotangent has an empty file name");
	if (*output || !equals || memchr(text, '/', (size_t)(equals - text)) || io_stat(text, &file) == 0)
		return STATUS_OK;
	return refuse_output_name(s, "cotangent", text, (size_t)(equals - text));
}

/* Finds the outputs and files of --cotangent, if it is given several times. Then no file has the whole chain's. */
static enum status find_cotangents(struct session *s, const struct chain_output **outputs)
{
	const struct text_list *texts = &s->line.texts[OPTION_COTANGENT];
	const size_t count = s->chain.cotangent_count;
	if (!count)
		return STATUS_OK;
	s->cotangent_paths = arena_array(&s->arena, count, sizeof *s->cotangent_paths);
	TRY_ALLOC(s->cotangent_paths, &s->diags);
	for (size_t i = 0; i < count; i++) {
		TRY(find_cotangent(s, texts->items[i], &outputs[i], &s->cotangent_paths[i]));
		for (size_t k = 0; k < i; k++)
			if (outputs[k] == outputs[i])
				return outputs[i] ? usage_error(s, "--cotangent names '%s' twice; the first was '%s'", outputs[i]->name,
				                                s->cotangent_paths[k])
				                  : usage_error(s, "--cotangent was given twice; the first was '%s'", texts->items[k]);
	}
	if (s->line.given[OPTION_OF])
		return usage_error(s, "--of names one output, and --cotangent names several");
	if (s->line.given[OPTION_VALUE])
		return with_hint(s, usage_error(s, "--value writes the value that is differentiated, and there are several"),
		                 "write them with: ckptc run -o NAME=FILE");
	if (s->line.given[OPTION_JOURNAL])
		return usage_error(s, "--journal takes one --cotangent");
	s->line.given[OPTION_COTANGENT] = false;
	s->line.values[OPTION_COTANGENT] = NULL;
	return STATUS_OK;
}

/* Lets the run write all its values to the archive at PATH. */
static enum status want_archive(struct session *s, const char *path)
{
	const struct chain_output *wanted[MOST_VALUES];
	const size_t count = s->chain.output_count;
	if (count >= MOST_VALUES)
		return usage_error(s, "a run writes at most %d values", MOST_VALUES - 1);
	for (size_t k = 0; k < count; k++) {
		wanted[k] = &s->chain.outputs[k];
		if (!strcmp(wanted[k]->name, "out"))
			return with_hint(s, usage_error(s, "-o %s: the last value and an output would both be 'out'", path),
			                 "name the output otherwise, as in: output out as result");
	}
	s->archive = path;
	s->value_count = count + 1;
	return count ? chain_want_outputs(&s->context, &s->chain, wanted, count, true) : STATUS_OK;
}

/* Finds the values that the -o of a run name. Several are those that the chain gives; *ONE is an only one. */
static enum status find_values(struct session *s, const struct chain_output **one)
{
	const struct text_list *texts = &s->line.texts[OPTION_OUTPUT];
	const struct chain_output *wanted[MOST_VALUES];
	const char *paths[MOST_VALUES], *plain = NULL;
	size_t count = 0;
	for (size_t i = 0; i < texts->count; i++) {
		const char *path;
		const struct chain_output *output = split_output(s, texts->items[i], &path);
		if (!output && plain)
			return refuse_second_output(s, plain);
		if (output && !*path)
			return usage_error(s, "%s has an empty file name", option_shown(s, OPTION_OUTPUT));
		if (count + 1 == MOST_VALUES)
			return usage_error(s, "a run writes at most %d values", MOST_VALUES - 1);
		plain = output ? plain : path;
		if ((plain && count + (output != NULL) > 0 && output_is_archive(plain)) && !s->line.given[OPTION_TO])
			return usage_error(s, "-o %s has all values, so no other -o is wanted", plain);
		for (size_t k = 0; k < count && output; k++)
			if (wanted[k] == output)
				return usage_error(s, "%s names '%s' twice; the first was '%s'", option_shown(s, OPTION_OUTPUT),
				                   output->name, paths[k]);
		wanted[count] = output;
		paths[count] = path;
		count += output != NULL;
	}
	if (count == 0)
		return plain && output_is_archive(plain) && !s->line.given[OPTION_TO] ? want_archive(s, plain) : STATUS_OK;
	s->value_paths = arena_array(&s->arena, count + 1, sizeof *s->value_paths);
	TRY_ALLOC(s->value_paths, &s->diags);
	if (plain)
		s->value_paths[s->value_count++] = plain;
	for (size_t k = 0; k < count; k++)
		s->value_paths[s->value_count++] = paths[k];
	s->line.values[OPTION_OUTPUT] = s->value_paths[0];
	TRY(outputs_check(s)); /* of the files alone */
	TRY(outputs_check_read(s));
	*one = s->value_count == 1 ? wanted[0] : NULL;
	return *one ? STATUS_OK : chain_want_outputs(&s->context, &s->chain, wanted, count, plain != NULL);
}

/* Finds the output of --of. */
static enum status find_differentiated(struct session *s, const struct chain_output **output)
{
	const char *name = s->line.values[OPTION_OF];
	if (!name)
		return STATUS_OK;
	const struct chain_output *named = *output;
	*output = chain_find_output(&s->chain, name, strlen(name));
	if (named && *output && named != *output)
		return usage_error(s, "--of %s, and the cotangent is that of '%s': one output is differentiated", name,
		                   named->name);
	return *output ? STATUS_OK : refuse_output_name(s, "of", name, strlen(name));
}

/* Lets the chain's value be the output that the options name, if they do. */
static enum status choose_output(struct session *s)
{
	const struct chain_output *output = NULL;
	if (s->command->letter == RUN)
		TRY(find_values(s, &output));
	else if (s->command->letter & (GRAD | PLAN))
		TRY(find_cotangent(s, s->line.values[OPTION_COTANGENT], &output, &s->line.values[OPTION_COTANGENT]));
	TRY(find_differentiated(s, &output));
	if (output)
		return chain_choose_output(&s->context, &s->chain, output);
	return STATUS_OK;
}

/* Cuts the chain at the place of --at, if it is given. */
static enum status choose_place(struct session *s)
{
	const char *text = s->line.values[OPTION_AT];
	if (!text)
		return STATUS_OK;
	if (s->value_paths || s->value_count > 1)
		return usage_error(s, "--at contradicts -o %s: it writes one value", s->line.texts[OPTION_OUTPUT].items[0]);
	if (s->command->letter == RUN && s->line.given[OPTION_RESIDUALS])
		return with_hint(s, usage_error(s, "--at contradicts --residuals: a run that ends early has no gradient"),
		                 "ckptc residuals --at lists what the gradient of the place keeps");
	const bool ends = s->command->letter == RUN || s->line.given[OPTION_RUN];
	return chain_choose_place(&s->context, &s->chain, text, ends);
}

enum status session_load_chain(struct session *s)
{
	const struct chain_output *cotangents[MOST_VALUES];
	TRY(load_source(s));
	TRY(session_compare_chain(s));
	TRY(read_chain(s));
	TRY(find_cotangents(s, cotangents));
	TRY(place_inputs(s));
	TRY(s->cotangent_paths ? chain_want_cotangents(&s->context, &s->chain, cotangents) : choose_output(s));
	TRY(choose_place(s));
	TRY(outputs_check_loaded(s));
	TRY(session_compare_files(s));
	TRY(bind_programs(s));
	TRY(policy_parse_blocks(&s->context, &s->chain));
	TRY(check_names(s, &s->set.policies));
	TRY(check_names(s, &s->set.compared));
	warn_lost(s);
	warn_hidden(s);
	if (s->set.store != DTYPE_COUNT && s->chain.selects)
		return usage_error(s, "--store-dtype %s would round the indices in states: the chain reads some",
		                   dtype_name(s->set.store));
	/* The number of steps is not known before a run: of the policies that take a limit, online:S needs none. */
	if (s->chain.has_conditions && s->set.max_checkpoints && !s->set.policies.count && !s->set.memory)
		TRY_ALLOC(policy_make(&s->set.policy, POLICY_online, s->set.max_checkpoints, &s->arena), &s->diags);
	if (s->set.max_checkpoints && s->set.memory && !s->chain.has_conditions && !s->set.policies.count)
		return with_hint(s,
		                 usage_error(s, "--memory chooses how many states are kept, so it takes no --max-checkpoints"),
		                 "leave --max-checkpoints out, or give a policy such as revolve:S in place of --memory");
	return options_check_default(s);
}

static enum status open_first(struct session *s)
{
	struct opened_member member;
	s->set.reading.anywhere = (s->ranks || s->line.given[OPTION_JOURNAL]) && s->set.reading.copies;
	s->set.reading.threads = s->set.threads;
	if (s->set.reading.typed)
		s->set.reading.text_shape = &s->set.shape.shape;
	else if (s->chain.input_type.given)
		s->set.reading.text_shape = &s->chain.input_type.type.shape;
	TRY(input_place_open(&s->context, &s->input_places[0], &s->set.reading, &member));
	s->in.input = member.input;
	s->in.reader = member.rows;
	s->in.reader.input = &s->in.input;
	s->in.loaded = member.loaded;
	s->in.open = true;
	if (s->chain.input_type.given)
		s->in.reader.declared = s->chain.input_type.type.dtype;
	return STATUS_OK;
}

static enum status open_others(struct session *s)
{
	const struct inputs_options options = {s->input_places, s->set.reading, s->set.dtype};
	return s->chain.input_count ? inputs_open(&s->context, &s->inputs, &s->chain, &options) : STATUS_OK;
}

enum status session_open_input(struct session *s)
{
	TRY(open_first(s));
	return open_others(s);
}

/* True if a policy chooses by costs, and all programs of the chain are there to be measured. online:S does not. */
static bool runs_programs(const struct session *s)
{
	bool searches = s->set.memory || policy_is(&s->set.policy, TRAIT_COSTS);
	for (size_t i = 0; i < s->set.policies.count; i++)
		searches |= policy_is(&s->set.policies.items[i], TRAIT_COSTS);
	for (uint32_t i = 0; i < s->chain.program_count; i++)
		if (!external_bound(s->programs, i))
			return false;
	return searches && s->chain.program_count && !(s->chain.has_conditions && s->set.memory);
}

enum status session_open_costs(struct session *s)
{
	static const char *const words[] = {"table", "measured"};
	const char *value = s->line.values[OPTION_COSTS];
	if (!value && runs_programs(s))
		value = words[1];
	if (!value || !strcmp(value, words[0]))
		return STATUS_OK;
	struct {
		struct costs_source costs;
		struct source source;
		struct spec spec;
	} *made = arena_alloc(&s->arena, sizeof *made);
	TRY_ALLOC(made, &s->diags);
	made->costs = (struct costs_source){.name = value,
	                                    .threads = s->set.threads,
	                                    .programs = s->programs,
	                                    .allocator = s->allocator,
	                                    .arena = &s->arena};
	struct costs_source *costs = s->costs = &made->costs;
	if (!strcmp(value, words[1]) && s->line.given[OPTION_JOURNAL])
		TRY(journal_read_costs(&s->context, s->journal, &costs->kept));
	if (!strcmp(value, words[1]))
		return s->line.given[OPTION_SPILL] ? costs_measure_disk(costs, s->line.values[OPTION_SPILL], &s->diags)
		                                   : STATUS_OK;
	const enum status status = session_read_file(s, value, &made->source);
	const char *near = status ? suggest_nearest(value, words, sizeof words / sizeof *words) : NULL;
	if (near)
		diag_hint(&s->diags, "did you mean '%s'?", near);
	TRY(status);
	costs->spec = &made->spec;
	TRY(spec_read(&made->spec, &made->source, &s->arena, &s->diags));
	costs->spill = (struct spill_costs){.write = costs->spec->costs.spill_write, .read = costs->spec->costs.spill_read};
	costs->spill_known = true;
	return STATUS_OK;
}

bool session_makes_input(const struct session *s)
{
	return s->input_places ? !s->input_places[0].file : s->set.shape.shape.ndim >= 0 && !s->line.given[OPTION_INPUT];
}

enum status session_bind(struct session *s, bool data, enum dtype compute)
{
	const struct params_options options = {.bindings = s->line.params,
	                                       .binding_count = s->line.param_count,
	                                       .files = s->line.param_files.items,
	                                       .file_count = s->line.param_files.count,
	                                       .directory = s->directory,
	                                       .special = s->line.given[OPTION_SPECIAL],
	                                       .cast = s->line.given[OPTION_CAST],
	                                       .missing = s->set.reading.missing,
	                                       .threads = s->set.threads,
	                                       .leaves = s->leaves,
	                                       .data = data,
	                                       .compute = compute,
	                                       .input_places = s->input_places + 1,
	                                       .ranks = s->ranks,
	                                       .dtype = s->set.dtype};
	return params_bind(&s->context, &s->params, &s->chain, &options);
}

/* Says what a plan takes for the iterations of `repeat while`s, which only data decide. */
static void warn_iterations(struct session *s)
{
	if (s->line.given[OPTION_RUN]) /* a forward run takes the same bytes for any number */
		return;
	if (s->chain.has_conditions && !s->set.iterations) {
		diag_warn(&s->diags,
		          "each `repeat while` is planned to run its max of iterations: the figures are at most these");
		diag_hint(&s->diags, "--iterations N plans for N");
	} else if (!s->chain.has_conditions && s->set.iterations) {
		diag_warn(&s->diags, "--iterations has no effect: the chain has no `repeat while`");
	}
}

/* Returns a type that --shape may give in place of the first input: as it is declared, else any. */
static const char *likely_type(struct session *s)
{
	char text[TYPE_TEXT];
	struct type type = {DTYPE_F32, {2, {64, 256}}};
	if (s->chain.input_type.given)
		type = s->chain.input_type.type;
	for (int i = 0; i < type.shape.ndim; i++)
		if (type.shape.dim[i] < 0)
			type.shape.dim[i] = 64;
	const char *copy = arena_printf(&s->arena, "%s", type_format(&type, text));
	return copy ? copy : "f32[64,256]";
}

/* Writes a note on standard error if standard input has nothing for a while: a user may not know what is awaited. */
static void note_waiting(struct session *s)
{
	enum { PATIENCE_MS = 3000 };
	struct pollfd input = {.fd = io_standard(0), .events = POLLIN};
	if (ranks_index(s->ranks) > 0 || poll(&input, 1, PATIENCE_MS) != 0)
		return;
	const char *note = arena_printf(&s->arena,
	                                "ckptc: note: waiting for the input on standard input; --shape %s gives a type in "
	                                "place of data\n",
	                                likely_type(s));
	if (note)
		pass_on(NULL, note, strlen(note));
}

enum status session_read_type(struct session *s, struct type *type)
{
	const bool standard = !strcmp(s->input_places[0].file, "-");
	bool end;
	if (standard && isatty(io_standard(0)) && !s->line.given[OPTION_INPUT])
		return with_hint(
			s, usage_error(s, "the type of the input is not known"),
			"give --shape f32[64,256], declare it in the chain (input x: f32[64,256]), or pipe the data in");
	if (standard)
		note_waiting(s);
	TRY(open_first(s));
	const enum status status = reader_next(&s->in.reader, &end, &s->diags);
	if (status == STATUS_DATA && standard && s->in.input.eof && s->in.input.offset + (int64_t)s->in.input.end == 0)
		return with_hint(s, status, "where there is no data, give its type: --shape %s", likely_type(s));
	TRY(status);
	*type = s->in.reader.type;
	return STATUS_OK;
}

enum status session_bind_types(struct session *s, struct type *type)
{
	s->set.reading.types = true;
	if (session_makes_input(s))
		*type = s->set.shape;
	else if (!s->line.given[OPTION_INPUT] && !s->line.given[OPTION_COLUMNS] && !s->line.given[OPTION_DELIMITER] &&
	         declared_whole(&s->chain.input_type))
		*type = s->chain.input_type.type;
	else
		TRY(session_read_type(s, type));
	TRY(open_others(s));
	TRY(inputs_next(&s->inputs, &s->chain, false, &s->diags));
	*type = run_input_type(&s->chain, type, s->set.dtype);
	warn_iterations(s);
	TRY(session_bind(s, false, dtype_compute(type->dtype)));
	return session_learn_programs(s, type);
}

bool session_error_is_data(const struct session *s)
{
	return s->set.format != REPORT_TABLE && ((s->line.given[OPTION_STATS] && !s->line.values[OPTION_STATS]) ||
	                                         (s->line.given[OPTION_RESIDUALS] && !s->line.values[OPTION_RESIDUALS]));
}

enum status session_own_output(struct session *s, struct opened_output **out, struct output *output)
{
	*out = arena_alloc(&s->arena, sizeof **out);
	if (!*out)
		output_abort(output);
	TRY_ALLOC(*out, &s->diags);
	**out = (struct opened_output){.output = *output, .before = s->outputs};
	s->outputs = *out;
	return STATUS_OK;
}

enum status session_open_output(struct session *s, struct opened_output **out, const char *path, bool live)
{
	struct output output;
	if (ranks_index(s->ranks) > 0) /* rank 0 writes what one process writes */
		TRY(output_join(&output, "", NULL, 0, &s->arena, &s->diags));
	else
		TRY((live ? output_open_live : output_open)(&output, path, &s->arena, &s->diags));
	return session_own_output(s, out, &output);
}

enum status session_open_rows(struct session *s, struct opened_output **out, const char *path)
{
	struct {
		bool shared;
		int64_t base;
		char path[PATH_MAX];
	} of = {.shared = false};
	const bool first = ranks_index(s->ranks) == 0;
	struct output output;
	if (first)
		TRY(session_open_output(s, out, path, false));
	if (!s->ranks)
		return STATUS_OK;
	if (first) {
		of.shared = output_share(&(*out)->output, s->ranks->together, of.path);
		of.base = (*out)->output.base;
	}
	TRY(ranks_broadcast(s->ranks, &of, sizeof of));
	if (first)
		return STATUS_OK;
	const char *shared = of.shared ? arena_printf(&s->arena, "%s", of.path) : NULL;
	TRY(output_join(&output, path ? path : "<stdout>", shared, of.base, &s->arena, &s->diags));
	return session_own_output(s, out, &output);
}

void session_make_writer(struct session *s, struct opened_output *out)
{
	const bool over = s->in.open && s->in.input.size >= 0 && stream_is_one(s->in.input.fd, out->output.fd);
	if (over) /* then rows are written in order, and overwrite only rows that were read */
		out->output.seekable = false;
	s->in.reader.options.overwritten |= over;
	struct writer_options options = {.format = s->set.to,
	                                 .layout = s->in.reader.layout,
	                                 /* a launcher of ranks may give them a terminal whatever its own output is */
	                                 .late = true,
	                                 .display = s->set.to == FORMAT_AUTO && !s->ranks && isatty(out->output.fd),
	                                 .reader = over ? &s->in.reader : NULL};
	output_follow_ending(out->output.name, &options);
	if (options.format == FORMAT_AUTO)
		options.format = options.display ? FORMAT_TEXT : format_written(s->in.reader.format);
	writer_init(&out->writer, &out->output, &options, &s->arena);
}

enum status session_open_arrays(struct session *s)
{
	TRY(session_open_rows(s, &s->out, s->line.values[OPTION_OUTPUT]));
	const struct output *out = &s->out->output;
	const bool behind = fcntl(out->fd, F_GETFL) & O_APPEND || out->base > s->in.input.base;
	if (s->in.open && behind && stream_is_one(s->in.input.fd, out->fd)) {
		TRY(reader_find_format(&s->in.reader, &s->diags));
		/* Text is read completely before the first write, so it may be appended to. */
		if (s->in.reader.format != FORMAT_TEXT && s->in.reader.format != FORMAT_CSV)
			return diag_file(&s->diags, STATUS_USAGE, s->in.input.name, -1,
			                 "the output would be appended to it, and read as more input");
	}
	session_make_writer(s, s->out);
	return STATUS_OK;
}

enum status session_settle(struct session *s, enum status status)
{
	bool speaks;
	const char *wrong = status == STATUS_OTHER_RANK ? ranks_wrong(s->ranks) : NULL;
	if (s->settled)
		return status;
	if (wrong)
		status = diag_file(&s->diags, STATUS_USAGE, NULL, -1, "all ranks run one command, but %s", wrong);
	status = ranks_settle(s->ranks, status, &speaks);
	s->settled = status != STATUS_OK;
	s->silent = !speaks;
	return status;
}

enum status session_put(struct session *s, struct opened_output *out)
{
	if (!out->output.temporary && !out->output.joined)
		return output_commit(&out->output, &s->diags);
	struct opened_output **place = &s->pending;
	while (*place && (out->adds || !(*place)->adds))
		place = &(*place)->after;
	out->after = *place;
	*place = out;
	return STATUS_OK;
}

/* Adds a note to the failure of OUT, that names the files that were replaced before. Returns the failure's status. */
static enum status name_replaced(struct session *s, enum status status, const struct opened_output *out)
{
	size_t count = 0;
	for (const struct opened_output *done = s->pending; done != out; done = done->after)
		count++;
	const char **names = arena_array(&s->arena, count + 1, sizeof *names);
	if (!names || count == 0)
		return status;
	count = 0;
	for (const struct opened_output *done = s->pending; done != out; done = done->after)
		if (!done->output.joined)
			names[count++] = shell_printf(&s->arena, "%s", done->output.name);
	if (count > 0 && !s->arena.failed)
		diag_hint_more(&s->diags, "these files are replaced already: %s", text_join(names, count, &s->arena));
	return status;
}

enum status session_commit(struct session *s)
{
	TRY(external_finish(s->programs, &s->diags));
	for (struct opened_output *out = s->pending; out; out = out->after)
		TRY(output_flush(&out->output, &s->diags));
	TRY(session_settle(s, STATUS_OK));
	/* A signal waits until all files have their places. */
	sigset_t all, before;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	enum status status = STATUS_OK;
	for (struct opened_output *out = s->pending; out && !status; out = out->after) {
		status = output_commit(&out->output, &s->diags);
		if (status)
			status = name_replaced(s, status, out);
	}
	s->pending = NULL;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return session_settle(s, status);
}

static void flush_text(struct text_file *file)
{
	if (!file->status && file->used)
		file->status = output_write(&file->out->output, file->buffer, file->used, &file->session->diags);
	file->used = 0;
}

static void write_text(void *context, const char *text, size_t length)
{
	struct text_file *file = context;
	while (length > 0) {
		size_t room = sizeof file->buffer - file->used, n = length < room ? length : room;
		memcpy(file->buffer + file->used, text, n);
		file->used += n;
		text += n;
		length -= n;
		if (file->used == sizeof file->buffer)
			flush_text(file);
	}
}

enum status session_open_text(struct session *s, struct text_file **opened, const char *path, bool to_stderr)
{
	struct text_file *file = *opened = arena_alloc(&s->arena, sizeof *file);
	TRY_ALLOC(file, &s->diags);
	file->session = s;
	file->text = (struct text){write_text, file};
	file->report = (struct report){.text = &file->text, .format = s->set.format, .arena = &s->arena};
	if (path || !to_stderr || ranks_index(s->ranks) > 0)
		return session_open_output(s, &file->out, path, false);
	return session_own_output(s, &file->out,
	                          &(struct output){.fd = io_standard(2), .name = "<stderr>", .arena = &s->arena});
}

enum status session_open_report(struct session *s, struct text_file **file)
{
	return session_open_text(s, file, s->line.values[OPTION_OUTPUT], false);
}

enum status session_close_text(struct text_file *file)
{
	TRY_ALLOC(!file->session->arena.failed, &file->session->diags);
	if (file->report.depth)
		report_close(&file->report, '}');
	flush_text(file);
	return file->status ? file->status : session_put(file->session, file->out);
}

void session_close(struct session *s)
{
	if (s->in.open) {
		reader_free(&s->in.reader);
		input_close(&s->in.input);
		array_free(&s->in.loaded, s->allocator);
	}
	inputs_close(&s->inputs, s->allocator);
	for (struct opened_output *out = s->outputs; out; out = out->before) {
		writer_free(&out->writer);
		output_abort(&out->output);
	}
	lock_release(&s->locks);
	job_free(&s->job);
	params_free(&s->params);
	external_close(s->programs);
	arena_free(&s->arena);
}
