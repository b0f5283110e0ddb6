/* SPDX-License-Identifier: MIT */
/*
 * format.h - all that another process can see: the file of a shared region.
 * docs/memory/format.md describes it byte by byte, and is compared with this.
 */
#ifndef PERCPU_FORMAT_H
#define PERCPU_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include <percpu/approx.h> /* struct percpu_approx_control, which inline functions read */
#include <percpu/region.h>
#include <percpu/seq.h> /* struct percpu_ring_lane, which sequences fill */

/*
 * A chunk is mapped as follows. Lane 0 is aligned to PERCPU_LANE_SIZE, so that
 * in a chunk of default geometry a cell's address leads to the chunk.
 *
 *	struct percpu_chunk	64 KiB reserved, private to the process
 *	struct percpu_header	64 KiB reserved \
 *	lanes of CPUs		N               | in a shared region: the file,
 *	lanes of atomic adds	N               | from its offset on
 *	bias lane		1               /
 */
#define PERCPU_HEAD 65536
#define PERCPU_UNITS 8192

/** Words of the bias lane that change together; see journal.c. */
#define PERCPU_JOURNAL_WORDS 64
struct percpu_journal {
	uint64_t turn;	 /* odd: the values below are being stored */
	uint64_t offset; /* of the first word in the lane */
	uint64_t words;
	uint64_t value[PERCPU_JOURNAL_WORDS];
} PERCPU_ALIGNED_WORD;

/** The lock of those who free the locks of an earlier boot; see stale.c. */
union percpu_settler {
	struct {
		uint32_t lock;
		uint32_t boot; /* the upper half of the boot's id in which it is held */
	};
	uint64_t both;
};

/** The header of a chunk. Other processes may damage it at any time. So this process uses
 *  its own copy of the geometry (struct percpu_chunk), and what it reads here later must be
 *  harmless whatever its value. */
struct percpu_header {
	uint64_t magic;
	uint32_t version;
	uint32_t index;	    /* of this chunk in its region */
	uint64_t lane_size; /* usable bytes of a lane */
	uint64_t stride;
	uint32_t cpus;			    /* N */
	uint32_t chunks;		    /* in chunk 0: complete chunks of the region; grows */
	uint64_t root[PERCPU_REGION_ROOTS]; /* in chunk 0: keys of the programs */
	uint64_t atomic_lanes[PERCPU_MAX_CPUS / 64]; /* in use; bits are only set */
	uint64_t used[PERCPU_UNITS / 64];	     /* allocated units of a lane */
	uint64_t starts[PERCPU_UNITS / 64];	     /* of these: the first of an allocation */
	uint32_t alloc_lock;			     /* in chunk 0: robust lock of the allocator */
	uint32_t journal_lock;			     /* robust lock of the journal */
	struct percpu_journal journal;
	uint64_t creation;  /* in chunk 0: an object that is being created at a root; or 0 */
	uint64_t lock_boot; /* in chunk 0: the boot in which locks are held; 0: not known */
	union percpu_settler settler; /* in chunk 0 */
	uint64_t placed;    /* in chunk 0: an object that is being created for a word of the bias
			       lane, as a key without kind; or 0 */
	uint64_t placed_at; /* where that word is, likewise; stored before */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_header) == 168 + 3 * 1024 + 8 + 24 + 512 + 40, "file layout");
_Static_assert(offsetof(struct percpu_header, root) == 40, "file layout");
_Static_assert(offsetof(struct percpu_header, atomic_lanes) == 168, "file layout");
_Static_assert(offsetof(struct percpu_header, journal.turn) % 8 == 0, "atomic words");

#define PERCPU_MAGIC 0x31557043726550ffULL /* bytes: ff P e r C p U 1 */

/* Files of another major number are refused. docs/memory/format.md says what a minor one may add. */
#define PERCPU_FORMAT_MAJOR 5
#define PERCPU_FORMAT_MINOR 2
#define PERCPU_FORMAT ((uint32_t)PERCPU_FORMAT_MINOR << 16 | PERCPU_FORMAT_MAJOR)

/* A key has the offset in the lane in its lowest bits, then the index of the chunk + 1, and
 * an enum percpu_kind in its highest bits. */
#define PERCPU_KEY_CHUNK_SHIFT 40
#define PERCPU_KEY_KIND_SHIFT 56
#define PERCPU_KEY_PLACE ((UINT64_C(1) << PERCPU_KEY_KIND_SHIFT) - 1) /* all but the kind */
#define PERCPU_KEY_CHUNKS ((1 << (PERCPU_KEY_KIND_SHIFT - PERCPU_KEY_CHUNK_SHIFT)) - 1)

