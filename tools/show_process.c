/* SPDX-License-Identifier: BSD-3-Clause */
/* show_process: what the process of a version was: its threads, what it had mapped, and what it had open. */
#include "process/process.h"
#include "restore/restore.h"
#include "show.h"

static const char *mapping_kind(uint32_t kind)
{
	static const char *const words[] = {"memory", "file", "shared file", "shared memory", "kernel"};

	return words[kind];
}

static const char *descriptor_kind(uint32_t kind)
{
	static const char *const words[] = {"file", "directory",     "device", "inherited",
					    "pipe", "event counter", "epoll", "signals", "timer"};

	return words[kind];
}

static const char *rights(const struct kedge__process_mapping *m, char text[4])
{
	text[0] = m->bits & KEDGE__MAPPING_READ ? 'r' : '-';
	text[1] = m->bits & KEDGE__MAPPING_WRITE ? 'w' : '-';
	text[2] = m->bits & KEDGE__MAPPING_EXECUTE ? 'x' : '-';
	text[3] = '\0';
	return text;
}

/* Its words, with blanks between them. kedge__free(). */
static char *command_text(const struct kedge__process_image *image)
{
	char *text = kedge__malloc((size_t)image->command.bytes + 1), *shown;

	if (!text)
		kedge__tool_no_memory();
	for (uint64_t i = 0; i < image->command.bytes; i++)
		text[i] = image->command.data[i] ? (char)image->command.data[i] : ' ';
	text[image->command.bytes] = '\0';
	if (image->command.bytes)
		text[image->command.bytes - 1] = '\0';
	shown = kedge__text_name(text);
	kedge__free(text);
	return shown;
}

/* ------------------------------------------------------------------ text */

static void add_name(struct kedge__table *t, const char *name)
{
	char *shown = kedge__text_name(name);

	kedge__table_text(t, shown);
	kedge__free(shown);
}

static void print_text(const struct kedge__process_image *image)
{
	char *command = command_text(image), text[4];
	struct kedge__table t;

	printf("process  %s\n", command);
	printf("in       %s\n", image->cwd);
	printf("kernel   %s\n\n", image->release);
	kedge__free(command);
	kedge__table_init(&t, "rl");
	kedge__table_text(&t, "THREAD");
	kedge__table_text(&t, "NAME");
	for (size_t i = 0; i < image->threads.count; i++) {
		kedge__table_number(&t, image->threads.at[i].id);
		add_name(&t, image->threads.at[i].name);
	}
	kedge__table_print(&t, stdout);
	printf("\n");
	kedge__table_init(&t, "rrlll");
	for (size_t i = 0; i < 5; i++)
		kedge__table_text(&t, (const char *const[]){"MAPPED AT", "BYTES", "RIGHTS", "KIND", "NAME"}[i]);
	for (size_t i = 0; i < image->mappings.count; i++) {
		const struct kedge__process_mapping *m = &image->mappings.at[i];

		kedge__table_add(&t, "0x%llx", (unsigned long long)m->start);
		kedge__table_number(&t, m->end - m->start);
		kedge__table_text(&t, rights(m, text));
		kedge__table_text(&t, mapping_kind(m->kind));
		add_name(&t, m->name);
	}
	kedge__table_print(&t, stdout);
	printf("\n");
	kedge__table_init(&t, "rlrrl");
	for (size_t i = 0; i < 5; i++)
		kedge__table_text(&t, (const char *const[]){"OPEN", "KIND", "OFFSET", "BYTES", "NAME"}[i]);
	for (size_t i = 0; i < image->descriptors.count; i++) {
		const struct kedge__process_descriptor *d = &image->descriptors.at[i];

		kedge__table_number(&t, d->number);
		kedge__table_add(&t, "%s%s", descriptor_kind(d->kind), d->contents ? ", with contents" : "");
		kedge__table_number(&t, d->offset);
		kedge__table_number(&t, d->bytes);
		add_name(&t, d->path);
	}
	kedge__table_print(&t, stdout);
}

/* ------------------------------------------------------------------ JSON */

static json_t *threads_json(const struct kedge__process_image *image)
{
	json_t *list = kedge__json_array();

	for (size_t i = 0; i < image->threads.count; i++) {
		json_t *o = kedge__json_object();

		kedge__json_uint(o, "id", image->threads.at[i].id);
		kedge__json_text(o, "name", image->threads.at[i].name);
		kedge__json_add(list, o);
	}
	return list;
}

