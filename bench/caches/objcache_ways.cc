/* SPDX-License-Identifier: MIT */
/*
 * objcache_ways.cc - object caches beside alternatives: two magazines per CPU instead of an
 * array; and buffers for pages of a file from an object cache, beside the list under a lock that
 * windows use.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "magazines.h"
#include "objcache.h"

static constexpr unsigned bursts[] = { 1, 32, 200, 600 };
static constexpr unsigned pages_at_a_time[] = { 1, 4, 16 };
static constexpr size_t page_size = 4096;
static constexpr unsigned file_pages = 64;

/* A cache whose array holds so many: the default is 64 at first, and more after bursts. */
struct sized_cache : cache {
	static const percpu_objcache_options *options(size_t room)
	{
		static percpu_objcache_options o;

		o = {};
		o.size = sizeof(o);
		o.cached = room * percpu_status()->possible_cpus;
		return &o;
	}
	explicit sized_cache(size_t room) : cache(options(room))
	{
		std::vector<void *> objects(2 * room);
		struct percpu_objcache_stats s;

		do {
			for (auto &obj : objects)
				obj = get();
			for (auto obj : objects)
				put(obj);
			percpu_objcache_stats(oc, &s);
		} while (s.array < room);
	}
};

/* Buffers of one page each, and a file to read pages from. */
struct file_pages_of {
	int fd = memfd_create("bench", MFD_CLOEXEC);

	file_pages_of()
	{
		if (fd < 0 || ftruncate(fd, off_t(file_pages * page_size)) != 0)
			must(-errno, "a file");
	}
	void *read(void *buffer)
	{
		static thread_local unsigned page;

		if (pread(fd, buffer, page_size, off_t(page++ % file_pages * page_size)) !=
		    ssize_t(page_size))
			must(-EIO, "a page");
		return buffer;
	}
};

struct cached_buffers : cache {
	file_pages_of file;

	cached_buffers() : cache(nullptr, page_size)
	{
	}
	void *get()
	{
		return file.read(cache::get());
	}
};

struct listed_buffers {
	struct buffer {
		buffer *next;
	};
	file_pages_of file;
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	buffer *first = nullptr;

	void *get()
	{
		buffer *b;

		pthread_mutex_lock(&lock);
		b = first;
		if (b)
			first = b->next;
		pthread_mutex_unlock(&lock);
		return file.read(b ? b : malloc(page_size));
	}
	void put(void *obj)
	{
		auto b = static_cast<buffer *>(obj);

		pthread_mutex_lock(&lock);
		b->next = first;
		first = b;
		pthread_mutex_unlock(&lock);
	}
};

template <class C, size_t n>
static void measure(const std::string &name, std::shared_ptr<C> c, const unsigned (&batches)[n])
{
	for (unsigned batch : batches)
		benchmark::RegisterBenchmark(
			row_name(name, batch).c_str(),
			[c, batch](benchmark::State &state) { run(state, *c, batch); })
			->ThreadRange(1, 2);
}

static std::string array_of(unsigned room)
{
	return text("array of %u", room);
}

static std::string magazines_of(unsigned room)
{
	return text("two magazines of %u", room);
}

#define CACHED "page read into a buffer of a cache"
#define LISTED "page read into a buffer of a list"

void register_ways()
{
	measure(array_of(64), std::make_shared<sized_cache>(64), bursts);
	measure(array_of(510), std::make_shared<sized_cache>(510), bursts);
#if defined(__x86_64__)
	measure(magazines_of(32), std::make_shared<magazines>(32, size), bursts);
	measure(magazines_of(255), std::make_shared<magazines>(255, size), bursts);
#endif
	measure(CACHED, std::make_shared<cached_buffers>(), pages_at_a_time);
	measure(LISTED, std::make_shared<listed_buffers>(), pages_at_a_time);
}

template <size_t n>
static void print(const results &r, const char *title, const std::vector<std::string> &names,
		  const unsigned (&batches)[n])
{
	std::vector<std::vector<std::string>> lines = { { "" } };

	for (unsigned batch : batches) {
		lines[0].push_back(text("%u: 1 thread", batch));
		lines[0].push_back("2 threads");
	}
	for (auto &name : names) {
		lines.push_back({ name });
		for (unsigned batch : batches)
			for (int threads : { 1, 2 })
				lines.back().push_back(
					median_best(r.find(row_name(name, batch), threads)));
	}
	printf("\n%s\n\n", title);
	print_table(lines);
}

void print_ways(const results &r)
{
	print(r, "An array per CPU, and two magazines that are as long together; both as above",
	      { array_of(64), magazines_of(32), array_of(510), magazines_of(255) }, bursts);
	print(r, "So many buffers are got, a page is read into each, then they are put",
	      { CACHED, LISTED }, pages_at_a_time);
}
