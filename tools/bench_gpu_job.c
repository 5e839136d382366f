/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kedge bench gpu: versions of a whole job whose state, floats that all change, is on the GPU, until the application
 * may go on; with codec = auto, which chooses by what it saw of earlier versions and by how fast the storage is. Its
 * log says where literals were packed, and the segment how.
 */
#include "bench_gpu.h"

#include "store/store.h"

#include <unistd.h>

#define NAME  "gpu"
#define MOST  (UINT64_C(1) << 30)
#define CHUNK 128
#define LEARN 3 /* versions in which auto makes up its mind */

struct job {
	struct kedge__bench_gpu_rows *rows;
	kedge__gpu_address data;
	uint64_t size, version;
	const char *what, *codec, *rate;
	kedge_t *k;
	bool packed; /* there, in the last version */
};

static void log_take(void *user, enum kedge_log_level level, const char *text)
{
	struct job *j = user;

	if (strstr(text, "was reduced on GPU"))
		j->packed = strstr(text, "packed there") != NULL;
	if (level <= KEDGE_LOG_NOTICE)
		fprintf(stderr, "%s\n", text);
}

static int floats_touch(struct job *j, struct kedge__error *err)
{
	struct kedge__gpu *g = j->rows->gpu;
	struct kedge_touch_args a = {
	    .data = j->data, .chunks = j->size / CHUNK, .chunk = CHUNK, .share = 1, .seed = j->version};
	int rc =
	    kedge__gpu_launch(g, KEDGE__GPU_WORK, "kedge_touch_floats", g->processors * 16, KEDGE_THREADS, &a, err);

	return rc ? rc : kedge__gpu_finish(g, err);
}

/* One version, sealed before the next one; *SECONDS: until the application may go on. */
static int version(struct job *j, double *seconds, struct kedge__error *err)
{
	double start;
	int rc = floats_touch(j, err);

	if (rc)
		return rc;
	j->packed = false;
	start = kedge__clock_seconds();
	rc = kedge_checkpoint(j->k, ++j->version);
	*seconds = kedge__clock_seconds() - start;
	if (!rc)
		rc = kedge_wait(j->k);
	return kedge__bench_said(j->k, rc, err);
}

static int job_open(struct job *j, const char *dir, struct kedge__error *err)
{
	char l1[4200], codec[64], rate[64];
	const char *settings[] = {l1, codec, rate, "capture=copy", "reducer=basic", "chunk=128", "keep=1", NULL};
	int rc;

	snprintf(l1, sizeof(l1), "l1=%s", dir);
	snprintf(codec, sizeof(codec), "codec=%s", j->codec);
	snprintf(rate, sizeof(rate), "codec_rate=%s", j->rate);
	rc = kedge_open(NAME, NULL, settings, &j->k);
	if (!rc)
		rc = kedge_protect(j->k, "state", (void *)(uintptr_t)j->data, j->size / 4, KEDGE_F32);
	return kedge__bench_said(j->k, rc, err);
}

/* How the newest version is packed, as its segment says. */
static int codec_find(const struct job *j, const char *dir, char name[KEDGE__CODEC_NAME_ROOM], struct kedge__error *err)
{
	struct kedge__catalog *cat = NULL;
	struct kedge__segment *seg = NULL;
	int rc = kedge__catalog_open(dir, NAME, KEDGE__CATALOG_READ, &cat, err);
	const struct kedge__catalog_entry *e = rc ? NULL : kedge__catalog_find(cat, j->version);
	char *path = e ? kedge__segment_path(cat, j->version, 0, e->set.parts[0].generation) : NULL;

	if (!rc)
		rc = path ? kedge__segment_open(cat, path, &e->set.parts[0], &seg, err) : kedge__error_nomem(err);
	if (!rc)
		snprintf(name, KEDGE__CODEC_NAME_ROOM, "%s", seg->packing_count ? seg->packing[0].name : "none");
	kedge__segment_close(seg);
	kedge__free(path);
	kedge__catalog_close(cat);
	return rc;
}

static int measure(void *ctx, const char *dir, struct kedge__error *err)
{
	struct job *j = ctx;
	struct kedge__bench_gpu_row *row = &j->rows->at[j->rows->count++];
	char name[KEDGE__CODEC_NAME_ROOM] = "";
	struct kedge_stats stats = {0};
	double seconds;
	int rc = job_open(j, dir, err);

	for (uint64_t i = 0; i < LEARN && !rc; i++)
		rc = version(j, &seconds, err);
	for (uint64_t i = 0; i < j->rows->repeat && !rc; i++)
		rc = version(j, &row->seconds[i], err);
	if (!rc)
		rc = kedge__bench_said(j->k, kedge_stats_get(j->k, &stats), err);
	if (!rc)
		rc = codec_find(j, dir, name, err);
	if (kedge_close(j->k) && !rc)
		rc = kedge__error_set(err, KEDGE_E_INTERNAL, 0, "the job could not be closed");
	if (strcmp(j->codec, "none") == 0)
		snprintf(row->what, sizeof(row->what), "job, 100 %% f32, none");
	else
		snprintf(row->what, sizeof(row->what), "job, 100 %% f32, %s: %s, packed on the %s", j->what, name,
			 j->packed ? "GPU" : "host");
	row->bytes = (double)j->size;
	row->ratio = stats.stored_bytes ? row->bytes / (double)stats.stored_bytes : 0;
	return rc;
}

int kedge__bench_gpu_job(struct kedge__bench_gpu_rows *rows, kedge__gpu_address data, uint64_t size, const char *dir,
			 struct kedge__error *err)
{
	static const struct {
		const char *what, *codec, *rate;
	} jobs[] = {{"none", "none", "0"}, {"auto", "auto", "0"}, {"auto, codec_rate=100G", "auto", "100G"}};
	const char *parent = dir ? dir : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".";
	int rc = 0;

	for (size_t i = 0; i < KEDGE__COUNT(jobs) && !rc; i++) {
		struct job j = {.rows = rows,
				.data = data,
				.size = KEDGE__MIN(size, MOST),
				.what = jobs[i].what,
				.codec = jobs[i].codec,
				.rate = jobs[i].rate};

		kedge_set_log(log_take, &j);
		rc = kedge__bench_dir_use(parent, measure, &j, err);
		kedge_set_log(NULL, NULL);
	}
	return rc;
}
