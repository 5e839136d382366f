/* SPDX-License-Identifier: BSD-3-Clause */
/* fill: the memory of a stub becomes that of the target, and its one thread those of the target. */
#include "base/search.h"
#include "process/target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALL_SECONDS 60.0
#define MEMORY_END   UINT64_C(0x7ffffffff000)
#define GAP_FIRST    UINT64_C(0x200000000)
#define GAP_STEP     UINT64_C(0x1000000)
#define SCRATCH      UINT64_C(8192)
#define THREAD_FLAGS (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

struct fill {
	const struct kedge__process_restart *r;
	const struct kedge__process_image *image;
	struct kedge__target *t;
	const struct kedge__spaces *spaces;
	int first;
	KEDGE__ARRAY(struct kedge__process_mapping)
	kernel; /* the stub's; names are not kept, OFFSET is the index in the image */
	uint64_t gap;
	pid_t pid; /* as the target sees it */
};

/* ------------------------------------------------------------------ the kernel's own mappings */

static int find_kernel(struct fill *f, struct kedge__error *err)
{
	char *text, *line, *end;
	int rc = kedge__proc_read(f->t->pid, "maps", &text, NULL, err);

	if (rc)
		return rc;
	for (line = text; !rc && (end = strchr(line, '\n')); line = end + 1) {
		unsigned long long start, stop;
		struct kedge__process_mapping m = {0};
		char *name;

		*end = '\0';
		name = strchr(line, '[');
		if (!name || strcmp(name, "[vsyscall]") == 0 ||
		    (strncmp(name, "[vvar", 5) != 0 && strcmp(name, "[vdso]") != 0) ||
		    sscanf(line, "%llx-%llx", &start, &stop) != 2)
			continue;
		m = (struct kedge__process_mapping){.start = start, .end = stop};
		for (m.offset = 0; m.offset < f->image->mappings.count; m.offset++)
			if (strcmp(f->image->mappings.at[m.offset].name, name) == 0)
				break;
		if (m.offset == f->image->mappings.count ||
		    f->image->mappings.at[m.offset].end - f->image->mappings.at[m.offset].start != stop - start)
			rc = kedge__error_set(err, KEDGE_E_MISMATCH, 0, "the image is of another kernel, %s",
					      f->image->release);
		else if (!kedge__array_push(&f->kernel, m))
			rc = kedge__error_nomem(err);
		else if (strcmp(name, "[vdso]") == 0)
			rc = kedge__target_find_call(f->t, start, (size_t)(stop - start), err);
	}
	kedge__free(text);
	if (!rc && !f->kernel.count)
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "the new process has no vdso");
	return rc;
}

static bool overlaps(uint64_t start, uint64_t end, const struct kedge__process_mapping *m)
{
	return start < m->end && m->start < end;
}

/* Addresses that neither the stub nor the target uses, for all that has to be out of the way. */
static uint64_t find_gap(const struct fill *f)
{
	for (uint64_t at = GAP_FIRST; at < MEMORY_END - GAP_STEP; at += GAP_STEP) {
		bool free = true;

		for (size_t i = 0; free && i < f->image->mappings.count; i++)
			free = !overlaps(at, at + GAP_STEP, &f->image->mappings.at[i]);
		for (size_t i = 0; free && i < f->kernel.count; i++)
			free = !overlaps(at, at + GAP_STEP, &f->kernel.at[i]);
		if (free)
			return at;
	}
	return 0;
}

static int move(struct fill *f, struct kedge__process_mapping *m, uint64_t to, struct kedge__error *err)
{
	uint64_t bytes = m->end - m->start;
	int rc = KEDGE__LEADER_CALL(f->t, "cannot move the kernel's own memory", NULL, err, SYS_mremap, m->start, bytes,
				    bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);

	if (rc)
		return rc;
	if (f->t->call >= m->start && f->t->call < m->end)
		f->t->vdso_call = f->t->call = f->t->call - m->start + to;
	m->start = to;
	m->end = to + bytes;
	return 0;
}

