/*
 * The command line. All words are read before values are parsed (but NAME= of --param): values depend on each other.
 * Tests: tests/cases/cli.test, tests/cases/errors.test
 */
#include "cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suggest.h"
#include "base/system.h"
#include "base/text.h"

const struct option_row option_table[OPTION_COUNT] = {
#define OPTION(ID, NAME, SHORT, ARGUMENT, USE, COMMANDS, HELP) {NAME, SHORT, ARGUMENT, USE, COMMANDS, HELP},
#include "cli/options.def"
};

static const struct {
	int option;
	unsigned commands;
	const char *words;
} option_values[] = {
#define VALUES(ID, COMMANDS, WORDS) {OPTION_##ID, COMMANDS, WORDS},
#include "cli/options.def"
};

const char *option_words(int option, unsigned command)
{
	for (size_t i = 0; i < sizeof option_values / sizeof *option_values; i++)
		if (option_values[i].option == option && option_values[i].commands & command)
			return option_values[i].words;
	return "";
}

/* True if VALUE, which may be NULL, is one of WORDS, as option_words returns them. */
static bool is_word_of(const char *value, const char *words)
{
	const char *at = words;
	for (size_t length; value && *at; at += length + (at[length] == ' ')) {
		length = strcspn(at, " ");
		if (strlen(value) == length && !memcmp(at, value, length))
			return true;
	}
	return false;
}

bool option_is_word(const struct session *s, int option)
{
	return is_word_of(s->line.values[option], option_words(option, s->command->letter));
}

enum status usage_error(struct session *s, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	const char *message = arena_vprintf(&s->arena, format, arguments);
	va_end(arguments);
	return message ? diag_file(&s->diags, STATUS_USAGE, NULL, -1, "%s", message) : diag_memory(&s->diags);
}

enum status with_hint(struct session *s, enum status status, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	const char *hint = arena_vprintf(&s->arena, format, arguments);
	va_end(arguments);
	if (hint)
		diag_hint(&s->diags, "%s", hint);
	return status;
}

enum status with_nearest(struct session *s, enum status status, const char *name, struct text_list candidates,
                         const char *otherwise)
{
	const char *near = suggest_nearest(name, candidates.items, candidates.count);
	if (near)
		return with_hint(s, status, "did you mean '%s'?", near);
	return otherwise ? with_hint(s, status, "%s", otherwise) : status;
}

static const char *option_name(int option) { return option_table[option].name; }

const char *option_shown(const struct session *s, int option)
{
	static const struct {
		char letter[3];
		const char *name;
	} shown[OPTION_COUNT] = {
#define OPTION(ID, NAME, LETTER, ...) {{'-', LETTER}, "--" NAME},
#include "cli/options.def"
	};
	return s->line.by_letter[option] ? shown[option].letter : shown[option].name;
}

