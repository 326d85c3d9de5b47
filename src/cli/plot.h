/* --plot and --trace: pictures and traces of plans, runs and measurements. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include "cli/subject.h"
#include "exec/run.h"
#include "report/picture.h"
#include "report/trace.h"

/* Opens the file of --plot; NULL if there is none. STATUS_USAGE if it ends neither in .svg nor in .html; STATUS_IO. */
enum status plot_open(struct session *session, struct text_file **plot);
/* If there is a file, draws PICTURE there, with the title of the command line. */
enum status plot_draw(struct session *session, struct text_file *plot, struct picture *picture);
/* Draws policies by peak and overhead, and their schedules. Of more than three policies only the knee's is drawn. */
enum status plot_subject(struct text_file *plot, struct subject *subject, const struct policy *const *policies,
                         const struct policy_row *rows, size_t count);

/* Collects the events of a gradient run for --plot and --trace. */
struct watch {
	struct session *session;
	const struct gradient_result *result;
	struct text_file *plot, *trace_file; /* of --plot and --trace; NULL: not given */
	struct trace trace;
	struct timeline timeline; /* of worker 0's first tile of the last array */
	bool has_timeline, following;
	bool stepping; /* a step of it has begun */
	double begun;  /* that step, in microseconds of the run */
};

/* Opens what --plot and --trace name. */
enum status watch_open(struct session *session, struct watch *watch, const struct gradient_result *result);
/* The trace of the run, where there is a file of --plot or --trace. */
enum status watch_event(void *context, const struct event *event);
/* Closes the trace and draws the picture. */
enum status watch_close(struct watch *watch);

#endif
