/* SPDX-License-Identifier: MIT */
/*
 * records.h - the critical-section records of the running program, which tell the kernel of each
 * sequence, read from where the kernel reads them.
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

/** Return all records of this program, without its shared objects. */
const struct record *records(size_t *ret_n);

/** Return what is wrong with a record, or NULL. signature is the word in front of its handler. */
const char *record_fault(const struct record *r, uint32_t signature);

/** Return what is wrong with the program's records together, or NULL. Wrong are two records for
 *  one sequence, and a list for debuggers that names something else. */
const char *records_fault(void);

#endif
