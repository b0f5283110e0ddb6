/* SPDX-License-Identifier: MIT */
/*
 * format.h - the file of a shared region: all that another process can see of it.
 * docs/memory/format.md describes it byte by byte; tests/compat/format.py compares the two.
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
	uint64_t offset; /* bytes from the start of the lane to the first word */
	uint64_t words;	 /* how many words change */
	uint64_t value[PERCPU_JOURNAL_WORDS]; /* what they become */
} PERCPU_ALIGNED_WORD;

/** The lock that a thread holds while it frees the locks of an earlier boot; see stale.c. */
union percpu_recovery_lock {
	struct {
		uint32_t lock;
		uint32_t boot; /* upper half of the id of the boot in which the lock is held */
	};
	uint64_t both;
};

/** The header of a chunk. Another process may damage it at any time. So this process uses
 *  its own copy of the geometry (struct percpu_chunk). What it reads here later must be
 *  harmless whatever its value. */
struct percpu_header {
	uint64_t magic;
	uint32_t version;
	uint32_t index;	    /* this chunk's number in its region */
	uint64_t lane_size; /* usable bytes of a lane */
	uint64_t stride;
	uint32_t cpus;			    /* N */
	uint32_t chunks;		    /* in chunk 0: complete chunks of the region; grows */
	uint64_t root[PERCPU_REGION_ROOTS]; /* in chunk 0: keys of the programs' objects */
	uint64_t atomic_lanes[PERCPU_MAX_CPUS / 64]; /* bit: the lane was used; never cleared */
	uint64_t used[PERCPU_UNITS / 64];	     /* bit: the unit is allocated */
	uint64_t starts[PERCPU_UNITS / 64];	     /* bit: an allocation begins with the unit */
	uint32_t alloc_lock;			     /* in chunk 0: robust lock of the allocator */
	uint32_t journal_lock;			     /* robust lock of the journal */
	struct percpu_journal journal;
	uint64_t creation;  /* in chunk 0: the object that is being created at a root; 0: none */
	uint64_t lock_boot; /* in chunk 0: the boot in which locks are held; 0: not known */
	union percpu_recovery_lock recovery_lock; /* in chunk 0 */
	uint64_t placed;    /* in chunk 0: the object that is being created for a word of the bias
			    lane, as a key of kind 0; 0: none */
	uint64_t placed_at; /* in chunk 0: the key of that word, of kind 0; stored first */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_header) == 168 + 3 * 1024 + 8 + 24 + 512 + 40, "file layout");
_Static_assert(offsetof(struct percpu_header, root) == 40, "file layout");
_Static_assert(offsetof(struct percpu_header, atomic_lanes) == 168, "file layout");
_Static_assert(offsetof(struct percpu_header, journal.turn) % 8 == 0, "atomic words");

#define PERCPU_MAGIC 0x31557043726550ffULL /* bytes: ff P e r C p U 1 */

/* The library refuses files of another major number. docs/memory/format.md says what a newer
 * minor number may add. */
#define PERCPU_FORMAT_MAJOR 5
#define PERCPU_FORMAT_MINOR 3
#define PERCPU_FORMAT ((uint32_t)PERCPU_FORMAT_MINOR << 16 | PERCPU_FORMAT_MAJOR)

/* A key holds, from its lowest bit on, the offset in the lane, the index of the chunk + 1, and
 * an enum percpu_kind. */
#define PERCPU_KEY_CHUNK_SHIFT 40
#define PERCPU_KEY_KIND_SHIFT 56
#define PERCPU_KEY_CELL ((UINT64_C(1) << PERCPU_KEY_KIND_SHIFT) - 1) /* all but the kind */
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
	PERCPU_KIND_CRITICAL,
	PERCPU_KIND_STATS_GROUP,
	PERCPU_KIND_EXEMPLARS,
};

/** Bytes of each lane that a compact counter takes. It uses a cell of 4 bytes in a CPU lane,
 *  a word in an atomic lane, and a word of bias and one of checkpoint in the bias lane. */
