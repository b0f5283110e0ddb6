/* SPDX-License-Identifier: MIT */
/*
 * percpu.h - NetBSD's percpu(9) under its own names, on sections (percpu/section.h).
 *
 *	percpu_t *stats = percpu_alloc(sizeof(uint64_t) * NSTATS);
 *	uint64_t *here = percpu_getref(stats);
 *
 *	here[packets]++;
 *	percpu_putref(stats);
 *
 * Differences: percpu_getref() does not disable preemption. It lets the thread have the copies of
 * one CPU, which stay its own if it is preempted or moved; other threads on that CPU get the copies
 * of another one, or wait. A reference may be held while the thread sleeps, but delays others
 * then. percpu_foreach_xcall() calls in this thread, and not on each CPU. percpu_create() is not
 * there.
 *
 * What the calls have in common, unless one says otherwise.
 * Context: any thread; percpu_getref() and percpu_putref() as sections, signal handlers included;
 * others not in a signal handler. In a child of fork an object is the child's own copy.
 * Ordering: as sections: what a thread did between getref and putref happens before a later getref
 * that finds the same copy.
 * Progress: as percpu_section_cpu(). Allocating waits until there is memory.
 */
#ifndef PERCPU_NETBSD_PERCPU_H
#define PERCPU_NETBSD_PERCPU_H

#ifdef _SYS_PERCPU_H_
#error "this stands in for sys/percpu.h, which was included before it"
#endif
#define _SYS_PERCPU_H_ /* makes the original empty if it is included later */

#include <percpu/section.h>

PERCPU_BEGIN_DECLS

/** An object: the address of CPU 0's copy, which is for the calls below alone. */
typedef struct percpu percpu_t;

/** A CPU, for callbacks. */
struct cpu_info {
	unsigned ci_index;
};

typedef void (*percpu_callback_t)(void *copy, void *arg, struct cpu_info *ci);

PERCPU_API percpu_t *percpu_netbsd_alloc(size_t size);

/** Allocate size bytes of zeros for each CPU, aligned to 64. Returns NULL if size is 0 or above
 *  PERCPU_SECTION_MAX_SIZE. Waits until there is memory. */
static inline percpu_t *percpu_alloc(size_t size)
{
	return percpu_netbsd_alloc(size);
}

/** Free an object of that size. NULL is fine. */
static inline void percpu_free(percpu_t *pc, size_t size)
{
	(void)size;
	percpu_section_free(pc);
}

/** Let this thread have the copies of a CPU, and return that CPU's copy. References nest, of the
 *  same object or of others, and are put back in the reverse order. */
static inline void *percpu_getref(percpu_t *pc)
{
	percpu_section_enter();
	return percpu_section_copy(pc, percpu_section_cpu());
}

/** Put the reference back. Its copy must not be used afterwards. Without a percpu_getref(), print a
 *  sentence and abort. */
static inline void percpu_putref(percpu_t *pc)
{
	(void)pc;
	percpu_section_exit();
}

/** Call the callback for the copy of each CPU, in this thread. Others may change the copies
 *  meanwhile. */
static inline void percpu_foreach(percpu_t *pc, percpu_callback_t callback, void *arg)
{
	for (unsigned cpu = 0; cpu < percpu_section_cpus(); cpu++) {
		struct cpu_info ci = { cpu };

		callback(percpu_section_copy(pc, cpu), arg, &ci);
	}
}

/** Do as percpu_foreach(), but let this thread have each copy during the call, so that no thread
 *  with a reference changes it meanwhile. flags are not used. Wait until such threads put their
 *  references back. With a reference of this thread, print a sentence and abort. */
static inline void percpu_foreach_xcall(percpu_t *pc, unsigned flags, percpu_callback_t callback,
					void *arg)
{
	(void)flags;
	for (unsigned cpu = 0; cpu < percpu_section_cpus(); cpu++) {
		struct cpu_info ci = { cpu };

		percpu_section_enter_cpu(cpu);
		callback(percpu_section_copy(pc, cpu), arg, &ci);
		percpu_section_exit();
	}
}

PERCPU_END_DECLS

#endif
