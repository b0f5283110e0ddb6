/* SPDX-License-Identifier: MIT */
/* report_text.cc - print figures, tables, and the sections at the end of every benchmark. */
#include <algorithm>
#include <cstdarg>
#include <cstdio>

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

std::string ratio_text(std::optional<double> ratio)
{
	return ratio ? text("%.2f", *ratio) : "-";
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
	printf("\nConditions\n\n");
	for (auto &[what, value] : conditions())
		printf("%-24s%s\n", what.c_str(), value.c_str());
	if (!skipped.empty())
		printf("\nSkipped\n\n");
	for (auto &[what, why] : skipped)
		printf("%-44s%s\n", what.c_str(), why.c_str());
	if (!aims.empty())
		printf("\nAims: ratios of medians within this run\n\n");

	size_t width = 44;

	for (auto &a : aims)
		width = std::max(width, a.what.size() + 2);
	for (auto &a : aims)
		printf("%-*sat most %.2f  %s  %s\n", int(width), a.what.c_str(), a.at_most,
		       ratio_text(a.ratio).c_str(), a.verdict());
}