_Static_assert(PERCPU_REGION_ROOTS <= 1 << (64 - PERCPU_KEY_KIND_SHIFT),
	       "percpu_header.creation has a root where a key has its kind");

/** What a key leads to. */
enum percpu_kind {
	PERCPU_KIND_CELL, /* bytes in an allocation */
	PERCPU_KIND_ARRAY,
	PERCPU_KIND_COMPACT,
	PERCPU_KIND_STATS,
	PERCPU_KIND_COUNTER,
	PERCPU_KIND_RING,
	PERCPU_KIND_FCOUNTER, /* one or more */
	PERCPU_KIND_GAUGE,
	PERCPU_KIND_FGAUGE,
	PERCPU_KIND_LATEST,
	PERCPU_KIND_HISTOGRAM,
	PERCPU_KIND_OWNERS,
	PERCPU_KIND_OWNED,
	PERCPU_KIND_EXTREMA,
	PERCPU_KIND_RATE,
	PERCPU_KIND_APPROX,
	PERCPU_KIND_SEGMENT,
	PERCPU_KIND_RWLOCK,
	PERCPU_KIND_GRACE,
};

/** Bytes of each lane that a compact counter takes. It uses a cell of 4 bytes in a CPU lane,
 *  a word in an atomic lane, and a word of bias and one of checkpoint in the bias lane. */
#define PERCPU_COMPACT_SHARE 16

/** The control block of statistics. Sequences read bank, and readers change it. It is in the
 *  bias lane at the key, so that a process that attaches finds it before it knows the
 *  layout. */
struct percpu_stats_control {
	uint64_t bank;	 /* which bank counts: 0, or the distance of the banks; its upper
			    bits count the changes */
	uint64_t fenced; /* the last value of bank that was followed by a fence */
	uint64_t resets; /* changes under the lock of the journal; odd: a reset has begun */
	uint64_t size;
	uint64_t n;
	uint32_t flags;	 /* of percpu_stats_create() */
	uint32_t copies; /* 1: each object is in two copies; 0: in one */
	uint32_t reader; /* id of the thread that takes a snapshot; or 0 */
	uint32_t unused;
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_stats_control) == 56, "file layout");

/** The control block of rings, in the bias lane at the key. */
struct percpu_ring_control {
	uint64_t size;	    /* bytes of a CPU's ring */
	uint64_t bias;	    /* 0: of percpu_ring_lane.dropped, which is at this offset */
	uint32_t flags;	    /* of percpu_ring_create() */
	uint32_t clock;	    /* enum percpu_ring_clock */
	uint64_t ticks;	    /* the counter when the rings were created, */
	uint64_t ns;	    /* and CLOCK_MONOTONIC then */
	uint64_t boot;	    /* tells that boot of the machine from others; 0: not known */
	uint64_t timens;    /* the time namespace in which ns was read; 0: not known */
	uint64_t lock_boot; /* the boot in which locks are held; 0: not known */
	uint64_t rate;	    /* ns per 2^32 ticks; 0: not known yet */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_ring_control) == 72, "file layout");

/** The control block of extremes, in the bias lane at the key. */
struct percpu_extrema_control {
	uint64_t epoch;	  /* number of resets + 1, times PERCPU_EXTREMES */
	uint64_t settled; /* what became of the epoch before: see extrema_read.c */
	uint32_t flags;	  /* of percpu_extrema_create(); bit 31: pairs are changed under the lock
			     of the journal */
	uint32_t turn;	  /* id of the thread that resets; or 0 */
	uint64_t unused[5];
	uint64_t pairs[2][4]; /* for each of two epochs in turn: tag, max, tag, min */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_extrema_control) == 128, "file layout");
_Static_assert(offsetof(struct percpu_extrema_control, pairs) % 16 == 0, "pairs are aligned");

/** The counter whose time records have. */
enum percpu_ring_clock {
	PERCPU_RING_CLOCK_NS,  /* none: CLOCK_MONOTONIC, in ns */
	PERCPU_RING_CLOCK_TSC, /* x86: rdtsc */
	PERCPU_RING_CLOCK_ARM, /* aarch64: cntvct_el0 */
};

