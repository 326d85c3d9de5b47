/* The actions of a schedule, as `plan --schedule` and `--dump schedule` print them. */
#ifndef REPORT_ACTIONS_H
#define REPORT_ACTIONS_H

#include "report/record.h"
#include "schedule/action.h"

/* SCHEDULE from its first action on, made by POLICY for STEPS steps. */
void report_actions(struct report *report, struct schedule *schedule, const char *policy, int64_t steps);

#endif
