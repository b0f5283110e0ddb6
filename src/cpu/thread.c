/* SPDX-License-Identifier: MIT */
/*
 * thread.c - the calling thread's registration with the kernel.
 *
 * glibc registers every thread since 2.35. If libc does not (an older glibc, musl,
 * glibc.pthread.rseq=0), the library registers the thread on its first slow path, and
 * unregisters it when the thread exits.
 *
 * The content of the area does not prove a registration: a thread made by a bare clone() may
 * have a zeroed area, which reads as "CPU 0". So the library asks the kernel once per
 * thread, by rseq(2), which fails with EBUSY if the area is registered for the thread.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"

#if defined(__GLIBC__) && __GLIBC_MINOR__ >= 35 && __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#elif defined(__GLIBC__)
extern __typeof__(dlsym) dlsym __attribute__((weak)); /* as in stay.c */
#endif

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#define AT_RSEQ_ALIGN 28
#endif

#define UNREGISTER 1
#define AREA_SIZE sizeof(struct percpu_rseq)

_Static_assert(sizeof(struct percpu_rseq) == 32, "the kernel's original ABI");

/* What libc and the kernel say of the area. Written once, before percpu_init() is done. */
static struct {
	uint32_t size; /* bytes of libc's area that are valid, as libc says */
	uint32_t feature_size;
	uint32_t align;
} process;

ptrdiff_t percpu_libc_offset;

#ifdef PERCPU_SEQ_SIGNATURE

static long sys_rseq(struct percpu_rseq *area, uint32_t size, int flags)
{
#ifdef SYS_rseq
	return syscall(SYS_rseq, area, size, flags, PERCPU_SEQ_SIGNATURE);
#else
	errno = ENOSYS;
	return -1;
#endif
}

/*
 * Ask the kernel whether libc's area is registered for this thread. If the thread has no
 * registration, the call registers the area, which is equally good. The call must pass the
 * size that was registered: 32 bytes, or with newer libcs the kernel's size.
 */
static bool attach_libc(struct percpu_thread *t)
{
	uint32_t align = process.align ? process.align : 32;
	uint32_t sizes[] = { AREA_SIZE, (process.feature_size + align - 1) / align * align };
	struct percpu_rseq *area = percpu_libc_area();

	if (percpu_libc_offset == 0 || __atomic_load_n(&area->cpu_id, __ATOMIC_RELAXED) < 0)
		return false;
	for (unsigned i = 0; i < 2; i++) {
		if (sizes[i] < AREA_SIZE)
			continue;
		if (sys_rseq(area, sizes[i], 0) == 0 || errno == EBUSY) {
			t->registered = area;
			return true;
		}
	}
	return false;
}

/* The kernel must not write to the thread's memory after the thread has ended. */
void percpu_thread_unregister(struct percpu_thread *t)
{
	percpu_thread_give_up();
	if (t->registered == &t->own)
		sys_rseq(&t->own, AREA_SIZE, UNREGISTER);
}

/* Register the thread's own area. EBUSY means that a signal handler that counted has registered
 * it meanwhile. */
static bool attach_own(struct percpu_thread *t)
{
	if (sys_rseq(&t->own, AREA_SIZE, 0) != 0 && errno != EBUSY)
		return false;
	if (!percpu_thread_keep(t)) {
		sys_rseq(&t->own, AREA_SIZE, UNREGISTER);
		return false;
	}
	t->registered = &t->own;
	return true;
}

static void find_libc(void)
{
	ptrdiff_t at = 0;

#if defined(__GLIBC__) && __GLIBC_MINOR__ >= 35 && __has_include(<sys/rseq.h>)
	/* Not weak symbols: under LTO without PIE these have resolved to 0. */
	process.size = __rseq_size;
	at = __rseq_offset;
#elif defined(__GLIBC__)
	const unsigned *size = dlsym != NULL ? dlsym(RTLD_DEFAULT, "__rseq_size") : NULL;
	const ptrdiff_t *offset = dlsym != NULL ? dlsym(RTLD_DEFAULT, "__rseq_offset") : NULL;

	if (size && offset) {
		process.size = *size;
		at = *offset;
	}
#endif
	percpu_libc_offset = process.size != 0 ? at : 0;
}

enum percpu_registrar percpu_thread_register(void)
{
	struct percpu_thread *const t = percpu_thread();
	enum percpu_registrar registrar = PERCPU_REGISTRAR_NONE;
	int saved = errno;

