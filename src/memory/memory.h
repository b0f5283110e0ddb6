/* SPDX-License-Identifier: MIT */
/*
 * memory.h - regions, which are made of chunks (chunk.h), and the objects in them.
 */
#ifndef PERCPU_MEMORY_H
#define PERCPU_MEMORY_H

#include "../cpu/cpu.h"
#include "chunk.h"
#include "descriptor.h"
#include "format.h"

/* region.c */

/** The longest lane that a file can have. */
#define PERCPU_LONGEST_LANE (UINT64_C(1) << 40)

/** The longest lane that this process can use. */
#define PERCPU_MAX_LANE (UINT64_C(1) << (sizeof(void *) < 8 ? 30 : 40))

/** Return n * size, or 0 if n is 0 or no lane is so long. */
static inline size_t percpu_lane_bytes(size_t n, size_t size)
{
	return n <= PERCPU_MAX_LANE / size ? n * size : 0;
}

/** A table of a region's chunks. When a larger one replaces it, it stays until the region is
 *  closed, because other threads may be reading it. */
struct percpu_chunk_table {
	struct percpu_chunk_table *older;
	uint32_t size;		   /* power of two */
	struct percpu_chunk *at[]; /* size chunks by index; then a hash table of 2 * size
				      places with linear probing; NULL: none */
};

/** Return the place of the hash table where a search begins for the chunk that has the cell in
 *  its lane 0. The region has the default geometry. */