#define PERCPU_COMPACT_SHARE 16

/** The control block of statistics, in the bias lane at the key. A process that attaches finds
 *  it there before it knows the layout. */
struct percpu_stats_control {
	uint64_t bank;	 /* which bank counts: 0, or the distance of the banks; its upper
			    bits count the changes. Sequences read it, snapshots change it */
	uint64_t fenced; /* the last value of bank that a fence has followed */
	uint64_t resets; /* resets, times 2; odd: one is being stored. The journal's lock
			    protects it */
	uint64_t size;	 /* bytes of an object */
	uint64_t n;	 /* objects */
	uint32_t flags;	 /* of percpu_stats_create() */
	uint32_t copies; /* 1: each object is in two copies; 0: in one */
	uint32_t reader; /* id of the thread that takes a snapshot; 0: none */
	uint32_t unused;
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_stats_control) == 56, "file layout");

/** The control block of a group of statistics, in the bias lane at the key. Behind it are a bit for
 *  each object, which is 1 while the object is in use; and then a uint32_t for each object: the
 *  total that gets what a free object has. */
struct percpu_stats_group_control {
	uint64_t bank;	 /* as in struct percpu_stats_control */
	uint64_t fenced; /* as in struct percpu_stats_control */
	uint64_t moves;	 /* how often counts were moved or reset. The journal's lock protects it */
	uint64_t size;	 /* bytes of an object */
	uint64_t n;	 /* objects */
	uint32_t totals; /* objects 0 to totals - 1 are always in use */
	uint32_t reader; /* id of the thread that reads, resets, allocates or frees; 0: none */
	uint32_t freed;	 /* 0, or the object that is being freed, plus 1; the same lock */
	uint32_t hint;	 /* where the search for a free object begins; the same lock */
	uint64_t unused;
	uint64_t in_use[];
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_stats_group_control) == 64, "file layout");

/** The control block of rings, in the bias lane at the key. */
struct percpu_ring_control {
	uint64_t size;	 /* bytes of a CPU's ring */
	uint64_t bias;	 /* 0: the bias of percpu_ring_lane.dropped, at the same offset */
	uint32_t flags;	 /* of percpu_ring_create() */
	uint32_t clock;	 /* enum percpu_ring_clock */
	uint64_t ticks;	 /* the counter at creation; after a reboot, at the first attach to write */
	uint64_t ns;	 /* CLOCK_MONOTONIC when ticks was read */
	uint64_t boot;	 /* the boot in which ticks was read; 0: not known */
	uint64_t timens; /* the time namespace in which ns was read; 0: not known */
	uint64_t lock_boot; /* the boot in which locks are held; 0: not known */
	uint64_t rate;	    /* ns per 2^32 ticks; 0: not known yet */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_ring_control) == 72, "file layout");

/** The control block of extremes, in the bias lane at the key. */
struct percpu_extrema_control {
	uint64_t epoch;	  /* number of resets + 1, times PERCPU_EXTREMES */
	uint64_t outcome; /* what became of the previous epoch; see extrema_read.c */
	uint32_t flags;	  /* of percpu_extrema_create(); bit 31: pairs change under the journal's
			     lock */
	uint32_t turn;	  /* id of the thread that resets; 0: none */
	uint64_t unused[5];
	uint64_t pairs[2][4]; /* of even and odd epochs: tag, max, tag, min */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_extrema_control) == 128, "file layout");
_Static_assert(offsetof(struct percpu_extrema_control, pairs) % 16 == 0, "pairs are aligned");

/** The counter that a ring's records take their time from. */
enum percpu_ring_clock {
	PERCPU_RING_CLOCK_NS,  /* none: CLOCK_MONOTONIC, in ns */
	PERCPU_RING_CLOCK_TSC, /* x86: rdtsc */
	PERCPU_RING_CLOCK_ARM, /* aarch64: cntvct_el0 */
};

