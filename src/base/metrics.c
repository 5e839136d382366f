/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/metrics.h"

#include <math.h>
#include <stdio.h>

static void put(struct kedge__metrics *m, const char *bytes, size_t n)
{
	if (!kedge__array_reserve(&m->text, m->text.count + n + 1)) {
		m->failed = true;
		return;
	}
	memcpy(m->text.at + m->text.count, bytes, n);
	m->text.count += n;
	m->text.at[m->text.count] = '\0';
}

static void put_text(struct kedge__metrics *m, const char *text)
{
	put(m, text, strlen(text));
}

static void put_escaped(struct kedge__metrics *m, const char *text)
{
	while (*text) {
		size_t n = kedge__utf8_bytes(text);

		if (*text == '\n')
			put_text(m, "\\n");
		else if (*text == '\\' || *text == '"')
			put(m, (const char[]){'\\', *text}, 2);
		else if (n)
			put(m, text, n);
		else
			put_text(m, "\xef\xbf\xbd");
		text += n ? n : 1;
	}
}

/* HELP is one of ours: a line without backslashes. */
void kedge__metrics_family(struct kedge__metrics *m, const char *name, enum kedge__metric_type type, const char *help)
{
	const char *const words[] = {
	    "# HELP ", name, " ", help, "\n# TYPE ", name, type == KEDGE__METRIC_COUNTER ? " counter\n" : " gauge\n"};

	m->name = name;
	for (size_t i = 0; i < KEDGE__COUNT(words); i++)
		put_text(m, words[i]);
}

static void sample(struct kedge__metrics *m, const struct kedge__metric_label *labels, const char *value)
{
	put_text(m, m->name);
	for (const struct kedge__metric_label *l = labels; l && l->name; l++) {
		put_text(m, l == labels ? "{" : ",");
		put_text(m, l->name);
		put_text(m, "=\"");
		put_escaped(m, l->value);
		put_text(m, "\"");
	}
	put_text(m, labels && labels->name ? "} " : " ");
	put_text(m, value);
	put_text(m, "\n");
}

void kedge__metrics_uint(struct kedge__metrics *m, const struct kedge__metric_label *labels, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	sample(m, labels, text);
}

void kedge__metrics_real(struct kedge__metrics *m, const struct kedge__metric_label *labels, double value)
{
	char text[64];

	if (isfinite(value))
		snprintf(text, sizeof(text), "%.15g", value);
	else
		strcpy(text, isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
	sample(m, labels, text);
}

void kedge__metrics_one(struct kedge__metrics *m, const char *name, enum kedge__metric_type type, const char *help,
			uint64_t value)
{
	kedge__metrics_family(m, name, type, help);
	kedge__metrics_uint(m, NULL, value);
}

int kedge__metrics_end(struct kedge__metrics *m, char **text, size_t *bytes, struct kedge__error *err)
{
	int rc = 0;

	put(m, "", 0); /* the zero byte of an empty text */
	if (m->failed)
		rc = kedge__error_nomem(err);
	if (rc) {
		kedge__array_done(&m->text);
	} else {
		*text = m->text.at;
		*bytes = m->text.count;
	}
	*m = (struct kedge__metrics){.failed = false};
	return rc;
}
