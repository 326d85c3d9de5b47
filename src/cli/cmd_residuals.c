/* ckptc residuals: what is saved for the backward pass. */
#include "cli/dump.h"

enum status command_residuals(struct session *s)
{
	struct type type;
	enum status status = session_load_chain(s);
	if (!status)
		status = session_bind_types(s, &type);
	return status ? status : put_residuals(s, &type, s->line.values[OPTION_OUTPUT], false);
}
