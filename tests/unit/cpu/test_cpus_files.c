/* SPDX-License-Identifier: MIT */
/*
 * test_cpus_files.c - the number of CPUs, on machines with more of them than fit into a page of
 * a list, or into a word of a mask: this program replaces the kernel's files.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/segment.h>
#include <percpu/seq.h>

#include "blocks.h"
#include "cpu/cpu.h"
#include "support.h"
#include "syscalls.h"

#define SYSFS 0x62656572
#define PROC 0x9fa0
#define WORD (8 * sizeof(long)) /* bits of the shortest mask */

bool test_of_first_use = true; /* what is known of CPUs is not read again */

/* The kernel's files and their texts; NULL: there is no such file. */
static struct file {
	const char *path, *text;
	unsigned long file_system;
	int fd;
	bool is_pipe; /* without a writer */
} files[] = {
	{ "/sys/devices/system/cpu/possible", NULL, SYSFS, -1, false },
	{ "/proc/softirqs", NULL, PROC, -1, false },
	{ "/proc/self/status", NULL, PROC, -1, false },
	{ "/sys/devices/system/cpu/online", NULL, SYSFS, -1, false },
	{ "/proc/interrupts", NULL, PROC, -1, false },
	{ "/proc/sys/kernel/random/boot_id", "0c4d5b2e-7a1f-4e7b-9d53-1f2a3b4c5d6e\n", PROC, -1,
	  false },
};
enum { LIST, TABLE, STATUS, ONLINE, INTERRUPTS, BOOT };
#define FILES (sizeof(files) / sizeof(files[0]))

static unsigned long mask_bits; /* of the shortest mask that the kernel fills */
static unsigned mask_cpu;	/* the only one in these masks */
static int mask_error;		/* the kernel's error, instead of a mask; 0: none */
static bool no_streams;		/* fopen() fails for lack of memory */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	struct file *f = files;

	while (f != files + FILES && strcmp(path, f->path) != 0)
		f++;
	if (f == files + FILES)
		return __real_open64(path, flags);
	for (unsigned i = 0; i < FILES; i++)
		files[i].fd = -1; /* one at a time */
	if (f->text == NULL) {
		errno = ENOENT;
		return -1;
	}
	if (f->is_pipe) {
		f->fd = __real_open64(test_path("pipe"), flags);
		return f->fd;
	}
	f->fd = memfd_create("file", MFD_CLOEXEC);
	if (write(f->fd, f->text, strlen(f->text)) < 0 || lseek(f->fd, 0, SEEK_SET) != 0)
		abort();
	return f->fd;
}

int __real_fstatfs64(int fd, struct statfs64 *ret);
int __wrap_fstatfs64(int fd, struct statfs64 *ret);
int __wrap_fstatfs64(int fd, struct statfs64 *ret)
{
	int e = __real_fstatfs64(fd, ret);

	for (unsigned i = 0; i < FILES; i++)
		if (fd == files[i].fd)
			ret->f_type = (__typeof__(ret->f_type))files[i].file_system;
	return e;
}

/* Read a line into a block of this program, so that leaks are noticed. */
static ssize_t read_line(char **line, size_t *size, FILE *f)
{
	const size_t most = 32768;

	if (*line == NULL) {
		*line = malloc(most);
		*size = most;
	}
	return fgets(*line, (int)most, f) != NULL ? (ssize_t)strlen(*line) : -1;
}

ssize_t __wrap_getline(char **line, size_t *size, FILE *f);
ssize_t __wrap_getline(char **line, size_t *size, FILE *f)
{
	return read_line(line, size, f);
}

/* The name of getline() where that is inline. */
ssize_t __wrap___getdelim(char **line, size_t *size, int end, FILE *f);
ssize_t __wrap___getdelim(char **line, size_t *size, int end, FILE *f)
{
	(void)end;
	return read_line(line, size, f);
}

FILE *__real_fdopen(int fd, const char *mode);
FILE *__wrap_fdopen(int fd, const char *mode);
FILE *__wrap_fdopen(int fd, const char *mode)
{
	if (!no_streams)
		return __real_fdopen(fd, mode);
	errno = ENOMEM;
	return NULL;
}

bool syscall_is_answered(long number, const long a[6], long *ret)
{
	if (number != SYS_sched_getaffinity || (mask_error == 0 && mask_bits == 0))
		return false;
	*ret = -1;
	if (mask_error != 0) {
		errno = mask_error;
	} else if ((size_t)a[1] < mask_bits / 8) {
		errno = EINVAL;
	} else {
		/* The kernel's masks may be longer than the number of CPUs. It fills no more
		 * than the given size. */
		memset((void *)a[2], 0, (size_t)a[1]);
		((unsigned long *)a[2])[mask_cpu / WORD] = 1UL << mask_cpu % WORD;
		*ret = a[1];
	}
	return true;
}

