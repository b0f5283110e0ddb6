/* SPDX-License-Identifier: MIT */
/* slides_published.cc - the tables of the 2016 slides, row by row, beside our figures. */
#include <cstdio>

#include "../cells.h"
#include "slides.h"

#define NOT_HERE "not measured here"

/* An increment on the three machines of the slides, by threads. */
static const struct {
	const char *name, *ours, *x86[2], *armv7[2], *power8[3];
} increments[] = {
	{ "global volatile inc (baseline)",
	  PLAIN,
	  { "2.3", "" },
	  { "5.6", "" },
	  { "6.5", "", "" } },
	{ "per-CPU rseq inc", ADD, { "2.1", "2.6" }, { "40.8", "41.2" }, { "6.8", "7.1", "8.4" } },
	{ SEQ_CMPXCHG,
	  SEQ_CMPXCHG,
	  { "3.0", "3.4" },
	  { "49.6", "50.1" },
	  { "7.0", "10.0", "15.3" } },
	{ SEQ_SPINLOCK,
	  SEQ_SPINLOCK,
	  { "4.9", "5.2" },
	  { "95.9", "96.7" },
	  { "19.3", "24.4", "51.4" } },
	{ LOCKED, LOCKED, { "6.2", "6.9" }, { "56.3", "56.4" }, { "16.3", "17.5", "21.1" } },
	{ CPU_CMPXCHG,
	  CPU_CMPXCHG,
	  { "10.0", "11.6" },
	  { "66.1", "67.1" },
	  { "30.9", "32.5", "49.9" } },
	{ GLOBAL_ATOMIC,
	  GLOBAL_ATOMIC,
	  { "6.2", "134.0" },
	  { "49.6", "82.4" },
	  { "18.5", "1937.6", "4701.8" } },
	{ GLOBAL_CMPXCHG,
	  GLOBAL_CMPXCHG,
	  { "10.0", "356.0" },
	  { "52.9", "181.0" },
	  { "26.9", "4106.2", "12642.6" } },
	{ GLOBAL_MUTEX,
	  GLOBAL_MUTEX,
	  { "19.2", "993.3" },
	  { "155.3", "932.5" },
	  { "400.0", "4167.3", "8462.9" } },
};

static const char here[] =
#if defined(__x86_64__)
	"x86-64";
#elif defined(__aarch64__)
	"ARM64";
#else
	"another architecture";
#endif

using table = std::vector<std::vector<std::string>>;

static void print_x86(const results &r)
{
	table lines = { { "", "publ. 1", "8", "here 1", "2", "8", "lost" } };

	for (auto &p : increments) {
		lines.push_back({ p.name, p.x86[0], p.x86[1] });
		for (int threads : { 1, 2, 8 })
			lines.back().push_back(median_best(r.find(p.ours, threads)));
		lines.back().push_back(worst_loss(r, p.ours));
	}
	printf("\nRestartable sequences, 2016 slides: counter increment, ns, CPU time per thread\n"
	       "Published: x86-64, a Xeon E5-2630 v3. Here: %s; median (best), and 8 threads share "
	       "%zu CPUs.\n\n",
	       here, usable_cpus().size());
	print_table(lines);
}

/* The slides have no figures for ARM64: they ask whether they would be like these. */
static void print_others()
{
	table lines = { { "", "ARMv7 1", "2", "here", "ARM64", "here", "Power8 1", "16", "32",
			  "here" } };
	const std::string arm64 = std::string(here) == "ARM64" ? "the table above" : NOT_HERE;

	for (auto &p : increments)
		lines.push_back({ p.name, p.armv7[0], p.armv7[1], NOT_HERE, "-", arm64, p.power8[0],
				  p.power8[1], p.power8[2], NOT_HERE });
	printf("\nThe same on their other machines: ARMv7, a Cubietruck; Power8, a guest with 64 "
	       "CPUs.\nThey have no figures for ARM64.\n\n");
	print_table(lines);
}

void print_increments(report &all)
{
	print_x86(all.rows);
	print_others();
	if (std::string(here) != "x86-64")
		all.skip("x86-64 of the slides",
			 "not measured here: this machine is of another kind");
	if (std::string(here) != "ARM64")
		all.skip("ARM64", "not measured here: this machine is of another kind");
	all.skip("ARMv7 of the slides", "not measured here, and without sequences: tier cpu");
	all.skip("Power8 of the slides", "not measured here, and without sequences: tier cpu");
}

void print_cpu_number(const results &r)
{
	static const struct {
		const char *name, *armv7, *x86, *ours;
	} published[] = {
		{ "empty loop (baseline)", "8.4", "0.8", CPU_EMPTY },
		{ "rseq cpu_id", "16.7", "0.8", CPU_AREA },
		{ "rseq cpu_id, lazy register", "19.8", "0.8", CPU_LAZY },
		{ "gs segment selector", "", "0.8", CPU_GS },
		{ "lsl", "", "13.0", CPU_LSL },
		{ "getcpu of glibc, by the vDSO", "301.8", "16.6", CPU_GETCPU },
		{ "getcpu system call", "234.9", "53.9", CPU_CALL },
		{ "rdpid, in place of lsl", "", "", CPU_RDPID },
	};
	table lines = { { "", "ARMv7", "here", "x86-64", "here" } };
	auto area = r.ratio(CPU_GETCPU, 1, CPU_AREA, 1);

	for (auto &p : published)
		lines.push_back({ p.name, p.armv7, *p.armv7 ? NOT_HERE : "", p.x86,
				  median_best(r.find(p.ours)) });
	printf("\nThe CPU number, 2016 slides, ns; the last column: %s\n\n", here);
	print_table(lines);
	printf("\ngetcpu to cpu_id: published 35 on ARMv7, less the empty loop, and 20 on x86-64, with it;\n"
	       "here, with it, %s.\n"
	       "A segment per CPU takes a kernel (lgdt). Here gs begins at the thread's rseq area, and "
	       "the load is\nthe same. rdpid reads what lsl reads, without a segment.\n",
	       ratio_text(area).c_str());
}
