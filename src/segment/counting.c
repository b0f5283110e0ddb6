/* SPDX-License-Identifier: MIT */
/*
 * counting.c - which processes have a segment open to count, and how its file is removed when none
 * has.
 *
 * A process that opens a segment to count locks a byte of the file to read. The kernel drops the
 * lock when all mappings of the segment are gone: in this process, and in the children that fork has
 * given them to. A process that removes the file locks the byte to write, without waiting. So it
 * fails while a process counts, and no process begins to count meanwhile: one that opens the file
 * waits, and then looks whether the path still leads there.
 *
 * Where a process gets no lock, it counts all the same. It stores that in the control, and then looks
 * whether a process is removing the file. A process that removes it says so in the control first, and
 * then looks whether a process counts without a lock. So one of the two sees the other.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reader.h"

/* Behind the byte of processes that have handles of series (remove.c). */
#define BYTE_OF_COUNTING ((UINT64_C(3) << 61) + 1)

#define POLL_NS (PERCPU_SECOND / 1000)
#define REMOVE_TRIES 100
#define UNKNOWN_BOOT 1 /* in percpu_segment_control.unlocked */

bool percpu_path_leads_elsewhere(const char *path, const struct percpu_descriptor *d)
{
	struct stat st;

	if (lstat(path, &st) != 0)
		return errno != EACCES && errno != ENAMETOOLONG;
	return st.st_dev != d->device || st.st_ino != d->inode;
}

/* Beginning to count. */

void percpu_counting_announce(const struct percpu_region *r)
{
	(void)percpu_descriptor_share(r, BYTE_OF_COUNTING);
}

/* This process has the lock, so none is removing the file: forget what a killed one has left. A
 * process that did not know its boot has counted in this boot or before: say so. */
