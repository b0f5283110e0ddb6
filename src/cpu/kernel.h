/* SPDX-License-Identifier: MIT */
/*
 * kernel.h - the few definitions of Linux for which libc has no header. With them the
 * library compiles without the kernel's headers, which musl-gcc lacks.
 */
#ifndef PERCPU_KERNEL_H
#define PERCPU_KERNEL_H

/* The kernel's long: 64 bits on x86-64, also for 32-bit programs (x32). */
#if defined(__x86_64__) && defined(__ILP32__)
typedef long long percpu_kernel_long;
#else
typedef long percpu_kernel_long;
#endif

/* futex(2) and robust lists */
#define FUTEX_WAIT 0
#define FUTEX_WAKE 1
#define FUTEX_WAKE_OP 5
#define FUTEX_WAIT_PRIVATE (FUTEX_WAIT | 128)
#define FUTEX_WAKE_PRIVATE (FUTEX_WAKE | 128)
#define FUTEX_WAITERS 0x80000000U
#define FUTEX_OWNER_DIED 0x40000000U
#define FUTEX_TID_MASK 0x3fffffffU
#define FUTEX_OP_ADD 1
#define FUTEX_OP_CMP_LT 2
#define FUTEX_OP(op, oparg, cmp, cmparg) ((op) << 28 | (cmp) << 24 | (oparg) << 12 | (cmparg))

struct robust_list {
	struct robust_list *next;
};

struct robust_list_head {
	struct robust_list list;
	percpu_kernel_long futex_offset;
	struct robust_list *list_op_pending;
};

/* statfs(2) */
#define PROC_SUPER_MAGIC 0x9fa0
#define SYSFS_MAGIC 0x62656572

/* membarrier(2) */
#define MEMBARRIER_CMD_QUERY 0

#endif
