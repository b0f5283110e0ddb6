/* SPDX-License-Identifier: MIT */
/* events.cc - see events.h. */
#include "events.h"

#ifdef HAVE_LIBPFM
#include <perfmon/pfmlib_perf_event.h>
#endif

/* 2.81e14 is 2^48: counters of that CPU have 48 bits, and those figures are no counts. */
const std::vector<event> events = {
	{ "L1 retired loads hits",
	  "1.65e9",
	  "1.69e9",
	  "2.81e14",
	  { "MEM_LOAD_RETIRED:L1D_HIT", "MEM_LOAD_RETIRED:L1_HIT", "perf::L1-DCACHE-LOADS" } },
	{ "L1 prefetch requests",
	  "6.73e7",
	  "1.04e9",
	  "6.98e4",
	  { "L1D_PREFETCH:REQUESTS", "perf::L1-DCACHE-PREFETCHES" } },
	{ "L1 prefetch misses",
	  "4.84e7",
	  "1.03e9",
	  "2.58e4",
	  { "L1D_PREFETCH:MISS", "perf::L1-DCACHE-PREFETCH-MISSES" } },
	{ "L2 requests (code & data)", "1.67e8", "2.81e14", "3.10e5", { "L2_RQSTS:REFERENCES" } },
	{ "L2 misses (code & data)", "1.33e8", "2.81e14", "1.83e5", { "L2_RQSTS:MISS" } },
	{ "L2 requests loads",
	  "6.21e7",
	  "1.03e9",
	  "8.60e4",
	  { "L2_RQSTS:LOADS", "L2_RQSTS:ALL_DEMAND_DATA_RD", "REQUESTS_TO_L2_GROUP1:RD_BLK_L" } },
	{ "L2 requests load hits",
	  "1.77e7",
	  "1.94e6",
	  "1.78e4",
	  { "L2_RQSTS:LD_HIT", "L2_RQSTS:DEMAND_DATA_RD_HIT" } },
	{ "L2 requests load misses",
	  "4.83e7",
	  "1.03e9",
	  "5.97e4",
	  { "L2_RQSTS:LD_MISS", "L2_RQSTS:DEMAND_DATA_RD_MISS" } },
	{ "L2 requests RFOs",
	  "3.65e7",
	  "1.04e9",
	  "3.74e4",
	  { "L2_RQSTS:RFOS", "L2_RQSTS:ALL_RFO", "REQUESTS_TO_L2_GROUP1:RD_BLK_X" } },
	{ "L2 requests RFO hits", "2.12e6", "8.29e4", "5.33e3", { "L2_RQSTS:RFO_HIT" } },
	{ "L2 requests RFO misses", "3.56e7", "1.04e9", "2.71e4", { "L2_RQSTS:RFO_MISS" } },
	{ "L2 requests prefetches",
	  "6.62e7",
	  "2.10e9",
	  "1.35e5",
	  { "L2_RQSTS:PREFETCHES", "L2_RQSTS:ALL_PF" } },
	{ "L2 requests prefetch hits",
	  "1.56e7",
	  "1.04e9",
	  "3.27e4",
	  { "L2_RQSTS:PREFETCH_HIT", "L2_RQSTS:PF_HIT" } },
	{ "L2 requests prefetch misses",
	  "4.87e7",
	  "1.06e9",
	  "1.01e5",
	  { "L2_RQSTS:PREFETCH_MISS", "L2_RQSTS:PF_MISS" } },
	{ "L2 requests (all)", "1.30e8", "2.81e14", "2.16e5", { "L2_DATA_RQSTS:ANY" } },
	{ "L2 demand requests",
	  "6.38e7",
	  "1.03e9",
	  "8.74e4",
	  { "L2_DATA_RQSTS:DEMAND_MESI", "L2_RQSTS:ALL_DEMAND_REFERENCES" } },
	{ "L2 prefetch requests", "6.02e7", "2.08e9", "1.14e5", { "L2_DATA_RQSTS:PREFETCH_MESI" } },
	{ "L2 store RFO requests", "3.83e7", "4.45e6", "3.83e4", { "L2_WRITE:RFO_MESI" } },
	{ "L2 store RFO hits", "2.33e6", "3.60e5", "1.46e4", { "L2_WRITE:RFO_HIT" } },
	{ "L2 demand lock RFO requests", "101", "1.04e9", "108", { "L2_WRITE:LOCK_MESI" } },
	{ "L2 demand lock RFO hits", "66", "6.73e4", "81", { "L2_WRITE:LOCK_HIT" } },
	{ "L2 demand lock RFO miss", "38", "1.03e9", "41", { "L2_WRITE:LOCK_I_STATE" } },
};

std::optional<encoding> encode(const std::string &name)
{
#ifdef HAVE_LIBPFM
	static const int ready = pfm_initialize();
	perf_event_attr attr = {};
	pfm_perf_encode_arg_t arg = {};

	arg.attr = &attr;
	arg.size = sizeof(arg);
	if (ready == PFM_SUCCESS &&
	    pfm_get_os_event_encoding(name.c_str(), PFM_PLM3, PFM_OS_PERF_EVENT, &arg) ==
		    PFM_SUCCESS)
		return encoding{ attr.type, attr.config };
#else
	(void)name;
#endif
	return {};
}

std::optional<encoding> encode_first(const std::vector<const char *> &names)
{
	for (const char *name : names)
		if (auto found = encode(name))
			return found;
	return {};
}

event_counts::event_counts()
{
#ifdef HAVE_LIBPFM
	const char *const no_event = "this CPU has no such event";
#else
	const char *const no_event = "built without libpfm4";
#endif

	for (const event &e : events) {
		auto found = encode_first(e.names);

		if (found)
			counters.push_back({ perf_counter(*found), "" });
		else
			counters.push_back({ {}, no_event });
	}
}

std::optional<double> event_counts::of(size_t n) const
{
	return counters[n].events ? counters[n].events->count() : std::nullopt;
}

std::string event_counts::why_not(size_t n) const
{
	return counters[n].events ? counters[n].events->why_not() : counters[n].no_event;
}
