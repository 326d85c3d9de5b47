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
	int64_t runs;                                        /* how often it was measured */
	/* Of a depth. The ratio is backward over forward time; steps per second are those of the forward pass. */
	double ratio, bytes_per_step, steps_per_second;
	struct spread forward, backward; /* milliseconds; of a depth */
	struct spread gradient;          /* of both passes */
	double spread_percent;           /* the range of that, in percent of its median */
	double cpu_ms;                   /* processor time of the quickest run, of all threads; not reported */
	double program_ms;               /* of that run: time in calls of programs; not reported */
	double predicted_overhead, measured_overhead, reduction; /* of a policy, in percent of save-all */
};

/* The fit of WHAT = c * steps^POWER over the depths. */
struct profile_growth {
	const char *what;
	double power; /* NAN if no power fits, or there are too few depths */
	double r2;    /* R squared of the logarithms; NAN if there are too few depths */
};

struct profile_verdict {
	const char *bottleneck, *evidence, *advice;
};

struct profile_report {
	const struct profile_row *depths, *policies;
	size_t depth_count, policy_count;
	const struct profile_growth *growth;
	size_t growth_count;
	struct profile_verdict verdict;
};

void report_profile(struct report *report, const struct profile_report *profile);

#endif
