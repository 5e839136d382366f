/* SPDX-License-Identifier: BSD-3-Clause */
/* The fibers of emulate.h. */
#include "emulate.h"

#include <cstdio>
#include <cstdlib>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN 1
#else
#define ASAN 0
#endif
#define SWITCH_BY_CONTEXT 0

/*
 * emulated_switch(SAVE, LOAD): what the caller would go on with is kept in *SAVE, and what LOAD was kept from goes on. That
 * of ucontext.h does the same with two system calls, and the tests have millions of switches.
 */
#if defined(__x86_64__)
extern "C" void emulated_switch(void **save, void *load);
asm(R"(
	.text
	.globl emulated_switch
	.type emulated_switch, @function
emulated_switch:
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
	.size emulated_switch, . - emulated_switch
)");

/* A stack, ending at TOP, on which F begins. */
static void *stack_begin(unsigned char *top, void (*f)())
{
	uintptr_t *at = (uintptr_t *)((uintptr_t)top & ~(uintptr_t)15);

	*--at = 0; /* nobody to return to, and F's frame is aligned as if there were */
	*--at = (uintptr_t)f;
	for (int i = 0; i < 6; i++)
		*--at = 0;
	return at;
}
#else
#include <ucontext.h>
#undef SWITCH_BY_CONTEXT
#define SWITCH_BY_CONTEXT 1
#endif

