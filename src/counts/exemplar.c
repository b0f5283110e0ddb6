/* SPDX-License-Identifier: MIT */
/*
 * exemplar.c - exemplars: creation, and which slot a value has. exemplar_store.c stores and reads.
 */
#include <errno.h>
#include <stdlib.h>

#include "counts.h"

_Static_assert(offsetof(struct percpu_exemplars, block) == 0, "begins every handle");
_Static_assert(sizeof(struct percpu_exemplars_control) == PERCPU_BLOCK_ALIGN,
	       "adopt() may read it");

/* Slots. */

/* Return whether the histogram counts such a value, and does not refuse it. */
static bool accepts_value(const struct percpu_histogram *h, double v)
{
	const bool negative = h->schema == PERCPU_HISTOGRAM_OWN_BOUNDS && h->ticks == 0;

	if (v < 0 && !negative)
		return false;
	return h->ticks != 0 ? v * (double)h->ticks < 0x1p63 : __builtin_fabs(v) < 0x1p960;
}

static size_t buckets_of(const struct percpu_histogram *h)
{
	return h == NULL				? 1 :
	       h->schema == PERCPU_HISTOGRAM_OWN_BOUNDS ? h->bounds_n + 1 :
							  (size_t)(h->high - h->low) + 2;
}

/* Return how many own bounds are below v. */
static size_t own_bucket(const struct percpu_histogram *h, double v)
{
	size_t first = 0, n = h->bounds_n;

	while (n != 0) {
		const size_t half = n / 2;

		if (h->bounds[first + half] < v) {
			first += half + 1;
			n -= half + 1;
		} else {
			n = half;
		}
	}
	return first;
}

/* Return 1 plus how many octaves of the range are below v; 0 if v is below the range. An octave
 * includes its upper end. */
static size_t octave_of(const struct percpu_histogram *h, double v)
{
	const int octave = v > 0 ? (int)(percpu_histogram_bits(v) >> 52) - 1023 : h->low - 1;

	if (octave < h->low)
		return 0;
	return (size_t)((octave < h->high ? octave : h->high) - h->low) + 1;
}

bool percpu_exemplar_find_slot(const struct percpu_exemplars *x, double v, size_t *ret)
{
	const struct percpu_histogram *h = x->h;

	if (!percpu_double_is_number(v) || (h != NULL && !accepts_value(h, v)))
		return false;
	*ret = h == NULL ? 0 :
			   (h->schema == PERCPU_HISTOGRAM_OWN_BOUNDS ? own_bucket(h, v) :
								       octave_of(h, v)) >>
				   x->shift;
	return true;
}

/* Creation. */

static void start_exemplars(struct percpu_block *b)
{
	const struct percpu_exemplars *x = (struct percpu_exemplars *)b;

	percpu_exemplars_control(x)->n = x->n;
}

static size_t size_of_exemplars(size_t n)
{
	return sizeof(struct percpu_exemplars_control) + n * sizeof(struct percpu_exemplar_slot);
}

/* Another process may have damaged the number of slots. An n of 0 in the plan's handle accepts any
 * number. */
static int adopt_exemplars(const struct percpu_block *found, struct percpu_plan *p)
{
	const struct percpu_exemplars there = { .block = *found };
	const uint64_t n = __atomic_load_n(&percpu_exemplars_control(&there)->n, __ATOMIC_RELAXED);
	struct percpu_exemplars *wanted = p->handle;

	if (n == 0 || n > PERCPU_EXEMPLAR_SLOTS || (wanted->n != 0 && wanted->n != n))
		return -ENOENT;
	wanted->n = (size_t)n;
	p->size = size_of_exemplars((size_t)n);
	return 0;
}

static struct percpu_plan plan_exemplars(struct percpu_exemplars *x)
{
	return (struct percpu_plan){
		.kind = PERCPU_KIND_EXEMPLARS,
		.size = size_of_exemplars(x->n),
		.align = PERCPU_BLOCK_ALIGN,
		.handle = x,
		.handle_size = sizeof(*x),
		.start = start_exemplars,
		.adopt = adopt_exemplars,
	};
}

/* Plan the exemplars of a histogram. Returns 0 or -EINVAL. */
static int plan_exemplars_of(const struct percpu_histogram *h, struct percpu_exemplars *x,
			     struct percpu_plan *ret)
{
	if (h != NULL && h->n != 1)
		return -EINVAL;
	*x = (struct percpu_exemplars){ .h = h };
	while ((buckets_of(h) - 1) >> x->shift >= PERCPU_EXEMPLAR_SLOTS)
		x->shift++;
	x->n = ((buckets_of(h) - 1) >> x->shift) + 1;
	*ret = plan_exemplars(x);
	return 0;
}

int percpu_exemplars_create(const struct percpu_histogram *h, struct percpu_exemplars **ret)
{
	struct percpu_exemplars x;
	struct percpu_plan p;
	int e = plan_exemplars_of(h, &x, &p);

	return e != 0 ? e : percpu_block_create(&p, ret);
}

int percpu_exemplars_create_in(struct percpu_region *r, const struct percpu_histogram *h,
			       struct percpu_exemplars **ret)
{
	struct percpu_exemplars x;
	struct percpu_plan p;
	int e = plan_exemplars_of(h, &x, &p);

	return e != 0 ? e : percpu_block_create_in(r, &p, ret);
}

int percpu_exemplars_open(struct percpu_region *r, unsigned root, const struct percpu_histogram *h,
			  struct percpu_exemplars **ret)
{
	struct percpu_exemplars x;
	struct percpu_plan p;
	int e = plan_exemplars_of(h, &x, &p);

	return e != 0 ? e : percpu_block_open(r, root, &p, ret);
}

int percpu_exemplars_open_at(struct percpu_region *r, struct percpu_anchor *at,
			     const struct percpu_histogram *h, struct percpu_exemplars **ret)
{
	struct percpu_exemplars x;
	struct percpu_plan p;
	int e = plan_exemplars_of(h, &x, &p);

	return e != 0 ? e : percpu_block_open_at(r, at, &p, ret);
}

int percpu_exemplars_attach(struct percpu_region *r, uint64_t key, const struct percpu_histogram *h,
			    struct percpu_exemplars **ret)
{
	struct percpu_exemplars x;
	struct percpu_plan p;
	int e = plan_exemplars_of(h, &x, &p);

	return e != 0 ? e : percpu_block_attach(r, key, &p, ret);
}

void percpu_exemplars_detach(struct percpu_exemplars *x)
{
	free(x);
}

uint64_t percpu_exemplars_key(const struct percpu_exemplars *x)
{
	return percpu_block_key(x, PERCPU_KIND_EXEMPLARS);
}

void percpu_exemplars_destroy(struct percpu_exemplars *x)
{
	percpu_block_destroy(x);
}

int percpu_exemplars_reset_at(struct percpu_region *r, uint64_t key)
{
	struct percpu_exemplars any = { .n = 0 }, *x;
	struct percpu_plan p = plan_exemplars(&any);
	int e = percpu_block_attach(r, key, &p, &x);

	if (e != 0)
		return e;
	e = percpu_exemplars_reset(x);
	percpu_exemplars_detach(x);
	return e;
}
