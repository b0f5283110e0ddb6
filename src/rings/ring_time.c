/* SPDX-License-Identifier: MIT */
/*
 * ring_time.c - the time of records. A sequence can read only the CPU's counter, whose rate is not
 * known. A reader converts the counter to nanoseconds. It knows two moments by both counter and
 * clock: the one noted in the control block, and its own. Each record is between them.
 */
#include <sys/stat.h>

#include "rings.h"

#define SOON_NS 10000000
#define ANCHOR_TRIES 100

uint64_t percpu_ring_ns(uint64_t ticks, struct percpu_moment from, struct percpu_moment to)
{
	double all = (double)(to.ns - from.ns), part;

	if (ticks <= from.ticks)
		return from.ns;
	if (ticks >= to.ticks || to.ns <= from.ns)
		return to.ns;
	part = all * ((double)(ticks - from.ticks) / (double)(to.ticks - from.ticks));
	return part < all ? from.ns + (uint64_t)part : to.ns;
}

/* Return the id of the time namespace, or 0. In each namespace, CLOCK_MONOTONIC is another
 * clock. */
static uint64_t find_timens(void)
{
	struct stat st;

	return stat("/proc/self/ns/time", &st) == 0 ? st.st_ino : 0;
}

static uint64_t load_field(const uint64_t *field)
{
	return __atomic_load_n(field, __ATOMIC_ACQUIRE);
}

static void store_field(uint64_t *field, uint64_t value)
{
	__atomic_store_n(field, value, __ATOMIC_RELAXED);
}

/* Two threads may do this at once, so that ticks and ns are of different moments. The last thread
 * then finds another value than it stored, and stores both again, up to ANCHOR_TRIES times. */
void percpu_ring_note_moment(struct percpu_ring_control *c)
{
	struct percpu_moment now;

	for (int try = 0; try < ANCHOR_TRIES; try++) {
		now = percpu_moment_now();
		store_field(&c->ticks, now.ticks);
		PERCPU_STEP("ring: ticks stored");
		store_field(&c->ns, now.ns);
		PERCPU_STEP("ring: moment stored");
		percpu_full_fence();
		if (load_field(&c->ticks) == now.ticks && load_field(&c->ns) == now.ns)
			break;
	}
	store_field(&c->boot, percpu_boot_id());
	store_field(&c->timens, find_timens());
}

static bool is_same_or_unknown(uint64_t noted, uint64_t found)
{
	return noted == found || noted == 0 || found == 0;
}

bool percpu_ring_is_of_this_boot(const struct percpu_ring_control *c)
{
	return is_same_or_unknown(load_field(&c->boot), percpu_boot_id());
}

bool percpu_ring_is_of_this_clock(const struct percpu_ring_control *c)
{
	return percpu_ring_is_of_this_boot(c) &&
	       is_same_or_unknown(load_field(&c->timens), find_timens());
}

void percpu_ring_note_rate(struct percpu_ring_control *c)
{
	struct percpu_moment now;
	uint64_t ticks, ns;

	PERCPU_STEP("ring: rate begun");
	if (!percpu_ring_is_of_this_boot(c))
		percpu_ring_note_moment(c);
	if (!percpu_ring_is_of_this_clock(c))
		return;
	/* Load the moment only now: another process may have replaced it after a reboot. */
	ticks = load_field(&c->ticks);
	ns = load_field(&c->ns);
	now = percpu_moment_now();
	if (now.ns > ns && now.ns - ns >= SOON_NS && now.ticks > ticks)
		store_field(&c->rate, (uint64_t)((double)(now.ns - ns) * 4294967296.0 /
						 (double)(now.ticks - ticks)));
}

void percpu_ring_moments(const struct percpu_ring_control *c, bool of_this_clock,
			 struct percpu_moment *from, struct percpu_moment *to)
{
	*from = (struct percpu_moment){ load_field(&c->ticks), load_field(&c->ns), 0 };
	if (of_this_clock) {
		*to = percpu_moment_now();
	} else {
		to->ticks = from->ticks + (UINT64_C(1) << 56);
		to->ns = from->ns + (load_field(&c->rate) << 24);
	}
}
