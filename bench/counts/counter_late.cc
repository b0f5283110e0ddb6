/* SPDX-License-Identifier: MIT */
/*
 * counter_late.cc - the cost of an add in a library that is loaded late: late_plugin.cc, by
 * dlopen(), in the frame of add.h.
 */
#include <dlfcn.h>

#include "add.h"
#include "counter.h"
#include "late_plugin.h"

static const late_plugin *plugin;

static void measure_plugin(const char *name, void (*batch)())
{
	auto *b = benchmark::RegisterBenchmark(name, [batch](benchmark::State &state) {
		pinned here(state.thread_index(), first_core);

		batch(); /* attaches the thread */
		if (state.thread_index() == 0)
			plugin->reset();
		for (auto _ : state)
			batch();

		double ops = double(state.iterations()) * late_batch;

		state.counters["ops"] = ops;
		if (state.thread_index() == 0)
			note_loss(state, ops * state.threads() - double(plugin->total()));
	});

	b->Setup([](const benchmark::State &) { first_core++; })->Threads(1);
}

void register_late()
{
	void *handle = dlopen(LATE_PLUGIN, RTLD_NOW);

	must(handle ? 0 : -ENOENT, LATE_PLUGIN);
	plugin = (const late_plugin *)dlsym(handle, "late");
	must(plugin && plugin->create() ? 0 : -ENOMEM, "counters of a plugin");
	measure_plugin(LATE, plugin->one);
	measure_plugin(LATE IN_TURN, plugin->in_turn);
}
