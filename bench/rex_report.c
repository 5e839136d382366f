/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_rex_report: tables, means, aims, JSON. */
#include "rex.h"

#include <math.h>

enum { PLACES = KEDGE__REX_PLACES };

/* ---- figures of a result */

static double ratio_of(const struct kedge__rex_result *r)
{
	return r->stored ? (double)r->raw / (double)r->stored : NAN;
}

static double ratio_with_base(const struct kedge__rex_result *r)
{
	return (double)(r->raw + r->raw_base) / (double)(r->stored + r->stored_base);
}

/* Without the write; of plain increments, which are nothing else, with it. */
static double pack_rate(const struct kedge__rex_image *image, const struct kedge__rex_result *r)
{
	double seconds = r->pack_seconds - (r == image->results ? 0 : r->write_seconds);

	return (double)(r->raw + r->raw_base) / KEDGE__MAX(seconds, r->pack_seconds / 10);
}

/* A store gives the image, the others go through the whole chain. */
static double unpack_rate(const struct kedge__rex_method *m, const struct kedge__rex_result *r)
{
	return (double)(m->reducer ? r->live_raw : r->chain_raw) / r->processor;
}

struct spread {
	double lowest, median, highest;
};

static struct spread spread_of(double *v, size_t n)
{
	double median = kedge__bench_median(v, n);

	return (struct spread){v[0], median, v[n - 1]};
}

static struct spread seconds_of(const struct kedge__rex_result *r, size_t place)
{
	struct kedge__rex_times t = r->times[place];

	return spread_of(t.at, t.turns);
}

/* Over plain increments, turn by turn. */
static struct spread gain_of(const struct kedge__rex_result *plain, const struct kedge__rex_result *r, size_t place)
{
	const struct kedge__rex_times *x = &plain->times[place], *y = &r->times[place];
	size_t n = KEDGE__MIN(x->turns, y->turns);
	double gain[KEDGE__REX_TURNS];

	for (size_t i = 0; i < n; i++)
		gain[i] = x->at[i] / y->at[i];
	return spread_of(gain, n);
}

enum figure { RATIO, RATIO_BASE, PACK, SAVE, UNPACK, READ, RESTORE, GAIN = RESTORE + PLACES, FIGURES = GAIN + PLACES };

static void figures_of(const struct kedge__rex_image *image, size_t m, double out[FIGURES])
{
	const struct kedge__rex_result *r = &image->results[m], *plain = &image->results[0];

	out[RATIO] = ratio_of(r);
	out[RATIO_BASE] = ratio_with_base(r);
	out[PACK] = pack_rate(image, r);
	out[SAVE] = (double)(r->raw + r->raw_base) / r->pack_seconds;
	out[UNPACK] = unpack_rate(&kedge__rex_methods[m], r);
	out[READ] = (double)r->read;
	for (size_t p = 0; p < PLACES; p++) {
		out[RESTORE + p] = seconds_of(r, p).median;
		out[GAIN + p] = gain_of(plain, r, p).median;
	}
}

/* Geometric means over the images; false: the way is not there. */
static bool means_of(const struct kedge__rex_image *images, size_t n, size_t m, double out[FIGURES])
{
	double sums[FIGURES] = {0};

	for (size_t i = 0; i < n; i++) {
		double one[FIGURES];

		if (!images[i].results[m].there)
			return false;
		figures_of(&images[i], m, one);
		for (size_t f = 0; f < FIGURES; f++)
			sums[f] += log(one[f]);
	}
	for (size_t f = 0; f < FIGURES; f++)
		out[f] = exp(sums[f] / (double)n);
	return true;
}

/* ---- aims */

struct aim {
	char text[128];
	const char *image; /* where it is furthest from it; NULL: a mean */
	double value, wanted;
	bool met;
};

struct aims {
	struct aim at[32];
	size_t count;
};

/* The lowest of a figure over the images. */
struct worst {
	double value;
	const char *image;
};

static void aim_add(struct aims *a, struct worst worst, double wanted, const char *fmt, ...) KEDGE__PRINTF(4, 5);

static void aim_add(struct aims *a, struct worst worst, double wanted, const char *fmt, ...)
{
	struct aim *aim = &a->at[a->count];
	va_list args;

	if (a->count == KEDGE__COUNT(a->at))
		return;
	a->count++;
	va_start(args, fmt);
	vsnprintf(aim->text, sizeof(aim->text), fmt, args);
	va_end(args);
	aim->image = worst.image;
	aim->value = worst.value;
	aim->wanted = wanted;
	aim->met = worst.value >= wanted;
}

