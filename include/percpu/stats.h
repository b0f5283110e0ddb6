/* SPDX-License-Identifier: MIT */
/*
 * stats.h - statistics: counters that belong together. A plain struct of uint64_t fields is
 * their schema, and the type of a snapshot.
 *
 *	struct port { uint64_t packets, bytes, drops, errors; };
 *	PERCPU_STATS(struct port) ports;
 *
 *	PERCPU_STATS_CREATE(&ports, 64, 0);
 *	PERCPU_STATS_ADD(ports, i, packets, 1);
 *	PERCPU_STATS_UPDATE(ports, i, .packets = 1, .bytes = len);
 *	PERCPU_STATS_SNAPSHOT(ports, 0, 64, out);
 *
 * Any thread of any process that has the region mapped may count. An add to one field is
 * percpu_counter_add() with one more load in its sequence. An update adds to several fields
 * with one commit: a snapshot contains all of it or nothing, also if the thread is killed.
 *
 * Snapshots cost the writers nothing. Each CPU counts in one of two banks. A snapshot makes the
 * other bank count, and fences until no sequence still adds to the first.
 */
#ifndef PERCPU_STATS_H
#define PERCPU_STATS_H

#include <errno.h>

#include <percpu/region.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** Objects of the same schema. The fields are the library's. */
struct percpu_stats {
	struct percpu_block block;
	size_t record;	      /* bytes from one object to the next */
	const uint64_t *bank; /* the bank that counts: 0 or the value of banks */
	uint64_t banks;	      /* bytes from the first bank to the second */
	uint32_t vector;      /* most words that an inlined update commits; 0: none */
	uint32_t commit;      /* most words that an update commits without the lock */
	size_t words;	      /* fields of an object */
	size_t n;	      /* objects */
	size_t head;	      /* bytes in front of an object's fields */
	unsigned flags;	      /* of percpu_stats_create() */
};

/** For percpu_stats_create(): on tier rseq no update takes the lock, whichever fields of an
 *  object it adds to. Objects have up to PERCPU_STATS_MAX_COMMIT fields and are in two copies
 *  (see percpu_stats_create()), so memory and cost grow with the schema. */
#define PERCPU_STATS_WHOLE 0x1

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach or destroy, and snapshots: any thread,
 * not a signal handler. Other calls: any thread of any process that has the objects mapped;
 * signal handlers; children of fork.
 * Ordering: none for adds and updates (as memory_order_relaxed). A read includes the adds
 * and updates that happened before it.
 * Progress: creating and destroying takes locks of the process and, in a shared region,
 * one between processes, for which a call waits a second at most. Calls that use only the
 * handle, such as percpu_stats_key(), take no lock.
 */

/** The most fields that one update may add to. */
#define PERCPU_STATS_MAX_COMMIT 64

