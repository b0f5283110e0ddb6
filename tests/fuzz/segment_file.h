/* SPDX-License-Identifier: MIT */
/* segment_file.h - a good file of a segment with metrics of all kinds, and damage to a copy of it. */
#ifndef TESTS_FUZZ_SEGMENT_FILE_H
#define TESTS_FUZZ_SEGMENT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOST_SERIES 77
#define MOST_RECORDS (MOST_SERIES + 16) /* with families, their series, and what overflowed */

/** What can be damaged. */
enum what {
	HEADER, /* from here on words are replaced: numbers and roots in the header of a chunk, */
	LANES,	/* which atomic lanes are used, */
	USED,	/* bits of the allocator, */
	STARTS,
	REST,	 /* locks, journal and what is being created; */
	CONTROL, /* the directory's control, */
	BLOCK,	 /* its keys, */
	HEAD,	 /* the head of a record, */
	TEXT,	 /* its texts, */
	OBJECT,	 /* what its object has in the bias lane, */
	CELLS,	 /* or in another lane; */
	OWNERS,	 /* the control of owners, */
	SLOT,	 /* their slots, */
	SHARES,	 /* and what they have in a gauge */
	ANYWHERE,
	LENGTH, /* the file is cut, or made longer */
	HOLE,	/* pages become 0 */
	COPY,	/* a record, or a page, becomes what another one is */
	STATE,	/* a record becomes removed, free, in use or half made */
	MOMENT, /* a record, or a generation, starts at another time, or in another boot */
	OWNER,	/* a slot is another process's, or nobody's */
	WHATS,
};

struct damage {
	uint8_t when; /* of no interest here */
	uint8_t what, index, lane;
	uint32_t more;
	uint64_t value;
} __attribute__((packed));

extern int good_file;	    /* a copy, which is damaged */
extern size_t good_length;  /* of the file */
extern unsigned good_count; /* series */

/** Make the file. */
void good_make(void);

/** Let the copy be as the file is. */
void good_restore(void);

/** Where the damage is, if it is a word. */
size_t good_place(const struct damage *d);
void good_damage(const struct damage *d);

/** Return the word that the file has there; the key of an object, or of a block of records. */
uint64_t good_word(size_t at);
uint64_t good_key(unsigned i);

#endif
