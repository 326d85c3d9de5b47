/*
 * Checks of the files that one invocation writes, before the work. A regular file is written under a temporary name and
 * then renamed. Of two outputs with one path the first would be lost, so the second is refused. Several outputs may go
 * to other files, such as FIFOs, and to open descriptors. Files that are written last are opened once, as a trial.
 * Tests: tests/cases/cli.test
 */
#include "cli/session.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "exec/run.h"

struct place {
	const char *option, *path, *real; /* REAL is the absolute path of the file, through all links */
};

static const char *real_place(struct session *s, const char *path)
{
	char real[PATH_MAX];
	if (io_real_path(path, real))
		return arena_printf(&s->arena, "%s", real);
	char target[PATH_MAX];
	if (!output_follow(path, target))
		return NULL;
	const char *slash = strrchr(target, '/');
	const char *folder = slash ? arena_printf(&s->arena, "%.*s/", (int)(slash - target), target) : ".";
	return folder && io_real_path(folder, real) ? arena_printf(&s->arena, "%s/%s", real, slash ? slash + 1 : target)
	                                            : NULL;
}

static enum status add_place(struct session *s, struct place *places, size_t *count, const char *option,
                             const char *path)
{
	const char *output = s->line.values[OPTION_OUTPUT];
	const bool to_stdout = !output || !strcmp(output, "-");
	if (!path || !output_replaces(path))
		return STATUS_OK;
	const char *stream = to_stdout && stream_is_at(io_standard(1), path) ? "standard output"
	                     : stream_is_at(io_standard(2), path)            ? "standard error"
	                                                                     : NULL;
	if (stream)
		return usage_error(s, "%s would be written to '%s', which is %s", option, path, stream);
	const struct place place = {option, path, real_place(s, path)};
	for (size_t i = 0; place.real && i < *count; i++)
		if (!strcmp(places[i].real, place.real))
			return usage_error(s, "%s and %s would both be written to '%s'", places[i].option, option, path);
	if (place.real)
		places[(*count)++] = place;
	return s->arena.failed ? diag_memory(&s->diags) : STATUS_OK;
}

/* An option that names a file to write, and that file. */
struct written {
	int option;
	const char *path;
};

/* Sets *LIST, in the arena, to the files that options name, each of --grad alone. Returns their number; -1: no memory. */
static int list_outputs(struct session *s, struct written **list)
{
	int count = 0;
	*list = arena_array(&s->arena, OPTION_COUNT + s->line.grads.count + s->value_count, sizeof **list);
	if (!*list)
		return -1;
	for (int i = 0; i < OPTION_COUNT; i++)
		if (option_table[i].use & WRITTEN && s->line.values[i])
			(*list)[count++] = (struct written){i, s->line.values[i]};
	for (size_t i = 1; s->value_paths && i < s->value_count; i++) /* the first is --output's */
		(*list)[count++] = (struct written){OPTION_OUTPUT, s->value_paths[i]};
	for (size_t i = 0; i < s->line.grads.count; i++) {
		const char *equals = strchr(s->line.grads.items[i], '=');
		if (equals)
			(*list)[count++] = (struct written){OPTION_GRAD_OF, equals + 1};
	}
	return count;
}

static bool has_ending(const char *path, const char *ending)
{
	const size_t length = strlen(path), tail = strlen(ending);
	return length > tail && !strcmp(path + length - tail, ending);
}

bool output_is_archive(const char *path) { return has_ending(path, ".npz") || has_ending(path, ".safetensors"); }

void output_follow_ending(const char *path, struct writer_options *options)
{
	static const struct {
		const char *ending;
		enum format written;
		char delimiter;
	} rows[] = {{".npy", FORMAT_NPY, 0},
	            {".csv", FORMAT_CSV, 0},
	            {".tsv", FORMAT_CSV, '\t'},
	            {".txt", FORMAT_TEXT, 0},
	            {".raw", FORMAT_RAW, 0}};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		if (!has_ending(path, rows[i].ending))
			continue;
		if (options->format == FORMAT_AUTO)
			options->format = rows[i].written;
		options->delimiter = rows[i].delimiter;
	}
}

/* An ending of files that ckptc does not write, and what such files are. */
struct foreign_ending {
	const char *ending, *what;
	bool packed; /* by a program that reads a pipe */
};

