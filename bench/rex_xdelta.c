/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_rex_xdelta: the command xdelta3 on files, each increment against the image before it. */
#include "rex.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

bool kedge__rex_xdelta_there(void)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t n = strcspn(path, ":");
		char *file = kedge__asprintf("%.*s/xdelta3", (int)n, path);
		bool there = file && access(file, X_OK) == 0;

		kedge__free(file);
		if (there)
			return true;
		path += n + (path[n] == ':');
	}
	return false;
}

/* HOW is -e or -d; SOURCE may be NULL. */
static int run(char *how, char *source, size_t source_bytes, char *in, char *out, struct kedge__error *err)
{
	char window[32];
	char *with[] = {"xdelta3", how, "-f", "-q", "-B", window, "-s", source, in, out, NULL};
	char *without[] = {"xdelta3", how, "-f", "-q", in, out, NULL};
	int status, rc;
	pid_t pid;

	/* The whole source is looked at, however large. */
	snprintf(window, sizeof(window), "%zu", KEDGE__MAX(source_bytes, (size_t)1 << 20));
	rc = posix_spawnp(&pid, "xdelta3", NULL, NULL, source ? with : without, environ);
	if (rc)
		return kedge__error_set(err, KEDGE_E_IO, rc, "cannot run xdelta3");
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return kedge__error_set(err, KEDGE_E_IO, errno, "cannot wait for xdelta3");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return kedge__error_set(err, KEDGE_E_IO, 0, "xdelta3 %s failed on %s", how, in);
	return 0;
}

/* What is not its own work: the image before and the increment are there as files. The names "source" and "raw" do not
 * count as stored. */
int kedge__rex_xdelta_prepare(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			      struct kedge__error *err)
{
	char *raw = kedge__rex_path(k, "raw", 0), *source = kedge__rex_path(k, "source", 0);
	int rc = kedge__rex_write(raw, inc->file, inc->bytes, err);

	if (rc == 0 && step) {
		const struct kedge__rex_moment *before = kedge__rex_series_at(k->series, step - 1);

		rc = kedge__rex_write(source, before->data, before->places.count * KEDGE__PAGE_BYTES, err);
	}
	kedge__free(raw);
	kedge__free(source);
	return rc;
}

int kedge__rex_xdelta_keep(struct kedge__rex_keeper *k, size_t step, const struct kedge__rex_increment *inc,
			   struct kedge__error *err)
{
	char *raw = kedge__rex_path(k, "raw", 0), *source = kedge__rex_path(k, "source", 0);
	char *out = kedge__rex_path(k, "increment", step);
	int rc = run("-e", step ? source : NULL, k->series->room * KEDGE__PAGE_BYTES, raw, out, err);

	(void)inc;
	kedge__free(raw);
	kedge__free(source);
	kedge__free(out);
	return rc;
}

/* The command reads the increment by itself: what it reads is taken here. */
static int restore_step(struct kedge__rex_keeper *k, size_t step, char *source, char *raw, uint8_t *image,
			struct kedge__error *err)
{
	char *in = kedge__rex_path(k, "increment", step);
	uint8_t *file = NULL;
	size_t bytes;
	int rc = kedge__rex_read(in, &k->reads, &file, &bytes, err);

	kedge__free(file);
	file = NULL;
	if (rc == 0 && step) {
		const struct kedge__rex_moment *before = kedge__rex_series_at(k->series, step - 1);

		rc = kedge__rex_write(source, image, before->places.count * KEDGE__PAGE_BYTES, err);
	}
	if (rc == 0)
		rc = run("-d", step ? source : NULL, k->series->room * KEDGE__PAGE_BYTES, in, raw, err);
	if (rc == 0)
		rc = kedge__rex_read(raw, NULL, &file, &bytes, err);
	if (rc == 0)
		rc = kedge__rex_increment_apply(file, bytes, image, k->series->room, err);
	kedge__free(file);
	kedge__free(in);
	return rc;
}

int kedge__rex_xdelta_restore(struct kedge__rex_keeper *k, uint8_t *image, struct kedge__error *err)
{
	char *source = kedge__rex_path(k, "source", 0), *raw = kedge__rex_path(k, "raw", 0);
	int rc = 0;

	for (size_t step = 0; rc == 0 && step < k->series->steps; step++)
		rc = restore_step(k, step, source, raw, image, err);
	kedge__free(source);
	kedge__free(raw);
	return rc;
}
