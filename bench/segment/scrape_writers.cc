/* SPDX-License-Identifier: MIT */
/*
 * scrape_writers.cc - what threads that count notice of scrapes: CPU time per add of each thread,
 * with no scrape, with one a second, and with one after the other. The three take turns.
 */
#include <atomic>
#include <ctime>
#include <thread>

#include <unistd.h>

#include <percpu/seq.h>

#include "scrape.h"

#define ADD "percpu_counter_add"

/* How often the segment is scraped meanwhile. */
enum pace { never, once, always };

static const char *const names[] = { ADD ", no scrape", ADD ", a scrape a second",
				     ADD ", one scrape after the other" };

static constexpr size_t series = 1000;
static constexpr unsigned batch = 1024, counters_in_turn = 8;

static double thread_ns()
{
	timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

/* Add until it is over. Returns the CPU time of an add. */
static double add_until(const std::vector<percpu_counter *> &to, const std::atomic<bool> &over)
{
	uint64_t n = 0;

	percpu_seq_attach();
	const double begin = thread_ns();

	for (; !over; n += batch)
		for (unsigned i = 0; i < batch; i++)
			percpu_counter_add(to[i % counters_in_turn], 1);
	return (thread_ns() - begin) / double(n);
}

/* Scrape at that pace for a time. Returns how many scrapes there were. */
static unsigned scrape_for(const server &from, enum pace pace, unsigned ms)
{
	timespec begin, now;
	unsigned scrapes = 0;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	do {
		if (pace == always || (pace == once && scrapes == 0)) {
			from.fetch(text_004);
			scrapes++;
		} else {
			usleep(1000);
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 <
		 long(ms));
	return scrapes;
}

static void measure_once(row &to, const std::vector<percpu_counter *> &counters, const server &from,
			 enum pace pace)
{
	std::vector<std::thread> writers;
	std::vector<double> ns(size_t(to.threads));
	std::atomic<bool> over(false);

	for (double &mine : ns)
		writers.emplace_back([&] { mine = add_until(counters, over); });
	to.events["scrapes"] += scrape_for(from, pace, quick ? 50 : pace == once ? 1000 : 500);
	over = true;
	for (std::thread &w : writers)
		w.join();
	for (double one : ns)
		to.ns.push_back(one);
	to.ops++;
}

void measure_writers(report &all)
{
	files here;

	if (!all.given.want(ADD))
		return;
	fprintf(stderr, "scrape: what threads that count notice\n");

	percpu_segment *s = here.make(0);
	const std::vector<percpu_counter *> counters = declare_series(s, 0, series);
	const server from(here.paths);

	for (int threads : { 1, 2 }) {
		row rows[3] = {};

		for (int pace = never; pace <= always; pace++) {
			rows[pace].name = names[pace];
			rows[pace].threads = threads;
		}
		for (int i = 0; i < (quick ? 2 : 15); i++)
			for (int pace = never; pace <= always; pace++)
				measure_once(rows[pace], counters, from, (enum pace)pace);
		for (row &r : rows) {
			r.events["scrapes"] /= r.ops;
			all.rows.add(r);
		}
	}
	percpu_segment_close(s);
}

void add_aims_of_writers(report &all)
{
	for (int threads : { 1, 2 })
		for (int pace = once; pace <= always; pace++)
			all.add_aim(text("%s, to no scrape, threads: %d", names[pace], threads),
				    1.02,
				    all.rows.ratio(names[pace], threads, names[never], threads));
}