/** The control block of histograms, in the bias lane at the key. */
struct percpu_histogram_control {
	uint64_t n;	/* histograms */
	uint64_t ticks; /* per unit; 0: doubles */
	int32_t low;	/* the range is 2^low to 2^high */
	int32_t high;
	uint32_t schema; /* an octave has 2^schema buckets */
	uint32_t atomic; /* 1: pairs change by one instruction; 0: under the lock of the journal */
	uint64_t unused[4];
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_histogram_control) == 64, "file layout");

/** A process's slot. */
struct percpu_owner_slot {
	uint64_t word;	  /* how often it was taken, times 2; odd: it is free */
	uint64_t started; /* struct percpu_identity: of the owner, or of the last one */
	uint64_t space;
	uint32_t pid;
	uint32_t locked; /* 1: the owner has locked the slot's byte; 0: it could not */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_owner_slot) == 32, "file layout");

#define PERCPU_OWNER_BLOCKS 64 /* at most, of owners, and of the shares of a gauge */
#define PERCPU_OWNER_SLOTS 64  /* in each */

/** The control block of owners, in the bias lane at the key. */
struct percpu_owners_control {
	uint32_t lock; /* robust lock of those who take and leave slots */
	uint32_t unused;
	uint64_t block[PERCPU_OWNER_BLOCKS]; /* keys of slots in the bias lane; 0: none yet */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_owners_control) == 520, "file layout");

/** The control block of an owned gauge, in the bias lane at the key. */
struct percpu_owned_control {
	uint64_t owners;		     /* their key */
	uint32_t rule;			     /* enum percpu_owned_rule */
	uint32_t number;		     /* enum percpu_owned_number */
	uint64_t block[PERCPU_OWNER_BLOCKS]; /* keys of shares in the bias lane; 0: none yet */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_owned_control) == 528, "file layout");

/** What an owned gauge counts in. */
enum percpu_owned_number {
	PERCPU_OWNED_INTEGER,
	PERCPU_OWNED_DOUBLE,
	PERCPU_OWNED_PAIRS = 0x100, /* or'ed to it: value and time change by one instruction */
};

/** What one slot has in a gauge: the present owner's value, and what all before left. */
struct percpu_owned_account {
	uint64_t value;
	uint64_t when; /* the most recent: CLOCK_REALTIME when value was set, in ns; doubles of
			* other rules: a value that an add has left; nothing depends on it */
	uint64_t left;
	uint64_t left_when; /* that of left; other rules: 1 if left is there, or 0 */
} PERCPU_ALIGNED_WORD;

/** A slot's share. turn says which account is valid; the other one is filled in for the
 *  next owner before turn changes. */
struct percpu_owned_shares {
	uint64_t turn[PERCPU_OWNER_SLOTS]; /* how often the slot had been taken, times 2, and
					      the number of the valid account; 0: no share */
	struct percpu_owned_account account[PERCPU_OWNER_SLOTS][2];
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_owned_shares) == 4608, "file layout");

#define PERCPU_BANKS 2 /* in which a participant counts */

/** The control block of an object that counts who is inside, in the bias lane at the key. */
struct percpu_participants_control {
	uint64_t state;	 /* the object's own; sequences compare it */
	uint64_t owners; /* their key */
	uint64_t reserved[6];
	uint32_t lock;	  /* robust lock of those who change records, and of the object */
	uint32_t drained; /* futex: changes when somebody leaves whom another one may wait for */
	uint32_t died;	  /* 1: what dead participants had was dropped; the object sets it to 0 */
	uint32_t reserved2;
	uint64_t lock_boot; /* the boot in which the lock is held; 0: not known */
	uint64_t word[13];  /* the object's own */
	uint64_t
		block[PERCPU_OWNER_BLOCKS]; /* keys of records; 0: none yet. A block has the records
						in the bias lane, and cells in all others */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_participants_control) == 192 + 512, "file layout");

/** A read-mostly lock's words there. */
struct percpu_rwlock_control {
	uint64_t writer;  /* the owner that has the lock, or is about to; 0: none */
	uint64_t thread;  /* of it: its id; from bit 22 the owner's; from 48 its number; or 0 */
	uint32_t turn;	  /* futex: changes when the lock may be had */
	uint32_t skipped; /* readers that waited when a writer last waited for no more of them */
	uint32_t told;	  /* 1: the writer is told that readers died */
	uint32_t skips;	  /* changes when `skipped` is raised, and is odd meanwhile */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_rwlock_control) == 32, "file layout");