/* In two steps: the places may overlap. */
static int move_kernel(struct fill *f, struct kedge__error *err)
{
	uint64_t at = f->gap + SCRATCH;
	int rc = 0;

	for (size_t i = 0; !rc && i < f->kernel.count; i++) {
		uint64_t bytes = f->kernel.at[i].end - f->kernel.at[i].start;

		rc = move(f, &f->kernel.at[i], at, err);
		at += bytes;
	}
	for (size_t i = 0; !rc && i < f->kernel.count; i++)
		rc = move(f, &f->kernel.at[i], f->image->mappings.at[f->kernel.at[i].offset].start, err);
	return rc;
}

/* Nothing is left but what the kernel has put there, and the scratch. */
static int clear(struct fill *f, struct kedge__error *err)
{
	uint64_t end = 0;
	int rc = 0;

	for (size_t i = 0; !rc && i <= f->kernel.count; i++) {
		uint64_t next = i < f->kernel.count ? f->kernel.at[i].start : MEMORY_END;

		if (next > end)
			rc = KEDGE__LEADER_CALL(f->t, "cannot unmap the memory of the new process", NULL, err,
						SYS_munmap, end, next - end);
		if (i < f->kernel.count)
			end = f->kernel.at[i].end;
	}
	if (!rc)
		rc = KEDGE__LEADER_CALL(f->t, "cannot map memory in the new process", NULL, err, SYS_mmap, f->gap,
					SCRATCH, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, UINT64_MAX, 0);
	f->t->scratch = f->t->arguments = f->gap;
	return rc;
}

/* ------------------------------------------------------------------ mappings and pages */

static int advise(struct fill *f, const struct kedge__process_mapping *m, struct kedge__error *err)
{
	static const struct {
		unsigned bit;
		int advice;
	} all[] = {
	    {KEDGE__MAPPING_NO_FORK, MADV_DONTFORK},   {KEDGE__MAPPING_WIPE, MADV_WIPEONFORK},
	    {KEDGE__MAPPING_NO_DUMP, MADV_DONTDUMP},   {KEDGE__MAPPING_HUGE, MADV_HUGEPAGE},
	    {KEDGE__MAPPING_NO_HUGE, MADV_NOHUGEPAGE}, {KEDGE__MAPPING_MERGE, MADV_MERGEABLE},
	};
	int64_t ignored;
	int rc = 0;

	for (size_t i = 0; !rc && i < KEDGE__COUNT(all); i++)
		if (m->bits & all[i].bit)
			rc = KEDGE__CALL(f->t, &f->t->threads.at[0], &ignored, err, SYS_madvise, m->start,
					 m->end - m->start, (uint64_t)all[i].advice);
	return rc;
}

/*
 * Memory without the right to write that has pages of its own had it once. To the kernel it is of another kind than
 * memory that never had it, and the two do not become one mapping again when the program gives it back.
 */
static bool was_writable(const struct fill *f, const struct kedge__process_mapping *m)
{
	const struct kedge__process_mirror *pages = f->r->mirror;
	size_t i;

	if (m->kind != KEDGE__MAPPING_ANONYMOUS || m->bits & (KEDGE__MAPPING_WRITE | KEDGE__MAPPING_EXECUTE))
		return false;
	KEDGE__PARTITION_POINT(i, pages->count, pages->sorted[i].address < m->start);
	return i < pages->count && pages->sorted[i].address < m->end;
}

static int map_one(struct fill *f, const struct kedge__process_mapping *m, struct kedge__error *err)
{
	uint64_t rights = (m->bits & 7) | (was_writable(f, m) ? PROT_WRITE : 0);
	bool file = m->kind == KEDGE__MAPPING_PRIVATE_FILE || m->kind == KEDGE__MAPPING_SHARED_FILE;
	bool shared = m->kind == KEDGE__MAPPING_SHARED_FILE || m->kind == KEDGE__MAPPING_SHARED_ANONYMOUS;
	uint64_t flags = MAP_FIXED_NOREPLACE | (shared ? MAP_SHARED : MAP_PRIVATE) | (file ? 0 : MAP_ANONYMOUS);
	char what[128];
	int rc;

	if (m->bits & KEDGE__MAPPING_GROWS_DOWN)
		flags |= MAP_GROWSDOWN | MAP_STACK;
	if (m->bits & KEDGE__MAPPING_NO_RESERVE)
		flags |= MAP_NORESERVE;
	snprintf(what, sizeof(what), "cannot map memory at 0x%llx (%.60s)", (unsigned long long)m->start, m->name);
	rc = KEDGE__LEADER_CALL(f->t, what, NULL, err, SYS_mmap, m->start, m->end - m->start, rights, flags,
				file ? (uint64_t)(f->first + (int)m->file) : UINT64_MAX, file ? m->offset : 0);
	return rc ? rc : advise(f, m, err);
}

