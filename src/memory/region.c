/* SPDX-License-Identifier: MIT */
/*
 * region.c - regions: their chunks and their files.
 *
 * A region grows by chunks; a chunk is complete, in the file, before it is
 * counted in the header of the first, so a process can die at any point.
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

#define MAX_CHUNKS 65536
#define MAX_FILE_CHUNKS 4096
#define OPEN_TRIES 100

static struct percpu_region *regions;	     /* under the process lock */
static struct percpu_region *default_region; /* likewise */

/* A child of fork has one thread: whoever else held a lock in private memory did
 * not come along. What is in a file is the business of its holder, who lives. */
static void region_mend_in_child(void)
{
	for (struct percpu_region *r = regions; r != NULL; r = r->next) {
		if (r->shared)
			continue;
		for (uint32_t i = 0; i < r->n; i++)
			percpu_robust_orphan(&r->chunks->at[i]->header->journal_lock);
		if (r->in_child != NULL)
			r->in_child(r->owner);
	}
}

__attribute__((constructor)) static void region_join_forks(void)
{
	static const struct percpu_fork_part part = { .in_child = region_mend_in_child };

	percpu_fork_register(PERCPU_FORK_REGIONS, &part);
}

void percpu_region_tell(struct percpu_region *r, void (*in_child)(const void *), const void *owner)
{
	percpu_process_lock();
	r->in_child = in_child;
	r->owner = owner;
	percpu_process_unlock();
}

bool percpu_region_is_zone(const struct percpu_region *r)
{
	return r->lane_size == PERCPU_LANE_SIZE;
}

/* Chunks */

static void describe(const struct percpu_region *r, uint32_t index, struct percpu_chunk *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->region = (struct percpu_region *)r;
	ret->lane_size = r->lane_size;
	ret->stride = percpu_stride(r->lane_size);
	ret->cpus = r->cpus;
	ret->index = index;
	ret->shared = r->shared;
}

/* Both for its index and for its address. */
static void enter_chunk(struct percpu_chunk_table *t, uint32_t index, struct percpu_chunk *k)
{
	size_t mask = 2 * (size_t)t->size - 1, i = percpu_chunk_hash(k->base);

	t->at[index] = k;
	while (t->at[t->size + (i & mask)] != NULL)
		i++;
	__atomic_store_n(&t->at[t->size + (i & mask)], k, __ATOMIC_RELEASE);
}

/* Twice the chunks of the table, which may be NULL: that of a new region. */
static struct percpu_chunk_table *larger_table(struct percpu_chunk_table *old)
{
	uint32_t size = old != NULL ? 2 * old->size : 1;
	struct percpu_chunk_table *t = calloc(1, sizeof(*t) + 3 * (size_t)size * sizeof(t->at[0]));

	if (t == NULL)
		return NULL;
	t->older = old;
	t->size = size;
	for (uint32_t i = 0; old != NULL && i < old->size; i++)
		enter_chunk(t, i, old->at[i]);
	return t;
}

static int append(struct percpu_region *r, struct percpu_chunk *k)
{
	struct percpu_chunk_table *t = r->chunks;

	if (t == NULL || r->n == t->size) {
		t = larger_table(t);
		if (t == NULL)
			return -ENOMEM;
		__atomic_store_n(&r->chunks, t, __ATOMIC_RELEASE);
	}
	if (r->n == 0)
		r->first = k;
	enter_chunk(t, r->n, k);
	__atomic_store_n(&r->n, r->n + 1, __ATOMIC_RELEASE);
	return 0;
}

/* Map the first chunk, from the file if the region is one. */
static int map_first(struct percpu_region *r, int fd)
{
	bool grows = r->shared && r->capacity > 1;
	struct percpu_chunk t;
	int e;

	describe(r, 0, &t);
	e = percpu_chunk_map(&t, fd, r->writable, grows, &r->spare);
	if (e == 0 && grows)
		r->seed = percpu_chunk_seed(r->spare);
	return e;
}

/* Map the next chunk, which is the region's when append() has taken it; until
 * then the spare one. In a file it takes no descriptor, which the program may
 * have closed: it unfolds the page behind the last chunk. */
static int map_next(struct percpu_region *r)
{
	bool grows = r->n + 1 < r->capacity;
	struct percpu_chunk t;
	int e;

	if (r->spare != NULL)
		return 0;
	if (r->n == r->capacity)
		return -ENOSPC;
	describe(r, r->n, &t);
	if (!r->shared)
		return percpu_chunk_map(&t, -1, true, false, &r->spare);
	e = percpu_chunk_unfold(&t, &r->seed, grows, &r->spare);
	if (e == 0 && grows)
		r->seed = percpu_chunk_seed(r->spare);
	return e;
}

