/* The command line: options read, and what they say understood. */
#include "base/bytes.h"
#include "cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/suggest.h"
#include "cli/outputs.h"

const struct option_row option_table[OPTION_COUNT] = {
#define OPTION(ID, NAME, SHORT, ARGUMENT, USE, COMMANDS, HELP) {NAME, SHORT, ARGUMENT, USE, COMMANDS, HELP},
#include "cli/options.def"
};

static enum status usage(struct session *s, const char *what, const char *detail)
{
	diag_file(&s->diags, STATUS_USAGE, NULL, -1, "%s%s", what, detail);
	return STATUS_USAGE;
}

static enum status unknown_option(struct session *s, const char *name, size_t length)
{
	const char *names[OPTION_COUNT];
	size_t count = 0;
	char *copy = arena_strndup(&s->arena, name, length);
	for (int i = 0; i < OPTION_COUNT; i++)
		if (option_table[i].commands & s->command->letter)
			names[count++] = option_table[i].name;
	diag_file(&s->diags, STATUS_USAGE, NULL, -1, "unknown option '--%s'", copy ? copy : "");
	const char *near = copy ? suggest_nearest(copy, names, count) : NULL;
	count = 0;
	for (int i = 0; i < OPTION_COUNT; i++)
		names[count++] = option_table[i].name;
	const char *other = copy && !near ? suggest_nearest(copy, names, count) : NULL;
	if (near)
		diag_hint(&s->diags, "did you mean '--%s'?", near);
	else if (other)
		diag_hint(&s->diags, "did you mean '--%s'? 'ckptc %s' does not take it", other, s->command->name);
	else
		diag_hint(&s->diags, "`ckptc %s --help` lists the options", s->command->name);
	return STATUS_USAGE;
}

static enum status wrong_command(struct session *s, int option)
{
	diag_file(&s->diags, STATUS_USAGE, NULL, -1, "'ckptc %s' takes no option '--%s'", s->command->name,
	          option_table[option].name);
	const char *list = "";
	for (size_t i = 0; i < command_count && list; i++)
		if (option_table[option].commands & command_table[i].letter)
			list = arena_printf(&s->arena, "%s%s%s", list, *list ? ", " : "", command_table[i].name);
	diag_hint(&s->diags, "it belongs to %s", list ? list : "other commands");
	return STATUS_USAGE;
}

static enum status add_text(struct session *s, const char ***list, size_t *count, size_t *capacity, const char *value)
{
	const char **grown = arena_grow(&s->arena, *list, *count, capacity, sizeof *grown);
	if (!grown)
		return diag_memory(&s->diags);
	grown[(*count)++] = value;
	*list = grown;
	return STATUS_OK;
}

static enum status add_param(struct session *s, const char *value)
{
	const char *equals = strchr(value, '=');
	if (!equals || equals == value)
		return usage(s, "--param wants NAME=FILE or NAME=NUMBER, not ", value);
	const size_t length = (size_t)(equals - value);
	for (size_t i = 0; i < s->param_count; i++)
		if (!strncmp(s->params[i].name, value, length) && !s->params[i].name[length])
			return usage(s, "param bound twice: --param ", value);
	struct param_binding *grown = arena_grow(&s->arena, s->params, s->param_count, &s->param_capacity, sizeof *grown);
	char *name = arena_strndup(&s->arena, value, length);
	if (!grown || !name)
		return diag_memory(&s->diags);
	s->params = grown;
	grown[s->param_count++] = (struct param_binding){name, equals + 1};
	return STATUS_OK;
}

/* Whether VALUE names a file to be written without letters: that would fail when others have been written. */
static bool writes_nowhere(int option, const char *value)
{
	const char *equals = option == OPTION_GRAD_OF ? strchr(value, '=') : NULL;
	const char *file = equals ? equals + 1 : value;
	return (option == OPTION_GRAD_OF || (option_table[option].use & WRITTEN)) && file && !*file;
}

static enum status set_option(struct session *s, int option, const char *value)
{
	if (!(option_table[option].commands & s->command->letter))
		return wrong_command(s, option);
	if (s->given[option] && (option_table[option].use & ONCE))
		return diag_file(&s->diags, STATUS_USAGE, NULL, -1, "option '--%s' is given twice: '%s' is another",
		                 option_table[option].name, value);
	if (writes_nowhere(option, value))
		return diag_file(&s->diags, STATUS_USAGE, NULL, -1, "option '--%s' names no file", option_table[option].name);
	s->given[option] = true;
	s->values[option] = value;
	switch (option) {
	case OPTION_TEXT:
		s->text = value;
		return STATUS_OK;
	case OPTION_POLICY:
		return add_text(s, &s->policy_texts, &s->policy_count, &s->policy_capacity, value);
	case OPTION_ONLINE:
		value = arena_printf(&s->arena, "online:%s", value);
		return value ? add_text(s, &s->policy_texts, &s->policy_count, &s->policy_capacity, value)
		             : diag_memory(&s->diags);
	case OPTION_DIFF:
		return add_text(s, &s->compared_texts, &s->compared_count, &s->compared_capacity, value);
	case OPTION_GRAD_OF:
		return add_text(s, &s->grads, &s->grad_count, &s->grad_capacity, value);
	case OPTION_PARAM:
		return add_param(s, value);
	default:
		return STATUS_OK;
	}
}