/* Returns the row of the ending of PATH; NULL if ckptc writes such files, or knows no such ending. */
static const struct foreign_ending *find_foreign(const char *path)
{
	static const struct foreign_ending rows[] = {{".parquet", "Parquet", false},
	                                             {".feather", "Feather", false},
	                                             {".arrow", "Arrow", false},
	                                             {".orc", "ORC", false},
	                                             {".avro", "Avro", false},
	                                             {".xls", "Excel", false},
	                                             {".xlsx", "Excel", false},
	                                             {".ods", "OpenDocument", false},
	                                             {".h5", "HDF5", false},
	                                             {".hdf5", "HDF5", false},
	                                             {".hdf", "HDF", false},
	                                             {".nc", "NetCDF", false},
	                                             {".zarr", "Zarr", false},
	                                             {".mat", "MATLAB", false},
	                                             {".fits", "FITS", false},
	                                             {".pkl", "pickle", false},
	                                             {".pickle", "pickle", false},
	                                             {".joblib", "joblib", false},
	                                             {".pt", "torch", false},
	                                             {".pth", "torch", false},
	                                             {".onnx", "ONNX", false},
	                                             {".json", "JSON", false},
	                                             {".jsonl", "JSON", false},
	                                             {".ndjson", "JSON", false},
	                                             {".xml", "XML", false},
	                                             {".html", "HTML", false},
	                                             {".yaml", "YAML", false},
	                                             {".yml", "YAML", false},
	                                             {".png", "PNG", false},
	                                             {".jpg", "JPEG", false},
	                                             {".jpeg", "JPEG", false},
	                                             {".tif", "TIFF", false},
	                                             {".tiff", "TIFF", false},
	                                             {".gif", "GIF", false},
	                                             {".bmp", "BMP", false},
	                                             {".svg", "SVG", false},
	                                             {".pdf", "PDF", false},
	                                             {".db", "database", false},
	                                             {".sqlite", "SQLite", false},
	                                             {".zip", "zip", false},
	                                             {".gz", "gzip", true},
	                                             {".bz2", "bzip2", true},
	                                             {".xz", "xz", true},
	                                             {".zst", "zstd", true},
	                                             {".lz4", "lz4", true}};
	const size_t length = strlen(path);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const size_t tail = strlen(rows[i].ending);
		if (length > tail && !strcasecmp(path + length - tail, rows[i].ending))
			return &rows[i];
	}
	return NULL;
}

/* Fails with STATUS_USAGE if an array, or ARCHIVE of them, would go to PATH, whose ending is of files that are not written. */
static enum status check_ending_written(struct session *s, int option, const char *path, bool archive)
{
	const struct foreign_ending *foreign = path ? find_foreign(path) : NULL;
	if (!foreign)
		return STATUS_OK;
	const enum status status =
		usage_error(s, "%s %s: ckptc writes no %s files", option_shown(s, option), path, foreign->what);
	if (archive)
		return with_hint(s, status, "%s writes .npz and .safetensors", option_shown(s, option));
	if (foreign->packed && option == OPTION_OUTPUT)
		return with_hint(s, status, "--to csv writes csv to standard output, for a pipe to %s", foreign->what);
	return with_hint(s, status, "it writes .npy, .csv, .tsv, .txt%s and .raw",
	                 option == OPTION_GRAD_OF ? "" : ", .npz, .safetensors");
}

/* Checks the endings of the files to which a run writes arrays. --to decides their format, but not that of gradients. */
static enum status check_endings(struct session *s)
{
	const struct text_list *outputs = &s->line.texts[OPTION_OUTPUT];
	if (!(s->command->letter & (RUN | GRAD)) || s->line.given[OPTION_DUMP])
		return STATUS_OK;
	for (size_t i = 0; i < outputs->count && !s->line.given[OPTION_TO]; i++)
		TRY(check_ending_written(s, OPTION_OUTPUT, outputs->items[i], false));
	if (!s->line.given[OPTION_TO])
		TRY(check_ending_written(s, OPTION_VALUE, s->line.values[OPTION_VALUE], false));
	for (size_t i = 0; i < s->line.grads.count; i++)
		TRY(check_ending_written(s, OPTION_GRAD_OF, s->line.grads.items[i], false));
	return check_ending_written(s, OPTION_GRADS, s->line.values[OPTION_GRADS], true);
}

