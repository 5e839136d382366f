/* SPDX-License-Identifier: BSD-3-Clause */
/* pccr: when compressing pays against a file system that many processes share (continuous reading, docs/models.md). */
#include "simulate/simulate.h"
#include <math.h>

static int check(const struct kedge__pccr *in, struct kedge__error *err)
{
	const struct {
		const char *what;
		double value;
		bool may_be_zero;
	} all[] = {
	    {"size", in->size, false},
	    {"collection time", in->collect, true},
	    {"compression time", in->compress, true},
	    {"pipelined compression time", in->compress_pipelined, true},
	    {"file system bandwidth", in->fs_bandwidth, false},
	    {"bandwidth of a process", in->process_bandwidth, false},
	    {"compression ratio", in->ratio, false},
	    {"number of processes", in->processes, false},
	};

	for (size_t i = 0; i < KEDGE__COUNT(all); i++)
		if (!isfinite(all[i].value) || all[i].value < 0 || (all[i].value == 0 && !all[i].may_be_zero))
			return kedge__error_set(err, KEDGE_E_ARG, 0, "the %s is %g", all[i].what, all[i].value);
	if (in->ratio > 1)
		return kedge__error_set(err, KEDGE_E_ARG, 0,
					"the compression ratio is %g: it is compressed / raw size, at most 1",
					in->ratio);
	return 0;
}

static double beneficial_serial(const struct kedge__pccr *in, double k, double k_compressed)
{
	double unit = in->fs_bandwidth / in->size; /* processes that a second of the file system serves */
	double within = k + in->compress * unit;

	if (in->compress == 0)
		return 1;
	if (within <= k_compressed)
		return within;
	return in->ratio < 1 ? in->compress * unit / (1 - in->ratio) : INFINITY;
}

/* If the pipeline is slower than the write alone it pays from where the write takes as long, unless its own output
 * fills the file system before that. */
static double beneficial_pipelined(const struct kedge__pccr *in, double stage)
{
	if (stage <= in->collect + in->size / in->process_bandwidth)
		return 1;
	return (stage - in->collect) * in->fs_bandwidth / in->size;
}

int kedge__pccr_evaluate(const struct kedge__pccr *in, struct kedge__pccr_times *out, struct kedge__error *err)
{
	double stage = KEDGE__MAX(in->collect, in->compress_pipelined);
	double alone = in->size / in->process_bandwidth;
	double shared = in->processes * in->size / in->fs_bandwidth;
	int rc = check(in, err);

	if (rc != 0)
		return rc;
	out->uncompressed = in->collect + KEDGE__MAX(alone, shared);
	out->serial = in->collect + in->compress + KEDGE__MAX(alone, in->ratio * shared);
	out->pipelined = KEDGE__MAX(stage, in->ratio * shared);
	out->saturation = in->fs_bandwidth / in->process_bandwidth;
	out->saturation_compressed = out->saturation / in->ratio;
	out->saturation_pipelined = stage * in->fs_bandwidth / (in->ratio * in->size);
	out->beneficial_serial = beneficial_serial(in, out->saturation, out->saturation_compressed);
	out->beneficial_pipelined = beneficial_pipelined(in, stage);
	return 0;
}