static const char *const place_names[PLACES] = {"storage", "141 MB/s", "47 MB/s", "page cache"};

static void worst_note(struct worst *w, double value, const char *image)
{
	if (!w->image || value < w->value)
		*w = (struct worst){value, image};
}

/* Restore: only what is alive is read. Judged for rex without codec, where bytes are bytes. */
static void aims_restore(struct aims *a, const struct kedge__rex_image *images, size_t n, size_t rex)
{
	for (size_t p = 0; p < KEDGE__REX_CACHE; p++) {
		struct worst live = {0}, most = {0}, slower = {0};

		for (size_t i = 0; i < n; i++) {
			const struct kedge__rex_result *r = &images[i].results[rex];
			double f[FIGURES];

			figures_of(&images[i], rex, f);
			worst_note(&live, f[GAIN + p] / ((double)r->chain_raw / (double)r->live_raw), images[i].name);
			worst_note(&slower, f[GAIN + p], images[i].name);
			if (images[i].changed > 0.5)
				worst_note(&most, f[GAIN + p], images[i].name);
		}
		aim_add(a, live, 0.9, "rex: restore gain / (chain / live bytes), %s", place_names[p]);
		aim_add(a, slower, 1, "rex: restore gain over plain, %s", place_names[p]);
		if (most.image)
			aim_add(a, most, 4.5, "the same where most pages change, %s", place_names[p]);
	}
}

static void aims_ratio(struct aims *a, const struct kedge__rex_image *images, size_t n, size_t packed, size_t zstd,
		       size_t bzip2)
{
	double rex_mean[FIGURES], bzip2_mean[FIGURES];

	for (size_t f = RATIO; f <= RATIO_BASE; f++) {
		const char *what = f == RATIO ? "increments" : "base and increments";
		struct worst w = {0};

		for (size_t i = 0; i < n; i++) {
			double x[FIGURES], y[FIGURES];

			figures_of(&images[i], packed, x);
			figures_of(&images[i], zstd, y);
			worst_note(&w, x[f] / y[f], images[i].name);
			if (strcmp(images[i].name, "proc_sqlite") == 0)
				aim_add(a, (struct worst){x[f], images[i].name}, 3, "rex+codec: ratio, %s", what);
		}
		aim_add(a, w, 1, "rex+codec: ratio / that of zstd -3, %s", what);
		if (means_of(images, n, packed, rex_mean) && means_of(images, n, bzip2, bzip2_mean))
			aim_add(a, (struct worst){rex_mean[f] / bzip2_mean[f], NULL}, 1,
				"rex+codec: ratio / that of bzip2, %s", what);
	}
}

/* The same as the paper has it, whose restore follows a coalescing. */
static void aims_coalesced(struct aims *a, const struct kedge__rex_image *images, size_t n)
{
	size_t m = kedge__rex_method_find("coalesced", false);

	for (size_t p = 0; p < KEDGE__REX_CACHE; p++) {
		struct worst most = {0}, slower = {0};

		for (size_t i = 0; i < n && images[i].results[m].there; i++) {
			double f[FIGURES];

			figures_of(&images[i], m, f);
			worst_note(&slower, f[GAIN + p], images[i].name);
			if (images[i].changed > 0.5)
				worst_note(&most, f[GAIN + p], images[i].name);
		}
		if (slower.image)
			aim_add(a, slower, 1, "rex, coalesced: restore gain over plain, %s", place_names[p]);
		if (most.image)
			aim_add(a, most, 4.5, "the same where most pages change, %s", place_names[p]);
	}
}

/* Of tree and rex, auto takes the one that stores less. */
static void aims_auto(struct aims *a, const struct kedge__rex_image *images, size_t n, bool packed)
{
	size_t chosen = kedge__rex_method_find("auto", packed), rex = kedge__rex_method_find("rex", packed),
	       tree = kedge__rex_method_find("tree", packed);
	struct worst w = {0};

	for (size_t i = 0; i < n; i++) {
		const struct kedge__rex_result *r = images[i].results;

		if (!r[chosen].there || !r[tree].there)
			return;
		worst_note(&w, (double)KEDGE__MIN(r[rex].stored, r[tree].stored) / (double)r[chosen].stored,
			   images[i].name);
	}
	aim_add(a, w, 1 / 1.05, "auto%s: the less of what tree and rex store / stored", packed ? "+codec" : "");
}

