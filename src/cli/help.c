/*
 * Help texts, made from the tables of commands, options, policies and operations. Help on a topic is sections of the manual:
 * the build makes one string of the pages (man/make-pages), where a section begins with "\f<page>\t<title>\n".
 * Tests: tests/cases/cli.test, tests/scripts/check-manual
 */
#include "cli/session.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

static void put_option(const struct text *text, const struct option_row *row, const char *help)
{
	char left[64], letter[8] = "    ";
	if (row->short_name)
		snprintf(letter, sizeof letter, "-%c, ", row->short_name);
	snprintf(left, sizeof left, "%s--%s%s%s", letter, row->name, *row->argument && *row->argument != '[' ? " " : "",
	         row->argument);
	text_printf(text, "  %-28s %s\n", left, help);
}

enum status help_print(struct session *s, const struct command *command)
{
	struct text_file *file;
	TRY(session_open_text(s, &file, NULL, false));
	const struct text *text = &file->text;
	if (command) {
		text_printf(text, "Usage: ckptc %s [OPTIONS]%s\n%s\n\nOptions:\n", command->name,
		            command->letter & CHAINS   ? " CHAIN"
		            : command->letter & IMPORT ? " MODEL.onnx"
		                                       : "",
		            command->summary);
		for (int i = 0; i < OPTION_COUNT; i++)
			if (option_table[i].commands & command->letter)
				put_option(text, &option_table[i],
				           i == OPTION_OUTPUT && command->letter & IMPORT
				               ? "the folder FILE gets model.ck and model.safetensors; else it is named after the model"
				               : option_table[i].help);
		const bool backwards = command->letter & BACKWARDS;
		text_put(text, backwards ? "\nPolicies:\n" : "");
		for (int i = 0; i < POLICY_COUNT && backwards; i++) {
			const struct policy_info *row = &policy_table[i];
			char left[64];
			snprintf(left, sizeof left, "%s%s%s", row->name, row->argument ? ":" : "",
			         row->argument ? row->argument : "");
			if (row->name && *row->name)
				text_printf(text, "  %-28s %s\n", left, row->doc);
		}
	} else {
		text_put(text, "Usage: ckptc COMMAND [OPTIONS] [CHAIN]\n\n"
		               "Runs chains of array operations forward and backward, streaming, with the\n"
		               "checkpoints that a policy keeps; shows and plans what is kept.\n\nCommands:\n");
		for (size_t i = 0; i < command_count; i++)
			text_printf(text, "  %-10s %s\n", command_table[i].name, command_table[i].summary);
		text_put(
			text,
			"\nCHAIN is a file, or -e TEXT:\n"
			"  echo 1 2 | ckptc run -e 'add 1; mul 2; sub 3'\n"
			"  ckptc grad --policy every:4 chain.ck < data.npy > gradient.npy\n"
			"  ckptc residuals --shape 'f32[4]' -e 'repeat 8 { sin }'\n"
			"\n`ckptc help WORD` says more of a command, an operation, a statement, or a topic such as tiles, csv\n"
			"or budgets (`ckptc help topics`); see also ckptc(1) and ckptc-chain(5).\n");
	}
	return session_close_text(file);
}

enum status help_print_op(struct session *s, enum op op)
{
	const struct op_info *info = &op_table[op];
	struct text_file *file;
	TRY(session_open_text(s, &file, NULL, false));
	const char *kept[MAX_NEEDS];
	const size_t count = op_kept_names(op, kept);
	const bool axis = strstr(info->arguments, "axis=") || strstr(info->arguments, "axes=");
	char usage[OP_USAGE];
	text_printf(&file->text, "%s\n    %s\n    group: %s\n    reach: %s%s\n    keeps: %s", op_usage(op, usage),
	            info->doc, info->group, op_reach(op),
	            axis && info->scope == SCOPE_ROW ? " (all along the first axis)" : "", count ? kept[0] : "nothing");
	for (size_t i = 1; i < count; i++)
		text_printf(&file->text, ", %s", kept[i]);
	text_put(&file->text, "\n");
	return session_close_text(file);
}

enum status help_print_statement(struct session *s, enum statement_kind kind)
{
	const struct statement_info *info = &statement_table[kind];
	struct text_file *file;
	TRY(session_open_text(s, &file, NULL, false));
	text_printf(&file->text, "%s\n    %s\n    as in: %s\n    see: ckptc-chain(5)\n", info->form, info->doc,
	            info->example);
	return session_close_text(file);
}

/* Writes a line for each word that OPTION takes with COMMAND. */
static void put_choices(const struct text *text, const struct command *command, int option)
{
	for (const char *at = option_words(option, command->letter); *at;) {
		const size_t length = strcspn(at, " ");
		text_printf(text, "value\t%s\t--%s\t%.*s\n", command->name, option_table[option].name, (int)length, at);
		at += length + (at[length] == ' ');
	}
}

enum status help_print_options(struct session *s)
{
	struct text_file *file;
	TRY(session_open_text(s, &file, NULL, false));
	for (size_t c = 0; c < command_count; c++) {
		text_printf(&file->text, "command\t%s\t%s\n", command_table[c].name, command_table[c].summary);
		for (int i = 0; i < OPTION_COUNT; i++) {
			const struct option_row *row = &option_table[i];
			if (!(row->commands & command_table[c].letter))
				continue;
			const char letter[] = {row->short_name, '\0'};
			text_printf(&file->text, "option\t%s\t--%s\t%s\t%s\t%s\n", command_table[c].name, row->name, row->argument,
			            row->help, letter);
			put_choices(&file->text, &command_table[c], i);
		}
	}
	for (int i = 0; i < OP_LISTED; i++)
		text_printf(&file->text, "op\t%s\t%s\n", op_table[op_list[i]].name, op_table[op_list[i]].doc);
	for (int kind = 0; kind < STATEMENT_COUNT; kind++)
		if (kind != STATEMENT_STAGE)
			text_printf(&file->text, "statement\t%s\t%s\n", statement_table[kind].word, statement_table[kind].doc);
	for (int i = 0; i < POLICY_COUNT; i++)
		if (policy_table[i].name && *policy_table[i].name)
			text_printf(&file->text, "policy\t%s%s\t%s\n", policy_table[i].name, policy_table[i].argument ? ":" : "",
			            policy_table[i].doc);
	return session_close_text(file);
}

