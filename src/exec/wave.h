/*
 * A wave: groups of kernel ops that wait, and then run together over a few rows at a time. So what one group makes is
 * still in the second-level cache when the next reads it. Iterations of a loop and steps of a schedule join one wave.
 */
#ifndef EXEC_WAVE_H
#define EXEC_WAVE_H

#include "exec/blocks.h"

struct wave;

/* Returns a wave of BYTES without groups; NULL if out of memory. BYTES is the most that a program reports as its wave. */
struct wave *wave_open(int64_t bytes, const struct allocator *allocator);
void wave_close(struct wave *wave, const struct allocator *allocator);
/*
 * Lets CALL wait in WAVE, or returns false if it cannot: then nothing waits. MOVED: the frame has changed since the last
 * call of this program; WAVE copies it. TEAM shares the groups that wait, the same for all of them. The caller calls
 * wave_run before anything else reads or writes the arrays, or the particulars change.
 */
bool wave_add(struct wave *wave, const struct group_call *call, bool moved, struct team *team);
/*
 * Returns where the frame of COUNT pointers of a program lies while that runs. It is in WAVE or, if that is NULL or the
 * frame is long, at MEMORY. Runs the groups that wait if they use that.
 */
char **wave_frame(struct wave *wave, void *memory, size_t count);
/* Runs the groups that wait. WAVE may be NULL. */
void wave_run(struct wave *wave);

#endif