static int map_all(struct fill *f, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < f->image->mappings.count; i++)
		if (f->image->mappings.at[i].kind != KEDGE__MAPPING_KERNEL)
			rc = map_one(f, &f->image->mappings.at[i], err);
	return rc;
}

/* The file of memory writes also where the target may not. */
static int write_pages(struct fill *f, struct kedge__error *err)
{
	const struct kedge__process_mirror *m = f->r->mirror;
	struct kedge__pieces p = {.count = 0};
	size_t map = 0;
	int rc = 0;

	for (size_t i = 0; !rc && i < m->count;) {
		const struct kedge__process_place *first = &m->sorted[i];
		const struct kedge__process_mapping *in;
		size_t n = 1;

		while (map < f->image->mappings.count && f->image->mappings.at[map].end <= first->address)
			map++;
		in = &f->image->mappings.at[map];
		if (map == f->image->mappings.count || first->address < in->start || in->kind == KEDGE__MAPPING_KERNEL)
			return kedge__error_set(err, KEDGE_E_DAMAGED, 0, "page 0x%llx belongs to no mapping",
						(unsigned long long)first->address);
		while (i + n < m->count && first[n].address == first->address + n * KEDGE__PAGE_BYTES &&
		       first[n].place == first->place + n && first[n].address < in->end)
			n++;
		p.local[p.count] = (struct iovec){m->pages + first->place * KEDGE__PAGE_BYTES, n * KEDGE__PAGE_BYTES};
		p.remote[p.count++] = (struct iovec){(void *)(uintptr_t)first->address, n * KEDGE__PAGE_BYTES};
		i += n;
		if (!(in->bits & KEDGE__MAPPING_WRITE)) {
			struct iovec last = p.local[--p.count];

			rc = kedge__target_write(f->t, first->address, last.iov_base, last.iov_len, err);
		} else if (p.count == KEDGE__PIECES) {
			rc = kedge__target_move(f->t, &p, true, err);
		}
	}
	return rc ? rc : kedge__target_move(f->t, &p, true, err);
}

/* After the pages: without any, the kernel would forget that it was writable. */
static int set_rights(struct fill *f, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < f->image->mappings.count; i++) {
		const struct kedge__process_mapping *m = &f->image->mappings.at[i];

		if (was_writable(f, m))
			rc = KEDGE__LEADER_CALL(f->t, "cannot set the rights of memory", NULL, err, SYS_mprotect,
						m->start, m->end - m->start, m->bits & 7);
	}
	return rc;
}

/* ------------------------------------------------------------------ the process */

static int set_memory_map(struct fill *f, struct kedge__error *err)
{
	struct prctl_mm_map map;
	uint64_t auxv = f->t->arguments + sizeof(map);
	int64_t brk;
	int rc;

	memset(&map, 0, sizeof(map));
	memcpy(&map, f->image->mm, 11 * 8);
	map.auxv = (__u64 *)(uintptr_t)auxv;
	map.auxv_size = (__u32)f->image->auxv.bytes;
	map.exe_fd = UINT32_MAX;
	rc = kedge__target_write(f->t, f->t->arguments, &map, sizeof(map), err);
	if (!rc)
		rc = kedge__target_write(f->t, auxv, f->image->auxv.data, (size_t)f->image->auxv.bytes, err);
	if (!rc)
		rc = KEDGE__LEADER_CALL(f->t, "cannot set the bounds of its memory", NULL, err, SYS_prctl, PR_SET_MM,
					PR_SET_MM_MAP, f->t->arguments, sizeof(map));
	if (!rc)
		rc = KEDGE__LEADER_CALL(f->t, "cannot ask for the end of its heap", &brk, err, SYS_brk, 0);
	if (!rc && (uint64_t)brk != f->image->mm[5])
		rc = kedge__error_set(err, KEDGE_E_STATE, 0, "the end of its heap cannot be set");
	return rc;
}

