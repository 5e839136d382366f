#include "job/job.h"

#include <stdlib.h>

#define AT(field) offsetof(struct kedge__job_settings, field)

static const char *const reducers[] = {"full", "basic", "list", "tree", "auto", "rex", NULL};
static const char *const captures[] = {"sync", "copy", "cow", "cow-user", NULL}; /* enum kedge__capture_mode */

static const char *const coalescing[] = {"auto", "batch", "never", NULL}; /* enum kedge__coalesce_mode */
static const char *const tracks[] = {"none", "auto", "uffd", "mprotect", "softdirty", NULL}; /* enum kedge__track_mode */

static const char *const writers[] = {"auto", "pwrite", "uring", NULL}; /* enum kedge__writer */

#define STRING(k, preset_, doc_)                                                                                       \
	{                                                                                                              \
		.key = #k, .type = KEDGE__SETTING_STRING, .offset = AT(k), .preset = preset_, .doc = doc_              \
	}
#define BOOL(k, preset_, doc_)                                                                                         \
	{                                                                                                              \
		.key = #k, .type = KEDGE__SETTING_BOOL, .offset = AT(k), .preset = preset_, .doc = doc_                \
	}
#define INT(k, preset_, lo, hi, doc_)                                                                                  \
	{                                                                                                              \
		.key = #k, .type = KEDGE__SETTING_INT, .offset = AT(k), .preset = preset_, .min = lo, .max = hi,       \
		.doc = doc_                                                                                            \
	}
#define SIZE(k, preset_, lo, hi, doc_)                                                                                 \
	{                                                                                                              \
		.key = #k, .type = KEDGE__SETTING_SIZE, .offset = AT(k), .preset = preset_, .min = lo, .max = hi,      \
		.doc = doc_                                                                                            \
	}
#define CHOICE(k, preset_, words, doc_)                                                                                \
	{                                                                                                              \
		.key = #k, .type = KEDGE__SETTING_CHOICE, .offset = AT(k), .preset = preset_, .choices = words,        \
		.doc = doc_                                                                                            \
	}