/** The control block of histograms, in the bias lane at the key. */
struct percpu_histogram_control {
	uint64_t n;	/* histograms */
	uint64_t ticks; /* ticks per unit; 0: sums are doubles */
	int32_t low;	/* the range is 2^low to 2^high units */
	int32_t high;
	int32_t schema;	 /* an octave has 2^schema buckets; -53: own bounds */
	uint32_t atomic; /* 1: pairs change by one instruction; 0: under the journal's lock */
	uint64_t bounds; /* own bounds, doubles behind the cells, in the bias lane alone */
	uint64_t unused[3];
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_histogram_control) == 64, "file layout");

/** One of the two copies in a slot of exemplars. */
struct percpu_exemplar_copy {
	uint64_t check;	   /* checksum of what follows, up to the end of the text */
	uint64_t value;	   /* bits of a double */
	uint64_t time;	   /* CLOCK_REALTIME in ns */
	uint64_t bytes;	   /* of the text */
	uint64_t text[20]; /* names and values of labels in turn, each with a 0 behind it */
} PERCPU_ALIGNED_WORD;

/** A slot of exemplars. counts/exemplar.c has the changes of its state. */
struct percpu_exemplar_slot {
	uint64_t state; /* which copy is valid, and whether a thread is storing in the other */
	struct percpu_exemplar_copy copy[2];
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_exemplar_slot) == 392, "file layout");

/** The control block of exemplars, in the bias lane at the key. The slots are behind it. */
struct percpu_exemplars_control {
	uint64_t n;	    /* slots */
	uint64_t announced; /* of a segment: 1 once control->changes has grown since its creation */
	uint64_t unused[6];
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_exemplars_control) == 64, "file layout");

/** A process's slot. */
struct percpu_owner_slot {
	uint64_t word;	  /* how often a process took the slot, times 2; odd: the slot is free */
	uint64_t started; /* percpu_identity.started of the owner; if free, of the last one */
	uint64_t space;	  /* percpu_identity.space of the same process */
	uint32_t pid;	  /* percpu_identity.pid of the same process */
	uint32_t locked;  /* 1: the owner has locked the slot's byte; 0: it could not */
	uint64_t first;	  /* word / 2 of the owner that began with the name; 0: no name */
	uint64_t check;	  /* a hash of first and name */
	uint64_t name[8]; /* bytes of the name, and zeros behind them */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_owner_slot) == 112, "file layout");

#define PERCPU_OWNER_BLOCKS 64 /* the most blocks of owners, and of a gauge's shares */
#define PERCPU_OWNER_SLOTS 64  /* slots of a block */

/** The control block of owners, in the bias lane at the key. */
struct percpu_owners_control {
	uint32_t lock; /* robust lock, held to take a slot */
	uint32_t unused;
	uint64_t block[PERCPU_OWNER_BLOCKS]; /* keys of slots in the bias lane; 0: none yet */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_owners_control) == 520, "file layout");

/** The control block of an owned gauge, in the bias lane at the key. */
struct percpu_owned_control {
	uint64_t owners;		     /* key of the gauge's owners */
	uint32_t rule;			     /* enum percpu_owned_rule, and flags beside it */
	uint32_t number;		     /* enum percpu_owned_number */
	uint64_t block[PERCPU_OWNER_BLOCKS]; /* keys of shares in the bias lane; 0: none yet */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_owned_control) == 528, "file layout");

/** What an owned gauge counts in. */
enum percpu_owned_number {
	PERCPU_OWNED_INTEGER,
	PERCPU_OWNED_DOUBLE,
	PERCPU_OWNED_PAIRS = 0x100, /* flag: one instruction changes value and time */
};

/** A slot's account in a gauge: the owner's value, and what earlier owners left. */
struct percpu_owned_account {
	uint64_t value;
	uint64_t when;	    /* rule "most recent": CLOCK_REALTIME when value was set, in ns. Other
			       rules, doubles: the result of a recent add, which is only a hint */
	uint64_t left;	    /* the values of earlier owners, folded by the rule */
	uint64_t left_when; /* rule "most recent": the time of left. Other rules: 1 if there is
			       a value in left, or 0 */
} PERCPU_ALIGNED_WORD;

