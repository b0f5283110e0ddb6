/* SPDX-License-Identifier: MIT */
/*
 * objcache_memory.cc - the memory that caches keep for threads that wait: the slides on
 * restartable sequences name programs with more threads than CPUs.
 *
 * One after the other, 1000 threads get 100 objects, write to them, put them all, and wait. Each
 * allocator has a process of its own. Resident is the growth since all threads were there.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "objcache.h"

static constexpr unsigned threads = 1000, objects = 100;
static constexpr size_t stack = 256 << 10; /* of which thread-local variables take a part */

static double resident()
{
	std::ifstream statm("/proc/self/statm");
	double size = 0, pages = 0;

	statm >> size >> pages;
	return pages * double(sysconf(_SC_PAGESIZE));
}

namespace
{
struct crowd {
	const allocator &from;
	pthread_barrier_t begin, end;
	pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

	explicit crowd(const allocator &a) : from(a)
	{
		pthread_barrier_init(&begin, nullptr, threads + 1);
		pthread_barrier_init(&end, nullptr, threads + 1);
	}
};
} // namespace

static void *one_of_many(void *arg)
{
	auto *c = static_cast<crowd *>(arg);
	void *held[objects];

	pthread_barrier_wait(&c->begin);
	pthread_mutex_lock(&c->turn);
	for (void *&obj : held)
		memset(obj = c->from.get(), 1, memory_size);
	for (void *obj : held)
		c->from.put(obj);
	pthread_mutex_unlock(&c->turn);
	pthread_barrier_wait(&c->end);
	pthread_barrier_wait(&c->end);
	return nullptr;
}

/* Return how many bytes the process has grown by; below 0 if it cannot have so many threads. */
static double growth(const allocator &a)
{
	crowd c(a);
	pthread_attr_t attr;
	pthread_t thread;
	double before;

	a.put(a.get());
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, stack);
	for (unsigned i = 0; i < threads; i++)
		if (pthread_create(&thread, &attr, one_of_many, &c) != 0)
			return -1;
	before = resident();
	pthread_barrier_wait(&c.begin);
	pthread_barrier_wait(&c.end);
	return resident() - before;
}

/* The child ends with its threads. */
static double growth_of_a_process(const allocator &a)
{
	double bytes = -1;
	int fds[2];
	pid_t pid = -1;

	if (pipe(fds) != 0 || (pid = fork()) < 0)
		must(-errno, "a process");
	if (pid == 0) {
		bytes = growth(a);
		_exit(write(fds[1], &bytes, sizeof(bytes)) != sizeof(bytes));
	}
	close(fds[1]);
	if (read(fds[0], &bytes, sizeof(bytes)) != sizeof(bytes))
		bytes = -1;
	close(fds[0]);
	waitpid(pid, nullptr, 0);
	return bytes;
}

void print_memory(report &all, const std::vector<allocator> &allocators)
{
	std::vector<std::vector<std::string>> lines = { { "", "kB" } };

	for (auto &a : allocators) {
		double bytes = growth_of_a_process(a);
		std::string what = text("%u waiting threads, %s", threads, a.name);

		lines.push_back({ a.name, bytes < 0 ? "-" : text("%+.0f", bytes / 1024) });
		if (bytes < 0)
			all.skip(what, "its process did not get so many threads");
		else
			all.add_figure(what, bytes, "bytes");
	}
	printf("\nResident memory that %u waiting threads leave, each of which had %u objects of "
	       "%zu bytes\n\n",
	       threads, objects, memory_size);
	print_table(lines);
}
