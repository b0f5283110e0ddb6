/* SPDX-License-Identifier: MIT */
/* test_topology.cc - threads are placed by a tree like sysfs's, of machines of other kinds. */
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "test.h"
#include "topology.h"

using cpus = std::vector<int>;
using cores = std::vector<core>;

/* A directory of topology files, which lives as long as the object. */
struct tree {
	std::string root;

	tree()
	{
		char path[] = "/tmp/test_topology.XXXXXX";

		assert_non_null(mkdtemp(path));
		root = path;
	}
	~tree()
	{
		std::filesystem::remove_all(root);
	}

	void write(int cpu, const std::string &name, const std::string &text) const
	{
		const std::string directory = root + "/cpu" + std::to_string(cpu) + "/topology";

		std::filesystem::create_directories(directory);
		std::ofstream(directory + "/" + name) << text;
	}
};

static void siblings_come_after_all_cores(void **)
{
	const tree t;
	const std::map<int, const char *> lists = { { 0, "0,4" }, { 1, "1,5" }, { 2, "2,6" },
						    { 3, "3,7" }, { 4, "0,4" }, { 5, "1,5" },
						    { 6, "2,6" }, { 7, "3,7" } };

	for (auto &[cpu, list] : lists)
		t.write(cpu, "core_cpus_list", std::string(list) + "\n");

	const cores c = cores_of({ 0, 1, 2, 3, 4, 5, 6, 7 }, t.root);

	assert_true(c == cores({ { 0, 4 }, { 1, 5 }, { 2, 6 }, { 3, 7 } }));
	assert_true(placement(c, 0) == cpus({ 0, 1, 2, 3, 4, 5, 6, 7 }));
	assert_true(placement(c, 1) == cpus({ 1, 2, 3, 0, 5, 6, 7, 4 }));
	assert_true(placement(c, 6) == placement(c, 2));
}

/* Linux numbers siblings one after the other on some machines, and older kernels have one file. */
static void neighbors_are_siblings(void **)
{
	const tree t;

	for (int cpu = 0; cpu < 4; cpu++)
		t.write(cpu, "thread_siblings_list", cpu < 2 ? "0-1\n" : "2-3\n");

	const cores c = cores_of({ 0, 1, 2, 3 }, t.root);

	assert_true(c == cores({ { 0, 1 }, { 2, 3 } }));
	assert_true(placement(c, 0) == cpus({ 0, 2, 1, 3 }));
	assert_true(placement(c, 1) == cpus({ 2, 0, 3, 1 }));
}

static void newer_name_comes_first(void **)
{
	const tree t;

	for (int cpu = 0; cpu < 2; cpu++) {
		t.write(cpu, "core_cpus_list", "0-1\n");
		t.write(cpu, "thread_siblings_list", std::to_string(cpu) + "\n");
	}
	assert_true(cores_of({ 0, 1 }, t.root) == cores({ { 0, 1 } }));
}

/* Of the siblings 0 and 4 the process may use only 4. */
static void only_usable_cpus(void **)
{
	const tree t;

	for (int cpu = 0; cpu < 8; cpu++)
		t.write(cpu, "core_cpus_list",
			std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4) + "\n");

	const cores c = cores_of({ 1, 4, 5, 6 }, t.root);

	assert_true(c == cores({ { 1, 5 }, { 4 }, { 6 } }));
	assert_true(placement(c, 0) == cpus({ 1, 4, 6, 5 }));
	assert_true(placement(c, 1) == cpus({ 4, 6, 1, 5 }));
}

/* Cores of several kinds: of 4, 2 and 1 hardware threads. */
static void cores_of_several_kinds(void **)
{
	const cores c = { { 7 }, { 0, 1, 2, 3 }, { 4, 5 } };

	assert_true(placement(c, 0) == cpus({ 7, 0, 4, 1, 5, 2, 3 }));
	assert_true(placement(c, 2) == cpus({ 4, 7, 0, 5, 1, 2, 3 }));
}

static void without_sysfs_each_cpu_is_a_core(void **)
{
	const tree t;

	t.write(3, "core_cpus_list", "");
	assert_true(cores_of({ 1, 3, 5 }, t.root) == cores({ { 1 }, { 3 }, { 5 } }));
	assert_true(placement(cores_of({ 1, 3, 5 }, t.root + "/none"), 1) == cpus({ 3, 5, 1 }));
}

static void one_cpu(void **)
{
	assert_true(placement({ { 2 } }, 5) == cpus({ 2 }));
}

int main()
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siblings_come_after_all_cores),
		cmocka_unit_test(neighbors_are_siblings),
		cmocka_unit_test(newer_name_comes_first),
		cmocka_unit_test(only_usable_cpus),
		cmocka_unit_test(cores_of_several_kinds),
		cmocka_unit_test(without_sysfs_each_cpu_is_a_core),
		cmocka_unit_test(one_cpu),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
