/* SPDX-License-Identifier: MIT */
/*
 * mmv.h - updates of the memory-mapped values of Performance Co-Pilot, as contenders of add.h,
 * if its library is installed: by descriptors that were looked up once, as in its documentation.
 */
#ifndef BENCH_MMV_H
#define BENCH_MMV_H

#include <deque>
#include <string>

#include "add.h"

#ifdef HAVE_MMV
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pcp/pmapi.h>

#include <pcp/mmv_stats.h>

/* 8 values of each type in a file in memory, like segments. No process reads it. */
struct mmv_values {
	static constexpr mmv_metric_type_t types[] = { MMV_TYPE_U64, MMV_TYPE_I64,
						       MMV_TYPE_DOUBLE };
	static inline void *map;

	static std::string name_of(mmv_metric_type_t type, unsigned i)
	{
		return "value." + std::to_string(type) + "." + std::to_string(i);
	}

	/* Open the file. Returns NULL, or what is missing. */
	static const char *open()
	{
		char dir[] = "/dev/shm/percpu-bench-XXXXXX";

		if (!mkdtemp(dir))
			return "no directory in /dev/shm";

		const std::string inner = std::string(dir) + "/mmv", file = inner + "/values";

		setenv("PCP_TMP_DIR", dir, 1);
		if (mkdir(inner.c_str(), 0700) == 0)
			start();
		unlink(file.c_str());
		rmdir(inner.c_str());
		rmdir(dir);
		return map ? nullptr : "it could not make its file";
	}

      private:
	static void start()
	{
		mmv_registry_t *r = mmv_stats_registry("values", 1, MMV_FLAG_PROCESS);
		const pmUnits units = MMV_UNITS(0, 0, 1, 0, 0, PM_COUNT_ONE);
		std::deque<std::string> names; /* must not move until all have started */

		for (mmv_metric_type_t type : types)
			for (unsigned i = 0; r && i < cells; i++) {
				names.push_back(name_of(type, i));
				mmv_stats_add_metric(r, names.back().c_str(), int(names.size()),
						     type, MMV_SEM_COUNTER, units,
						     int(MMV_INDOM_NULL), nullptr, nullptr);
			}
		map = r ? mmv_stats_start(r) : nullptr;
	}
};

template <mmv_metric_type_t type> struct on_mmv {
	static constexpr bool loses = true;
	static inline pmAtomValue *value[cells];
	void *const map = mmv_values::map;

	static void make()
	{
		for (unsigned i = 0; i < cells; i++) {
			const std::string name = mmv_values::name_of(type, i);

			value[i] = mmv_lookup_value_desc(mmv_values::map, name.c_str(), nullptr);
			must(value[i] ? 0 : -ENOENT, "a value of PCP");
		}
	}
	static void reset()
	{
		for (auto v : value)
			mmv_set_value(mmv_values::map, v, 0);
	}
	static double total()
	{
		double sum = 0;

		for (auto v : value)
			sum += type == MMV_TYPE_DOUBLE ? v->d : double(v->ull);
		return sum;
	}
};

struct mmv_counter : on_mmv<MMV_TYPE_U64> {
	[[gnu::always_inline]] void add(unsigned i)
	{
		mmv_inc(map, value[i]);
	}
};

struct mmv_gauge : on_mmv<MMV_TYPE_I64> {
	[[gnu::always_inline]] void add(unsigned i)
	{
		int64_t n = 1;

		mmv_add(map, value[i], &n);
	}
};

struct mmv_fcounter : on_mmv<MMV_TYPE_DOUBLE> {
	[[gnu::always_inline]] void add(unsigned i)
	{
		mmv_inc_value(map, value[i], 1.0);
	}
};
#endif

#endif
