/* SPDX-License-Identifier: MIT */
/*
 * memory.h - lanes: chunks, regions, and what is allocated in them.
 */
#ifndef PERCPU_MEMORY_H
#define PERCPU_MEMORY_H

#include "../cpu/cpu.h"
#include "descriptor.h"
#include "format.h"

/* chunk.c: one mapping of lanes, and the arithmetic on them */

/** A chunk as this process has mapped it; constant from then on, but for hint. */
struct percpu_chunk {
	const struct percpu_chunk *self; /* its own address: tells a chunk from other memory */
	struct percpu_region *region;
	struct percpu_header *header;
	char *base; /* lane 0 */
	size_t lane_size;
	size_t stride;
	size_t unit; /* bytes that a bit of header->used stands for */
	size_t hint; /* units below it were in use when last seen; the process lock protects it */
	uint32_t cpus;
	uint32_t index;
	bool shared;	 /* a file */
	size_t map_size; /* from this struct on; 0: in memory of the program */
};

/** Order what comes before against what follows. GCC refuses __atomic_thread_fence() where it
 *  compiles for ThreadSanitizer. */
static inline void percpu_full_fence(void)
{
	__sync_synchronize();
}

/** Return the distance between lanes of so many usable bytes. */
static inline size_t percpu_stride(size_t lane_size)
{
	size_t page = PERCPU_STRIDE - PERCPU_LANE_SIZE - 64;

	return (lane_size + page - 1) / page * page + page + 64;
}

/** Return how many bytes a bit of percpu_header.used stands for. */
static inline size_t percpu_unit(size_t lane_size)
{
	size_t unit = sizeof(uint64_t);

	while (unit * PERCPU_UNITS < lane_size)
		unit *= 2;
	return unit;
}

/** Return how many bytes a chunk takes in a file: all but its struct percpu_chunk. */
uint64_t percpu_chunk_size(size_t stride, uint32_t cpus);

/* map.c */

static inline size_t percpu_page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/** Map a chunk with the geometry of t: private memory if fd is -1, else the first chunk of
 *  the file. If grows is set, also map the page behind it, percpu_chunk_seed(). Returns 0
 *  or -errno. */
int percpu_chunk_map(const struct percpu_chunk *t, int fd, bool writable, bool grows,
		     struct percpu_chunk **ret);
void percpu_chunk_unmap(struct percpu_chunk *k);

/** Make a private chunk in memory of the program, which this fills with zeros and never
 *  unmaps. */
struct percpu_chunk *percpu_chunk_place(const struct percpu_chunk *t, void *memory);

/** Return the seed: the page behind the chunk, which is the first of the file's next chunk.
 *  It is mapped so that mremap(2) can make the next chunk of it, without a descriptor. */
char *percpu_chunk_seed(const struct percpu_chunk *k);
void percpu_chunk_unmap_seed(char *seed);

/** Map the chunk whose first page is *seed. The page moves into the chunk, and *seed
 *  becomes NULL. Returns 0 or -errno. */
int percpu_chunk_unfold(const struct percpu_chunk *t, char **seed, bool grows,
			struct percpu_chunk **ret);

/** Use no huge pages behind this offset in the CPU lanes of a private chunk, because
 *  nothing behind it is going to be touched. */
void percpu_chunk_small_pages(const struct percpu_chunk *k, size_t offset);

/* chunk.c: what is in the lanes */

/** Copy the header that another process wrote. Returns 0, or -EBADMSG. */
int percpu_chunk_read_header(const struct percpu_chunk *k, struct percpu_header *ret);

/** Write the header of a new chunk. Returns 0 or -errno. */
int percpu_chunk_format(struct percpu_chunk *k);

/** Reserve size bytes in all lanes that adds may touch, but cpu_size of them in the CPU
 *  lanes, so that no store finds the file system full. If cpu_size is 0, only the bias lane
 *  is going to be touched. Returns 0 or -errno. */
int percpu_chunk_reserve(struct percpu_chunk *k, size_t offset, size_t cpu_size, size_t size);

/** Return the sum, reset and return the sum, or add atomically, at an offset; as
 *  percpu_counter_*(). In a region that was opened to read, these change nothing. */
uint64_t percpu_chunk_sum(const struct percpu_chunk *k, size_t offset);
uint64_t percpu_chunk_reset(struct percpu_chunk *k, size_t offset);
void percpu_chunk_add_atomic(struct percpu_chunk *k, size_t offset, int64_t n);

/** Return the sum of the lanes alone, without the bias. */
uint64_t percpu_chunk_lanes(const struct percpu_chunk *k, size_t offset);

