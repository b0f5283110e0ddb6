/* SPDX-License-Identifier: MIT */
/*
 * memory.h - lanes: chunks, regions, and what is allocated in them.
 */
#ifndef PERCPU_MEMORY_H
#define PERCPU_MEMORY_H

#include "../cpu/cpu.h"
#include "format.h"

/* chunk.c: one mapping of lanes, and the arithmetic on them */

/** What this process knows of a chunk; constant once it is mapped. */
struct percpu_chunk {
	const struct percpu_chunk *self; /* tells a chunk from other memory */
	struct percpu_region *region;
	struct percpu_header *header;
	char *base; /* lane 0 */
	size_t lane_size;
	size_t stride;
	size_t unit; /* bytes that a bit of header->used stands for */
	size_t hint; /* under the process lock: units below it were in use when last seen */
	uint32_t cpus;
	uint32_t index;
	bool shared;	 /* a file */
	size_t map_size; /* from this struct on; 0: the mapping is not ours */
};

/** Distance between lanes of so many usable bytes. */
static inline size_t percpu_stride(size_t lane_size)
{
	size_t page = PERCPU_STRIDE - PERCPU_LANE_SIZE - 64;

	return (lane_size + page - 1) / page * page + page + 64;
}

/** Bytes that a bit of percpu_header.used stands for. */
static inline size_t percpu_unit(size_t lane_size)
{
	size_t unit = sizeof(uint64_t);

	while (unit * PERCPU_UNITS < lane_size)
		unit *= 2;
	return unit;
}

/** Bytes of a chunk behind struct percpu_chunk: its share of the file. */
uint64_t percpu_chunk_size(size_t stride, uint32_t cpus);

/* map.c */

static inline size_t percpu_page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/** Map the chunk described by the geometry of t: private memory, or the file's
 *  first. Where grows is set, a page of the file behind it is mapped as well,
 *  percpu_chunk_seed(). Returns 0 or -errno. */
int percpu_chunk_map(const struct percpu_chunk *t, int fd, bool writable, bool grows,
		     struct percpu_chunk **ret);
void percpu_chunk_unmap(struct percpu_chunk *k);

/** Have the private chunk in memory of the program's, which is filled with zeros, and not
 *  unmapped. */
struct percpu_chunk *percpu_chunk_place(const struct percpu_chunk *t, void *memory);

/** The page behind the chunk, with which the file's next one begins. It is the
 *  region's: it moves when that chunk unfolds, and then the place is the program's. */
char *percpu_chunk_seed(const struct percpu_chunk *k);
void percpu_chunk_unmap_seed(char *seed);

/** Map the chunk whose first page is at *seed, which then is not any more. It
 *  takes no descriptor. */
int percpu_chunk_unfold(const struct percpu_chunk *t, char **seed, bool grows,
			struct percpu_chunk **ret);

/** In the CPU lanes of a private chunk, no huge page that reaches beyond this
 *  offset, behind which nothing is going to be touched. */
void percpu_chunk_small_pages(const struct percpu_chunk *k, size_t offset);

/* chunk.c: what is in the lanes */

/** Copy the header that another process wrote: 0, or -EBADMSG. */
int percpu_chunk_read_header(const struct percpu_chunk *k, struct percpu_header *ret);

/** Write the header of a new chunk and reserve what every user touches. */
int percpu_chunk_format(struct percpu_chunk *k);

/** Reserve the bytes in all lanes that plain or atomic adds may touch, cpu_size
 *  of them in the CPU lanes, so that no store finds the file system full.
 *  Returns 0 or -errno. */
int percpu_chunk_reserve(struct percpu_chunk *k, size_t offset, size_t cpu_size, size_t size);

/** Sum, reset and atomic add at an offset; see percpu_counter_*(). In a region that was
 *  opened to read, a reset resets nothing. */
uint64_t percpu_chunk_sum(const struct percpu_chunk *k, size_t offset);
uint64_t percpu_chunk_reset(struct percpu_chunk *k, size_t offset);
void percpu_chunk_add_atomic(struct percpu_chunk *k, size_t offset, int64_t n);