/**
 * Create n objects of size bytes, all 0, in memory of this process, or in a region that other
 * processes may attach to.
 *
 * In each bank of each CPU an object takes 8 bytes per field. The number of fields is rounded
 * up: 3 to 4, 5 to 7 to 8, and more to a multiple of 8. Two kinds of objects are in two copies:
 * those with PERCPU_STATS_WHOLE, and those of up to 8 fields, but more than one store of this CPU
 * commits (2; 4 with AVX2; 8 with AVX-512). An object in two copies takes 16 bytes plus 16 per
 * field; the number of fields is rounded up to even. Objects in a region keep their layout,
 * whatever CPU a process that attaches later runs on.
 *
 * Returns 0, or
 *	-EINVAL	size is 0 or not a multiple of 8, n is 0, a NULL, unknown flags, or more
 *		objects than fit into a lane. In a region of the default lane size each
 *		bank has 32 KiB (1024 objects of 4 fields, 409 in two copies;
 *		docs/memory/region.md says what larger lanes cost). In memory of this process
 *		all objects together may have 128 GiB (128 MiB in 32-bit processes)
 *	-E2BIG	PERCPU_STATS_WHOLE and more than PERCPU_STATS_MAX_COMMIT fields,
 *		or more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_create(size_t size, size_t n, unsigned flags,
						     struct percpu_stats **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_create_in(struct percpu_region *r, size_t size,
							size_t n, unsigned flags,
							struct percpu_stats **ret);

/**
 * Attach to n objects at this root of a shared region, or create them if there are none, as
 * percpu_counter_array_open() does. Two errors differ: -EEXIST also for a size, n or flags with
 * which percpu_stats_attach() does not find the objects, and -EINVAL as percpu_stats_create_in().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_open(struct percpu_region *r, unsigned root,
						   size_t size, size_t n, unsigned flags,
						   struct percpu_stats **ret);

/**
 * Attach to the objects that another process created at this key of a region, with the same
 * size and n. percpu_stats_detach() undoes it and leaves the objects. The region records whether
 * the objects were created with PERCPU_STATS_WHOLE. With that flag this call finds only objects
 * that were.
 *
 * Returns 0, or -EINVAL as percpu_stats_create_in(), -ENOENT (no such objects there), or
 * -ENOMEM.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_attach(struct percpu_region *r, uint64_t key,
						     size_t size, size_t n, unsigned flags,
						     struct percpu_stats **ret);
PERCPU_API void percpu_stats_detach(struct percpu_stats *s);
PERCPU_API uint64_t percpu_stats_key(const struct percpu_stats *s);

/** Free the objects. No thread may be using them. NULL is fine. In a shared region the call may
 *  wait for a second and leave the memory allocated, as percpu_region_free(). In a region that was
 *  opened to read, the objects stay. If a root has their key, set the root to 0 first:
 *  percpu_region_set_root(). */
PERCPU_API void percpu_stats_destroy(struct percpu_stats *s);

/** Return the most fields that an update on tier rseq and this CPU adds to without the lock: all
 *  fields with PERCPU_STATS_WHOLE, and usually all fields of objects of up to 8. For larger
 *  objects, and for objects that a process on a CPU with wider stores created, it is what one store
 *  of this CPU commits: 2, 4 or 8. NULL has 0. */
PERCPU_API unsigned percpu_stats_commit_words(const struct percpu_stats *s);

PERCPU_API PERCPU_NOTHROW void percpu_stats_add_slow(const struct percpu_stats *s, size_t i,
						     size_t word, int64_t n);
PERCPU_API PERCPU_NOTHROW int percpu_stats_update_slow(const struct percpu_stats *s, size_t i,
						       size_t word, const uint64_t *n,
						       size_t words);

/**
 * Add n to field word of object i. word must be below s->words, and i below s->n.
 *
 * Context: any thread, signal handlers. Never fails, never loses.
 * Ordering: none (as memory_order_relaxed).
 * Progress: bounded: after a few aborted attempts, an atomic addition.
 */
PERCPU_INLINE void percpu_stats_add(const struct percpu_stats *s, size_t i, size_t word, int64_t n)
{
	if (percpu_unlikely(s->head != 0 ||
			    percpu_seq_bank_add(s->block.base + i * s->record + word * 8,
						s->block.stride, s->bank, s->banks, n)))
		percpu_stats_add_slow(s, i, word, n);
}

PERCPU_INLINE percpu_words2 percpu_stats_words2(const uint64_t *n, size_t at, size_t words)
{
	return percpu_words2_of(at < words ? n[at] : 0, at + 1 < words ? n[at + 1] : 0);
}

/**
 * Add n[0] to n[words-1] to the fields from number word on of object i, with one commit.
 * Inlined if words is a constant: then object i and the fields must exist, as for
 * percpu_stats_add(), and the call does not check it.
 *
 * An update of up to percpu_stats_commit_words() fields takes no lock. If the objects are not in
 * two copies, word must also be a multiple of words, rounded up to a power of two. All other
 * updates take the lock (see Progress): they are whole, too, but hundreds of times slower.
 *
 * Returns 0, or, with nothing added
 *	-E2BIG	words is more than PERCPU_STATS_MAX_COMMIT
 *	-EINVAL	there is no such object or field, words is 0, or the fields are on both
 *		sides of a multiple of 64
 *	-EROFS	the region was opened to read (an update of one field gets SIGSEGV there, as
 *		percpu_stats_add())
 *	-ETIMEDOUT  the lock holder is stopped, or does not get to run, for a second
 *
 * Context: any thread, signal handlers.
 * Ordering: none.
 * Progress: bounded without the lock. The lock is taken by updates as above, by threads whose
 * sequences keep being aborted, as under a debugger, and by threads on the lower tiers. It is a
 * robust lock for all objects in the region's chunk. An update holds it once; a reset holds it for
 * all objects that it resets.
 */
