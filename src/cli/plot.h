/* --plot and --trace: pictures and traces of what a command has planned, run or measured. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include "cli/subject.h"
#include "exec/run.h"
#include "report/picture.h"
#include "report/trace.h"

/* The file of --plot, from before the work begins until it is drawn. */
struct plot {
	struct text_file file;
	bool open, html;
};

/* Opens the file where --plot is given. STATUS_USAGE for a name that is neither .svg nor .html; STATUS_IO. */
enum status plot_open(struct session *session, struct plot *plot);
/* Leaves nothing. */
void plot_abort(struct plot *plot);
/* Draws PICTURE, its title and format given by the command line, and closes the file. */
enum status plot_draw(struct session *session, struct plot *plot, struct picture *picture);
/* Plans: the policies by peak and overhead; the schedules of up to three of them, else that of the knee. */
enum status plot_subject(struct plot *plot, struct subject *subject, const struct policy *const *policies,
                         const struct policy_row *rows, size_t count);

/* What watches a gradient run. */
struct watch {
	struct session *session;
	const struct gradient_result *result;
	struct plot plot;
	struct text_file trace_file;
	struct trace trace;
	bool trace_open;
	struct timeline timeline; /* of worker 0's first tile of the last array */
	bool has_timeline, following;
	bool stepping; /* a step of it has begun */
	double begun;  /* that step, in microseconds of the run */
};

/* Opens what --plot and --trace name. */
enum status watch_open(struct session *session, struct watch *watch, const struct gradient_result *result);
/* For grad_options.trace; whether there is anything to watch for. */
bool watch_wanted(const struct watch *watch);
enum status watch_event(void *context, const struct event *event);
/* Closes the trace and draws the picture. */
enum status watch_close(struct watch *watch);
void watch_abort(struct watch *watch);

#endif