enum status outputs_check(struct session *s)
{
	size_t count = 0;
	struct written *list;
	const int written = list_outputs(s, &list);
	struct place *places = arena_array(&s->arena, written < 0 ? 1 : (size_t)written + 1, sizeof *places);
	TRY_ALLOC(written >= 0 && places, &s->diags);
	TRY(check_endings(s));
	for (int i = 0; i < written; i++)
		TRY(add_place(s, places, &count, option_shown(s, list[i].option), list[i].path));
	return STATUS_OK;
}

/* A file that the command reads. */
struct read_file {
	const char *what; /* in messages */
	const char *path; /* "-": standard input */
	bool is_input, is_param;
	bool is_array, is_costs;   /* alone in its file, and named by an option: an output of its kind may replace it */
	const struct param *loads; /* its load() names the file; else NULL */
};

static bool stat_read(const struct read_file *read, struct stat *file)
{
	return (strcmp(read->path, "-") ? io_stat(read->path, file) : fstat(io_standard(0), file)) == 0 &&
	       S_ISREG(file->st_mode);
}

/* Fails, as OUTPUT would be written over the file of READ, unless it may be. */
static enum status refuse_output(struct session *s, const struct read_file *read, const struct written *output)
{
	const char *name = option_shown(s, output->option);
	const bool gradients = output->option == OPTION_GRADS || output->option == OPTION_GRAD_OF;
	if (output->option == OPTION_OUTPUT && read->is_array && s->command->letter & (RUN | GRAD))
		return STATUS_OK;
	if (output->option == OPTION_SAVE_COSTS && read->is_costs)
		return STATUS_OK;
	if (gradients && read->is_param && s->line.given[OPTION_ACCUMULATE])
		return STATUS_OK;
	if (gradients && read->is_param)
		return with_hint(s,
		                 diag_file(&s->diags, STATUS_USAGE, output->path, -1,
		                           "%s would replace the params in this file by gradients", name),
		                 "--accumulate adds the gradients to the params; else name another file");
	if (read->loads)
		return diag_at(&s->diags, STATUS_USAGE, s->chain.source, read->loads->span,
		               "%s would overwrite '%s', which the chain loads here", name, output->path);
	return diag_file(&s->diags, STATUS_USAGE, output->path, -1, "%s would overwrite %s", name, read->what);
}

/* Compares READ with each output by device and inode, so through all links. */
static enum status check_read(struct session *s, const struct read_file *read)
{
	struct stat file, other;
	struct written *list;
	const char *output = s->line.values[OPTION_OUTPUT];
	const bool prints = !output || !strcmp(output, "-");
	if (!stat_read(read, &file))
		return STATUS_OK;
	/* Arrays may go to a descriptor of the input behind what was read: session_open_arrays looks at the position. */
	if (prints && !read->is_input && fstat(io_standard(1), &other) == 0 && io_is_same_file(&file, &other))
		return diag_file(&s->diags, STATUS_USAGE, read->path, -1, "standard output would overwrite %s", read->what);
	const int written = list_outputs(s, &list);
	TRY_ALLOC(written >= 0, &s->diags);
	for (int i = 0; i < written; i++)
		if (!(read->is_input && output_descriptor(list[i].path) >= 0) && io_stat(list[i].path, &other) == 0 &&
		    io_is_same_file(&file, &other))
			TRY(refuse_output(s, read, &list[i]));
	return STATUS_OK;
}

static enum status check_bound(struct session *s)
{
	for (size_t i = 0; i < s->line.param_count; i++) {
		struct param_place place;
		TRY(params_split(s->line.params[i].value, &s->arena, &s->diags, &place));
		const struct read_file read = {
			.what = "a param's file", .path = place.file, .is_param = true, .is_array = !place.member};
		if (place.file)
			TRY(check_read(s, &read));
	}
	for (size_t i = 0; i < s->line.param_files.count; i++)
		TRY(check_read(
			s, &(struct read_file){.what = "a param's file", .path = s->line.param_files.items[i], .is_param = true}));
	for (size_t i = 0; i < s->line.program_count; i++)
		if (external_is_object(s->line.programs[i].target))
			TRY(check_read(s, &(struct read_file){.what = "a program", .path = s->line.programs[i].target}));
	return STATUS_OK;
}

