/* SPDX-License-Identifier: MIT */
/* records.c - see records.h. */
#define _GNU_SOURCE
#include "records.h"

#include <link.h>
#include <stdbool.h>
#include <string.h>

/* The linker makes these symbols; they are absent if no unit has a sequence. */
#define LINKER extern __attribute__((weak, visibility("hidden")))
LINKER const struct record first_record[] __asm__("__start___rseq_cs");
LINKER const struct record last_record[] __asm__("__stop___rseq_cs");
LINKER const struct record *const first_pointer[] __asm__("__start___rseq_cs_ptr_array");
LINKER const struct record *const last_pointer[] __asm__("__stop___rseq_cs_ptr_array");

struct range {
	uint64_t from, to;
	bool executable;
};

static int find_executable(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct range *r = arg;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t at = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && r->from >= at &&
		    r->to <= at + p->p_filesz)
			r->executable = true;
	}
	return r->executable;
}

static bool is_executable(uint64_t from, uint64_t to)
{
	struct range r = { from, to, false };

	return from < to && dl_iterate_phdr(find_executable, &r) != 0;
}

const struct record *records(size_t *ret_n)
{
	*ret_n = ((uintptr_t)last_record - (uintptr_t)first_record) / sizeof(struct record);
	return first_record;
}

const char *record_fault(const struct record *r, uint32_t signature)
{
	uint32_t found;

	if (r->version != 0 || r->flags != 0)
		return "version or flags";
	if (r->length == 0 || r->length > 4096)
		return "length";
	if (!is_executable(r->start, r->start + r->length))
		return "sequence is not executable";
	if (!is_executable(r->abort - sizeof(found), r->abort + 1))
		return "abort handler is not executable";
	if (r->abort - r->start < r->length)
		return "abort handler within its sequence";
	memcpy(&found, (const void *)(uintptr_t)(r->abort - sizeof(found)), sizeof(found));
	if (found != signature)
		return "signature";
	return NULL;
}

const char *records_fault(void)
{
	size_t n, pointers = ((uintptr_t)last_pointer - (uintptr_t)first_pointer) / sizeof(void *);
	const struct record *r = records(&n);

	if (((uintptr_t)last_record - (uintptr_t)first_record) % sizeof(*r) != 0)
		return "section is no list of records";
	if (pointers != n)
		return "as many pointers as records";
	for (size_t i = 0; i < n; i++) {
		if (first_pointer[i] < r || first_pointer[i] >= r + n)
			return "pointer to no record";
		for (size_t k = 0; k < i; k++)
			if (r[k].start == r[i].start || r[k].abort == r[i].abort)
				return "two records for one sequence";
	}
	return NULL;
}
