/* SPDX-License-Identifier: MIT */
/*
 * config.c - settings that many processes read all the time, and that one process replaces at
 * times: readers take no lock, and see a whole table; the writer waits for them.
 *
 *	cc config.c $(pkg-config --cflags --libs percpu)
 *
 *	config FILE set NAME VALUE	replace the table by one with this setting
 *	config FILE get NAME		print a setting
 *	config FILE read SECONDS	read all the time, and print how often
 *	config FILE hold SECONDS	read slowly: be in one section for so long
 *
 * FILE has the grace periods, and FILE.table two tables, of which one is current. The other one
 * may be written after all sections have ended in which it was current. So the order is: wait,
 * write, make it current. A writer or a reader that is killed at any point leaves a whole table,
 * and a reader that is killed in a section is not waited for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <percpu/grace.h>
#include <percpu/percpu.h>

#define SETTINGS 32
#define FLAGS (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS)

enum { ROOT_OWNERS, ROOT_GRACE };

struct table {
	uint32_t version;
	uint32_t again; /* the same as at the begin, written last */
	struct {
		char name[32];
		char value[96];
	} setting[SETTINGS];
};

struct tables {
	uint32_t current;
	struct table table[2];
};

static struct percpu_grace *grace;
static struct tables *tables;
static int table_file;

static void give_up(const char *what, int e)
{
	fprintf(stderr, "config: %s: %s\n", what, strerror(e));
	exit(1);
}

static void open_files(const char *path)
{
	struct percpu_region *region;
	struct percpu_owners *owners;
	char name[4096];
	int e = percpu_region_open(path, FLAGS, NULL, &region);

	if (e == 0)
		e = percpu_owners_open(region, ROOT_OWNERS, &owners);
	if (e == 0)
		e = percpu_grace_open(owners, ROOT_GRACE, 0, &grace);
	if (e != 0)
		give_up(path, -e);
	snprintf(name, sizeof(name), "%s.table", path);
	table_file = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (table_file < 0 || ftruncate(table_file, sizeof(*tables)) != 0)
		give_up(name, errno);
	tables = mmap(NULL, sizeof(*tables), PROT_READ | PROT_WRITE, MAP_SHARED, table_file, 0);
	if (tables == MAP_FAILED)
		give_up(name, errno);
}

/* Begin a section. The table does not change until the section ends. */
static const struct table *enter(int *token)
{
	*token = percpu_grace_enter(grace);
	if (*token < 0)
		give_up("entering a section", -*token);
	return &tables->table[__atomic_load_n(&tables->current, __ATOMIC_ACQUIRE) % 2];
}

static const char *look_up(const struct table *t, const char *name)
{
	for (unsigned i = 0; i < SETTINGS; i++)
		if (strcmp(t->setting[i].name, name) == 0)
			return t->setting[i].value;
	return NULL;
}

/* Print which processes this one waits for. */
static void complain(void)
{
	struct percpu_grace_blocker b[8];
	size_t n = percpu_grace_blockers(grace, b, 8);

	for (size_t i = 0; i < n && i < 8; i++)
		if (b[i].awaited != 0) /* others have begun since */
			fprintf(stderr, "config: waiting for process %u%s\n", b[i].pid,
				b[i].stopped ? ", which is stopped" : "");
}

static void wait_for_readers(void)
{
	int e;

	while (e = percpu_grace_wait_timed(grace, UINT64_C(500000000)), e == -ETIMEDOUT)
		complain();
	if (e != 0)
		give_up("waiting for readers", -e);
}

static void change(struct table *t, const char *name, const char *value)
{
	unsigned i = 0;

	while (i < SETTINGS && strcmp(t->setting[i].name, name) != 0 &&
	       t->setting[i].name[0] != '\0')
		i++;
	if (i == SETTINGS || *name == '\0')
		give_up(name, ENOSPC);
	snprintf(t->setting[i].name, sizeof(t->setting[i].name), "%s", name);
	snprintf(t->setting[i].value, sizeof(t->setting[i].value), "%s", value);
}

static int set(const char *name, const char *value)
{
	const struct table *from;
	struct table *to;

	if (flock(table_file, LOCK_EX) != 0) /* one writer; a kill releases it */
		give_up("locking", errno);
	from = &tables->table[tables->current % 2];
	to = &tables->table[(tables->current + 1) % 2];
	wait_for_readers();
	*to = *from;
	to->version = tables->current + 1;
	change(to, name, value);
	to->again = to->version;
	__atomic_store_n(&tables->current, to->version, __ATOMIC_RELEASE);
	return 0;
}

static int get(const char *name)
{
	const char *value;
	int token;

	value = look_up(enter(&token), name);
	if (value != NULL)
		puts(value);
	percpu_grace_exit(grace, token);
	return value == NULL;
}

static int hold(double seconds)
{
	const struct timespec time = { (time_t)seconds,
				       (long)((seconds - (double)(time_t)seconds) * 1e9) };
	const struct table *t;
	uint32_t version;
	int token;

	t = enter(&token);
	version = t->version;
	printf("holding version %u\n", version);
	fflush(stdout);
	nanosleep(&time, NULL);
	if (t->version != version || t->again != version)
		give_up("a table was changed under a reader", EPROTO);
	percpu_grace_exit(grace, token);
	return 0;
}

static int read_for(double seconds)
{
	const time_t end = time(NULL) + (time_t)seconds;
	unsigned long lookups = 0;
	const struct table *t;
	uint32_t version;
	int token;

	while (lookups % 1000 != 0 || time(NULL) <= end) {
		t = enter(&token);
		version = t->version;
		(void)look_up(t, "no such setting");
		if (t->version != version || t->again != version)
			give_up("a table was changed under a reader", EPROTO);
		percpu_grace_exit(grace, token);
		lookups++;
	}
	printf("%lu lookups\n", lookups);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[2], "set") == 0) {
		open_files(argv[1]);
		return set(argv[3], argv[4]);
	}
	if (argc == 4 && strcmp(argv[2], "get") == 0) {
		open_files(argv[1]);
		return get(argv[3]);
	}
	if (argc == 4 && strcmp(argv[2], "hold") == 0) {
		open_files(argv[1]);
		return hold(atof(argv[3]));
	}
	if (argc == 4 && strcmp(argv[2], "read") == 0) {
		open_files(argv[1]);
		return read_for(atof(argv[3]));
	}
	fprintf(stderr,
		"usage: config FILE set NAME VALUE | get NAME | read SECONDS | hold SECONDS\n");
	return 2;
}