static void tidy_control(const struct percpu_segment *s)
{
	struct percpu_segment_control *c = s->control;
	uint64_t unknown = UNKNOWN_BOOT;

	if (__atomic_load_n(&c->removal, __ATOMIC_RELAXED) != 0)
		__atomic_store_n(&c->removal, 0, __ATOMIC_RELAXED);
	if (s->region->boot != 0 && __atomic_load_n(&c->unlocked, __ATOMIC_RELAXED) == unknown)
		(void)__atomic_compare_exchange_n(&c->unlocked, &unknown, s->region->boot, false,
						  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* Lock the byte; or, if there is no lock to be had, say so in the file. Returns 0, or -EAGAIN while a
 * process removes the file. */
static int try_to_count(const struct percpu_segment *s)
{
	struct percpu_segment_control *c = s->control;
	const uint64_t boot = s->region->boot;
	int e = percpu_descriptor_share(s->region, BYTE_OF_COUNTING);

	if (e == -EAGAIN)
		return e;
	PERCPU_STEP("counting: locked");
	if (e == 0) {
		tidy_control(s);
		return 0;
	}
	__atomic_store_n(&c->unlocked, boot != 0 ? boot : UNKNOWN_BOOT, __ATOMIC_RELAXED);
	percpu_full_fence();
	PERCPU_STEP("counting: without a lock");
	return __atomic_load_n(&c->removal, __ATOMIC_RELAXED) != 0 ? -EAGAIN : 0;
}

int percpu_counting_begin(const struct percpu_segment *s, const char *path)
{
	const uint64_t deadline = percpu_now_ns() + PERCPU_LOCK_NS;
	uint32_t never = 0;

	while (try_to_count(s) != 0) {
		PERCPU_STEP("counting: removal awaited");
		if (path != NULL && percpu_path_leads_elsewhere(path, &s->region->file))
			return -ESTALE;
		if (percpu_now_ns() >= deadline)
			return -ETIMEDOUT;
		percpu_futex_sleep(&never, FUTEX_WAIT, 0, POLL_NS);
	}
	return path != NULL && percpu_path_leads_elsewhere(path, &s->region->file) ? -ESTALE : 0;
}

/* Asking. */

/* Return whether a process may count without a lock: one has begun to in this boot. */
static bool may_be_unlocked(const struct percpu_segment_control *c)
{
	const uint64_t boot = percpu_boot_id();

	return c->unlocked != 0 &&
	       (boot == 0 || c->unlocked == boot || c->unlocked == UNKNOWN_BOOT);
}

enum percpu_fact percpu_counting_ask(const struct percpu_reader *r)
{
	const int shared = percpu_descriptor_shared(r->s->region, BYTE_OF_COUNTING);

	if (shared == 1)
		return PERCPU_FACT_YES;
	return shared < 0 || may_be_unlocked(r->s->control) ? PERCPU_FACT_UNKNOWN : PERCPU_FACT_NO;
}

/* Removing. */

static int refuse_unknown(struct percpu_reason *why, const char *cause)
{
	return percpu_reason_set(why, -ENOLCK,
				 "it cannot be known whether a process has the segment open to "
				 "count: %s. If none has, remove the file by rm(1)",
				 cause);
}

/* Store in the file whether this process is about to remove it. Returns 0 or -errno. */
static int announce_removal(const struct percpu_reader *r, uint32_t removal)
{
	const struct percpu_chunk *k = percpu_chunk_of(r->cell);
	const size_t offset =
		(size_t)(r->cell - k->base) + offsetof(struct percpu_segment_control, removal);
	const ssize_t n =
		pwrite(r->fd, &removal, sizeof(removal),
		       (off_t)percpu_reader_file_offset(r, k->index, 2 * r->cpus, offset));

	percpu_full_fence();
	return n == (ssize_t)sizeof(removal) ? 0 : n < 0 ? percpu_errno() : -EIO;
}

/* Check that no process may count without a lock, and that the path leads to the file. The caller has
 * locked the byte to write, so no other process removes the file. Returns 0; -ESTALE; or -errno and
 * why. */
static int check_removal(struct percpu_reader *r, const char *path, struct percpu_reason *why)
{
	int e = percpu_reader_copy_control(r);

	if (e != 0) {
		*why = r->why;
		return e;
	}
	if (may_be_unlocked(r->s->control))
		return refuse_unknown(why, "one that could not lock the file has opened it since "
					   "the machine was started");
	return percpu_path_leads_elsewhere(path, &r->s->region->file) ? -ESTALE : 0;
}

/* Remove the file, which this process has locked. Returns as check_removal(). */
static int remove_locked(struct percpu_reader *r, const char *path, struct percpu_reason *why)
{
	int e = announce_removal(r, 1);

	PERCPU_STEP("removal: announced");
	if (e == 0)
		e = check_removal(r, path, why);
	PERCPU_STEP("removal: checked");
	if (e == 0 && unlink(path) != 0) {
		e = percpu_errno();
		(void)percpu_reason_set(why, e, "the file cannot be removed from its directory: %s",
					percpu_strerror(e));
	}
	PERCPU_STEP("removal: unlinked");
	if (e != 0)
		(void)announce_removal(r, 0);
	return e;
}

/* Remove the file if no process has it open to count. Returns as check_removal(). */
static int remove_idle(struct percpu_reader *r, const char *path, struct percpu_reason *why)
{
	const struct percpu_region *image = r->s->region;
	int e = percpu_descriptor_lock(image, BYTE_OF_COUNTING);

	if (e == -EAGAIN)
		return percpu_reason_set(why, -EBUSY,
					 "a process has it open to count, or is removing it");
	if (e != 0)
		return refuse_unknown(why, percpu_strerror(e));
	PERCPU_STEP("removal: locked");
	e = remove_locked(r, path, why);
	/* Do not leave this to close(2): a child of fork may have the open file. */
	percpu_descriptor_unlock(image, BYTE_OF_COUNTING);
	return e;
}

/* Remove the file of the descriptor, which is open to write, from this path. */
static int remove_opened(int fd, const char *path, unsigned flags, struct percpu_reason *why)
{
	struct percpu_reader *r = NULL;
	int e = percpu_file_check(
		fd, PERCPU_REGION_WRITE | (flags & PERCPU_SEGMENT_FOREIGN ? 0 : PERCPU_REGION_OWN));

	if (e == -EPERM)
		return percpu_reason_set(why, e,
					 "the file is another user's: PERCPU_SEGMENT_FOREIGN "
					 "removes it nevertheless");
	if (e == 0)
		e = percpu_reader_make(fd, &r, why);
	if (e != 0)
		return e == -ENOENT ? -EBADMSG : e; /* a region that is no segment */
	e = remove_idle(r, path, why);
	percpu_reader_close(r);
	return e;
}

static int remove_path(const char *path, unsigned flags, struct percpu_reason *why)
{
	int e = -ESTALE, fd;

	for (int try = 0; try < REMOVE_TRIES && e == -ESTALE; try++) {
		fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0)
			return percpu_errno();
		PERCPU_STEP("removal: opened");
		e = remove_opened(fd, path, flags, why);
		close(fd);
	}
	return e == -ESTALE ?
		       percpu_reason_set(why, -EBUSY,
					 "other processes replace the file again and again") :
		       e;
}

int percpu_segment_remove(const char *name, unsigned flags)
{
	const struct percpu_opening opening = { .name = name };
	struct percpu_reason why = { "" };
	int cancel, e;
	char *path;

	if (name == NULL)
		return percpu_error_say(-EINVAL, "the name of the segment is NULL");
	if (flags & ~(unsigned)PERCPU_SEGMENT_FOREIGN) {
		e = percpu_reason_set(&why, -EINVAL, "flags %#x are not for removing a segment",
				      flags & ~(unsigned)PERCPU_SEGMENT_FOREIGN);
		return percpu_error_keep_opening(e, &opening, &why);
	}
	cancel = percpu_defer_cancel(); /* open(2), pread(2) and close(2) are cancellation points */
	path = percpu_segment_path(name, &e, &why);
	if (path != NULL)
		e = remove_path(path, flags, &why);
	free(path);
	percpu_restore_cancel(cancel);
	if (e == -ENOENT && *why.text == '\0')
		(void)percpu_reason_set(&why, e, "there is no such file");
	return e != 0 ? percpu_error_keep_opening(e, &opening, &why) : 0;
}
