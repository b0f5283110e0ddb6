/* SPDX-License-Identifier: MIT */
/*
 * step.h - what the sequences do between their steps in these tests. Include it before any header
 * of the library.
 *
 * At the step that inject_point names, the calling thread notes its arrival, traps if asked to, and
 * waits: until it is told to go on, or for a number of rounds. All of that is inside the sequence,
 * so an abort ends it. The code stands where the flags are dead, and finds inject_point without a
 * call.
 */
#ifndef TESTS_INJECT_STEP_H
#define TESTS_INJECT_STEP_H

#include <stdint.h>

struct inject_point {
	int32_t step;	 /* the step to stop at; 0: none */
	int32_t trap;	 /* nonzero: raise SIGTRAP there */
	int32_t arrived; /* set when the step is reached */
	int32_t go;	 /* nonzero: end the wait */
	uint64_t rounds; /* the most rounds of the wait */
};

extern __thread struct inject_point inject_point __attribute__((tls_model("local-exec")));

/* The steps of arch/spec.h. */
#define INJECT_armed 1
#define INJECT_numbered 2
#define INJECT_registered 3
#define INJECT_placed 4
#define INJECT_admitted 5
#define INJECT_loaded 6
#define INJECT_decided 7
#define INJECT_written 8
#define INJECT_STEPS 8

#define INJECT_TEXT_OF(n) #n
#define INJECT_TEXT(n) INJECT_TEXT_OF(n)

/* clang-format off */
#if defined(__x86_64__)
#define PERCPU_SEQ_STEP(name)                                                  \
	"cmpl $" INJECT_TEXT(INJECT_##name) ", %%fs:inject_point@tpoff\n\t"                            \
	"jne 97f\n\t"                                                          \
	"movl $1, %%fs:inject_point@tpoff+8\n\t"                               \
	"cmpl $0, %%fs:inject_point@tpoff+4\n\t"                               \
	"je 98f\n\t"                                                           \
	"int3\n"                                                               \
	"98:\n\t"                                                              \
	"movq %%fs:inject_point@tpoff+16, %%r10\n"                             \
	"99:\n\t"                                                              \
	"cmpl $0, %%fs:inject_point@tpoff+12\n\t"                              \
	"jne 97f\n\t"                                                          \
	"subq $1, %%r10\n\t"                                                   \
	"jnc 99b\n"                                                            \
	"97:\n\t"
#define PERCPU_SEQ_STEP_CLOBBERS , "r10", "memory"
#elif defined(__aarch64__)
#define PERCPU_SEQ_STEP(name)                                                  \
	"mrs x11, tpidr_el0\n\t"                                               \
	"add x11, x11, #:tprel_hi12:inject_point\n\t"                          \
	"add x11, x11, #:tprel_lo12_nc:inject_point\n\t"                       \
	"ldr w12, [x11]\n\t"                                                   \
	"cmp w12, #" INJECT_TEXT(INJECT_##name) "\n\t"                                                \
	"b.ne 97f\n\t"                                                         \
	"mov w12, #1\n\t"                                                      \
	"str w12, [x11, #8]\n\t"                                               \
	"ldr w12, [x11, #4]\n\t"                                               \
	"cbz w12, 98f\n\t"                                                     \
	"brk #0x7e57\n"                                                        \
	"98:\n\t"                                                              \
	"ldr x12, [x11, #16]\n"                                                \
	"99:\n\t"                                                              \
	"ldr w13, [x11, #12]\n\t"                                              \
	"cbnz w13, 97f\n\t"                                                    \
	"subs x12, x12, #1\n\t"                                                \
	"b.cs 99b\n"                                                           \
	"97:\n\t"
#define PERCPU_SEQ_STEP_CLOBBERS , "x11", "x12", "x13", "memory"
#endif
/* clang-format on */

#endif