const struct kedge__setting kedge__job_settings_table[] = {
    STRING(l1, "kedge-store",
	   "Directory of the first level, where a checkpoint is complete first: fast and local. Created if absent."),
    BOOL(init, "no",
	 "Make a store of a directory that holds other things. They stay as they are; without it such a directory is "
	 "refused."),
    BOOL(take_over, "no",
	 "Take a job over from an owner of which nothing is known: it ran on another host, or in another container, and its "
	 "lock is still held. An owner that is seen to live is never taken over from."),
    STRING(l2, "", "Directory of the second level, filled in the background: large and safe. Empty: there is none."),
    INT(l2_every, "1", 0, 1e9,
	"Every n-th version goes to L2, with all that it depends on (see coalesce). 0: as often as pays, by measured costs "
	"and failures; until enough is measured the first, then every fourth to ninth by the size of the increments and "
	"how well they pack (REX, Table 1)."),
    INT(l2_interval, "0", -1, 1e9,
	"Seconds that must have passed since the last version that went to L2. 0: none. -1: no version goes there, but a "
	"restart uses what it has."),
    BOOL(l2_accept, "no",
	 "Take the L2 that is there, though L1 remembers another one: to be set for one run after L2 was replaced or has "
	 "moved. Else a directory that is not the L2 of this job is not used, as it may be a mount point without its file "
	 "system."),
    SIZE(l2_rate, "0", 0, 1e15, "Bytes a second that a rank copies to L2. 0: as fast as it goes."),
    SIZE(restore_rate, "0", 0, 1e15,
	 "Bytes a second that a rank reads to restart, or to look into what is stored, from both levels together. 0: as fast "
	 "as it goes."),
    CHOICE(coalesce, "auto", coalescing,
	   "What goes to L2 when several versions are due at once. batch: one delta to the newest version there, with the "
	   "last copy of every byte; those in between stay on L1 alone. auto: the same, and now and then a version that "
	   "needs no other one, where measured costs and failures say that it pays. never: every version is copied as it "
	   "is."),
    CHOICE(reducer, "auto", reducers,
	   "How a version is reduced to what changed: full keeps everything, basic the chunks that changed in place, "
	   "list and tree also find moved and repeated data; auto picks by what the last versions showed; rex works on "
	   "pages made of small patterns."),
    SIZE(chunk, "256", 32, 65536, "Bytes of a chunk, the unit in which changes are found: a power of two."),
    SIZE(pattern, "32", 16, 256, "Bytes of a pattern, which takes the place of a chunk in rex: a power of two."),
    STRING(
	codec, "auto",
	"How literals are packed: none, lz4, zstd or another that kedge info lists, with a level as in zstd:9, chained as in "
	"shuffle+zstd; auto looks at samples of each region, max takes the smallest."),
    SIZE(codec_rate, "0", 0, 1e15,
	 "Bytes of data a second that packing has to keep up with on a rank: auto takes the smallest codec that does. 0: "
	 "what gets a version through packing and storage fastest, by storage's measured speed."),
    SIZE(block, "128k", 4096, 64.0 * 1048576, "Bytes of literals that are packed and checksummed as a unit."),
    CHOICE(
	capture, "sync", captures,
	"sync: a checkpoint returns when it is complete on L1. copy: it returns when what may have changed is copied aside, "
	"and a thread reduces and writes it. cow: it returns when that memory is write-protected; pages are read in the "
	"background, and copied first where the application writes. Without the kernel's help for it, cow is copy; so it is "
	"where system calls that write to such memory would fail, unless cow-user is asked for."),
    SIZE(copy_memory, "4G", 0, 1e15,
	 "Bytes that copy and cow may hold aside, kept for the next version. If what may have changed is more, it is reduced "
	 "first; a version with more new bytes is written before the checkpoint returns."),
    CHOICE(track, "auto", tracks,
	   "How written pages are known, so that a checkpoint looks at those alone: auto is uffd, or none where the kernel "
	   "has it not or a device is present (RDMA, GPU) whose writes nobody sees; others by name. mprotect takes over "
	   "SIGSEGV. none looks at everything."),
    CHOICE(writer, "auto", writers,
	   "How segments are written, on L1 and on L2: pwrite writes from a thread of its own; uring keeps several large "
	   "writes in flight by io_uring, where the kernel permits it; auto takes the one that measured faster: uring if "
	   "direct, else pwrite."),
    BOOL(direct, "no",
	 "Write segments past the page cache (O_DIRECT). Where the file system takes no such writes, they go through it."),
    SIZE(buffer, "1M", 4096, 64.0 * 1048576,
	 "Bytes of a buffer of the pipeline that packs, copies and reads, and of a write that is put together from small "
	 "ones."),
    INT(queue, "0", 0, 4096,
	"Buffers of each ring between the stages of that pipeline. 0: two for each thread, at least eight."),
    INT(threads, "0", 0, 1024, "Threads for hashing, packing and reading. 0: as many as the process may run on."),
    SIZE(
	record_memory, "512M", 1048576, 1e15,
	"Memory for digests of the last version, and for the hash record, by which data of older ones is found again. Beyond it "
	"chunks become larger, and the oldest entries go."),
    SIZE(rebuild, "1G", 0, 1e15,
	 "Bytes of older versions, newest first, that a new process may read to rebuild the hash record when there is "
	 "no record file."),
    BOOL(paranoid, "no", "Compare bytes wherever digests are equal, instead of trusting 128 bits."),
    BOOL(sync, "yes",
	 "Make every file durable before it counts. Only for scratch levels in memory may it be turned off."),
    INT(keep, "0", 0, 1e9,
	"Versions that stay on L1; older ones go, after coalescing if the newer need them. 0: all stay."),
    INT(l2_keep, "0", 0, 1e9, "Versions that stay on L2. 0: all stay."),
    STRING(
	interval, "0",
	"Time of computation between checkpoints, for kedge_should_checkpoint(): seconds, or with a unit as in 15min. "
	"0: chosen by measured costs and failures; 10min until enough is measured."),
    BOOL(adaptive, "no", "The interval that is set holds only until enough is measured to choose a better one."),
    STRING(mtbf, "0",
	   "Mean time between failures of the whole job, as far as it is known before: seconds, or with a unit as in "
	   "13h. Failures seen correct it. 0: not known."),
    STRING(l2_mtbf, "0", "The same of failures that lose L1, so that only L2 is left. 0: ten times mtbf."),
    BOOL(record_file, "yes",
	 "Keep the hash record beside the store when the job closes, so that the next one starts fast, unless it is large."),
};

const size_t kedge__job_settings_count = KEDGE__COUNT(kedge__job_settings_table);

const char *const kedge__job_env_ignored[] = {
    "KEDGE_CONFIG",   "KEDGE_FAULT", "KEDGE_RUN_JOURNAL", "KEDGE_RUN_LAUNCH", "KEDGE_RUN_ID", "KEDGE_RUN_RETRIES",
    "KEDGE_NO_COLOR", "KEDGE_BIN",   "KEDGE_SOURCE",      "KEDGE_STORE",      "KEDGE_NAME",   NULL,
};

static int chunk_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	if ((s->chunk & (s->chunk - 1)) != 0)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					"chunk = %llu: a power of two from 32 to 65536 is needed",
					(unsigned long long)s->chunk);
	if ((s->pattern & (s->pattern - 1)) != 0)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0,
					"pattern = %llu: a power of two from 16 to 256 is needed",
					(unsigned long long)s->pattern);
	return 0;
}

enum kedge__reducer_id kedge__job_settings_reducer(const struct kedge__job_settings *s)
{
	enum kedge__reducer_id id = KEDGE__REDUCER_AUTO;

	(void)kedge__reducer_parse(reducers[s->reducer], &id);
	return id;
}

static int seconds_parse(const char *key, const char *text, double *out, struct kedge__error *err)
{
	if (kedge__quantity_parse(KEDGE__QUANTITY_SECONDS, text, out, err) == 0)
		return 0;
	kedge__error_prefix(err, "%s", key);
	if (err)
		err->code = KEDGE_E_CONFIG;
	return KEDGE_E_CONFIG;
}

