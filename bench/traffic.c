/*
 * traffic BYTES: prints the seconds that a gradient's states take to move through memory, without any arithmetic. It reads
 * the actions that `ckptc plan --schedule` prints, copies BYTES at each save and load, writes as many at each record, and
 * reads them at each backward pass. bench/run compares.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 100, ACTIONS = 100000 };

static double now(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static char *touched(size_t bytes)
{
	char *memory = malloc(bytes);
	return memory ? memset(memory, 1, bytes) : NULL;
}

int main(int argc, char **argv)
{
	const size_t bytes = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	char *slots[SLOTS] = {NULL}, *state = touched(bytes), *kept = touched(bytes), line[200];
	static struct action {
		char name;
		int slot;
	} actions[ACTIONS];
	int count = 0;
	for (; count < ACTIONS && fgets(line, sizeof line, stdin); count++) {
		const char *slot = strstr(line, "slot ");
		const int index = slot ? atoi(slot + strlen("slot ")) % SLOTS : 0;
		actions[count] = (struct action){line[0], index};
		slots[index] = slots[index] ? slots[index] : touched(bytes);
	}
	const double begun = now();
	volatile unsigned char seen = 0;
	for (const struct action *action = actions; action < actions + count; action++) {
		if (action->name == 's')
			memcpy(slots[action->slot], state, bytes);
		else if (action->name == 'l')
			memcpy(state, slots[action->slot], bytes);
		else if (action->name == 'r')
			memset(kept, action->slot, bytes);
		else if (action->name == 'b')
			seen += memchr(kept, 2, bytes) != NULL;
	}
	printf("%.6f\n", now() - begun);
	return 0;
}