/** The shares that the slots of a block have in a gauge. A slot has two accounts. The next owner
 *  fills in the one that is not valid, and then changes turn. */
struct percpu_owned_shares {
	uint64_t turn[PERCPU_OWNER_SLOTS]; /* how often the slot had been taken, times 2, plus
					      the number of the valid account; 0: no share */
	struct percpu_owned_account account[PERCPU_OWNER_SLOTS][2];
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_owned_shares) == 4608, "file layout");

#define PERCPU_BANKS 2 /* cells of a participant in each lane */

/** The control block of an object that counts the threads inside it (a read-mostly lock, or grace
 *  periods), in the bias lane at the key. */
struct percpu_participants_control {
	uint64_t state;	 /* the object's own; sequences compare it */
	uint64_t owners; /* key of the owners */
	uint64_t reserved[6];
	uint32_t lock;	  /* robust lock of the records; the object uses it, too */
	uint32_t drained; /* futex: changes when a thread leaves that another may wait for */
	uint32_t died; /* bit i: cell i of a dead participant was dropped; the object clears it */
	uint32_t reserved2;
	uint64_t lock_boot;		     /* the boot in which the lock is held; 0: not known */
	uint64_t word[13];		     /* the object's own */
	uint64_t block[PERCPU_OWNER_BLOCKS]; /* keys of records; 0: none yet. A block has records in
						the bias lane, and cells in all other lanes */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_participants_control) == 192 + 512, "file layout");

/** A read-mostly lock's use of percpu_participants_control.word. */
struct percpu_rwlock_control {
	uint64_t writer;  /* the owner that has the lock to write, or is about to; 0: none */
	uint64_t thread;  /* the writing thread's id; from bit 22 on low bits of `writer`; from
			     bit 48 on the thread's number in its process; 0: none */
	uint32_t turn;	  /* futex: changes when the lock may be free */
	uint32_t skipped; /* waiting readers that writers have waited for in vain */
	uint32_t told;	  /* 1: the writer is told that readers died */
	uint32_t skips;	  /* changes when `skipped` is raised; odd: that is in progress */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_rwlock_control) == 32, "file layout");

/** The control block of critical sections, in the bias lane at the key. The other lanes begin with
 *  a struct percpu_critical_head there. */
struct percpu_critical_control {
	uint64_t owners; /* key of the owners */
	uint64_t size;	 /* bytes of a cell */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_critical_control) == 16, "file layout");

/** One participant. */
struct percpu_participant_record {
	uint64_t owner;		     /* the owner's id; 0: none yet */
	uint32_t left[PERCPU_BANKS]; /* the part of each cell's sum that does not count */
} PERCPU_ALIGNED_WORD;

/** A block of records, for as many slots of owners. */
struct percpu_participant_records {
	struct percpu_participant_record slot[PERCPU_OWNER_SLOTS];
};

_Static_assert(sizeof(struct percpu_participant_records) == 1024, "file layout");

/** What a rate has in each CPU lane; in an atomic lane only the first two words. */
struct percpu_rate_lane {
	uint64_t allowed;     /* counter of events that were let through */
	uint64_t refused;     /* counter of events that were refused */
	uint64_t permissions; /* bits 0 to 15: events that the CPU may still let through; bits 16
				 to 63: the tag of their period */
	uint64_t guard;	      /* 0 */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_rate_lane) == 32, "file layout");

/** The control block of a rate, in the bias lane at the key. */
struct percpu_rate_control {
	uint64_t bias[2]; /* 0: the biases of allowed and refused, at the same offsets */
	uint64_t window;  /* bits 32 to 63: ms when the period began; below: permissions taken */
	uint64_t limit;	  /* permissions of a period */
	uint64_t period;  /* ms */
	uint64_t boot;	  /* the boot of the window; 0: not known */
	uint64_t unused[2];
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_rate_control) == 64, "file layout");