int kedge__job_settings_policy(const struct kedge__job_settings *s, struct kedge__policy_config *out,
			       struct kedge__error *err)
{
	struct kedge__policy_config c = {
	    .adaptive = s->adaptive,
	    .l2 = s->l2[0] != '\0',
	    .l2_every = (uint64_t)s->l2_every,
	    .l2_interval = (double)KEDGE__MAX(s->l2_interval, 0),
	};
	int rc = seconds_parse("interval", s->interval, &c.interval, err);

	if (!rc)
		rc = seconds_parse("mtbf", s->mtbf, &c.mtbf, err);
	if (!rc)
		rc = seconds_parse("l2_mtbf", s->l2_mtbf, &c.l2_mtbf, err);
	if (!rc && c.l2_mtbf > 0 && c.l2_mtbf < c.mtbf)
		rc = kedge__error_set(err, KEDGE_E_CONFIG, 0,
				      "l2_mtbf = %s is less than mtbf = %s, which is over all failures", s->l2_mtbf,
				      s->mtbf);
	if (!rc && c.l2_mtbf > 0 && !(c.mtbf > 0))
		rc = kedge__error_set(err, KEDGE_E_CONFIG, 0, "l2_mtbf needs mtbf");
	if (!rc)
		*out = c;
	return rc;
}

static int values_check(const struct kedge__job_settings *s, struct kedge__error *err)
{
	struct kedge__codec_choice choice;
	struct kedge__policy_config policy;
	int rc = chunk_check(s, err);

	if (rc)
		return rc;
	if (!s->l1[0])
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "l1 is empty: a directory is needed");
	if (s->l2[0] && strcmp(s->l1, s->l2) == 0)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "l1 and l2 are the same directory: %s", s->l1);
	rc = kedge__job_settings_policy(s, &policy, err);
	if (rc)
		return rc;
	rc = kedge__codec_choice_parse(s->codec, &choice, err);
	if (!rc)
		return 0;
	kedge__error_prefix(err, "codec = %s", s->codec);
	if (err)
		err->code = KEDGE_E_CONFIG;
	return KEDGE_E_CONFIG;
}

static int override_set(struct kedge__job_settings *s, const char *pair, struct kedge__error *err)
{
	const char *equals = strchr(pair, '=');
	char *key;
	int rc;

	if (!equals)
		return kedge__error_set(err, KEDGE_E_CONFIG, 0, "setting \"%s\" is not of the form key=value", pair);
	key = kedge__strdup(pair);
	if (!key)
		return kedge__error_nomem(err);
	key[equals - pair] = '\0';
	rc = kedge__settings_set(kedge__job_settings_table, kedge__job_settings_count, s, key, equals + 1, "kedge_open",
				 err);
	kedge__free(key);
	return rc;
}

static int sources_load(const char *config, const char *const *overrides, struct kedge__job_settings *s,
			struct kedge__error *err)
{
	const struct kedge__setting *table = kedge__job_settings_table;
	size_t n = kedge__job_settings_count;
	int rc = 0;

	if (!config)
		config = getenv("KEDGE_CONFIG");
	if (config && config[0])
		rc = kedge__settings_load_file(table, n, s, config, err);
	if (!rc)
		rc = kedge__settings_load_env(table, n, s, kedge__job_env_ignored, err);
	for (size_t i = 0; !rc && overrides && overrides[i]; i++)
		rc = override_set(s, overrides[i], err);
	return rc ? rc : values_check(s, err);
}

void kedge__job_bucket_init(struct kedge__bucket *b, uint64_t rate)
{
	kedge__bucket_init(b, (double)rate, KEDGE__MAX((double)rate / 4, 1048576.0));
}

struct kedge__io kedge__job_settings_io(const struct kedge__job_settings *s)
{
	return (struct kedge__io){(enum kedge__writer)s->writer, s->direct, s->buffer, (size_t)s->queue};
}

int kedge__job_settings_load(const char *config, const char *const *overrides, struct kedge__job_settings *s,
			     struct kedge__error *err)
{
	int rc = kedge__settings_init(kedge__job_settings_table, kedge__job_settings_count, s, err);

	if (rc)
		return rc;
	rc = sources_load(config, overrides, s, err);
	if (rc)
		kedge__job_settings_done(s);
	return rc;
}

static int path_root(char **path, struct kedge__error *err)
{
	char *whole;
	int rc = (*path)[0] ? kedge__fs_absolute(*path, &whole, err) : 0;

	if (rc || !(*path)[0])
		return rc;
	kedge__free(*path);
	*path = whole;
	return 0;
}

int kedge__job_settings_root(struct kedge__job_settings *s, struct kedge__error *err)
{
	int rc = path_root(&s->l1, err);

	return rc ? rc : path_root(&s->l2, err);
}

void kedge__job_settings_done(struct kedge__job_settings *s)
{
	kedge__settings_done(kedge__job_settings_table, kedge__job_settings_count, s);
}

const char *kedge_setting_name(size_t i)
{
	return i < kedge__job_settings_count ? kedge__job_settings_table[i].key : NULL;
}
