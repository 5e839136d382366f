/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor.h"
#include "gpu/gpu.h"
#include "stage/stage.h"

#include <stdlib.h>

#define PATIENCE 3.0 /* seconds for a staging server */

static void look_mpi(struct kedge__doctor *d)
{
	bool runs =
	    kedge__doctor_command("mpirun") || kedge__doctor_command("mpiexec") || kedge__doctor_command("srun");

	if (!KEDGE_BUILD_MPI)
		kedge__doctor_add(d, KEDGE__SYMPTOM_NO, "MPI",
				  "build with mpicc for kedge_open_mpi(3); struct kedge_group needs none",
				  "this build has no libkedge-mpi");
	else if (!runs)
		kedge__doctor_add(d, KEDGE__SYMPTOM_NO, "MPI",
				  "load the module of the MPI that your program was built with",
				  "libkedge-mpi is there, but no mpirun, mpiexec or srun in $PATH");
	else
		kedge__doctor_add(d, KEDGE__SYMPTOM_OK, "MPI", NULL, "libkedge-mpi is there, and so is a launcher");
}

static void look_gpu(struct kedge__doctor *d)
{
	struct kedge__error why = KEDGE__ERROR_INIT;
	struct kedge__gpu_about about;
	char memory[KEDGE__TEXT_ROOM];

	if (kedge__gpu_about(&about, &why))
		kedge__doctor_add(d, KEDGE__SYMPTOM_NO, "GPU", NULL, "none: %s", kedge__error_text(&why));
	else if (!kedge__gpu_kernels)
		kedge__doctor_add(d, KEDGE__SYMPTOM_NOTE, "GPU",
				  "build with nvcc: until then regions on GPUs are copied as a whole",
				  "%s; this build has no kernels", about.name);
	else
		kedge__doctor_add(d, KEDGE__SYMPTOM_OK, "GPU", NULL, "%s, %s", about.name,
				  kedge__text_bytes(about.memory, memory));
	kedge__error_done(&why);
}

static void look_scheduler(struct kedge__doctor *d)
{
	static const struct {
		const char *variable, *command, *name;
	} known[] = {{"SLURM_JOB_ID", "scontrol", "Slurm"},
		     {"PBS_JOBID", "qstat", "PBS"},
		     {"LSB_JOBID", "bjobs", "LSF"},
		     {"FLUX_JOB_ID", "flux", "Flux"}};

	for (size_t i = 0; i < KEDGE__COUNT(known); i++) {
		const char *job = getenv(known[i].variable);

		if (job && kedge__doctor_command(known[i].command))
			kedge__doctor_add(d, KEDGE__SYMPTOM_OK, "scheduler", NULL, "%s, job %s", known[i].name, job);
		else if (job)
			kedge__doctor_add(d, KEDGE__SYMPTOM_NOTE, "scheduler", "put its commands into $PATH of the job",
					  "%s, job %s; but there is no %s to ask", known[i].name, job,
					  known[i].command);
		if (job)
			return;
	}
	for (size_t i = 0; i < KEDGE__COUNT(known); i++)
		if (kedge__doctor_command(known[i].command)) {
			kedge__doctor_add(d, KEDGE__SYMPTOM_OK, "scheduler", NULL,
					  "%s is there; this is not one of its jobs", known[i].name);
			return;
		}
	kedge__doctor_add(d, KEDGE__SYMPTOM_NO, "scheduler", NULL, "none is known here");
}

static void look_server(struct kedge__doctor *d, const struct kedge__address *a)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__link link;
	char text[KEDGE__ADDRESS_TEXT];

	kedge__address_text(a, text);
	if (kedge__link_connect(&link, a, PATIENCE, &err)) {
		kedge__doctor_add(d, KEDGE__SYMPTOM_BAD, "staging",
				  "start 'kedge serve' there, or correct stage; versions stay on L1 until it answers",
				  "%s: %s", text, kedge__error_text(&err));
	} else {
		kedge__doctor_add(d, KEDGE__SYMPTOM_OK, "staging", NULL, "%s can be reached", text);
		kedge__link_close(&link);
	}
	kedge__error_done(&err);
}

static void look_staging(struct kedge__doctor *d)
{
	struct kedge__error err = KEDGE__ERROR_INIT;
	struct kedge__address *list;
	size_t count;

	if (!d->settings.stage[0]) {
		kedge__doctor_add(d, KEDGE__SYMPTOM_NO, "staging", NULL, "not configured (%s in this build)",
				  kedge__stage_text());
		return;
	}
	if (!d->settings.l2[0])
		kedge__doctor_add(d, KEDGE__SYMPTOM_NOTE, "staging", "set l2, where the server writes",
				  "stage is set, and l2 is not");
	if (kedge__address_list(d->settings.stage, &list, &count, &err) == 0) {
		for (size_t i = 0; i < count; i++)
			look_server(d, &list[i]);
		kedge__free(list);
	}
	kedge__error_done(&err);
}

void kedge__doctor_around(struct kedge__doctor *d)
{
	look_staging(d);
	look_mpi(d);
	look_gpu(d);
	look_scheduler(d);
}
