/* SPDX-License-Identifier: MIT */
/*
 * section.h - sections for code that was written for a kernel, where a thread turns preemption
 * off and changes its CPU's copy by plain C. The headers in percpu/freebsd, netbsd and linux use
 * it. New code has critical.h, which has errors.
 *
 * A section gives its thread two things. The copies of one CPU are this thread's alone, for all
 * items of default regions: percpu_section_cpu() says of which CPU. And a counter of counter.h has
 * a word, to which the thread adds by plain C: the end of the section adds the word to the counter.
 *
 * A section stops nothing. The thread may be preempted, and be moved to another CPU: the copies are
 * then still those of the first CPU. A thread that finds the copies of its CPU taken gets those of
 * another CPU. If all are taken, it waits.
 *
 * What the calls have in common, unless one says otherwise.
 *
 * Context: any thread. Sections nest. A signal handler may have sections. If it interrupts a
 * section, it has the same copies, as an interrupt in a kernel. So a plain addition to a copy
 * in a handler may get lost if the thread is just adding to that copy. Words of counters are exact
 * there, too: each section has its own. The first section of a process allocates memory, and must
 * not be in a signal handler. A child of fork is in the sections that the forking thread was in,
 * and finds no copies taken by other threads. A child of _Fork() may wait for those forever. A
 * thread must not exit a section of another one. If a thread ends inside, its sections end, too.
 *
 * Ordering: what a thread did to copies in a section happens before a later section that has them.
 *
 * Progress: a section takes copies when it first asks for them, without a lock, unless all CPUs'
 * copies are taken. Then it waits until a thread leaves its section, without a limit.
 */
#ifndef PERCPU_SECTION_H
#define PERCPU_SECTION_H

#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** How many counters can have words at a time, and nested sections, taken together. */
#define PERCPU_SECTION_WORDS 200

/** Whether a thread of the process was in a section. Only the library writes it. */
extern PERCPU_API uint32_t percpu_section_ever;

/** Enter a section. If there is no memory for it, print a sentence and abort. */
PERCPU_API void percpu_section_enter(void);

/** Enter a section that has the copies of this CPU, whose number is below percpu_section_cpus(). Wait
 *  until the thread that has them leaves its section, without a limit. If the thread is in a section
 *  already, or the process can neither fence nor ask for its CPU, print a sentence and abort. */
PERCPU_API void percpu_section_enter_cpu(unsigned cpu);

/** Exit the section that was entered last. If the thread is in none, print a sentence and abort. */
PERCPU_API void percpu_section_exit(void);

/** Return the CPU whose copies this thread has. In no section: the CPU on which the thread is; 0
 *  if that is not known. */
PERCPU_API unsigned percpu_section_cpu(void);

/**
 * Return the word to which the section adds what counter is to get: plain additions, modulo 2^64.
 * The word is 0 at first, and good until the section ends. counter is a struct percpu_counter; an
 * address that is odd is that of a struct percpu_static_counter, plus 1. If the thread is in no
 * section, or has PERCPU_SECTION_WORDS, print a sentence and abort.
 */
PERCPU_API uint64_t *percpu_section_word(void *counter);

/**
 * Add n to the copy of an integer of 1, 2, 4 or 8 bytes in an item of a default region, modulo its
 * size; in a section to the copy that the thread has. The sum over the copies of all CPUs is
 * exact, beside sections that change them by plain C.
 *
 * Progress: 8 bytes are one sequence, as percpu_counter_add(), others a section. In a sandbox that
 * allows neither getcpu(2) nor a fence (percpu_fence()), a thread without sequences adds 8 bytes to
 * a word beside the copies, which percpu_counter_fetch() of the address includes. So does a thread
 * that finds no memory for its first section. Such a thread cannot add others: it prints a sentence
 * and aborts, as sections do.
 */
PERCPU_API void percpu_section_add(void *item, int64_t n, size_t size);

/**
 * Allocate an item of size bytes with a copy for each CPU, in the default region. All copies are
 * 0. align is a power of two up to 64. Returns NULL if there is no memory, size is 0 or above
 * PERCPU_SECTION_MAX_SIZE, or align is none of these.
 *
 * Context: not in a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK void *percpu_section_alloc(size_t size, size_t align);

/** Free an item. NULL is fine. Context: not in a signal handler. */
PERCPU_API void percpu_section_free(void *item);

#define PERCPU_SECTION_MAX_SIZE ((size_t)32768)

/** Return how many CPUs can have copies: the highest possible number + 1. Context: not in a signal
 *  handler before the first call, because it may start the self-test (percpu_status()). */
PERCPU_API unsigned percpu_section_cpus(void);

/* Return the address of a CPU's copy of an item. */
PERCPU_INLINE void *percpu_section_copy(const void *item, unsigned cpu)
{
	return (void *)((uintptr_t)item + PERCPU_STRIDE * cpu);
}

PERCPU_END_DECLS

#endif
