/*
 * Imports any bytes as an ONNX model. The result is a chain, or one message with a status that says why. The chain parses,
 * its names are bound, and its canonical form is itself.
 */
#include "ckptc.h"
#include "language/syntax.h"
#include "onnx/import.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Memory for what can be meant: an extent may promise exabytes. */
static void *bounded_resize(void *context, void *block, size_t old_size, size_t new_size)
{
	enum { MOST = 256 << 20 };
	(void)context;
	return new_size > MOST ? NULL : allocator_system.resize(allocator_system.context, block, old_size, new_size);
}
static const struct allocator bounded = {.resize = bounded_resize};

static void require(bool condition)
{
	if (!condition)
		abort();
}

struct page {
	char *text;
	size_t length, capacity;
};

static void append(void *context, const char *text, size_t length)
{
	struct page *page = context;
	require(page->length + length <= page->capacity);
	memcpy(page->text + page->length, text, length);
	page->length += length;
}

static void check_text(const struct imported *imported, const struct context *context)
{
	struct ckptc_chain *chain;
	struct ckptc_error error;
	const struct source source = {"chain", imported->text, imported->length};
	struct syntax syntax;
	struct page page = {.capacity = 2 * imported->length + 64};
	require(!ckptc_chain_new(&chain, imported->text, imported->length, NULL, &error));
	ckptc_chain_free(chain);
	require(!syntax_parse(context, &syntax, &source));
	page.text = malloc(page.capacity);
	require(page.text != NULL);
	syntax_format(&syntax, append, &page);
	require(page.length == imported->length && !memcmp(page.text, imported->text, page.length));
	free(page.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena arena;
	struct diags diags;
	struct input input = {.fd = memfd_create("fuzz", MFD_CLOEXEC), .name = "model", .size = (int64_t)size};
	const struct import_request request = {.path = "/nowhere/model.onnx", .tensors = "model.safetensors"};
	struct imported imported;
	require(input.fd >= 0 && write(input.fd, data, size) == (ssize_t)size && lseek(input.fd, 0, SEEK_SET) == 0);
	arena_init(&arena, &bounded);
	diags_init(&diags, &arena);
	const struct context context = {&bounded, &arena, &diags};
	input.arena = &arena;
	const enum status status = import_model(&context, &request, &input, &imported);
	require(status ? diags.errors == 1 || diags.exhausted : diags.errors == 0);
	if (!status)
		check_text(&imported, &context);
	close(input.fd);
	arena_free(&arena);
	return 0;
}

#include "replay.h"
