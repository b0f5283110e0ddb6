/* SPDX-License-Identifier: MIT */
/* arguments.cc - parse the command line, and refuse what google-benchmark would not. */
#include <cstdlib>
#include <cstring>
#include <regex>

#include "arguments.h"

/* Return what follows NAME= in an argument, or NULL. */
static const char *value_of(const char *arg, const char *name)
{
	const size_t n = strlen(name);

	return strncmp(arg, name, n) == 0 && arg[n] == '=' ? arg + n + 1 : nullptr;
}

/* Like google-benchmark: a filter that begins with '-' excludes names. */
bool arguments::want(const std::string &name) const
{
	if (filter.empty() || filter == "all")
		return true;

	const bool unwanted = filter[0] == '-';

	return std::regex_search(name, std::regex(filter.substr(unwanted), std::regex::extended)) !=
	       unwanted;
}

arguments parse_arguments(int argc, char **argv)
{
	arguments o;

	for (int i = 1; i < argc; i++) {
		const char *filter = value_of(argv[i], "--benchmark_filter");
		const char *repetitions = value_of(argv[i], "--benchmark_repetitions");

		if (filter)
			o.filter = filter;
		if (repetitions && strtol(repetitions, nullptr, 10) < 1)
			o.wrong = "--benchmark_repetitions takes a number from 1 on";
		if (!strcmp(argv[i], "--full"))
			o.full = true;
		else if (!strcmp(argv[i], "--quick"))
			o.quick = true;
		else if (!strcmp(argv[i], "--tier"))
			o.is_lower_tier = true;
		else if (strcmp(argv[i], "--json") != 0)
			o.others.push_back(argv[i]);
		else if (i + 1 < argc)
			o.json_path = argv[++i];
		else
			o.wrong = "--json takes a file";
	}
	try {
		(void)o.want("");
	} catch (const std::regex_error &e) {
		o.wrong = std::string("--benchmark_filter: ") + e.what();
	}
	return o;
}
