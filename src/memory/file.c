/* SPDX-License-Identifier: MIT */
/*
 * file.c - how regions in files are created and opened.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.h"

_Static_assert(sizeof(off_t) == 8, "files are longer than 2 GiB: -D_FILE_OFFSET_BITS=64");

#define OPEN_TRIES 100
#define FLAGS                                                                                      \
	(PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS | PERCPU_REGION_EXCL)

/*
 * Set the length of the file to that of the largest region that it may become, because later
 * there is no descriptor to make it longer with. The file is sparse. If the file system or
 * RLIMIT_FSIZE allows less, the region can grow less. Check RLIMIT_FSIZE first: to exceed it
 * raises a signal.
 */
static int set_length(int fd, struct percpu_region *r)
{
	const uint64_t chunk = percpu_chunk_size(percpu_stride(r->lane_size), r->cpus);
	struct rlimit limit;

	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    limit.rlim_cur / chunk < r->capacity)
		r->capacity = (uint32_t)(limit.rlim_cur / chunk);
	for (; r->capacity != 0; r->capacity /= 2) {
		if (ftruncate(fd, (off_t)(r->capacity * chunk)) == 0)
			return 0;
		if (r->capacity == 1 || (errno != EFBIG && errno != EINVAL && errno != ENOSPC))
			return percpu_errno();
	}
	return -EFBIG;
}

/* Check the options of a region in a file; it cannot also be in memory of the program. */
static int check_file_options(const struct percpu_region_options *o,
			      struct percpu_region_options *ret)
{
	int e = percpu_region_check(o, ret);

	return e == 0 && (ret->memory != NULL || ret->memory_size != 0) ? -EINVAL : e;
}

/* Map the open file of the descriptor that is kept: a mapping keeps its locks. */
static int fd_to_map(const struct percpu_region *r, int fd)
{
	return r->file.fd >= 0 ? r->file.fd : fd;
}

/* Make a region in the file. The descriptor stays the caller's. fresh: as for open_region(). */
static int create_in_file(int fd, unsigned flags, bool fresh, const struct percpu_region_options *o,
			  struct percpu_region **ret)
{
	struct percpu_region *r;
	int e;

	e = percpu_region_new(true, true, o->lane_size, o->cpus, &r);
	if (e != 0)
		return e;
	e = set_length(fd, r);
	if (e == 0 && (flags & PERCPU_REGION_OWNERS))
		e = percpu_descriptor_keep(r, fd, fresh);
	if (e != 0) {
		percpu_region_drop(r);
		return e;
	}
	return percpu_region_begin(r, fd_to_map(r, fd), false, ret);
}

/* Create a file in the directory of path, under a name that no other file has. Returns a
 * descriptor or -errno. */
static int open_temporary(const char *path, mode_t mode, char **ret_name)
{
	static unsigned counter;
	const char *slash = strrchr(path, '/');
	int length = slash != NULL ? (int)(slash + 1 - path) : 0, fd;
	char *name;

	do {
		/* The name is not path's with a suffix: that may be longer than a name can be. */
		if (asprintf(&name, "%.*s.percpu-%ld-%u", length, path, (long)getpid(),
			     __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED)) < 0)
			return -ENOMEM;
		fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
		if (fd >= 0) {
			*ret_name = name;
			return fd;
		}
		fd = percpu_errno();
		free(name);
	} while (fd == -EEXIST);
	return fd;
}

/* Create the file. The options were checked, and the caller has deferred cancellation. */
static int create_file(const char *path, unsigned flags, const struct percpu_region_options *o,
		       int (*prepare)(struct percpu_region *r, const void *arg), const void *arg,
		       struct percpu_region **ret)
{
	struct percpu_region *r;
	char *name = NULL;
	int fd, e;

	fd = open_temporary(path, o->mode, &name);
	if (name == NULL) /* none was opened */
		return fd;
	e = create_in_file(fd, flags, true, o, &r);
	PERCPU_STEP("region: made");
	if (e == 0) {
		e = prepare != NULL ? prepare(r, arg) : 0;
		if (e == 0 && link(name, path) != 0)
			e = percpu_errno();
		if (e != 0)
			percpu_region_close(r);
	}
	PERCPU_STEP("region: named");
	if (e == 0)
		*ret = r;
	unlink(name);
	free(name);
	close(fd);
	return e;
}