static int set_actions(struct fill *f, struct kedge__error *err)
{
	int rc = 0;

	for (size_t i = 0; !rc && i < f->image->actions.count; i++) {
		const struct kedge__process_action *a = &f->image->actions.at[i];
		uint64_t raw[4] = {a->handler, a->flags, a->restorer, a->mask};

		rc = kedge__target_write(f->t, f->t->arguments, raw, sizeof(raw), err);
		if (!rc)
			rc = KEDGE__LEADER_CALL(f->t, "cannot set how it treats signals", NULL, err, SYS_rt_sigaction,
						a->signal, f->t->arguments, 0, 8);
	}
	return rc;
}

static int set_descriptors(struct fill *f, struct kedge__error *err)
{
	int rc = KEDGE__LEADER_CALL(f->t, "cannot close descriptors", NULL, err, SYS_close_range, (uint64_t)f->first,
				    UINT32_MAX, 0);

	for (size_t i = 0; !rc && i < f->image->descriptors.count; i++)
		if (f->image->descriptors.at[i].flags & O_CLOEXEC)
			rc = KEDGE__LEADER_CALL(f->t, "cannot set up descriptors", NULL, err, SYS_fcntl,
						f->image->descriptors.at[i].number, F_SETFD, FD_CLOEXEC);
	return rc;
}

static int set_timers(struct fill *f, struct kedge__error *err)
{
	int rc = 0;

	for (unsigned i = 0; !rc && i < 3; i++) {
		const uint64_t *timer = f->image->timers + 4 * i;

		if (!timer[2] && !timer[3])
			continue;
		rc = kedge__target_write(f->t, f->t->arguments, timer, 4 * sizeof(*timer), err);
		if (!rc)
			rc = KEDGE__LEADER_CALL(f->t, "cannot set its timers", NULL, err, SYS_setitimer, i,
						f->t->arguments, 0);
	}
	return rc;
}

/* ------------------------------------------------------------------ threads */

static int new_thread(struct fill *f, pid_t id, struct kedge__error *err)
{
	struct kedge__tracee x = {.registers = f->t->threads.at[0].registers};
	/* struct clone_args, and the id behind it */
	uint64_t a[11] = {THREAD_FLAGS, 0, 0, 0, 0, 0, 0, 0, f->t->arguments + 80, 1, (uint64_t)id};
	int status, rc;

	/* In namespaces the stub has no right to choose; there nobody else takes the next id. */
	if (f->spaces->init || !f->pid)
		a[8] = a[9] = 0;
	if (f->spaces->init)
		rc = kedge__spaces_next_id(f->spaces, id, err);
	else
		rc = 0;
	f->t->created = 0;
	if (!rc)
		rc = kedge__target_write(f->t, f->t->arguments, a, sizeof(a), err);
	if (!rc)
		rc = KEDGE__LEADER_CALL(f->t, "cannot start a thread with its id", NULL, err, SYS_clone3,
					f->t->arguments, 80);
	if (rc)
		return rc;
	x.tid = f->t->created;
	if (!x.tid || !kedge__array_push(&f->t->threads, x))
		return kedge__error_nomem(err);
	return kedge__tracee_wait(f->t, &f->t->threads.at[f->t->threads.count - 1], CALL_SECONDS, &status, err);
}

#define OWN_CALL(f, i, result, err, ...) KEDGE__CALL((f)->t, &(f)->t->threads.at[i], result, err, __VA_ARGS__)

/* To the ids that it has now, which may be new ones: those of the image may be somebody else's. */
static int queue_signals(struct fill *f, size_t i, const struct kedge__process_blob *pending, bool shared,
			 struct kedge__error *err)
{
	int64_t process = 0, thread = 0, result = 0;
	int rc = pending->bytes ? OWN_CALL(f, i, &process, err, SYS_getpid) : 0;

