/* SPDX-License-Identifier: MIT */
/*
 * counters_add.h - add 1, in every way there is.
 *
 * A contender is a struct with add(i), which adds to the ith of 8 counters;
 * and, where a sum tells whether all arrived, reset() and total().
 */
#ifndef BENCH_COUNTERS_ADD_H
#define BENCH_COUNTERS_ADD_H

#include <pthread.h>
#include <sched.h>

#include <percpu/freebsd.h>
#include <percpu/percpu.h>

#ifdef HAVE_LIBRSEQ
#include <rseq/rseq.h>
#endif

constexpr unsigned cells = 8;

/* What they add to. All per-CPU contenders share the cells of the same 8
 * adjacent counters, all global ones the same 8 words. */
struct targets {
	percpu_region *region;
	percpu_counter *counter[cells];
	percpu_static_counter statics[cells];
	percpu_counter_array *array; /* 8 lines of 8 */
	percpu_local *local[3];	     /* by percpu_local_fallback */
	percpu_compact *compact;
	percpu_wbuf *wbuf;
	percpu_stats *stats[2]; /* by flags; an object of 4 fields */
	void *guard, *lock;	/* cells, 0 */
	alignas(64) uint64_t words[cells];
	alignas(64) pthread_mutex_t mutex;
};
extern targets target;
extern thread_local volatile uint64_t tls_words[cells];

/* An increment that the compiler makes as written. */
inline void increment(uint64_t *word)
{
	*(volatile uint64_t *)word = *(volatile uint64_t *)word + 1;
}

inline int area_cpu()
{
	return *(volatile int32_t *)&percpu_self->cpu_id;
}

/* Where they count, and what the sum is. */

struct on_counters {
	char *const first = (char *)target.counter[0];

	percpu_counter *at(unsigned i) const
	{
		return (percpu_counter *)(first + i * 8);
	}
	uint64_t *cell(unsigned i, int cpu) const
	{
		return (uint64_t *)(first + i * 8 + cpu * PERCPU_STRIDE);
	}
	static void reset()
	{
		for (auto c : target.counter)
			percpu_counter_zero(c);
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (auto c : target.counter)
			sum += percpu_counter_fetch(c);
		return sum;
	}
};

struct on_words {
	static void reset()
	{
		for (auto &w : target.words)
			w = 0;
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (auto w : target.words)
			sum += w;
		return sum;
	}
};

struct on_array {
	static constexpr int64_t ones[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };

	static void reset()
	{
		for (size_t i = 0; i < target.array->n; i++)
			percpu_counter_array_zero(target.array, i);
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (size_t i = 0; i < target.array->n; i++)
			sum += percpu_counter_array_fetch(target.array, i);
		return sum;
	}
};

template <percpu_local_fallback fallback> struct on_local {
	const percpu_local *const l = target.local[fallback];
	static inline int64_t before;

	static void reset()
	{
		before = percpu_local_sum(target.local[fallback]);
	}
	static uint64_t total()
	{
		return percpu_local_sum(target.local[fallback]) - before;
	}
};

/*
 * The rows of the 2016 slides. The "rseq lock" there is the lock behind
 * sequences that make no progress; a sequence has to test that nobody holds
 * it, which here is the guard of arch/spec.h.
 */

struct global_volatile : on_words {
	[[gnu::always_inline]] void add(unsigned i)
	{
		increment(&target.words[i]);
	}
};

struct counter_add : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_counter_add(at(i), 1);
	}
};

/* Load; then, in a sequence that tests the guard, compare and store. */
struct seq_cmpxchg : on_counters {
	char *const guard = (char *)target.guard;

	[[gnu::always_inline]] void add(unsigned i)
	{
		int64_t v = *(volatile int64_t *)cell(i, area_cpu());

		while (percpu_seq_cmpxchg(at(i), guard, PERCPU_STRIDE, v, v + 1, &v))
			;
	}
};

/* Take the lock of this CPU by a sequence, add, give it back by a store. The
 * threads are pinned, so the CPU stays the one whose lock was taken. */
struct seq_spinlock : on_counters {
	char *const guard = (char *)target.guard;
	char *const lock = (char *)target.lock;

	[[gnu::always_inline]] void add(unsigned i)
	{
		int64_t held;
		int cpu;

		while (percpu_seq_cmpxchg(lock, guard, PERCPU_STRIDE, 0, 1, &held))
			sched_yield();
		cpu = area_cpu();
		increment(cell(i, cpu));
		__atomic_store_n((int64_t *)(lock + cpu * PERCPU_STRIDE), 0, __ATOMIC_RELEASE);
	}
};

inline void cmpxchg_add(uint64_t *word)
{
	uint64_t v = __atomic_load_n(word, __ATOMIC_RELAXED);

	while (!__atomic_compare_exchange_n(word, &v, v + 1, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
}

struct percpu_atomic : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		__atomic_fetch_add(cell(i, area_cpu()), 1, __ATOMIC_RELAXED);
	}
};

struct percpu_cmpxchg : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		cmpxchg_add(cell(i, area_cpu()));
	}
};

struct global_atomic : on_words {
	[[gnu::always_inline]] void add(unsigned i)
	{
		__atomic_fetch_add(&target.words[i], 1, __ATOMIC_RELAXED);
	}
};

struct global_cmpxchg : on_words {
	[[gnu::always_inline]] void add(unsigned i)
	{
		cmpxchg_add(&target.words[i]);
	}
};

struct global_mutex : on_words {
	[[gnu::always_inline]] void add(unsigned i)
	{
		pthread_mutex_lock(&target.mutex);
		increment(&target.words[i]);
		pthread_mutex_unlock(&target.mutex);
	}
};

