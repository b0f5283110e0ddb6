/* SPDX-License-Identifier: MIT */
/*
 * counters_add.cc - the frame that every contender of counters_add.h runs in.
 *
 * Pinned threads run batches of 1024 adds, unrolled by 8. In the plain pattern
 * all go to one counter, so an add may have to wait for the store of the one
 * before it; "8 in turn" goes round 8 counters; "amid work" has some 40 cycles
 * of other work before each add. After each run thread 0 compares the sum with
 * what was added.
 */
#include <cerrno>

#include "counters.h"
#include "counters_add.h"

targets target = {};
thread_local volatile uint64_t tls_words[cells];

static constexpr unsigned batch = 1024;

/* Which CPU thread 0 gets: each in turn, should they differ. */
static unsigned first_cpu;

template <class C, class = void> struct can_sum : std::false_type {
};
template <class C> struct can_sum<C, std::void_t<decltype(C::total())>> : std::true_type {
};

template <class C, class = void> struct adds_of : std::integral_constant<unsigned, 1> {
};
template <class C>
struct adds_of<C, std::void_t<decltype(C::adds)>> : std::integral_constant<unsigned, C::adds> {
};

/* A chain of some 40 cycles, of which each add of "amid work" has one before
 * it: a CPU that runs ahead hides most of what follows there. */
[[gnu::always_inline]] static inline uint64_t work(uint64_t x)
{
	for (int i = 0; i < 8; i++)
		x = (x ^ x >> 7) * 0x9e3779b97f4a7c15;
	__asm__ volatile("" : "+r"(x));
	return x;
}

enum pattern { one_counter, in_turn, amid_work };

template <class C, pattern p> __attribute__((noinline, aligned(64))) static void run_batch()
{
	constexpr unsigned n = p == in_turn ? cells : 1;
	uint64_t x = 1;
	C c;
	auto step = [&](unsigned i) __attribute__((always_inline))
	{
		if (p == amid_work)
			x = work(x);
		c.add(i % n);
	};

	for (unsigned i = 0; i < batch; i += 8) {
		step(0);
		step(1);
		step(2);
		step(3);
		step(4);
		step(5);
		step(6);
		step(7);
	}
}

template <class C> static void before_run(const benchmark::State &)
{
	first_cpu++;
	if constexpr (can_sum<C>::value)
		C::reset();
}

template <class C, pattern p> static void run(benchmark::State &state)
{
	pinned here(first_cpu + state.thread_index());

	percpu_seq_attach();
	for (auto _ : state)
		run_batch<C, p>();

	double ops = double(state.iterations()) * batch;

	state.counters["ops"] = ops;
	/* All threads have left the loop by now. */
	if constexpr (can_sum<C>::value)
		if (state.thread_index() == 0)
			state.counters["lost"] =
				ops * state.threads() * adds_of<C>::value - double(C::total());
}

template <class C, pattern p = one_counter>
static void measure(const char *name, std::vector<int> threads)
{
	auto *b = benchmark::RegisterBenchmark((name + row_suffix).c_str(), run<C, p>);

	b->Setup(before_run<C>);
	for (int t : threads)
		b->Threads(t);
}

static void make_targets()
{
	must(percpu_region_create(nullptr, &target.region), "percpu_region_create");
	for (unsigned i = 0; i < cells; i++) {
		must(percpu_counter_create_in(target.region, &target.counter[i]), "a counter");
		must(percpu_static_counter_setup(&target.statics[i]), "a static counter");
		if ((char *)target.counter[i] != (char *)target.counter[0] + i * 8)
			must(-ENOTSUP, "the counters of a new region are not adjacent");
	}
	must(percpu_counter_array_create(cells * 8, &target.array), "an array");
	for (int f = PERCPU_LOCAL_SPLIT; f <= PERCPU_LOCAL_REFS; f++)
		must(percpu_local_create(8, (percpu_local_fallback)f, &target.local[f]), "a word");
	must(percpu_compact_create(cells, &target.compact), "compact counters");
	must(percpu_wbuf_create(nullptr, &target.wbuf), "a write buffer");
	for (unsigned flags : { 0, PERCPU_STATS_WHOLE })
		must(percpu_stats_create(32, 1, flags, &target.stats[flags]), "statistics");
	must(percpu_region_alloc(target.region, 64, 64, &target.guard), "a guard");
	must(percpu_region_alloc(target.region, 64, 64, &target.lock), "a lock");
	pthread_mutex_init(&target.mutex, nullptr);
}

