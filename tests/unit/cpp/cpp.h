/* SPDX-License-Identifier: MIT */
/* cpp.h - what tests in C++ share. A failed assertion leaves by longjmp(), and the program then
 * fails without having destroyed what the test had. */
#ifndef TESTS_UNIT_CPP_H
#define TESTS_UNIT_CPP_H

#include <cerrno>
#include <cmath>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <percpu/percpu.hpp>

extern "C" {
#include "support.h"
}

/* Assert that a condition holds: of a type that converts to bool, and with commas. */
#define holds(...) assert_true(static_cast<bool>(__VA_ARGS__))

/* Return the code that an earlier call left: the next call must replace it. */
inline std::error_code left() noexcept
{
	return std::make_error_code(std::errc::io_error);
}

#ifdef __cpp_exceptions
/* Assert that the call throws percpu::error with this code and this text. */
template <class Call> void assert_throws(Call call, std::errc code, const char *text)
{
	std::error_code got;
	std::string said;

	try {
		call();
	} catch (const percpu::error &e) {
		const percpu::error copy = e;

		got = copy.code();
		said = copy.what();
	}
	holds(got == code);
	assert_string_equal(said.c_str(), text);
}
#endif

#endif