/* Make a region in a file of the program's that is empty. Leave it empty on failure. */
static int fill_file(int fd, unsigned flags, const struct percpu_region_options *o,
		     int (*prepare)(struct percpu_region *r, const void *arg), const void *arg,
		     struct percpu_region **ret)
{
	struct percpu_region *r;
	int e = create_in_file(fd, flags, false, o, &r);

	if (e == 0 && prepare != NULL) {
		e = prepare(r, arg);
		if (e != 0)
			percpu_region_close(r);
	}
	if (e != 0) {
		/* If this fails, set_length() has failed as well, and the file is empty. */
		(void)!ftruncate(fd, 0);
		return e;
	}
	*ret = r;
	return 0;
}

/* What the file is comes before how it is open: no access makes a pipe a region. */
int percpu_file_check(int fd, unsigned flags)
{
	const int mode = fcntl(fd, F_GETFL);
	struct stat st;

	/* The access mode of an O_PATH descriptor is O_RDONLY, although it cannot read. */
	if (mode < 0 || (mode & O_PATH))
		return -EBADF;
	if (fstat(fd, &st) != 0)
		return percpu_errno();
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EBADMSG;
	if ((mode & O_ACCMODE) == O_WRONLY ||
	    ((flags & PERCPU_REGION_WRITE) && (mode & O_ACCMODE) != O_RDWR))
		return -EBADF;
	return (flags & PERCPU_REGION_OWN) && st.st_uid != geteuid() ? -EPERM : 0;
}

/* Read the header of a file, check it, and count the chunks that the file has room for. */
static int read_header(int fd, struct percpu_header *ret, uint32_t *ret_capacity)
{
	uint64_t chunks;
	struct stat st;
	int e;

	if (fstat(fd, &st) != 0)
		return percpu_errno();
	if (pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret))
		return -EBADMSG;
	e = percpu_header_check(ret, 0);
	if (e != 0)
		return e;
	chunks = (uint64_t)st.st_size / percpu_chunk_size(ret->stride, ret->cpus);
	if (chunks == 0)
		return -EBADMSG;
	*ret_capacity = chunks < PERCPU_MAX_FILE_CHUNKS ? (uint32_t)chunks : PERCPU_MAX_FILE_CHUNKS;
	return 0;
}

/* Open the region in the file. fresh: fd is not the program's, but was opened for this call. */
static int open_region(int fd, unsigned flags, bool fresh, struct percpu_region **ret)
{
	const bool writable = flags & PERCPU_REGION_WRITE;
	uint32_t certain = 0;
	int cpus = percpu_possible_cpus(&certain), e;
	struct percpu_header h = { .cpus = 0 }; /* set for analyzers, as is capacity */
	struct percpu_region *r;
	uint32_t capacity = 0;

	e = read_header(fd, &h, &capacity);
	if (e != 0)
		return e;
	if (cpus < 0 || (writable && h.cpus < certain))
		return cpus < 0 ? -E2BIG : -ERANGE;
	percpu_note_cpus(certain);
	e = percpu_region_new(true, writable, h.lane_size, h.cpus, &r);
	if (e != 0)
		return e;
	if (capacity < r->capacity)
		r->capacity = capacity;
	e = flags & PERCPU_REGION_OWNERS ? percpu_descriptor_keep(r, fd, fresh) : 0;
	if (e != 0) {
		percpu_region_drop(r);
		return e;
	}
	return percpu_region_begin(r, fd_to_map(r, fd), true, ret);
}

/* Return the error of flags that contradict each other; or check the options, if a file may be
 * created. */
static int check_how(unsigned flags, const struct percpu_region_options *o,
		     struct percpu_region_options *ret)
{
	const bool creates = flags & PERCPU_REGION_CREATE;

	if ((creates && !(flags & PERCPU_REGION_WRITE)) ||
	    (!creates && (flags & PERCPU_REGION_EXCL)))
		return -EINVAL;
	return creates ? check_file_options(o, ret) : 0;
}

