/* SPDX-License-Identifier: MIT */
/* owned.hpp - gauges in which each process has a share that ends with the process. */
#ifndef PERCPU_CPP_OWNED_HPP
#define PERCPU_CPP_OWNED_HPP

#include <percpu/cpp/counts.hpp>
#include <percpu/owned.h>

namespace percpu
{
namespace detail
{

/* They are in segments only: owners need a file. */
struct owned_gauge_calls {
	using object = percpu_owned_gauge;
	using options = unsigned;
	using value = int64_t;
	static constexpr auto kind = PERCPU_METRIC_OWNED_GAUGE;
	static constexpr auto add = percpu_owned_gauge_add;
	static constexpr auto set = percpu_owned_gauge_set;
	static constexpr auto fetch = percpu_owned_gauge_fetch;
	static void describe(percpu_declaration &d, unsigned rule) noexcept
	{
		d.flags = rule;
	}
	static int declare(percpu_segment *s, const percpu_metric &m, unsigned rule,
			   object **ret) noexcept
	{
		return percpu_segment_owned_gauge(s, &m, rule, ret);
	}
};

struct owned_fgauge_calls {
	using object = percpu_owned_fgauge;
	using options = unsigned;
	using value = double;
	static constexpr auto kind = PERCPU_METRIC_OWNED_FGAUGE;
	static constexpr auto add = percpu_owned_fgauge_add;
	static constexpr auto set = percpu_owned_fgauge_set;
	static constexpr auto fetch = percpu_owned_fgauge_fetch;
	static void describe(percpu_declaration &d, unsigned rule) noexcept
	{
		d.flags = rule;
	}
	static int declare(percpu_segment *s, const percpu_metric &m, unsigned rule,
			   object **ret) noexcept
	{
		return percpu_segment_owned_fgauge(s, &m, rule, ret);
	}
};

} // namespace detail

/** An owned gauge (owned.h). Its option is the rule, with flags beside it; the default is
 *  PERCPU_OWNED_SUM. */
template <class Calls> class basic_owned_gauge : public handle<Calls>
{
      public:
	using value = typename Calls::value;

	using handle<Calls>::handle;
	[[gnu::always_inline]] int add(value n) const noexcept
	{
		return Calls::add(this->to, n);
	}
	[[gnu::always_inline]] int inc() const noexcept
	{
		return add(1);
	}
	[[gnu::always_inline]] int dec() const noexcept
	{
		return add(-1);
	}
	int set(value v) const noexcept
	{
		return Calls::set(this->to, v);
	}
	/** Fold the shares; nothing if no process has one, and the rule is not PERCPU_OWNED_SUM. */
	std::optional<value> fetch(percpu_owned_of whose, std::error_code &ec) const noexcept
	{
		value v = 0;
		int e = Calls::fetch(this->to, whose, &v);
		const auto r = detail::fetched(e, v);

		ec = detail::code_of(e);
		return r;
	}
#ifdef __cpp_exceptions
	std::optional<value> fetch(percpu_owned_of whose = PERCPU_OWNED_LIVING) const
	{
		value v = 0;
		int e = Calls::fetch(this->to, whose, &v);
		const auto r = detail::fetched(e, v);

		detail::check_plain(e);
		return r;
	}
#endif
};

using owned_gauge = basic_owned_gauge<detail::owned_gauge_calls>;
using owned_fgauge = basic_owned_gauge<detail::owned_fgauge_calls>;

} // namespace percpu

#endif
