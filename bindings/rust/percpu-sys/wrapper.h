/* SPDX-License-Identifier: MIT */
/* wrapper.h - the headers that src/bindings.rs is made from. */
#include <percpu/calls.h>
#include <percpu/fence.h>
#include <percpu/rate.h>
#include <percpu/timer.h>