static enum status parse_long(struct session *s, const char *text, int argc, char **argv, int *i)
{
	size_t length = strcspn(text, "=");
	for (int k = 0; k < OPTION_COUNT; k++) {
		const struct option_row *row = &option_table[k];
		if (strlen(row->name) != length || strncmp(row->name, text, length) != 0)
			continue;
		const char *value = text[length] ? text + length + 1 : NULL;
		if (!*row->argument && value) {
			diag_file(&s->diags, STATUS_USAGE, NULL, -1, "option '--%s' takes no value", row->name);
			return STATUS_USAGE;
		}
		if (*row->argument && row->argument[0] != '[' && !value) {
			if (*i + 1 >= argc) {
				diag_file(&s->diags, STATUS_USAGE, NULL, -1, "option '--%s' wants %s", row->name, row->argument);
				return STATUS_USAGE;
			}
			value = argv[++*i];
		}
		enum status status = set_option(s, k, value);
		/* The one option of two values. */
		if (k != OPTION_DIFF || status)
			return status;
		if (*i + 1 >= argc || argv[*i + 1][0] == '-')
			return usage(s, "option '--diff' wants two policies: --diff ", "P Q");
		return set_option(s, k, argv[++*i]);
	}
	return unknown_option(s, text, length);
}

static enum status parse_short(struct session *s, const char *text, int argc, char **argv, int *i)
{
	for (; *text; text++) {
		int k = 0;
		while (k < OPTION_COUNT && option_table[k].short_name != *text)
			k++;
		if (k == OPTION_COUNT) {
			diag_file(&s->diags, STATUS_USAGE, NULL, -1, "unknown option '-%c'", *text);
			diag_hint(&s->diags, "`ckptc %s --help` lists the options", s->command->name);
			return STATUS_USAGE;
		}
		if (!*option_table[k].argument) {
			enum status status = set_option(s, k, NULL);
			if (status)
				return status;
			continue;
		}
		const char *value = text[1] ? text + 1 : *i + 1 < argc ? argv[++*i] : NULL;
		if (!value) {
			diag_file(&s->diags, STATUS_USAGE, NULL, -1, "option '-%c' wants %s", *text, option_table[k].argument);
			return STATUS_USAGE;
		}
		return set_option(s, k, value);
	}
	return STATUS_OK;
}

/* Values. */

static enum status one_of(struct session *s, int option, const char *const *words, size_t count, size_t *index)
{
	const char *value = s->values[option];
	for (*index = 0; *index < count; ++*index)
		if (!strcmp(words[*index], value))
			return STATUS_OK;
	const char *list = "";
	for (size_t i = 0; i < count && list; i++)
		list = arena_printf(&s->arena, "%s%s%s", list, i == 0 ? "" : i + 1 == count ? " or " : ", ", words[i]);
	diag_file(&s->diags, STATUS_USAGE, NULL, -1, "option '--%s' is %s, not '%s'", option_table[option].name,
	          list ? list : "", value);
	return STATUS_USAGE;
}

/* What strtoll takes with neither space nor sign before it. */
static bool begins_number(const char *text) { return *text >= '0' && *text <= '9'; }

static enum status positive(struct session *s, int option, int64_t most, int64_t *value)
{
	if (!s->given[option])
		return STATUS_OK;
	char *end;
	errno = 0;
	long long number = strtoll(s->values[option], &end, 10);
	if (errno || !begins_number(s->values[option]) || *end || number < 1 || number > most) {
		diag_file(&s->diags, STATUS_USAGE, NULL, -1, "option '--%s' is a whole number from 1 to %lld, not '%s'",
		          option_table[option].name, (long long)most, s->values[option]);
		return STATUS_USAGE;
	}
	*value = number;
	return STATUS_OK;
}

