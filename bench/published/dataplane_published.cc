/* SPDX-License-Identifier: MIT */
/* dataplane_published.cc - the rows of the published table, and one that does not count. */
#include <stdarg.h>

#include "dataplane.h"
#include "dataplane_locks.h"

/* The barrier makes the compiler add in memory, at once. */
static inline void add(uint64_t *cell, uint64_t n)
{
	*cell += n;
	__asm__ volatile("" : "+m"(*cell));
}

static void sum_up(const uint64_t *global, const uint64_t *flow, size_t flows, unsigned fields,
		   sums &g, sums &f)
{
	g.packets += global[0];
	g.bytes += global[1];
	for (size_t i = 0; i < flows; i++) {
		f.packets += flow[i * fields];
		f.bytes += flow[i * fields + 1];
	}
}

template <unsigned K> struct objects {
	words global, flow;

	explicit objects(const setting &s) : global(K), flow(s.flows * K)
	{
	}
	void add_to_global(const uint64_t *n)
	{
#pragma GCC unroll 8
		for (unsigned k = 0; k < K; k++)
			add(global.at + k, n[k]);
	}
	void add_to_flow(size_t i, const uint64_t *n)
	{
#pragma GCC unroll 8
		for (unsigned k = 0; k < K; k++)
			add(flow.at + i * K + k, n[k]);
	}
};

template <unsigned K> struct shared {
	size_t flows;
	objects<K> all;

	explicit shared(const setting &s) : flows(s.flows), all(s)
	{
	}
	void global(unsigned, const uint64_t *n)
	{
		all.add_to_global(n);
	}
	void flow(unsigned, size_t i, const uint64_t *n)
	{
		all.add_to_flow(i, n);
	}
	void both(unsigned w, size_t i, const uint64_t *n)
	{
		global(w, n);
		flow(w, i, n);
	}
	void totals(sums &g, sums &f)
	{
		sum_up(all.global.at, all.flow.at, flows, K, g, f);
	}
	void snapshot()
	{
	}
};

template <unsigned K, class L> struct shared_locked : shared<K> {
	alignas(64) L lock;

	using shared<K>::shared;
	void global(unsigned w, const uint64_t *n)
	{
		lock.lock();
		shared<K>::global(w, n);
		lock.unlock();
	}
	void flow(unsigned w, size_t i, const uint64_t *n)
	{
		lock.lock();
		shared<K>::flow(w, i, n);
		lock.unlock();
	}
	void both(unsigned w, size_t i, const uint64_t *n)
	{
		lock.lock();
		shared<K>::both(w, i, n);
		lock.unlock();
	}
};

template <unsigned K> using shared_spinlock = shared_locked<K, spinlock>;
template <unsigned K> using shared_ticket_lock = shared_locked<K, ticket_lock>;

template <unsigned K> struct shared_atomic : shared<K> {
	using shared<K>::shared;
	static void add_all(uint64_t *cell, const uint64_t *n)
	{
#pragma GCC unroll 8
		for (unsigned k = 0; k < K; k++)
			__atomic_fetch_add(cell + k, n[k], __ATOMIC_RELAXED);
	}
	void global(unsigned, const uint64_t *n)
	{
		add_all(this->all.global.at, n);
	}
	void flow(unsigned, size_t i, const uint64_t *n)
	{
		add_all(this->all.flow.at + i * K, n);
	}
	void both(unsigned w, size_t i, const uint64_t *n)
	{
		global(w, n);
		flow(w, i, n);
	}
};

/* stat_wb, but inlined. A worker has 1024 entries, which it applies under a lock that all share:
 * from the 512th on if it gets the lock at once, and in any case when they are full. Workers
 * never idle here, so none of them hints that there is time to flush. */
