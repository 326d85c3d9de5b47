/*
 * Three spellings of a word, the first that is right: bare, in single quotes, and "$(printf '...')" with octal escapes.
 * The last has no byte that a message would escape, and no "!", which interactive shells expand in double quotes.
 * The substitution drops newlines at the end. Each of them is written as ${IFS#??} behind it: IFS is a blank, a tab and a
 * newline unless somebody has changed it. ($'...' is shorter, but dash and other shells before POSIX of 2024 do not know it.)
 * Tests: tests/cases/cli.test, tests/cases/errors.test
 */
#include "base/shell.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Bytes of a word that a message shows whole (see diags_render), and the most bytes that a byte of a word becomes. */
enum { WORD_SHOWN = 400, BYTE_GROWTH = 9 };

/* True if a message shows the character at TEXT as it is. Sets *LENGTH to its bytes, 1 if they are no character. */
static bool shows_character(const char *text, size_t *length)
{
	uint32_t character;
	*length = utf8_length(text, strlen(text), &character);
	const bool shown = *length && utf8_shows(character);
	*length += !*length;
	return shown;
}

static bool is_bare(const char *word)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
	return *word && *word != '=' && !word[strspn(word, plain)]; /* zsh expands =NAME */
}

static bool shows_all(const char *word)
{
	size_t length;
	for (; *word; word += length)
		if (!shows_character(word, &length))
			return false;
	return true;
}

/* Writes WORD in single quotes to TO. A quote in it ends the quotes, is escaped, and begins them again. */
static void put_quoted_word(char *to, const char *word)
{
	*to++ = '\'';
	for (; *word; word++)
		to += sprintf(to, *word == '\'' ? "'\\''" : "%c", *word);
	strcpy(to, "'");
}

/* Writes WORD to TO in double quotes, as text for printf and newlines after that. */
static void put_escaped_word(char *to, const char *word)
{
	static const char newline[] = "${IFS#??}";
	size_t length, last = strlen(word);
	while (last > 0 && word[last - 1] == '\n')
		last--;
	to += sprintf(to, "\"$(printf '");
	for (const char *at = word; at < word + last; at += length) {
		const bool shown = shows_character(at, &length) && !strchr("\\'\"$`!%", *at);
		if (shown)
			to += sprintf(to, "%.*s", (int)length, at);
		else if (*at == '%' || *at == '\n')
			to += sprintf(to, *at == '%' ? "%%%%" : "\\n");
		else
			for (size_t i = 0; i < length; i++)
				to += sprintf(to, "\\%03o", (unsigned char)at[i]);
	}
	to += sprintf(to, "')");
	for (; word[last]; last++)
		to += sprintf(to, "%s", newline);
	strcpy(to, "\"");
}

/* Writes WORD to TO in the shell's spelling, or "..." if that is longer than a message shows. */
static void put_shell_word(char to[WORD_SHOWN + 1], const char *word)
{
	char file[WORD_SHOWN + 1], spelt[WORD_SHOWN * BYTE_GROWTH + sizeof "\"$(printf '')\""];
	strcpy(to, "...");
	if (snprintf(file, sizeof file, "%s%s", *word == '-' ? "./" : "", word) >= (int)sizeof file)
		return;
	if (is_bare(file))
		strcpy(spelt, file);
	else if (shows_all(file))
		put_quoted_word(spelt, file);
	else
		put_escaped_word(spelt, file);
	if (strlen(spelt) <= WORD_SHOWN)
		strcpy(to, spelt);
}

const char *shell_vprintf(struct arena *arena, const char *format, va_list arguments)
{
	const char *made = "";
	while (made && *format) {
		const char *directive = strstr(format, "%s");
		const size_t length = directive ? (size_t)(directive - format) : strlen(format);
		char word[WORD_SHOWN + 1] = "";
		if (directive)
			put_shell_word(word, va_arg(arguments, const char *));
		made = arena_printf(arena, "%s%.*s%s", made, (int)length, format, word);
		format += length + (directive ? 2 : 0);
	}
	return made;
}

const char *shell_printf(struct arena *arena, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	const char *made = shell_vprintf(arena, format, arguments);
	va_end(arguments);
	return made;
}
