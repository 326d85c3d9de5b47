/* Means over the steps of a chain. */
#include "schedule/step_costs.h"

double step_costs_mean_forward(const struct step_costs *costs)
{
	double forward = 0;
	for (size_t i = 0; i < costs->run_count; i++)
		forward += costs->runs[i].cost.forward * (double)costs->runs[i].count;
	return costs->steps > 0 ? forward / (double)costs->steps : 0;
}

double step_costs_assumed_spill(const struct step_costs *costs) { return 5 * step_costs_mean_forward(costs); }
