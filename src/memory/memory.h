/* SPDX-License-Identifier: MIT */
/*
 * memory.h - regions, which are made of chunks (chunk.h), and what is allocated in them.
 */
#ifndef PERCPU_MEMORY_H
#define PERCPU_MEMORY_H

#include "../cpu/cpu.h"
#include "chunk.h"
#include "descriptor.h"
#include "format.h"

/* region.c */

/** The longest lane that a file can have, and the longest that this process can use. */
#define PERCPU_LONGEST_LANE (UINT64_C(1) << 40)
#define PERCPU_MAX_LANE (UINT64_C(1) << (sizeof(void *) < 8 ? 30 : 40))

/** Return n * size, or 0 if n is 0 or no lane is so long. */
static inline size_t percpu_lane_bytes(size_t n, size_t size)
{
	return n <= PERCPU_MAX_LANE / size ? n * size : 0;
}

/** A table of a region's chunks. A table that has become too small stays until the region is
 *  closed, because other threads may be reading it. */
struct percpu_chunk_table {
	struct percpu_chunk_table *older;
	uint32_t size;		   /* power of two */
	struct percpu_chunk *at[]; /* size chunks by index; then a hash table of 2 * size
				      places with linear probing; NULL: none */
};

/** For a region of default geometry: where in the hash table to begin to look
 *  for the chunk that has the cell in its lane 0. */