static inline size_t percpu_chunk_hash(const void *cell)
{
	return (size_t)((uintptr_t)cell / PERCPU_LANE_SIZE * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

struct percpu_region {
	struct percpu_region *next; /* in the list of the process's regions */
	struct percpu_chunk *first;
	struct percpu_chunk_table *chunks; /* changed under the process lock, read without it */
	uint32_t n;			/* chunks in the table; changed in the same way, after it */
	uint32_t capacity;		/* chunks that there is room for */
	char *seed;			/* the page that the next chunk unfolds from, or NULL */
	struct percpu_chunk *spare;	/* mapped, but not complete yet */
	void (*in_child)(const void *); /* see percpu_region_on_fork(); or NULL */
	const void *owner;		/* in_child's argument */
	void *memory;			/* the program's memory that the region is in, or NULL */
	struct percpu_pins pins;	/* the process lock protects them */
	bool kept;			/* see percpu_region_keep(); so does it */
	bool shared;			/* the region is in a file */
	bool writable;
	size_t lane_size;
	uint32_t cpus;
	uint64_t boot;		       /* id of the boot in which the file was opened to write */
	struct percpu_descriptor file; /* kept for owners */
};

/** Do as percpu_region_chunk(), for a region of default geometry. */
static inline struct percpu_chunk *percpu_region_lookup(const struct percpu_region *r,
							const void *cell)
{
	struct percpu_chunk_table *t = __atomic_load_n(&r->chunks, __ATOMIC_ACQUIRE);
	const struct percpu_chunk *wanted = percpu_chunk_of(cell); /* may be no chunk */
	size_t mask = 2 * (size_t)t->size - 1;
	struct percpu_chunk *k;

	for (size_t i = percpu_chunk_hash(cell);; i++) {
		k = __atomic_load_n(&t->at[t->size + (i & mask)], __ATOMIC_ACQUIRE);
		if (k == NULL || k == wanted)
			return k;
	}
}

/** The most chunks that a file can have. */
#define PERCPU_MAX_FILE_CHUNKS 4096
_Static_assert(PERCPU_MAX_FILE_CHUNKS <= PERCPU_KEY_CHUNKS, "keys of all chunks");

/** Set *ret to the private region that single counters and small objects are in. Returns 0
 *  or -errno. */
int percpu_region_default(struct percpu_region **ret);

/** Return whether the region has the default lane size. Single counters and zones need that, and
 *  only such regions grow. */
bool percpu_region_has_default_lanes(const struct percpu_region *r);

/** Fence: as percpu_fence(), or, for a shared region, as percpu_fence_all() on the CPUs that have
 *  a lane. */
int percpu_region_fence(const struct percpu_region *r);

/** Let each child of fork that has a copy of the region call in_child(owner). */
void percpu_region_on_fork(struct percpu_region *r, void (*in_child)(const void *),
			   const void *owner);

/** Return the region that the cell is in; NULL if none. The cell may be any pointer. */
struct percpu_region *percpu_region_find(const void *cell);

/** Check the options, and set *ret to them with the defaults filled in. Returns 0 or
 *  -errno. */
int percpu_region_check(const struct percpu_region_options *o, struct percpu_region_options *ret);

/** Create a private region for one object of size bytes per lane. Returns 0 or -errno: -ENOMEM if
 *  the lane is longer than this process can use. */
int percpu_region_create_for(uint64_t size, struct percpu_region **ret);

/** Make a region without chunks. Returns 0 or -ENOMEM. */
int percpu_region_new(bool shared, bool writable, size_t lane_size, uint32_t cpus,
		      struct percpu_region **ret);

/** Free a region with its chunks, if it has any. */
void percpu_region_drop(struct percpu_region *r);

/** Close a shared region, but keep its struct and the addresses of its chunks: an access to any of
 *  them is SIGSEGV from then on. */
void percpu_region_quarantine(struct percpu_region *r);

/** Return whether the address is in a chunk of the region, behind the chunk's struct. */
bool percpu_region_maps(const struct percpu_region *r, const void *address);

/** Map the chunks of the file if it exists, or else make the first chunk; and enter the region in
 *  the list of the process. Drops the region if that fails. Returns 0 or -errno. */
int percpu_region_begin(struct percpu_region *r, int fd, bool exists, struct percpu_region **ret);

/* draft.c: a buffer for a read that may fail */

struct percpu_draft {
	uint64_t on_stack[512];
	uint64_t *words; /* the buffer: on_stack, or a mapping */
	size_t size;	 /* bytes */
};

/** Make room for size bytes. Returns 0 or -ENOMEM. */
int percpu_draft_begin(struct percpu_draft *d, size_t size);

/** Copy `used` bytes of the draft to out, unless e is an error, and free the draft. Returns e. */
int percpu_draft_end(struct percpu_draft *d, void *out, size_t used, int e);

/* image.c: a copy of a region, which a reader makes in memory of its own. Its chunks have one CPU
 * lane, which gets the sums of the file's lanes. The reader attaches to objects and reads them in
 * the image as in the file. */

/** Make an image, without chunks, of the file that fd refers to. The image keeps a descriptor.
 *  Returns 0 or -errno. percpu_region_drop() drops the image. */
int percpu_image_create(int fd, struct percpu_region **ret);

/** Add chunks to the image until it has n. Returns 0 or -errno. */
int percpu_image_grow(struct percpu_region *r, uint32_t n);

/** Set the header of an image's chunk from h, the header in the file. */
void percpu_image_set_header(struct percpu_chunk *k, const struct percpu_header *h);

/* file.c */

/* More flags for percpu_file_open(), beside those of region.h. */
#define PERCPU_REGION_NO_LINK 0x100 /* refuse a symbolic link: -ELOOP */
#define PERCPU_REGION_OWN 0x200	    /* refuse another user's file: -EPERM */

/** Do as percpu_region_open(), with these flags, too. If this creates the file, it first calls
 *  prepare(), which may be NULL, with arg, to fill the region. The file gets its name when prepare() has
 *  returned 0. */
int percpu_file_open(const char *path, unsigned flags, const struct percpu_region_options *o,
		     int (*prepare)(struct percpu_region *r, const void *arg), const void *arg,
		     struct percpu_region **ret);

/** Do as percpu_region_open_fd(), with these flags, too. If this makes the region, it then calls prepare(), which may be
 *  NULL, with arg. The file is empty again if prepare() fails. */
int percpu_file_open_fd(int fd, unsigned flags, const struct percpu_region_options *o,
			int (*prepare)(struct percpu_region *r, const void *arg), const void *arg,
			struct percpu_region **ret);

/** Check that fd is of a regular file, is open for what flags ask for, and with PERCPU_REGION_OWN
 *  that the file is this user's. Returns 0, -EBADF, -EISDIR, -EBADMSG, -EPERM, or -errno. */
int percpu_file_check(int fd, unsigned flags);

/* grow.c */

/** Map the first chunk, from the file if the region is shared, as the spare chunk. Returns 0
 *  or -errno. */
int percpu_region_map_first(struct percpu_region *r, int fd);

/** Enter the spare chunk, which is complete, in the region's table. Returns 0 or -ENOMEM. */
int percpu_region_append_spare(struct percpu_region *r);

/** Append a chunk in private memory, without a header, for image.c. Returns 0 or -errno. */
int percpu_region_append_image(struct percpu_region *r);

/** Set *ret to a chunk without cells: one that was decommitted, or else a new one. The caller has
 *  the lock between processes and the process lock. Returns 0 or -errno. */
int percpu_region_grow(struct percpu_region *r, struct percpu_chunk **ret);

/** Commit the chunk of this index, which is decommitted, but for its header. */
void percpu_region_commit(struct percpu_region *r, uint32_t index);

/** Map the chunks that other processes have added. The caller has the process lock. Returns
 *  0 or -errno. */
int percpu_region_refresh(struct percpu_region *r);

/** Do as percpu_region_refresh(), in order to have the chunk of this index. Returns 0 if the chunk
 *  is mapped; -ENOENT if there is no such chunk, or the file is damaged; -errno if it cannot be
 *  mapped. */
int percpu_region_reach(struct percpu_region *r, uint64_t index);

/** Check that this library could have written the header for chunk index. Returns 0 or
 *  -errno. */
int percpu_header_check(const struct percpu_header *h, uint32_t index);

/* alloc.c */

/** Return the chunk of r that has the cell in its lane 0; NULL if none. The cell may be any
 *  pointer. */
struct percpu_chunk *percpu_region_chunk(const struct percpu_region *r, const void *cell);

/** Return the key of the object of this kind that begins at base, in lane 0 of the chunk; 0 in
 *  private memory. */
uint64_t percpu_region_object_key(const struct percpu_chunk *k, enum percpu_kind kind,
				  const void *base);

/**
 * Find size bytes at a key. Another process may have made up the key. The bytes are aligned to
 * align, which is at most 64. If the region was opened to read, the caller must not store to them.
 *
 * Returns 0, or -ENOENT (the key is of another kind; or the bytes were not allocated together, or
 * have another alignment, or are not the whole allocation of a compact set), or -ENOMEM.
 */
int percpu_region_attach(struct percpu_region *r, uint64_t key, enum percpu_kind kind, size_t size,
			 size_t align, void **ret);

/** Do as percpu_region_alloc(), but reserve memory only for the first cpu_size bytes of each CPU
 *  lane; if that is 0, only for the bias lane. */
int percpu_region_alloc_narrow(struct percpu_region *r, size_t size, size_t cpu_size, size_t align,
			       void **ret);

/** Do as percpu_region_alloc(), for up to n cells at once. Returns how many cells it allocated,
 *  at least one, or -errno. */
ssize_t percpu_region_alloc_many(struct percpu_region *r, size_t size, size_t align, size_t n,
				 void **ret);

/** Free n cells that are certainly in use. Returns how many cells it freed. A process that is
 *  stopped with the lock of a journal can keep cells from being freed. */
size_t percpu_region_free_many(struct percpu_region *r, void *const *cells, size_t n, size_t size);

/**
 * Complete the updates that killed processes left in the journals of all chunks. Such an update may
 * be of an object that is freed, so complete it before its cells are allocated again. Waits at most
 * timeout_ns, for the lock of one journal. If another thread holds a lock, that thread completes
 * the update. Returns 0 or -ETIMEDOUT.
 */
int percpu_region_recover_journals(struct percpu_region *r, uint64_t timeout_ns);

/** Free the allocation that begins at this offset, or what is left of it. The caller has both
 *  locks. */
void percpu_region_free_there(struct percpu_chunk *k, size_t offset);

/** Release both locks, which percpu_region_lock() took. */
void percpu_region_unlock_both(struct percpu_region *r, struct percpu_robust *h);

struct percpu_anchor;

/** Allocate an object for an anchor. Returns 0 with the lock of the allocator held, -EEXIST if
 *  the anchor has a key, or -errno as percpu_region_alloc(). */
int percpu_region_alloc_at(struct percpu_region *r, struct percpu_anchor *at, size_t size,
			   size_t cpu_size, size_t align, struct percpu_robust *h, void **ret);

/** Take both locks: that of the allocator, if the region is shared, and that of the process.
 *  Returns 0 or -errno. */
int percpu_region_lock(struct percpu_region *r, struct percpu_robust *h);

/** Free the objects that were noted and did not get their keys (percpu_creation_recover()), and
 *  unlock the allocator. The caller has its lock, and not that of the process. */
void percpu_region_unlock(struct percpu_region *r, struct percpu_robust *h);

/* reclaim.c */

/** Return to the system the pages of the chunk that hold no cell in use. Returns the bytes of free
 *  cells in all lanes, also of cells that were never touched. The caller has both locks. */
size_t percpu_chunk_reclaim(struct percpu_chunk *k);

/** Do as percpu_region_reclaim() for all regions of the process, except those whose owner has
 *  asked to do so itself (percpu_region_keep()). */
void percpu_regions_reclaim(void);

/** Let percpu_regions_reclaim() pass by a region whose owner reclaims it. */
void percpu_region_keep(struct percpu_region *r);

/* root.c */

/** The word of a file that is to hold an object's key: a root, or a word of the bias lane. */
struct percpu_anchor {
	uint64_t *word;
	uint64_t word_key; /* where a word of the bias lane is, as a key of kind 0 */
	unsigned root; /* the root's number; PERCPU_REGION_ROOTS: the word is in the bias lane */
};

/** Return the anchor at a root that exists. */
struct percpu_anchor percpu_root_anchor(const struct percpu_region *r, unsigned root);

/** Note in the file that the cells at base are for an object whose key the anchor's word will
 *  hold. */
void percpu_creation_note(const struct percpu_region *r, const struct percpu_anchor *at,
			  const void *base);

/** Clear the anchor's word, and free the object that it led to, which no process uses any more.
 *  The caller has the lock of the allocator, and not that of the process. */
void percpu_anchor_free(struct percpu_region *r, const struct percpu_anchor *at);

/** Free the objects that percpu_creation_note() noted, unless their keys are in their words. The
 *  caller has both locks, as for the note. */
void percpu_creation_recover(struct percpu_region *r);

/* block.c: objects, each a block of memory */

/** The alignment of objects, and the number of bytes at an object's start that adopt() may
 *  read. */
#define PERCPU_BLOCK_ALIGN 64

/** How to create or attach to an object. The object's handle begins with a struct percpu_block.
 *  If handle_size is 0, the handle is the object's address in lane 0. */
struct percpu_plan {
	enum percpu_kind kind;
	size_t size;	/* bytes of each lane; 0: the caller asked for an impossible size */
	size_t touched; /* bytes that are ever used in a CPU lane */
	size_t align;
	void *handle; /* complete but for the block; copied to the heap */
	size_t handle_size;

	/** Store the words that are not 0 in a new object, whose cells are 0. May be NULL. */
	void (*start)(struct percpu_block *handle);

	/** Fill in the rest of the handle, once its block is complete. May be NULL. */
	void (*complete)(struct percpu_block *handle);

	/** Read the layout from the object's first PERCPU_BLOCK_ALIGN bytes, and change the
	 *  plan's size and handle accordingly. NULL: the object does not record its layout.
	 *  Returns 0, -ENOENT, or -ENOTSUP. */
	int (*adopt)(const struct percpu_block *found, struct percpu_plan *p);
};

/* The next five functions have this in common. ret is the address of a pointer to the object. They
 * return 0 or -errno as the public functions that call them, and -EINVAL if r or ret is NULL. */

/** Create an object in memory of this process. */
int percpu_block_create(const struct percpu_plan *p, void *ret);

/** Create an object in a region. */
int percpu_block_create_in(struct percpu_region *r, const struct percpu_plan *p, void *ret);

/** Attach to the object at a key. */
int percpu_block_attach(struct percpu_region *r, uint64_t key, struct percpu_plan *p, void *ret);

/** Attach to the object at a root, or create one there. */
int percpu_block_open(struct percpu_region *r, unsigned root, struct percpu_plan *p, void *ret);

/** Attach to the object at an anchor, or create one there. */
int percpu_block_open_at(struct percpu_region *r, struct percpu_anchor *at, struct percpu_plan *p,
			 void *ret);

/** Return the key of the object with this handle; 0 if the handle is NULL or the object is in
 *  private memory. */
uint64_t percpu_block_key(const void *handle, enum percpu_kind kind);

/** Return where the object begins in the bias lane. */
static inline char *percpu_block_bias(const struct percpu_block *b)
{
	return percpu_chunk_bias(b->chunk, (size_t)(b->base - b->chunk->base));
}

/** Free the object and its handle; NULL is fine. */
void percpu_block_destroy(void *handle);

#endif
