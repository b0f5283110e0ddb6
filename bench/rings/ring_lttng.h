/* SPDX-License-Identifier: MIT */
/* ring_lttng.h - lttng-ust, to compare rings with: its daemon, sessions, and events. */
#ifndef BENCH_RING_LTTNG_H
#define BENCH_RING_LTTNG_H

#include <stddef.h>
#include <stdint.h>

#define LTTNG "lttng-ust"

#ifdef __cplusplus
#include <string>

#include <sys/types.h>

/* A daemon that ends with the benchmark, and measurements with it. */
class lttng
{
      public:
	lttng() = default;
	~lttng();

	/* Start the daemon, and two sessions with "bytes" of buffers per CPU each: one that
	 * overwrites and has no reader; one that drops events for which its reader has no time.
	 * Loads the module. Returns why there is none, or "". */
	std::string start(size_t bytes);
	void stop();

	/* Return how many events the reader had no time for, in all; -1 if that is not known. */
	int64_t discarded() const;

	/* Emit n events of size bytes. */
	void emit(bool drop, size_t size, uint64_t n) const
	{
		emitter(drop, size, n);
	}

	/* Emit n events of 16 bytes to new buffers of that size, while their reader is stopped.
	 * Returns how many are read afterwards; -1 if something failed. */
	int64_t kept(bool drop, size_t bytes, uint64_t n);

      private:
	bool run(const std::string &command) const;
	bool session(const std::string &name, bool drop, size_t bytes) const;
	void stop_reader(int signo) const;

	std::string dir;
	pid_t daemon = -1;
	void (*emitter)(int drop, size_t size, uint64_t n) = nullptr;
};

extern "C"
#endif
	void
	ring_lttng_emit(int drop, size_t size, uint64_t n);

#endif
