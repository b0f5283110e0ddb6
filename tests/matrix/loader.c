/* SPDX-License-Identifier: MIT */
/*
 * loader.c - load a plugin and unload it, while threads count in it.
 *
 *	loader PLUGIN
 *
 * In each round new threads count in the plugin, then sleep in a system call. Meanwhile the
 * plugin is unloaded, and then they go on. The kernel may read the descriptor of their last
 * sequence only then, and kills them if it is gone. So the plugin must stay in memory. Other
 * threads load, count and unload all the time.
 *
 * Exits with 0 if the count is exact.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include <percpu/percpu.h>

#define ROUNDS 2000
#define ADDS 1000
#define SLEEPERS 2
#define BUSY 2

typedef void plugin_fn(struct percpu_counter *c, unsigned n);

static struct percpu_counter *counter;
static const char *path;
static uint64_t total; /* atomic */
static bool failed;    /* atomic */

static void *load(plugin_fn **ret)
{
	void *plugin = dlopen(path, RTLD_NOW);

	if (plugin != NULL)
		*(void **)ret = dlsym(plugin, "plugin_count");
	if (plugin == NULL || *ret == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		_exit(2);
	}
	return plugin;
}

static void count(plugin_fn *fn)
{
	fn(counter, ADDS);
	__atomic_fetch_add(&total, ADDS, __ATOMIC_RELAXED);
}

struct round {
	plugin_fn *fn;
	int counted[2]; /* pipe: a byte from each thread that has counted */
	int go[2];	/* pipe: a byte for each thread, to go on */
};

static void *sleeper(void *arg)
{
	struct round *r = (struct round *)arg;
	char byte = 0;

	count(r->fn);
	if (write(r->counted[1], &byte, 1) != 1 || read(r->go[0], &byte, 1) != 1)
		__atomic_store_n(&failed, true, __ATOMIC_RELAXED);
	return NULL;
}

static void *busy(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		plugin_fn *fn;
		void *plugin = load(&fn);

		count(fn);
		dlclose(plugin);
	}
	return arg;
}

static bool run_round(struct round *r)
{
	pthread_t thread[SLEEPERS];
	char bytes[SLEEPERS] = { 0 };
	void *plugin = load(&r->fn);
	bool ok = true;

	for (int i = 0; i < SLEEPERS; i++)
		if (pthread_create(&thread[i], NULL, sleeper, r) != 0)
			return false;
	for (int i = 0; i < SLEEPERS; i++)
		ok = read(r->counted[0], bytes, 1) == 1 && ok;
	dlclose(plugin);
	ok = write(r->go[1], bytes, SLEEPERS) == SLEEPERS && ok;
	for (int i = 0; i < SLEEPERS; i++)
		pthread_join(thread[i], NULL);
	return ok;
}

int main(int argc, char **argv)
{
	pthread_t thread[BUSY];
	struct round r;
	bool ok = true;

	if (argc < 2 || pipe(r.counted) != 0 || pipe(r.go) != 0 ||
	    percpu_counter_create(&counter) != 0)
		return 2;
	(void)percpu_selftest(); /* so that the tier is final */
	path = argv[1];
	for (int i = 0; i < BUSY; i++)
		if (pthread_create(&thread[i], NULL, busy, NULL) != 0)
			return 2;
	for (int i = 0; ok && i < ROUNDS; i++)
		ok = run_round(&r);
	for (int i = 0; i < BUSY; i++)
		pthread_join(thread[i], NULL);
	printf("tier=%s count %llu of %llu\n", percpu_tier_name(percpu_status()->tier),
	       (unsigned long long)percpu_counter_fetch(counter), (unsigned long long)total);
	return ok && !failed && percpu_counter_fetch(counter) == total ? 0 : 1;
}
