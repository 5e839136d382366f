#include "store/internal.h"

void kedge__shared_error_init(struct kedge__shared_error *shared)
{
	pthread_mutex_init(&shared->mutex, NULL);
	shared->first = (struct kedge__error)KEDGE__ERROR_INIT;
}

int kedge__shared_error_take(struct kedge__shared_error *shared, struct kedge__error *err)
{
	int code = err->code;

	pthread_mutex_lock(&shared->mutex);
	if (!shared->first.code)
		kedge__error_move(&shared->first, err);
	pthread_mutex_unlock(&shared->mutex);
	kedge__error_done(err);
	return code;
}

int kedge__shared_error_done(struct kedge__shared_error *shared, int rc, struct kedge__error *err)
{
	pthread_mutex_destroy(&shared->mutex);
	if (shared->first.code) {
		rc = shared->first.code;
		kedge__error_move(err, &shared->first);
	}
	return rc;
}