PERCPU_INLINE int percpu_stats_update(const struct percpu_stats *s, size_t i, size_t word,
				      const uint64_t *n, size_t words)
{
	char *cell = s->block.base + i * s->record + word * 8;

	if (__builtin_constant_p(words) && words == 1 && s->head == 0) {
		percpu_stats_add(s, i, word, (int64_t)n[0]);
		return 0;
	}
	if (__builtin_constant_p(words) && words >= 2 && words <= 8 && s->vector >= words &&
	    word % (words > 4 ? 8 :
		    words > 2 ? 4 :
				2) ==
		    0) {
		percpu_words2 n0 = percpu_stats_words2(n, 0, words);
		percpu_words2 n2 = percpu_stats_words2(n, 2, words);
		percpu_words2 n4 = percpu_stats_words2(n, 4, words);
		percpu_words2 n6 = percpu_stats_words2(n, 6, words);
		int r;

		if (words == 2)
			r = percpu_seq_bank_add2(cell, s->block.stride, s->bank, s->banks, n0);
		else if (words <= 4)
			r = percpu_seq_bank_add4(cell, s->block.stride, s->bank, s->banks, n0, n2);
		else
			r = percpu_seq_bank_add8(cell, s->block.stride, s->bank, s->banks, n0, n2,
						 n4, n6);
		if (percpu_likely(r == 0))
			return 0;
	}
	return percpu_stats_update_slow(s, i, word, n, words);
}

/**
 * Read n objects, from number first on, into out, an array of n structs. Each field is read by
 * itself, as by percpu_counter_fetch(): fields that are updated together may differ by the
 * updates that run meanwhile. An update whose thread was killed before the call is contained with
 * all its fields or with none.
 *
 * Returns 0, or, with out untouched
 *	-EINVAL	there are no such objects, or a NULL
 *	-EAGAIN	a CPU committed an update of an object in two copies (PERCPU_STATS_WHOLE) during
 *		each of 10 000 attempts to read it. Try again.
 *	-ENOMEM	no memory for a copy of more than 4096 bytes of such objects
 *
 * Context: any thread, also of a process that opened the region to read.
 * Progress: bounded. A field of an object in two copies is read again if an update was committed
 * meanwhile; other objects are read once.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_fetch(const struct percpu_stats *s, size_t first,
						    size_t n, void *out);

/**
 * Read n objects as they were at one moment. A snapshot contains every update with all its
 * fields or with none. If it contains an update, it also contains every update that happened
 * before that one. There is one exception: an add or update that fell back to an atomic addition or
 * to the lock is whole, too, but may be in a snapshot without an update that happened before it.
 *
 * percpu_stats_fetch_zero() also resets the objects, exactly: the results of all such calls, and
 * what is left, add up to what was added. A process that is killed in it may have reset some of
 * the objects, each as a whole. Objects of more than PERCPU_STATS_MAX_COMMIT fields are reset in
 * runs of that many fields, each as a whole.
 *
 * Returns 0, or, with out untouched and nothing reset
 *	-EINVAL	there are no such objects, or a NULL
 *	-EROFS	the region was opened to read
 *	-EPERM, -ETIMEDOUT, -EAGAIN  as percpu_fence(); in a shared region as
 *		percpu_fence_all() with 5 s: some CPU with a lane could not be fenced, as
 *		from a container with a cpuset (docs/counts/stats.md)
 *	-ETIMEDOUT  also: another thread was stopped while it held the lock for a reset or an
 *		update
 *	-EAGAIN	also: other readers disturbed this one eight times in a row
 *	-ENOMEM	no memory for the helper thread of a fence, or for a copy of more than 4096 bytes
 *
 * Context: any thread, not a signal handler; not a cancellation point.
 * Progress: bounded by the errors above and by the time of the fence. Readers of the same objects
 * take turns. A reader waits at most a second for another reader that is stopped, and then goes
 * on. A reader that another reader disturbs starts over.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_snapshot(const struct percpu_stats *s, size_t first,
						       size_t n, void *out);
PERCPU_API PERCPU_MUST_CHECK int percpu_stats_fetch_zero(const struct percpu_stats *s, size_t first,
							 size_t n, void *out);

/*
 * The same functions as macros with types and field names. A call does not compile if the struct
 * lacks the field, if the field is no uint64_t, or if a struct has another type. h is a handle, of
 * type PERCPU_STATS(); ret_h is the address of one. Each argument is evaluated once.
 */

