/* ckptc fmt: the chain in canonical form. */
#include "cli/session.h"

enum status command_fmt(struct session *s)
{
	struct text_file file;
	if (!s->file && !s->text)
		s->file = "-";
	enum status status = session_load_syntax(s);
	if (!status)
		status = session_open_report(s, &file);
	if (status)
		return status;
	syntax_format(&s->syntax, file.text.write, file.text.context);
	return session_close_text(&file);
}
