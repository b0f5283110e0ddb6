/* SPDX-License-Identifier: MIT */
/*
 * base.h - the geometry of lanes, and compiler attributes. All other headers include it.
 *
 * A per-CPU object has a cell at the same offset of every lane. Its handle is the address of the
 * cell in lane 0, and lane k's cell is at handle + k * stride. Lanes 0 to N-1 belong to CPUs 0 to
 * N-1; restartable sequences change them by plain stores. Behind them come N atomic lanes, and the
 * bias lane, which holds what resets subtract.
 */
#ifndef PERCPU_BASE_H
#define PERCPU_BASE_H

#if __has_include(<stddef.h>) && __has_include(<stdint.h>)
#include <stddef.h>
#include <stdint.h>
#else
/* Kernel sources that are compiled with -nostdinc have headers of their own, under
 * other names. These types are the same as theirs: C lets a type be defined twice. */
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

/* The headers are C: they cast as C does, and some structs have the name of a function.
 * A C++ program may ask for warnings about that in its own code, so they are off here. */
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

/* Casts for macros. They expand in the program's code, where its warnings are on. */
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
/* The number 1, in an expression. Does not compile, and says the text, unless the condition holds.
 * C++ allows no new type in an expression: there each check has its own template. */
#define PERCPU_CHECKED(condition, text)                                                            \
	sizeof(struct {                                                                            \
		char percpu_one;                                                                   \
		_Static_assert(condition, text);                                                   \
	})
#endif

/*
 * The attributes have underscores because a program may have macros of their names.
 *
 * Inline functions are __nothrow__ because of -fnon-call-exceptions: with it, GCC 12
 * expects exceptions from the asm statements of sequences, and fails to compile those
 * that have both labels and outputs.
 */
#define PERCPU_API __attribute__((__visibility__("default")))
#define PERCPU_INLINE static inline __attribute__((__always_inline__, __nothrow__, __unused__))
/* For calls that count. Without it, compilers add instructions for exceptions to functions of C++
 * that count and are noexcept. */
#define PERCPU_NOTHROW __attribute__((__nothrow__))
/* For functions that can fail: the result is -errno, or says whether there is an object, a value or
 * a permission. Functions after whose failure a program has nothing to do are without it:
 * - those that give back: free, put, unlock, exit, leave, detach, destroy;
 * - those that count: add, sub, set, store, observe, update, and a put into a ring or a buffer; and
 *   a get of a reference by a thread that has one;
 * - those after which all works, only slower: the setup of static counters and variables, and
 *   flushes that do not wait.
 * tools/dev/mustcheck.py keeps this rule. */
#define PERCPU_MUST_CHECK __attribute__((__warn_unused_result__))
#define percpu_likely(x) __builtin_expect(!!(x), 1)
#define percpu_unlikely(x) __builtin_expect(!!(x), 0)

/** Usable bytes of a lane of a default region, the kind that has single counters. */
#define PERCPU_LANE_SIZE 65536

/**
 * Distance between the lanes of such a region, in bytes.
 *
 * It is one cache line more than a multiple of the page size, so that the cells of
 * one object fall into different cache sets. It leaves a gap of a page, so that no
 * page holds usable bytes of two lanes. x86 has one page size; elsewhere the
 * gap is right for pages of up to 64 KiB. It is the same in 32-bit and 64-bit processes, which
 * share files.
 */
#if defined(__x86_64__) || defined(__i386__)
#define PERCPU_STRIDE PERCPU_NUMBER(size_t, PERCPU_LANE_SIZE + 4096 + 64)
#else
#define PERCPU_STRIDE PERCPU_NUMBER(size_t, PERCPU_LANE_SIZE + 65536 + 64)
#endif

/** For 64-bit words of structs that are accessed atomically: 32-bit x86 aligns them to
 *  4 bytes only. */
#define PERCPU_ALIGNED_WORD __attribute__((__aligned__(8)))

/** The version of these headers; PERCPU_VERSION_OF(0, 1, 0) is 0.1.0. percpu_version() returns
 *  the library's. */
#define PERCPU_VERSION_MAJOR 0
#define PERCPU_VERSION_MINOR 1
#define PERCPU_VERSION_PATCH 0
#define PERCPU_VERSION_OF(major, minor, patch) ((major) << 16 | (minor) << 8 | (patch))
#define PERCPU_VERSION                                                                             \
	PERCPU_VERSION_OF(PERCPU_VERSION_MAJOR, PERCPU_VERSION_MINOR, PERCPU_VERSION_PATCH)

/*
 * A struct of options begins with its size, which the program sets to sizeof. A program
 * built with an older version has fewer fields; the library takes the defaults for the
 * rest. A program built with a newer version has more fields; those that the library does
 * not know must be zero, or the call returns -EINVAL.
 */

/*
 * A call that gets NULL in place of an object does not crash, unless it is an inline function.
 * Calls that destroy, detach or close do nothing. Calls without a result do nothing, and leave
 * their outputs alone. Reads and keys return 0. Calls that return an error return -EINVAL, also if
 * the pointer to their output is NULL, unless they say that it may be. Inline functions do not
 * check for NULL, whether they read or change a cell.
 */

/** Calls that create something return -E2BIG on a machine with more CPUs than this,
 *  which is the most that Linux can be built for. */
#define PERCPU_MAX_CPUS 8192

#endif