/** Choose an atomic lane for the calling thread, that of its CPU if possible, and mark it as
 *  used. Returns the number of the lane, k->cpus at least. */
uint32_t percpu_chunk_choose_lane(struct percpu_chunk *k);

/** Set size bytes to zero in every lane, but cpu_size of them in the CPU lanes, both
 *  rounded up to multiples of 8. No thread may be using them. */
void percpu_chunk_clear(struct percpu_chunk *k, size_t offset, size_t cpu_size, size_t size);

/** Return the pages that hold only these bytes of every lane to the system. */
void percpu_chunk_discard(struct percpu_chunk *k, size_t offset, size_t size);

/** Return the first bit, from bit number from on, that has this value; end if there is
 *  none. */
static inline size_t percpu_next_bit(const uint64_t *bitmap, size_t from, size_t end, bool value)
{
	uint64_t bits;

	for (; from < end; from = (from / 64 + 1) * 64) {
		bits = __atomic_load_n(&bitmap[from / 64], __ATOMIC_ACQUIRE);
		bits = (value ? bits : ~bits) >> (from % 64);
		if (bits != 0) {
			from += (size_t)__builtin_ctzll(bits);
			break;
		}
	}
	return from < end ? from : end;
}

/** Return the first atomic lane, from lane from on, that was ever used; 2 * cpus if there is
 *  none. The lanes that were never used hold zeros. Atomic lanes are cpus to 2 * cpus - 1:
 *
 *	for (lane = percpu_used_lane(k, k->cpus); lane < 2 * k->cpus;
 *	     lane = percpu_used_lane(k, lane + 1))
 */
static inline uint32_t percpu_used_lane(const struct percpu_chunk *k, uint32_t from)
{
	return k->cpus +
	       (uint32_t)percpu_next_bit(k->header->atomic_lanes, from - k->cpus, k->cpus, true);
}

/** Return the first atomic lane, from lane from on, that was never used. */
static inline uint32_t percpu_unused_lane(const struct percpu_chunk *k, uint32_t from)
{
	return k->cpus +
	       (uint32_t)percpu_next_bit(k->header->atomic_lanes, from - k->cpus, k->cpus, false);
}

static inline char *percpu_chunk_lane(const struct percpu_chunk *k, size_t lane, size_t offset)
{
	return k->base + lane * k->stride + offset;
}

/** Return the chunk of a cell in a region of default geometry. */
static inline struct percpu_chunk *percpu_chunk_of(const void *cell)
{
	uintptr_t lane = (uintptr_t)cell & ~((uintptr_t)PERCPU_LANE_SIZE - 1);

	return (struct percpu_chunk *)(lane - 2 * PERCPU_HEAD);
}

/* sum.c: n adjacent words at a time, from an offset on */

/** Return how many words to sum at a time to be fastest; at most PERCPU_SUM_MAX. */
#define PERCPU_SUM_MAX 512
size_t percpu_sum_words(const struct percpu_chunk *k);

/** The first sets out to the negative biases. The others add to it the CPU lanes, the atomic
 *  lanes in use, or CPU lanes of 32-bit cells. Each word is read whole, and before what the
 *  caller loads next. */
void percpu_sum_biases(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out);
void percpu_sum_cpus(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out);
void percpu_sum_atomics(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out);
void percpu_sum_narrow(const struct percpu_chunk *k, size_t offset, size_t n, uint32_t *out);

/* pin.c */

/** Whether the kernel fills new mappings with memory, because of mlockall(MCL_FUTURE): if
 *  it has filled this page of private memory, which no thread has touched. */
bool percpu_pin_fills(const char *page);

/** Let the kernel fill and lock these pages only when they are touched. */
void percpu_pin_on_touch(char *first, size_t size);

/** Let the kernel fill the chunk now, except the atomic lanes. */
void percpu_chunk_pin(const struct percpu_chunk *k);

/* journal.c */

/** Lock the journal of the chunk, and complete what a killed holder has written down.
 *  Returns 0 or -ETIMEDOUT. percpu_robust_unlock() unlocks it. */
int percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h);

/** The same, without waiting. */
int percpu_journal_try(struct percpu_chunk *k, struct percpu_robust *h);

/** Complete what a killed holder has written down. Returns 0 or -ETIMEDOUT. */
int percpu_journal_settle(struct percpu_chunk *k, uint64_t timeout_ns);

/** Add delta to at most PERCPU_JOURNAL_WORDS words of the bias lane: all or none, even if
 *  the process is killed meanwhile. The caller has the lock. */
void percpu_journal_add(struct percpu_chunk *k, size_t offset, const uint64_t *delta, size_t words);

