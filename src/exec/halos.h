/*
 * Strips: the halves of a rank's rows, in a run whose ranks keep their rows and exchange halos (halos.c). A strip also
 * has a halo, as many rows of its neighbours on either side. Each step of the run makes the outermost of them wrong, as
 * many as it reads around a row. Halos are exchanged before a step that would make a strip's own rows wrong.
 */
#ifndef EXEC_HALOS_H
#define EXEC_HALOS_H

#include "exec/run_parts.h"

enum { STRIPS = 2 }; /* of a rank */

struct halo_strip {
	int64_t begin, end; /* its own rows */
	int64_t low, high;  /* rows of its halo below BEGIN and from END on; 0 at an end of the array */
	char *from, *to;    /* arrays of all these rows: the state, and where a step writes the next */
};

/* Some stages of the chain, or an iteration of a `repeat`, which runs TIMES times. */
struct halo_step {
	struct portion portion;
	int64_t times;
	int64_t reach; /* rows that it reads on either side of a row */
	struct program *programs[STRIPS];
};

struct halos {
	struct run *run;
	struct arena arena;
	struct type type;  /* of the array, before and after each step */
	int64_t rows, row; /* of the array; bytes of one */
	int64_t least;     /* rows that each strip of each rank has at least */
	int64_t halo;
	bool wraps, ends; /* a stage goes around the ends of the array; another has a rule for them */
	struct halo_step *steps;
	size_t count;
	struct halo_strip strips[STRIPS];
	/* To evaluate the steps: */
	struct slab slab; /* their workspace and the strips */
	struct wave *wave;
	struct team *team;
	int64_t bytes; /* of all array storage */
	int64_t valid; /* rows of halos that are right */
	double done;   /* steps, with all their times */
};

/*
 * Cuts the chain of h->run into steps, and the array of h->type into strips. *FITS: the array runs so. The steps live in
 * h->arena, and have no programs yet.
 */
enum status halos_plan(struct halos *h, bool *fits);

#endif