/* clang-format off */

/**
 * The type of a handle for objects of this struct, whose fields are uint64_t and arrays of
 * uint64_t. PERCPU_STATS(type) is the same type wherever it is written, in C and C++, so a
 * handle may be extern in a header, a parameter, or a member.
 *
 * A handle is a pointer. A program may copy it and compare it with NULL, but must not dereference
 * it: it points to a struct percpu_stats, and its type only carries the fields.
 */
#define PERCPU_STATS(type) __typeof__(type ***)

/** The struct percpu_stats of a handle, for the functions above. */
#ifdef __cplusplus
#define PERCPU_STATS_OF(h) static_cast<struct percpu_stats *>(static_cast<void *>(h))
#else
#define PERCPU_STATS_OF(h) ((struct percpu_stats *)(void *)(h))
#endif

/* 1 if a type is uint64_t, otherwise 0. Where uint64_t is "unsigned long", it is 0 for "unsigned
 * long long" and Linux's __u64, because the inline functions read the field as a uint64_t. */
#ifdef __cplusplus
extern "C++" {
template <typename T> struct percpu_is_word { enum { percpu_yes = 0 }; };
template <> struct percpu_is_word<uint64_t> { enum { percpu_yes = 1 }; };
}
#define PERCPU_STATS_IS_WORD(type) percpu_is_word<type>::percpu_yes
#define PERCPU_STATS_NOTHING {}
#else
#define PERCPU_STATS_IS_WORD(type) _Generic((type *)0, uint64_t *: 1, default: 0)
#define PERCPU_STATS_NOTHING { 0 }
#endif

/* The number 1. Does not compile, and says why, unless the field's type is uint64_t. */
#ifdef __cplusplus
extern "C++" {
template <typename T> struct percpu_stats_field {
	static_assert(percpu_is_word<T>::percpu_yes, "a field of statistics is a uint64_t");
};
}
#define PERCPU_STATS_CHECKED(type) sizeof(percpu_stats_field<type>)
#else
#define PERCPU_STATS_CHECKED(type)                                             \
	PERCPU_CHECKED(PERCPU_STATS_IS_WORD(type), "a field of statistics is a uint64_t")
#endif

/** The number of a field or of an array's element. Does not compile unless it is a uint64_t. The
 *  index of an element may be a variable; g++ needs a constant. In a packed struct, for a field
 *  between two words, the array below has a negative size, and does not compile. */
#define PERCPU_STATS_WORD(h, field)                                            \
	(offsetof(__typeof__(***(h)), field) / 8 *                             \
	 PERCPU_STATS_CHECKED(__typeof__((***(h)).field)) *                    \
	 sizeof(char[offsetof(__typeof__(***(h)), field) % 8 == 0 ? 1 : -1]))

/* p, which must point to the handle's type. In C a ternary would only warn of another type, so
 * _Generic checks it. */
#ifdef __cplusplus
#define PERCPU_STATS_TYPED(h, p) (0 ? **(h) : (p))
#else
#define PERCPU_STATS_TYPED(h, p)                                               \
	((void)PERCPU_CHECKED(_Generic((p), __typeof__(**(h)): 1,              \
				       const __typeof__(***(h)) *: 1, default: 0), \
			      "a pointer to the struct of these statistics"),  \
	 (p))
