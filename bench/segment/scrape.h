/* SPDX-License-Identifier: MIT */
/* scrape.h - the parts of the benchmark of "percpu serve". */
#ifndef BENCH_SCRAPE_H
#define BENCH_SCRAPE_H

#include <string>
#include <vector>

#include <sys/types.h>

#include "report.h"
#include "segment.h"

/* What a client asks for. */
struct form {
	const char *name;
	const char *accept;
	const char *content_type; /* how that of the answer begins */
	bool gzip;
};

/* What one scrape took. */
struct answer {
	double cpu_ns;	/* of the server's process */
	double wall_ns; /* until the last byte */
	size_t bytes;	/* of the body */
	size_t samples; /* lines that are no comments; of text only */
};

/* The tool as a process that serves these segments. */
class server
{
      public:
	explicit server(const std::vector<std::string> &files);
	~server();

	/* Scrape once. Ends the program if the answer is not what was asked for. */
	answer scrape(const form &f) const;

	/* The same without CPU time, whose end has to be waited for. */
	answer fetch(const form &f) const;

	/* Return the most memory that the process has had, in bytes. */
	double peak() const;

      private:
	double cpu_ns() const;
	double settled_cpu_ns() const;

	pid_t pid;
	unsigned port;
	int rest_of_log;
};

/* Return the path of the tool; NULL if there is none. */
const char *tool();

/* Files in memory, which are removed when the object ends. */
class files
{
      public:
	~files();

	/* Make an empty segment. */
	percpu_segment *make(uint32_t cpus);

	std::vector<std::string> paths;
};

/* Declare so many counters, in ten families: those that programs count by have labels. */
std::vector<percpu_counter *> declare_series(percpu_segment *s, size_t first, size_t n);

extern const form text_004;

/* scrape_writers.cc: what programs that count notice of scrapes. */
void measure_writers(report &all);
void add_aims_of_writers(report &all);

/* scrape_peers.cc: other exporters, each as its users have it. */
void measure_peers(report &all);
void print_peers(const report &all);

#endif
