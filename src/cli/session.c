/* Options understood, files opened: the part that all commands share. */
#include "cli/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "cli/outputs.h"
#include "exec/run.h"

const struct option_row option_table[OPTION_COUNT] = {
#define OPTION(ID, NAME, SHORT, ARGUMENT, USE, COMMANDS, HELP) {NAME, SHORT, ARGUMENT, USE, COMMANDS, HELP},
#include "cli/options.def"
};

static enum status usage(struct session *s, const char *what, const char *detail)
{
	diag_file(&s->diags, STATUS_USAGE, NULL, -1, "%s%s", what, detail);
	return STATUS_USAGE;
}

/* Options. */

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
	struct param_binding *grown = arena_grow(&s->arena, s->params, s->param_count, &s->param_capacity, sizeof *grown);
	char *name = arena_strndup(&s->arena, value, (size_t)(equals - value));
	if (!grown || !name)
		return diag_memory(&s->diags);
	s->params = grown;
	grown[s->param_count++] = (struct param_binding){name, equals + 1};
	return STATUS_OK;
}

static enum status set_option(struct session *s, int option, const char *value)
{
	if (!(option_table[option].commands & s->command->letter))
		return wrong_command(s, option);
	if (s->given[option] && (option_table[option].use & ONCE))
		return diag_file(&s->diags, STATUS_USAGE, NULL, -1, "option '--%s' is given twice: '%s' is another",
		                 option_table[option].name, value);
	s->given[option] = true;
	s->values[option] = value;
	switch (option) {
	case OPTION_TEXT:
		s->text = value;
		return STATUS_OK;
	case OPTION_POLICY:
		return add_text(s, &s->policies, &s->policy_count, &s->policy_capacity, value);
	case OPTION_ONLINE:
		value = arena_printf(&s->arena, "online:%s", value);
		return value ? add_text(s, &s->policies, &s->policy_count, &s->policy_capacity, value) : diag_memory(&s->diags);
	case OPTION_DIFF:
		return add_text(s, &s->compared, &s->compared_count, &s->compared_capacity, value);
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
	bool good = type.dtype < DTYPE_BITS, large = false;
	int dims = 0;
	for (; good && (*p != ']' || p[-1] == ','); dims++) {
		char *end;
		p += strspn(p, " ");
		errno = 0;
		long long extent = strtoll(p, &end, 10);
		large |= errno == ERANGE;
		good = begins_number(p) && (*end == ',' || *end == ']');
		if (good && dims < MAX_DIMS)
			type.shape.dim[type.shape.ndim++] = extent;
		p = good && *end == ',' ? end + 1 : end;
	}
	good = good && !p[1];
	if (good && dims > MAX_DIMS)
		return diag_file(&s->diags, STATUS_LIMIT, NULL, -1, "option '--shape': more than %d dimensions", MAX_DIMS);
	if (good && (large || !type_addressable(&type)))
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
	const char *terminal = getenv("TERM"), *plain = getenv("NO_COLOR");
	s->color = isatty(2) && !(plain && *plain) && !(terminal && !strcmp(terminal, "dumb"));
	if (!status && s->given[OPTION_COLOR] && !(status = one_of(s, OPTION_COLOR, when, 3, &i)) && i)
		s->color = i == 1;
	return status;
}

/* What each of the policies that are asked for must fit: where none is, plan and others take several. */
static enum status check_policy(struct session *s, const struct policy *policy)
{
	if (!s->max_checkpoints || policy_takes_most(policy))
		return STATUS_OK;
	diag_file(&s->diags, STATUS_USAGE, NULL, -1, "policy '%s' takes no --max-checkpoints", policy->text);
	diag_hint(&s->diags, "every:N, sqrt, revolve:S, online:S and disk-revolve:S do");
	return STATUS_USAGE;
}

/* Whether it may keep states on disk. */
static bool takes_disk(const struct policy *policy)
{
	return policy->kind == POLICY_disk_revolve || policy->kind == POLICY_budget || policy->kind == POLICY_auto;
}

static enum status understand_policies(struct session *s)
{
	const bool several = s->command->letter & (PLAN | CHECK | PROFILE);
	const char *text = s->policy_count ? s->policies[0] : s->memory ? "auto" : "save-all";
	enum status status = policy_parse(&s->policy, text, &s->arena, &s->diags);
	bool spilled = !s->policy_count && (several || takes_disk(&s->policy));
	if (!status && s->policy_count > 1 && !several) {
		diag_file(&s->diags, STATUS_USAGE, NULL, -1, "one policy is wanted, and this is another: %s", s->policies[1]);
		diag_hint(&s->diags, "`ckptc plan` compares several; P+Q is either of two by value");
		return STATUS_USAGE;
	}
	for (size_t i = 0; i < s->policy_count && !status; i++) {
		struct policy policy;
		status = policy_parse(&policy, s->policies[i], &s->arena, &s->diags);
		spilled |= takes_disk(&policy);
		if (!status)
			status = check_policy(s, &policy);
	}
	if (!status && !s->policy_count && !several)
		status = check_policy(s, &s->policy);
	s->policy.max_checkpoints = s->max_checkpoints;
	for (size_t i = 0; i < s->compared_count && !status; i++) {
		struct policy policy;
		status = policy_parse(&policy, s->compared[i], &s->arena, &s->diags);
		spilled |= takes_disk(&policy);
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
			status = usage(s, "one chain is wanted, and this is another: ", text);
		else
			s->file = text;
		if (status)
			return status;
	}
	if (s->file && s->text)
		return usage(s, "the chain is given twice: by -e and as the file ", s->file);
	return understand(s);
}

int64_t session_memory_available(void)
{
	long long kib = 0;
	char line[128];
	FILE *file = fopen("/proc/meminfo", "re");
	while (file && fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %lld kB", &kib) != 1)
		continue;
	if (file)
		fclose(file);
	long pages = sysconf(_SC_AVPHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	return kib > 0 ? kib << 10 : pages > 0 ? (int64_t)pages * size : 0;
}

size_t session_memory_most(void)
{
	struct sysinfo info;
	if (sysinfo(&info) != 0)
		return SIZE_MAX;
	const double bytes = ((double)info.totalram * 7 / 8 + (double)info.totalswap) * (double)info.mem_unit;
	return bytes < (double)SIZE_MAX ? (size_t)bytes : SIZE_MAX;
}

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
	if (!data)
		return diag_memory(&s->diags);
	*text = data;
	*length = used;
	return status;
}

/* A name that no file has, but that reads as a chain, was meant to be one. */
static void hint_text(struct session *s)
{
	const struct source source = {s->file, s->file, strlen(s->file)};
	struct syntax syntax;
	struct diags told;
	diags_init(&told, &s->arena);
	if (access(s->file, F_OK) == 0 || syntax_parse(&syntax, &source, &s->arena, &told))
		return;
	diag_hint(&s->diags, "a chain that is no file is given with -e, as in: ckptc %s -e '%s'", s->command->name,
	          s->file);
}

enum status session_load_syntax(struct session *s)
{
	s->directory = ".";
	if (s->text) {
		s->source = (struct source){"<command-line>", s->text, strlen(s->text)};
	} else if (s->file) {
		char *text = NULL;
		size_t length = 0;
		enum status status = session_read_file(s, s->file, &text, &length);
		if (status) {
			hint_text(s);
			return status;
		}
		const char *slash = strrchr(s->file, '/');
		if (slash)
			s->directory = slash == s->file ? "/" : arena_strndup(&s->arena, s->file, (size_t)(slash - s->file));
		s->source = (struct source){strcmp(s->file, "-") ? s->file : "<stdin>", text, length};
	} else {
		diag_file(&s->diags, STATUS_USAGE, NULL, -1, "no chain");
		diag_hint(&s->diags, "give a file, or the chain itself with -e, as in: ckptc %s -e 'add 1; sin'",
		          s->command->name);
		return STATUS_USAGE;
	}
	return syntax_parse(&s->syntax, &s->source, &s->arena, &s->diags);
}

/* The first name in POLICY that no value of the chain has; NULL: all are known. */
static const char *unknown_name(const struct session *s, const struct policy *policy)
{
	if (policy->left) {
		const char *name = unknown_name(s, policy->left);
		return name ? name : unknown_name(s, policy->right);
	}
	for (size_t i = 0; i < policy->name_count; i++) {
		bool known = false;
		for (size_t k = 0; k < s->chain.name_count; k++)
			known |= !strcmp(s->chain.names[k], policy->names[i]);
		if (!known)
			return policy->names[i];
	}
	return NULL;
}

static void hint_name(struct session *s, const char *name)
{
	const char *near = suggest_nearest(name, s->chain.names, s->chain.name_count);
	if (near)
		diag_hint(&s->diags, "did you mean '%s'?", near);
	else
		diag_hint(&s->diags, "a stage `name %s` gives the current value that name", name);
}

enum status check_policy_names(struct session *s, const struct policy *policy)
{
	const char *name = unknown_name(s, policy);
	if (!name)
		return STATUS_OK;
	diag_file(&s->diags, STATUS_USAGE, NULL, -1, "policy '%s': no value of the chain is named '%s'", policy->text,
	          name);
	hint_name(s, name);
	return STATUS_USAGE;
}

/* Policies of checkpoint blocks, which a forward run would never look at. */
static enum status check_blocks(struct session *s)
{
	for (size_t i = 0; i < s->chain.block_policy_count; i++) {
		const struct block_policy *block = &s->chain.block_policies[i];
		struct policy policy;
		enum status status =
			policy_parse_block(&policy, block->text, s->chain.source, block->span, &s->arena, &s->diags);
		if (status)
			return status;
		const char *name = unknown_name(s, &policy);
		if (!name)
			continue;
		diag_at(&s->diags, STATUS_CHAIN, s->chain.source, block->span, "no value of the chain is named '%s'", name);
		hint_name(s, name);
		return STATUS_CHAIN;
	}
	return STATUS_OK;
}

enum status session_load_chain(struct session *s)
{
	enum status status = session_load_syntax(s);
	if (!status)
		status = chain_resolve(&s->chain, &s->syntax, &s->arena, &s->diags);
	return status ? status : check_blocks(s);
}

/* Arrays. */

enum status session_open_input(struct session *s)
{
	enum status status = input_open(&s->input, s->values[OPTION_INPUT], false, &s->arena, &s->diags);
	if (status)
		return status;
	s->input_open = true;
	reader_init(&s->reader, &s->input, &s->reading, &s->arena);
	if (s->chain.input_type.given)
		reader_declare(&s->reader, s->chain.input_type.type.dtype);
	return STATUS_OK;
}

enum status session_end_input(struct session *s)
{
	bool end;
	enum status status = reader_next(&s->reader, &end, &s->diags);
	if (!status && !end)
		diag_warn(&s->diags, "the input holds several arrays: 'ckptc %s' takes the first", s->command->name);
	return status;
}

enum status session_open_costs(struct session *s)
{
	static const char *const words[] = {"table", "measured"};
	const char *value = s->values[OPTION_COSTS];
	if (!value || !strcmp(value, words[0]))
		return STATUS_OK;
	struct costs_source *costs = arena_alloc(&s->arena, sizeof *costs);
	struct source *source = arena_alloc(&s->arena, sizeof *source);
	struct spec *spec = arena_alloc(&s->arena, sizeof *spec);
	if (!costs || !source || !spec)
		return diag_memory(&s->diags);
	*costs = (struct costs_source){.name = value, .threads = s->threads, .allocator = s->allocator, .arena = &s->arena};
	s->costs = costs;
	if (!strcmp(value, words[1]))
		return s->given[OPTION_SPILL] ? costs_measure_disk(costs, s->values[OPTION_SPILL], &s->diags) : STATUS_OK;
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
	const double tiles = job->tiled ? (double)job->rows / (double)job->tile.rows : 1;
	return 1e-6 * all * tiles / job->lanes;
}

enum status session_bind(struct session *s, bool data, enum dtype compute)
{
	const struct params_options options = {.directory = s->directory,
	                                       .special = s->given[OPTION_SPECIAL],
	                                       .cast = s->given[OPTION_CAST],
	                                       .data = data,
	                                       .compute = compute,
	                                       .dtype = s->dtype};
	return params_bind(&s->bound, &s->chain, s->params, s->param_count, &options, s->allocator, &s->arena, &s->diags);
}

/* Whether the declaration says every extent. */
static bool declared_whole(const struct declared *declared)
{
	for (int i = 0; i < declared->type.shape.ndim; i++)
		if (declared->type.shape.dim[i] < 0)
			return false;
	return declared->given;
}

static enum status input_type(struct session *s, struct type *type)
{
	if (s->given[OPTION_SHAPE] && !s->given[OPTION_INPUT]) {
		*type = s->shape;
	} else if (!s->given[OPTION_INPUT] && declared_whole(&s->chain.input_type)) {
		*type = s->chain.input_type.type;
	} else {
		if (!s->given[OPTION_INPUT] && isatty(0)) {
			diag_file(&s->diags, STATUS_USAGE, NULL, -1, "the type of the input is not known");
			diag_hint(&s->diags,
			          "give --shape f32[64,256], declare it in the chain (input x: f32[64,256]), or pipe the data in");
			return STATUS_USAGE;
		}
		bool end;
		enum status status = session_open_input(s);
		if (!status)
			status = reader_next(&s->reader, &end, &s->diags);
		if (status == STATUS_DATA && !s->given[OPTION_INPUT] && s->input.eof &&
		    s->input.offset + (int64_t)s->input.end == 0)
			diag_hint(&s->diags, "where there is no data, give its type: --shape f32[64,256]");
		if (status)
			return status;
		*type = s->reader.type;
	}
	*type = run_input_type(&s->chain, type, s->dtype);
	return STATUS_OK;
}

enum status session_bind_types(struct session *s, struct type *type)
{
	enum status status = input_type(s, type);
	return status ? status : session_bind(s, false, dtype_compute(type->dtype));
}

void session_warn_unassumed(struct session *s)
{
	bool used = !s->given[OPTION_ASSUME] || s->reader.assumed;
	for (size_t i = 0; i < s->chain.param_count; i++)
		used |= s->chain.params[i].type.dtype == s->reading.assume; /* perhaps of a |V2 */
	if (used)
		return;
	diag_warn(&s->diags, "--assume-dtype %s has no effect: it says what raw input, or npy of type |V2, holds",
	          dtype_name(s->reading.assume));
}

enum status session_open_output(struct session *s, const char *path)
{
	enum status status = output_open(&s->output, path, &s->arena, &s->diags);
	s->output_open = status == STATUS_OK;
	return status;
}

void session_make_writer(struct session *s, struct writer *writer, struct output *output)
{
	bool terminal = isatty(output->fd);
	struct writer_options options = {.format = s->to != FORMAT_AUTO ? s->to : s->reader.format,
	                                 .layout = s->reader.layout,
	                                 .display = s->to == FORMAT_AUTO && terminal};
	if (options.display)
		options.format = FORMAT_TEXT;
	writer_init(writer, output, &options, &s->arena);
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
	if (!file->buffer)
		return diag_memory(&s->diags);
	file->text = (struct text){write_text, file};
	if (path || !error)
		return output_open(&file->output, path, &s->arena, &s->diags);
	file->output = (struct output){.fd = 2, .name = "<stderr>", .arena = &s->arena};
	return STATUS_OK;
}

enum status session_close_text(struct text_file *file)
{
	flush_text(file);
	if (!file->status)
		return output_commit(&file->output, &file->session->diags);
	output_abort(&file->output);
	return file->status;
}

void session_close(struct session *s)
{
	if (s->input_open) {
		reader_free(&s->reader);
		input_close(&s->input);
	}
	if (s->output_open)
		output_abort(&s->output);
	params_free(&s->bound);
	arena_free(&s->arena);
}

/* Help. */

static void put_option(const struct text *text, const struct option_row *row)
{
	char left[64];
	bool optional = row->argument[0] == '[';
	snprintf(left, sizeof left, "%c%c%s--%s%s%s", row->short_name ? '-' : ' ', row->short_name ? row->short_name : ' ',
	         row->short_name ? ", " : "  ", row->name, *row->argument && !optional ? " " : "", row->argument);
	text_printf(text, "  %-28s %s\n", left, row->help);
}

static void put_policies(const struct text *text)
{
	text_put(text, "\nPolicies:\n");
	for (int i = 0; i < POLICY_COUNT; i++) {
		char left[64];
		if (!policy_table[i].name || !*policy_table[i].name)
			continue;
		snprintf(left, sizeof left, "%s%s%s", policy_table[i].name, policy_table[i].argument ? ":" : "",
		         policy_table[i].argument ? policy_table[i].argument : "");
		text_printf(text, "  %-28s %s\n", left, policy_table[i].doc);
	}
}

enum status print_help(struct session *s, const struct command *command)
{
	struct text_file file;
	enum status status = session_open_text(s, &file, NULL, false);
	if (status)
		return status;
	const struct text *text = &file.text;
	if (command) {
		text_printf(text, "Usage: ckptc %s %s\n%s\n\nOptions:\n", command->name, command->usage, command->summary);
		for (int i = 0; i < OPTION_COUNT; i++)
			if (option_table[i].commands & command->letter)
				put_option(text, &option_table[i]);
		if (command->letter & BACKWARDS)
			put_policies(text);
	} else {
		text_put(text, "Usage: ckptc COMMAND [OPTIONS] [CHAIN]\n\n"
		               "Runs chains of array operations forward and backward, streaming, with the\n"
		               "checkpoints that a policy keeps; shows and plans what is kept.\n\nCommands:\n");
		for (size_t i = 0; i < command_count; i++)
			text_printf(text, "  %-10s %s\n", command_table[i].name, command_table[i].summary);
		text_put(text,
		         "\nCHAIN is a file, or -e TEXT:\n"
		         "  echo 1 2 | ckptc run -e 'add 1; mul 2; sub 3'\n"
		         "  ckptc grad --policy every:4 chain.ck < data.npy > gradient.npy\n"
		         "  ckptc residuals --shape 'f32[4]' -e 'repeat 8 { sin }'\n"
		         "\n`ckptc help COMMAND` and `ckptc help OPERATION` say more; see also ckptc(1) and ckptc-chain(5).\n");
	}
	return session_close_text(&file);
}

enum status print_op_help(struct session *s, enum op op)
{
	const struct op_info *info = &op_table[op];
	struct text_file file;
	enum status status = session_open_text(s, &file, NULL, false);
	if (status)
		return status;
	const char *kept[MAX_NEEDS];
	const size_t count = op_kept_names(op, kept);
	const bool axis = strstr(info->arguments, "axis=") || strstr(info->arguments, "axes=");
	text_printf(&file.text, "%s%s%s%s\n    %s\n    group: %s\n    reach: %s%s\n    keeps: %s", info->name,
	            info->operands ? " a" : "", *info->arguments ? " " : "", info->arguments, info->doc, info->group,
	            op_reach(op), axis && info->scope == SCOPE_ROW ? " (all along the first axis)" : "",
	            count ? kept[0] : "nothing");
	for (size_t i = 1; i < count; i++)
		text_printf(&file.text, ", %s", kept[i]);
	text_put(&file.text, "\n");
	return session_close_text(&file);
}

enum status print_options(struct session *s)
{
	struct text_file file;
	enum status status = session_open_text(s, &file, NULL, false);
	if (status)
		return status;
	for (size_t c = 0; c < command_count; c++) {
		text_printf(&file.text, "command\t%s\t%s\n", command_table[c].name, command_table[c].summary);
		for (int i = 0; i < OPTION_COUNT; i++)
			if (option_table[i].commands & command_table[c].letter)
				text_printf(&file.text, "option\t%s\t--%s\t%s\t%s\n", command_table[c].name, option_table[i].name,
				            option_table[i].argument, option_table[i].help);
	}
	for (int i = 0; i < POLICY_COUNT; i++)
		if (policy_table[i].name && *policy_table[i].name)
			text_printf(&file.text, "policy\t%s%s\t%s\n", policy_table[i].name, policy_table[i].argument ? ":" : "",
			            policy_table[i].doc);
	return session_close_text(&file);
}