/** The same, but value replaces what the words are. */
void percpu_journal_set(struct percpu_chunk *k, size_t offset, const uint64_t *value, size_t words);

/** Read words of the bias lane, all before or all after each percpu_journal_add() or
 *  percpu_journal_set(). Returns 0 or -ETIMEDOUT. */
int percpu_journal_read(struct percpu_chunk *k, size_t offset, uint64_t *out, size_t words);

/* numa.c */

/** On machines with several NUMA nodes, let the pages of each CPU's lanes of a shared chunk
 *  be on that CPU's node, whichever CPU reserves them. */
void percpu_chunk_numa(const struct percpu_chunk *k);

/* region.c */

/** The longest lane that a file can have, and the longest that this process can use. */
#define PERCPU_LONGEST_LANE (UINT64_C(1) << 40)
#define PERCPU_MAX_LANE (UINT64_C(1) << (sizeof(void *) < 8 ? 30 : 40))

/** Return n * size, or 0 if n is 0 or no lane is so long. */
static inline size_t percpu_lane_bytes(size_t n, size_t size)
{
	return n <= PERCPU_MAX_LANE / size && n <= SIZE_MAX / size ? n * size : 0;
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

/** Make a region without chunks; and free a region with its chunks, if it has any. */
int percpu_region_new(bool shared, bool writable, size_t lane_size, uint32_t cpus,
		      struct percpu_region **ret);
void percpu_region_drop(struct percpu_region *r);

/** Map the chunks that exist, or else make the first, and enter the region in the list of
 *  the process. Drops the region if that fails. Returns 0 or -errno. */
int percpu_region_begin(struct percpu_region *r, int fd, bool exists, struct percpu_region **ret);

/* grow.c */

/** Map the first chunk, from the file if the region is shared, as the spare chunk. Returns 0
 *  or -errno. */
int percpu_region_map_first(struct percpu_region *r, int fd);

/** Enter the spare chunk, which is complete, in the region's table. Returns 0 or -errno. */
int percpu_region_append_spare(struct percpu_region *r);

/** Add a chunk. The caller has the lock between processes and the process lock. Returns 0
 *  or -errno. */
int percpu_region_grow(struct percpu_region *r);

/** Map the chunks that other processes have added. The caller has the process lock. Returns
 *  0 or -errno. */
int percpu_region_refresh(struct percpu_region *r);

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
 * together, or are not so aligned. For a compact set they must be the whole allocation.
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

/** Return the pages that hold no cell to the system. Returns how many bytes those have in
 *  all lanes, also if they were never touched. */
size_t percpu_region_reclaim(struct percpu_region *r);

/** Free what is in use of the allocation at this offset. The caller has both locks. */
void percpu_region_free_there(struct percpu_chunk *k, size_t offset);

/* root.c */

/** Note that the cells at base are for an object that is going to be at the root. */
void percpu_creation_note(const struct percpu_region *r, unsigned root, const void *base);

/** Free such an object unless it is at the root. For both the caller has both locks. */
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

/** In alloc.c: allocate. Returns 0 with the lock held, -EEXIST if the root is not empty, ... */
int percpu_region_alloc_at_root(struct percpu_region *r, unsigned root, size_t size,
				size_t cpu_size, size_t align, struct percpu_robust *h, void **ret);

/** Free the cells if they are not at the root now. Unlocks the allocator. */
void percpu_region_settle_root(struct percpu_region *r, struct percpu_robust *h);

/** Create in memory of this process; create in a region; attach; attach or create at a root.
 *  ret is the address of a pointer to the object. They return 0 or -errno as the public
 *  functions that call them, and -EINVAL if r or ret is NULL. */
int percpu_block_create(const struct percpu_plan *p, void *ret);
int percpu_block_create_in(struct percpu_region *r, const struct percpu_plan *p, void *ret);
int percpu_block_attach(struct percpu_region *r, uint64_t key, struct percpu_plan *p, void *ret);
int percpu_block_open(struct percpu_region *r, unsigned root, struct percpu_plan *p, void *ret);

/** Return the key of the object with this handle; 0 if it is NULL or in private memory. */
uint64_t percpu_block_key(const void *handle, enum percpu_kind kind);

/** Return where the object begins in the bias lane. */
static inline char *percpu_block_bias(const struct percpu_block *b)
{
	return percpu_chunk_lane(b->chunk, 2 * (size_t)b->chunk->cpus,
				 (size_t)(b->base - b->chunk->base));
}

/** Free the object and its handle; NULL is fine. */
void percpu_block_destroy(void *handle);

#include "values.h"

#endif
