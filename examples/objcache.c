/* SPDX-License-Identifier: MIT */
/*
 * objcache.c - connections whose buffer and lock are made once, and reused.
 *
 *	cc objcache.c $(pkg-config --cflags --libs percpu)
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/objcache.h>

struct connection {
	pthread_mutex_t lock;
	char *buffer;
};

static int construct(void *obj, void *arg, unsigned flags)
{
	struct connection *c = obj;
	int e;

	(void)arg, (void)flags;
	c->buffer = malloc(65536);
	if (c->buffer == NULL)
		return -ENOMEM;
	e = pthread_mutex_init(&c->lock, NULL);
	if (e != 0)
		free(c->buffer); /* the destructor is not called if the constructor failed */
	return -e;
}

static void destruct(void *obj, void *arg)
{
	struct connection *c = obj;

	(void)arg;
	pthread_mutex_destroy(&c->lock);
	free(c->buffer);
}

int main(void)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .limit = 1000 };
	struct percpu_objcache_stats st;
	struct percpu_objcache *cache;
	void *connection = NULL;
	int e;

	o.ctor = construct;
	o.dtor = destruct;
	e = percpu_objcache_create("connections", sizeof(struct connection), &o, &cache);
	for (int i = 0; e == 0 && i < 1000000; i++) {
		e = percpu_objcache_get(cache, PERCPU_OBJCACHE_WAIT, &connection);
		if (e == 0)
			percpu_objcache_put(cache, connection);
	}
	if (e != 0) {
		fprintf(stderr, "objcache: %s\n", strerror(-e));
		return 1;
	}
	percpu_objcache_stats(cache, &st);
	printf("%llu gets, %llu constructed\n", (unsigned long long)st.requested,
	       (unsigned long long)st.allocated);
	return percpu_objcache_destroy(cache) != 0;
}
