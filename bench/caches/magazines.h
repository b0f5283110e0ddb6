/* SPDX-License-Identifier: MIT */
/*
 * magazines.h - a sketch of the original design of object caches: two magazines of objects per
 * CPU, the loaded and the other one, exchanged by one store, over a depot of full and empty
 * magazines. The benchmark of object caches measures it beside the library's one array per CPU.
 *
 * It is for measuring only: on x86-64, with one thread per CPU, so that two threads never visit
 * a CPU's depot at once.
 */
#ifndef BENCH_MAGAZINES_H
#define BENCH_MAGAZINES_H

#if defined(__x86_64__)

#include <pthread.h>

#include <vector>

#include <percpu/local.h>
#include <percpu/percpu.h>

/* The layout that a sequence expects: a CPU's word points to count. The other magazine's pointer
 * is before it, and the objects are behind it. */
struct magazine {
	magazine *next; /* in the depot */
	uint64_t *other;
	uint64_t count; /* the objects follow */

	static magazine *make(uint64_t room);
	static magazine *of(uint64_t *count);
};

class magazines
{
      public:
	magazines(uint64_t room, size_t bytes);

	/* With the same checks as the library's, for a limit and for waiting threads. */
	[[gnu::always_inline]] void *get()
	{
		void *obj;

		return try_get(&obj) == 0 ? obj : nullptr;
	}
	[[gnu::always_inline]] void put(void *obj)
	{
		uint64_t seen = __atomic_load_n(&room, __ATOMIC_RELAXED);

		if (percpu_unlikely(!obj || push(cell, guard, stride, seen, obj)))
			put_slow(obj);
		else if (percpu_unlikely(__atomic_load_n(&room, __ATOMIC_RELAXED) != seen))
			put_slow(nullptr);
	}

      private:
	struct shelf {
		alignas(128) pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
		magazine *full = nullptr, *empty = nullptr;
	};

	char *cell, *guard;
	size_t stride;
	uint64_t room PERCPU_ALIGNED_WORD; /* atomic in the library */
	percpu_counter *requests;
	alignas(128) size_t bytes;
	percpu_local *words;
	std::vector<shelf> depot;

	[[gnu::always_inline]] int try_get(void **ret)
	{
		void *obj;

		if (percpu_unlikely(pop(cell, guard, stride, &obj)))
			return get_slow(ret);
		percpu_counter_inc(requests);
		*ret = obj;
		return 0;
	}
	int get_slow(void **ret);
	void put_slow(void *obj);
	bool visit(bool wants_full);

	/* percpu_seq_pop() and percpu_seq_push(), for the loaded magazine. */
	[[gnu::always_inline]] static inline int pop(void *cell, const void *guard, size_t stride,
						     void **ret)
	{
		uint64_t i;
		void *item;

		__asm__ __volatile__ goto(
			PERCPU_SEQ_BEGIN_GUARDED(
				"magazine_pop") "movq (%%rax), %%rax\n\t"
						"movq (%%rax), %[i]\n\t"
						"testq %[i], %[i]\n\t" PERCPU_SEQ_REFUSE_IF(
							"z") "movq (%%rax, %[i], 8), %[item]\n\t"
							     "decq (%%rax)\n" PERCPU_SEQ_END
			: [i] "=&r"(i), [item] "=&r"(item)
			: PERCPU_SEQ_GUARDED:PERCPU_SEQ_CLOBBERS
			: slow, refused);
		*ret = item;
		return 0;
		PERCPU_SEQ_EXIT_REFUSED
		PERCPU_SEQ_EXIT
	}
	[[gnu::always_inline]] static inline int push(void *cell, const void *guard, size_t stride,
						      uint64_t limit, void *item)
	{
		uint64_t i;

		__asm__ __volatile__ goto(
			PERCPU_SEQ_BEGIN_GUARDED(
				"magazine_push") "movq (%%rax), %%rax\n\t"
						 "movq (%%rax), %[i]\n\t"
						 "cmpq %[limit], %[i]\n\t" PERCPU_SEQ_REFUSE_IF(
							 "ae") "movq %[item], 8(%%rax, %[i], 8)\n\t"
							       "incq (%%rax)\n" PERCPU_SEQ_END
			: [i] "=&r"(i)
			: PERCPU_SEQ_GUARDED, [limit] "re"(limit), [item] "r"(item)
			: PERCPU_SEQ_CLOBBERS
			: slow, refused);
		return 0;
		PERCPU_SEQ_EXIT_REFUSED
		PERCPU_SEQ_EXIT
	}
};

#endif
#endif