template <unsigned K> struct shared_buffered : shared<K> {
	static constexpr size_t entries = 1024, threshold = 512;

	struct alignas(64) buffer {
		size_t used = 0;
		struct {
			uint64_t *cell, n;
		} entry[entries];
	};
	alignas(64) spinlock lock;
	std::vector<buffer> buffers;

	explicit shared_buffered(const setting &s) : shared<K>(s), buffers(s.workers())
	{
	}
	static void apply(buffer &b)
	{
		for (size_t i = 0; i < b.used; i++)
			add(b.entry[i].cell, b.entry[i].n);
		b.used = 0;
	}
	void make_room(buffer &b, size_t adds)
	{
		if (b.used + adds > entries)
			lock.lock();
		else if (b.used < threshold || !lock.try_lock())
			return;
		apply(b);
		lock.unlock();
	}
	static void schedule(buffer &b, uint64_t *cell, const uint64_t *n)
	{
#pragma GCC unroll 8
		for (unsigned k = 0; k < K; k++)
			b.entry[b.used + k] = { cell + k, n[k] };
		b.used += K;
		__asm__ volatile("" : : : "memory");
	}
	buffer &own()
	{
		return buffers[lcore_id];
	}
	void global(unsigned, const uint64_t *n)
	{
		buffer &b = own();

		make_room(b, K);
		schedule(b, this->all.global.at, n);
	}
	void flow(unsigned, size_t i, const uint64_t *n)
	{
		buffer &b = own();

		make_room(b, K);
		schedule(b, this->all.flow.at + i * K, n);
	}
	void both(unsigned, size_t i, const uint64_t *n)
	{
		buffer &b = own();

		make_room(b, 2 * K);
		schedule(b, this->all.global.at, n);
		schedule(b, this->all.flow.at + i * K, n);
	}
	void totals(sums &g, sums &f)
	{
		for (buffer &b : buffers)
			apply(b);
		shared<K>::totals(g, f);
	}
};

/* stat_wb with the published interface: a transaction calls a function with as many arguments as
 * it needs, schedule_add64_m(n, (pointer, value)...). */
template <unsigned K> struct shared_buffered_call : shared_buffered<K> {
	using typename shared_buffered<K>::buffer;
	using shared_buffered<K>::shared_buffered;

	__attribute__((noinline)) void schedule_add64_m(int n, ...)
	{
		buffer &b = this->own();
		va_list args;

		this->make_room(b, static_cast<size_t>(n));
		va_start(args, n);
		for (int i = 0; i < n; i++) {
			b.entry[b.used].cell = va_arg(args, uint64_t *);
			b.entry[b.used++].n = va_arg(args, uint64_t);
		}
		va_end(args);
	}
	/* Expand the arguments: N pairs. */
	template <unsigned N, typename... A>
	void call(uint64_t *const *cells, const uint64_t *n, A... args)
	{
		if constexpr (sizeof...(A) == 2 * N)
			schedule_add64_m(N, args...);
		else
			call<N>(cells, n, args..., cells[sizeof...(A) / 2],
				n[sizeof...(A) / 2 % K]);
	}
	static void name(uint64_t **cells, uint64_t *first)
	{
#pragma GCC unroll 8
		for (unsigned k = 0; k < K; k++)
			cells[k] = first + k;
	}
	void global(unsigned, const uint64_t *n)
	{
		uint64_t *cells[K];

		name(cells, this->all.global.at);
		call<K>(cells, n);
	}
	void flow(unsigned, size_t i, const uint64_t *n)
	{
		uint64_t *cells[K];

		name(cells, this->all.flow.at + i * K);
		call<K>(cells, n);
	}
	void both(unsigned, size_t i, const uint64_t *n)
	{
		uint64_t *cells[2 * K];

		name(cells, this->all.global.at);
		name(cells + K, this->all.flow.at + i * K);
		call<2 * K>(cells, n);
	}
};

/* Objects per worker, and a lock and a sequence counter for all of a worker's objects. Each
 * worker has a line for these, the global object, and the flows', and the next worker's follow,
 * so that they are found without a pointer. */
