/* SPDX-License-Identifier: MIT */
/*
 * records.h - the critical-section records of the running program: what the
 * kernel is told of each sequence, read where it reads it.
 */
#ifndef TESTS_STEPPING_RECORDS_H
#define TESTS_STEPPING_RECORDS_H

#include <stddef.h>
#include <stdint.h>

/** The kernel's struct rseq_cs. */
struct record {
	uint32_t version;
	uint32_t flags;
	uint64_t start;
	uint64_t length;
	uint64_t abort;
} __attribute__((aligned(32)));

/** All records of this program, without its shared objects. */
const struct record *records(size_t *ret_n);

/** What is wrong with a record, or NULL. Signature: in front of its handler. */
const char *record_fault(const struct record *r, uint32_t signature);

/** What is wrong with the program's records together, or NULL: two for one
 *  sequence, or the list for debuggers names something else. */
const char *records_fault(void);

#endif
