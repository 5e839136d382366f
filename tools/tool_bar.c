/* SPDX-License-Identifier: BSD-3-Clause */
/* bar: progress on a terminal, redrawn a few times a second, and never anywhere else. */
#include "tool.h"
#include <unistd.h>

enum { CELLS = 30 };

void kedge__bar_init(struct kedge__bar *bar, const char *label, bool enabled)
{
	bar->on = enabled && isatty(STDERR_FILENO);
	bar->label = label;
	bar->began = kedge__clock_seconds();
	bar->shown = 0;
	pthread_mutex_init(&bar->mutex, NULL);
}

const char *kedge__bar_left(double seconds, char buf[KEDGE__TEXT_ROOM])
{
	unsigned long s = seconds > 0 && seconds < 1e9 ? (unsigned long)(seconds + 0.5) : 0;

	if (s == 0)
		buf[0] = '\0';
	else if (s < 100)
		snprintf(buf, KEDGE__TEXT_ROOM, ", %lu s left", s);
	else if (s < 3600)
		snprintf(buf, KEDGE__TEXT_ROOM, ", %lu min %02lu s left", s / 60, s % 60);
	else
		snprintf(buf, KEDGE__TEXT_ROOM, ", %lu h %02lu min left", s / 3600, s / 60 % 60);
	return buf;
}

static void draw(struct kedge__bar *bar, uint64_t done, uint64_t total, double now)
{
	double share = total ? (double)KEDGE__MIN(done, total) / (double)total : 0;
	double rate = now > bar->began ? (double)done / (now - bar->began) : 0;
	char have[KEDGE__TEXT_ROOM], all[KEDGE__TEXT_ROOM], each[KEDGE__TEXT_ROOM], left[KEDGE__TEXT_ROOM],
	    cells[CELLS + 1];
	/* What the first second says of the speed is not worth repeating. */
	double seconds = rate > 0 && done < total && now - bar->began > 1 ? (double)(total - done) / rate : 0;

	memset(cells, '.', CELLS);
	memset(cells, '#', (size_t)(share * CELLS));
	cells[CELLS] = '\0';
	fprintf(stderr, "\r\033[K%-8s [%s] %3.0f%%  %s of %s, %s/s%s", bar->label, cells, share * 100,
		kedge__text_bytes(done, have), kedge__text_bytes(total, all), kedge__text_bytes((uint64_t)rate, each),
		kedge__bar_left(seconds, left));
	fflush(stderr);
}

void kedge__bar_update(void *ctx, uint64_t done, uint64_t total)
{
	struct kedge__bar *bar = ctx;
	double now;

	/* A worker that finds another one drawing has better things to do than to wait. */
	if (!bar->on || pthread_mutex_trylock(&bar->mutex) != 0)
		return;
	now = kedge__clock_seconds();
	if (now - bar->shown >= 0.1) {
		bar->shown = now;
		draw(bar, done, total, now);
	}
	pthread_mutex_unlock(&bar->mutex);
}

void kedge__bar_label(struct kedge__bar *bar, const char *label)
{
	pthread_mutex_lock(&bar->mutex);
	if (strcmp(bar->label, label) != 0) {
		bar->label = label;
		bar->began = kedge__clock_seconds();
		bar->shown = 0;
	}
	pthread_mutex_unlock(&bar->mutex);
}

void kedge__bar_wipe(struct kedge__bar *bar)
{
	pthread_mutex_lock(&bar->mutex);
	if (bar->on && bar->shown > 0)
		fputs("\r\033[K", stderr);
	bar->shown = 0;
	pthread_mutex_unlock(&bar->mutex);
}

void kedge__bar_done(struct kedge__bar *bar)
{
	kedge__bar_wipe(bar);
	bar->on = false;
	pthread_mutex_destroy(&bar->mutex);
}
