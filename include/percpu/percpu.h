/* SPDX-License-Identifier: MIT */
/* percpu.h - all of libpercpu. Each header works alone, too. */
#ifndef PERCPU_PERCPU_H
#define PERCPU_PERCPU_H

#include <percpu/compact.h>
#include <percpu/counter.h>
#include <percpu/fence.h>
#include <percpu/local.h>
#include <percpu/region.h>
#include <percpu/seq.h>
#include <percpu/stats.h>
#include <percpu/status.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>

#endif
