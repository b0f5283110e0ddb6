/* SPDX-License-Identifier: MIT */
/*
 * family.c - bytes sent to users: each user has a counter while it is there, up to four users,
 * and all others share one more.
 *
 *	cc family.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <percpu/percpu.h>

#define MOST 4
#define USERS 6

static void must(int e, const char *what)
{
	if (e == 0)
		return;
	fprintf(stderr, "%s: %s\n", what, percpu_error());
	exit(1);
}

static struct percpu_family *declare(struct percpu_segment *s)
{
	const char *const labels[] = { "user" };
	struct percpu_family *f;
	struct percpu_declaration d =
		percpu_declare_family(&f, PERCPU_METRIC_COUNTER, "demo_sent_bytes_total",
				      "Bytes of all answers.", labels, 1, MOST);

	d.unit = "bytes";
	must(percpu_segment_family(s, &d, &f), "a family");
	return f;
}

static void add(struct percpu_family *f, const char *user, uint64_t bytes)
{
	const char *const values[] = { user };

	must(percpu_family_add(f, values, bytes), user);
}

static struct percpu_counter *bytes_of(struct percpu_family *f, const char *user)
{
	const char *const values[] = { user };
	struct percpu_counter *c;

	must(percpu_family_counter(f, values, &c), user);
	return c;
}

static void leave(struct percpu_family *f, const char *user)
{
	const char *const values[] = { user };

	must(percpu_family_remove(f, values), user);
}

static uint64_t show(struct percpu_family *f, const char *user)
{
	uint64_t n = percpu_counter_fetch(bytes_of(f, user));

	printf("demo_sent_bytes_total{user=\"%s\"} %" PRIu64 "\n", user, n);
	return n;
}

int main(void)
{
	static const char *const user[USERS] = { "ann", "bo", "cy", "di", "ed", "flo" };
	struct percpu_segment *s;
	struct percpu_family *f;
	char path[64];
	uint64_t late;

	snprintf(path, sizeof(path), "/tmp/percpu-family-%ld", (long)getpid());
	if (percpu_segment_open(path, PERCPU_SEGMENT_CREATE, NULL, &s) != 0)
		return 1;
	unlink(path);
	f = declare(s);
	for (int i = 0; i < USERS; i++) /* the last two find no room */
		add(f, user[i], 100 * ((uint64_t)i + 1));
	for (int i = 0; i < MOST; i++)
		(void)show(f, user[i]);
	late = show(f, PERCPU_FAMILY_OVERFLOW);
	printf("without room: %" PRIu64 "\n", percpu_family_overflows(f));

	leave(f, "ann");
	add(f, "ann", 7); /* she is back, and begins at 0 */
	late += show(f, "ann");
	percpu_segment_close(s);
	return late != 500 + 600 + 7;
}