	if (!rc && pending->bytes)
		rc = OWN_CALL(f, i, &thread, err, SYS_gettid);
	for (uint64_t at = 0; !rc && at < pending->bytes; at += KEDGE__PROCESS_SIGINFO) {
		siginfo_t info;

		memcpy(&info, pending->data + at, sizeof(info));
		rc = kedge__target_write(f->t, f->t->arguments, &info, sizeof(info), err);
		if (!rc && shared)
			rc = OWN_CALL(f, i, &result, err, SYS_rt_sigqueueinfo, (uint64_t)process,
				      (uint64_t)info.si_signo, f->t->arguments);
		else if (!rc)
			rc = OWN_CALL(f, i, &result, err, SYS_rt_tgsigqueueinfo, (uint64_t)process, (uint64_t)thread,
				      (uint64_t)info.si_signo, f->t->arguments);
		if (!rc && result < 0)
			rc = kedge__error_set(err, KEDGE_E_STATE, (int)-result,
					      "cannot give thread %u a signal that it was sent",
					      f->image->threads.at[i].id);
	}
	return rc;
}

static int set_stack(struct fill *f, size_t i, struct kedge__error *err)
{
	const struct kedge__process_thread *s = &f->image->threads.at[i];
	stack_t stack;
	int64_t result;
	int rc;

	if (s->stack_flags & SS_DISABLE)
		return 0;
	memset(&stack, 0, sizeof(stack));
	stack.ss_sp = (void *)(uintptr_t)s->stack_at;
	stack.ss_size = (size_t)s->stack_bytes;
	stack.ss_flags = (int)(uint32_t)s->stack_flags;
	rc = kedge__target_write(f->t, f->t->arguments, &stack, sizeof(stack), err);
	return rc ? rc : OWN_CALL(f, i, &result, err, SYS_sigaltstack, f->t->arguments, 0);
}

/* Where the program keeps the id of a thread, if that is another one now. */
static int set_cached_id(struct fill *f, size_t i, int64_t id, struct kedge__error *err)
{
	const struct kedge__process_thread *s = &f->image->threads.at[i];
	uint32_t there, now = (uint32_t)id;

	if (!s->clear_id || now == s->id || kedge__target_read(f->t, s->clear_id, &there, sizeof(there), NULL) != 0 ||
	    there != s->id)
		return 0;
	return kedge__target_write(f->t, s->clear_id, &now, sizeof(now), err);
}

static int set_thread(struct fill *f, size_t i, struct kedge__error *err)
{
	const struct kedge__process_thread *s = &f->image->threads.at[i];
	int64_t id, result = 0;
	char name[16] = "";
	int rc = OWN_CALL(f, i, &id, err, SYS_set_tid_address, s->clear_id);

	if (!rc && id != s->id && !f->r->new_ids)
		rc =
		    kedge__error_set(err, KEDGE_E_STATE, 0, "thread %u has got another id, %lld", s->id, (long long)id);
	if (!rc)
		rc = set_cached_id(f, i, id, err);
	if (!rc && s->robust_at)
		rc = OWN_CALL(f, i, &result, err, SYS_set_robust_list, s->robust_at, s->robust_bytes);
	if (!rc && s->rseq_bytes)
		rc = OWN_CALL(f, i, &result, err, SYS_rseq, s->rseq_at, s->rseq_bytes, 0, s->rseq_signature);
	if (!rc && result < 0)
		rc = kedge__error_set(err, KEDGE_E_STATE, (int)-result,
				      "cannot register what thread %u shares with the kernel", s->id);
	if (!rc)
		rc = set_stack(f, i, err);
	snprintf(name, sizeof(name), "%s", s->name);
	if (!rc)
		rc = kedge__target_write(f->t, f->t->arguments, name, sizeof(name), err);
	if (!rc)
		rc = OWN_CALL(f, i, &result, err, SYS_prctl, PR_SET_NAME, f->t->arguments);
	return rc ? rc : queue_signals(f, i, &s->pending, false, err);
}

/* From outside, where failure changes speed, and nothing else. */
static void set_scheduling(pid_t tid, const struct kedge__process_thread *s)
{
	setpriority(PRIO_PROCESS, (id_t)tid, (int)(int64_t)s->nice);
	if (s->cpus.bytes)
		syscall(SYS_sched_setaffinity, tid, (size_t)s->cpus.bytes, s->cpus.data);
}