/* Open the region in the file of the program's, or make it. */
static int open_or_fill(int fd, unsigned flags, const struct percpu_region_options *o,
			int (*prepare)(struct percpu_region *r, const void *arg), const void *arg,
			struct percpu_region **ret)
{
	struct stat st;

	if (!(flags & PERCPU_REGION_CREATE))
		return open_region(fd, flags, false, ret);
	if (fstat(fd, &st) != 0)
		return percpu_errno();
	if (st.st_size == 0)
		return fill_file(fd, flags, o, prepare, arg, ret);
	return flags & PERCPU_REGION_EXCL ? -EEXIST : open_region(fd, flags, false, ret);
}

int percpu_region_open_fd(int fd, unsigned flags, const struct percpu_region_options *o,
			  struct percpu_region **ret)
{
	return flags & ~FLAGS ? -EINVAL : percpu_file_open_fd(fd, flags, o, NULL, NULL, ret);
}

int percpu_file_open_fd(int fd, unsigned flags, const struct percpu_region_options *o,
			int (*prepare)(struct percpu_region *r, const void *arg), const void *arg,
			struct percpu_region **ret)
{
	struct percpu_region_options opt;
	int e = ret != NULL ? check_how(flags, o, &opt) : -EINVAL, cancel;

	if (e == 0)
		e = percpu_file_check(fd, flags);
	if (e != 0)
		return e;
	cancel = percpu_defer_cancel(); /* pread(2) is a cancellation point */
	e = open_or_fill(fd, flags, &opt, prepare, arg, ret);
	percpu_restore_cancel(cancel);
	return e;
}

static int open_file(const char *path, unsigned flags, struct percpu_region **ret)
{
	const int access = flags & PERCPU_REGION_WRITE ? O_RDWR : O_RDONLY;
	const int follow = flags & PERCPU_REGION_NO_LINK ? O_NOFOLLOW : 0;
	/* O_NONBLOCK, because the file may be a pipe. */
	int fd = open(path, access | follow | O_CLOEXEC | O_NONBLOCK), e;

	if (fd < 0)
		return percpu_errno();
	e = percpu_file_check(fd, flags);
	if (e == 0)
		e = open_region(fd, flags, true, ret);
	close(fd);
	return e;
}

/* Try several times: another process may create the file after this one has not found it, and
 * remove it after this one could not create it. */
static int open_or_create(const char *path, unsigned flags, const struct percpu_region_options *o,
			  int (*prepare)(struct percpu_region *r, const void *arg), const void *arg,
			  struct percpu_region **ret)
{
	int e = -EEXIST;

	for (int try = 0; try < OPEN_TRIES && e == -EEXIST; try++) {
		PERCPU_STEP("region: to be opened");
		e = open_file(path, flags, ret);
		if (e != -ENOENT)
			return e;
		PERCPU_STEP("region: not there");
		e = create_file(path, flags, o, prepare, arg, ret);
	}
	return e;
}

int percpu_region_open(const char *path, unsigned flags, const struct percpu_region_options *o,
		       struct percpu_region **ret)
{
	return flags & ~FLAGS ? -EINVAL : percpu_file_open(path, flags, o, NULL, NULL, ret);
}

int percpu_file_open(const char *path, unsigned flags, const struct percpu_region_options *o,
		     int (*prepare)(struct percpu_region *r, const void *arg), const void *arg,
		     struct percpu_region **ret)
{
	struct percpu_region_options opt;
	int e = path != NULL && ret != NULL ? check_how(flags, o, &opt) : -EINVAL, cancel;

	if (e != 0)
		return e;
	cancel = percpu_defer_cancel();
	if (flags & PERCPU_REGION_EXCL)
		e = create_file(path, flags, &opt, prepare, arg, ret);
	else if (flags & PERCPU_REGION_CREATE)
		e = open_or_create(path, flags, &opt, prepare, arg, ret);
	else
		e = open_file(path, flags, ret);
	percpu_restore_cancel(cancel);
	return e;
}
