/*
 * A wave: launches that wait, and then run together over a few rows at a time. So what one launch makes is still in the
 * second-level cache when the next reads it. Iterations of a loop and steps of a schedule join one wave.
 *
 * A wave knows launches by the arrays that they read and write. It knows neither steps nor loops, and the machine knows
 * no waves. So a hook or a launch that reads or writes an array in another way calls wave_run first.
 */
#ifndef EVALUATE_WAVE_H
#define EVALUATE_WAVE_H

#include "evaluate/rows.h"

struct wave;

/* Returns an empty wave of BYTES; NULL if out of memory. BYTES is the most that a program reports as its wave. */
struct wave *wave_open(int64_t bytes, const struct allocator *allocator);
void wave_close(struct wave *wave, const struct allocator *allocator);
/*
 * Lets RUN, of a launch that has rows, wait in WAVE, or returns false if it cannot: then nothing waits. MOVED: the frame has
 * changed since the last run of this program; WAVE copies it. TEAM shares the launches that wait, the same for all of them.
 * The caller calls wave_run before anything else reads or writes the arrays, or the particulars change.
 */
bool wave_add(struct wave *wave, const struct launch_run *run, bool moved, struct team *team);
/* Lets a copy of FROM, an array of TYPE, to TO wait, as wave_add does. Returns false if it cannot, or WAVE is NULL. */
bool wave_copy(struct wave *wave, char *to, const char *from, const struct type *type, struct team *team);
/*
 * Returns where the frame of COUNT pointers of a program lies while that runs. It is in WAVE or, if that is NULL or the
 * frame is long, at MEMORY. Runs the launches that wait if they use that.
 */
char **wave_frame(struct wave *wave, void *memory, size_t count);
/* Runs the launches that wait. WAVE may be NULL. */
void wave_run(struct wave *wave);

/*
 * A window that carries rows. The input of its program is in the window's ROWS rows. An earlier window had the first DONE of them,
 * where wave_move_window has moved what this one still reads; 0: this is the first.
 */
struct wave_window {
	int64_t rows, done;
	bool last; /* stages compute all rows that they have; else they leave out as many of ROWS as their lag */
	bool dry;  /* nothing runs and no array is read: only lags are found */
};

/*
 * Returns the bytes of a wave for windows of PROGRAM that carry rows. Returns 0 if it does more than make streamed arrays
 * by rows, or if it has calls and its wave is smaller: in small windows these are not worth a wave.
 */
int64_t wave_window_bytes(const struct program *program);
/* Begins a window. The caller evaluates the program without a team, all of whose launches wait, and calls wave_run. */
void wave_begin_window(struct wave *wave, const struct wave_window *window);
/* After wave_run: the last rows of the window that were left out of ARRAY, which a launch has written. */
int64_t wave_lag(const struct wave *wave, const void *array);
/*
 * After wave_run: the most rows of an array that the next window reads again. Two windows have at least so many in
 * common. -1: the arrays do not allow that rows are carried.
 */
int64_t wave_depth(const struct wave *wave);
/* After wave_run: moves what the next window reads, which begins ROWS rows further on. */
void wave_move_window(struct wave *wave, int64_t rows);

#endif
