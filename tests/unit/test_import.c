/*
 * Import of a model in memory that runs out: each request for memory fails in turn, and the message says so.
 */
#include "failing.h"
#include "suite.h"

#ifdef HAVE_ONNX
#include <sys/mman.h>
#include <unistd.h>

#include "onnx/import.h"

/* A message of protobuf that grows by fields of bytes, whose number and length are below 128. */
struct bytes {
	unsigned char at[512];
	size_t count;
};

static void put_bytes(struct bytes *to, int field, const void *from, size_t length)
{
	ck_assert(length < 256 && to->count + length + 3 < sizeof to->at);
	to->at[to->count++] = (unsigned char)(field << 3 | 2);
	if (length > 127)
		to->at[to->count++] = (unsigned char)(length & 127) | 128;
	to->at[to->count++] = (unsigned char)(length > 127 ? length >> 7 : length);
	memcpy(to->at + to->count, from, length);
	to->count += length;
}
static void put_word(struct bytes *to, int field, const char *word) { put_bytes(to, field, word, strlen(word)); }
static void put_message(struct bytes *to, int field, const struct bytes *from)
{
	put_bytes(to, field, from->at, from->count);
}
static void put_number(struct bytes *to, int field, int number)
{
	to->at[to->count++] = (unsigned char)(field << 3);
	to->at[to->count++] = (unsigned char)number;
}

/* Adds a node of KIND that makes TO of A and, unless NULL, B. */
static void put_node(struct bytes *graph, const char *kind, const char *a, const char *b, const char *to)
{
	struct bytes node = {.count = 0};
	put_word(&node, 1, a);
	if (b)
		put_word(&node, 1, b);
	put_word(&node, 2, to);
	put_word(&node, 4, kind);
	put_message(graph, 1, &node);
}

static void put_tensor(struct bytes *graph, const char *name, const float *numbers, int count)
{
	struct bytes tensor = {.count = 0};
	put_number(&tensor, 1, count);
	put_number(&tensor, 2, 1);
	put_word(&tensor, 8, name);
	put_bytes(&tensor, 9, numbers, (size_t)count * sizeof *numbers);
	put_message(graph, 5, &tensor);
}

static void put_value(struct bytes *graph, int field, const char *name, int extent)
{
	struct bytes dim = {.count = 0}, shape = {.count = 0}, tensor = {.count = 0}, type = {.count = 0},
				 info = {.count = 0};
	put_number(&dim, 1, extent);
	put_message(&shape, 1, &dim);
	put_number(&tensor, 1, 1);
	put_message(&tensor, 2, &shape);
	put_message(&type, 1, &tensor);
	put_word(&info, 1, name);
	put_message(&info, 2, &type);
	put_message(graph, field, &info);
}

/* y = x + tanh(x * a.0) and so on, twice; a constant is folded, and the two layers become a loop. */
static void make_model(struct bytes *model)
{
	struct bytes graph = {.count = 0}, opset = {.count = 0};
	const float numbers[] = {1, 2};
	put_node(&graph, "Mul", "x", "a.0", "m0");
	put_node(&graph, "Tanh", "m0", NULL, "t0");
	put_node(&graph, "Add", "x", "t0", "h.0");
	put_node(&graph, "Mul", "h.0", "a.1", "m1");
	put_node(&graph, "Tanh", "m1", NULL, "t1");
	put_node(&graph, "Add", "h.0", "t1", "h.1");
	put_tensor(&graph, "a.0", numbers, 2);
	put_tensor(&graph, "a.1", numbers, 2);
	put_value(&graph, 11, "x", 2);
	put_value(&graph, 12, "h.1", 2);
	put_number(&opset, 2, 17);
	put_number(model, 1, 8);
	put_message(model, 7, &graph);
	put_message(model, 8, &opset);
}

/* Imports MODEL with the memory of ALLOCATOR. The text must be that of a loop. */
static enum status import_bytes(const struct bytes *model, const struct allocator *allocator, bool *exhausted)
{
	static const char loop[] = "for a_2 in a { h a_2 }\n";
	struct arena arena;
	struct diags diags;
	struct imported imported;
	struct input input = {.fd = memfd_create("model", MFD_CLOEXEC), .name = "model", .size = (int64_t)model->count};
	const struct import_request request = {.path = "model.onnx", .tensors = "model.safetensors"};
	ck_assert(input.fd >= 0 && write(input.fd, model->at, model->count) == (ssize_t)model->count);
	ck_assert(lseek(input.fd, 0, SEEK_SET) == 0);
	arena_init(&arena, allocator);
	diags_init(&diags, &arena);
	const struct context context = {allocator, &arena, &diags};
	input.arena = &arena;
	const enum status status = import_model(&context, &request, &input, &imported);
	*exhausted = diags.exhausted;
	if (!status) {
		ck_assert_msg(memmem(imported.text, imported.length, loop, strlen(loop)), "%.*s", (int)imported.length,
		              imported.text);
		ck_assert_uint_eq(imported.weight_count, 1);
	}
	close(input.fd);
	arena_free(&arena);
	return status;
}

START_TEST(memory_runs_out)
{
	struct bytes model = {.count = 0};
	bool exhausted = false;
	enum status status = STATUS_LIMIT;
	size_t n = 1;
	make_model(&model);
	ck_assert_int_eq(import_bytes(&model, &allocator_system, &exhausted), STATUS_OK);
	for (; status; n++) {
		struct failing failing = {.fail_at = n, .on = true};
		const struct allocator allocator = failing_allocator(&failing);
		status = import_bytes(&model, &allocator, &exhausted);
		ck_assert_msg(!status || (status == STATUS_LIMIT && exhausted), "request %zu: status %d", n, (int)status);
		ck_assert_uint_eq(failing.live, 0);
	}
	ck_assert_uint_gt(n, 3);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("import");
	tcase_add_test(suite_make_case(suite, "import"), memory_runs_out);
	return suite_run(suite);
}
#else
int main(void) { return 77; }
#endif
