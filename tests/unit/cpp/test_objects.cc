/* SPDX-License-Identifier: MIT */
/* test_objects.cc - each class with an object in memory of the process, and who owns that. */
#include <type_traits>
#include <utility>

#include "cpp.h"

template <class T>
constexpr bool is_handle = std::is_trivially_copyable_v<T> && sizeof(T) == sizeof(void *);

template <class T>
constexpr bool is_owner =
	!std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
	std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>;

struct port {
	uint64_t packets, bytes, by_size[2];
};

/* Passed in a register, as the pointer in C. */
static_assert(is_handle<percpu::counter> && is_handle<percpu::latency<>> &&
	      is_handle<percpu::extrema<double>> && is_handle<percpu::stats<port>> &&
	      is_handle<percpu::owned_gauge> && is_handle<percpu::family<percpu::counter, 2>>);
static_assert(is_owner<percpu::segment> && is_owner<percpu::unique<percpu::counter>>);
static_assert(std::is_nothrow_copy_constructible_v<percpu::error>);

static void counters(void **)
{
	const auto c = percpu::make<percpu::counter>();
	const auto f = percpu::make<percpu::fcounter>();

	c->add(5);
	c->inc();
	assert_int_equal(c->fetch(), 6);
	assert_int_equal(c->fetch_zero(), 6);
	c->inc();
	c->zero();
	assert_int_equal(c->fetch(), 0);
	assert_int_equal(f->add(0.5), 0);
	assert_int_equal(f->add(HUGE_VAL), -EDOM);
	holds(f->fetch() == 0.5 && f->fetch_zero() == 0.5 && f->fetch() == 0);
	(void)f->add(1);
	f->zero();
	holds(f->fetch() == 0);
}

static void gauges(void **)
{
	const auto g = percpu::make<percpu::gauge>();
	const auto f = percpu::make<percpu::fgauge>();

	g->add(7);
	g->sub(2);
	g->inc();
	g->inc();
	g->dec();
	assert_int_equal(g->fetch(), 6);
	assert_int_equal(g->set(-3), 0);
	assert_int_equal(g->fetch(), -3);
	assert_int_equal(f->add(1.5), 0);
	assert_int_equal(f->sub(0.25), 0);
	holds(f->fetch() == 1.25);
	assert_int_equal(f->set(NAN), -EDOM);
	assert_int_equal(f->set(8), 0);
	holds(f->fetch() == 8);
}

static void latest_values(void **)
{
	using std::chrono::system_clock;
	const auto l = percpu::make<percpu::latest>();
	const auto before = system_clock::now();
	std::error_code ec = std::make_error_code(std::errc::io_error);

	holds(!l->fetch(ec).has_value() && !ec);
	holds(!l->fetch().has_value());
	assert_int_equal(l->set(2.5), 0);

	const auto now = l->fetch();

	holds(now && now->value == 2.5);
	holds(now->when >= before - std::chrono::seconds(1) &&
	      now->when <= system_clock::now() + std::chrono::seconds(1));
	(void)percpu::latest().fetch(ec);
	holds(ec == std::errc::invalid_argument);
	assert_throws([] { (void)percpu::latest().fetch(); }, std::errc::invalid_argument,
		      percpu_strerror(-EINVAL));
}

template <class T> static void extrema_of()
{
	const auto x = percpu::make<percpu::extrema<T>>();
	std::error_code ec;

	holds(percpu_extrema_is_double(x->get()) == std::is_same_v<T, double>);
	holds(!x->fetch(ec).has_value() && !ec);
	holds(!x->fetch().has_value());
	assert_int_equal(x->observe(3), 0);
	assert_int_equal(x->observe(-4), 0);

	const auto now = x->fetch();

	holds(now && now->min == -4 && now->max == 3);
	x->reset();
	holds(!x->fetch(ec).has_value() && !ec);
	(void)x->observe(1);
	x->reset(ec);
	holds(!ec && !x->fetch().has_value());
	percpu::extrema<T>().reset(ec);
	holds(ec == std::errc::invalid_argument);
}