#endif

/* The library stores the handle byte by byte, as with memcpy(), so the handle may have
 * any pointer type. */
#define PERCPU_STATS_RET(ret_h) PERCPU_POINTER(struct percpu_stats **, ret_h)

#define PERCPU_STATS_CREATE(ret_h, n, flags)                                   \
	percpu_stats_create(sizeof(****(ret_h)), (n), (flags), PERCPU_STATS_RET(ret_h))
#define PERCPU_STATS_CREATE_IN(ret_h, r, n, flags)                             \
	percpu_stats_create_in((r), sizeof(****(ret_h)), (n), (flags), PERCPU_STATS_RET(ret_h))
#define PERCPU_STATS_OPEN(ret_h, r, root, n, flags)                            \
	percpu_stats_open((r), (root), sizeof(****(ret_h)), (n), (flags),      \
			  PERCPU_STATS_RET(ret_h))
#define PERCPU_STATS_ATTACH(ret_h, r, key, n, flags)                           \
	percpu_stats_attach((r), (key), sizeof(****(ret_h)), (n), (flags),     \
			    PERCPU_STATS_RET(ret_h))
#define PERCPU_STATS_KEY(h) percpu_stats_key(PERCPU_STATS_OF(h))
#define PERCPU_STATS_DETACH(h) percpu_stats_detach(PERCPU_STATS_OF(h))
#define PERCPU_STATS_DESTROY(h) percpu_stats_destroy(PERCPU_STATS_OF(h))

#define PERCPU_STATS_ADD(h, i, field, n)                                       \
	percpu_stats_add(PERCPU_STATS_OF(h), (i), PERCPU_STATS_WORD(h, field), (n))

/** The number of the struct's fields. Does not compile if one update cannot add to all of them, or
 *  if the struct has a lower alignment than a uint64_t: its fields may then lie between two words. */
#ifdef __cplusplus
extern "C++" {
template <size_t size, size_t align> struct percpu_stats_update_of {
	static_assert(size <= 8 * PERCPU_STATS_MAX_COMMIT,
		      "an update adds to at most PERCPU_STATS_MAX_COMMIT fields");
	static_assert(align >= alignof(uint64_t), "the struct of statistics is not packed");
};
}
#define PERCPU_STATS_WORDS(h)                                                  \
	(sizeof(***(h)) / 8 *                                                  \
	 sizeof(percpu_stats_update_of<sizeof(***(h)), alignof(__typeof__(***(h)))>))
#else
#define PERCPU_STATS_WORDS(h)                                                  \
	(sizeof(***(h)) / 8 *                                                  \
	 PERCPU_CHECKED(sizeof(***(h)) <= 8 * PERCPU_STATS_MAX_COMMIT,         \
			"an update adds to at most PERCPU_STATS_MAX_COMMIT fields") *  \
	 PERCPU_CHECKED(_Alignof(__typeof__(***(h))) >= _Alignof(uint64_t),    \
			"the struct of statistics is not packed"))
#endif

/** Add each field of the struct at delta to the same field of object i, with one commit. */
#define PERCPU_STATS_UPDATE_ALL(h, i, delta)                                   \
	percpu_stats_update(PERCPU_STATS_OF(h), (i), 0,                        \
			    PERCPU_POINTER(const uint64_t *,                   \
					   PERCPU_STATS_TYPED(h, delta)),      \
			    PERCPU_STATS_WORDS(h))

#define PERCPU_STATS_FETCH(h, first, n, out)                                   \
	percpu_stats_fetch(PERCPU_STATS_OF(h), (first), (n), PERCPU_STATS_TYPED(h, out))
#define PERCPU_STATS_SNAPSHOT(h, first, n, out)                                \
	percpu_stats_snapshot(PERCPU_STATS_OF(h), (first), (n), PERCPU_STATS_TYPED(h, out))