template <unsigned K> struct per_core {
	static constexpr size_t line = 8, global_at = line, flow_at = 2 * line;

	size_t flows, stride;
	unsigned workers;
	words all;

	explicit per_core(const setting &s)
		: flows(s.flows), stride(flow_at + (s.flows * K + line - 1) / line * line + line),
		  workers(s.workers()), all(stride * workers)
	{
	}
	uint64_t *of(unsigned worker)
	{
		return all.at + worker * stride;
	}
	static void add_all(uint64_t *cell, const uint64_t *n)
	{
#pragma GCC unroll 8
		for (unsigned k = 0; k < K; k++)
			add(cell + k, n[k]);
	}
	static void add_to_global(uint64_t *own, const uint64_t *n)
	{
		add_all(own + global_at, n);
	}
	static void add_to_flow(uint64_t *own, size_t i, const uint64_t *n)
	{
		add_all(own + flow_at + i * K, n);
	}
	static void add_to_both(uint64_t *own, size_t i, const uint64_t *n)
	{
		add_to_global(own, n);
		add_to_flow(own, i, n);
	}
	void global(unsigned, const uint64_t *n)
	{
		add_to_global(of(lcore_id), n);
	}
	void flow(unsigned, size_t i, const uint64_t *n)
	{
		add_to_flow(of(lcore_id), i, n);
	}
	void both(unsigned, size_t i, const uint64_t *n)
	{
		add_to_both(of(lcore_id), i, n);
	}
	void totals(sums &g, sums &f)
	{
		for (unsigned w = 0; w < workers; w++)
			sum_up(of(w) + global_at, of(w) + flow_at, flows, K, g, f);
	}
	void snapshot()
	{
	}
};

/* Each caller knows its id, and passes it. */
template <unsigned K> struct per_core_at_hand : per_core<K> {
	using per_core<K>::per_core;
	void global(unsigned w, const uint64_t *n)
	{
		this->add_to_global(this->of(w), n);
	}
	void flow(unsigned w, size_t i, const uint64_t *n)
	{
		this->add_to_flow(this->of(w), i, n);
	}
	void both(unsigned w, size_t i, const uint64_t *n)
	{
		this->add_to_both(this->of(w), i, n);
	}
};

/* guard(own) protects an update of a worker's objects. */
template <unsigned K, class guard> struct per_core_guarded : per_core<K> {
	using per_core<K>::per_core;
	void global(unsigned, const uint64_t *n)
	{
		uint64_t *own = this->of(lcore_id);
		guard g(own);

		this->add_to_global(own, n);
	}
	void flow(unsigned, size_t i, const uint64_t *n)
	{
		uint64_t *own = this->of(lcore_id);
		guard g(own);

		this->add_to_flow(own, i, n);
	}
	void both(unsigned, size_t i, const uint64_t *n)
	{
		uint64_t *own = this->of(lcore_id);
		guard g(own);

		this->add_to_both(own, i, n);
	}
};

struct lock_guard {
	spinlock &lock;

	explicit lock_guard(uint64_t *own) : lock(*reinterpret_cast<spinlock *>(own))
	{
		lock.lock();
	}
	~lock_guard()
	{
		lock.unlock();
	}
};

/* The counter is odd during an update. */
struct sequence_guard {
	uint64_t *turn, t;

	explicit sequence_guard(uint64_t *own) : turn(own + 1), t(*turn)
	{
		__atomic_store_n(turn, t + 1, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_RELEASE);
	}
	~sequence_guard()
	{
		__atomic_store_n(turn, t + 2, __ATOMIC_RELEASE);
	}
};

template <unsigned K> using per_core_spinlock = per_core_guarded<K, lock_guard>;
template <unsigned K> using per_core_seqcount = per_core_guarded<K, sequence_guard>;

void add_published(contenders &all, const setting &s)
{
	add_row<nothing>(all, NOTHING, s);
	add_row<shared>(all, UNSYNCHRONIZED, s);
	add_row<shared_spinlock>(all, "shared, spinlock", s);
	add_row<shared_ticket_lock>(all, TICKET_LOCK, s);
	add_row<shared_atomic>(all, "shared, atomics", s);
	add_row<shared_buffered_call>(all, BUFFERED, s);
	add_row<shared_buffered>(all, BUFFERED_INLINED, s);
	add_row<per_core>(all, PER_CORE, s);
	add_row<per_core_at_hand>(all, PER_CORE_AT_HAND, s);
	add_row<per_core_spinlock>(all, "per core, spinlock", s);
	add_row<per_core_seqcount>(all, PER_CORE_SEQCOUNT, s);
}
