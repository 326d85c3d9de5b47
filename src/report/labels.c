/*
 * Places for labels. A label is tried beside, above and below its mark, then in rings farther away, with a line that
 * leads to it. A place is free if it overlaps no mark, line or label before it. Placing is greedy: what is put first has
 * the best places.
 * Tests: tests/scripts/check-plots
 */
#include "report/picture.h"

#include <math.h>

/* Pixels around a text; above its base line, and below it. */
enum { MARGIN = 3, ASCENT = 11, DESCENT = 4 };
/* A line that leads to a label is sampled at so many points. */
enum { SAMPLES = 12 };

void labels_avoid(struct labels *labels, struct box box)
{
	struct box *added =
		arena_append(labels->arena, &labels->taken, &labels->count, &labels->capacity, sizeof *labels->taken);
	if (added)
		*added = box;
}

/* True if BOX overlaps nothing that labels avoid, except a box of which MARK, if not NULL, is the middle. */
static bool is_free(const struct labels *labels, struct box box, const double mark[2])
{
	for (size_t i = 0; i < labels->count; i++) {
		const struct box *taken = &labels->taken[i];
		const double x = (taken->left + taken->right) / 2, y = (taken->top + taken->bottom) / 2;
		if (mark && fabs(x - mark[0]) + fabs(y - mark[1]) < 1e-6)
			continue;
		if (box.left < taken->right && taken->left < box.right && box.top < taken->bottom && taken->top < box.bottom)
			return false;
	}
	return true;
}

static bool is_within(const struct box *box, const struct box *within)
{
	return box->left >= within->left && box->right <= within->right && box->top >= within->top &&
	       box->bottom <= within->bottom;
}

/* Returns point I of the line from X, Y to TO_X, TO_Y as a box. Point 0 is where the line leaves the mark. */
static struct box sample(double x, double y, double to_x, double to_y, int i)
{
	enum { MARK = 7 };
	const double first = fmin(MARK / fmax(hypot(to_x - x, to_y - y), MARK), 1);
	const double share = first + (1 - first) * i / SAMPLES, at_x = x + share * (to_x - x),
				 at_y = y + share * (to_y - y);
	return (struct box){at_x - 1, at_y - 1, at_x + 1, at_y + 1};
}

/* True if the line from X, Y to TO_X, TO_Y crosses nothing. */
static bool leads_freely(const struct labels *labels, double x, double y, double to_x, double to_y)
{
	for (int i = 0; i <= SAMPLES; i++)
		if (!is_free(labels, sample(x, y, to_x, to_y, i), (const double[]){x, y}))
			return false;
	return true;
}

bool labels_put(const struct text *text, struct labels *labels, double x, double y, const char *name, const char *class)
{
	static const struct {
		int dx, dy, anchor; /* 0 start, 1 middle, 2 end */
	} ways[] = {{10, 0, 0}, {-10, 0, 2}, {7, -15, 0}, {7, 15, 0}, {-7, -15, 2}, {-7, 15, 2}, {0, -15, 1}, {0, 17, 1}};
	static const char *const anchors[] = {"start", "middle", "end"};
	enum { WAYS = sizeof ways / sizeof *ways };
	const double width = svg_text_width(name);
	for (int i = 0; i < WAYS * labels->rings; i++) {
		const double far = 1 + 0.8 * (i / WAYS), dx = ways[i % WAYS].dx * far, dy = ways[i % WAYS].dy * far;
		const int anchor = ways[i % WAYS].anchor;
		const double left = x + dx - width * anchor / 2, base = y + dy + 4;
		const double to_x = x + dx, to_y = base - 4 + 8 * ((dy < 0) - (dy > 0));
		const struct box box = {left - MARGIN, base - ASCENT, left + width + MARGIN, base + DESCENT};
		const bool led = i >= WAYS;
		if (!is_within(&box, &labels->within) || !is_free(labels, box, NULL) ||
		    (led && !labels->crossing && !leads_freely(labels, x, y, to_x, to_y)))
			continue;
		labels_avoid(labels, box);
		for (int k = 0; k <= SAMPLES && led; k++)
			labels_avoid(labels, sample(x, y, to_x, to_y, k));
		if (led)
			text_printf(text, "<path class=\"axis\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x, y, to_x, to_y);
		svg_text(text, x + dx, base, anchors[anchor], class, name);
		return true;
	}
	return false;
}