/* Returns the hint for users who try the option NAME with the session's command, or NULL. */
static const char *hint_on_tried(const struct session *s, const char *name)
{
	static const struct {
		const char *name;
		int commands;
		const char *hint;
	} rows[] = {
#define TRIED(NAME, COMMANDS, HINT) {NAME, COMMANDS, HINT},
#include "cli/options.def"
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (!strcmp(rows[i].name, name) && rows[i].commands & s->command->letter)
			return rows[i].hint;
	return NULL;
}

static enum status unknown_option(struct session *s, const char *name, size_t length)
{
	const char *own[OPTION_COUNT], *all[OPTION_COUNT];
	size_t count = 0;
	const char *copy = arena_strndup(&s->arena, name, length);
	TRY_ALLOC(copy, &s->diags);
	for (int i = 0; i < OPTION_COUNT; i++) {
		all[i] = option_name(i);
		if (option_table[i].commands & s->command->letter)
			own[count++] = option_name(i);
	}
	const enum status status = usage_error(s, "unknown option '--%s'", copy);
	const char *tried = hint_on_tried(s, copy);
	if (tried)
		return with_hint(s, status, "%s", tried);
	const char *near = suggest_nearest(copy, own, count), *other = suggest_nearest(copy, all, OPTION_COUNT);
	if (near)
		return with_hint(s, status, "did you mean '--%s'?", near);
	if (other)
		return with_hint(s, status, "did you mean '--%s'? 'ckptc %s' does not take it", other, s->command->name);
	return with_hint(s, status, "`ckptc %s --help` lists the options", s->command->name);
}

static enum status unknown_letter(struct session *s, char letter)
{
	const char name[] = {letter, '\0'}, *tried = hint_on_tried(s, name);
	const enum status status = usage_error(s, "unknown option '-%c'", letter);
	return tried ? with_hint(s, status, "%s", tried)
	             : with_hint(s, status, "`ckptc %s --help` lists the options", s->command->name);
}

static enum status wrong_command(struct session *s, int option)
{
	const char *list = "", *tried = hint_on_tried(s, option_name(option));
	for (size_t i = 0; i < command_count && list; i++)
		if (option_table[option].commands & command_table[i].letter)
			list = arena_printf(&s->arena, "%s%s%s", list, *list ? ", " : "", command_table[i].name);
	const enum status status =
		usage_error(s, "'ckptc %s' takes no option '%s'", s->command->name, option_shown(s, option));
	return tried ? with_hint(s, status, "%s", tried)
	             : with_hint(s, status, "it belongs to %s", list ? list : "other commands");
}

static enum status add_param(struct session *s, const char *value)
{
	struct command_line *line = &s->line;
	const char *equals = strchr(value, '=');
	if (!equals || equals == value)
		return usage_error(s, "--param takes NAME=FILE or NAME=NUMBER, not '%s'", value);
	char *name = arena_strndup(&s->arena, value, (size_t)(equals - value));
	TRY_ALLOC(name, &s->diags);
	for (size_t i = 0; i < line->param_count; i++)
		if (!strcmp(line->params[i].name, name))
			return usage_error(s, "--param binds '%s' twice; the first was '%s'", name, line->params[i].value);
	struct param_binding *added =
		arena_append(&s->arena, &line->params, &line->param_count, &line->param_capacity, sizeof *added);
	TRY_ALLOC(added, &s->diags);
	*added = (struct param_binding){name, equals + 1};
	return STATUS_OK;
}

static enum status add_program(struct session *s, const char *value)
{
	struct command_line *line = &s->line;
	const char *equals = strchr(value, '=');
	if (!equals || equals == value || !equals[1])
		return usage_error(s, "--program takes NAME=COMMAND or NAME=FILE.so, not '%s'", value);
	const char *name = arena_strndup(&s->arena, value, (size_t)(equals - value));
	struct external_binding *added =
		arena_append(&s->arena, &line->programs, &line->program_count, &line->program_capacity, sizeof *added);
	TRY_ALLOC(name && added, &s->diags);
	*added = (struct external_binding){name, equals + 1};
	return STATUS_OK;
}

enum status refuse_second_output(struct session *s, const char *first)
{
	const enum status status =
		usage_error(s, "%s was given twice; the first was '%s'", option_shown(s, OPTION_OUTPUT), first);
	if (s->command->letter == RUN)
		return with_hint(s, status,
		                 "the value goes to one file; `output NAME` in the chain and -o NAME=FILE write another");
	return s->command->letter == GRAD
	           ? with_hint(s, status, "--grad NAME=FILE writes another gradient, --value FILE the value")
	           : status;
}

static enum status set_option(struct session *s, int option, const char *value)
{
	struct command_line *line = &s->line;
	if (!(option_table[option].commands & s->command->letter))
		return wrong_command(s, option);
	const bool several = option == OPTION_OUTPUT && s->command->letter == RUN; /* choose_output counts them */
	if (line->given[option] && (option_table[option].use & ONCE) && !several && option == OPTION_OUTPUT)
		return refuse_second_output(s, line->values[option]);
	if (line->given[option] && (option_table[option].use & ONCE) && !several)
		return line->values[option] ? usage_error(s, "%s was given twice; the first was '%s'", option_shown(s, option),
		                                          line->values[option])
		                            : usage_error(s, "%s was given twice", option_shown(s, option));
	/* Refuse an empty file name now: it would fail only after other files were written. */
	const char *equals = option == OPTION_GRAD_OF ? strchr(value, '=') : NULL, *file = equals ? equals + 1 : value;
	if ((option == OPTION_GRAD_OF || (option_table[option].use & WRITTEN)) && file && !*file)
		return usage_error(s, "%s has an empty file name", option_shown(s, option));
	line->given[option] = true;
	line->values[option] = value;
	TRY_ALLOC(text_list_add(&line->texts[option], value ? value : "given", &s->arena), &s->diags);
	struct text_list *const lists[OPTION_COUNT] = {[OPTION_POLICY] = &line->policies,
	                                               [OPTION_ONLINE] = &line->policies,
	                                               [OPTION_DIFF] = &line->compared,
	                                               [OPTION_PARAMS] = &line->param_files,
	                                               [OPTION_GRAD_OF] = &line->grads};
	const char *word = option == OPTION_ONLINE ? arena_printf(&s->arena, "online:%s", value) : value;
	if (lists[option])
		TRY_ALLOC(text_list_add(lists[option], word, &s->arena), &s->diags);
	if (option == OPTION_TEXT)
		line->text = value;
	if (option == OPTION_PROGRAM)
		return add_program(s, value);
	return option == OPTION_PARAM ? add_param(s, value) : STATUS_OK;
}

/* Moves *AT, a place in argv, to the next word and returns that. Returns NULL, and does not move, after the last. */
static const char *next_word(char ***at) { return (*at)[1] ? *++*at : NULL; }

static enum status parse_long(struct session *s, const char *text, char ***at)
{
	const size_t length = strcspn(text, "=");
	int k = 0;
	while (k < OPTION_COUNT && (strlen(option_name(k)) != length || strncmp(option_name(k), text, length) != 0))
		k++;
	if (k == OPTION_COUNT)
		return unknown_option(s, text, length);
	const char *argument = option_table[k].argument, *value = text[length] ? text + length + 1 : NULL;
	if (!*argument && value)
		return usage_error(s, "--%s takes no value", option_name(k));
	if (*argument && *argument != '[' && !value) {
		value = next_word(at);
		if (!value)
			return usage_error(s, "--%s needs a value: %s", option_name(k), argument);
	}
	s->line.by_letter[k] = false;
	TRY(set_option(s, k, value));
	if (k != OPTION_DIFF) /* the only option with two values */
		return STATUS_OK;
	value = next_word(at);
	return value && *value != '-' ? set_option(s, k, value) : usage_error(s, "--diff takes two policies: --diff P Q");
}

static enum status parse_short(struct session *s, const char *text, char ***at)
{
	for (; *text; text++) {
		int k = 0;
		while (k < OPTION_COUNT && option_table[k].short_name != *text)
			k++;
		if (k == OPTION_COUNT)
			return unknown_letter(s, *text);
		s->line.by_letter[k] = true;
		if (*option_table[k].argument) {
			const char *value = text[1] ? text + 1 : next_word(at);
			return value ? set_option(s, k, value)
			             : usage_error(s, "-%c needs a value: %s", *text, option_table[k].argument);
		}
		TRY(set_option(s, k, NULL));
	}
	return STATUS_OK;
}

enum status choose_word(struct session *s, int option, int first, int *chosen)
{
	const char *value = s->line.values[option], *list = "", *at = option_words(option, s->command->letter);
	if (!value)
		return STATUS_OK;
	for (int i = 0; *at && list; i++) {
		const size_t length = strcspn(at, " ");
		if (strlen(value) == length && !memcmp(at, value, length)) {
			*chosen = first + i;
			return STATUS_OK;
		}
		list = arena_printf(&s->arena, "%s%s%.*s", list, i == 0 ? "" : at[length] ? ", " : " or ", (int)length, at);
		at += length + (at[length] == ' ');
	}
	return usage_error(s, "%s takes %s, not '%s'", option_shown(s, option), list ? list : "", value);
}

/* True if TEXT begins with a digit; strtoll would also accept spaces and a sign. */
static bool begins_number(const char *text) { return *text >= '0' && *text <= '9'; }

static enum status parse_whole(struct session *s, int option, int64_t least, int64_t most, int64_t *value)
{
	const char *text = s->line.values[option];
	char *end;
	if (!s->line.given[option])
		return STATUS_OK;
	errno = 0;
	const long long number = strtoll(text, &end, 10);
	if (errno || !begins_number(text) || *end || number < least || number > most)
		return usage_error(s, "%s takes a whole number from %lld to %lld, not '%s'", option_shown(s, option),
		                   (long long)least, (long long)most, text);
	*value = number;
	return STATUS_OK;
}

static enum status parse_positive(struct session *s, int option, int64_t most, int64_t *value)
{
	return parse_whole(s, option, 1, most, value);
}

/* Sets *TYPE to the one that TEXT, a value of --shape or the part of it behind NAME=, says. */
static enum status parse_type(struct session *s, const char *text, struct type *made)
{
	const char *open = strchr(text, '['), *p = open ? open + 1 : text;
	struct type type = {.dtype = open ? dtype_find(text, (size_t)(open - text)) : DTYPE_COUNT};
	bool good = type.dtype < DTYPE_BITS, open_extent = false;
	int dims = 0;
	for (; good && (*p != ']' || p[-1] == ','); dims++) {
		char *number_end;
		p += strspn(p, " ");
		const bool any = *p == '*' && dims == 0 && s->command->letter == IMPORT;
		const long long extent = strtoll(p, &number_end, 10); /* LLONG_MAX on overflow; type_addressable refuses it */
		const char *end = any ? p + 1 : number_end;
		end += strspn(end, " ");
		good = (begins_number(p) || any) && (*end == ',' || *end == ']');
		open_extent |= any;
		if (good && dims < MAX_DIMS)
			type.shape.dim[type.shape.ndim++] = any ? 1 : extent;
		p = good && *end == ',' ? end + 1 : end;
	}
	if (!good || p[1]) {
		const enum status status = usage_error(s, "--shape takes a type such as f32[64,256] or f64[], not '%s'", text);
		return strchr(text, '*')
		           ? with_hint(s, status, "give a number for each *: plans and raw data need every extent")
		           : status;
	}
	if (dims > MAX_DIMS)
		return diag_file(&s->diags, STATUS_LIMIT, NULL, -1, "--shape: %s has more than %d dimensions", text, MAX_DIMS);
	if (!type_addressable(&type))
		return diag_file(&s->diags, STATUS_LIMIT, NULL, -1, "--shape: %s is too large to address", text);
	if (open_extent)
		type.shape.dim[0] = -1;
	*made = type;
	return STATUS_OK;
}

static enum status parse_shapes(struct session *s)
{
	const struct text_list *texts = &s->line.texts[OPTION_SHAPE];
	s->set.shape.shape.ndim = -1;
	s->set.shapes = arena_array(&s->arena, texts->count + 1, sizeof *s->set.shapes);
	TRY_ALLOC(s->set.shapes, &s->diags);
	for (size_t i = 0; i < texts->count; i++) {
		const char *text = texts->items[i], *equals = strchr(text, '=');
		struct input_shape *shape = &s->set.shapes[s->set.shape_count++];
		if (equals)
			TRY_ALLOC(shape->name = arena_strndup(&s->arena, text, (size_t)(equals - text)), &s->diags);
		TRY(parse_type(s, equals ? equals + 1 : text, &shape->type));
		if (!equals)
			s->set.shape = shape->type;
	}
	return STATUS_OK;
}

static enum status parse_missing(struct session *s)
{
	const char *text = s->line.values[OPTION_MISSING];
	if (!text)
		return STATUS_OK;
	if (!number_parse(text, strlen(text), &s->set.missing))
		return usage_error(s, "--missing takes a number, such as nan or 0, not '%s'", text);
	s->set.reading.missing = &s->set.missing;
	return STATUS_OK;
}

/* Says that --format is of reports, if none is asked for and the word is a format of the output too: it may be meant as --to. */
static enum status check_report_format(struct session *s)
{
	const char *value = s->line.values[OPTION_FORMAT];
	const bool *given = s->line.given;
	if (!(s->command->letter & (RUN | GRAD)) || given[OPTION_STATS] || given[OPTION_RESIDUALS] || given[OPTION_DUMP] ||
	    !is_word_of(value, option_words(OPTION_TO, s->command->letter)))
		return STATUS_OK;
	const bool is_report = option_is_word(s, OPTION_FORMAT);
	const enum status status = is_report ? STATUS_OK : STATUS_USAGE;
	const char *message = "--format is of reports, and neither --stats nor --residuals asks for one";
	if (is_report)
		diag_warn(&s->diags, "%s", message);
	else
		usage_error(s, "%s", message);
	return with_hint(s, status, "--to %s is the format of the output", value);
}

/* Sets the options whose value is a word from a list. */
static enum status understand_words(struct session *s)
{
	enum { DOT = REPORT_LINES + 1 };
	int report = REPORT_TABLE, from = FORMAT_AUTO, to = FORMAT_AUTO, color, policies = 0;
	int assume = DTYPE_COUNT, computed = DTYPE_COUNT, store = DTYPE_COUNT;
	TRY(check_report_format(s));
	TRY(choose_word(s, OPTION_FORMAT, REPORT_TABLE, &report));
	TRY(choose_word(s, OPTION_FROM, FORMAT_NPY, &from));
	TRY(choose_word(s, OPTION_TO, FORMAT_NPY, &to));
	TRY(choose_word(s, OPTION_COLOR, 0, &color));
	TRY(choose_word(s, OPTION_POLICIES, 0, &policies));
	s->set.given_policies = policies;
	TRY(choose_word(s, OPTION_ASSUME, DTYPE_F16, &assume));
	TRY(choose_word(s, OPTION_DTYPE, DTYPE_F32, &computed));
	TRY(choose_word(s, OPTION_STORE, DTYPE_F16, &store));
	s->set.dot = report == DOT;
	s->set.format = s->set.dot ? REPORT_TABLE : (enum report_format)report;
	s->set.reading.format = (enum format)from;
	s->set.to = (enum format)to;
	s->set.reading.assume = (enum dtype)assume;
	s->set.dtype = (enum dtype)computed;
	s->set.store = (enum dtype)store;
	if (s->set.dtype == DTYPE_F32 && s->command->letter == CHECK)
		return usage_error(s, "check computes in f64 alone: differences in f32 are too coarse");
	return STATUS_OK;
}

static enum status check_policy(struct session *s, const struct policy *policy)
{
	if (!s->set.max_checkpoints || policy_is(policy, TRAIT_LIMITED))
		return STATUS_OK;
	return with_hint(s, usage_error(s, "policy '%s' takes no --max-checkpoints", policy->text),
	                 "every:N, sqrt, revolve:S, online:S and disk-revolve:S do");
}

/* Adds a hint to the failure of TEXT, if it is a list of policies with commas. Returns STATUS. */
static enum status hint_on_list(struct session *s, enum status status, const char *text)
{
	const size_t first = strcspn(text, ",");
	if (!text[first] || policy_find(text, strcspn(text, ":,")) == POLICY_COUNT)
		return status;
	if (!(s->command->letter & (PLAN | CHECK | PROFILE)))
		return with_hint(s, status, "this command takes one policy; `ckptc plan` compares several");
	return with_hint(s, status, "repeat the option: --policy %.*s --policy %s", (int)first, text, text + first + 1);
}

/*
 * Parses WORDS as policies to LIST. If ONCE, leaves out a policy that an earlier word names, in any spelling. After a
 * failure the last of LIST is the one that is wrong.
 */
static enum status parse_policies(struct session *s, const struct text_list *words, bool once, struct policy_list *list)
{
	list->items = arena_array(&s->arena, words->count + 1, sizeof *list->items);
	TRY_ALLOC(list->items, &s->diags);
	for (size_t i = 0; i < words->count; i++) {
		struct policy *policy = &list->items[list->count++];
		const enum status status = policy_parse(&s->context, policy, words->items[i]);
		if (status)
			return hint_on_list(s, status, words->items[i]);
		policy->max_checkpoints = s->set.max_checkpoints;
		list->on_disk |= policy_is(policy, TRAIT_ON_DISK);
		for (size_t k = 0; once && &list->items[k] < policy; k++)
			if (!strcmp(list->items[k].text, policy->text)) {
				list->count--;
				break;
			}
	}
	return STATUS_OK;
}

static enum status understand_policies(struct session *s)
{
	const bool several = s->command->letter & (PLAN | CHECK | PROFILE);
	struct settings *set = &s->set;
	struct policy_list *policies = &set->policies, *compared = &set->compared;
	TRY(parse_policies(s, &s->line.policies, s->command->letter == PROFILE, policies));
	if (policies->count)
		set->policy = policies->items[0];
	else
		TRY(policy_parse(&s->context, &set->policy, set->memory ? "auto" : "save-all"));
	if (policies->count > 1 && !several)
		return with_hint(
			s,
			usage_error(s, "--policy was given twice; this command takes one (the first was '%s')", set->policy.text),
			"`ckptc plan` compares several; P+Q keeps what either of two policies by value keeps");
	for (size_t i = 0; i < policies->count; i++)
		TRY(check_policy(s, &policies->items[i]));
	set->policy.max_checkpoints = set->max_checkpoints;
	const enum status status = parse_policies(s, &s->line.compared, false, compared);
	if (status && compared->count > 1 && !s->line.file && !s->line.text) /* the second policy was probably the chain */
		diag_hint(&s->diags, "--diff takes two policies: --diff P Q");
	TRY(status);
	if (set->memory && policies->count && set->policy.kind != POLICY_auto)
		return with_hint(
			s, usage_error(s, "--memory chooses the policy itself; --policy '%s' contradicts it", set->policy.text),
			"leave --policy out, or write `--policy budget:%s` in place of --memory", s->line.values[OPTION_MEMORY]);
	const bool keeps_on_disk = policies->on_disk || compared->on_disk || (set->max_checkpoints && !policies->count) ||
	                           (!policies->count && (several || policy_is(&set->policy, TRAIT_ON_DISK)));
	const bool copies = s->command->letter == RUN || (s->command->letter == GRAD && !s->line.given[OPTION_INPUT]) ||
	                    set->reading.format == FORMAT_TEXT || set->reading.format == FORMAT_CSV;
	if (s->line.given[OPTION_SPILL] && !keeps_on_disk && !s->line.given[OPTION_JOURNAL] && !copies)
		diag_warn(&s->diags,
		          "--spill has no effect: only disk-revolve:S, online:S, budget:BYTES and auto keep states on disk");
	return STATUS_OK;
}

enum status options_check_default(struct session *s)
{
	const bool several = s->command->letter & (PLAN | CHECK | PROFILE);
	const bool online = s->chain.has_conditions && s->set.memory; /* auto becomes online:S */
	return s->set.policies.count || several || online ? STATUS_OK : check_policy(s, &s->set.policy);
}

static enum status understand_spill_limit(struct session *s)
{
	const char *limit = s->line.values[OPTION_SPILL_LIMIT];
	if (!limit)
		return STATUS_OK;
	TRY(bytes_parse(limit, &s->set.spill_limit, &s->diags));
	if (s->set.spill_limit <= 0)
		return usage_error(s, "--spill-limit takes at least 1 byte, not '%s'", limit);
	return s->line.given[OPTION_SPILL] ? STATUS_OK : usage_error(s, "--spill-limit needs --spill");
}

static int compare_numbers(const void *left, const void *right)
{
	const int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
	return (a > b) - (a < b);
}

/* Sets the depths of --depths, which are numbers of steps with a comma between two. */
static enum status parse_depths(struct session *s)
{
	const char *text = s->line.values[OPTION_DEPTHS], *at = text;
	struct settings *set = &s->set;
	char *end = NULL;
	for (; at && set->depth_count < MOST_DEPTHS; at = end + 1) {
		const long long steps = begins_number(at) ? strtoll(at, &end, 10) : 0;
		if (steps < 1 || steps > INT64_MAX / 4096 || (*end && *end != ','))
			break;
		set->depths[set->depth_count++] = steps;
		if (!*end) {
			qsort(set->depths, set->depth_count, sizeof *set->depths, compare_numbers);
			return STATUS_OK;
		}
	}
	return !text ? STATUS_OK
	             : usage_error(s, "--depths takes up to %d numbers of steps, such as 10,20,40, not '%s'", MOST_DEPTHS,
	                           text);
}

bool option_needs_residuals(int option)
{
	return option == OPTION_EXPAND || option == OPTION_POLICY || option == OPTION_MEMORY ||
	       option == OPTION_CHECKPOINTS;
}

/* Fails with STATUS_USAGE if an option is about a table of residuals that is not wanted. */
static enum status check_residuals(struct session *s)
{
	const bool *given = s->line.given;
	for (int i = 0; i < OPTION_COUNT; i++) {
		if (!given[i] || given[OPTION_RESIDUALS] || !option_needs_residuals(i))
			continue;
		if (i == OPTION_EXPAND && s->command->letter & (RUN | GRAD))
			return usage_error(s, "--expand needs --residuals, whose table it lists in full");
		if (s->command->letter == RUN && !given[OPTION_DUMP])
			return usage_error(s, "--%s needs --residuals: a forward run keeps nothing", option_name(i));
	}
	return STATUS_OK;
}

static enum status understand_programs(struct session *s)
{
	const char *timeout = s->line.values[OPTION_TIMEOUT];
	int64_t workers = s->set.threads;
	char *end;
	TRY(parse_positive(s, OPTION_WORKERS, 1024, &workers));
	s->set.program_workers = (int)workers;
	if (!timeout)
		return STATUS_OK;
	s->set.program_timeout = strtod(timeout, &end);
	if (!(begins_number(timeout) || *timeout == '.') || *end || !(s->set.program_timeout > 0) ||
	    s->set.program_timeout > 1e9)
		return usage_error(s, "--program-timeout takes a number of seconds above 0, not '%s'", timeout);
	return STATUS_OK;
}

static enum status understand(struct session *s)
{
	const char *memory = s->line.values[OPTION_MEMORY];
	int64_t threads = system_processors();
	struct reader_options *reading = &s->set.reading;
	TRY(understand_words(s));
	TRY(parse_positive(s, OPTION_THREADS, 1024, &threads));
	TRY(parse_positive(s, OPTION_TILE, INT64_MAX / 4096, &s->set.tile));
	TRY(parse_positive(s, OPTION_CHECKPOINTS, INT64_MAX / 4096, &s->set.max_checkpoints));
	TRY(parse_positive(s, OPTION_ITERATIONS, INT64_MAX / 4096, &s->set.iterations));
	s->set.elements = -1;
	TRY(parse_whole(s, OPTION_ELEMENTS, 0, INT64_MAX / 4096, &s->set.elements));
	s->set.threads = (int)threads;
	TRY(understand_programs(s));
	if (memory)
		TRY(bytes_parse(memory, &s->set.memory, &s->diags));
	if (memory && s->set.memory <= 0)
		return usage_error(s, "--memory takes at least 1 byte, not '%s'", memory);
	TRY(understand_spill_limit(s));
	TRY(check_residuals(s));
	TRY(parse_depths(s));
	TRY(understand_policies(s));
	TRY(parse_shapes(s));
	TRY(parse_missing(s));
	TRY(outputs_check(s));
	TRY(outputs_check_read(s));
	reading->cast = s->line.given[OPTION_CAST];
	reading->raw = s->set.shape;
	reading->typed = s->set.shape.shape.ndim >= 0;
	reading->copies = s->command->letter == RUN || s->command->letter == GRAD;
	reading->one_pass = s->line.given[OPTION_ONE_PASS];
	reading->spill = s->line.values[OPTION_SPILL];
	if (reading->typed && reading->assume != DTYPE_COUNT && reading->assume != s->set.shape.dtype)
		return usage_error(s, "--assume-dtype %s contradicts --shape %s", s->line.values[OPTION_ASSUME],
		                   s->line.values[OPTION_SHAPE]);
	return STATUS_OK;
}

void session_choose_color(struct session *s, int argc, char **argv)
{
	const char *terminal = getenv("TERM"), *plain = getenv("NO_COLOR"), *when = "auto";
	for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
		if (!strncmp(argv[i], "--color=", strlen("--color=")))
			when = argv[i] + strlen("--color=");
		else if (!strcmp(argv[i], "--color") && i + 1 < argc)
			when = argv[++i];
	const bool never = !strcmp(when, "never") || (plain && *plain) || (terminal && !strcmp(terminal, "dumb"));
	s->set.color = !strcmp(when, "always") || (isatty(io_standard(2)) && !never);
}

/* Adds a hint, as FILE may have been meant as the input. Returns STATUS. */
static enum status refuse_file(struct session *s, enum status status, const char *file)
{
	if (*file && s->command->letter & DATA)
		diag_hint_command(&s->diags, "arrays come from standard input, or by -i %s", file);
	return status;
}

enum status session_parse(struct session *s, char **argv)
{
	struct command_line *line = &s->line;
	bool options = true;
	for (char **at = argv; *at; at++) {
		const char *text = *at;
		if (options && !strcmp(text, "--"))
			options = false;
		else if (options && !strncmp(text, "--", 2))
			TRY(parse_long(s, text + 2, &at));
		else if (options && text[0] == '-' && text[1])
			TRY(parse_short(s, text + 1, &at));
		else if (line->file)
			return refuse_file(s, usage_error(s, "two chains were given: '%s' and '%s'", line->file, text), text);
		else
			line->file = text;
	}
	if (line->file && line->text)
		return refuse_file(s, usage_error(s, "two chains were given: -e TEXT and '%s'", line->file), line->file);
	return understand(s);
}