static int require_cpus(uint32_t least, uint32_t most)
{
	uint32_t certain = 0;
	int cpus = percpu_possible_cpus(&certain);

	test_child_require(cpus == (int)most, "as many as may be possible");
	test_child_require(certain >= least && certain <= most, "and as are certain");
	return 0;
}

/* The list has every other CPU, until a page is full. The kernel ends a list with a newline, unless
 * it is cut off. */
static int look_at_long_list(void *whole)
{
	static char list[4096], table[16384];
	uint32_t end = 0;
	int n = 0;

	while (n < 4080) {
		n += snprintf(list + n, sizeof(list) - (size_t)n, "%u,", end);
		end += 2;
	}
	list[n - 1] = whole != NULL ? '\n' : '\0';
	n = 0;
	for (unsigned cpu = 0; cpu < 2000; cpu += 2)
		n += snprintf(table + n, sizeof(table) - (size_t)n, " CPU%u", cpu);
	strcpy(table + n, "\n");
	mask_bits = 2048;
	files[0].text = list;
	files[1].text = table;
	return whole != NULL ? require_cpus(end - 1, end - 1) : require_cpus(1999, 1999);
}

static void lists_that_are_cut_off_say_nothing(void **state)
{
	test_in_child(look_at_long_list, NULL);
	test_in_child(look_at_long_list, state);
}

/* Only the length of a mask says how many CPUs there are. The mask has a comma for each 32 CPUs. */
static int look_at_mask(void *arg)
{
	(void)arg;
	mask_bits = sizeof(long) == 8 ? 128 : 96; /* whole words for 80 */
	files[2].text = "Name:\tx\nCpus_allowed:\tffff,ffffffff,00000001\nCpus_allowed_list:\t0\n";
	return require_cpus(77, 80);
}

static void digits_of_masks_are_counted(void **state)
{
	(void)state;
	test_in_child(look_at_mask, NULL);
}

/* The process is stopped, and restored on a larger machine. */
static int look_again(void *arg)
{
	struct percpu_fence_report r;
	char online[16];

	(void)arg;
	mask_bits = 128;
	files[0].text = "0-3\n";
	require_cpus(4, 4);
	test_child_require(percpu_status()->possible_cpus == 4, "a status");
	files[0].text = "0-79\n";
	test_child_require(percpu_known_cpus() == 4, "what was read is known");
	require_cpus(80, 80);
	snprintf(online, sizeof(online), "%u\n", test_cpu(0));
	files[ONLINE].text = online;
	test_child_require(percpu_fence_all(UINT64_C(30000000000), &r) == 0, "a fence");
	test_child_require(r.fenced == 80, "of all CPUs that there are now");
	files[0].text = NULL;
	require_cpus(80, 80);
	return 0;
}

static void lists_are_read_again(void **state)
{
	(void)state;
	test_in_child(look_again, NULL);
}

/* On a larger machine, one thread fences all processes, and after that all threads know of it:
 * docs/memory/region.md. */
static int fence_on_larger_machine(void *arg)
{
	struct percpu_counter *c = NULL;
	char online[16];

	(void)arg;
	test_child_require(test_pin(0, test_cpu(0)), "a CPU");
	mask_bits = 128;
	files[0].text = "0-3\n";
	test_child_require(percpu_counter_create(&c) == 0, "4 lanes");
	(void)test_tier();
	percpu_counter_inc(c);
	files[0].text = "0-79\n";
	snprintf(online, sizeof(online), "%u\n", test_cpu(0));
	files[ONLINE].text = online;
	test_child_require(percpu_fence_all(UINT64_C(30000000000), NULL) == 0, "a fence");
	test_child_require(percpu_seq_cpu() < 0, "who fences looks");
	test_child_require(percpu_status()->cpu_without_lane, "a CPU has no lane");
	test_child_require(percpu_thread_tier() <= PERCPU_TIER_CPU, "no sequences any more");
	percpu_counter_inc(c);
	test_child_require(percpu_counter_fetch(c) == 2, "exact");
	return 0;
}