static inline size_t percpu_chunk_hash(const void *cell)
{
	return (size_t)((uintptr_t)cell / PERCPU_LANE_SIZE * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

struct percpu_region {
	struct percpu_region *next; /* of all regions of the process */
	struct percpu_chunk *first;
	struct percpu_chunk_table *chunks; /* changed under the process lock, read without */
	uint32_t n;			   /* chunks; likewise, and stored after the chunk is */
	uint32_t capacity;		   /* chunks that there is room for */
	char *seed;			   /* the page that the next chunk unfolds from, or NULL */
	struct percpu_chunk *spare;	   /* mapped, but not complete yet */
	void (*in_child)(const void *);	   /* see percpu_region_tell(); or NULL */
	const void *owner;
	void *memory; /* of the program, which the region is in; or NULL */
	bool shared;  /* a file */
	bool writable;
	size_t lane_size;
	uint32_t cpus;
	uint64_t boot;		       /* of a file that is open to write: when it was opened */
	struct percpu_descriptor file; /* kept for owners */
};

/** percpu_region_chunk() for a region of default geometry. */
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

/** Whether the region has the default lane size. Single counters and zones need that, and
 *  only such regions grow. */
bool percpu_region_is_zone(const struct percpu_region *r);

/** percpu_fence(); or, in a shared region, percpu_fence_all(), of CPUs that have a lane. */
int percpu_region_fence(const struct percpu_region *r);

/** Call in_child(owner) in each child of fork that has a copy of the region. */
void percpu_region_tell(struct percpu_region *r, void (*in_child)(const void *), const void *owner);

/** Return the region that the cell, any pointer, is in; NULL if none. */
struct percpu_region *percpu_region_find(const void *cell);

/** Check the options, and set *ret to them with the defaults filled in. Returns 0 or
 *  -errno. */
int percpu_region_check(const struct percpu_region_options *o, struct percpu_region_options *ret);
/** Create a private region for one object of size bytes per lane. -ENOMEM if this process can
 *  use no lane that is so long. */
int percpu_region_create_for(uint64_t size, struct percpu_region **ret);

/** Make a region without chunks; and free a region with its chunks, if it has any. */
int percpu_region_new(bool shared, bool writable, size_t lane_size, uint32_t cpus,
		      struct percpu_region **ret);
void percpu_region_drop(struct percpu_region *r);

/** Close a shared region, but keep its struct and the addresses of its chunks: an access to any of
 *  them is SIGSEGV from then on. */
void percpu_region_retire(struct percpu_region *r);

/** Return whether the address is in a chunk of the region, behind the chunk's struct. */
bool percpu_region_maps(const struct percpu_region *r, const void *address);

/** Map the chunks that exist, or else make the first, and enter the region in the list of
 *  the process. Drops the region if that fails. Returns 0 or -errno. */
int percpu_region_begin(struct percpu_region *r, int fd, bool exists, struct percpu_region **ret);

/* draft.c: what is read before it is known whether that succeeds */

struct percpu_draft {
	uint64_t on_stack[512];
	uint64_t *words; /* to read into */
	size_t size;	 /* in bytes */
};

/** Make room for so many bytes. Returns 0 or -ENOMEM. */
int percpu_draft_begin(struct percpu_draft *d, size_t size);

/** Copy so many bytes of the draft to out, unless e is an error, and free it. Returns e. */
int percpu_draft_end(struct percpu_draft *d, void *out, size_t used, int e);

/* image.c: a copy of a region that a reader makes in memory of its own. Its chunks have one CPU
 * lane, in which the reader adds up those of the file. Objects are attached to and read in it as
 * in the file. */

/** Make an image of the file that fd refers to, without chunks. It keeps a descriptor. Returns 0
 *  or -errno; percpu_region_drop() drops it. */
int percpu_image_create(int fd, struct percpu_region **ret);

/** Let it have n chunks. Returns 0 or -errno. */
int percpu_image_grow(struct percpu_region *r, uint32_t n);

/** Set the header of a chunk from what is in the file. */
void percpu_image_set_header(struct percpu_chunk *k, const struct percpu_header *h);

/* file.c */

/* For percpu_file_open(), beside the flags of region.h. */
#define PERCPU_REGION_NO_LINK 0x100 /* if path is a symbolic link: -ELOOP */
#define PERCPU_REGION_OWN 0x200	    /* if the file is another user's: -EPERM */

/** percpu_region_open() with these flags, too. A file that is created gets its name when prepare(),
 *  which may be NULL, has put into the region what is to be there, and returned 0. */
int percpu_file_open(const char *path, unsigned flags, const struct percpu_region_options *o,
		     int (*prepare)(struct percpu_region *r), struct percpu_region **ret);

/** Returns 0, or -EPERM if the file is another user's, or -errno. */
int percpu_file_check_owner(int fd);

/* grow.c */

/** Map the first chunk, from the file if the region is shared, as the spare chunk. Returns 0
 *  or -errno. */
int percpu_region_map_first(struct percpu_region *r, int fd);

/** Enter the spare chunk, which is complete, in the region's table. Returns 0 or -errno. */
int percpu_region_append_spare(struct percpu_region *r);

/** Append a chunk in private memory, without a header, for image.c. Returns 0 or -errno. */
int percpu_region_append_image(struct percpu_region *r);

/** Add a chunk. The caller has the lock between processes and the process lock. Returns 0
 *  or -errno. */
int percpu_region_grow(struct percpu_region *r);

/** Map the chunks that other processes have added. The caller has the process lock. Returns
 *  0 or -errno. */
int percpu_region_refresh(struct percpu_region *r);

/** Likewise, to have that chunk: 0 if it is mapped now, -ENOENT if there is none, or the file is
 *  damaged; -errno if it cannot be mapped. */
int percpu_region_reach(struct percpu_region *r, uint64_t index);

/** Check that this library could have written the header for chunk index. Returns 0 or
 *  -errno. */
int percpu_header_check(const struct percpu_header *h, uint32_t index);

/* alloc.c */

/** Return the chunk of r whose lane 0 the cell, any pointer, is in; NULL if none. */
struct percpu_chunk *percpu_region_chunk(const struct percpu_region *r, const void *cell);

/** Return the key of an object of that kind that begins at base, in lane 0 of the chunk;
 *  0 in private memory. */
uint64_t percpu_region_object_key(const struct percpu_chunk *k, enum percpu_kind kind,
				  const void *base);

/**
 * Find size bytes, aligned to align, which is at most 64, at a key that another process
 * may have made up. If the region was opened to read, the caller must not store to them.
 *
 * Returns 0, or -ENOENT if the key is of another kind, or the bytes were not allocated
 * together, or are not so aligned; or -ENOMEM. For a compact set they must be the whole
 * allocation.
 */
int percpu_region_attach(struct percpu_region *r, uint64_t key, enum percpu_kind kind, size_t size,
			 size_t align, void **ret);

/** As percpu_region_alloc(), but only the first cpu_size bytes of the CPU lanes are going to
 *  be touched; if it is 0, nothing but the bias lane. */
int percpu_region_alloc_narrow(struct percpu_region *r, size_t size, size_t cpu_size, size_t align,
			       void **ret);

/** As percpu_region_alloc(), for up to n cells at once. Returns how many it allocated, at
 *  least one, or -errno. */
ssize_t percpu_region_alloc_many(struct percpu_region *r, size_t size, size_t align, size_t n,
				 void **ret);

/** Free n cells that are certainly in use. Returns how many it freed: a process that is
 *  stopped can keep the others from being freed. */
size_t percpu_region_free_many(struct percpu_region *r, void *const *cells, size_t n, size_t size);

/** Complete the updates that killed processes have left in the journals of all chunks, so that none is
 *  stored to cells after these were freed. Waits so long at most for the lock of a journal; its
 *  holder then completes the update. Returns 0 or -ETIMEDOUT. */
int percpu_region_settle_journals(struct percpu_region *r, uint64_t timeout_ns);

/** Return the pages that hold no cell to the system. Returns how many bytes those have in
 *  all lanes, also if they were never touched. */
size_t percpu_region_reclaim(struct percpu_region *r);

/** Free what is in use of the allocation at this offset. The caller has both locks. */
void percpu_region_free_there(struct percpu_chunk *k, size_t offset);

struct percpu_anchor;

/** Allocate an object for an anchor. Returns 0 with the lock held, -EEXIST if the anchor has a
 *  key, or -errno as percpu_region_alloc(). */
int percpu_region_alloc_at(struct percpu_region *r, struct percpu_anchor *at, size_t size,
			   size_t cpu_size, size_t align, struct percpu_robust *h, void **ret);

/** Take the lock of the allocator, and that of the process: both locks. Returns 0 or -errno. */
int percpu_region_lock(struct percpu_region *r, struct percpu_robust *h);

/** Free the cells if no key leads to them now. Unlocks the allocator. */
void percpu_region_settle(struct percpu_region *r, struct percpu_robust *h);

/* root.c */

/** The word of a file that shall hold an object's key: a root, or one in the bias lane. */
struct percpu_anchor {
	uint64_t *word;
	uint64_t place; /* of a word in the bias lane: its key, of kind 0 */
	unsigned root;	/* or PERCPU_REGION_ROOTS */

	/** Choose the word. The caller has the lock between processes. Returns 0 or -errno;
	 *  -EEXIST if the word that it chose leads to an object. NULL: it is chosen. */
	int (*choose)(struct percpu_anchor *at);

	/** What is to be done when the object is there, before its key is. May be NULL. */
	void (*announce)(struct percpu_anchor *at);
};

/** Return the anchor at a root that exists. */
struct percpu_anchor percpu_root_anchor(const struct percpu_region *r, unsigned root);

/** Let the anchor choose its word, without the lock of the process. The caller has both locks.
 *  Returns 0, or -EEXIST if there is a key, or -errno. */
int percpu_anchor_choose(struct percpu_anchor *at);

/** Note that the cells at base are for an object whose key is going to be there. */
void percpu_creation_note(const struct percpu_region *r, const struct percpu_anchor *at,
			  const void *base);

/** Free the object that the word leads to, which nobody has any more, and let the word lead to
 *  none. The caller has the lock of the allocator, and not that of the process. */
void percpu_anchor_free(struct percpu_region *r, const struct percpu_anchor *at);

/** Free such objects unless their keys are there. For this and the note, the caller has both
 *  locks. */
void percpu_creation_settle(struct percpu_region *r);

/* block.c: objects, each a block of memory */

/** The alignment of objects, and the bytes at an object's start that adopt() may read. */
#define PERCPU_BLOCK_ALIGN 64

/** How to create or attach to an object. Its handle begins with a struct percpu_block; an
 *  object that has none (handle_size is 0) has the address in lane 0 as its handle. */
struct percpu_plan {
	enum percpu_kind kind;
	size_t size;	/* bytes of each lane; 0: the caller asked for an impossible size */
	size_t touched; /* how many of them are ever used in a CPU lane */
	size_t align;
	void *handle; /* filled in but for the block; to be copied to the heap */
	size_t handle_size;

	/** Store what is not zero in a new object, whose cells are zero. May be NULL. */
	void (*start)(struct percpu_block *handle);

	/** Fill in the rest of the handle, once its block is complete. May be NULL. */
	void (*complete)(struct percpu_block *handle);

	/** For objects that record their layout: read it from the object's first
	 *  PERCPU_BLOCK_ALIGN bytes, and change the plan's size and handle accordingly.
	 *  Returns 0 or -ENOENT. May be NULL. */
	int (*adopt)(const struct percpu_block *found, struct percpu_plan *p);
};

/** Create in memory of this process; create in a region; attach; attach or create at a root, or
 *  at any anchor, of which only root, choose and announce need be set if it chooses.
 *  ret is the address of a pointer to the object. They return 0 or -errno as the public
 *  functions that call them, and -EINVAL if r or ret is NULL. */
int percpu_block_create(const struct percpu_plan *p, void *ret);
int percpu_block_create_in(struct percpu_region *r, const struct percpu_plan *p, void *ret);
int percpu_block_attach(struct percpu_region *r, uint64_t key, struct percpu_plan *p, void *ret);
int percpu_block_open(struct percpu_region *r, unsigned root, struct percpu_plan *p, void *ret);
int percpu_block_open_at(struct percpu_region *r, struct percpu_anchor *at, struct percpu_plan *p,
			 void *ret);

/** Return the key of the object with this handle; 0 if it is NULL or in private memory. */
uint64_t percpu_block_key(const void *handle, enum percpu_kind kind);

/** Return where the object begins in the bias lane. */
static inline char *percpu_block_bias(const struct percpu_block *b)
{
	return percpu_chunk_bias(b->chunk, (size_t)(b->base - b->chunk->base));
}

/** Free the object and its handle; NULL is fine. */
void percpu_block_destroy(void *handle);

#endif