/* Checks the file of TEXT, a value of -i. The names of inputs are not known yet. */
static enum status check_input(struct session *s, const char *text)
{
	struct stat file;
	struct param_place place;
	const char *equals = strcmp(text, "-") != 0 && io_stat(text, &file) != 0 ? strchr(text, '=') : NULL;
	TRY(params_split(equals ? equals + 1 : text, &s->arena, &s->diags, &place));
	const bool alone = !place.member && !archive_is(place.file);
	return check_read(s, &(struct read_file){"the input", place.file, .is_input = true, .is_array = alone});
}

/* Checks the file of TEXT, a value of --cotangent. The names of outputs are not known yet. */
static enum status check_cotangent(struct session *s, const char *text)
{
	struct stat file;
	const char *equals = strcmp(text, "-") != 0 && io_stat(text, &file) != 0 ? strchr(text, '=') : NULL;
	return check_read(s, &(struct read_file){"the cotangent", equals ? equals + 1 : text, .is_array = true});
}

enum status outputs_check_read(struct session *s)
{
	const char *const *values = s->line.values;
	const char *chain = s->line.text ? NULL : s->line.file;
	const bool standard = !s->line.given[OPTION_INPUT] && s->command->letter != FMT && !session_makes_input(s) &&
	                      !(chain && !strcmp(chain, "-"));
	const struct read_file files[] = {
		/* The output of fmt may replace its input, as those of other commands may theirs. */
		{.what = "the chain", .path = s->command->letter == FMT ? NULL : chain},
		{.what = "the input", .path = standard ? "-" : NULL, .is_input = true, .is_array = true},
		{.what = "the costs", .path = option_is_word(s, OPTION_COSTS) ? NULL : values[OPTION_COSTS], .is_costs = true},
		{.what = "the costs", .path = values[OPTION_SPEC], .is_costs = true},
	};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		if (files[i].path)
			TRY(check_read(s, &files[i]));
	for (size_t i = 0; i < s->line.texts[OPTION_INPUT].count; i++)
		TRY(check_input(s, s->line.texts[OPTION_INPUT].items[i]));
	for (size_t i = 0; i < s->line.texts[OPTION_COTANGENT].count; i++)
		TRY(check_cotangent(s, s->line.texts[OPTION_COTANGENT].items[i]));
	return check_bound(s);
}

/* True if --param binds the param or const NAME, so that its load() in the chain reads nothing. */
static bool binds_param(const struct session *s, const char *name)
{
	bool bound = false;
	for (size_t i = 0; i < s->line.param_count; i++)
		bound |= !strcmp(s->line.params[i].name, name);
	return bound;
}

enum status outputs_check_loaded(struct session *s)
{
	for (size_t k = 0; k < s->chain.param_count; k++) {
		const struct param *param = &s->chain.params[k];
		if (param->init->kind != INIT_LOAD || binds_param(s, param->name))
			continue;
		const struct read_file read = {.what = "a param's file",
		                               .path = params_file(param->init, s->directory, &s->arena),
		                               .is_param = true,
		                               .loads = param};
		TRY_ALLOC(read.path, &s->diags);
		TRY(check_read(s, &read));
	}
	return STATUS_OK;
}

/* Opens and discards an output if it will be a regular file. The reader of a FIFO would notice a trial. */
static enum status probe(struct session *s, const char *path)
{
	struct output output;
	if (!path || !output_replaces(path))
		return STATUS_OK;
	TRY(output_open(&output, path, &s->arena, &s->diags));
	output_abort(&output);
	return STATUS_OK;
}

enum status outputs_probe(struct session *s)
{
	TRY(probe(s, s->line.values[OPTION_GRADS]));
	TRY(probe(s, s->line.values[OPTION_EVENTS]));
	for (size_t i = 0; i < s->line.grads.count; i++)
		TRY(probe(s, strchr(s->line.grads.items[i], '=') + 1));
	TRY(probe(s, s->line.values[OPTION_STATS]));
	return probe(s, s->line.values[OPTION_RESIDUALS]);
}

