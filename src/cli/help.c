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

static void put_option(const struct text *text, const struct option_row *row)
{
	char left[64], letter[8] = "    ";
	if (row->short_name)
		snprintf(letter, sizeof letter, "-%c, ", row->short_name);
	snprintf(left, sizeof left, "%s--%s%s%s", letter, row->name, *row->argument && *row->argument != '[' ? " " : "",
	         row->argument);
	text_printf(text, "  %-28s %s\n", left, row->help);
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
				put_option(text, &option_table[i]);
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

/* Writes the sections whose title has WORD, else the one of whose text it is the greatest part. */
static void put_topic(const struct text *text, const char *word)
{
	struct section section = {0}, best = {0};
	double most = 0;
	size_t titles = 0;
	while (next_section(&section)) {
		if (count_word(word, section.title, section.text)) {
			text_put(text, titles++ ? "\n" : "");
			put_section(text, &section);
		}
		const double part = (double)count_word(word, section.text, section.end) / (double)(section.end - section.text);
		if (part > most) {
			most = part;
			best = section;
		}
	}
	if (titles > 0)
		return;
	put_section(text, &best);
	put_titles(text, word, best.text);
}

enum status help_print_topic(struct session *s, const char *word, bool *found)
{
	static const char *const other_words[][2] = {{"dtype", "types"},          {"dtypes", "types"},
	                                             {"checkpoints", "policies"}, {"checkpointing", "policies"},
	                                             {"memory", "budgets"},       {"onnx", "models"}};
	for (size_t i = 0; i < sizeof other_words / sizeof *other_words; i++)
		if (!strcmp(word, other_words[i][0]))
			word = other_words[i][1];
	struct section section = {0};
	*found = !strcmp(word, "topics");
	while (!*found && next_section(&section))
		*found = count_word(word, section.title, section.end) > 0;
	if (!*found)
		return STATUS_OK;
	struct text_file *file;
	TRY(session_open_text(s, &file, NULL, false));
	if (!strcmp(word, "topics"))
		put_titles(&file->text, NULL, NULL);
	else
		put_topic(&file->text, word);
	return session_close_text(file);
}
