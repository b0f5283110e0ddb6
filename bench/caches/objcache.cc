/* SPDX-License-Identifier: MIT */
/*
 * objcache.cc - the benchmark of object caches, beside four allocators in one process.
 *
 * usage: objcache [--json FILE] [--benchmark_...]
 *
 * The allocators are loaded by dlopen(), if they are installed, and called through pointers;
 * malloc is called as programs call it. A row gets so many objects, then puts them all; or one
 * thread gets and another one, on another CPU, puts; or objects have a constructor, which the
 * user of an allocator runs each time.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <percpu/calls.h>

#include "objcache.h"

static constexpr unsigned batches[] = { 1, 32, 200 };

#define OBJCACHE "objcache"
#define CALLED "objcache, called"
#define LIMITED "objcache, limit not reached"
#define GLIBC "malloc"

/* By calls, as from languages that cannot inline C. */
struct called_cache : cache {
	void *get()
	{
		void *obj;

		return percpu_objcache_get_call(oc, 0, &obj) == 0 ? obj : nullptr;
	}
	void put(void *obj)
	{
		percpu_objcache_put_call(oc, obj);
	}
};

struct limited_cache : cache {
	static const percpu_objcache_options *limit()
	{
		static percpu_objcache_options o = {};

		o.size = sizeof(o);
		o.limit = 10000;
		return &o;
	}
	limited_cache() : cache(limit())
	{
	}
};

struct glibc {
	void *get()
	{
		return malloc(size);
	}
	void put(void *obj)
	{
		free(obj);
	}
};

/* An allocator that was loaded. */
struct loaded {
	const char *name, *library, *allocates, *frees;
	void *(*allocate)(size_t);
	void (*release)(void *);

	bool load()
	{
		void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);

		if (!handle)
			return false;
		allocate = reinterpret_cast<void *(*)(size_t)>(dlsym(handle, allocates));
		release = reinterpret_cast<void (*)(void *)>(dlsym(handle, frees));
		return allocate && release;
	}
	void *get()
	{
		return allocate(size);
	}
	void put(void *obj)
	{
		release(obj);
	}
};

static loaded allocators[] = {
	{ "jemalloc", "libjemalloc.so.2", "malloc", "free", nullptr, nullptr },
	{ "mimalloc", "libmimalloc.so.2", "mi_malloc", "mi_free", nullptr, nullptr },
	{ "tcmalloc", "libtcmalloc_minimal.so.4", "tc_malloc", "tc_free", nullptr, nullptr },
};

/* An object that takes longer to construct than to allocate. */
struct session {
	pthread_mutex_t lock;
	char *buffer;
	uint64_t table[64];
};

static void construct(session *s, char *buffer)
{
	pthread_mutex_init(&s->lock, nullptr);
	s->buffer = buffer;
	for (unsigned i = 0; i < 64; i++)
		s->table[i] = i * i;
}

static int construct_session(void *obj, void *, unsigned)
{
	char *buffer = static_cast<char *>(malloc(4096));

	if (!buffer)
		return -ENOMEM;
	construct(static_cast<session *>(obj), buffer);
	return 0;
}

static void destroy_session(void *obj, void *)
{
	auto s = static_cast<session *>(obj);

	pthread_mutex_destroy(&s->lock);
	free(s->buffer);
}

struct session_cache : cache {
	static const percpu_objcache_options *options()
	{
		static percpu_objcache_options o = {};

		o.size = sizeof(o);
		o.ctor = construct_session;
		o.dtor = destroy_session;
		return &o;
	}
	session_cache() : cache(options(), sizeof(session))
	{
	}
};

template <class allocator> struct sessions_of : allocator {
	explicit sessions_of(const allocator &a) : allocator(a)
	{
	}
	void *make(size_t bytes);
	void drop(void *p);
	void *get()
	{
		auto s = static_cast<session *>(make(sizeof(session)));

		construct(s, static_cast<char *>(make(4096)));
		return s;
	}
	void put(void *obj)
	{
		auto s = static_cast<session *>(obj);

		pthread_mutex_destroy(&s->lock);
		drop(s->buffer);
		drop(s);
	}
};

template <> void *sessions_of<glibc>::make(size_t bytes)
{
	return malloc(bytes);
}

template <> void sessions_of<glibc>::drop(void *p)
{
	free(p);
}

template <> void *sessions_of<loaded>::make(size_t bytes)
{
	return allocate(bytes);
}

template <> void sessions_of<loaded>::drop(void *p)
{
	release(p);
}

static std::string passed_name(const std::string &what)
{
	return what + ", passed on";
}

static std::string session_name(const std::string &what)
{
	return what + ", constructed";
}

/* A queue between two threads. */
struct belt {
	static constexpr size_t slots = 1024;
	void *slot[slots];
	alignas(64) size_t head = 0;
	alignas(64) size_t tail = 0;

	void send(void *obj)
	{
		while (head - __atomic_load_n(&tail, __ATOMIC_ACQUIRE) == slots)
			sched_yield();
		slot[head % slots] = obj;
		__atomic_store_n(&head, head + 1, __ATOMIC_RELEASE);
	}
	void *receive()
	{
		void *obj;

		while (__atomic_load_n(&head, __ATOMIC_ACQUIRE) == tail)
			sched_yield();
		obj = slot[tail % slots];
		__atomic_store_n(&tail, tail + 1, __ATOMIC_RELEASE);
		return obj;
	}
};