#define PERCPU_STATS_FETCH_ZERO(h, first, n, out)                              \
	percpu_stats_fetch_zero(PERCPU_STATS_OF(h), (first), (n), PERCPU_STATS_TYPED(h, out))

/**
 * Add to up to 16 fields with one commit:
 *
 *	PERCPU_STATS_UPDATE(ports, i, .packets = 1, .bytes = len);
 *
 * This is PERCPU_STATS_UPDATE_ALL() with a struct whose other fields are 0. A value converts to
 * uint64_t as in an assignment. For use in functions only.
 */
#define PERCPU_STATS_UPDATE(h, i, ...)                                         \
	__extension__({                                                        \
		__typeof__(***(h)) percpu_delta_ = PERCPU_STATS_NOTHING;       \
		PERCPU_STATS_EACH(PERCPU_STATS_SET, __VA_ARGS__)               \
		PERCPU_STATS_UPDATE_ALL(h, i, &percpu_delta_);                 \
	})

#define PERCPU_STATS_SET(value)                                                \
	PERCPU_ASSERT(PERCPU_STATS_IS_WORD(__typeof__(percpu_delta_ value)),   \
		      "a field of statistics is a uint64_t");                  \
	percpu_delta_ value;

/* Expand set(v) for each of 1 to 16 values v. */
#define PERCPU_STATS_EACH(set, ...)                                            \
	PERCPU_STATS_17TH(__VA_ARGS__, PERCPU_STATS_16, PERCPU_STATS_15,       \
			  PERCPU_STATS_14, PERCPU_STATS_13, PERCPU_STATS_12,   \
			  PERCPU_STATS_11, PERCPU_STATS_10, PERCPU_STATS_9,    \
			  PERCPU_STATS_8, PERCPU_STATS_7, PERCPU_STATS_6,      \
			  PERCPU_STATS_5, PERCPU_STATS_4, PERCPU_STATS_3,      \
			  PERCPU_STATS_2, PERCPU_STATS_1, 0)(set, __VA_ARGS__)
#define PERCPU_STATS_17TH(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, chosen, ...) chosen
#define PERCPU_STATS_1(set, v) set(v)
#define PERCPU_STATS_2(set, v, ...) set(v) PERCPU_STATS_1(set, __VA_ARGS__)
#define PERCPU_STATS_3(set, v, ...) set(v) PERCPU_STATS_2(set, __VA_ARGS__)
#define PERCPU_STATS_4(set, v, ...) set(v) PERCPU_STATS_3(set, __VA_ARGS__)
#define PERCPU_STATS_5(set, v, ...) set(v) PERCPU_STATS_4(set, __VA_ARGS__)
#define PERCPU_STATS_6(set, v, ...) set(v) PERCPU_STATS_5(set, __VA_ARGS__)
#define PERCPU_STATS_7(set, v, ...) set(v) PERCPU_STATS_6(set, __VA_ARGS__)
#define PERCPU_STATS_8(set, v, ...) set(v) PERCPU_STATS_7(set, __VA_ARGS__)
#define PERCPU_STATS_9(set, v, ...) set(v) PERCPU_STATS_8(set, __VA_ARGS__)
#define PERCPU_STATS_10(set, v, ...) set(v) PERCPU_STATS_9(set, __VA_ARGS__)
#define PERCPU_STATS_11(set, v, ...) set(v) PERCPU_STATS_10(set, __VA_ARGS__)
#define PERCPU_STATS_12(set, v, ...) set(v) PERCPU_STATS_11(set, __VA_ARGS__)
#define PERCPU_STATS_13(set, v, ...) set(v) PERCPU_STATS_12(set, __VA_ARGS__)
#define PERCPU_STATS_14(set, v, ...) set(v) PERCPU_STATS_13(set, __VA_ARGS__)
#define PERCPU_STATS_15(set, v, ...) set(v) PERCPU_STATS_14(set, __VA_ARGS__)
#define PERCPU_STATS_16(set, v, ...) set(v) PERCPU_STATS_15(set, __VA_ARGS__)

/* clang-format on */

PERCPU_END_DECLS

#endif
