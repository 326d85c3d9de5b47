/* Tests: tests/cases/limits.test, tests/cases/spec.test */
#include "plan/short_chains.h"

#include <math.h>

bool short_chains_of(const struct policy *given, int64_t steps, struct short_chains *s)
{
	const struct policy policy = policy_on_steps(given, steps);
	*s = (struct short_chains){.policy = policy};
	if (steps < LONG_CHAIN)
		return false;
	int64_t period = policy.number, length = policy.length > 1 ? policy.length : 1;
	switch (policy.kind) {
	case POLICY_save_all:
		s->first = s->stride = 64;
		break;
	case POLICY_sqrt:
		period = (int64_t)ceil(sqrt((double)steps));
		s->policy = (struct policy){.kind = POLICY_every, .number = period};
		/* fall through */
	case POLICY_every:
		s->stride = 2 * period;
		s->first = s->stride + steps % period;
		break;
	case POLICY_revolve:
		s->stride = (4 * period + 8) * length;
		s->first = s->stride + steps % length;
		break;
	default:
		return false;
	}
	int64_t last = s->first + (SHORT_CHAINS - 1) * s->stride;
	return policy.max_checkpoints == 0 && last < steps / 2 &&
	       (policy.kind == POLICY_revolve || (steps - s->first) % (s->stride / 2 > 0 ? s->stride / 2 : 1) == 0);
}

bool short_chains_extend(const int64_t y[SHORT_CHAINS], const struct short_chains *s, int64_t steps, int64_t *value)
{
	const int64_t rise = y[1] - y[0];
	const __int128 all = (__int128)rise * (steps - s->first);
	if (y[2] - y[1] != rise || all % s->stride)
		return false;
	*value = (int64_t)(y[0] + all / s->stride);
	return true;
}
