/* SPDX-License-Identifier: MIT */
/* metrics.c - the server's metrics: names, and functions that count. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <event2/event.h>
#include <percpu/percpu.h>

#include "prefork.h"

static struct percpu_segment *segment;
static bool off;

static struct percpu_counter *requests[4];
static struct percpu_counter *bytes;
static struct percpu_histogram *duration;
static struct percpu_owned_gauge *in_flight;
static struct percpu_counter *restarts;
static struct percpu_counter *starts;
static struct percpu_latest *start_time;

static const char *const code[] = { "code" };
static const char *const codes[] = { "2xx", "3xx", "4xx", "5xx" };

static const struct percpu_metric answer_bytes_total = {
	.size = sizeof(answer_bytes_total),
	.name = "prefork_answer_bytes_total",
	.help = "Bytes of all answers, heads included.",
	.unit = "bytes",
};

static const struct percpu_metric request_seconds = {
	.size = sizeof(request_seconds),
	.name = "prefork_request_seconds",
	.help = "Time from the first bytes of a request until its answer was made.",
	.unit = "seconds",
};

static const struct percpu_metric in_flight_now = {
	.size = sizeof(in_flight_now),
	.name = "prefork_requests_in_flight",
	.help = "Requests whose answer the kernel has not taken whole.",
};

static const struct percpu_metric worker_restarts_total = {
	.size = sizeof(worker_restarts_total),
	.name = "prefork_worker_restarts_total",
	.help = "Workers that died and were replaced.",
};

static const struct percpu_metric starts_total = {
	.size = sizeof(starts_total),
	.name = "prefork_starts_total",
	.help = "Starts of the server.",
};

static const struct percpu_metric start_time_seconds = {
	.size = sizeof(start_time_seconds),
	.name = "prefork_start_time_seconds",
	.help = "When the server was started last.",
	.unit = "seconds",
};

static const char *const info_names[] = { "libevent" };
static const char *const info_values[] = { LIBEVENT_VERSION };

static const struct percpu_metric build_info = {
	.size = sizeof(build_info),
	.name = "prefork_build_info",
	.help = "What the server was built with.",
	.label_names = info_names,
	.label_values = info_values,
	.labels = 1,
};

/* Sums of whole nanoseconds are exact. */
static const struct percpu_histogram_options nanoseconds = { .size = sizeof(nanoseconds),
							     .ticks_per_unit = 1000000000 };

static bool declare(struct percpu_segment *s)
{
	struct percpu_metric requests_total = {
		.size = sizeof(requests_total),
		.name = "prefork_requests_total",
		.help = "Requests that were answered, by the class of their status.",
		.label_names = code,
		.labels = 1,
	};

	for (int i = 0; i < 4; i++) {
		requests_total.label_values = &codes[i];
		if (percpu_segment_counter(s, &requests_total, &requests[i]) != 0)
			return false;
	}
	return percpu_segment_counter(s, &answer_bytes_total, &bytes) == 0 &&
	       percpu_segment_histogram(s, &request_seconds, &nanoseconds, &duration) == 0 &&
	       percpu_segment_owned_gauge(s, &in_flight_now, PERCPU_OWNED_SUM, &in_flight) == 0 &&
	       percpu_segment_counter(s, &worker_restarts_total, &restarts) == 0 &&
	       percpu_segment_counter(s, &starts_total, &starts) == 0 &&
	       percpu_segment_latest(s, &start_time_seconds, &start_time) == 0 &&
	       percpu_segment_info(s, &build_info) == 0;
}

int metrics_open(const char *path, bool to_count)
{
	unsigned flags = to_count ? PERCPU_SEGMENT_CREATE : 0;
	int e = percpu_segment_open(path, flags, NULL, &segment);

	if (e != 0) {
		fprintf(stderr, "prefork: %s\n", percpu_error());
		return -1;
	}
	if (!declare(segment)) {
		fprintf(stderr, "prefork: %s: %s\n", path, percpu_error());
		percpu_segment_close(segment);
		return -1;
	}
	return 0;
}

void metrics_close(void)
{
	percpu_segment_close(segment);
}

void metrics_off(void)
{
	off = true;
}

uint64_t metrics_clock(void)
{
	struct timespec t;

	if (off)
		return 0;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void metrics_started(void)
{
	percpu_counter_inc(starts);
	(void)percpu_latest_set(start_time, (double)time(NULL));
}

void metrics_restarted(void)
{
	percpu_counter_inc(restarts);
}

/* The first update of a process takes its slot among the owners, and may fail; later ones do
 * not. */
int metrics_joined(void)
{
	return percpu_owned_gauge_add(in_flight, 0);
}

void metrics_request(void)
{
	if (!off)
		(void)percpu_owned_gauge_add(in_flight, 1);
}

/* Called before the system call that sends the answer: see README.md. */
void metrics_answer(unsigned status, uint64_t ns, size_t size)
{
	if (off)
		return;
	percpu_histogram_record_ticks(duration, ns);
	percpu_counter_add(bytes, (int64_t)size);
	percpu_counter_inc(requests[status / 100 - 2]);
}

void metrics_request_over(void)
{
	if (!off)
		(void)percpu_owned_gauge_add(in_flight, -1);
}

int metrics_read(struct metrics_values *ret)
{
	struct metrics_values v = { 0 };
	struct percpu_histogram_snapshot *s;
	int e = percpu_histogram_snapshot_create(duration, &s);

	if (e != 0)
		return e;
	e = percpu_histogram_fetch(duration, 0, s);
	v.observations = s->count;
	v.seconds = s->sum;
	percpu_histogram_snapshot_destroy(s);
	if (e == 0)
		e = percpu_owned_gauge_fetch(in_flight, PERCPU_OWNED_LIVING, &v.in_flight);
	if (e != 0)
		return e;
	for (int i = 0; i < 4; i++) {
		v.requests[i] = percpu_counter_fetch(requests[i]);
		v.all_requests += v.requests[i];
	}
	v.bytes = percpu_counter_fetch(bytes);
	v.starts = percpu_counter_fetch(starts);
	v.restarts = percpu_counter_fetch(restarts);
	*ret = v;
	return 0;
}

int64_t metrics_in_flight_of(uint32_t pid)
{
	struct percpu_owned_value values[256];
	size_t n = 0;

	if (percpu_owned_gauge_each(in_flight, PERCPU_OWNED_LIVING, values, 256, &n) != 0)
		return 0;
	for (size_t i = 0; i < n && i < 256; i++)
		if (values[i].pid == pid)
			return values[i].value;
	return 0;
}
