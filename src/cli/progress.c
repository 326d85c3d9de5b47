/* Progress on standard error: at most ten lines a second, and none in the first second. */
#include "cli/job.h"

#include <stdio.h>
#include <unistd.h>

#include "base/system.h"

bool progress_begin(struct progress *progress, const struct session *session, const char *name)
{
	*progress = (struct progress){
		.name = name, .on = session->line.given[OPTION_PROGRESS] || isatty(2), .begun = clock_seconds()};
	return progress->on;
}

static void draw(struct progress *progress, const char *what, double done, int64_t live, int64_t peak)
{
	double time = clock_seconds(), spent = time - progress->begun;
	if (spent < 1 || time - progress->last < 0.1)
		return;
	char line[160], left[32] = "", bytes[32], most[32];
	if (done > 0.001 && done <= 1)
		snprintf(left, sizeof left, ", %.0f s left", spent * (1 - done) / done);
	int n = peak ? snprintf(line, sizeof line, "\r%s %3.0f%%%s, %s of %s\033[K", what, 100 * done, left,
	                        text_bytes(live, bytes), text_bytes(peak, most))
	             : snprintf(line, sizeof line, "\r%s %3.0f%%%s\033[K", what, 100 * done, left);
	if (n > 0 && write(2, line, (size_t)n) == n)
		progress->drawn = true;
	progress->last = time;
}

void progress_action(void *context, const struct action *action, double done, int64_t live, int64_t peak)
{
	struct progress *progress = context;
	draw(progress, action ? action_name(action->kind) : progress->name, done, live, peak);
}

void progress_policy(struct progress *progress, const char *policy, size_t done, size_t all)
{
	char what[64];
	snprintf(what, sizeof what, "plan %.48s", policy);
	if (progress->on)
		draw(progress, what, (double)done / (double)all, 0, 0);
}

void progress_end(struct progress *progress)
{
	if (progress->drawn && write(2, "\r\033[K", 4) != 4)
		progress->on = false;
	progress->drawn = false;
}
