/* SPDX-License-Identifier: MIT */
/*
 * slides_cpu.cc - ways to read the CPU number. As in the slides, each way has its own loop, and an
 * empty loop is measured for comparison. Lambdas, as calls by a pointer would be measured, too.
 */
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __x86_64__
#include <asm/prctl.h>
#include <cpuid.h>
#endif

#include "../cells.h"
#include "slides.h"

/* Return the CPU; the first call of a thread registers the thread. */
static unsigned lazy_cpu()
{
	int cpu = area_cpu();

	if (percpu_unlikely(cpu < 0))
		cpu = *(volatile int32_t *)&percpu_seq_attach()->cpu_id;
	return unsigned(cpu);
}

#ifdef __x86_64__
/* The kernel keeps CPU and node in the limit of a segment, __CPUNODE_SEG, and in a register that
 * rdpid reads: 12 bits are the CPU. */
static unsigned lsl_cpu()
{
	unsigned limit;

	__asm__ volatile("lsl %1, %0" : "=r"(limit) : "r"(0x7b) : "cc");
	return limit & 0xfff;
}

static unsigned rdpid_cpu()
{
	uint64_t id;

	__asm__ volatile("rdpid %0" : "=r"(id));
	return unsigned(id) & 0xfff;
}

static bool has_rdpid()
{
	unsigned a, b, c, d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 22 & 1);
}

/* The slides had a segment for each CPU, which only a kernel can load (lgdt). This has gs begin at
 * the thread's area: the instruction that reads is the same. */
static bool gs_is_area()
{
	return syscall(SYS_arch_prctl, ARCH_SET_GS, percpu_seq_attach()) == 0;
}

static unsigned gs_cpu()
{
	unsigned cpu;

	__asm__ volatile("movl %%gs:4, %0" : "=r"(cpu));
	return cpu;
}

/* A row of one thread runs in the thread that calls this. */
static void register_x86(report &all)
{
	measure_call(CPU_LSL, [] { return lsl_cpu(); });
	if (has_rdpid())
		measure_call(CPU_RDPID, [] { return rdpid_cpu(); });
	else
		all.skip(CPU_RDPID, "this CPU has no rdpid");
	if (gs_is_area())
		measure_call(CPU_GS, [] { return gs_cpu(); });
	else
		all.skip(CPU_GS, "arch_prctl() does not set gs");
}
#endif

void register_cpu_number(report &all)
{
	measure_call(CPU_EMPTY, [] { return 0u; });
	measure_call(CPU_AREA, [] { return unsigned(area_cpu()); });
	measure_call(CPU_LAZY, [] { return lazy_cpu(); });
#ifdef __x86_64__
	register_x86(all);
#else
	for (const char *name : { CPU_LSL, CPU_RDPID, CPU_GS })
		all.skip(name, "x86-64 alone has it");
#endif
	/* getcpu(), as glibc's sched_getcpu() reads the rseq area. */
	measure_call(CPU_GETCPU, [] {
		unsigned cpu = 0;

		getcpu(&cpu, nullptr);
		return cpu;
	});
	measure_call(CPU_CALL, [] {
		unsigned cpu = 0;

		syscall(SYS_getcpu, &cpu, nullptr, nullptr);
		return cpu;
	});
}
