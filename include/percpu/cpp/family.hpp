/* SPDX-License-Identifier: MIT */
/* family.hpp - metrics whose label values are only known at run time. */
#ifndef PERCPU_CPP_FAMILY_HPP
#define PERCPU_CPP_FAMILY_HPP

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <percpu/cpp/segment.hpp>
#include <percpu/family.h>

namespace percpu
{

/**
 * A family (family.h) of a kind, with N labels.
 *
 *	percpu::family<percpu::counter, 2> f{ file, "requests_total", { "method", "code" }, 9 };
 *
 *	f.add(1, "GET", "200");
 *	f.with("GET", "404").inc();
 *
 * It is a handle. A call with another number of values than N does not compile. Values are anything
 * that converts to std::string_view: they need no 0 at the end, and no call allocates for them.
 */
template <class Kind, size_t N> class family
{
      public:
	using options = typename Kind::options;

	constexpr family() noexcept = default;
#ifdef __cpp_exceptions
	/** Find or create the family, as percpu_segment_family(), with these names of labels and at
	 *  most cap series beside the overflow. The metric has no labels of its own. */
	family(segment &s, const metric &m, const char *const (&labels)[N], size_t cap,
	       const options &o = {})
	{
		detail::check(declare(s, m, labels, cap, o));
	}
#endif
	family(segment &s, const metric &m, const char *const (&labels)[N], size_t cap,
	       const options &o, std::error_code &ec) noexcept
	{
		ec = detail::code_of(declare(s, m, labels, cap, o));
	}
	family(segment &s, const metric &m, const char *const (&labels)[N], size_t cap,
	       std::error_code &ec) noexcept
		: family(s, m, labels, cap, {}, ec)
	{
	}
	constexpr explicit operator bool() const noexcept
	{
		return to != nullptr;
	}
	constexpr percpu_family *get() const noexcept
	{
		return to;
	}

	/** Return the handle of the series with these values, as percpu_family_series(). Without
	 *  room, or if a value cannot be a label's, it is that of the overflow. On an error it is
	 *  false: the file is damaged. Here ec comes first. */
	template <class... Values>
	[[nodiscard]] Kind with(std::error_code &ec, const Values &...values) const noexcept
	{
		typename Kind::object *found = nullptr;

		ec = detail::code_of(find(found, values...));
		return Kind(found);
	}
#ifdef __cpp_exceptions
	template <class... Values> [[nodiscard]] Kind with(const Values &...values) const
	{
		typename Kind::object *found = nullptr;

		detail::check(find(found, values...));
		return Kind(found);
	}
#endif
	/** Add n to the series with these values. Returns 0, or -EBADMSG: the file is damaged, and
	 *  nothing was added; or what the kind's add() returns. */
	template <class Number, class... Values>
	int add(Number n, const Values &...values) const noexcept
	{
		static_assert(!counts_whole || std::is_integral_v<Number>,
			      "a series of integers counts whole numbers");
		typename Kind::object *found = nullptr;
		int e = find(found, values...);

		if (e == 0) {
			if constexpr (std::is_void_v<decltype(Kind(found).add(n))>)
				Kind(found).add(n);
			else
				e = Kind(found).add(n);
		}
		return e;
	}
	/** Record a value or a duration in the histogram with these values, as add(). */
	template <class Value, class... Values>
	int record(Value v, const Values &...values) const noexcept
	{
		typename Kind::object *found = nullptr;
		const int e = find(found, values...);

		if (e == 0)
			Kind(found).record(v);
		return e;
	}

	/** How many calls, in all processes, got the overflow for want of room. */
	uint64_t overflows() const noexcept
	{
		return percpu_family_overflows(to);
	}
	/** How many calls got it because a value could not be a label's. */
	uint64_t invalid() const noexcept
	{
		return percpu_family_invalid(to);
	}

      private:
	static constexpr bool counts_whole = Kind::calls::kind == PERCPU_METRIC_COUNTER ||
					     Kind::calls::kind == PERCPU_METRIC_GAUGE ||
					     Kind::calls::kind == PERCPU_METRIC_OWNED_GAUGE;

	int declare(segment &s, const metric &m, const char *const (&labels)[N], size_t cap,
		    const options &o) noexcept
	{
		const percpu_metric in_c = m.get();
		percpu_declaration d =
			percpu_declaration_of(Kind::calls::kind, in_c.name, in_c.help);

		d.unit = in_c.unit;
		d.label_names = labels;
		d.label_values = in_c.label_values; /* refused, unless there are none */
		d.labels = N;
		d.cap = cap;
		Kind::calls::describe(d, o);
		return percpu_segment_family(s.get(), &d, &to);
	}
	template <class... Values>
	int find(typename Kind::object *&found, const Values &...values) const noexcept
	{
		static_assert(sizeof...(Values) == N, "one value for each label of the family");
		const std::string_view views[] = { std::string_view(values)... };
		percpu_text texts[N];
		void *object = nullptr;

		for (size_t i = 0; i < N; i++)
			texts[i] = { views[i].empty() ? "" : views[i].data(), views[i].size() };

		const int e = percpu_family_series(to, Kind::calls::kind, texts, &object);

		found = static_cast<typename Kind::object *>(object);
		return e;
	}

	percpu_family *to = nullptr;
};

} // namespace percpu

#endif
