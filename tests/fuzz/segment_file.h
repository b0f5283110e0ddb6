/* SPDX-License-Identifier: MIT */
/* segment_file.h - a correct file of a segment with metrics of all kinds, and damage to a copy
 * of it. */
#ifndef TESTS_FUZZ_SEGMENT_FILE_H
#define TESTS_FUZZ_SEGMENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_SERIES 77
#define MOST_RECORDS (MOST_SERIES + 16) /* with families, their series, and overflows */

/** What can be damaged. Up to ANYWHERE, words are replaced. */
enum what {
	HEADER, /* numbers and roots in the header of a chunk */
	LANES,	/* bits of used atomic lanes */
	USED,	/* bits of the allocator */
	STARTS,
	REST,	   /* locks, journal and what is being created */
	CONTROL,   /* the directory's control */
	BLOCK,	   /* the keys of the directory's blocks */
	HEAD,	   /* the head of a record */
	TEXT,	   /* the texts of a record */
	OBJECT,	   /* a record's object in the bias lane */
	CELLS,	   /* a record's object in another lane */
	OWNERS,	   /* the control of owners */
	SLOT,	   /* slots of owners */
	SHARES,	   /* an owner's shares of a gauge */
	EXEMPLARS, /* a record's exemplars */
	ANYWHERE,
	LENGTH, /* the file is cut, or extended */
	HOLE,	/* pages become 0 */
	COPY,	/* a record, or a page, becomes a copy of another one */
	STATE,	/* a record becomes removed, free, in use or half made */
	MOMENT, /* a record, or a generation, starts at another time, or in another boot */
	OWNER,	/* a slot is another process's, or free */
	WHATS,
};

struct damage {
	uint8_t when; /* not used here */
	uint8_t what, index, lane;
	uint32_t more;
	uint64_t value;
} __attribute__((packed));

extern int good_file;	    /* the copy, which is damaged */
extern size_t good_length;  /* its length */
extern unsigned good_count; /* number of series */

/** Make the file. */
void good_make(void);

/** Restore the copy. */
void good_restore(void);

/** Return where the damage is, if it replaces a word. */
size_t good_place(const struct damage *d);

/** Damage the copy. */
void good_damage(const struct damage *d);

/** Return the word at that place of the file. */
uint64_t good_word(size_t at);

/** Return the key of object i, or, from the number of records on, of a block of records. */
uint64_t good_key(unsigned i);

#endif
