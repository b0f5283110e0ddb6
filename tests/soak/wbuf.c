/* SPDX-License-Identifier: MIT */
/*
 * wbuf.c - the soak test's operations on write buffers, one of which is so small that it is full
 * all the time, and its flushes stop at a limit. A transaction adds to a total, and moves an amount between the other cells. So the
 * sum of those is always 0 for a reader with the lock.
 */
#include <errno.h>

#include <percpu/wbuf.h>

#include "../support.h"
#include "soak.h"

#define BUFFERS 2
#define CELLS 9
#define TOTAL 8 /* the cell of the total; amounts move between the others */
#define MOVES 3

static struct percpu_wbuf *buffer[BUFFERS];
static uint64_t cell[BUFFERS][CELLS];

void soak_wbuf_create(void)
{
	struct percpu_wbuf_options o = { .size = sizeof(o), .entries = 8, .flush_limit = 3 };

	for (int i = 0; i < BUFFERS; i++)
		soak_require_equal("create a write buffer", 0,
				   (uint64_t)percpu_wbuf_create(i == 0 ? &o : NULL, &buffer[i]));
}

/* Check the cells. Return the total. */
static uint64_t check(unsigned b)
{
	uint64_t *at[CELLS], copy[CELLS], sum = 0;

	for (int i = 0; i < CELLS; i++)
		at[i] = &cell[b][i];
	percpu_wbuf_read(buffer[b], at, CELLS, copy);
	for (int i = 0; i < TOTAL; i++)
		sum += copy[i];
	soak_require_equal("transactions are read whole", 0, sum);
	return copy[TOTAL];
}

uint64_t soak_wbuf_found(void)
{
	return check(0) + check(1);
}

void soak_wbuf_destroy(void)
{
	for (int i = 0; i < BUFFERS; i++)
		percpu_wbuf_destroy(buffer[i]);
}

static void transact(struct soak_thread *t, unsigned b)
{
	struct percpu_wbuf_entry add[1 + 2 * MOVES] = { percpu_wbuf_entry_u64(&cell[b][TOTAL], 0) };
	uint64_t r = test_random(&t->random), moves = r % (MOVES + 1);

	add[0].n = r >> 40;
	for (uint64_t i = 0; i < moves; i++) {
		add[1 + 2 * i] = percpu_wbuf_entry_u64(&cell[b][(r >> (8 + 6 * i)) % 8], r);
		add[2 + 2 * i] = percpu_wbuf_entry_u64(&cell[b][(r >> (11 + 6 * i)) % 8], -r);
	}
	soak_require_equal("schedule a transaction", 0,
			   (uint64_t)percpu_wbuf_add_n(buffer[b], add, 1 + 2 * moves));
	t->sum[0][SOAK_OF_WBUF] += add[0].n;
	t->slot->journal[0].count[SOAK_WBUF_ADD]++;
}

static void flush(struct soak_thread *t, unsigned b)
{
	int r = 0;

	switch (test_random(&t->random) % 4) {
	case 0:
		percpu_wbuf_flush(buffer[b]);
		break;
	case 1:
		r = percpu_wbuf_try_flush(buffer[b]);
		break;
	case 2:
		percpu_wbuf_hint_flush(buffer[b]);
		break;
	default:
		(void)check(b);
	}
	soak_require(r == 0 || r == -EBUSY, "try_flush", 0, (uint64_t)r);
	t->slot->journal[0].count[SOAK_WBUF_FLUSH]++;
}

void soak_wbuf_op(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random);
	unsigned b = r % BUFFERS;

	if (r / 8 % 8 == 0)
		flush(t, b);
	for (uint64_t i = 0; i < r / 64 % 64; i++)
		transact(t, b);
}