void register_adds(bool all)
{
	const std::vector<int> two = { 1, 2 }, eight = { 1, 2, 8 };

	make_targets();

	/* On every tier. */
	measure<counter_add>(ADD, eight);
	measure<array_add>("percpu_counter_array_add", two);
	measure<local_add<PERCPU_LOCAL_SPLIT>>("percpu_local_add, split", two);
	measure<local_add<PERCPU_LOCAL_LOCK>>("percpu_local_add, lock", two);
	measure<local_add<PERCPU_LOCAL_REFS>>("percpu_local_add, refs", two);
	measure<stats_add<0>>(STATS_ADD, two);
	measure<stats_update<0>>(STATS_UPDATE, two);
	if (!all)
		return;

	measure<global_volatile>("global volatile inc", eight);
	measure<seq_cmpxchg>("per-CPU rseq lock, cmpxchg", eight);
	measure<seq_spinlock>("per-CPU rseq spinlock", eight);
	measure<percpu_atomic>(LOCKED, eight);
	measure<percpu_cmpxchg>("per-CPU atomic cmpxchg", eight);
	measure<global_atomic>("global atomic inc", eight);
	measure<global_cmpxchg>("global atomic cmpxchg", eight);
	measure<global_mutex>("global pthread mutex", eight);

	measure<tls_increment>("TLS increment", two);
	measure<nothing, amid_work>("the work alone", two);
	measure<tls_increment, amid_work>("TLS increment" AMID_WORK, two);
	measure<unprotected>(UNPROTECTED, two);
	measure<unprotected, amid_work>(UNPROTECTED AMID_WORK, two);
	measure<unprotected, in_turn>(UNPROTECTED IN_TURN, two);
	measure<two_stores>("two stores", two);
	measure<counter_add, in_turn>(ADD IN_TURN, two);
	measure<counter_add, amid_work>(ADD AMID_WORK, two);
#ifdef HAVE_LIBRSEQ
	measure<librseq_add>(LIBRSEQ, two);
	measure<librseq_add, in_turn>(LIBRSEQ IN_TURN, two);
	measure<librseq_add, amid_work>(LIBRSEQ AMID_WORK, two);
#endif
	measure<percpu_atomic, in_turn>(LOCKED IN_TURN, two);
	measure<percpu_atomic, amid_work>(LOCKED AMID_WORK, two);
	measure<percpu_atomic_getcpu>("per-CPU atomic inc, sched_getcpu()", two);
	measure<compact_add>(COMPACT, two);
	measure<wbuf_add>(WBUF, two);
	measure<static_add>("percpu_static_counter_add", two);
	measure<freebsd_add>("counter_u64_add", two);

	measure<vector_add<2>, in_turn>("percpu_counter_array_add2", two);
	measure<vector_add<4>, in_turn>("percpu_counter_array_add4", two);
	measure<vector_add<8>, in_turn>("percpu_counter_array_add8", two);
	measure<vector_add<2>>("percpu_counter_array_add2, same line", two);
	measure<vector_add<2>, amid_work>("percpu_counter_array_add2" AMID_WORK, two);
	measure<vector_add<4>>("percpu_counter_array_add4, same line", two);
	measure<vector_add<4>, amid_work>("percpu_counter_array_add4" AMID_WORK, two);
	measure<vector_add<8>>("percpu_counter_array_add8, same line", two);
	measure<vector_add<8>, amid_work>("percpu_counter_array_add8" AMID_WORK, two);

	measure<stats_add<PERCPU_STATS_WHOLE>>(STATS_ADD IN_COPIES, two);
	measure<stats_update<PERCPU_STATS_WHOLE>>(STATS_UPDATE IN_COPIES, two);

	measure<local_add_return>("percpu_local_add_return", two);
	measure<local_add_limit>("percpu_local_add_limit", two);
	measure<hidden_cpu<local_add<PERCPU_LOCAL_SPLIT>>>("fallback: split counters", two);
	measure<hidden_cpu<local_add<PERCPU_LOCAL_LOCK>>>("fallback: flag with lock", two);
	measure<hidden_cpu<local_add<PERCPU_LOCAL_REFS>>>("fallback: reference count", two);
	measure<hidden_cpu<counter_add>>("fallback: " ADD, two);
}