static int set_registers(struct fill *f, size_t i, struct kedge__error *err)
{
	const struct kedge__process_thread *s = &f->image->threads.at[i];
	struct kedge__tracee *x = &f->t->threads.at[i];
	struct iovec xstate = {s->xstate.data, (size_t)s->xstate.bytes};
	struct user_regs_struct r;
	int rc = kedge__tracee_settle(f->t, x, err);

	memcpy(&r, s->registers, sizeof(r));
	if (!rc && ptrace(PTRACE_SETREGSET, x->tid, NT_X86_XSTATE, &xstate) != 0)
		rc = kedge__error_set(err, KEDGE_E_MISMATCH, errno, "cannot set the vector registers of thread %u",
				      s->id);
	if (!rc)
		rc = kedge__tracee_set_registers(x, &r, err);
	if (!rc)
		rc = kedge__tracee_set_mask(x, s->mask, err);
	if (!rc)
		set_scheduling(x->tid, s);
	return rc;
}

static void set_limits(const struct fill *f)
{
	for (int i = 0; i < KEDGE__PROCESS_LIMITS; i++) {
		struct rlimit limit = {f->image->limits[2 * i], f->image->limits[2 * i + 1]};

		prlimit(f->t->pid, (enum __rlimit_resource)i, &limit, NULL);
	}
}

/* ------------------------------------------------------------------ all of it */

static int fill_memory(struct fill *f, struct kedge__error *err)
{
	int rc = find_kernel(f, err);

	if (!rc) {
		f->gap = find_gap(f);
		rc = f->gap ? clear(f, err) : kedge__error_set(err, KEDGE_E_STATE, 0, "there is no room in its memory");
	}
	if (!rc)
		rc = move_kernel(f, err);
	if (!rc)
		rc = map_all(f, err);
	if (!rc)
		rc = write_pages(f, err);
	if (!rc)
		rc = set_rights(f, err);
	return rc ? rc : set_memory_map(f, err);
}

static int fill_process(struct fill *f, struct kedge__error *err)
{
	int rc = set_actions(f, err);

	if (!rc)
		rc = set_descriptors(f, err);
	for (size_t i = 1; !rc && i < f->image->threads.count; i++)
		rc = new_thread(f, (pid_t)f->image->threads.at[i].id, err);
	for (size_t i = 0; !rc && i < f->image->threads.count; i++)
		rc = set_thread(f, i, err);
	if (!rc)
		rc = queue_signals(f, 0, &f->image->pending, true, err);
	if (!rc)
		rc = set_timers(f, err);
	if (!rc)
		rc = KEDGE__LEADER_CALL(f->t, "cannot unmap memory", NULL, err, SYS_munmap, f->gap, SCRATCH);
	return rc;
}

int kedge__stub_fill(const struct kedge__process_restart *r, struct kedge__target *t,
		     const struct kedge__spaces *spaces, int first, struct kedge__error *err)
{
	struct fill f = {.r = r, .image = r->image, .t = t, .spaces = spaces, .first = first, .pid = t->pid};
	int rc = kedge__tracee_registers(&t->threads.at[0], &t->threads.at[0].registers, err);

	if (!rc && !spaces->init && t->pid != (pid_t)r->image->threads.at[0].id)
		f.pid = 0; /* other ids have to do */
	if (!rc)
		rc = fill_memory(&f, err);
	if (!rc)
		rc = fill_process(&f, err);
	for (size_t i = 0; !rc && i < t->threads.count; i++)
		rc = set_registers(&f, i, err);
	kedge__array_done(&f.kernel);
	if (rc)
		return rc;
	set_limits(&f);
	/* The leader comes last: nobody sees a process of which only a part runs. */
	for (size_t i = t->threads.count; i-- > 0;) {
		t->threads.at[i].moved = false;
		if (ptrace(PTRACE_DETACH, t->threads.at[i].tid, 0, 0) != 0 && errno != ESRCH)
			return kedge__error_set(err, KEDGE_E_STATE, errno, "cannot let thread %d go on",
						(int)t->threads.at[i].tid);
	}
	return 0;
}
