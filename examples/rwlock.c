/* SPDX-License-Identifier: MIT */
/*
 * rwlock.c - a table that many threads read, and one replaces at times.
 *
 *	cc rwlock.c $(pkg-config --cflags --libs percpu) -pthread
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <percpu/percpu.h>
#include <percpu/rwlock.h>

#define ROWS 64
#define LOOKUPS 100000
#define VERSIONS 100

struct table {
	unsigned version;
	unsigned row[ROWS]; /* all of the same version */
};

static struct percpu_rwlock *lock;
static struct table table;

static void *look_up(void *arg)
{
	unsigned *mixed = arg;

	for (unsigned i = 0; i < LOOKUPS; i++) {
		if (percpu_rwlock_read_lock(lock) != 0)
			break;
		*mixed += table.row[i % ROWS] != table.version;
		percpu_rwlock_read_unlock(lock); /* on whichever CPU it is by now */
	}
	return NULL;
}

static int replace(unsigned version)
{
	int e = percpu_rwlock_write_lock(lock); /* waits until no thread reads */

	if (e != 0)
		return e;
	table.version = version;
	for (unsigned i = 0; i < ROWS; i++)
		table.row[i] = version;
	return percpu_rwlock_write_unlock(lock);
}

int main(void)
{
	unsigned mixed[2] = { 0, 0 };
	pthread_t reader[2];
	int e = percpu_rwlock_create(0, &lock);

	if (e != 0) {
		fprintf(stderr, "rwlock: %s\n", strerror(-e));
		return 1;
	}
	for (unsigned i = 0; i < 2; i++)
		if (pthread_create(&reader[i], NULL, look_up, &mixed[i]) != 0)
			return 1;
	for (unsigned version = 1; version <= VERSIONS && e == 0; version++)
		e = replace(version);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(reader[i], NULL);
	printf("version %u; %u lookups, %u of a table that was half replaced\n", table.version,
	       2 * LOOKUPS, mixed[0] + mixed[1]);
	percpu_rwlock_destroy(lock);
	return e != 0;
}
