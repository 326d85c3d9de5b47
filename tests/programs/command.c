/* The step of step.c as a command with shared memory, for chains of f64. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "step.c"

static char line[4096], names[8][32], *memory;
static int64_t dims[8];
static struct ckptc_step_type operands[8];
static const char *operand_names[8];
static struct ckptc_step_signature signature = {.name = "step", .operands = operands, .operand_names = operand_names};

/* Returns the array that the line calls PREFIX and NAME, or NULL. */
static void *array(const char *prefix, const char *name)
{
	char word[40];
	snprintf(word, sizeof word, " %s%s=", prefix, name);
	const char *at = strstr(line, word);
	return at ? memory + atoll(at + strlen(word)) : NULL;
}

/* Reads the types, all of which are f64[N], and the gradients that are wanted. */
static const char *read_open(struct ckptc_step_traits *traits, void **context)
{
	char name[32];
	long long n;
	int used;
	char *at = strstr(line, " x=");
	signature.operand_count = 0;
	for (; sscanf(at, " %31[^=]=f64[%lld]%n", name, &n, &used) == 2; at += used) {
		const uint32_t k = signature.operand_count;
		const struct ckptc_step_type type = {8, 1, &dims[k], dims[k] = n};
		if (!strcmp(name, "x")) {
			signature.x = signature.y = type;
		} else if (strcmp(name, "y") != 0) {
			operand_names[k] = strcpy(names[k], name);
			operands[k] = type;
			signature.operand_count++;
		}
	}
	signature.gradient_x = strstr(at, "=x") != NULL;
	signature.gradients = 0;
	for (char *word = strtok(strchr(at, '='), "=,\n"); word; word = strtok(NULL, ",\n"))
		for (uint32_t k = 0; k < signature.operand_count; k++)
			signature.gradients |= (uint32_t)!strcmp(word, names[k]) << k;
	return step_open(&signature, traits, context);
}

int main(void)
{
	struct ckptc_step_traits traits;
	void *context = NULL;
	while (fgets(line, sizeof line, stdin)) {
		const void *in[8];
		void *out[8];
		for (uint32_t k = 0; k < signature.operand_count; k++) {
			in[k] = array("", names[k]);
			out[k] = array("d", names[k]);
		}
		const int64_t number = atoll(strchr(line, ' ') + 1);
		const char *wrong = NULL;
		if (!strncmp(line, "memory", 6)) {
			memory = mmap(NULL, (size_t)number, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
			if (has("shrinks")) {
				ftruncate(3, number + 123456);
				fcntl(3, F_ADD_SEALS, F_SEAL_GROW);
			}
			continue;
		}
		if (!strncmp(line, "open", 4))
			wrong = read_open(&traits, &context);
		else if (!strncmp(line, "forward", 7))
			wrong = step_forward(context, number, array("", "x"), in, array("", "y"));
		else
			wrong = step_backward(context, number, array("", "x"), in, NULL, array("", "g"), 0, array("", "dx"), out);
		if (has("shrinks"))
			ftruncate(3, 0);
		printf("%s%s\n", wrong ? "error " : *line == 'o' ? "ready 1 backward memory" : "ok", wrong ? wrong : "");
		fflush(stdout);
	}
	return 0;
}