/* Another thread has found that there are more CPUs. */
static int fence_on_known_larger_machine(void *arg)
{
	struct percpu_counter *c = NULL;

	(void)arg;
	test_child_require(percpu_counter_create(&c) == 0, "as many lanes as CPUs");
	(void)test_tier();
	percpu_counter_inc(c);
	(void)percpu_note_cpus(PERCPU_MAX_CPUS);
	test_child_require(percpu_fence() == 0, "a fence");
	test_child_require(percpu_seq_cpu() < 0, "who fences looks");
	return 0;
}

static void fences_find_new_cpus(void **state)
{
	(void)state;
	test_in_child(fence_on_larger_machine, NULL);
	if (test_cpus() < PERCPU_MAX_CPUS)
		test_in_child(fence_on_known_larger_machine, NULL);
}

/* Files that are empty, malformed, or of another file system. */

static const struct machine {
	const char *text[3]; /* of the list, the table and the status */
	unsigned theirs;     /* bits of files that are not the kernel's */
	unsigned long bits;
	unsigned cpu;
	int error;
	bool no_streams;
	uint32_t certain, cpus;
} machines[] = {
	/* lists and tables */
	{ { "", "    CPU0 CPU1\n" }, 0, WORD, 0, 0, false, 2, 2 },
	{ { "x\n", "CPU0 CPU2\n" }, 0, WORD, 0, 0, false, 3, 3 },
	{ { "4,0-1\n" }, 0, WORD, 0, 0, false, 5, 5 },
	{ { NULL, "CPU0 CPU1 TOTAL\n" }, 0, WORD, 0, 0, false, 1, WORD },
	{ { NULL, "\n" }, 0, WORD, 0, 0, false, 1, WORD },
	{ { NULL, "" }, 0, WORD, 0, 0, false, 1, WORD },
	{ { NULL, "CPU0 CPU1\n" }, 1 << TABLE, WORD, 0, 0, false, 1, WORD },
	{ { NULL, "CPU0 CPU1\n" }, 0, WORD, 0, 0, true, 1, WORD },
	/* a list that the mask contradicts */
	{ { "0-999\n" }, 0, WORD, 0, 0, false, 1, WORD },
	{ { "0-999\n" }, 1 << LIST, WORD, 0, 0, false, 1, WORD },
	{ { "0\n" }, 1 << LIST, 2 * WORD, WORD + 6, 0, false, WORD + 7, 2 * WORD },
	{ { "0-2\n" }, 1 << LIST, WORD, 2, 0, false, 3, 3 },
	{ { "0-3\n" }, 0, WORD, 3, 0, false, 4, 4 },
	/* no mask */
	{ { NULL }, 0, 0, 0, EPERM, false, 1, 1 },
	{ { "0-5\n" }, 0, 0, 0, EPERM, false, 6, 6 },
	{ { "0-5\n" }, 1 << LIST, 0, 0, EPERM, false, 1, 6 },
	{ { "0-5\n" }, 1 << LIST, 0, 0, EINVAL, false, 1, 6 },
	/* lengths of masks */
	{ { NULL }, 0, 2 * WORD, WORD - 1, 0, false, WORD + 1, 2 * WORD },
	{ { NULL }, 0, 3 * WORD, 2 * WORD, 0, false, 2 * WORD + 1, 3 * WORD },
	{ { NULL, NULL, "Cpus_allowed:\tf\n" }, 0, WORD, 2, 0, false, 3, 4 },
	{ { NULL, NULL, "Cpus_allowed:\tf\n" }, 0, WORD, 3, 0, false, 4, 4 },
	{ { NULL, NULL, "Cpus_allowed:\tf\n" }, 0, WORD, 0, 0, false, 1, 4 },
	{ { NULL, NULL, "Cpus_allowed:\tf\n" }, 1 << STATUS, WORD, 0, 0, false, 1, WORD },
	{ { NULL, NULL, "Name:\tx\n" }, 0, WORD, 0, 0, false, 1, WORD },
	{ { NULL, NULL, "Cpus_allowed:\tA,g\n" }, 0, WORD, 0, 0, false, 1, WORD },
};

static int look_at_machine(void *arg)
{
	const struct machine *m = arg;
	struct test_holding before;
	uint32_t certain = 0;
	unsigned blocks;
	char text[64];
	int cpus;

	for (unsigned i = LIST; i <= STATUS; i++) {
		files[i].text = m->text[i];
		if (m->theirs >> i & 1)
			files[i].file_system = 0;
	}
	mask_bits = m->bits;
	mask_cpu = m->cpu;
	mask_error = m->error;
	no_streams = m->no_streams;
	before = test_holding_now();
	blocks = test_blocks();
	cpus = percpu_possible_cpus(&certain);
	snprintf(text, sizeof(text), "machine %d: %d, certainly %u", (int)(m - machines), cpus,
		 certain);
	test_child_require(cpus == (int)m->cpus && certain == m->certain, text);
	test_child_require(test_holding_now().fds == before.fds, "no file stays open");
	test_child_require(test_blocks() == blocks, "and no line");
	return 0;
}

