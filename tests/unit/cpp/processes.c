/* SPDX-License-Identifier: MIT */
/* processes.c - a process that counts by the calls in C, in the metrics of test_processes.cc. */
#include <percpu/percpu.h>

int count_in_c(const char *path, int n);

/* Declare the metrics of the segment, and count n requests. Returns 0 or -errno. */
int count_in_c(const char *path, int n)
{
	static const char *const names[] = { "code" }, *const values[] = { "200" };
	const struct percpu_histogram_options ns = { .size = sizeof(ns),
						     .ticks_per_unit = 1000000000 };
	struct percpu_counter *requests;
	struct percpu_histogram *seconds;
	struct percpu_owned_gauge *in_flight;
	struct percpu_family *by_code;
	struct percpu_segment *s;
	struct percpu_declaration table[] = {
		percpu_declare_counter(&requests, "requests_total", NULL),
		percpu_declare_histogram(&seconds, "request_seconds", NULL, &ns),
		percpu_declare_owned_gauge(&in_flight, "in_flight", NULL, PERCPU_OWNED_SUM),
		percpu_declare_family(&by_code, PERCPU_METRIC_COUNTER, "answers_total", NULL, names,
				      1, 10),
	};
	int e;

	table[1].unit = "seconds";
	e = percpu_segment_open_table(path, PERCPU_SEGMENT_CREATE, NULL, table, 4, &s);
	for (int i = 0; e == 0 && i < n; i++) {
		(void)percpu_owned_gauge_add(in_flight, 1);
		percpu_counter_inc(requests);
		percpu_histogram_record_ticks(seconds, 3);
		e = percpu_family_add(by_code, values, 1);
		(void)percpu_owned_gauge_add(in_flight, -1);
	}
	if (e == 0)
		percpu_segment_close(s);
	return e;
}
