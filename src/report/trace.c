/*
 * Times of trace events are microseconds. The run is process 1, and each worker is a thread of it.
 * Tests: tests/cases/grad.test, tests/scripts/check-plots
 */
#include "report/trace.h"

void trace_begin(struct trace *trace, const struct text *text, const char *title)
{
	*trace = (struct trace){.text = text, .written = -1};
	text_put(text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"
	               "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"args\":{\"name\":");
	text_json(text, title);
	text_put(text, "}}");
}

static void put_slice(struct trace *trace, const struct event *event)
{
	static const char *const names[] = {
		[EVENT_FORWARD] = "forward",   [EVENT_RECORD] = "forward", [EVENT_RECOMPUTE] = "recompute",
		[EVENT_BACKWARD] = "backward", [EVENT_SPILL] = "spill",    [EVENT_FETCH] = "fetch"};
	enum { MOST = 6 }; /* operations of a step that are named */
	const char *name = names[event->kind];
	bool disk = event->kind == EVENT_SPILL || event->kind == EVENT_FETCH;
	text_printf(trace->text,
	            ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":1,\"tid\":%d,"
	            "\"args\":{\"array\":%lld,\"tile\":%lld",
	            name, disk ? "disk" : name, event->from, event->to - event->from, event->worker + 1,
	            (long long)event->array, (long long)event->tile);
	if (disk) {
		text_printf(trace->text, ",\"slot\":%lld}}", (long long)event->slot);
		return;
	}
	text_printf(trace->text, ",\"step\":%lld,\"steps\":%lld,\"evaluations\":%lld", (long long)event->begin,
	            (long long)(event->end - event->begin), (long long)event->evaluations);
	if (event->end - event->begin == 1) {
		const struct body *body = lowered_step(&trace->job->whole, event->begin, NULL)->body;
		int count = 0;
		text_put(trace->text, ",\"operations\":\"");
		for (size_t i = 0; i < body->instr_count && count <= MOST; i++)
			if (body->instrs[i].kind == INSTR_OP) {
				const char *op = count == MOST ? "..." : instr_name(&body->instrs[i]);
				text_printf(trace->text, "%s%s", count++ ? " " : "", op);
			}
		text_put(trace->text, "\"");
	}
	text_put(trace->text, "}}");
}

/* Names a worker at its first event. Writes the counter if it changed: bytes of slabs, and those held throughout. */
static void put_live(struct trace *trace, const struct event *event)
{
	int64_t throughout = trace->job->predicted.peak_bytes - trace->job->slabs;
	if (!trace->seen[event->worker])
		text_printf(trace->text,
		            ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":%d,\"args\":{\"name\":\"worker %d\"}}",
		            event->worker + 1, event->worker + 1);
	trace->seen[event->worker] = true;
	trace->total += event->live - trace->live[event->worker];
	trace->live[event->worker] = event->live;
	if (trace->total == trace->written || trace->slices >= TRACE_SLICES)
		return;
	trace->written = trace->total;
	text_printf(trace->text,
	            ",\n{\"name\":\"live bytes\",\"ph\":\"C\",\"ts\":%.3f,\"pid\":1,\"args\":{\"bytes\":%lld}}",
	            event->from, (long long)(throughout + trace->total));
}

void trace_put(struct trace *trace, const struct job *job, const struct event *event)
{
	trace->job = job;
	if (event->to > trace->end)
		trace->end = event->to;
	if (event->worker >= TRACE_WORKERS)
		return;
	if (event->kind == EVENT_START || event->kind == EVENT_LIVE) {
		put_live(trace, event);
	} else if (event->kind <= EVENT_FETCH && trace->slices >= TRACE_SLICES) {
		trace->left_out++;
	} else if (event->kind <= EVENT_FETCH) {
		trace->slices++;
		put_slice(trace, event);
	}
}

void trace_end(struct trace *trace)
{
	if (trace->left_out)
		text_printf(trace->text,
		            ",\n{\"name\":\"%lld more slices are left out\",\"ph\":\"i\",\"s\":\"g\",\"ts\":%.3f,\"pid\":1,"
		            "\"tid\":1}",
		            (long long)trace->left_out, trace->end);
	text_put(trace->text, "\n]}\n");
}
