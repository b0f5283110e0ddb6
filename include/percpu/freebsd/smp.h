/* SPDX-License-Identifier: MIT */
/*
 * smp.h - FreeBSD's names for CPUs (sys/smp.h, sys/pcpu.h). A name is not defined if the
 * port has a macro of that name. A port that has a variable mp_ncpus includes the other
 * headers of percpu/freebsd/, none of which needs this one.
 *
 * Possible CPUs have the numbers 0 to mp_maxid. Each has a copy of every item and variable.
 */
#ifndef PERCPU_FREEBSD_SMP_H
#define PERCPU_FREEBSD_SMP_H

#include <percpu/freebsd/pcpu.h>

#ifndef curcpu
#define curcpu percpu_freebsd_curcpu()
#endif
#ifndef mp_ncpus
#define mp_ncpus percpu_freebsd_ncpus()
#endif
#ifndef mp_maxid
#define mp_maxid (PERCPU_NUMBER(unsigned, percpu_freebsd_ncpus()) - 1)
#endif

PERCPU_BEGIN_DECLS

static inline int percpu_freebsd_cpu_absent(int64_t cpu)
{
	return cpu < 0 || cpu >= percpu_freebsd_ncpus();
}

PERCPU_END_DECLS

#ifndef CPU_ABSENT
#define CPU_ABSENT(cpu) percpu_freebsd_cpu_absent(cpu)
#endif
#ifndef CPU_FOREACH
#define CPU_FOREACH(i) for ((i) = 0; !percpu_freebsd_cpu_absent(i); (i)++)
#endif

#endif
