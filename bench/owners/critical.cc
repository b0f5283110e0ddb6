/* SPDX-License-Identifier: MIT */
/*
 * critical.cc - the benchmark of critical.h: enter and exit, alone and with changes of several
 * words; in a file; beside a counter's add and a mutex of the thread's CPU; and while a thread
 * is stopped inside.
 *
 * usage: critical [--json FILE] [--benchmark_...]
 */
#include <cstdio>
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>

#include <percpu/critical.h>

#include "cells.h"

#define ENTER "enter and exit"
#define BARE "percpu_seq_enter() and a store"
#define CHANGE "enter, change 4 words, exit"
#define IN_FILE "enter and exit, in a file"
#define BUSY "enter and exit, CPU's lane busy"
#define LOCK "pthread_mutex_lock and _unlock, one per CPU"
#define LANE "enter a lane by its number, and exit"

struct record {
	uint64_t packets, bytes, largest, last;
};

struct section {
	static inline percpu_critical *c;

	static void make()
	{
		if (!c)
			must(percpu_critical_create(sizeof(record), &c), "lanes");
	}
	template <class F> [[gnu::always_inline]] static void inside(percpu_critical *lanes, F f)
	{
		void *cell;

		if (percpu_critical_enter(lanes, &cell) != 0)
			__builtin_trap();
		f(static_cast<record *>(cell));
		percpu_critical_exit(lanes, cell);
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		inside(c, [](record *) {});
	}
};

/* The least that enters and exits: each thread stores the same number, and nothing is checked. */
struct bare : section {
	[[gnu::always_inline]] void add(unsigned)
	{
		void *head = nullptr;

		if (percpu_seq_enter(c->block.base, c->block.stride, 1, &head) == 0)
			__atomic_store_n(static_cast<uint64_t *>(head), 0, __ATOMIC_RELEASE);
	}
};

struct change : section {
	static uint64_t sum()
	{
		uint64_t n = 0;

		for (unsigned lane = 0; lane < percpu_critical_lanes(c); lane++)
			n += static_cast<const record *>(percpu_critical_cell(c, lane))->packets;
		return n;
	}
	static inline uint64_t before;
	static void reset()
	{
		before = sum();
	}
	static uint64_t total()
	{
		return sum() - before;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		inside(c, [i](record *r) {
			r->packets++;
			r->bytes += 64;
			r->largest = r->largest > i ? r->largest : i;
			r->last = i;
		});
	}
};

struct in_file {
	static inline percpu_critical *c;

	static void make()
	{
		char path[] = "/dev/shm/critical-XXXXXX";
		percpu_region *region;
		percpu_owners *owners;
		int fd;

		if (c)
			return;
		fd = mkstemp(path);
		must(fd < 0 || close(fd) || unlink(path), "a file");
		must(percpu_region_open(path,
					PERCPU_REGION_WRITE | PERCPU_REGION_CREATE |
						PERCPU_REGION_OWNERS,
					nullptr, &region),
		     "a region");
		must(unlink(path), "to unlink");
		must(percpu_owners_open(region, 0, &owners), "owners");
		must(percpu_critical_create_in(owners, sizeof(record), &c), "lanes");
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		section::inside(c, [](record *) {});
	}
};

/* Each CPU's lane is busy, as if a thread had been stopped inside. */
struct busy : section {
	static inline percpu_critical *lanes;

	static void make()
	{
		void *cell;

		if (lanes)
			return;
		must(percpu_critical_create(sizeof(record), &lanes), "lanes");
		for (unsigned lane = 0; lane < percpu_critical_lanes(lanes) / 2; lane++)
			must(percpu_critical_enter_lane(lanes, lane, &cell), "a lane");
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		inside(lanes, [](record *) {});
	}
};

/* What a program does without sections: a lock for each CPU. */
struct cpu_lock {
	struct alignas(64) lock {
		pthread_mutex_t mutex;
	};
	static inline lock locks[PERCPU_MAX_CPUS]; /* zeros: unlocked */

	[[gnu::always_inline]] void add(unsigned)
	{
		pthread_mutex_t *m = &locks[percpu_seq_cpu()].mutex;

		pthread_mutex_lock(m);
		pthread_mutex_unlock(m);
	}
};

static uint64_t by_number()
{
	void *cell;

	if (percpu_critical_enter_lane(section::c, 0, &cell) != 0)
		__builtin_trap();
	return uint64_t(percpu_critical_exit(section::c, cell));
}

int main(int argc, char **argv)
{
	report all("critical", argc, argv);

	fprintf(stderr, "critical: measuring, for about 20 seconds ...\n");
	measure<counter_add>(ADD);
	measure<section>(ENTER);
	measure<bare>(BARE);
	measure<change>(CHANGE);
	measure<in_file>(IN_FILE);
	measure<busy>(BUSY);
	measure<cpu_lock>(LOCK);
	measure_call(LANE, by_number, 4);
	all.run();
	print_rows(all.rows, "Sections, ns",
		   { ADD, ENTER, BARE, CHANGE, IN_FILE, BUSY, LOCK, LANE });
	all.add_aim("enter and exit, to an add", 4, all.rows.ratio(ENTER, 1, ADD, 1));
	all.add_aim("enter and exit in a file, to an add", 4, all.rows.ratio(IN_FILE, 1, ADD, 1));
	all.add_aim("enter and exit by 2 threads, to 1", 1.1, all.rows.ratio(ENTER, 2, ENTER, 1));
	all.print_sections();
	return all.finish();
}
