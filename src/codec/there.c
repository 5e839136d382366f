/* SPDX-License-Identifier: BSD-3-Clause */
/* What GPUs have kernels for (src/gpu). */
#include "codec/codec_table.h"

static bool planes_there(const struct kedge__codec_choice *choice, enum kedge_type type, struct kedge__gpu_how *how,
			 uint16_t *param)
{
	unsigned width = choice->level ? (unsigned)choice->level : kedge__element_width(type);

	*how = (struct kedge__gpu_how){.codec = KEDGE__GPU_PLANES, .width = width, .steps = choice->steps};
	*param = (uint16_t)(kedge__width_log2(width) << KEDGE__WIDTH_SHIFT | choice->steps << KEDGE__STEP_SHIFT);
	return width > 1;
}

bool kedge__codec_there(const struct kedge__codec_choice *choice, enum kedge_type type, struct kedge__gpu_how *how,
			uint16_t *param)
{
	if (choice->automatic || !choice->codec || choice->second || choice->near || choice->steps & KEDGE__STEP_BASE)
		return false;
	if (choice->codec->id == KEDGE__CODEC_PLANES)
		return planes_there(choice, type, how, param);
	*param = 0;
	*how = (struct kedge__gpu_how){.codec =
					   choice->codec->id == KEDGE__CODEC_LZ4 ? KEDGE__GPU_LZ4 : KEDGE__GPU_DEFLATE};
	/* Who wants more than the usual level of deflate gets it from the processor. */
	return choice->codec->id == KEDGE__CODEC_LZ4 ||
	       (choice->codec->id == KEDGE__CODEC_DEFLATE && choice->level <= choice->codec->preset_level);
}