/* What an add is measured against. */

struct nothing {
	[[gnu::always_inline]] void add(unsigned)
	{
	}
};

struct tls_increment {
	[[gnu::always_inline]] void add(unsigned i)
	{
		tls_words[i] = tls_words[i] + 1;
	}
};

/* What percpu_seq_add() does between arming and commit, without a test of the
 * CPU number. A preemption in it loses counts, but rarely: a run of this
 * length need not show it. */
struct unprotected : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
#ifdef __x86_64__
		__asm__ volatile(
			"movl 4(%[rs]), %%eax\n\t"
			"imulq %[stride], %%rax\n\t"
			"addq %[cell], %%rax\n\t"
			"addq $1, (%%rax)"
			:
			: [rs] "r"(percpu_self), [cell] "r"(at(i)), [stride] "e"(PERCPU_STRIDE)
			: "rax", "cc", "memory");
#else
		increment(cell(i, area_cpu()));
		__asm__ volatile("" ::: "memory");
#endif
	}
};

/* The stores that no sequence can do without, to the thread's area and to the
 * counter, in two cache lines, and nothing else. Counts nothing. */
struct two_stores {
	struct alignas(64) line {
		volatile uint64_t word[8];
	} area, lane;

	[[gnu::always_inline]] void add(unsigned i)
	{
		area.word[1] = i;
		lane.word[i] = i;
	}
};

#ifdef HAVE_LIBRSEQ
struct librseq_add : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		int cpu;

		do {
			cpu = rseq_cpu_start();
		} while (rseq_load_add_store__ptr(RSEQ_MO_RELAXED, RSEQ_PERCPU_CPU_ID,
						  (intptr_t *)cell(i, cpu), 1, cpu));
	}
};
#endif

struct percpu_atomic_getcpu : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		__atomic_fetch_add(cell(i, sched_getcpu()), 1, __ATOMIC_RELAXED);
	}
};

/* Other ways in. */

struct array_add : on_array {
	const percpu_counter_array *const a = target.array;

	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_counter_array_add(a, i, 1);
	}
};

/* In turn, each goes to a cache line of its own. */
template <unsigned words> struct vector_add : on_array {
	static constexpr unsigned adds = words;
	const percpu_counter_array *const a = target.array;

	[[gnu::always_inline]] void add(unsigned i)
	{
		if constexpr (words == 2)
			percpu_counter_array_add2(a, i * 8, ones);
		else if constexpr (words == 4)
			percpu_counter_array_add4(a, i * 8, ones);
		else
			percpu_counter_array_add8(a, i * 8, ones);
	}
};

struct static_add {
	static void reset()
	{
		for (auto &s : target.statics)
			percpu_static_counter_zero(&s);
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (auto &s : target.statics)
			sum += percpu_static_counter_fetch(&s);
		return sum;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_static_counter_add(&target.statics[i], 1);
	}
};

struct freebsd_add : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		counter_u64_add((counter_u64_t)(void *)at(i), 1);
	}
};

/* Operations on a word that need a fallback other than splitting. */

template <percpu_local_fallback fallback> struct local_add : on_local<fallback> {
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_local_add(this->l, 1);
	}
};

struct local_add_return : on_local<PERCPU_LOCAL_LOCK> {
	[[gnu::always_inline]] void add(unsigned)
	{
		int64_t v;

		percpu_local_add_return(l, 1, &v);
	}
};

struct local_add_limit : on_local<PERCPU_LOCAL_LOCK> {
	[[gnu::always_inline]] void add(unsigned)
	{
		int64_t v;

		percpu_local_add_limit(l, 1, INT64_MAX, &v);
	}
};

/* The same in a thread whose CPU number is hidden, so that no sequence starts.
 * Only a benchmark may do this to the library's variable. */
template <class contender> struct hidden_cpu : contender {
	percpu_rseq *const saved = percpu_seq_attach();
	percpu_rseq nobody = {};

	hidden_cpu()
	{
		nobody.cpu_id = -1;
		percpu_self = &nobody;
	}
	~hidden_cpu()
	{
		percpu_self = saved;
	}
};

struct compact_add {
	static void reset()
	{
		for (unsigned i = 0; i < cells; i++)
			percpu_compact_zero(target.compact, i);
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (unsigned i = 0; i < cells; i++)
			sum += percpu_compact_fetch(target.compact, i);
		return sum;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_compact_add(target.compact, i, 1);
	}
};

/* With the flushes of full buffers. */
struct wbuf_add : on_words {
	static uint64_t total()
	{
		percpu_wbuf_flush(target.wbuf);
		return on_words::total();
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		(void)percpu_wbuf_add(target.wbuf, &target.words[i], 1);
	}
};

template <unsigned flags> struct on_stats {
	static constexpr uint64_t ones[4] = { 1, 1, 1, 1 };

	static void reset()
	{
		uint64_t fields[4];

		must(percpu_stats_fetch_zero(target.stats[flags], 0, 1, fields), "fetch_zero");
	}
	static uint64_t total()
	{
		uint64_t fields[4];

		must(percpu_stats_fetch(target.stats[flags], 0, 1, fields), "fetch");
		return fields[0] + fields[1] + fields[2] + fields[3];
	}
};

template <unsigned flags> struct stats_add : on_stats<flags> {
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_stats_add(target.stats[flags], 0, 1, 1);
	}
};

template <unsigned flags> struct stats_update : on_stats<flags> {
	static constexpr unsigned adds = 4;

	[[gnu::always_inline]] void add(unsigned)
	{
		(void)percpu_stats_update(target.stats[flags], 0, 0, on_stats<flags>::ones, 4);
	}
};

#endif