static void aims_judge(struct aims *a, const struct kedge__rex_image *images, size_t n)
{
	size_t rex = kedge__rex_method_find("rex", false), packed = kedge__rex_method_find("rex", true);
	size_t zstd = kedge__rex_method_find("zstd -3", false);
	struct worst unpack = {0}, pack = {0};

	*a = (struct aims){0};
	if (!images[0].results[rex].there)
		return;
	aims_restore(a, images, n, rex);
	if (images[0].results[zstd].there)
		aims_ratio(a, images, n, packed, zstd, kedge__rex_method_find("bzip2", false));
	for (size_t i = 0; i < n; i++) {
		double f[FIGURES];

		figures_of(&images[i], rex, f);
		worst_note(&unpack, f[UNPACK] / 1e6, images[i].name);
		worst_note(&pack, f[PACK] / 1e6, images[i].name);
	}
	aims_coalesced(a, images, n);
	aims_auto(a, images, n, false);
	aims_auto(a, images, n, true);
	aim_add(a, unpack, 1500, "rex: decompression, MB/s a thread");
	aim_add(a, pack, 400, "rex: compression, MB/s a thread");
}

/* ---- text */

static const char *method_name(size_t m, char text[KEDGE__TEXT_ROOM])
{
	snprintf(text, KEDGE__TEXT_ROOM, "%s%s", kedge__rex_methods[m].name,
		 kedge__rex_methods[m].packed ? "+codec" : "");
	return text;
}

static void table_head(struct kedge__table *t)
{
	static const char *const heads[] = {"",     "ratio",   "w. base", "comp.", "save", "decomp.",
					    "read", "storage", "141",     "47",    "cache"};

	kedge__table_init(t, "lrrrrrrrrrr");
	for (size_t i = 0; i < KEDGE__COUNT(heads); i++)
		kedge__table_add(t, "%s", heads[i]);
}

static void table_row(struct kedge__table *t, size_t m, const double f[FIGURES])
{
	char name[KEDGE__TEXT_ROOM];

	kedge__table_add(t, "%s", method_name(m, name));
	kedge__table_add(t, "%.2f", f[RATIO]);
	kedge__table_add(t, "%.2f", f[RATIO_BASE]);
	kedge__table_add(t, "%.0f", f[PACK] / 1e6);
	kedge__table_add(t, "%.0f", f[SAVE] / 1e6);
	kedge__table_add(t, "%.0f", f[UNPACK] / 1e6);
	kedge__table_add(t, "%.1f", f[READ] / 1e6);
	for (size_t p = 0; p < PLACES; p++)
		kedge__table_add(t, "%.1f", f[RESTORE + p] * 1e3);
}

static void gain_head(struct kedge__table *t)
{
	kedge__table_init(t, "lllll");
	kedge__table_add(t, "gain over plain");
	for (size_t p = 0; p < PLACES; p++)
		kedge__table_add(t, "%s", place_names[p]);
}

static void print_gains(const struct kedge__rex_image *image)
{
	struct kedge__table t;
	char name[KEDGE__TEXT_ROOM];

	gain_head(&t);
	for (size_t m = 1; m < kedge__rex_method_count; m++) {
		if (!image->results[m].there)
			continue;
		kedge__table_add(&t, "%s", method_name(m, name));
		for (size_t p = 0; p < PLACES; p++) {
			struct spread g = gain_of(&image->results[0], &image->results[m], p);

			kedge__table_add(&t, "%.2f (%.2f..%.2f)", g.median, g.lowest, g.highest);
		}
	}
	kedge__table_print(&t, stdout);
}

static void print_image(const struct kedge__rex_image *image)
{
	struct kedge__table t;
	char text[KEDGE__TEXT_ROOM], more[KEDGE__TEXT_ROOM];

	printf("\n%s: %zu moments, %zu pages; an increment has %.1f %% of them; all %s, the base %s\n", image->name,
	       image->moments, image->pages, image->changed * 100, kedge__text_bytes(image->results[0].raw, text),
	       kedge__text_bytes(image->results[0].raw_base, more));
	if (image->steps > image->moments)
		printf("restored: base and %zu increments, the series back and forth\n", image->steps - 1);
	table_head(&t);
	for (size_t m = 0; m < kedge__rex_method_count; m++) {
		double f[FIGURES];

		if (!image->results[m].there)
			continue;
		figures_of(image, m, f);
		table_row(&t, m, f);
	}
	kedge__table_print(&t, stdout);
	print_gains(image);
}