static void extrema(void **)
{
	extrema_of<int64_t>();
	extrema_of<double>();
}

static void statistics(void **)
{
	const auto s = percpu::make<percpu::stats<port>>();
	std::error_code ec = left();

	s->add(&port::bytes, 100);
	s->add(&port::by_size, 1, 7);
	assert_int_equal(s->update({ 1, 20, { 3, 0 } }), 0);
	holds(s->fetch(ec).bytes == 120 && !ec);
	for (const port now : { s->fetch(), s->snapshot(), s->snapshot(ec), s->fetch(ec) }) {
		assert_int_equal(now.packets, 1);
		assert_int_equal(now.bytes, 120);
		assert_int_equal(now.by_size[0], 3);
		assert_int_equal(now.by_size[1], 7);
	}
	assert_int_equal(s->fetch_zero().bytes, 120);
	s->add(&port::packets, 2);
	assert_int_equal(s->fetch_zero(ec).packets, 2);
	assert_int_equal(s->fetch().packets, 0);
	assert_int_equal(percpu::stats<port>().fetch(ec).packets, 0);
	holds(ec == std::errc::invalid_argument);
	assert_throws([] { (void)percpu::stats<port>().snapshot(); }, std::errc::invalid_argument,
		      percpu_strerror(-EINVAL));
}

static void histograms(void **)
{
	percpu::histogram_options o;
	std::error_code ec = left();

	o.max = 65536;
	o.ticks_per_unit = 1;

	const auto h = percpu::make<percpu::histogram>(o);

	h->record_ticks(40);
	h->record(2);

	const auto s = h->fetch();

	assert_int_equal(s->ticks_per_unit, 1);
	assert_int_equal(s->count, 2);
	holds(s->sum == 42);
	h->zero();
	assert_int_equal(h->fetch(ec)->count, 0);
	holds(!ec);
	ec = left();
	h->zero(ec);
	holds(!ec);
	percpu::histogram().zero(ec);
	holds(ec == std::errc::invalid_argument);
	assert_throws([] { percpu::histogram().zero(); }, std::errc::invalid_argument,
		      percpu_strerror(-EINVAL));
	ec = left();
	assert_null(percpu::histogram().fetch(ec).get());
	holds(ec == std::errc::invalid_argument);
	o.buckets_per_octave = 3;
	assert_throws([&] { (void)percpu::make<percpu::histogram>(o); },
		      std::errc::invalid_argument, percpu_strerror(-EINVAL));
	holds(!(percpu::make<percpu::histogram>(o, ec)));
	holds(ec == std::errc::invalid_argument);
}

/* A moved owner takes its object along, and is then without one.
 * NOLINTBEGIN(bugprone-use-after-move,clang-analyzer-cplusplus.Move) */
static void owners(void **)
{
	std::error_code ec = std::make_error_code(std::errc::io_error);
	auto first = percpu::make<percpu::counter>(ec);
	const percpu::counter handle = *first;

	holds(!ec);
	holds(first && handle && !percpu::counter());
	handle.add(3);

	auto second = std::move(first);

	holds(!first && second && second->get() == handle.get());
	first = percpu::make<percpu::counter>();
	first->add(100);
	first = std::move(second);
	holds(first && !second);
	assert_ptr_equal(first->get(), handle.get());
	assert_int_equal(first->fetch(), 3);

	auto &same = first;

	first = std::move(same);
	assert_int_equal(first->fetch(), 3);
}
/* NOLINTEND(bugprone-use-after-move,clang-analyzer-cplusplus.Move) */

/* The memory of an object is there again for the next one when its owner is gone. */
static void destroyed(void **)
{
	const void *at[2];

	for (auto &a : at)
		a = percpu::make<percpu::gauge>()->get();
	assert_ptr_equal(at[0], at[1]);
}

int main()
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters),   cmocka_unit_test(gauges),
		cmocka_unit_test(extrema),    cmocka_unit_test(latest_values),
		cmocka_unit_test(statistics), cmocka_unit_test(histograms),
		cmocka_unit_test(owners),     cmocka_unit_test(destroyed),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}
