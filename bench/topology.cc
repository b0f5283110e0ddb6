/* SPDX-License-Identifier: MIT */
/* topology.cc - read the cores in sysfs, and place threads on them. */
#include <algorithm>
#include <fstream>

#include "topology.h"

/* Return the list of a CPU's siblings, which is the same text for all of them. Linux before 5.3
 * has it by the second name only. */
static std::string siblings_of(int cpu, const std::string &sysfs)
{
	std::string line;

	for (const char *name : { "core_cpus_list", "thread_siblings_list" }) {
		std::ifstream file(sysfs + "/cpu" + std::to_string(cpu) + "/topology/" + name);

		if (std::getline(file, line) && !line.empty())
			return line;
	}
	return std::to_string(cpu);
}

std::vector<core> cores_of(const std::vector<int> &cpus, const std::string &sysfs)
{
	std::vector<std::string> lists;
	std::vector<core> cores;

	for (int cpu : cpus) {
		const std::string list = siblings_of(cpu, sysfs);
		const size_t i =
			size_t(std::find(lists.begin(), lists.end(), list) - lists.begin());

		if (i == lists.size()) {
			lists.push_back(list);
			cores.emplace_back();
		}
		cores[i].push_back(cpu);
	}
	return cores;
}

std::vector<int> placement(const std::vector<core> &cores, size_t first)
{
	std::vector<int> order;
	size_t before;

	for (size_t nth = 0;; nth++) {
		before = order.size();
		for (size_t i = 0; i < cores.size(); i++) {
			const core &c = cores[(first + i) % cores.size()];

			if (nth < c.size())
				order.push_back(c[nth]);
		}
		if (order.size() == before)
			return order;
	}
}
