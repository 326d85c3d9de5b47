/*
 * Three spellings of a word, the first that is right: bare, in single quotes, and "$(printf '...')" with octal escapes.
 * The last has no byte that a message would escape, and no "!", which interactive shells expand in double quotes.
 * The substitution drops newlines at the end. So a word that ends in one is written as $'...', which dash and other
 * shells older than POSIX of 2024 do not know.
 */
#include "base/shell.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* Bytes of a word that a message shows whole (see diags_render), and the most bytes that a byte of a word becomes. */
enum { WORD_SHOWN = 400, BYTE_GROWTH = 4 };

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

/* Writes WORD to TO as text for printf, or, if DOLLAR, in $'...'. */
static void put_escaped_word(char *to, const char *word, bool dollar)
{
	size_t length;
	to += sprintf(to, dollar ? "$'" : "\"$(printf '");
	for (; *word; word += length) {
		const bool shown = shows_character(word, &length) && !strchr("\\'\"$`!%", *word);
		if (shown)
			to += sprintf(to, "%.*s", (int)length, word);
		else if (*word == '%')
			to += sprintf(to, dollar ? "%%" : "%%%%");
		else if (*word == '\n')
			to += sprintf(to, "\\n");
		else
			for (size_t i = 0; i < length; i++)
				to += sprintf(to, "\\%03o", (unsigned char)word[i]);
	}
	strcpy(to, dollar ? "'" : "')\"");
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
		put_escaped_word(spelt, file, file[strlen(file) - 1] == '\n');
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