	if (attach_libc(t))
		registrar = PERCPU_REGISTRAR_LIBC;
	else if (attach_own(t))
		registrar = PERCPU_REGISTRAR_LIBRARY;
	if (registrar == PERCPU_REGISTRAR_NONE)
		percpu_thread_give_up();
	else if (t->state == PERCPU_THREAD_FRESH)
		t->state = PERCPU_THREAD_REGISTERED;
	errno = saved;
	return registrar;
}

#else /* no sequences for this architecture */

void percpu_thread_unregister(struct percpu_thread *t)
{
	(void)t;
}

static void find_libc(void)
{
}

enum percpu_registrar percpu_thread_register(void)
{
	percpu_thread_give_up();
	return PERCPU_REGISTRAR_NONE;
}

#endif

/* Return how many bytes of the area the kernel fills; 0 if it fills only the original 20. The size
 * of glibc is 20 or 32 for any such number up to 32. From 2.41 on it is the number itself. */
static uint32_t valid_bytes(void)
{
	const bool says = percpu_libc_offset != 0 && process.size != 20 && process.size != 32;

	return says ? process.size : process.feature_size;
}

void percpu_thread_init(struct percpu_status *st)
{
	find_libc();
	process.feature_size = getauxval(AT_RSEQ_FEATURE_SIZE);
	process.align = getauxval(AT_RSEQ_ALIGN);
	st->rseq_size = process.size;
	st->feature_size = process.feature_size;
	st->align = process.align;
	st->has_mm_cid = valid_bytes() >= offsetof(struct percpu_rseq, mm_cid) + sizeof(uint32_t);
}

void percpu_thread_give_up(void)
{
	struct percpu_thread *const t = percpu_thread();

	t->state = PERCPU_THREAD_UNABLE;
	__atomic_store_n(&t->none.cpu_id, PERCPU_CPU_NEVER, __ATOMIC_RELAXED);
	t->area = &t->none;
	percpu_self = t->area;
}

void percpu_thread_attach(void)
{
	struct percpu_thread *const t = percpu_thread();

	t->state = PERCPU_THREAD_ATTACHED;
	t->area = t->registered;
	percpu_self = t->area;
}

int percpu_thread_cpu(void)
{
	int saved = errno, cpu = sched_getcpu();

	errno = saved;
	return cpu;
}

void percpu_thread_note_cpu(void)
{
	int cpu = __atomic_load_n(&percpu_self->cpu_id, __ATOMIC_RELAXED);

	if (cpu < 0)
		cpu = percpu_thread_cpu();
	if (cpu >= 0 && percpu_note_cpus((uint32_t)cpu + 1))
		percpu_thread_give_up();
}

/* Let the thread rise if the verdict allows it. Each slow path calls this while the verdict is
 * pending. The first call registers the thread, and does not wait for the verdict: so a thread
 * that has entered a sandbox meanwhile rises without a system call. */
static void rise(struct percpu_thread *t)
{
	uint32_t verdict = percpu_verdict();

	if (verdict == PERCPU_SELFTEST_UNKNOWN)
		return;
	if (verdict != PERCPU_SELFTEST_PASSED && verdict != PERCPU_SELFTEST_PENDING)
		percpu_thread_give_up();
	else if (t->state == PERCPU_THREAD_FRESH)
		percpu_thread_register();
	if (verdict == PERCPU_SELFTEST_PASSED && t->state == PERCPU_THREAD_REGISTERED)
		percpu_thread_attach();
}

/* Not inlined: in a fiber's loop, the compiler could keep the address of thread-local
 * storage from before the fiber moved to another thread. */
__attribute__((noinline)) struct percpu_rseq *percpu_seq_attach(void)
{
	struct percpu_thread *const t = percpu_thread();

	if (t->state <= PERCPU_THREAD_REGISTERED && t->shared == 0)
		rise(t);
	percpu_thread_note_cpu();
	return percpu_self;
}

/* "used" because link-time optimization does not see that the assembly of vfork() calls this
 * function. */
__attribute__((used)) void percpu_thread_share(void)
{
	struct percpu_thread *const t = percpu_thread();

	t->shared++;
	percpu_self = &t->none;
}

void percpu_thread_unshare(void)
{
	struct percpu_thread *const t = percpu_thread();

	if (--t->shared == 0)
		percpu_self = t->area;
}
