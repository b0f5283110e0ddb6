/* SPDX-License-Identifier: MIT */
/* report_text.cc - print figures, tables, and the sections at the end of every benchmark. */
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <tuple>

#include "report.h"

std::string text(const char *format, ...)
{
	char buf[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(buf, sizeof(buf), format, ap);
	va_end(ap);
	return buf;
}

std::string ns_text(double ns)
{
	return text(ns < 10 ? "%.2f" : ns < 1000 ? "%.1f" : "%.0f", ns);
}

std::string median_best(const row *r)
{
	return r ? ns_text(r->median()) + " (" + ns_text(r->best()) + ")" : "-";
}

std::string ratio_text(const std::optional<median_ratio> &ratio)
{
	if (!ratio)
		return "-";
	if (!ratio->interval)
		return text("%.2f", ratio->value);
	return text("%.2f [%.2f, %.2f]", ratio->value, ratio->interval->first,
		    ratio->interval->second);
}

std::string loss(const row *r)
{
	if (!r || !r->lost)
		return "-";
	return *r->lost == 0 ? "0" : text("%.3g %%", *r->lost / r->ops * 100);
}

std::string worst_loss(const results &r, const std::string &name)
{
	const row *worst = nullptr;

	for (int threads : { 1, 2, 8 }) {
		const row *x = r.find(name, threads);

		if (x && x->lost && (!worst || *x->lost / x->ops > *worst->lost / worst->ops))
			worst = x;
	}
	return loss(worst);
}

void print_rows(const results &r, const char *title, const std::vector<std::string> &names)
{
	printf("\n%s\n\n%-44s%-18s%-18s%s\n", title, "", "1 thread", "2 threads", "lost");
	for (auto &name : names)
		if (r.find(name))
			printf("%-43s %-18s%-18s%s\n", name.c_str(),
			       median_best(r.find(name, 1)).c_str(),
			       median_best(r.find(name, 2)).c_str(), worst_loss(r, name).c_str());
}

/* Print a name in a column; in a line of its own if it is too long. */
static void print_name(const std::string &name, size_t width)
{
	if (name.size() >= width)
		printf("%s\n%*s", name.c_str(), int(width), "");
	else
		printf("%-*s", int(width), name.c_str());
}

/* Print a row's statistics in the unit that fits its median. */
static void print_sample(const row &r)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 } };
	const summary s = summarize(r.ns);
	auto unit = std::begin(units);

	while (unit->ns > 1 && s.median < unit->ns)
		unit++;
	print_name(r.name, 40);
	printf("%7d%6zu", r.threads, s.n);
	for (double ns : { s.min, s.max, s.median, s.mean })
		printf(" %7s", ns_text(ns / unit->ns).c_str());
	printf(" %7s %s\n", s.deviation ? ns_text(*s.deviation / unit->ns).c_str() : "-",
	       unit->name);
}

void results::print_samples() const
{
	std::vector<row> sorted = rows;

	if (!rows.empty())
		printf("\nAll rows: statistics of the repetitions\n\n%-40s%7s%6s %7s %7s %7s %7s %7s\n",
		       "", "threads", "N", "min", "max", "median", "mean", "dev.");
	std::sort(sorted.begin(), sorted.end(), [](const row &a, const row &b) {
		return std::tie(a.name, a.threads) < std::tie(b.name, b.threads);
	});
	for (auto &r : sorted)
		print_sample(r);
}

void print_table(const std::vector<std::vector<std::string>> &lines)
{
	std::vector<size_t> widths;

	for (auto &line : lines) {
		widths.resize(std::max(widths.size(), line.size()));
		for (size_t i = 0; i < line.size(); i++)
			widths[i] = std::max(widths[i], line[i].size());
	}
	for (auto &line : lines) {
		for (size_t i = 0; i < line.size(); i++)
			printf(i == 0 ? "%-*s" : "  %*s", int(widths[i]), line[i].c_str());
		puts("");
	}
}

void report::print_sections() const
{
	rows.print_samples();
	printf("\nConditions\n\n");
	for (auto &[what, value] : conditions())
		printf("%-24s%s\n", what.c_str(), value.c_str());
	if (!skipped.empty())
		printf("\nSkipped\n\n");
	for (auto &[what, why] : skipped)
		printf("%-44s%s\n", what.c_str(), why.c_str());
	if (!aims.empty())
		printf("\nAims: ratios of medians within this run, and their 95 %% intervals\n\n");

	for (auto &a : aims) {
		print_name(a.what, 56);
		printf("at most %.2f  %s  %s\n", a.at_most, ratio_text(a.ratio).c_str(),
		       a.verdict());
	}
}
