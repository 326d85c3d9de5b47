/* --plot and --trace: pictures of plans, gradient runs and measurements, and traces of gradient runs. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include "cli/subject.h"
#include "exec/run.h"
#include "report/picture.h"
#include "report/trace.h"

/* Opens the file of --plot; NULL without --plot. Fails with STATUS_USAGE if its name ends neither in .svg nor .html. */
enum status plot_open(struct session *session, struct text_file **plot);
/* Draws PICTURE, with a title from the command line, to PLOT and closes it. Does nothing if PLOT is NULL. */
enum status plot_draw(struct session *session, struct text_file *plot, struct picture *picture);
/* Draws COUNT policies by peak and overhead, if two or more, and the schedules of up to three; else only the knee's. */
enum status plot_subject(struct text_file *plot, struct subject *subject, const struct policy *const *policies,
                         const struct policy_row *rows, size_t count);

/* Collects the events of a gradient run for --plot and --trace. The picture shows one tile. */
struct watch {
	struct session *session;
	const struct gradient_result *result;
	struct text_file *plot, *trace_file; /* of --plot and --trace; NULL if not given */
	struct trace trace;
	struct timeline timeline;     /* of the last array whose first tile worker 0 ran */
	bool has_timeline, following; /* FOLLOWING: worker 0 runs the first tile of an array */
	bool stepping;                /* the first step of that tile has begun */
	double begun;                 /* when it began, in microseconds of the run */
};

/* Opens the files of --plot and --trace, if given. RESULT is where the run will write its result. */
enum status watch_open(struct session *session, struct watch *watch, const struct gradient_result *result);
/* The `trace` function of gradient_options; CONTEXT is a struct watch. */
enum status watch_event(void *context, const struct event *event);
/* Closes the trace, warns if slices are left out, and draws the picture. */
enum status watch_close(struct watch *watch);

#endif
