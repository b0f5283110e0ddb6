/* SPDX-License-Identifier: MIT */
/*
 * rwlock_shared.c - a table that several processes read: one is killed while it replaces the
 * rows, a reader that cannot repair them declines, and a writer repairs them.
 *
 *	cc rwlock_shared.c $(pkg-config --cflags --libs percpu)
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/rwlock.h>

#define FLAGS (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS)
#define ROWS 64

enum { ROOT_OWNERS, ROOT_LOCK, ROOT_TABLE };

struct table {
	unsigned row[ROWS]; /* all equal, unless a writer was killed amid them */
};

static struct percpu_region *region;
static struct percpu_owners *owners;
static struct percpu_rwlock *lock;
static struct table *table;

/* Open the table, in a cell of the region; make it if there is none. It is used in lane 0 alone. */
static int open_table(void)
{
	void *cell;
	int e;

	if (percpu_region_root(region, ROOT_TABLE) == 0) {
		e = percpu_region_alloc(region, sizeof(*table), 64, &cell);
		if (e != 0)
			return e;
		memset(cell, 0, sizeof(*table));
		e = percpu_region_set_root(region, ROOT_TABLE, 0, percpu_region_key(region, cell));
		if (e != 0) /* another process was first */
			(void)percpu_region_free(region, cell, sizeof(*table));
	}
	table = percpu_region_at(region, percpu_region_root(region, ROOT_TABLE), sizeof(*table));
	return table != NULL ? 0 : -EEXIST;
}

static int open_all(const char *path)
{
	int e = percpu_region_open(path, FLAGS, NULL, &region);

	if (e == 0)
		e = percpu_owners_open(region, ROOT_OWNERS, &owners);
	if (e == 0)
		e = percpu_rwlock_open(owners, ROOT_LOCK, 0, &lock);
	return e != 0 ? e : open_table();
}

/* Read a row. Returns 0, -EOWNERDEAD if the table must be repaired, or another error. */
static int look_up(unsigned row, unsigned *ret)
{
	int e = percpu_rwlock_read_lock(lock);

	if (e == 0)
		*ret = table->row[row];
	if (e == 0 || e == -EOWNERDEAD) /* also held: decline, so that the next one is told */
		(void)percpu_rwlock_read_unlock(lock);
	return e;
}

/* Replace the rows. The process is killed when it has replaced so many. */
static int replace(unsigned value, unsigned killed_at)
{
	int e = percpu_rwlock_write_lock(lock);

	if (e == -EOWNERDEAD) {
		if (percpu_rwlock_died(lock) & PERCPU_RWLOCK_WRITER_DIED)
			for (unsigned i = 1; i < ROWS; i++) /* complete its update */
				table->row[i] = table->row[0];
		e = percpu_rwlock_consistent(lock);
	}
	if (e != 0)
		return e;
	for (unsigned i = 0; i < ROWS; i++) {
		if (i == killed_at)
			raise(SIGKILL);
		table->row[i] = value;
	}
	return percpu_rwlock_write_unlock(lock);
}

int main(void)
{
	unsigned row = 0;
	char path[64];
	pid_t pid;
	int e, told;

	snprintf(path, sizeof(path), "/tmp/percpu-rwlock-%ld", (long)getpid());
	e = open_all(path); /* processes that were not forked do the same */
	unlink(path);
	if (e != 0) {
		fprintf(stderr, "rwlock_shared: %s\n", strerror(-e));
		return 1;
	}
	pid = fork();
	if (pid == 0)
		_exit(replace(1, ROWS / 2) != 0);
	if (pid < 0 || waitpid(pid, NULL, 0) != pid)
		return 1;
	told = look_up(0, &row);
	printf("a reader: %s\n", told == -EOWNERDEAD ? "a writer was killed" : "not told");
	e = replace(2, ROWS);
	if (e == 0)
		e = look_up(ROWS - 1, &row);
	printf("a reader, after a writer has repaired: %s, row %u\n", e == 0 ? "ok" : strerror(-e),
	       row);
	percpu_rwlock_destroy(lock);
	percpu_owners_destroy(owners);
	percpu_region_close(region);
	return e != 0 || told != -EOWNERDEAD || row != 2;
}
