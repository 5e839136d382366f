/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/base.h"

#include <errno.h>
#include <stdio.h>

const char *kedge_strerror(int code)
{
	switch (code) {
	case KEDGE_OK:
		return "no error";
#define KEDGE_X(name, value, text)                                                                                     \
	case KEDGE_E_##name:                                                                                           \
		return text;
		KEDGE_ERRORS(KEDGE_X)
#undef KEDGE_X
	}
	return "unknown error code";
}

void kedge__error_done(struct kedge__error *err)
{
	if (!err)
		return;
	kedge__free(err->text);
	*err = (struct kedge__error)KEDGE__ERROR_INIT;
}

/* The old text goes last: the arguments of the new one may point into it. */
static void replace_text(struct kedge__error *err, char *text)
{
	char *old = err->text;

	err->text = text;
	kedge__free(old);
}

static char *append_errno(char *text, int sys_errno)
{
	char buffer[128];
	char *joined;

	if (!text || !sys_errno)
		return text;
	joined = kedge__asprintf("%s: %s", text, strerror_r(sys_errno, buffer, sizeof(buffer)));
	if (!joined)
		return text;
	kedge__free(text);
	return joined;
}

int kedge__error_set(struct kedge__error *err, int code, int sys_errno, const char *fmt, ...)
{
	int saved = errno;
	va_list args;
	char *text;

	if (!err)
		return code;
	va_start(args, fmt);
	text = kedge__vasprintf(fmt, args);
	va_end(args);
	replace_text(err, append_errno(text, sys_errno));
	err->code = code;
	err->sys_errno = sys_errno;
	errno = saved;
	return code;
}

int kedge__error_prefix(struct kedge__error *err, const char *fmt, ...)
{
	va_list args;
	char *context, *text = NULL;

	if (!err || !err->code)
		return KEDGE_E_INTERNAL;
	va_start(args, fmt);
	context = kedge__vasprintf(fmt, args);
	va_end(args);
	if (context)
		text = kedge__asprintf("%s: %s", context, kedge__error_text(err));
	kedge__free(context);
	if (text)
		replace_text(err, text);
	return err->code;
}

/* Without a text, which would need memory: kedge__error_text() falls back to that of the code. */
int kedge__error_nomem(struct kedge__error *err)
{
	if (!err)
		return KEDGE_E_NOMEM;
	kedge__error_done(err);
	err->code = KEDGE_E_NOMEM;
	err->sys_errno = ENOMEM;
	return KEDGE_E_NOMEM;
}

int kedge__error_from_errno(int sys_errno)
{
	switch (sys_errno) {
	case ENOSPC:
	case EDQUOT:
		return KEDGE_E_NOSPACE;
	case EACCES:
	case EROFS:
	case EPERM:
		return KEDGE_E_ACCESS;
	case ENOENT:
		return KEDGE_E_MISSING;
	case ENOMEM:
		return KEDGE_E_NOMEM;
	default:
		return KEDGE_E_IO;
	}
}

void kedge__error_move(struct kedge__error *to, struct kedge__error *from)
{
	struct kedge__error moved = *from;

	*from = (struct kedge__error)KEDGE__ERROR_INIT;
	if (!to) {
		kedge__error_done(&moved);
		return;
	}
	kedge__error_done(to);
	*to = moved;
}

const char *kedge__error_text(const struct kedge__error *err)
{
	if (!err)
		return kedge_strerror(KEDGE_OK);
	return err->text ? err->text : kedge_strerror(err->code);
}
