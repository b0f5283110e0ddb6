/* SPDX-License-Identifier: MIT */
/*
 * base.h - what every other header stands on: geometry and a few annotations.
 *
 * Geometry. A per-CPU object has a cell at the same offset of every lane; its
 * handle is the address of the cell in lane 0, and lane k's cell is at
 * handle + k * stride. Lanes 0 to N-1 belong to CPUs 0 to N-1 and take plain
 * stores, inside a restartable sequence only. Behind them come as many lanes
 * for atomic adds, and one that holds what resets subtract.
 */
#ifndef PERCPU_BASE_H
#define PERCPU_BASE_H

#if __has_include(<stddef.h>) && __has_include(<stdint.h>)
#include <stddef.h>
#include <stdint.h>
#else
/* With -nostdinc a kernel's sources bring headers of their own, which may have other
 * names: the same types, for a type may be defined twice. */
typedef __SIZE_TYPE__ size_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __INT32_TYPE__ int32_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __INTPTR_TYPE__ intptr_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef __INTMAX_TYPE__ intmax_t;
#if !defined(NULL) && defined(__cplusplus)
#define NULL nullptr
#elif !defined(NULL)
#define NULL ((void *)0)
#endif
#ifndef offsetof
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
#endif

/* What is between them is C: it casts as C does, and a struct may have the name of a
 * function. Those who want to be told of such things mean their own code. */
#ifdef __cplusplus
/* clang-format off */
#define PERCPU_BEGIN_DECLS                                                     \
	_Pragma("GCC diagnostic push")                                         \
	_Pragma("GCC diagnostic ignored \"-Wold-style-cast\"")                 \
	_Pragma("GCC diagnostic ignored \"-Wshadow\"")                         \
	extern "C" {
#define PERCPU_END_DECLS                                                       \
	}                                                                      \
	_Pragma("GCC diagnostic pop")
/* clang-format on */
#else
#define PERCPU_BEGIN_DECLS
#define PERCPU_END_DECLS
#endif

/* Casts of macros, which users' warnings look at. */
#ifdef __cplusplus
#define PERCPU_NUMBER(type, n) static_cast<type>(n)
#define PERCPU_POINTER(type, p) reinterpret_cast<type>(p)
#define PERCPU_NULL(type) static_cast<type>(nullptr)
#define PERCPU_ASSERT(condition, text) static_assert(condition, text)
#else
#define PERCPU_NUMBER(type, n) ((type)(n))
#define PERCPU_POINTER(type, p) ((type)(p))
#define PERCPU_NULL(type) ((type)0)
#define PERCPU_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/*
 * Attributes have underscores, for a program may have macros of their names.
 *
 * None of what is inlined throws. Told so, GCC does not look for exceptions in the
 * sequences of a unit with -fnon-call-exceptions, on which GCC 12 fails: it cannot put
 * in the way out of an asm with labels and outputs.
 */
#define PERCPU_API __attribute__((__visibility__("default")))
#define PERCPU_INLINE static inline __attribute__((__always_inline__, __nothrow__, __unused__))
/* Who drops the result does not know whether there is an object, or a value: compilers
 * warn. Calls that add to something, or free it, do not have it: programs go on when
 * one of them fails. */
#define PERCPU_MUST_CHECK __attribute__((__warn_unused_result__))
#define percpu_likely(x) __builtin_expect(!!(x), 1)
#define percpu_unlikely(x) __builtin_expect(!!(x), 0)

/** Usable bytes of a lane of the zone behind single counters. */
#define PERCPU_LANE_SIZE 65536

/**
 * Distance between the lanes of that zone, in bytes.
 *
 * One cache line more than a multiple of the page size, so that the cells of
 * one object fall into different cache sets; and a gap of a page, so that no
 * page holds usable bytes of two lanes. x86 has one page size; elsewhere the
 * gap serves pages of up to 64 KiB. Processes of 32 and of 64 bits share files,
 * so it is the same for both.
 */
#if defined(__x86_64__) || defined(__i386__)
#define PERCPU_STRIDE ((size_t)(PERCPU_LANE_SIZE + 4096 + 64))
#else
#define PERCPU_STRIDE ((size_t)(PERCPU_LANE_SIZE + 65536 + 64))
#endif

/** For words that are accessed atomically: as part of a struct, those of 64 bits
 *  are aligned to 4 bytes only on 32-bit x86. */
#define PERCPU_ALIGNED_WORD __attribute__((__aligned__(8)))

/** The version of these headers. Compare it with percpu_version(), which is the
 *  library's: PERCPU_VERSION_OF(0, 1, 0) is 0.1.0. */
#define PERCPU_VERSION_MAJOR 0
#define PERCPU_VERSION_MINOR 1
#define PERCPU_VERSION_PATCH 0
#define PERCPU_VERSION_OF(major, minor, patch) ((major) << 16 | (minor) << 8 | (patch))
#define PERCPU_VERSION                                                                             \
	PERCPU_VERSION_OF(PERCPU_VERSION_MAJOR, PERCPU_VERSION_MINOR, PERCPU_VERSION_PATCH)

/*
 * Structs of options begin with their size, which the program sets to sizeof. One of an
 * older version has fewer fields, of which the library takes the defaults; one of a
 * newer version has more, which must be zero where the library does not know them:
 * else the call is -EINVAL.
 */

/*
 * NULL where an object is wanted: destroying, detaching and closing it do nothing, and so do
 * calls without a result, which leave their outputs alone; reads and keys are 0; calls
 * that return an error return -EINVAL, also for a NULL where their result is to go. What is
 * inlined looks at nothing: adds, updates and other operations on the running CPU's memory
 * need an object.
 */

/** More CPUs than this are refused with -E2BIG (Linux itself stops there). */
#define PERCPU_MAX_CPUS 8192

#endif