static void print_means(const struct kedge__rex_image *images, size_t n)
{
	struct kedge__table t;

	printf("\ngeometric means of %zu images\n", n);
	table_head(&t);
	for (size_t m = 0; m < kedge__rex_method_count; m++) {
		double f[FIGURES];

		if (means_of(images, n, m, f))
			table_row(&t, m, f);
	}
	kedge__table_print(&t, stdout);
	gain_head(&t);
	for (size_t m = 1; m < kedge__rex_method_count; m++) {
		double f[FIGURES];
		char name[KEDGE__TEXT_ROOM];

		if (!means_of(images, n, m, f))
			continue;
		kedge__table_add(&t, "%s", method_name(m, name));
		for (size_t p = 0; p < PLACES; p++)
			kedge__table_add(&t, "%.2f", f[GAIN + p]);
	}
	kedge__table_print(&t, stdout);
}

static void print_aims(const struct kedge__rex_image *images, size_t n)
{
	static const char *const heads[] = {"aim", "lowest on", "is", "wanted", "", "short by"};
	struct kedge__table t;
	struct aims aims;

	aims_judge(&aims, images, n);
	if (!aims.count)
		return;
	printf("\n");
	kedge__table_init(&t, "llrrlr");
	for (size_t i = 0; i < KEDGE__COUNT(heads); i++)
		kedge__table_add(&t, "%s", heads[i]);
	for (size_t i = 0; i < aims.count; i++) {
		const struct aim *a = &aims.at[i];

		kedge__table_add(&t, "%s", a->text);
		kedge__table_add(&t, "%s", a->image ? a->image : "the mean");
		kedge__table_add(&t, "%.4g", a->value);
		kedge__table_add(&t, "%.4g", a->wanted);
		kedge__table_add(&t, "%s", a->met ? "met" : "MISSED");
		if (a->met)
			kedge__table_add(&t, "%s", "");
		else
			kedge__table_add(&t, "%.1f %%", (1 - a->value / a->wanted) * 100);
	}
	kedge__table_print(&t, stdout);
}

void kedge__rex_report_text(const struct kedge__rex_report *r)
{
	printf("ratio: bytes of changed pages / bytes of files, metadata among them; w. base: with the first moment\n"
	       "comp., save, decomp.: MB/s of pages by processor time; comp. is save less that of writing as many\n"
	       "bytes to a file; of several turns the least\n"
	       "read: MB of files that a restore reads\n"
	       "storage: ms to restore with files that the page cache does not have, stores with %d thread%s;\n"
	       "141, 47: with a bucket that lets so many MB be read in a second; cache: from the page cache\n"
	       "gain: time of plain / time, in the same turn; all medians, gains with the lowest and the highest\n",
	       r->threads, r->threads > 1 ? "s" : "");
	if (r->stays)
		printf(
		    "note: files stay in the page cache here, as in a file system in memory: storage is the cache\n");
	for (size_t m = 0; m < kedge__rex_method_count; m++)
		if (!r->images[0].results[m].there && kedge__rex_methods[m].missing && !kedge__rex_methods[m].there())
			printf("%s is left out: %s\n", kedge__rex_methods[m].name, kedge__rex_methods[m].missing);
	for (size_t i = 0; i < r->count; i++)
		print_image(&r->images[i]);
	if (r->count > 1)
		print_means(r->images, r->count);
	print_aims(r->images, r->count);
}

/* ---- JSON */

static const char *const json_places[PLACES] = {"storage", "141", "47", "page_cache"};

static void json_figures(json_t *o, const double f[FIGURES])
{
	json_t *seconds = kedge__json_object(), *gain = kedge__json_object();

	kedge__json_real(o, "ratio", f[RATIO]);
	kedge__json_real(o, "ratio_with_base", f[RATIO_BASE]);
	kedge__json_real(o, "compress_mb_s", f[PACK] / 1e6);
	kedge__json_real(o, "compress_write_mb_s", f[SAVE] / 1e6);
	kedge__json_real(o, "decompress_mb_s", f[UNPACK] / 1e6);
	kedge__json_real(o, "read_bytes", f[READ]);
	for (size_t p = 0; p < PLACES; p++) {
		kedge__json_real(seconds, json_places[p], f[RESTORE + p]);
		kedge__json_real(gain, json_places[p], f[GAIN + p]);
	}
	kedge__json_set(o, "restore_seconds", seconds);
	kedge__json_set(o, "gain", gain);
}