static int append_spare(struct percpu_region *r)
{
	int e = append(r, r->spare);

	if (e == 0)
		r->spare = NULL;
	return e;
}

int percpu_region_grow(struct percpu_region *r)
{
	int e = map_next(r);

	if (e == 0 && r->shared)
		percpu_chunk_place(r->spare);
	if (e == 0)
		e = percpu_chunk_format(r->spare);
	if (e == 0)
		e = append_spare(r);
	if (e == 0)
		__atomic_store_n(&r->first->header->chunks, r->n, __ATOMIC_RELEASE);
	return e;
}

/* Is this header one that this library could have written for chunk index? */
static int validate(const struct percpu_header *h, uint32_t index)
{
	if (h->magic != PERCPU_MAGIC)
		return -EBADMSG;
	if ((uint16_t)h->version != PERCPU_FORMAT_MAJOR)
		return -EPROTO;
	if (h->index != index || h->lane_size == 0 || h->lane_size > PERCPU_LONGEST_LANE ||
	    h->cpus == 0)
		return -EBADMSG;
	if (h->lane_size > PERCPU_MAX_LANE)
		return -ENOMEM; /* for processes with more address space than this one */
	if (h->lane_size % percpu_unit(h->lane_size) != 0)
		return -EBADMSG;
	if (h->stride != percpu_stride(h->lane_size) || h->cpus > PERCPU_MAX_CPUS)
		return -EPROTO;
	return 0;
}

/* The next chunk, which another process says is complete: the file must be long
 * enough, and what it holds the same geometry. */
static int append_existing(struct percpu_region *r)
{
	struct percpu_header h;
	int e;

	if (r->n == r->capacity)
		return -EBADMSG;
	e = map_next(r);
	if (e != 0)
		return e;
	e = percpu_chunk_read_header(r->spare, &h);
	if (e == 0)
		e = validate(&h, r->n);
	if (e == 0 && (h.lane_size != r->lane_size || h.cpus != r->cpus))
		e = -EBADMSG;
	return e != 0 ? e : append_spare(r);
}

int percpu_region_refresh(struct percpu_region *r)
{
	uint32_t there =
		r->shared ? __atomic_load_n(&r->first->header->chunks, __ATOMIC_ACQUIRE) : r->n;
	int e = 0;

	while (r->n < there && e == 0)
		e = append_existing(r);
	return e;
}

/* Regions */

static int new_region(bool shared, bool writable, size_t lane_size, uint32_t cpus,
		      struct percpu_region **ret)
{
	struct percpu_region *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return -ENOMEM;
	r->shared = shared;
	r->writable = writable;
	r->lane_size = lane_size;
	r->cpus = cpus;
	r->capacity = !percpu_region_is_zone(r) ? 1 : shared ? MAX_FILE_CHUNKS : MAX_CHUNKS;
	*ret = r;
	return 0;
}

static void free_region(struct percpu_region *r)
{
	struct percpu_chunk_table *t, *older;

	for (uint32_t i = 0; i < r->n; i++)
		percpu_chunk_unmap(r->chunks->at[i]);
	if (r->spare != NULL)
		percpu_chunk_unmap(r->spare);
	if (r->seed != NULL)
		percpu_chunk_unmap_seed(r->seed);
	for (t = r->chunks; t != NULL; t = older) {
		older = t->older;
		free(t);
	}
	free(r);
}

static void enlist(struct percpu_region *r)
{
	if (r->writable)
		percpu_note_lanes(r->cpus);
	percpu_process_lock();
	r->next = regions;
	regions = r;
	percpu_process_unlock();
}

/* Options of this version with the defaults filled in. */
static int check_options(const struct percpu_region_options *o, struct percpu_region_options *ret)
{
	uint32_t certain = 0;
	int cpus = percpu_possible_cpus(&certain);
	size_t unit;

	if (percpu_options_read(ret, sizeof(*ret), o) != 0)
		return -EINVAL;
	if (cpus < 0 || ret->cpus > PERCPU_MAX_CPUS)
		return -E2BIG;
	if (ret->cpus == 0)
		ret->cpus = cpus;
	if (ret->cpus < certain || ret->lane_size > PERCPU_MAX_LANE || (ret->mode & ~07777U))
		return -EINVAL;
	if (ret->lane_size == 0)
		ret->lane_size = PERCPU_LANE_SIZE;
	percpu_note_cpus(certain);
	unit = percpu_unit(ret->lane_size);
	ret->lane_size = (ret->lane_size + unit - 1) / unit * unit;
	if (ret->mode == 0)
		ret->mode = 0600;
	return 0;
}

