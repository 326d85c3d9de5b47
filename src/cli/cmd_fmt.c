/* ckptc fmt: the chain in canonical form. */
#include "cli/session.h"

static void count(void *context, const char *text, size_t length)
{
	size_t *bytes = context;
	(void)text;
	*bytes += length;
}

/* Refuses a canonical form that is too long to be read again. */
static enum status check_length(struct session *s)
{
	size_t bytes = 0;
	syntax_format(&s->syntax, count, &bytes);
	if (bytes <= MAX_SOURCE)
		return STATUS_OK;
	return diag_file(&s->diags, STATUS_LIMIT, s->source.name, -1,
	                 "in canonical form it has %zu bytes, beyond the limit of %d MiB", bytes, MAX_SOURCE >> 20);
}

enum status command_fmt(struct session *s)
{
	struct text_file file;
	if (!s->line.file && !s->line.text)
		s->line.file = "-";
	enum status status = session_load_syntax(s);
	if (!status)
		status = check_length(s);
	if (!status)
		status = session_open_report(s, &file);
	if (status)
		return status;
	syntax_format(&s->syntax, file.text.write, file.text.context);
	return session_close_text(&file, STATUS_OK);
}
