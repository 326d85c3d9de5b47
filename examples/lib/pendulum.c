/*
 * The derivative of a pendulum's angle after 10,000 steps by its first angle, with 20 states in memory instead of
 * 10,000: the stepper and its adjoint are this program's, the schedule is ckptc's.
 *
 *     cc pendulum.c $(pkg-config --cflags --libs ckptc) -lm && ./a.out
 */
#include <ckptc.h>

#include <math.h>
#include <stdio.h>

enum { STEPS = 10000, SNAPSHOTS = 20 };

struct pendulum {
	double angle, speed;             /* the current state */
	double by_angle, by_speed;       /* the cotangent */
	double slots[SNAPSHOTS][2];      /* states in memory */
	double recorded[STEPS];          /* what the adjoint of a step needs: its angle. revolve holds one at a time */
};

static const double dt = 0.001;

static int forward(void *context, int64_t step)
{
	struct pendulum *p = context;
	(void)step;
	p->speed -= dt * sin(p->angle);
	p->angle += dt * p->speed;
	return 0;
}

static int record(void *context, int64_t step)
{
	struct pendulum *p = context;
	p->recorded[step] = p->angle;
	return forward(context, step);
}

static int backward(void *context, int64_t step)
{
	struct pendulum *p = context;
	p->by_speed += dt * p->by_angle;
	p->by_angle -= dt * cos(p->recorded[step]) * p->by_speed;
	return 0;
}

static int save(void *context, int64_t state, int64_t slot)
{
	struct pendulum *p = context;
	(void)state;
	p->slots[slot][0] = p->angle;
	p->slots[slot][1] = p->speed;
	return 0;
}

static int load(void *context, int64_t state, int64_t slot)
{
	struct pendulum *p = context;
	(void)state;
	p->angle = p->slots[slot][0];
	p->speed = p->slots[slot][1];
	return 0;
}

int main(void)
{
	const struct ckptc_step_cost step = {
		.count = STEPS, .forward = 1, .backward = 2, .state_bytes = 16, .residual_bytes = 8, .drops_input = 1};
	const struct ckptc_costs costs = {&step, 1, 0, -1, -1, -1};
	const struct ckptc_callbacks calls = {
		.forward = forward, .record = record, .backward = backward, .save = save, .load = load};
	static struct pendulum p = {.angle = 1, .by_angle = 1};
	struct ckptc_counters counters;
	struct ckptc_error error;
	struct ckptc_plan *plan;
	if (ckptc_plan_costs(&plan, &costs, "revolve:20", NULL, &error) || ckptc_plan_verify(plan, &error) ||
	    ckptc_execute(plan, &calls, &p, &error)) {
		fprintf(stderr, "pendulum: %s\n", error.message);
		return 1;
	}
	ckptc_plan_counters(plan, &counters);
	printf("derivative %.9f, %lld evaluations of %lld steps, at most %lld states\n", p.by_angle,
	       (long long)counters.evaluations, (long long)counters.steps, (long long)counters.checkpoints);
	ckptc_plan_free(plan);
	return 0;
}
