/*
 * Joined launches (compile/joined.c) run block of lines by block of lines, so that lines stay in the second-level cache
 * from one launch to the next. A line is the elements along the last axis. The bits are those of one launch after another.
 */
#ifndef EVALUATE_JOINED_H
#define EVALUATE_JOINED_H

#include "evaluate/rows.h"

/* Runs RUN's launch and those that are joined to it. A team shares lines. False, with nothing done, if they must run apart. */
bool joined_run(const struct launch_run *run, struct team *team);

#endif