/** Set the bytes to zero in every lane, cpu_size of them in the CPU lanes, both rounded up
 *  to multiples of 8. No thread may be using them. */
void percpu_chunk_clear(struct percpu_chunk *k, size_t offset, size_t cpu_size, size_t size);

/** Return the pages that hold only these bytes of every lane to the system. */
void percpu_chunk_discard(struct percpu_chunk *k, size_t offset, size_t size);

/** The first bit from one on that has this value; end if there is none. */
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

/** The first atomic lane from one on that was ever used; all others hold zeros. Atomic
 *  lanes are cpus to 2 * cpus - 1; 2 * cpus if there is none:
 *
 *	for (lane = percpu_used_lane(k, k->cpus); lane < 2 * k->cpus;
 *	     lane = percpu_used_lane(k, lane + 1))
 */
static inline uint32_t percpu_used_lane(const struct percpu_chunk *k, uint32_t from)
{
	return k->cpus +
	       (uint32_t)percpu_next_bit(k->header->atomic_lanes, from - k->cpus, k->cpus, true);
}

/** Likewise, that was not. */
static inline uint32_t percpu_unused_lane(const struct percpu_chunk *k, uint32_t from)
{
	return k->cpus +
	       (uint32_t)percpu_next_bit(k->header->atomic_lanes, from - k->cpus, k->cpus, false);
}

static inline char *percpu_chunk_lane(const struct percpu_chunk *k, size_t lane, size_t offset)
{
	return k->base + lane * k->stride + offset;
}

/** The chunk of a cell in a region of default geometry. */
static inline struct percpu_chunk *percpu_chunk_of(const void *cell)
{
	uintptr_t lane = (uintptr_t)cell & ~((uintptr_t)PERCPU_LANE_SIZE - 1);

	return (struct percpu_chunk *)(lane - 2 * PERCPU_HEAD);
}

/* sum.c: n adjacent words at a time, from an offset on */

/** How many of them at a time are fastest; at most PERCPU_SUM_MAX. */
#define PERCPU_SUM_MAX 512
size_t percpu_sum_words(const struct percpu_chunk *k);

/** Set out to the biases, negative; add the CPU lanes, the atomic lanes in use, or CPU
 *  lanes of 32-bit cells to it. Each word is read whole, and before what the caller
 *  loads next. */
void percpu_sum_biases(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out);
void percpu_sum_cpus(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out);
void percpu_sum_atomics(const struct percpu_chunk *k, size_t offset, size_t n, uint64_t *out);
void percpu_sum_narrow(const struct percpu_chunk *k, size_t offset, size_t n, uint32_t *out);

/* pin.c */

/** Whether the kernel fills new mappings, by mlockall(MCL_FUTURE): of private memory,
 *  if it has filled this page, which nobody has touched. */
bool percpu_pin_fills(const char *page);

/** Let it fill these pages, and lock them, no sooner than they are touched. */
void percpu_pin_on_touch(char *first, size_t size);

/** Let it fill the chunk now, but for the atomic lanes. */
void percpu_chunk_pin(const struct percpu_chunk *k);

/* journal.c */

/** Lock the journal of the chunk: 0 or -ETIMEDOUT. percpu_robust_unlock(). */
int percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h);

/** Complete what a killed holder has written down. Returns 0 or -ETIMEDOUT. */
int percpu_journal_settle(struct percpu_chunk *k, uint64_t timeout_ns);

/** Add delta to words of the bias lane, all or none, also when the process is
 *  killed meanwhile. At most PERCPU_JOURNAL_WORDS. The caller has the lock. */
void percpu_journal_add(struct percpu_chunk *k, size_t offset, const uint64_t *delta, size_t words);

/** Read words of the bias lane between such changes. Returns 0 or -errno. */
int percpu_journal_read(struct percpu_chunk *k, size_t offset, uint64_t *out, size_t words);

/* numa.c */

/** On machines with several NUMA nodes, let each CPU's lanes of a shared chunk
 *  have their pages on that CPU's node, whoever reserves them. */
void percpu_chunk_numa(const struct percpu_chunk *k);

/* region.c */

