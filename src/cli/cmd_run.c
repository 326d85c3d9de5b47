/* ckptc run: forward. */
#include "cli/dump.h"
#include "cli/outputs.h"
#include "cli/progress.h"
#include "cli/session.h"
#include "exec/run.h"
#include "report/residuals.h"

static enum status put_stats(struct session *s, const struct run_counters *counters)
{
	struct text_file file;
	enum status status = session_open_text(s, &file, s->values[OPTION_STATS], true);
	if (status)
		return status;
	const struct {
		const char *name;
		int64_t value;
	} rows[] = {{"arrays", counters->arrays},
	            {"tiles", counters->tiles},
	            {"tile_rows", counters->tile_rows},
	            {"threads", s->threads},
	            {"peak_bytes", counters->peak_bytes}};
	size_t count = sizeof rows / sizeof *rows;
	const char *isa = kernels_get(DTYPE_F32)->isa;
	const bool csv = s->format == REPORT_CSV, json = s->format == REPORT_JSON;
	if (json)
		text_put(&file.text, "{");
	for (size_t i = 0; i < count; i++)
		text_printf(&file.text,
		            json  ? "\"%s\":%lld,"
		            : csv ? "%s,%lld\n"
		                  : "%-12s %lld\n",
		            rows[i].name, (long long)rows[i].value);
	text_printf(&file.text,
	            json  ? "\"isa\":\"%s\",\"blas\":\"%s\"}\n"
	            : csv ? "isa,%s\nblas,%s\n"
	                  : "isa          %s\nblas         %s\n",
	            isa, blas_name());
	return session_close_text(&file);
}

enum status command_run(struct session *s)
{
	if (s->given[OPTION_DUMP])
		return command_dump(s);
	enum status status = session_load_chain(s);
	if (!status)
		status = outputs_probe(s);
	if (!status)
		status = session_open_input(s);
	if (!status)
		status = session_bind(s, true, s->dtype == DTYPE_COUNT ? DTYPE_F32 : s->dtype);
	if (status)
		return status;
	status = session_open_output(s, s->values[OPTION_OUTPUT]);
	if (status)
		return status;
	session_make_writer(s, &s->writer, &s->output);
	status = outputs_check_apart(s);
	if (status)
		return status;
	struct progress progress;
	struct run_options options = {.threads = s->threads,
	                              .tile = s->tile,
	                              .dtype = s->dtype,
	                              .allocator = s->allocator,
	                              .progress = progress_begin(&progress, s) ? progress_rows : NULL,
	                              .progress_context = &progress,
	                              .flush_denormals = s->given[OPTION_FAST_MATH]};
	struct run_counters counters = {0};
	status = run_forward(&s->chain, &s->bound, &s->reader, &s->writer, &options, &counters, &s->diags);
	progress_end(&progress);
	if (!status)
		status = writer_finish(&s->writer, &s->diags);
	writer_free(&s->writer);
	if (!status && s->given[OPTION_STATS])
		status = put_stats(s, &counters);
	if (!status && s->given[OPTION_RESIDUALS])
		status = put_residuals(s, &s->reader.type, s->values[OPTION_RESIDUALS], true);
	if (!status) {
		status = session_put(s, &s->output);
		s->output_open = false;
	}
	return status;
}