namespace emulated
{

thread *self;
place block_index, block_size, grid_size;

namespace
{

constexpr size_t stack_bytes = 128u << 10;

struct barrier { /* of some lanes of a warp, or of a block */
	unsigned mask, come, turn;
	unsigned char slots[2][32][16]; /* what lanes trade there, in turns: nobody writes to what others still read */
};

constexpr size_t barrier_limit = 64; /* masks that a warp uses */

struct warp {
	std::vector<barrier> barriers;
};

struct fiber {
	thread t;
#if SWITCH_BY_CONTEXT
	ucontext_t context;
#else
	void *context;
#endif
	void *fake; /* the sanitizer's */
	bool done;
};

struct kernel {
	const char *name;
	call f;
};

std::vector<kernel> &kernels()
{
	static std::vector<kernel> list;

	return list;
}

std::vector<fiber> fibers;
std::vector<unsigned char> stacks;
std::vector<warp> warps;
barrier whole;
#if SWITCH_BY_CONTEXT
ucontext_t scheduler;
#define SWITCH(save, load) swapcontext(&(save), &(load))
#else
void *scheduler;
#define SWITCH(save, load) emulated_switch(&(save), load)
#endif
#if ASAN
const void *scheduler_stack;
size_t scheduler_bytes;
#endif
call current;
const void *current_args;
unsigned alive;
bool moved; /* something happened since the scheduler last looked */

fiber *running()
{
	return (fiber *)(void *)self;
}

void leave(bool for_good)
{
	fiber *f = running();

#if ASAN
	__sanitizer_start_switch_fiber(for_good ? nullptr : &f->fake, scheduler_stack, scheduler_bytes);
#else
	(void)for_good;
#endif
	SWITCH(f->context, scheduler);
#if ASAN
	__sanitizer_finish_switch_fiber(f->fake, &scheduler_stack, &scheduler_bytes);
#endif
}

void body()
{
#if ASAN
	__sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_bytes);
#endif
	current(current_args);
	running()->done = true;
	alive--;
	moved = true;
	leave(true);
}

void arrive(barrier *b, unsigned wanted, const unsigned *lowered)
{
	unsigned turn = b->turn;

	b->come++;
	moved = true;
	while (b->turn == turn) {
		if (b->come >= (lowered ? *lowered : wanted)) {
			b->come = 0;
			b->turn++;
			moved = true;
			return;
		}
		leave(false);
	}
}

void fiber_start(size_t i)
{
	fiber *f = &fibers[i];

	f->t = {{(unsigned)i, 0, 0}, (unsigned)i % 32, (unsigned)i / 32};
	f->done = false;
	f->fake = nullptr;
#if ASAN
	__asan_unpoison_memory_region(&stacks[i * stack_bytes], stack_bytes); /* frames that were left for good */
#endif
#if SWITCH_BY_CONTEXT
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = &stacks[i * stack_bytes];
	f->context.uc_stack.ss_size = stack_bytes;
	f->context.uc_link = nullptr;
	makecontext(&f->context, body, 0);
#else
	f->context = stack_begin(&stacks[i * stack_bytes] + stack_bytes, body);
#endif
}

void fiber_run(size_t i)
{
	self = &fibers[i].t;
#if ASAN
	void *fake = nullptr;

	__sanitizer_start_switch_fiber(&fake, &stacks[i * stack_bytes], stack_bytes);
#endif
	SWITCH(scheduler, fibers[i].context);
#if ASAN
	__sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void block_run(unsigned threads, const char *name)
{
	warps.assign((threads + 31) / 32, warp());
	whole = barrier();
	alive = threads;
	for (size_t i = 0; i < threads; i++)
		fiber_start(i);
	while (alive) {
		moved = false;
		for (size_t i = 0; i < threads; i++) {
			if (!fibers[i].done)
				fiber_run(i);
		}
		if (!moved) {
			fprintf(stderr, "kernel %s, block %u: %u threads wait for others that never come\n", name,
				block_index.x, alive);
			abort();
		}
	}
}

} /* namespace */

entry::entry(const char *name, call f)
{
	kernels().push_back({name, f});
}

static barrier *barrier_of(unsigned mask)
{
	std::vector<barrier> &list = warps[self->warp].barriers;
	size_t i = 0;

	if (!(mask >> self->lane & 1)) {
		fprintf(stderr, "lane %u is not in its own mask %08x\n", self->lane, mask);
		abort();
	}
	list.reserve(barrier_limit); /* others hold pointers into it */
	while (i < list.size() && list[i].mask != mask)
		i++;
	if (i == list.size()) {
		if (i == barrier_limit)
			abort();
		list.push_back(barrier());
		list[i].mask = mask;
	}
	return &list[i];
}

static void meet_at(barrier *b)
{
	arrive(b, (unsigned)__builtin_popcount(b->mask), nullptr);
}

void meet(unsigned mask)
{
	meet_at(barrier_of(mask));
}

void meet_block()
{
	arrive(&whole, 0, &alive);
}

void trade(unsigned mask, const void *mine, void *theirs, size_t size, unsigned from)
{
	barrier *b = barrier_of(mask);
	unsigned phase = b->turn & 1;

	if (size > sizeof(b->slots[0][0]))
		abort();
	if (!(mask >> from & 1)) {
		fprintf(stderr, "lane %u asks lane %u, which is not in the mask %08x\n", self->lane, from, mask);
		abort();
	}
	memcpy(b->slots[phase][self->lane], mine, size);
	meet_at(b);
	memcpy(theirs, b->slots[phase][from], size);
}

unsigned ballot(unsigned mask, bool vote)
{
	barrier *b = barrier_of(mask);
	unsigned phase = b->turn & 1, all = 0;

	b->slots[phase][self->lane][0] = vote;
	meet_at(b);
	for (unsigned lane = 0; lane < 32; lane++)
		all |= (unsigned)(mask >> lane & 1 && b->slots[phase][lane][0]) << lane;
	return all;
}

unsigned match(unsigned mask, const void *mine, size_t size)
{
	barrier *b = barrier_of(mask);
	unsigned phase = b->turn & 1, same = 0;

	memcpy(b->slots[phase][self->lane], mine, size);
	meet_at(b);
	for (unsigned lane = 0; lane < 32; lane++)
		same |= (unsigned)(mask >> lane & 1 && memcmp(b->slots[phase][lane], mine, size) == 0) << lane;
	return same;
}

const void *kernel_find(const char *name)
{
	for (const kernel &k : kernels()) {
		if (strcmp(k.name, name) == 0)
			return k.name;
	}
	return nullptr;
}

void kernel_run(const void *which, unsigned blocks, unsigned threads, const void *args)
{
	for (const kernel &k : kernels()) {
		if (k.name != which)
			continue;
		if (fibers.size() < threads) {
			fibers.resize(threads);
			stacks.resize(threads * stack_bytes);
		}
		current = k.f;
		current_args = args;
		block_size = {threads, 1, 1};
		grid_size = {blocks, 1, 1};
		for (unsigned b = 0; b < blocks; b++) {
			block_index = {b, 0, 0};
			block_run(threads, k.name);
		}
	}
}

} /* namespace emulated */