/* One thread gets, the other one, on another CPU, puts. */
template <class C> static void pass_on(benchmark::State &state, C &c, belt &b)
{
	pinned here(state.thread_index());

	percpu_seq_attach();
	for (auto _ : state)
		for (unsigned i = 0; i < pairs; i++)
			if (state.thread_index() == 0)
				b.send(c.get());
			else
				c.put(b.receive());
	state.counters["ops"] = double(state.iterations()) * pairs;
}

template <class C> static void measure_bursts(const char *name, std::shared_ptr<C> c)
{
	for (unsigned batch : batches)
		benchmark::RegisterBenchmark(
			row_name(name, batch).c_str(),
			[c, batch](benchmark::State &state) { run(state, *c, batch); })
			->ThreadRange(1, 2);
}

template <class C> static void measure(const char *name, const C &made)
{
	auto c = std::make_shared<C>(made);
	auto b = std::make_shared<belt>();

	measure_bursts(name, c);
	benchmark::RegisterBenchmark(passed_name(name).c_str(), [c, b](benchmark::State &state) {
		pass_on(state, *c, *b);
	})->Threads(2);
}

template <class C> static void measure_sessions(const char *name, const C &made)
{
	auto c = std::make_shared<C>(made);

	benchmark::RegisterBenchmark(session_name(name).c_str(), [c](benchmark::State &state) {
		run(state, *c, 1);
	})->ThreadRange(1, 2);
}

static void register_all(report &all)
{
	measure(OBJCACHE, cache());
	measure_bursts(CALLED, std::make_shared<called_cache>());
	measure_bursts(LIMITED, std::make_shared<limited_cache>());
	measure(GLIBC, glibc());
	measure_sessions(OBJCACHE, session_cache());
	measure_sessions(GLIBC, sessions_of<glibc>(glibc()));
	for (auto &a : allocators)
		if (a.load()) {
			measure(a.name, a);
			measure_sessions(a.name, sessions_of<loaded>(a));
		} else {
			all.skip(a.name, text("no %s", a.library));
		}
}

static void print(const results &r)
{
	std::vector<std::vector<std::string>> lines = {
		{ "", "1: 1 thread", "2 threads", "32: 1 thread", "2 threads", "200: 1 thread",
		  "2 threads", "passed on" },
	};
	std::vector<const char *> names = { OBJCACHE, CALLED, LIMITED, GLIBC };

	for (auto &a : allocators)
		names.push_back(a.name);
	for (auto name : names) {
		lines.push_back({ name });
		for (unsigned batch : batches)
			for (int threads : { 1, 2 })
				lines.back().push_back(
					median_best(r.find(row_name(name, batch), threads)));
		lines.back().push_back(median_best(r.find(passed_name(name), 2)));
	}
	printf("\nGet and put an object of %zu bytes, ns for both, CPU time per thread: median "
	       "(best).\nSo many at a time are got, then put. Passed on: another thread, on "
	       "another CPU, puts.\n\n",
	       size);
	print_table(lines);
	print_rows(r,
		   "Get and put an object with a lock, a buffer and a table, constructed once, or "
		   "each time",
		   { session_name(OBJCACHE), session_name(GLIBC), session_name("jemalloc"),
		     session_name("mimalloc"), session_name("tcmalloc") });
}

static void print_memory_of_all(report &all)
{
	static cache mine(nullptr, memory_size);
	std::vector<allocator> list = {
		{ OBJCACHE, [] { return mine.get(); }, [](void *obj) { mine.put(obj); } },
		{ GLIBC, [] { return malloc(memory_size); }, free },
	};

	for (auto &a : allocators)
		if (a.release)
			list.push_back(
				{ a.name, [&a] { return a.allocate(memory_size); }, a.release });
	print_memory(all, list);
}

static void add_aims(report &all)
{
	const results &r = all.rows;

	for (unsigned batch : batches)
		for (int threads : { 1, 2 })
			all.add_aim(text("to malloc, %u at a time, %d thread%s", batch, threads,
					 threads == 1 ? "" : "s"),
				    0.5,
				    r.ratio(row_name(OBJCACHE, batch), threads,
					    row_name(GLIBC, batch), threads));
	for (unsigned batch : batches)
		all.add_aim(text("2 threads to 1, %u at a time", batch), 1.1,
			    r.ratio(row_name(OBJCACHE, batch), 2, row_name(OBJCACHE, batch), 1));
	for (auto &a : allocators)
		for (unsigned batch : batches)
			all.add_aim(
				text("to %s, %u at a time, 2 threads", a.name, batch), 1.0,
				r.ratio(row_name(OBJCACHE, batch), 2, row_name(a.name, batch), 2));
	for (const char *name : { GLIBC, "jemalloc", "mimalloc", "tcmalloc" }) {
		all.add_aim(text("passed on, to %s", name), 1.0,
			    r.ratio(passed_name(OBJCACHE), 2, passed_name(name), 2));
		all.add_aim(text("constructed, to %s, 2 threads", name), 0.5,
			    r.ratio(session_name(OBJCACHE), 2, session_name(name), 2));
	}
}

/* Allocators that are not meant to be loaded late need more static TLS than is left. */
static void start_with_room_for_tls(char **argv)
{
	if (getenv("GLIBC_TUNABLES"))
		return;
	setenv("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=65536", 1);
	execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	start_with_room_for_tls(argv);
	report all("objcache", argc, argv);

	fprintf(stderr, "objcache: measuring, for about two minutes ...\n");
	register_all(all);
	register_ways();
	all.run();
	print(all.rows);
	print_ways(all.rows);
	print_memory_of_all(all);
	add_aims(all);
	all.print_sections();
	return all.finish();
}