/** Who participates. */
struct percpu_participant_record {
	uint64_t owner;		     /* its id; 0: nobody yet */
	uint32_t left[PERCPU_BANKS]; /* what of the sums of the cells does not count */
} PERCPU_ALIGNED_WORD;

/** A block of records, for as many slots of owners. */
struct percpu_participant_records {
	struct percpu_participant_record slot[PERCPU_OWNER_SLOTS];
};

_Static_assert(sizeof(struct percpu_participant_records) == 1024, "file layout");

/** What a rate has in each CPU lane; in an atomic lane only the first two words. */
struct percpu_rate_lane {
	uint64_t allowed; /* events that were let through, and that were refused: counters */
	uint64_t refused;
	uint64_t permissions; /* that the CPU has; above, in bits 16 to 63, of which period */
	uint64_t guard;	      /* 0 */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_rate_lane) == 32, "file layout");

/** The control block of a rate, in the bias lane at the key. */
struct percpu_rate_control {
	uint64_t bias[2]; /* 0: of allowed and refused, which are at these offsets */
	uint64_t window;  /* bits 32 to 63: ms when the period began; below: permissions taken */
	uint64_t limit;	  /* in a period */
	uint64_t period;  /* ms */
	uint64_t boot;	  /* of which the window is; 0: not known */
	uint64_t unused[2];
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_rate_control) == 64, "file layout");

_Static_assert(sizeof(struct percpu_approx_control) == 64, "file layout");

#define PERCPU_SEGMENT_VERSION 2
/* A block takes a lane, so that no cells of CPUs are behind it: each page of these would be as
 * empty, for every CPU. */
#define PERCPU_SEGMENT_BLOCKS 2048
#define PERCPU_SEGMENT_BLOCK 65536 /* bytes of records in each */

/** A moment, by clocks that do not step when the other does. */
struct percpu_segment_time {
	uint64_t real;	   /* CLOCK_REALTIME in ns */
	uint64_t boottime; /* CLOCK_BOOTTIME in ns */
	uint64_t boot;	   /* tells the boot that it is of from others; 0: not known */
} PERCPU_ALIGNED_WORD;

/** The control block of a segment, in the bias lane at the key. */
struct percpu_segment_control {
	uint32_t version;
	uint32_t unused;
	uint64_t generation;		       /* 1, 2, ... */
	uint64_t settled;		       /* the last one for which all objects were reset */
	uint64_t end;			       /* bytes of records, those between them included */
	struct percpu_segment_time started[2]; /* of generations, in turn */
	uint64_t changes;		       /* of records; odd: one is being rewritten */
	uint64_t removals;		       /* of series, ever */
	uint64_t unused2[4];
	uint64_t block[PERCPU_SEGMENT_BLOCKS]; /* keys of records in the bias lane; 0: none yet */
} PERCPU_ALIGNED_WORD;

_Static_assert(PERCPU_SEGMENT_BLOCK == PERCPU_LANE_SIZE, "a block takes a lane");
_Static_assert(sizeof(struct percpu_segment_control) == 128 + 8 * 2048, "file layout");

/** What became of a record. */
enum percpu_record_state {
	PERCPU_RECORD_IN_USE,
	PERCPU_RECORD_REMOVED, /* its object is still there */
	PERCPU_RECORD_FREE,    /* it has no object, and may be rewritten */
	PERCPU_RECORD_FAMILY,  /* what the series of a name have in common */
};

/** What is known of a metric. Behind it are so many bytes each of its name, its unit, its labels'
 *  names and their values (each with its length in front, in a byte), and its help text. */
struct percpu_segment_record {
	uint32_t size;	     /* with what is behind it; 0: the block has no more records */
	uint16_t kind;	     /* enum percpu_metric_kind */
	uint16_t state;	     /* enum percpu_record_state */
	uint64_t key;	     /* of the object; 0: whoever declares it next creates it */
	uint64_t generation; /* for which the object was created or reset last */
	struct percpu_segment_time declared;
	uint16_t name;
	uint16_t unit;
	uint16_t label_names;
	uint16_t label_values;
	uint16_t help;
	uint8_t labels;	    /* how many */
	uint8_t fields;	    /* of statistics: how many values of one more label */
	uint32_t cap;	    /* of a family: the most series that it has */
	uint64_t removal;   /* of what was removed: its number among all removals */
	uint64_t overflows; /* of a family: how often there was no room for a series */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_segment_record) == 80, "file layout");

/** What each change adds to bank: more than any distance of banks. */
#define PERCPU_STATS_FLIP (UINT64_C(1) << 40)

#endif
