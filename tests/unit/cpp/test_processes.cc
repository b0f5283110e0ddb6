/* SPDX-License-Identifier: MIT */
/* test_processes.cc - processes that count in C and in C++ in one segment, some of which are
 * killed. */
#include <csignal>

#include <sys/wait.h>
#include <unistd.h>

#include "cpp.h"

extern "C" int count_in_c(const char *path, int n);

constexpr int requests_each = 20000;

struct metrics {
	percpu::segment file;
	percpu::counter requests{ file, "requests_total" };
	percpu::latency<std::chrono::nanoseconds> seconds{ file, "request_seconds" };
	percpu::owned_gauge in_flight{ file, "in_flight" };
	percpu::family<percpu::counter, 1> answers{ file, "answers_total", { "code" }, 10 };

	explicit metrics(const char *path) : file(path)
	{
	}
	int count(int n) const
	{
		int e = 0;

		for (int i = 0; e == 0 && i < n; i++) {
			e = in_flight.inc();
			requests.inc();
			seconds.record(std::chrono::nanoseconds(5));
			if (e == 0)
				e = answers.add(1, "200");
			(void)in_flight.dec();
		}
		return e;
	}
};

static int in_c(void *path)
{
	return count_in_c(static_cast<const char *>(path), requests_each) != 0;
}

static int in_cpp(void *path)
{
	return metrics(static_cast<const char *>(path)).count(requests_each) != 0;
}

/* It counts, and is killed amid a request. */
static int is_killed(void *path)
{
	const metrics m(static_cast<const char *>(path));

	if (m.count(requests_each) != 0 || m.in_flight.add(7) != 0)
		return 1;
	m.requests.inc();
	(void)kill(getpid(), SIGKILL);
	return 1;
}

/* Counts by handles that the parent had. */
static int inherits(void *arg)
{
	return static_cast<const metrics *>(arg)->count(requests_each) != 0;
}

static void all_count(void **)
{
	const std::string path = test_path("processes");
	char *const arg = const_cast<char *>(path.c_str());
	const metrics m(arg);
	std::error_code ec = left();
	pid_t child[4];

	child[0] = test_fork(in_c, arg);
	child[1] = test_fork(in_cpp, arg);
	child[2] = test_fork(is_killed, arg);
	child[3] = test_fork(inherits, const_cast<metrics *>(&m));
	assert_int_equal(m.count(requests_each), 0);
	for (int i = 0; i < 4; i++) {
		const int status = test_wait(child[i], 60);

		if (i == 2)
			holds(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		else
			assert_int_equal(status, 0);
	}
	assert_int_equal(m.requests.fetch(), 5 * requests_each + 1);
	assert_int_equal(m.answers.with("200").fetch(), 5 * requests_each);
	assert_int_equal(m.seconds.fetch()->count, 5 * requests_each);
	assert_int_equal(m.in_flight.fetch().value(), 0);
	assert_int_equal(m.in_flight.fetch(PERCPU_OWNED_ALL).value(), 7);
	assert_int_equal(m.in_flight.fetch(PERCPU_OWNED_LIVING, ec).value(), 0);
	holds(!ec);
	assert_int_equal(m.in_flight.fetch(PERCPU_OWNED_ALL, ec).value(), 7);

	uint64_t ticks = 0;
	const auto s = m.seconds.fetch();

	for (uint32_t i = 0; i < s->n; i++)
		ticks += s->bucket[i].ticks;
	assert_int_equal(ticks, (4 * 5 + 3) * requests_each);
}

int main()
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_count) };

	return cmocka_run_group_tests(tests, nullptr, test_remove_paths);
}