static json_t *mappings_json(const struct kedge__process_image *image)
{
	json_t *list = kedge__json_array();
	char text[4];

	for (size_t i = 0; i < image->mappings.count; i++) {
		const struct kedge__process_mapping *m = &image->mappings.at[i];
		json_t *o = kedge__json_object();

		kedge__json_uint(o, "start", m->start);
		kedge__json_uint(o, "bytes", m->end - m->start);
		kedge__json_text(o, "rights", rights(m, text));
		kedge__json_text(o, "kind", mapping_kind(m->kind));
		kedge__json_text(o, "name", m->name);
		kedge__json_add(list, o);
	}
	return list;
}

static json_t *descriptors_json(const struct kedge__process_image *image)
{
	json_t *list = kedge__json_array();

	for (size_t i = 0; i < image->descriptors.count; i++) {
		const struct kedge__process_descriptor *d = &image->descriptors.at[i];
		json_t *o = kedge__json_object();

		kedge__json_uint(o, "number", d->number);
		kedge__json_text(o, "kind", descriptor_kind(d->kind));
		kedge__json_uint(o, "offset", d->offset);
		kedge__json_uint(o, "bytes", d->bytes);
		kedge__json_set(o, "contents", json_boolean(d->contents));
		kedge__json_text(o, "name", d->path);
		kedge__json_add(list, o);
	}
	return list;
}

static void print_json(const struct kedge__process_image *image)
{
	json_t *o = kedge__json_object();
	char *command = command_text(image);

	kedge__json_text(o, "command", command);
	kedge__json_text(o, "directory", image->cwd);
	kedge__json_text(o, "kernel", image->release);
	kedge__json_set(o, "threads", threads_json(image));
	kedge__json_set(o, "mappings", mappings_json(image));
	kedge__json_set(o, "descriptors", descriptors_json(image));
	kedge__free(command);
	kedge__json_print(o);
}

/* ------------------------------------------------------------------ the region */

static int read_image(const struct kedge__show *s, struct kedge__lineage *l, struct kedge__pool *pool,
		      struct kedge__process_image *image, struct kedge__error *err)
{
	const struct kedge__segment *top = kedge__lineage_top(l);
	struct kedge__restore_target target = {0, NULL, NULL, false};
	struct kedge__restore_stats stats = {0};
	uint64_t bytes;
	uint8_t *data;
	int rc;

	while (target.region < top->region_count &&
	       strcmp(top->regions[target.region].name, KEDGE__PROCESS_REGION) != 0)
		target.region++;
	if (target.region == top->region_count)
		return kedge__error_set(err, KEDGE_E_NOTFOUND, 0,
					"it is not of a process of 'kedge run --transparent'");
	bytes = top->regions[target.region].bytes;
	data = kedge__malloc((size_t)bytes + 1);
	if (!data)
		return kedge__error_nomem(err);
	target.data = data;
	rc = kedge__restore_fill(l, pool, kedge__job_settings_io(&s->place.settings), &target, 1, NULL, NULL, &stats,
				 err);
	if (!rc)
		rc = kedge__process_image_decode(data, (size_t)bytes, image, err);
	kedge__free(data);
	return rc;
}

int kedge__show_process(const struct kedge__show *s)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__process_image image = {0};
	struct kedge__lineage *l = NULL;
	struct kedge__pool *pool = NULL;
	int rc = kedge__tool_pool(&s->place.settings, &pool, &err);

	if (!rc)
		rc = kedge__lineage_open((struct kedge__catalog **)s->place.levels, s->place.level_count, s->version,
					 s->segment_at, &l, &err);
	if (!rc)
		rc = read_image(s, l, pool, &image, &err);
	if (!rc && s->place.json)
		print_json(&image);
	else if (!rc)
		print_text(&image);
	kedge__process_image_done(&image);
	kedge__lineage_close(l);
	kedge__pool_free(pool);
	return rc ? kedge__tool_fail(s->usage.command, &err, "cannot show the process of version %llu of %s",
				     (unsigned long long)s->version, s->place.name)
		  : 0;
}