_Static_assert(sizeof(struct percpu_approx_control) == 64, "file layout");

#define PERCPU_SEGMENT_VERSION 6
/* A block takes a whole lane. Cells behind a smaller one would lie in pages that the block leaves
 * empty in every CPU lane. */
#define PERCPU_SEGMENT_BLOCKS 2048
#define PERCPU_SEGMENT_BLOCK 65536 /* bytes of records in a block */

/** A moment by two clocks, of which one may step when the other does not. */
struct percpu_segment_time {
	uint64_t real;	   /* CLOCK_REALTIME in ns */
	uint64_t boottime; /* CLOCK_BOOTTIME in ns */
	uint64_t boot;	   /* hash of the boot and the time namespace; 0: not known */
} PERCPU_ALIGNED_WORD;

/** The control block of a segment, in the bias lane at the key. */
struct percpu_segment_control {
	uint32_t version;
	uint32_t removal;		       /* 1: a process is about to remove the file */
	uint64_t generation;		       /* 1, 2, ...: resets of all objects, plus 1 */
	uint64_t completed;		       /* the last generation whose reset is complete */
	uint64_t end;			       /* bytes of records, with the gaps between them */
	struct percpu_segment_time started[2]; /* when generation n began: at n % 2 */
	uint64_t changes;		       /* changes of records; odd: one is in progress */
	char program[40];		       /* which made the segment; shorter: behind it 0 */
	uint64_t unlocked;		       /* the boot of one without a lock; 0: none */
	uint64_t reserved[7];
	uint64_t block[PERCPU_SEGMENT_BLOCKS]; /* keys of records in the bias lane; 0: none yet */
} PERCPU_ALIGNED_WORD;

_Static_assert(PERCPU_SEGMENT_BLOCK == PERCPU_LANE_SIZE, "a block takes a lane");
_Static_assert(sizeof(struct percpu_segment_control) == 192 + 8 * 2048, "file layout");

/** The state of a record. segment/remove.c has the changes. */
enum percpu_record_state {
	PERCPU_RECORD_IN_USE,
	PERCPU_RECORD_REMOVED, /* the series was removed, or is an overflow without a count */
	PERCPU_RECORD_FREE,    /* it has no object, and is never used again */
	PERCPU_RECORD_FAMILY,  /* a family: what all series of one name have in common */
};

/** The record of a metric. Behind it are its texts, in this order: its name, its unit, the names
 *  of its labels, their values, and its help. Each name and value of a label has its length in
 *  front, in a byte. */
struct percpu_segment_record {
	uint32_t size;	     /* bytes, with the texts; 0: the block has no more records */
	uint16_t kind;	     /* enum percpu_metric_kind */
	uint16_t state;	     /* enum percpu_record_state */
	uint64_t key;	     /* of the object; 0: the next process that declares it creates it */
	uint64_t generation; /* for which the object was created or reset last */
	struct percpu_segment_time declared;
	uint16_t name;	       /* bytes of the name */
	uint16_t unit;	       /* bytes of the unit */
	uint16_t label_names;  /* bytes of the labels' names */
	uint16_t label_values; /* bytes of the labels' values */
	uint16_t help;	       /* bytes of the help */
	uint8_t labels;	       /* number of labels */
	uint8_t fields;	       /* of statistics: fields, each a value of one more label */
	uint32_t cap;	       /* of a family: the most series that it has */
	uint64_t invalid;      /* of a family: calls with values that cannot be labels */
	uint64_t overflows;    /* of a family: calls for which it had no room */
	uint64_t exemplars;    /* key of the series' exemplars; 0: none */
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_segment_record) == 88, "file layout");

/** What each change adds to bank: more than any distance of banks. */
#define PERCPU_STATS_FLIP (UINT64_C(1) << 40)

#endif
