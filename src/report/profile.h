/* The report of `ckptc profile`: rows of depths and policies; except in CSV, also the growth and the bottleneck. */
#ifndef REPORT_PROFILE_H
#define REPORT_PROFILE_H

#include "report/record.h"

/* Several measurements: the median, and the ends of the middle half. A median that noise has hidden is NAN. */
struct spread {
	double middle, low, high;
};

struct profile_row {
	const char *kind, *policy;                           /* "depth" or "policy" */
	int64_t steps, evaluations, peak_bytes, page_faults; /* evaluations: reported of a policy alone */
	int64_t tile_rows;                                   /* NO_WHOLE: the array is not cut into tiles */
	int64_t runs;                                        /* how often it was measured */
	/* Of a depth. The ratio is backward over forward time; steps per second are those of the forward pass. */
	double ratio, bytes_per_step, steps_per_second;
	struct spread forward, backward; /* milliseconds; of a depth */
	struct spread gradient;          /* of both passes */
	double spread_percent;           /* the range of that, in percent of its median */
	double cpu_ms;                   /* processor time of the quickest run, of all threads; not reported */
	double program_ms;               /* of that run: time in calls of programs; not reported */
	double predicted_overhead, measured_overhead, reduction; /* of a policy, in percent of save-all */
	const char *mark; /* "best" of the interval that is the knee, if it saves memory; else NULL */
};

/* The fit of WHAT = c * steps^POWER over the depths. */
struct profile_growth {
	const char *what;
	double power; /* 0: WHAT does not depend on depth; NAN if no power fits, or there are too few depths */
	double r2;    /* R squared of the logarithms; NAN if there are too few depths */
};
/* Fits FIGURES, of which those above 0 count, of COUNT depths of so many STEPS. */
struct profile_growth profile_fit(const char *what, const double *steps, const double *figures, size_t count);

struct profile_verdict {
	const char *bottleneck, *evidence, *advice;
};

struct profile_report {
	const struct profile_row *depths, *policies;
	size_t depth_count, policy_count, interval_count; /* intervals are the first policies, by size */
	const struct profile_growth *growth;
	size_t growth_count;
	struct profile_verdict verdict;
};

void report_profile(struct report *report, const struct profile_report *profile);

#endif
