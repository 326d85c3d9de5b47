/*
 * The order in which tiles add to gradients that all workers share (SUM_SHARED). Every tile makes the same additions to
 * a param in the same order. So if a tile makes an element once at most, its Nth addition to a param waits for the Nth
 * of the tile before. Otherwise it waits for the end of the tile before.
 *
 * Invariant: a tile waits only for the tile before, which its worker has begun, so the first unfinished tile never
 * waits. A worker that fails counts as past all tiles: what others then add is not used.
 *
 * Where several ranks share the tiles, the tile before belongs to another rank, which sends what it has added up.
 */
#include <string.h>

#include "exec/run_parts.h"

/* Returns the number of the worker's tile in the array. */
static int64_t number_of(const struct worker *worker)
{
	return worker->chunk * worker->run->tiles->per_chunk + worker->tile;
}

/* True if WORKER, which runs or will run TILE, has made more than COUNT additions to PARAM for it, or has ended it. */
static bool has_added(const struct worker *worker, int64_t tile, uint32_t param, int64_t count)
{
	const struct turn *turn = &worker->turn;
	if (turn->tile != tile)
		return turn->tile > tile;
	return worker->run->gradient->job->sums.once[param] && turn->additions[param] > count;
}

static bool is_shared(const struct worker *worker, uint32_t param)
{
	return worker->run->gradient->job->sums.kinds[param] == SUM_SHARED;
}

static void begin(void *context, uint32_t param, const struct sum_place *place)
{
	struct worker *worker = context;
	struct run *run = worker->run;
	if (shares_rows(run)) {
		if (is_shared(worker, param))
			shares_get_addition(worker, param, place);
		return;
	}
	const int64_t before = number_of(worker) - 1;
	const struct worker *other = &run->workers[before / run->tiles->per_chunk % run->tiles->workers];
	if (!is_shared(worker, param) || before < run->begun * run->tiles->per_chunk || other == worker)
		return;
	pthread_mutex_lock(&run->turns.lock);
	while (!has_added(other, before, param, worker->turn.additions[param]))
		pthread_cond_wait(&run->turns.moved, &run->turns.lock);
	pthread_mutex_unlock(&run->turns.lock);
}

static void end(void *context, uint32_t param, const struct sum_place *place)
{
	struct worker *worker = context;
	struct run *run = worker->run;
	if (!is_shared(worker, param))
		return;
	if (shares_rows(run))
		shares_pass_addition(worker, param, place);
	pthread_mutex_lock(&run->turns.lock);
	worker->turn.additions[param]++;
	pthread_cond_broadcast(&run->turns.moved);
	pthread_mutex_unlock(&run->turns.lock);
}

enum status turns_open_worker(struct worker *worker)
{
	struct run *run = worker->run;
	struct turn *turn = &worker->turn;
	turn->hooks = (struct turns){begin, end, worker};
	turn->additions = arena_array(&run->arena, run->params->count + 1, sizeof *turn->additions);
	TRY_ALLOC(turn->additions, run->context.diags);
	return STATUS_OK;
}

/* Says that the worker runs TILE from now on. */
static void move(struct worker *worker, int64_t tile)
{
	struct run *run = worker->run;
	if (!run->gradient->job->sums.ordered)
		return;
	pthread_mutex_lock(&run->turns.lock);
	worker->turn.tile = tile;
	memset(worker->turn.additions, 0, run->params->count * sizeof *worker->turn.additions);
	pthread_cond_broadcast(&run->turns.moved);
	pthread_mutex_unlock(&run->turns.lock);
}

void turns_begin_array(struct worker *worker) { worker->turn.tile = -1; }
void turns_begin_tile(struct worker *worker) { move(worker, number_of(worker)); }

void turns_end_tile(struct worker *worker, enum status status)
{
	if (!status)
		shares_pass_tile(worker);
	move(worker, status ? INT64_MAX : number_of(worker) + 1);
}

const struct turns *turns_of(const struct worker *worker)
{
	return worker->run->gradient && worker->run->gradient->job->sums.ordered ? &worker->turn.hooks : NULL;
}