static enum status parse_shape(struct session *s)
{
	s->shape.shape.ndim = -1;
	if (!s->given[OPTION_SHAPE])
		return STATUS_OK;
	const char *text = s->values[OPTION_SHAPE];
	const char *open = strchr(text, '[');
	struct type type = {.dtype = open ? dtype_find(text, (size_t)(open - text)) : DTYPE_COUNT};
	const char *p = open ? open + 1 : text;
	bool good = type.dtype < DTYPE_BITS;
	int dims = 0;
	for (; good && (*p != ']' || p[-1] == ','); dims++) {
		char *end;
		p += strspn(p, " ");
		const long long extent = strtoll(p, &end, 10); /* the largest where it is beyond that, which no array has */
		end += strspn(end, " ");
		good = begins_number(p) && (*end == ',' || *end == ']');
		if (good && dims < MAX_DIMS)
			type.shape.dim[type.shape.ndim++] = extent;
		p = good && *end == ',' ? end + 1 : end;
	}
	good = good && !p[1];
	if (good && dims > MAX_DIMS)
		return diag_file(&s->diags, STATUS_LIMIT, NULL, -1, "option '--shape': more than %d dimensions", MAX_DIMS);
	if (good && !type_addressable(&type))
		return diag_file(&s->diags, STATUS_LIMIT, NULL, -1, "option '--shape': %s is too large to address", text);
	if (!good) {
		(void)usage(s, "option '--shape' is a type such as f32[64,256] or f64[], not ", text);
		if (strchr(text, '*'))
			diag_hint(&s->diags, "give a number for each *: plans and raw data are of arrays whose shape is known");
		return STATUS_USAGE;
	}
	s->shape = type;
	return STATUS_OK;
}

static enum status understand_words(struct session *s)
{
	static const char *const formats[] = {"table", "json", "csv", "lines", "dot"};
	static const char *const arrays[] = {"npy", "text", "csv", "raw"};
	static const enum format array_formats[] = {FORMAT_NPY, FORMAT_TEXT, FORMAT_CSV, FORMAT_RAW};
	static const char *const assumed[] = {"f16", "bf16", "f32", "f64"};
	static const char *const computed[] = {"f32", "f64"};
	static const char *const stored[] = {"f16", "bf16"};
	static const char *const when[] = {"auto", "always", "never"};
	size_t i;
	enum status status = STATUS_OK;
	s->reading.assume = s->dtype = s->store = DTYPE_COUNT;
	const size_t known = s->command->letter == EXPLAIN ? 5 : 4;
	if (s->given[OPTION_FORMAT] && !(status = one_of(s, OPTION_FORMAT, formats, known, &i))) {
		s->dot = i == 4;
		s->format = s->dot ? REPORT_TABLE : (enum report_format)i;
	}
	if (!status && s->given[OPTION_FROM] && !(status = one_of(s, OPTION_FROM, arrays, 4, &i)))
		s->reading.format = array_formats[i];
	if (!status && s->given[OPTION_TO] && !(status = one_of(s, OPTION_TO, arrays, 4, &i)))
		s->to = array_formats[i];
	if (!status && s->given[OPTION_ASSUME] && !(status = one_of(s, OPTION_ASSUME, assumed, 4, &i)))
		s->reading.assume = dtype_find(assumed[i], strlen(assumed[i]));
	if (!status && s->given[OPTION_DTYPE] && !(status = one_of(s, OPTION_DTYPE, computed, 2, &i)))
		s->dtype = i ? DTYPE_F64 : DTYPE_F32;
	if (!status && s->dtype == DTYPE_F32 && s->command->letter == CHECK)
		status = usage(s, "check computes in f64: differences say little in ", "f32");
	if (!status && s->given[OPTION_STORE] && !(status = one_of(s, OPTION_STORE, stored, 2, &i)))
		s->store = i ? DTYPE_BF16 : DTYPE_F16;
	if (!status && s->given[OPTION_COLOR])
		status = one_of(s, OPTION_COLOR, when, 3, &i);
	return status;
}

/* What each of the policies that are asked for must fit: where none is, plan and others take several. */
static enum status check_policy(struct session *s, const struct policy *policy)
{
	if (!s->max_checkpoints || policy_is(policy, TRAIT_LIMITED))
		return STATUS_OK;
	diag_file(&s->diags, STATUS_USAGE, NULL, -1, "policy '%s' takes no --max-checkpoints", policy->text);
	diag_hint(&s->diags, "every:N, sqrt, revolve:S, online:S and disk-revolve:S do");
	return STATUS_USAGE;
}