/* Sets *BINARY to true if the arrays of `out` are npy or raw, so that its file may hold nothing else. */
static enum status output_is_binary(struct session *s, bool *binary)
{
	const struct writer_options *options = &s->out->writer.options;
	TRY(reader_find_format(&s->in.reader, &s->diags));
	run_follow_format(&s->out->writer, &s->in.reader);
	*binary = options->format == FORMAT_NPY || options->format == FORMAT_RAW;
	return STATUS_OK;
}

/* An output of grad that goes to a pipe, a socket or an open descriptor: the checks by name are of other files. */
struct shared {
	const char *option, *name; /* NAME: of --grad, the param or input; else "" */
	struct stat file;
};

/* Adds OPTION's output at PATH to LIST, if it is such a one. */
static void add_shared(struct shared *list, size_t *count, const char *option, const char *path)
{
	struct shared *item = &list[*count];
	const int fd = output_descriptor(path);
	const bool there =
		fd >= 0 ? fstat(fd, &item->file) == 0 : !output_replaces(path) && io_stat(path, &item->file) == 0;
	item->option = option;
	item->name = "";
	*count += there && !S_ISCHR(item->file.st_mode);
}

enum status outputs_check_grads(struct session *s)
{
	static const int others[] = {OPTION_VALUE, OPTION_EVENTS, OPTION_STATS, OPTION_RESIDUALS, OPTION_GRADS};
	const char *output = s->line.values[OPTION_OUTPUT];
	struct shared *list = arena_array(&s->arena, s->line.grads.count + 7, sizeof *list);
	size_t count = 0;
	TRY_ALLOC(list, &s->diags);
	add_shared(list, &count, option_shown(s, OPTION_OUTPUT), output ? output : "-");
	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (s->line.values[others[i]])
			add_shared(list, &count, option_shown(s, others[i]), s->line.values[others[i]]);
	for (size_t i = 0; i < s->line.grads.count; i++) {
		const char *text = s->line.grads.items[i], *equals = strchr(text, '=');
		const size_t before = count;
		add_shared(list, &count, option_shown(s, OPTION_GRAD_OF), equals + 1);
		if (count == before)
			continue;
		TRY_ALLOC(list[before].name = arena_printf(&s->arena, " %.*s", (int)(equals - text), text), &s->diags);
		for (size_t k = 0; k < before; k++)
			if (io_is_same_file(&list[k].file, &list[before].file))
				return with_hint(s,
				                 usage_error(s, "%s%s and %s%s would mix in %s", list[k].option, list[k].name,
				                             list[before].option, list[before].name,
				                             output_descriptor(equals + 1) == io_standard(1) ? "<stdout>" : equals + 1),
				                 "give each a file of its own, or /dev/null%s",
				                 k == 0 && !output ? ": without -o, the gradient of the input goes to standard output"
				                                   : "");
	}
	return s->arena.failed ? diag_memory(&s->diags) : STATUS_OK;
}

enum status outputs_check_apart(struct session *s, struct opened_output *value, const struct opened_output *events)
{
	static const enum option_id late[] = {OPTION_STATS, OPTION_RESIDUALS, OPTION_GRADS};
	const struct {
		const char *name;
		const struct opened_output *out;
	} made[] = {{"the gradient", s->out}, {"--value", value}, {"--events", events}};
	bool binary;
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < i; k++) {
			if (!made[i].out || !made[k].out || !stream_is_one(made[i].out->output.fd, made[k].out->output.fd))
				continue;
			TRY(output_is_binary(s, &binary));
			if (binary)
				return usage_error(s, "%s and %s would mix in %s", made[k].name, made[i].name,
				                   made[k].out->output.name);
			if (i == 1)
				value->writer.options.deferred = true;
		}
	for (size_t i = 0; i < sizeof late / sizeof *late; i++) {
		const char *path = s->line.values[late[i]];
		const int fd = path ? output_descriptor(path) : -1;
		if (fd < 0 || !stream_is_one(fd, s->out->output.fd))
			continue;
		TRY(output_is_binary(s, &binary));
		if (binary)
			return usage_error(s, "%s would follow the arrays in %s, where nothing may follow",
			                   option_shown(s, late[i]), s->out->output.name);
	}
	return STATUS_OK;
}
