/* SPDX-License-Identifier: MIT */
/*
 * section.c - sections in the manner of kernels.
 *
 * A word of each CPU's lane, the guard, is the number of the thread that has the copies of this
 * CPU; 0: nobody. The sequence percpu_seq_enter() stores it, on that CPU, if the next word is 0,
 * which it always is. Another thread stores its number by a compare-and-swap, and fences the CPU. A
 * sequence that had found 0 there is then over: the thread sees its number, or it starts again.
 * Sequences that add to a copy test the guard.
 *
 * owners/critical.c shares the sequence alone. It has no copies that adds look at, but spare lanes,
 * which need no fence, and owners that die. So a lane there has two words, and an exchange of the
 * second waits for the first; here one word decides, and the loser looks at another CPU.
 *
 * Each thread has a page. It begins with what the thread's sections have, and a stack of slots: one
 * that begins a section, and behind it those of the section's counters. A signal handler pushes and
 * pops above what it finds, so it leaves all as it was, except that it may have taken copies. The
 * outermost section gives these back.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <percpu/section.h>

#include "../cpu/debug.h"
#include "counts.h"

#define SECTION_SLEEP_NS (PERCPU_SECOND / 10000)
#define SECTION_GUARD_SIZE (2 * sizeof(uint64_t))
#define SECTION_NO_KEY ((pthread_key_t)-1)
#define SECTION_TRIES 16 /* to fence a CPU, in a sandbox that allows no fence */

struct section_slot {
	void *counter; /* NULL: begins a section */
	uint64_t word; /* what the counter is to get; of a beginning: the base before */
};

/* Relaxed atomic accesses, because a signal handler of the thread may come in between. */
struct section_page {
	uint32_t base; /* the innermost section's first slot of a counter; 0: in no section */
	uint32_t used; /* slots */
	uint32_t has;  /* the CPU whose copies the thread has, plus 1; or 0 */
	struct section_slot slot[PERCPU_SECTION_WORDS];
};

uint32_t percpu_section_ever;

/* The guard, an address in lane 0. It is never freed. Atomic. */
static char *section_guard;

static pthread_key_t section_key = SECTION_NO_KEY; /* atomic */

/* Return the number of the page's thread. It is odd, because adds test its low half alone. */
static uint64_t section_number_of(const struct section_page *s)
{
	return (uintptr_t)s | 1;
}

static uint64_t *section_guard_of(unsigned cpu)
{
	return (uint64_t *)(void *)(section_guard + cpu * PERCPU_STRIDE);
}

/* Return the thread's page; NULL if it was in no section yet. */
static struct section_page *section_page(void)
{
	const pthread_key_t key = __atomic_load_n(&section_key, __ATOMIC_RELAXED);

	return percpu_likely(key != SECTION_NO_KEY) ? pthread_getspecific(key) : NULL;
}

/* Free the copies that other threads of the parent had. */
static void section_mend_in_child(const void *owner)
{
	const char *const guard = section_guard;
	const struct section_page *s = section_page();
	uint64_t *word;

	(void)owner;
	if (guard == NULL)
		return;
	for (uint32_t cpu = 0; cpu < percpu_chunk_of(guard)->cpus; cpu++) {
		word = section_guard_of(cpu);
		if (*word != 0 && (s == NULL || *word != section_number_of(s)))
			*word = 0;
	}
}

