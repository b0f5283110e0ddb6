/* SPDX-License-Identifier: MIT */
/* arguments.h - the command line of all benchmarks. */
#ifndef BENCH_ARGUMENTS_H
#define BENCH_ARGUMENTS_H

#include <string>
#include <vector>

struct arguments {
	bool full = false, quick = false;
	bool is_lower_tier = false; /* --tier, from the parent */
	const char *json_path = nullptr;
	std::string filter;	    /* of --benchmark_filter */
	std::vector<char *> others; /* for google-benchmark */
	std::string wrong;	    /* what is wrong with them, if anything is */

	/* Return whether the filter includes a name. */
	bool want(const std::string &name) const;
};

/* Parse what follows the program's name. */
arguments parse_arguments(int argc, char **argv);

#endif