/*
 * Give the file the length of the largest region that it may become, for later
 * there is no descriptor to make it longer with. It takes room where it is used.
 * Where the file system or a limit (which would be a signal) allows less, the
 * region can grow less.
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

/* The region for a new file, or for private memory with fd -1. The descriptor
 * stays the caller's. */
static int create(int fd, const struct percpu_region_options *o, struct percpu_region **ret)
{
	struct percpu_region *r;
	int e;

	percpu_init();
	e = new_region(fd >= 0, true, o->lane_size, o->cpus, &r);
	if (e != 0)
		return e;
	e = fd >= 0 ? set_length(fd, r) : 0;
	if (e == 0)
		e = map_first(r, fd);
	if (e == 0) {
		percpu_process_lock();
		e = percpu_region_grow(r);
		percpu_process_unlock();
	}
	if (e != 0) {
		free_region(r);
		return e;
	}
	enlist(r);
	*ret = r;
	return 0;
}

int percpu_region_create(const struct percpu_region_options *o, struct percpu_region **ret)
{
	struct percpu_region_options opt;
	int e;

	if (ret == NULL)
		return -EINVAL;
	e = check_options(o, &opt);
	return e != 0 ? e : create(-1, &opt, ret);
}

/* Create a file next to path under a name of its own. */
static int open_temporary(const char *path, mode_t mode, char **ret_name)
{
	static unsigned counter;
	const char *slash = strrchr(path, '/');
	int length = slash != NULL ? (int)(slash + 1 - path) : 0, fd;
	char *name;

	do {
		/* Not longer than the longest name that path may have. */
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

int percpu_region_create_file(const char *path, const struct percpu_region_options *o,
			      struct percpu_region **ret)
{
	struct percpu_region_options opt;
	struct percpu_region *r;
	char *name = NULL;
	int fd, e, cancel;

	if (path == NULL || ret == NULL)
		return -EINVAL;
	e = check_options(o, &opt);
	if (e != 0)
		return e;
	cancel = percpu_defer_cancel();
	fd = open_temporary(path, opt.mode, &name);
	if (fd < 0) {
		percpu_restore_cancel(cancel);
		return fd;
	}
	e = create(fd, &opt, &r);
	PERCPU_STEP("region: made");
	if (e == 0 && link(name, path) != 0) {
		e = percpu_errno();
		percpu_region_close(r);
	}
	PERCPU_STEP("region: named");
	if (e == 0)
		*ret = r;
	unlink(name);
	free(name);
	close(fd);
	percpu_restore_cancel(cancel);
	return e;
}

static int check_access(int fd, bool writable)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || (flags & O_ACCMODE) == O_WRONLY ||
	    (writable && (flags & O_ACCMODE) != O_RDWR))
		return -EBADF;
	return 0;
}

int percpu_region_create_fd(int fd, const struct percpu_region_options *o,
			    struct percpu_region **ret)
{
	struct percpu_region_options opt;
	struct stat st;
	int e;

	if (ret == NULL)
		return -EINVAL;
	e = check_options(o, &opt);
	if (e == 0)
		e = check_access(fd, true);
	if (e != 0)
		return e;
	if (fstat(fd, &st) != 0)
		return percpu_errno();
	if (st.st_size != 0)
		return -EEXIST;
	e = create(fd, &opt, ret);
	if (e != 0 && ftruncate(fd, 0) != 0)
		return e; /* it could not be made longer, either */
	return e;
}

/* Check the header in a file, and how many chunks the file has room for. */
static int read_header(int fd, struct percpu_header *ret, uint32_t *ret_capacity)
{
	uint64_t chunks;
	struct stat st;
	int e;

	if (fstat(fd, &st) != 0)
		return percpu_errno();
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (pread(fd, ret, sizeof(*ret), 0) != (ssize_t)sizeof(*ret))
		return -EBADMSG;
	e = validate(ret, 0);
	if (e != 0)
		return e;
	chunks = (uint64_t)st.st_size / percpu_chunk_size(ret->stride, ret->cpus);
	if (chunks == 0)
		return -EBADMSG;
	*ret_capacity = chunks < MAX_FILE_CHUNKS ? (uint32_t)chunks : MAX_FILE_CHUNKS;
	return 0;
}