static enum status understand_policies(struct session *s)
{
	const bool several = s->command->letter & (PLAN | CHECK | PROFILE);
	const char *text = s->policy_count ? s->policy_texts[0] : s->memory ? "auto" : "save-all";
	const struct context context = session_context(s);
	enum status status = policy_parse(&context, &s->policy, text);
	s->policies = arena_array(&s->arena, s->policy_count + 1, sizeof *s->policies);
	s->compared = arena_array(&s->arena, s->compared_count + 1, sizeof *s->compared);
	if (!s->policies || !s->compared)
		return diag_memory(&s->diags);
	bool spilled = !s->policy_count && (several || policy_is(&s->policy, TRAIT_ON_DISK));
	if (!status && s->policy_count > 1 && !several) {
		diag_file(&s->diags, STATUS_USAGE, NULL, -1, "one policy is wanted, and this is another: %s",
		          s->policy_texts[1]);
		diag_hint(&s->diags, "`ckptc plan` compares several; P+Q is either of two by value");
		return STATUS_USAGE;
	}
	for (size_t i = 0; i < s->policy_count && !status; i++) {
		struct policy *policy = &s->policies[i];
		status = policy_parse(&context, policy, s->policy_texts[i]);
		spilled |= policy_is(policy, TRAIT_ON_DISK);
		if (!status)
			status = check_policy(s, policy);
		policy->max_checkpoints = s->max_checkpoints;
	}
	if (!status && !s->policy_count && !several)
		status = check_policy(s, &s->policy);
	s->policy.max_checkpoints = s->max_checkpoints;
	for (size_t i = 0; i < s->compared_count && !status; i++) {
		status = policy_parse(&context, &s->compared[i], s->compared_texts[i]);
		spilled |= policy_is(&s->compared[i], TRAIT_ON_DISK);
		if (status && i && !s->file && !s->text) /* what stands there is the chain */
			diag_hint(&s->diags, "option '--diff' wants two policies: --diff P Q");
	}
	if (!status && s->memory && s->policy_count && s->policy.kind != POLICY_auto)
		status = usage(s, "--memory chooses the policy itself: give it with no policy or with ", "--policy auto");
	if (!status && s->given[OPTION_SPILL] && !spilled && !s->given[OPTION_JOURNAL])
		diag_warn(&s->diags,
		          "nothing is spilled: of the policies disk-revolve:S, budget:BYTES and auto keep states on disk");
	return status;
}

static enum status understand(struct session *s)
{
	enum status status = understand_words(s);
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	int64_t threads = cores > 0 ? cores : 1;
	if (!status)
		status = positive(s, OPTION_THREADS, 1024, &threads);
	if (!status)
		status = positive(s, OPTION_TILE, INT64_MAX / 4096, &s->tile);
	if (!status)
		status = positive(s, OPTION_CHECKPOINTS, INT64_MAX / 4096, &s->max_checkpoints);
	s->threads = (int)threads;
	if (!status && s->given[OPTION_MEMORY])
		status = bytes_parse(s->values[OPTION_MEMORY], &s->memory, &s->diags);
	if (!status && s->given[OPTION_MEMORY] && s->memory < 1)
		status = usage(s, "option '--memory' needs at least 1 byte, not ", s->values[OPTION_MEMORY]);
	if (!status)
		status = understand_policies(s);
	if (!status)
		status = parse_shape(s);
	if (!status)
		status = outputs_check(s);
	s->reading.cast = s->given[OPTION_CAST];
	s->reading.raw = s->shape;
	s->reading.typed = s->given[OPTION_SHAPE];
	if (!status && s->given[OPTION_SHAPE] && s->reading.assume != DTYPE_COUNT && s->reading.assume != s->shape.dtype)
		status = usage(s, "--assume-dtype says another type than --shape ", s->values[OPTION_SHAPE]);
	return status;
}

/* FILE, which is too much, may be meant as the input. */
static enum status refuse_file(struct session *s, const char *message, const char *file)
{
	enum status status = usage(s, message, file);
	if (*file && s->command->letter & DATA)
		diag_hint(&s->diags, "arrays come from standard input, or by -i %s", file);
	return status;
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
	s->color = !strcmp(when, "always") || (isatty(2) && !never);
}

enum status session_parse(struct session *s, int argc, char **argv)
{
	bool words = false;
	for (int i = 0; i < argc; i++) {
		enum status status = STATUS_OK;
		const char *text = argv[i];
		if (!words && !strcmp(text, "--"))
			words = true;
		else if (!words && !strncmp(text, "--", 2))
			status = parse_long(s, text + 2, argc, argv, &i);
		else if (!words && text[0] == '-' && text[1])
			status = parse_short(s, text + 1, argc, argv, &i);
		else if (s->file)
			status = refuse_file(s, "one chain is wanted, and this is another: ", text);
		else
			s->file = text;
		if (status)
			return status;
	}
	if (s->file && s->text)
		return refuse_file(s, "the chain is given twice: by -e and as the file ", s->file);
	return understand(s);
}
