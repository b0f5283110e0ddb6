/* SPDX-License-Identifier: MIT */
/* test.h - cmocka, in C++. */
#ifndef TEST_H
#define TEST_H

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

extern "C" {
#include <cmocka.h>
}

#endif