static int open_region(int fd, bool writable, struct percpu_region **ret)
{
	uint32_t certain = 0;
	int cpus = percpu_possible_cpus(&certain), e;
	struct percpu_header h = { .cpus = 0 }; /* as capacity: or analyzers see it unset */
	struct percpu_region *r;
	uint32_t capacity = 0;

	percpu_init();
	e = read_header(fd, &h, &capacity);
	if (e != 0)
		return e;
	if (cpus < 0 || (writable && h.cpus < certain))
		return cpus < 0 ? -E2BIG : -ERANGE;
	percpu_note_cpus(certain);
	e = new_region(true, writable, h.lane_size, h.cpus, &r);
	if (e != 0)
		return e;
	if (capacity < r->capacity)
		r->capacity = capacity;
	e = map_first(r, fd);
	if (e == 0) {
		percpu_process_lock();
		e = append_spare(r);
		if (e == 0)
			e = percpu_region_refresh(r);
		percpu_process_unlock();
	}
	if (e != 0) {
		free_region(r);
		return e;
	}
	enlist(r);
	*ret = r;
	return 0;
}

int percpu_region_open_fd(int fd, unsigned flags, struct percpu_region **ret)
{
	const bool writable = flags & PERCPU_REGION_WRITE;
	int e, cancel;

	if (ret == NULL || (flags & ~PERCPU_REGION_WRITE))
		return -EINVAL;
	e = check_access(fd, writable);
	if (e != 0)
		return e;
	cancel = percpu_defer_cancel(); /* pread(2) is a cancellation point */
	e = open_region(fd, writable, ret);
	percpu_restore_cancel(cancel);
	return e;
}

static int open_file(const char *path, bool writable, struct percpu_region **ret)
{
	/* Not blocking, should it be a pipe. */
	int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
	int e = fd >= 0 ? open_region(fd, writable, ret) : percpu_errno();

	if (fd >= 0)
		close(fd);
	return e;
}

/* Another process may create the file after we have not found it, and remove it
 * after we could not create it. */
static int open_or_create(const char *path, const struct percpu_region_options *o,
			  struct percpu_region **ret)
{
	int e = -EEXIST;

	for (int try = 0; try < OPEN_TRIES && e == -EEXIST; try++) {
		PERCPU_STEP("region: to be opened");
		e = open_file(path, true, ret);
		if (e != -ENOENT)
			return e;
		PERCPU_STEP("region: not there");
		e = percpu_region_create_file(path, o, ret);
	}
	return e;
}

int percpu_region_open(const char *path, unsigned flags, const struct percpu_region_options *o,
		       struct percpu_region **ret)
{
	const bool creates = flags & PERCPU_REGION_CREATE, writable = flags & PERCPU_REGION_WRITE;
	struct percpu_region_options opt;
	int e, cancel;

	if (path == NULL || ret == NULL || (creates && !writable) ||
	    (flags & ~(PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)))
		return -EINVAL;
	e = creates ? check_options(o, &opt) : 0;
	if (e != 0)
		return e;
	cancel = percpu_defer_cancel();
	e = creates ? open_or_create(path, o, ret) : open_file(path, writable, ret);
	percpu_restore_cancel(cancel);
	return e;
}

void percpu_region_close(struct percpu_region *r)
{
	struct percpu_region **at;

	if (r == NULL)
		return;
	percpu_process_lock();
	for (at = &regions; *at != NULL && *at != r; at = &(*at)->next)
		;
	if (*at == r)
		*at = r->next;
	percpu_process_unlock();
	free_region(r);
}

int percpu_region_default(struct percpu_region **ret)
{
	struct percpu_region *r;
	int e = 0;

	if (__atomic_load_n(&default_region, __ATOMIC_ACQUIRE) == NULL) {
		e = percpu_region_create(NULL, &r);
		if (e != 0)
			return e;
		percpu_process_lock();
		if (default_region == NULL) {
			__atomic_store_n(&default_region, r, __ATOMIC_RELEASE);
			r = NULL;
		}
		percpu_process_unlock();
		percpu_region_close(r); /* another thread was first */
	}
	*ret = __atomic_load_n(&default_region, __ATOMIC_ACQUIRE);
	return 0;
}

struct percpu_region *percpu_region_find(const void *cell)
{
	struct percpu_region *r;

	percpu_process_lock();
	for (r = regions; r != NULL && percpu_region_chunk(r, cell) == NULL; r = r->next)
		;
	percpu_process_unlock();
	return r;
}