static void json_spread(json_t *o, const struct kedge__rex_result *plain, const struct kedge__rex_result *r)
{
	static const char *const names[] = {"restore_seconds_lowest", "restore_seconds_highest", "gain_lowest",
					    "gain_highest", "turns"};
	json_t *at[KEDGE__COUNT(names)];

	for (size_t i = 0; i < KEDGE__COUNT(names); i++)
		at[i] = kedge__json_object();
	for (size_t p = 0; p < PLACES; p++) {
		struct spread seconds = seconds_of(r, p), gain = gain_of(plain, r, p);

		kedge__json_real(at[0], json_places[p], seconds.lowest);
		kedge__json_real(at[1], json_places[p], seconds.highest);
		kedge__json_real(at[2], json_places[p], gain.lowest);
		kedge__json_real(at[3], json_places[p], gain.highest);
		kedge__json_uint(at[4], json_places[p], r->times[p].turns);
	}
	for (size_t i = 0; i < KEDGE__COUNT(names); i++)
		kedge__json_set(o, names[i], at[i]);
}

static json_t *json_method(const struct kedge__rex_image *image, size_t m)
{
	const struct kedge__rex_result *r = &image->results[m];
	json_t *o = kedge__json_object();
	char name[KEDGE__TEXT_ROOM];
	double f[FIGURES];

	kedge__json_text(o, "method", method_name(m, name));
	kedge__json_text(o, "missing",
			 r->there || kedge__rex_methods[m].there() ? NULL : kedge__rex_methods[m].missing);
	if (!r->there)
		return o;
	figures_of(image, m, f);
	json_figures(o, f);
	kedge__json_uint(o, "stored_base_bytes", r->stored_base);
	kedge__json_uint(o, "stored_bytes", r->stored);
	json_spread(o, &image->results[0], r);
	return o;
}

static json_t *json_image(const struct kedge__rex_image *image)
{
	const struct kedge__rex_result *plain = &image->results[0];
	json_t *o = kedge__json_object(), *methods = kedge__json_array();

	kedge__json_text(o, "name", image->name);
	kedge__json_uint(o, "moments", image->moments);
	kedge__json_uint(o, "pages", image->pages);
	kedge__json_real(o, "changed", image->changed);
	kedge__json_uint(o, "base_bytes", plain->raw_base);
	kedge__json_uint(o, "increment_bytes", plain->raw);
	kedge__json_uint(o, "restored_increments", image->steps - 1);
	kedge__json_bool(o, "back_and_forth", image->steps > image->moments);
	kedge__json_uint(o, "chain_bytes", plain->chain_raw);
	kedge__json_uint(o, "live_bytes", plain->live_raw);
	for (size_t m = 0; m < kedge__rex_method_count; m++)
		kedge__json_add(methods, json_method(image, m));
	kedge__json_set(o, "methods", methods);
	return o;
}

static json_t *json_means(const struct kedge__rex_image *images, size_t n)
{
	json_t *list = kedge__json_array();

	for (size_t m = 0; m < kedge__rex_method_count; m++) {
		char name[KEDGE__TEXT_ROOM];
		double f[FIGURES];
		json_t *o;

		if (!means_of(images, n, m, f))
			continue;
		o = kedge__json_object();
		kedge__json_text(o, "method", method_name(m, name));
		json_figures(o, f);
		kedge__json_add(list, o);
	}
	return list;
}

static json_t *json_aims(const struct kedge__rex_image *images, size_t n)
{
	json_t *list = kedge__json_array();
	struct aims aims;

	aims_judge(&aims, images, n);
	for (size_t i = 0; i < aims.count; i++) {
		json_t *o = kedge__json_object();

		kedge__json_text(o, "aim", aims.at[i].text);
		kedge__json_text(o, "image", aims.at[i].image);
		kedge__json_real(o, "value", aims.at[i].value);
		kedge__json_real(o, "wanted", aims.at[i].wanted);
		kedge__json_bool(o, "met", aims.at[i].met);
		kedge__json_add(list, o);
	}
	return list;
}

void kedge__rex_report_json(const struct kedge__rex_report *r)
{
	json_t *o = kedge__json_object(), *list = kedge__json_array();

	for (size_t i = 0; i < r->count; i++)
		kedge__json_add(list, json_image(&r->images[i]));
	kedge__json_uint(o, "threads", (uint64_t)r->threads);
	kedge__json_text(o, "throttled", "measured: every read takes its bytes from a bucket of that rate");
	kedge__json_bool(o, "storage_is_page_cache", r->stays);
	kedge__json_set(o, "images", list);
	kedge__json_set(o, "means", json_means(r->images, r->count));
	kedge__json_set(o, "aims", json_aims(r->images, r->count));
	kedge__json_print(o);
}
