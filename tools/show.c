/* SPDX-License-Identifier: BSD-3-Clause */
/* kedge show: what one version is made of. */
#include "show.h"

static void count_extents(struct kedge__show *s)
{
	struct kedge__extent_reader map = kedge__extents_of_map(&s->segment->map);
	struct kedge__extent e;

	while (kedge__extent_next(&map, &e)) {
		s->extents[e.kind & 3].count++;
		s->extents[e.kind & 3].bytes += e.len;
	}
}

static void count_blocks(struct kedge__show *s)
{
	for (size_t i = 0; i < s->segment->block_count; i++) {
		const struct kedge__block_record *b = &s->segment->blocks[i];
		char name[KEDGE__CODEC_NAME_ROOM];
		size_t c = 0;

		kedge__codec_describe(b->codec, b->param, name);
		while (c < s->codec_count && strcmp(s->codecs[c].name, name) != 0)
			c++;
		if (c == KEDGE__COUNT(s->codecs))
			continue;
		if (c == s->codec_count)
			memcpy(s->codecs[s->codec_count++].name, name, sizeof(name));
		s->codecs[c].count++;
		s->codecs[c].raw += b->raw_bytes;
		s->codecs[c].stored += b->stored_bytes;
	}
}

/* One that is damaged, or protects other segments, is none: `kedge verify` says what is wrong with it. */
static void find_shield(struct kedge__show *s, const struct kedge__catalog *cat, uint32_t rank)
{
	char *path = kedge__shield_path(cat, s->version, rank, s->set->parts[rank].generation);

	if (!path)
		kedge__tool_no_memory();
	if (kedge__shield_open(path, &s->shield, NULL) == 0 && !kedge__shield_fits(&s->shield.shield, s->set, rank))
		kedge__shield_close(&s->shield);
	kedge__free(path);
}

/* The segment from the first level where it opens. */
static int open_segment(struct kedge__show *s, uint32_t rank)
{
	struct kedge__error err = KEDGE__ERROR_INIT;

	for (size_t i = 0; i < s->place.level_count && !s->segment; i++) {
		struct kedge__catalog *cat = s->place.levels[i];
		const struct kedge__catalog_entry *e = kedge__catalog_find(cat, s->version);
		char *path;

		if (!e || e->problem.code || rank >= e->set.ranks)
			continue;
		path = kedge__part_path(cat, s->version, rank, &e->set.parts[rank]);
		if (!path)
			kedge__tool_no_memory();
		if (kedge__segment_open(cat, path, &e->set.parts[rank], &s->segment, &err) == 0) {
			s->set = &e->set;
			find_shield(s, cat, rank);
		}
		kedge__free(path);
	}
	if (!s->segment)
		return kedge__tool_fail(s->usage.command, &err, "cannot read version %llu of %s, rank %u",
					(unsigned long long)s->version, s->place.name, rank);
	kedge__error_done(&err);
	return 0;
}

/* The versions that are needed, as far as the manifests of one level know. */
static void find_lineage(struct kedge__show *s)
{
	for (size_t i = 0; i < s->place.level_count && !s->lineage; i++)
		if (kedge__catalog_find(s->place.levels[i], s->version))
			kedge__catalog_closure(s->place.levels[i], s->version, &s->lineage, &s->lineage_count, NULL);
}

/* The one that RANK, or whoever wrote the files of that rank, has; false: there is none. */
static bool find_segment(struct kedge__show *s, const struct kedge__set *set)
{
	s->segment_at = 0;
	if (s->rank == UINT64_MAX)
		return true;
	if (set->grouping)
		return kedge__grouping_segment(set->grouping, s->rank, &s->segment_at);
	s->segment_at = (uint32_t)KEDGE__MIN(s->rank, UINT32_MAX);
	return s->rank < set->ranks;
}

static int show(struct kedge__show *s)
{
	const struct kedge__catalog_entry *e = NULL;
	int status = kedge__place_open(&s->place, &s->usage, KEDGE__PLACE_READ);

	if (status == 0)
		status = kedge__place_choose(&s->place, &s->usage, s->wanted, &s->version, &e);
	if (status)
		return status;
	if (!find_segment(s, &e->set)) {
		if (e->set.grouping)
			kedge__tool_say(s->usage.command, "version %llu of %s has no files of rank %llu",
					(unsigned long long)s->version, s->place.name, (unsigned long long)s->rank);
		else
			kedge__tool_say(s->usage.command, "version %llu of %s only has ranks 0 to %u",
					(unsigned long long)s->version, s->place.name, e->set.ranks - 1);
		return KEDGE__EXIT_NOTFOUND;
	}
	status = open_segment(s, s->segment_at);
	if (status)
		return status;
	if (s->list_files)
		return kedge__show_files(s);
	if (s->process)
		return kedge__show_process(s);
	find_lineage(s);
	count_extents(s);
	count_blocks(s);
	kedge__show_packing_count(s);
	if (s->place.json)
		kedge__show_json(s);
	else
		kedge__show_text(s);
	return KEDGE__EXIT_OK;
}

int kedge__tool_show(int argc, char **argv)
{
	struct kedge__show s = {.version = KEDGE__NO_VERSION, .rank = UINT64_MAX};
	const struct kedge__option options[] = {
	    KEDGE__OPTION_STORE(&s.place.store),
	    KEDGE__OPTION_NAME(&s.place.name),
	    KEDGE__OPTION_CHOOSE(&s.wanted, "the version to show; default: the newest"),
	    {"why", 0, KEDGE__OPTION_FLAG, &s.why, NULL, "say below what the words mean"},
	    {"rank", 0, KEDGE__OPTION_UINT, &s.rank, "R",
	     "the rank whose segment is shown (default: 0); with --files, of 'kedge save --ranks',\nonly the files "
	     "that are in it"},
	    {"files", 0, KEDGE__OPTION_FLAG, &s.list_files, NULL, "list the files, as ls -l does, and nothing else"},
	    {"process", 0, KEDGE__OPTION_FLAG, &s.process, NULL,
	     "list the threads, mappings and open files of a process of 'kedge run --transparent', and nothing else"},
	    {"extents", 0, KEDGE__OPTION_FLAG, &s.list_extents, NULL, "list every extent"},
	    {"blocks", 0, KEDGE__OPTION_FLAG, &s.list_blocks, NULL, "list every block"},
	    KEDGE__OPTION_L2(&s.place.l2),
	    KEDGE__OPTION_SET(&s.place.sets),
	    KEDGE__OPTION_JSON(&s.place.json),
	    KEDGE__OPTION_QUIET(&s.place.quiet),
	};
	int first, status;

	s.usage = (struct kedge__usage){
	    .command = "kedge show",
	    .operands = "[PACK]",
	    .about =
		"Shows what a version consists of: its regions; its extents (whether bytes are in this segment, at the "
		"same\n"
		"place in the parent, copied from elsewhere, or a fill); its blocks, how those of each region were\n"
		"compressed and why; and the versions it needs. PACK is a file that 'kedge pack' made.",
	    .options = options,
	    .option_count = KEDGE__COUNT(options),
	    .example = "kedge show -s store -n job -v 3 --extents",
	};
	if (kedge__options_parse(&s.usage, argc, argv, &first, &status)) {
		status = kedge__place_pack(&s.place, &s.usage, argc, argv, first);
		status = status ? status : show(&s);
	}
	kedge__segment_close(s.segment);
	kedge__shield_close(&s.shield);
	kedge__free(s.lineage);
	kedge__free(s.packed);
	kedge__place_done(&s.place);
	return status;
}
