/* SPDX-License-Identifier: BSD-3-Clause */
/* restore: files that appear under a directory all at once, or not at all. */
#ifndef KEDGE_TOOLS_RESTORE_H
#define KEDGE_TOOLS_RESTORE_H

#include "tool.h"
#include "tool_tree.h"

/* ------------------------------------------------------------------ restore_files.c */

enum kedge__output_kind {
	KEDGE__OUTPUT_HELD,   /* a file whose bytes are in memory until it is settled */
	KEDGE__OUTPUT_MAPPED, /* a large one, mapped until then */
	KEDGE__OUTPUT_NODE,   /* a symbolic link, FIFO or device */
	KEDGE__OUTPUT_LINK,   /* another name of a file */
	KEDGE__OUTPUT_GONE,   /* it was dropped */
};

enum kedge__output_form { /* of what a file is filled with */
	KEDGE__FILLED_FILE,  /* its bytes */
	KEDGE__FILLED_PLAIN, /* its plain form */
	KEDGE__FILLED_ANY,   /* nobody knows: what says it is lost */
};

struct kedge__output {          /* one file on its way */
	enum kedge__output_kind kind;
	char *temporary, *path; /* temporary: NULL before it is there, and once it has its name */
	char *target;           /* of a link: the path of the file */
	const struct kedge__tree_entry *entry; /* what it is beside its bytes; NULL: nobody knows */
	enum kedge__output_form form;
	bool holes;             /* it had some */
	void *data;             /* while it is filled */
	size_t bytes;           /* of that */
	uint64_t file_bytes;    /* of the file, as far as is known */
	size_t noted;           /* it is the file of this number in what is printed at the end; 0: not in it */
	int fd;
};

struct kedge__output_dir {
	char *path;
	const struct kedge__tree_entry *entry;
};

struct kedge__notes { /* what could not be set, and was said */
	const char *command; /* that speaks */
	size_t count;
};

struct kedge__outputs {
	const char *dir;
	bool sync;
	bool elsewhere; /* a part of it is on another file system */
	uint64_t device;
	uint64_t next;  /* for temporary names */
	size_t settled; /* those before it are filled and closed */
	struct kedge__notes notes;
	bool salvage;   /* what cannot be written is said, counted, and left out: nothing else suffers */
	bool keep;      /* what is there already is not replaced */
	size_t left_out;
	int left_status; /* the exit code for the worst of them */
	char *folder;   /* that was seen to last */
	struct kedge__pool *pool; /* that packs what files keep packed; not owned */
	KEDGE__ARRAY(struct kedge__output) list;
	KEDGE__ARRAY(struct kedge__output_dir) dirs; /* that get what they are when all is in them */
	KEDGE__ARRAY(char *) made; /* directories that were not there, those that others are in first; owned */
	bool committed;
};

struct kedge__output_spec {
	int64_t rank; /* negative: not in a folder of its rank */
	const char *name;
	uint64_t bytes;
	const struct kedge__tree_entry *entry; /* must stay valid until commit; NULL: none */
	bool holes;   /* what is not reserve()d is not allocated */
	enum kedge__output_form form;
	uint64_t file_bytes; /* of the file, as far as is known */
};

/*
 * A file below DIR, under a temporary name; *DATA is its contents to be filled in, zero if it has holes, and NULL if it has no bytes.
 * The name must be a plain relative path: KEDGE_E_MISMATCH if it is absolute, has "." or ".." or an empty component, or passes a
 * symbolic link below DIR.
 */
int kedge__outputs_add(struct kedge__outputs *o, const struct kedge__output_spec *spec, void **data, struct kedge__error *err);
/* These bytes of the file that was added last will be written. */
int kedge__outputs_reserve(struct kedge__outputs *o, uint64_t at, uint64_t bytes, struct kedge__error *err);
/* A directory, at once; its mode and times come with the commit. */
int kedge__outputs_directory(struct kedge__outputs *o, const struct kedge__output_spec *spec, struct kedge__error *err);
/* A symbolic link, FIFO or device. */
int kedge__outputs_node(struct kedge__outputs *o, const struct kedge__output_spec *spec, struct kedge__error *err);
/* Another name of the file TARGET, which is one of the outputs. */
int kedge__outputs_link(struct kedge__outputs *o, const struct kedge__output_spec *spec, const char *target, struct kedge__error *err);
/* Output I, a file, will not be there after all. */
void kedge__outputs_drop(struct kedge__outputs *o, size_t i);
/* All files added so far are filled: write and close them. */
int kedge__outputs_settle(struct kedge__outputs *o, struct kedge__error *err);
/* Make all durable and rename them to their names. After a failure those that were renamed stay. */
int kedge__outputs_commit(struct kedge__outputs *o, struct kedge__error *err);
/* Remove what was not committed, and directories that were made for it; free everything. */
void kedge__outputs_done(struct kedge__outputs *o);

/* ------------------------------------------------------------------ restore_holes.c */

/* Pages of OUT, a mapped file, that were filled with zeros become holes again. */
void kedge__output_dig(const struct kedge__output *out);