/** The longest lane there is, and the longest that a process can ask for. */
#define PERCPU_LONGEST_LANE (UINT64_C(1) << 40)
#define PERCPU_MAX_LANE (UINT64_C(1) << (sizeof(void *) < 8 ? 30 : 40))

/** The bytes of n things of so many bytes; 0 if there is none, or no lane so long. */
static inline size_t percpu_lane_bytes(size_t n, size_t size)
{
	return n <= PERCPU_MAX_LANE / size && n <= SIZE_MAX / size ? n * size : 0;
}

/** A region's chunks. One that has become too small stays for those who read
 *  it, until the region is closed. */
struct percpu_chunk_table {
	struct percpu_chunk_table *older;
	uint32_t size;		   /* power of two */
	struct percpu_chunk *at[]; /* size chunks by index; then 2 * size places, by
				      percpu_chunk_hash() or behind; NULL: none */
};

/** For a region of default geometry: where in those 2 * size places to look
 *  for the chunk that has the cell in its lane 0. */
static inline size_t percpu_chunk_hash(const void *cell)
{
	return (size_t)((uintptr_t)cell / PERCPU_LANE_SIZE * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

struct percpu_region {
	struct percpu_region *next; /* of all regions of the process */
	struct percpu_chunk *first;
	struct percpu_chunk_table *chunks; /* grows under the process lock, read without */
	uint32_t n;			   /* likewise; stored after what it counts */
	uint32_t capacity;		   /* chunks that there is room for */
	char *seed;			   /* the page that the next chunk unfolds from, or NULL */
	struct percpu_chunk *spare;	   /* mapped, but not complete yet */
	void (*in_child)(const void *);	   /* what its owner does there, or NULL */
	const void *owner;
	void *memory; /* the program's, where it is; or NULL */
	bool shared;  /* a file */
	bool writable;
	size_t lane_size;
	uint32_t cpus;
};

/** percpu_region_chunk() for a region of default geometry. */
static inline struct percpu_chunk *percpu_region_lookup(const struct percpu_region *r,
							const void *cell)
{
	struct percpu_chunk_table *t = __atomic_load_n(&r->chunks, __ATOMIC_ACQUIRE);
	const struct percpu_chunk *wanted = percpu_chunk_of(cell); /* not to be followed */
	size_t mask = 2 * (size_t)t->size - 1;
	struct percpu_chunk *k;

	for (size_t i = percpu_chunk_hash(cell);; i++) {
		k = __atomic_load_n(&t->at[t->size + (i & mask)], __ATOMIC_ACQUIRE);
		if (k == NULL || k == wanted)
			return k;
	}
}

/** How many chunks a file has at most. */
#define PERCPU_MAX_FILE_CHUNKS 4096

/** The private region that single counters and small arrays come from. */
int percpu_region_default(struct percpu_region **ret);

/** Whether cells of r can be single counters. */
bool percpu_region_is_zone(const struct percpu_region *r);

/** The region has one owner, who is told of it in each child of fork. */
void percpu_region_tell(struct percpu_region *r, void (*in_child)(const void *), const void *owner);

/** The region that the cell, any pointer, is in; NULL if none. */
struct percpu_region *percpu_region_find(const void *cell);

/** Options of this version, with the defaults filled in. */
int percpu_region_check(const struct percpu_region_options *o, struct percpu_region_options *ret);

/** A region without chunks; and what has none yet, or is not needed any more. */
int percpu_region_new(bool shared, bool writable, size_t lane_size, uint32_t cpus,
		      struct percpu_region **ret);
void percpu_region_drop(struct percpu_region *r);

/** Map the chunks that exist, or else make the first; from now on the region is one of
 *  the process. Drops it if that fails. */
int percpu_region_begin(struct percpu_region *r, int fd, bool exists, struct percpu_region **ret);

/* grow.c */

/** Map the first chunk, from the file if the region is one. It is the spare one. */
int percpu_region_map_first(struct percpu_region *r, int fd);

/** The spare chunk is the region's, and complete. */
int percpu_region_append_spare(struct percpu_region *r);

/** Add a chunk. The caller has the lock between processes and that of this one. */
int percpu_region_grow(struct percpu_region *r);

/** Map the chunks that other processes have added. The caller has the process lock. */
int percpu_region_refresh(struct percpu_region *r);

/** Whether this library could have written the header for chunk index: 0 or -errno. */
int percpu_header_check(const struct percpu_header *h, uint32_t index);

/* alloc.c */

/** The chunk of r whose lane 0 the cell, any pointer, is in; NULL if none. */
struct percpu_chunk *percpu_region_chunk(const struct percpu_region *r, const void *cell);

/** The key of an object of that kind that begins at base, in lane 0 of the chunk;
 *  0 in private memory. */
uint64_t percpu_region_object_key(const struct percpu_chunk *k, enum percpu_kind kind,
				  const void *base);

/**
 * What each attach call checks: find size bytes, aligned to align, up to 64, at a key
 * that another process may have made up. The region may have been opened to read; it
 * is the caller's to store nothing.
 *
 * Returns 0, or -ENOENT: they are not there. The key is of another kind, or these bytes
 * were not allocated together, or not so aligned; of a compact set they must be all that
 * were.
 */
int percpu_region_attach(struct percpu_region *r, uint64_t key, enum percpu_kind kind, size_t size,
			 size_t align, void **ret);

/** As percpu_region_alloc(), where no more than the first cpu_size bytes of the
 *  CPU lanes are going to be touched. */
int percpu_region_alloc_narrow(struct percpu_region *r, size_t size, size_t cpu_size, size_t align,
			       void **ret);

/** As percpu_region_alloc(), for up to n cells at once. Returns how many, at
 *  least one, or -errno. */
ssize_t percpu_region_alloc_many(struct percpu_region *r, size_t size, size_t align, size_t n,
				 void **ret);

/** Free n cells that are certainly in use. Returns how many: the others stay in use,
 *  for a process that is stopped keeps them from being freed. */
size_t percpu_region_free_many(struct percpu_region *r, void *const *cells, size_t n, size_t size);

/** Return the pages that hold no cell to the system. Returns bytes, counted in
 *  every lane, whether or not they had been touched. */
size_t percpu_region_reclaim(struct percpu_region *r);

/* block.c: objects, each a block of memory */

/** Objects begin with a line of the cache, which may say what they are like. */
#define PERCPU_BLOCK_ALIGN 64

/** What an object shall be, to be created or attached to. The handle begins with its
 *  struct percpu_block; of an object that has none it is the address in lane 0. */
struct percpu_plan {
	enum percpu_kind kind;
	size_t size;	/* bytes of each lane; 0: what was asked for cannot be */
	size_t touched; /* of which so many in a CPU lane, the others never */
	size_t align;
	void *handle; /* all but the block filled in; copied to the heap */
	size_t handle_size;

	/** Store what is not zero in a new object, its cells being so; may be NULL. */
	void (*start)(struct percpu_block *handle);

	/** Fill in the rest of the handle, when the block is; may be NULL. */
	void (*complete)(struct percpu_block *handle);

	/** For objects that say themselves how large they are: find it, of one whose first
	 *  PERCPU_BLOCK_ALIGN bytes are there, and change the plan's size and handle.
	 *  Returns 0 or -ENOENT. May be NULL. */
	int (*adopt)(const struct percpu_block *found, struct percpu_plan *p);
};

/** Create, in memory of this process or in a region; attach to; or attach to or create
 *  at a root. ret is the address of a pointer to the object. Return 0 or -errno, as the
 *  public functions say that call them, -EINVAL if r or ret is NULL. */
int percpu_block_create(const struct percpu_plan *p, void *ret);
int percpu_block_create_in(struct percpu_region *r, const struct percpu_plan *p, void *ret);
int percpu_block_attach(struct percpu_region *r, uint64_t key, struct percpu_plan *p, void *ret);
int percpu_block_open(struct percpu_region *r, unsigned root, struct percpu_plan *p, void *ret);

/** The key of the object with this handle; 0 if it is in private memory, or NULL. */
uint64_t percpu_block_key(const void *handle, enum percpu_kind kind);

/** Free the object and its handle; NULL is fine. */
void percpu_block_destroy(void *handle);

#endif