int percpu_section_prepare(void)
{
	struct percpu_region *r;
	struct percpu_chunk *k;
	char *none = NULL;
	void *word;
	int e;

	if (__atomic_load_n(&section_guard, __ATOMIC_ACQUIRE) != NULL)
		return 0;
	e = percpu_region_default(&r);
	if (e == 0)
		e = percpu_region_alloc(r, SECTION_GUARD_SIZE, SECTION_GUARD_SIZE, &word);
	if (e != 0)
		return e;
	k = percpu_chunk_of(word);
	percpu_chunk_clear(k, (size_t)((char *)word - k->base), SECTION_GUARD_SIZE,
			   SECTION_GUARD_SIZE);
	percpu_region_on_fork(r, section_mend_in_child, NULL);
	PERCPU_STEP("section: guard made");
	if (!__atomic_compare_exchange_n(&section_guard, &none, (char *)word, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		(void)percpu_region_free(r, word, SECTION_GUARD_SIZE);
	return 0;
}

/* The thread's page */

static void give_copies_back(struct section_page *s)
{
	const uint32_t has = __atomic_exchange_n(&s->has, 0, __ATOMIC_RELAXED);
	uint64_t self = section_number_of(s);

	if (has == 0)
		return;
	PERCPU_STEP("section: copies let go");
	/* By an exchange: a signal handler may just have given them back. */
	__atomic_compare_exchange_n(section_guard_of(has - 1), &self, 0, false, __ATOMIC_RELEASE,
				    __ATOMIC_RELAXED);
}

static void end_of_section_thread(void *arg)
{
	struct section_page *s = arg;

	pthread_setspecific(section_key, s); /* libc has cleared it */
	while (s->base != 0)
		percpu_section_exit();
	pthread_setspecific(section_key, NULL);
	munmap(s, sizeof(*s));
}

static void create_section_key(void)
{
	pthread_key_t key;

	if (pthread_key_create(&key, end_of_section_thread) != 0)
		percpu_debug_die("a section: the process has no thread-specific key left");
	__atomic_store_n(&section_key, key, __ATOMIC_RELAXED);
}

/* Create the key in a constructor; or earlier, if another constructor has a section. */
__attribute__((constructor)) static void have_section_key(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, create_section_key);
}

/* Returns NULL if there is no memory. */
static __attribute__((noinline)) struct section_page *make_section_page(void)
{
	const int saved = errno;
	void *at = MAP_FAILED;

	have_section_key();
	if (percpu_section_prepare() == 0)
		at = mmap(NULL, sizeof(struct section_page), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	if (pthread_setspecific(section_key, at) != 0) {
		munmap(at, sizeof(struct section_page));
		return NULL;
	}
	__atomic_store_n(&percpu_section_ever, 1, __ATOMIC_RELAXED);
	errno = saved;
	return at;
}

static void die_without_fences(void)
{
	percpu_debug_die("a section: this process can neither fence nor ask for its CPU");
}

static bool is_inside(const struct section_page *s)
{
	return s != NULL && __atomic_load_n(&s->base, __ATOMIC_RELAXED) != 0;
}

/* The copies of a CPU */

/* Take the copies of a CPU from afar. Returns 0, -EBUSY or -errno of the fence. */
static int take_copies_of(unsigned cpu, uint64_t self)
{
	uint64_t *const word = section_guard_of(cpu), mine = self, found = 0;
	int e;

	/* What a signal handler finds of its own thread may be what that is just taking. */
	if (!__atomic_compare_exchange_n(word, &found, self, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED) &&
	    found != self)
		return -EBUSY;
	PERCPU_STEP("section: number stored");
	e = percpu_barrier_cpu(cpu);
	PERCPU_STEP("section: fenced");
	if (e != 0) {
		if (found == 0)
			__atomic_compare_exchange_n(word, &mine, 0, false, __ATOMIC_RELAXED,
						    __ATOMIC_RELAXED);
		return e;
	}
	return __atomic_load_n(word, __ATOMIC_ACQUIRE) == self ? 0 : -EBUSY;
}

/* Take the copies of a CPU, this one's if possible. Returns the CPU, -EBUSY, or -errno if this
 * CPU's copies are free, but cannot be fenced. */
static int try_copies(uint64_t self)
{
	const unsigned cpus = percpu_chunk_of(section_guard)->cpus;
	int r = PERCPU_SEQ_SLOW, e = -EBUSY, here;
	void *lane = NULL;

	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_enter(section_guard, PERCPU_STRIDE, self, &lane);
	if (r == 0)
		return (int)((size_t)((char *)lane - section_guard) / PERCPU_STRIDE);
	here = percpu_thread_cpu();
	for (unsigned i = 0; i < cpus; i++) {
		const unsigned cpu = ((here > 0 ? (unsigned)here : 0) + i) % cpus;
		const int found = take_copies_of(cpu, self);

		if (found == 0)
			return (int)cpu;
		e = i == 0 ? found : e;
	}
	return e;
}

/* Wait a short time for copies. In a child of fork, where a handler of the program may run before
 * the library's, first free those of other threads of the parent. */
static void await_copies(void)
{
	uint32_t nothing = 0;

	(void)percpu_is_forking();
	percpu_futex_sleep(&nothing, FUTEX_WAIT_PRIVATE, 0, SECTION_SLEEP_NS);
}

/* Let the thread have the copies of a CPU. Returns 0, or -errno if there is no way to fence. */
static int take_copies(struct section_page *s)
{
	const uint64_t self = section_number_of(s);
	const int saved = errno;
	int cpu = 0, refused = 0;
	uint32_t none = 0;

	while (__atomic_load_n(&s->has, __ATOMIC_RELAXED) == 0) {
		cpu = try_copies(self);
		if (cpu == -EBUSY) {
			await_copies();
		} else if (cpu < 0) {
			if (++refused == SECTION_TRIES)
				break;
		} else if (!__atomic_compare_exchange_n(&s->has, &none, (uint32_t)cpu + 1, false,
							__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			/* A signal handler has taken copies meanwhile. */
			if (none != (uint32_t)cpu + 1)
				__atomic_store_n(section_guard_of((unsigned)cpu), 0,
						 __ATOMIC_RELEASE);
			break;
		}
	}
	errno = saved; /* of the thread that a signal handler interrupts */
	return refused == SECTION_TRIES ? cpu : 0;
}

static void *copy_of_section(const struct section_page *s, const void *item)
{
	return percpu_section_copy(item, __atomic_load_n(&s->has, __ATOMIC_RELAXED) - 1);
}

unsigned percpu_section_cpu(void)
{
	struct section_page *s = section_page();
	int cpu = percpu_seq_cpu();

	if (is_inside(s)) {
		if (take_copies(s) != 0)
			die_without_fences();
		return s->has - 1;
	}
	if (cpu < 0)
		cpu = percpu_seq_never() ? -1 : percpu_seq_attach()->cpu_id;
	if (cpu < 0)
		cpu = sched_getcpu();
	return cpu < 0 ? 0 : (unsigned)cpu;
}

/* Sections */

/* A signal handler uses slots above those it finds. */
static uint32_t push_slot(struct section_page *s, void *counter, uint64_t word)
{
	const uint32_t at = s->used;

	if (at == PERCPU_SECTION_WORDS)
		percpu_debug_die("a section: %d words and nested sections are in use", at);
	__atomic_store_n(&s->used, at + 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	PERCPU_STEP("section: slot pushed");
	s->slot[at] = (struct section_slot){ counter, word };
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	return at;
}

void percpu_section_enter(void)
{
	struct section_page *s = section_page();
	uint32_t at;

	if (percpu_unlikely(s == NULL))
		s = make_section_page();
	if (s == NULL)
		percpu_debug_die("a section: no memory");
	at = push_slot(s, NULL, s->base);
	__atomic_store_n(&s->base, at + 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Let the thread, which has just entered a section, have the copies of a certain CPU. */
static int take_certain_copies(struct section_page *s, unsigned cpu)
{
	const int saved = errno;
	int e = -EBUSY;
	uint32_t none;

	for (int refused = 0; e != 0 && refused < SECTION_TRIES;) {
		none = 0;
		give_copies_back(s); /* what a signal handler has taken meanwhile */
		e = take_copies_of(cpu, section_number_of(s));
		PERCPU_STEP("section: certain copies taken");
		if (e == -EBUSY)
			await_copies();
		else if (e != 0)
			refused++;
		else if (!__atomic_compare_exchange_n(&s->has, &none, cpu + 1, false,
						      __ATOMIC_RELAXED, __ATOMIC_RELAXED) &&
			 none != cpu + 1) {
			__atomic_store_n(section_guard_of(cpu), 0, __ATOMIC_RELEASE);
			e = -EBUSY;
		}
	}
	errno = saved;
	return e;
}

void percpu_section_enter_cpu(unsigned cpu)
{
	if (is_inside(section_page()))
		percpu_debug_die("a section of a certain CPU is entered within another section");
	percpu_section_enter();
	if (take_certain_copies(section_page(), cpu) != 0)
		die_without_fences();
}

static void add_to_counter(const struct section_slot *slot)
{
	char *const c = slot->counter;

	if (((uintptr_t)c & 1) != 0)
		percpu_static_counter_add((struct percpu_static_counter *)(void *)(c - 1),
					  (int64_t)slot->word);
	else
		percpu_counter_add((struct percpu_counter *)(void *)c, (int64_t)slot->word);
}

void percpu_section_exit(void)
{
	struct section_page *s = section_page();
	uint32_t base, before;

	if (!is_inside(s))
		percpu_debug_die("a section is left that this thread has not entered");
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	base = s->base;
	for (uint32_t i = base; i < s->used; i++)
		add_to_counter(&s->slot[i]);
	before = (uint32_t)s->slot[base - 1].word;
	__atomic_store_n(&s->base, before, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&s->used, base - 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (before == 0)
		give_copies_back(s);
}

uint64_t *percpu_section_word(void *counter)
{
	struct section_page *s = section_page();
	uint32_t at;

	if (!is_inside(s))
		percpu_debug_die("the word of a counter is asked for outside of a section");
	for (uint32_t i = s->base; i < s->used; i++)
		if (s->slot[i].counter == counter)
			return &s->slot[i].word;
	at = push_slot(s, counter, 0);
	return &s->slot[at].word;
}

/* Items */

static __attribute__((noinline)) void add_in_section(void *item, int64_t n, size_t size)
{
	struct percpu_chunk *k = percpu_chunk_of(item);
	struct section_page *s = section_page();

	if (s == NULL && make_section_page() == NULL && size == sizeof(uint64_t)) {
		percpu_chunk_add_atomic(k, (size_t)((char *)item - k->base), n);
		return;
	}
	percpu_section_enter();
	s = section_page();
	if (take_copies(s) == 0)
		percpu_section_add_to_copy(copy_of_section(s, item), n, size);
	else if (size == sizeof(uint64_t))
		percpu_chunk_add_atomic(k, (size_t)((char *)item - k->base), n);
	else
		die_without_fences();
	percpu_section_exit();
}

void percpu_section_add(void *item, int64_t n, size_t size)
{
	const char *guard = __atomic_load_n(&section_guard, __ATOMIC_ACQUIRE);
	int r = PERCPU_SEQ_SLOW;
	int64_t sum;

	if (percpu_likely(guard != NULL && size == sizeof(uint64_t))) {
		r = percpu_seq_add_limit(item, guard, PERCPU_STRIDE, n, INT64_MAX, &sum);
		for (int try = 0; percpu_unlikely(r != 0) && percpu_seq_prepare_try(r, try); try++)
			r = percpu_seq_add_limit(item, guard, PERCPU_STRIDE, n, INT64_MAX, &sum);
	}
	if (percpu_unlikely(r != 0))
		add_in_section(item, n, size);
}
