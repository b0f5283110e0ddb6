/* SPDX-License-Identifier: MIT */
/*
 * descriptor.c - locks on bytes of the file. The kernel drops a lock when its holder ends, and
 * processes in every PID namespace can see that.
 *
 * A lock belongs to an open file (F_OFD_SETLK), which a child of fork shares with its parent. So
 * the child opens the file again, by /proc/self/fd. If it cannot, it takes locks that belong to
 * the process (F_SETLK) on the inherited descriptor. Those are lost when the process closes any
 * descriptor of the file.
 *
 * A query is made as a process (F_GETLK): the kernel then also reports locks of an open file
 * that the asking process shares with the holder.
 *
 * Any process that may read the file can lock the byte to read. That keeps a process from
 * taking its write lock, but no query mistakes it for one.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "memory.h"

/* File offsets end at 2^63, and data far below 2^62. */
#define FIRST_BYTE (UINT64_C(1) << 62)

_Static_assert(PERCPU_MAX_FILE_CHUNKS *PERCPU_LONGEST_LANE <= FIRST_BYTE, "bytes of all chunks");

static bool is_that_file(const struct percpu_descriptor *d, int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == d->device && st.st_ino == d->inode;
}

int percpu_descriptor_kept(const struct percpu_region *r)
{
	return r->file.fd >= 0 && is_that_file(&r->file, r->file.fd) ? r->file.fd : -EBADF;
}

/* Return a descriptor of the same open file that is none of the standard streams, or -errno. */
static int copy_above_streams(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	/* EINVAL: RLIMIT_NOFILE allows no descriptor above them. */
	if (copy < 0)
		return errno == EINVAL ? -EMFILE : percpu_errno();
	return copy;
}

int percpu_descriptor_anew(const struct percpu_region *r, int fd)
{
	char path[32];
	int opened, copy;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	opened = open(path, (r->writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
	if (opened < 0)
		return percpu_errno();
	copy = is_that_file(&r->file, opened) ? opened : -EBADF;
	if (copy >= 0 && copy <= STDERR_FILENO) /* the program has closed that stream */
		copy = copy_above_streams(opened);
	if (copy != opened)
		close(opened);
	return copy;
}

int percpu_descriptor_keep(struct percpu_region *r, int fd, bool fresh)
{
	struct stat st;
	int copy = -EBADF;

	if (fstat(fd, &st) != 0)
		return percpu_errno();
	r->file.device = st.st_dev;
	r->file.inode = st.st_ino;
	if (!fresh)
		copy = percpu_descriptor_anew(r, fd);
	r->file.inherited = !fresh && copy < 0;
	if (copy < 0)
		copy = copy_above_streams(fd);
	if (copy < 0)
		return copy;
	r->file.fd = copy;
	return 0;
}

void percpu_descriptor_drop(struct percpu_region *r)
{
	int cancel = percpu_defer_cancel(); /* canceled in close(), it would leak the region */

	if (percpu_descriptor_kept(r) >= 0)
		close(r->file.fd);
	r->file.fd = -1;
	percpu_restore_cancel(cancel);
}

void percpu_descriptor_renew(struct percpu_region *r)
{
	int fd = percpu_descriptor_kept(r), saved = errno, copy;

	if (fd >= 0) {
		copy = percpu_descriptor_anew(r, fd);
		r->file.inherited = copy < 0;
		if (copy >= 0) {
			close(fd);
			r->file.fd = copy;
		}
	}
	errno = saved;
}

uint64_t percpu_descriptor_byte(const struct percpu_chunk *k, size_t offset)
{
	return FIRST_BYTE + k->index * PERCPU_LONGEST_LANE + offset;
}

static struct flock lock_of(short type, uint64_t byte)
{
	return (struct flock){
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = (off_t)byte,
		.l_len = 1,
	};
}

static int set_lock(const struct percpu_region *r, short type, uint64_t byte)
{
	struct flock l = lock_of(type, byte);
	int fd = percpu_descriptor_kept(r);

	if (fd < 0)
		return fd;
	return fcntl(fd, r->file.inherited ? F_SETLK : F_OFD_SETLK, &l) == 0 ? 0 : percpu_errno();
}

int percpu_descriptor_lock(const struct percpu_region *r, uint64_t byte)
{
	int e = set_lock(r, F_WRLCK, byte);

	return e == -EACCES ? -EAGAIN : e;
}

void percpu_descriptor_unlock(const struct percpu_region *r, uint64_t byte)
{
	(void)set_lock(r, F_UNLCK, byte);
}

/* Always a lock of the open file: the mappings of the region keep it as well. */
int percpu_descriptor_share(const struct percpu_region *r, uint64_t byte)
{
	struct flock l = lock_of(F_RDLCK, byte);
	int fd = percpu_descriptor_kept(r);

	if (fd < 0)
		return fd;
	return fcntl(fd, F_OFD_SETLK, &l) == 0 ? 0 : percpu_errno();
}

/* Return 1 if the byte has a lock of that type, else 0, or -errno. */
static int has_lock(const struct percpu_region *r, short type, uint64_t byte)
{
	struct flock l = lock_of(F_WRLCK, byte);
	int fd = percpu_descriptor_kept(r);

	if (fd < 0)
		return fd;
	if (fcntl(fd, F_GETLK, &l) != 0)
		return percpu_errno();
	return l.l_type == type;
}

int percpu_descriptor_locked(const struct percpu_region *r, uint64_t byte)
{
	return has_lock(r, F_WRLCK, byte);
}

int percpu_descriptor_shared(const struct percpu_region *r, uint64_t byte)
{
	return has_lock(r, F_RDLCK, byte);
}

/* The kernel keeps the lock while the open file is open. A mapping keeps it open: one page, which
 * no thread can access (PROT_NONE). */
int percpu_descriptor_lock_mapped(const struct percpu_region *r, uint64_t byte, void **ret)
{
	struct flock l = lock_of(F_RDLCK, byte);
	int cancel = percpu_defer_cancel(), fd = percpu_descriptor_kept(r), e = 0;
	void *page = MAP_FAILED;

	if (fd >= 0)
		fd = percpu_descriptor_anew(r, fd);
	if (fd >= 0) {
		if (fcntl(fd, F_OFD_SETLK, &l) == 0)
			page = mmap(NULL, percpu_page_size(), PROT_NONE, MAP_SHARED, fd, 0);
		e = page == MAP_FAILED ? percpu_errno() : 0;
		close(fd);
	}
	percpu_restore_cancel(cancel);
	if (fd < 0 || e != 0)
		return fd < 0 ? fd : e;
	*ret = page;
	return 0;
}

void percpu_descriptor_unlock_mapped(void *pin)
{
	if (pin != NULL)
		munmap(pin, percpu_page_size());
}

bool percpu_descriptor_is_free(const struct percpu_region *r, uint64_t byte)
{
	struct flock l = lock_of(F_WRLCK, byte);
	const int fd = percpu_descriptor_kept(r);

	return fd >= 0 && fcntl(fd, F_OFD_GETLK, &l) == 0 && l.l_type == F_UNLCK;
}