static void machines_are_not_what_files_say(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		test_in_child(look_at_machine, (void *)&machines[i]);
}

/* A pipe without a writer does not block the read. */
static int look_at_pipes(void *arg)
{
	for (unsigned i = 0; i < FILES; i++) {
		files[i].text = arg;
		files[i].is_pipe = true;
		files[i].file_system = 0;
	}
	mask_bits = WORD;
	test_child_require(percpu_cpu_online(3), "nobody says which are offline");
	test_child_require(percpu_boot_id() == 0, "nor which boot it is");
	return require_cpus(1, WORD);
}

static void files_may_be_pipes(void **state)
{
	static char text[] = "";

	(void)state;
	assert_int_equal(mkfifo(test_path("pipe"), 0600), 0);
	assert_int_equal(test_wait(test_fork(look_at_pipes, text), 20), 0);
}

/* Without sysfs, a table says which CPUs are online. */
static int look_for_offline(void *arg)
{
	(void)arg;
	files[ONLINE].text = "0,2\n";
	test_child_require(percpu_cpu_online(2) && !percpu_cpu_online(1), "as the list says");
	files[ONLINE].file_system = 0;
	test_child_require(percpu_cpu_online(2) && percpu_cpu_online(1),
			   "that is not the kernel's");
	files[INTERRUPTS].text = "           CPU0       CPU2       \n";
	test_child_require(percpu_cpu_online(2) && !percpu_cpu_online(1), "as the table says");
	files[INTERRUPTS].text = "\n";
	test_child_require(percpu_cpu_online(2) && percpu_cpu_online(1), "that lists no CPU");
	files[INTERRUPTS].text = "           CPU0       CPU2       \n";
	files[INTERRUPTS].file_system = 0;
	test_child_require(percpu_cpu_online(2) && percpu_cpu_online(1), "nobody says so");
	return 0;
}

static void offline_is_what_the_kernel_says(void **state)
{
	(void)state;
	test_in_child(look_for_offline, NULL);
}

/* A truncated boot id would be that of many boots. */
static int look_at_boots(void *arg)
{
	const uint64_t first = percpu_boot_id();

	(void)arg;
	test_child_require(first != 0 && percpu_boot_id() == first, "the id of a boot");
	files[BOOT].text = "0c4d5b2e-7a1f-4e7b-9d53-1f2a3b4c5d6f\n";
	test_child_require(percpu_boot_id() != 0 && percpu_boot_id() != first, "another boot's");
	files[BOOT].text = "0c4d5b2e-7a1f-4e7b-9d53-1f2a3b4c5d6";
	test_child_require(percpu_boot_id() == 0, "less than an id");
	files[BOOT].text = "";
	test_child_require(percpu_boot_id() == 0, "nothing");
	files[BOOT] = (struct file){ files[BOOT].path, "0c4d5b2e-7a1f-4e7b-9d53-1f2a3b4c5d6e\n", 0,
				     -1, false };
	test_child_require(percpu_boot_id() == 0, "a file that is not the kernel's");
	return 0;
}

static void boots_are_what_the_kernel_says(void **state)
{
	(void)state;
	test_in_child(look_at_boots, NULL);
}

/* Each call that creates or opens a region reads the list of CPUs again. Here the list becomes
 * longer than an earlier region has lanes. */

#define WIDE test_path("wide")

static int open_wide(void)
{
	struct percpu_region *r;

	return percpu_region_open(WIDE, PERCPU_REGION_WRITE, NULL, &r);
}

static int open_wide_to_read(void)
{
	struct percpu_region *r;

	return percpu_region_open(WIDE, 0, NULL, &r);
}

static int open_wide_to_ask(void)
{
	struct percpu_region *r;

	return percpu_region_open(WIDE, PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS, NULL, &r);
}

static int open_wide_or_create(void)
{
	struct percpu_region *r;

	return percpu_region_open(WIDE, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL, &r);
}

static int open_wide_fd(void)
{
	int fd = open(WIDE, O_RDWR | O_CLOEXEC);
	struct percpu_region *r;

	return percpu_region_open_fd(fd, PERCPU_REGION_WRITE, NULL, &r);
}

static int create_private(void)
{
	struct percpu_region *r;

	return percpu_region_create(NULL, &r);
}

