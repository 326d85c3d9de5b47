/*
 * Totals over the tiles: the gradients of params (exec/reduction.h has the output that all rows meet in). A worker
 * keeps the sums of each tile apart. They are added to the totals in the order of tiles, so the result does not depend
 * on the number of workers. An array without tiles adds to the totals directly.
 *
 * Sums are doubles. The sums of a double param have a second part: hi holds the sum, lo
 * its accumulated rounding errors. A worker holds a tile's sums param after param:
 *
 *   summed param           hi, then lo for doubles
 *   each element made once the elements, in the computing type
 *   streamed param         nothing: each tile adds to its own rows of the gradient
 *
 * Invariant: totals cover all arrays of the stream so far. Sums are rounded once, at the end;
 * a streamed param's rows are added up, array after array, in the computing type.
 */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "exec/run_parts.h"

/* Returns the sums of param I's gradient over the arrays of the current array's computing type. */
static struct param_sums *sums_of(const struct run *run, size_t i)
{
	return &run->gradient->result->params[i].of[run->params->bound[i].type.dtype == DTYPE_F64];
}

/* Returns the second part of the sums HI of a gradient of TYPE; NULL if it has none. */
static double *low_part(double *hi, const struct type *type)
{
	return hi && type->dtype == DTYPE_F64 ? hi + shape_count(&type->shape) : NULL;
}

/* Allocates the rows or sums of param I's gradient, unless an earlier array of the stream did. */
static enum status open_param(const struct run *run, size_t i)
{
	struct param_gradient *g = &run->gradient->result->params[i];
	struct param_sums *sums = sums_of(run, i);
	const struct type *type = &run->params->bound[i].type;
	if (run->gradient->result->arrays == 0) {
		const struct param *param = &run->chain->params[i];
		g->type = *type;
		g->written = param->weak ? run->gradient->job->input.dtype : param->type.dtype;
		g->size = (size_t)type_bytes(type);
	}
	const bool rows = job_has_rows(run->gradient->job, i);
	if (rows ? sums->rows != NULL : sums->hi != NULL)
		return STATUS_OK;
	void *zeros =
		arena_alloc(run->gradient->arena, (size_t)(rows ? type_bytes(type) : job_sum_bytes(run->gradient->job, i)));
	TRY_ALLOC(zeros, run->context.diags);
	if (rows)
		sums->rows = zeros;
	else
		sums->hi = zeros;
	sums->lo = low_part(sums->hi, type);
	return STATUS_OK;
}

enum status totals_open(struct run *run)
{
	struct gradient_result *result = run->gradient->result;
	const size_t count = run->chain->param_count;
	if (!result->params)
		result->params = arena_array(run->gradient->arena, count + 1, sizeof *result->params);
	TRY_ALLOC(result->params, run->context.diags);
	result->param_count = count;
	for (size_t i = 0; i < count; i++)
		if (run->chain->params[i].differentiated)
			TRY(open_param(run, i));
	return STATUS_OK;
}

/* Returns the worker's sums of TILE; NULL without tiles. */
static char *partials_of(const struct worker *worker, int64_t tile)
{
	return worker->partials ? worker->partials + tile * worker->run->gradient->job->partials.bytes : NULL;
}

void totals_aim(struct worker *worker)
{
	const struct run *run = worker->run;
	const struct job *job = run->gradient->job;
	char *next = partials_of(worker, worker->tile);
	for (size_t i = 0; i < run->params->count; i++) {
		struct bound_param *bound = &worker->params[i];
		const struct param_sums *total = sums_of(run, i);
		*bound = run->params->bound[i]; /* its gradient is directed nowhere yet */
		bound->streamed = job_has_rows(job, i);
		if (!run->chain->params[i].differentiated)
			continue;
		if (bound->streamed) {
			bound->gradient = total->rows;
			continue;
		}
		if (!job->tiles.tiled) {
			bound->hi = total->hi;
			bound->lo = total->lo;
			continue;
		}
		const int64_t bytes = job_partial_bytes(job, i);
		bound->once = job->partials.once[i];
		if (bound->once) {
			bound->gradient = next;
		} else {
			memset(next, 0, (size_t)bytes);
			bound->hi = (double *)(void *)next;
			bound->lo = low_part(bound->hi, &bound->type);
		}
		next += bytes;
	}
}

void totals_add(const struct worker *worker, int64_t tile)
{
	const struct run *run = worker->run;
	char *next = partials_of(worker, tile);
	for (size_t i = 0; next && i < run->params->count; i++) {
		if (!run->chain->params[i].differentiated || job_has_rows(run->gradient->job, i))
			continue;
		const struct param_sums *total = sums_of(run, i);
		const struct type *type = &run->params->bound[i].type;
		const int64_t count = shape_count(&type->shape);
		double *hi = (double *)(void *)next, *lo = low_part(hi, type);
		if (run->gradient->job->partials.once[i])
			run->kernels[type->dtype == DTYPE_F64]->loops->accumulate_wide(total->hi, total->lo, next, (size_t)count);
		else if (!lo)
			run->kernels[1]->loops->accumulate(total->hi, hi, (size_t)count);
		else
			for (int64_t k = 0; k < count; k++)
				sum_add(&total->hi[k], &total->lo[k], hi[k], lo[k]);
		next += job_partial_bytes(run->gradient->job, i);
	}
}

/* Returns element K of the gradient over the arrays of one type, which is double if WIDE. */
static double sum_at(const struct param_sums *sums, bool wide, int64_t k)
{
	double sum = sums->hi ? sums->hi[k] : 0;
	if (sums->lo && isfinite(sum))
		sum += sums->lo[k];
	if (sums->rows)
		sum = (wide ? ((double *)sums->rows)[k] : (double)((float *)sums->rows)[k]) + sum;
	return sum;
}

/*
 * Adds both types' sums and rounds them to the type of the first array. The result
 * overwrites the rows of that type, or else its sums: no element is larger than its sum.
 */
void totals_finish(struct gradient_result *result)
{
	for (size_t i = 0; i < result->param_count; i++) {
		struct param_gradient *g = &result->params[i];
		const bool wide = g->type.dtype == DTYPE_F64;
		const struct param_sums *first = &g->of[wide], *other = &g->of[!wide];
		const bool both = other->rows || other->hi;
		const int64_t count = first->hi || both ? shape_count(&g->type.shape) : 0;
		g->data = first->rows ? first->rows : (void *)first->hi;
		for (int64_t k = 0; k < count; k++) {
			const double sum = both ? sum_at(first, wide, k) + sum_at(other, !wide, k) : sum_at(first, wide, k);
			convert_to_file((char *)g->data + k * (wide ? 8 : 4), g->type.dtype, &sum, DTYPE_F64, 1);
		}
	}
}