/* Topics. */

static const char manual[] =
#include "pages.h"
	;

/* A section: its page and title, and its text up to END. */
struct section {
	const char *page, *title, *text, *end;
};

/* Sets *SECTION to the section after *SECTION, or to the first if its END is NULL. False if there is none. */
static bool next_section(struct section *section)
{
	const char *at = section->end ? section->end : manual;
	if (*at != '\f')
		return false;
	section->page = at + 1;
	section->title = strchr(at, '\t') + 1;
	section->text = strchr(section->title, '\n') + 1;
	const char *end = strchr(section->text, '\f');
	section->end = end ? end : section->text + strlen(section->text);
	return true;
}

static size_t letters(const char *at, const char *end)
{
	size_t n = 0;
	while (at + n < end && (isalnum((unsigned char)at[n]) || at[n] == '-' || at[n] == '_'))
		n++;
	return n;
}

/* Returns the length of WORD without the `s` of a plural. */
static size_t stem(const char *word, size_t length)
{
	return length > 3 && (word[length - 1] == 's' || word[length - 1] == 'S') ? length - 1 : length;
}

/* Returns how often WORD, in the singular or plural, stands between AT and END. */
static size_t count_word(const char *word, const char *at, const char *end)
{
	const size_t length = stem(word, strlen(word));
	size_t count = 0;
	while (at < end) {
		const size_t n = letters(at, end);
		count += n > 0 && stem(at, n) == length && !strncasecmp(at, word, length);
		at += n + !n;
	}
	return count;
}

static void put_section(const struct text *text, const struct section *section)
{
	text_printf(text, "%.*s, %.*s:\n\n%.*s", (int)(section->text - 1 - section->title), section->title,
	            (int)(section->title - 1 - section->page), section->page, (int)(section->end - section->text),
	            section->text);
}

/* Writes the title and the page of the first sections whose text has WORD, but SHOWN. NULL: of all. */
static void put_titles(const struct text *text, const char *word, const char *shown)
{
	enum { MOST = 8 };
	const char *before = word ? "\nAlso in: " : "";
	struct section section = {0};
	for (int left = word ? MOST : INT_MAX; left > 0 && next_section(&section);) {
		if (word && (section.text == shown || !count_word(word, section.text, section.end)))
			continue;
		text_printf(text, "%s%.*s, %.*s", before, (int)(section.text - 1 - section.title), section.title,
		            (int)(section.title - 1 - section.page), section.page);
		before = word ? "; " : "\n";
		left--;
	}
	text_put(text, word && *before == '\n' ? "" : "\n");
}

/* How the title of SECTION has WORD: 0 not, 1 as one of its words, 2 as a whole. */
static int title_match(const struct section *section, const char *word)
{
	const size_t length = (size_t)(section->text - 1 - section->title);
	if (strlen(word) == length && !strncasecmp(word, section->title, length))
		return 2;
	return count_word(word, section->title, section->text) > 0;
}

/* Sets *BEST to the section of whose text WORD is the greatest part. Operations have a help of their own. */
static bool find_in_texts(const char *word, struct section *best)
{
	double most = 0;
	struct section section = {0};
	while (next_section(&section)) {
		const double part = (double)count_word(word, section.text, section.end) / (double)(section.end - section.text);
		if (part > most && !title_match(&section, "operations")) {
			most = part;
			*best = section;
		}
	}
	return most > 0;
}

enum status help_print_topic(struct session *s, const char *word, bool texts, bool *found)
{
	static const char *const other_words[][2] = {
		{"dtype", "types"},      {"checkpoint", "policies"}, {"checkpointing", "policies"},
		{"memory", "budgets"},   {"onnx", "models"},         {"resume", "journals"},
		{"kill", "journals"},    {"vjp", "programs"},        {"adjoint", "programs"},
		{"column", "tables"},    {"csv", "tables"},          {"missing", "tables"},
		{"header", "tables"},    {"delimiter", "tables"},    {"grad", "gradient files"},
		{"param", "param files"}};
	const char *const end = word + strlen(word);
	for (size_t i = 0; i < sizeof other_words / sizeof *other_words; i++)
		if (count_word(other_words[i][0], word, end) && letters(word, end) == strlen(word)) {
			word = other_words[i][1];
			break;
		}
	struct section section = {0}, best = {0};
	int match = 0;
	while (next_section(&section))
		match = title_match(&section, word) > match ? title_match(&section, word) : match;
	const bool all = !strcmp(word, "topics");
	*found = all || match > 0 || (texts && find_in_texts(word, &best));
	if (!*found)
		return STATUS_OK;
	struct text_file *file;
	TRY(session_open_text(s, &file, NULL, false));
	const char *gap = "";
	for (section.end = NULL; match > 0 && !all && next_section(&section);)
		if (title_match(&section, word) == match) {
			text_put(&file->text, gap);
			put_section(&file->text, &section);
			gap = "\n";
		}
	if (match == 0 && !all)
		put_section(&file->text, &best);
	if (match == 0 || all)
		put_titles(&file->text, all ? NULL : word, best.text);
	return session_close_text(file);
}