static int create_new(void)
{
	struct percpu_region *r;

	return percpu_region_open(test_path("new"), PERCPU_REGION_WRITE | PERCPU_REGION_CREATE,
				  NULL, &r);
}

static int create_new_file(void)
{
	struct percpu_region *r;

	return test_region_new(test_path("new"), NULL, &r);
}

static int create_in_fd(void)
{
	int fd = memfd_create("region", MFD_CLOEXEC);
	struct percpu_region *r;

	return test_region_new_fd(fd, NULL, &r);
}

static int create_segment(void)
{
	struct percpu_segment *s;

	return percpu_segment_open(test_path("new"), PERCPU_SEGMENT_CREATE, NULL, &s);
}

static int (*const all_that_read[])(void) = {
	open_wide,	open_wide_to_read, open_wide_to_ask, open_wide_or_create, open_wide_fd,
	create_private, create_new,	   create_new_file,  create_in_fd,	  create_segment,
};
#define ALL_THAT_READ (sizeof(all_that_read) / sizeof(all_that_read[0]))

static int note_more_cpus(void *arg)
{
	const struct percpu_region_options o = { .size = sizeof(o), .cpus = 80 };
	const unsigned *which = arg;
	struct percpu_region *r, *few;
	char what[32];

	mask_bits = 128;
	files[0].text = "0-3\n";
	unlink(WIDE);
	unlink(test_path("new"));
	test_child_require(test_region_new(WIDE, &o, &r) == 0, "80 lanes");
	test_child_require(percpu_region_create(NULL, &few) == 0, "4 lanes");
	test_child_require(!percpu_note_cpus(0), "a lane for each CPU");
	files[0].text = "0-79\n";
	(void)snprintf(what, sizeof(what), "call %u", *which);
	test_child_require(all_that_read[*which]() == 0, what);
	(void)snprintf(what, sizeof(what), "more CPUs, noted by call %u", *which);
	test_child_require(percpu_note_cpus(0), what);
	return 0;
}

static void who_opens_a_region_notes_new_cpus(void **state)
{
	(void)state;
	(void)test_path(""); /* before a child makes its own */
	for (unsigned i = 0; i < ALL_THAT_READ; i++)
		test_in_child(note_more_cpus, &i);
}

/* As many CPUs as a region can have lanes for, and one more. */

static int make_region(void *path)
{
	struct percpu_region *r;

	return test_region_new(path, NULL, &r);
}

static char path[128];

static int look_at_so_many(void *arg)
{
	static char list[32];
	const uint32_t cpus = *(const uint32_t *)arg;
	struct percpu_counter *c = NULL;
	struct percpu_region *r;
	uint32_t certain;
	int e;

	mask_bits = (cpus + 63) / 64 * 64;
	(void)snprintf(list, sizeof(list), "0-%u\n", cpus - 1);
	files[0].text = list;
	e = percpu_counter_create(&c);
	if (cpus > PERCPU_MAX_CPUS) {
		test_child_require(percpu_possible_cpus(&certain) == -E2BIG, "too many");
		test_child_require(e == -E2BIG && c == NULL, "no counter");
		test_child_require(percpu_region_open(path, 0, NULL, &r) == -E2BIG, "no region");
		test_child_require(percpu_status()->possible_cpus == PERCPU_MAX_CPUS, "the status");
		return 0;
	}
	test_child_require(e == 0 || e == -ENOMEM, "a counter, if there is address space");
	return require_cpus(cpus, cpus);
}

static void too_many_cpus_are_refused(void **state)
{
	uint32_t cpus;

	(void)state;
	snprintf(path, sizeof(path), "%s", test_path("region"));
	test_in_child(make_region, path);
	for (cpus = PERCPU_MAX_CPUS - 1; cpus <= PERCPU_MAX_CPUS + 1; cpus++)
		test_in_child(look_at_so_many, &cpus);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_that_are_cut_off_say_nothing),
		cmocka_unit_test(digits_of_masks_are_counted),
		cmocka_unit_test(lists_are_read_again),
		cmocka_unit_test(fences_find_new_cpus),
		cmocka_unit_test(machines_are_not_what_files_say),
		cmocka_unit_test(files_may_be_pipes),
		cmocka_unit_test(offline_is_what_the_kernel_says),
		cmocka_unit_test(boots_are_what_the_kernel_says),
		cmocka_unit_test(who_opens_a_region_notes_new_cpus),
		cmocka_unit_test(too_many_cpus_are_refused),
	};

	return cmocka_run_group_tests_name("lists", tests, NULL, test_remove_paths);
}
