/* Lines of a source. */
#include "base/source.h"

const char *source_line(const struct source *source, uint32_t offset, size_t *length)
{
	size_t at = offset < source->length ? offset : source->length;
	size_t begin = at, end = at;
	while (begin > 0 && source->text[begin - 1] != '\n')
		begin--;
	while (end < source->length && source->text[end] != '\n')
		end++;
	if (end > begin && source->text[end - 1] == '\r')
		end--;
	*length = end - begin;
	return source->text + begin;
}