/* ------------------------------------------------------------------ restore_equal.c */

/* OUT is filled, and not with the file's bytes: write these. */
int kedge__output_rebuild(const struct kedge__output *out, struct kedge__pool *pool, struct kedge__error *err);
/* The file whose plain form is the BYTES bytes at DATA, to standard output. */
int kedge__output_print(const void *data, uint64_t bytes, const char *name, struct kedge__pool *pool, struct kedge__error *err);

/* ------------------------------------------------------------------ restore_metadata.c */

/* Give what is at PATH, or open as FD if that is not -1, the owner (as root), mode, attributes and time of ENTRY. What the file system
 * or the user's rights do not allow is said, once for each kind, and counted in NOTES. */
int kedge__metadata_set(int fd, const char *path, const struct kedge__tree_entry *entry, struct kedge__notes *notes, struct kedge__error *err);

/* ------------------------------------------------------------------ restore_tree.c */

/* What the user asked for: names, directories, patterns. */
struct kedge__wanted {
	char *const *words;
	char **names; /* the same, as names in a version; NULL: all of it */
	bool *found;
	size_t count; /* 0: everything */
	const struct kedge__grouping *grouping; /* of the version; NULL: its ranks are segments */
	uint64_t rank; /* with a grouping: nothing else but this rank's; UINT64_MAX: not given */
	size_t of_rank; /* names of that rank so far */
};

void kedge__wanted_init(struct kedge__wanted *w, char *const *words, size_t count);
void kedge__wanted_done(struct kedge__wanted *w);
bool kedge__wanted_fits(struct kedge__wanted *w, const char *name, bool directory);
/* Only some of what there is. */
bool kedge__wanted_some(const struct kedge__wanted *w);

/* The tree of one rank of a version, and what of it is restored. */
struct kedge__restore_tree {
	struct kedge__tree tree;
	bool present;
	bool *chosen;
	size_t *stands_for; /* of a file that is not chosen, but a link to it is: that link; else SIZE_MAX */
};

void kedge__restore_tree_choose(struct kedge__restore_tree *t, struct kedge__wanted *w); /* of the tree that it has */
void kedge__restore_tree_done(struct kedge__restore_tree *t);
/* What region NAME becomes; NULL: nothing. */
const struct kedge__tree_entry *kedge__restore_tree_output(const struct kedge__restore_tree *t, const char *name);
/* Directories, before the files; then links and nodes, after them. */
int kedge__restore_tree_directories(const struct kedge__restore_tree *t, struct kedge__outputs *o, int64_t rank, struct kedge__error *err);
int kedge__restore_tree_links(const struct kedge__restore_tree *t, struct kedge__outputs *o, int64_t rank, struct kedge__error *err);

/* ------------------------------------------------------------------ restore_groups.c: files of many ranks in few segments */

/* The segments that have what is wanted, as far as names tell; kedge__free(). NULL: none has this rank. */
bool *kedge__restore_segments(const struct kedge__wanted *w);
/* Those were looked into, and others need not be. TREE is that of the first, if it was; else NULL. */
bool kedge__restore_settled(const struct kedge__wanted *w, const struct kedge__tree *tree);

/* ------------------------------------------------------------------ restore.c, for `kedge unpack` and `kedge cat`, too */

struct kedge__restore {
	struct kedge__usage usage;
	struct kedge__place place;
	const char *which;       /* the version, as written; NULL: not given */
	const char *dir, *pages; /* pages: the name of the index, if the version has a page image */
	uint64_t version, rank;  /* KEDGE__NO_VERSION, UINT64_MAX: not given */
	struct kedge__wanted wanted;
	KEDGE__ARRAY(struct kedge__restore_tree *) trees; /* of all ranks so far */
	bool to_stdout, written; /* something is on standard output: no other version may follow */
	bool copy;               /* what goes to DIR is a temporary copy, and nothing that the user asked for */
	bool salvage;            /* a file that cannot be had is left out, and the others come */
	size_t left_out;
	int left_status;         /* the exit code for the worst of them */
	uint64_t rate;           /* UINT64_MAX: not given */
	struct kedge__bucket bucket;
	struct kedge__pool *pool;
	struct kedge__bar bar;
	struct kedge__outputs outputs;
	size_t made;        /* directories of DIR that were not there */
	bool output_failed; /* the version was fine; trying another one would not help */
	const char *lacks;  /* a file that was asked for, and that it does not have */
	json_t *passed, *regions;
	uint64_t bytes, bytes_read;
	size_t files, page_count;
};

#define KEDGE__RESTORE_INIT {.version = KEDGE__NO_VERSION, .rank = UINT64_MAX, .rate = UINT64_MAX}

int kedge__restore_run(struct kedge__restore *r); /* an exit code, after messages */

/* From now on, and during kedge__restore_run() anyway, a signal ends the work in order between two groups of regions,
 * without temporary files left behind; a second one ends the process at once. */
void kedge__restore_catch_signals(void);
bool kedge__restore_interrupted(void); /* a signal asked this process to end during one of them */
void kedge__restore_done(struct kedge__restore *r);

#endif
