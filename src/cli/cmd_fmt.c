/*
 * ckptc fmt: the chain in canonical form.
 * Tests: tests/cases/language.test
 */
#include "cli/session.h"

static void count_bytes(void *context, const char *text, size_t length)
{
	size_t *bytes = context;
	(void)text;
	*bytes += length;
}

enum status command_fmt(struct session *s)
{
	struct text_file *file;
	size_t bytes = 0;
	if (!s->line.file && !s->line.text)
		s->line.file = "-";
	TRY(session_load_syntax(s));
	syntax_format(&s->syntax, count_bytes, &bytes);
	if (bytes > MAX_SOURCE) /* ckptc would refuse to read it */
		return diag_file(&s->diags, STATUS_LIMIT, s->source.name, -1,
		                 "in canonical form it has %zu bytes, beyond the limit of %d MiB", bytes, MAX_SOURCE >> 20);
	TRY(session_open_report(s, &file));
	syntax_format(&s->syntax, file->text.write, file->text.context);
	return session_close_text(file);
}
