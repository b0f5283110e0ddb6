/* SPDX-License-Identifier: MIT */
/*
 * dragonfly_unchanged.c - a source in the style of DragonFly's, include lines too: buffers with
 * their own header and storage, like its mbufs; a cache of windows, like its lwbufs; a table
 * that is reclaimed; and a mount with its own type, like those of its tmpfs.
 */
#include <string.h>
#include <sys/types.h>
#ifndef REVERSE
#include <sys/malloc.h>
#include <sys/objcache.h>
#else
#include <sys/objcache.h>
#include <sys/malloc.h>
#endif

#ifdef __cplusplus
#define CAST(type, p) static_cast<type>(p)
#else
#define CAST(type, p) (p)
#endif

struct buf_hdr {
	size_t len;
	char *storage;
};

static MALLOC_DEFINE(M_BUF, "buf", "buffers");
static MALLOC_DEFINE(M_STORAGE, "storage", "storage of buffers");
static MALLOC_DEFINE(M_WINDOW, "window", "windows");

static struct objcache_malloc_args buf_malloc_args = { sizeof(struct buf_hdr), M_BUF };
static struct objcache *buf_cache, *window_cache;
static int bufs;

static boolean_t buf_ctor(void *obj, void *privdata, int ocflags)
{
	struct buf_hdr *b = CAST(struct buf_hdr *, obj);
	int *count = CAST(int *, privdata);

	b->storage = CAST(char *, kmalloc(2048, M_STORAGE, ocflags));
	if (b->storage == NULL)
		return FALSE;
	b->len = 0;
	++*count;
	return TRUE;
}

static void buf_dtor(void *obj, void *privdata)
{
	struct buf_hdr *b = CAST(struct buf_hdr *, obj);
	int *count = CAST(int *, privdata);

	kfree(b->storage, M_STORAGE);
	--*count;
}

static struct buf_hdr *buf_get(int how)
{
	return CAST(struct buf_hdr *, objcache_get(buf_cache, how));
}

/* Return whether the mount's objects were made and freed. */
static int mount_and_unmount(void)
{
	struct objcache_malloc_args args;
	malloc_type_t type = NULL;
	struct objcache *nodes;
	void *node;

	kmalloc_create(&type, "nodes of a mount");
	if (type == NULL || type->ks_shortdesc == NULL ||
	    strcmp(type->ks_shortdesc, "nodes of a mount") != 0)
		return 0;
	kmalloc_raise_limit(type, sizeof(struct buf_hdr) * 100);
	kmalloc_set_unlimited(type);
	args.objsize = sizeof(struct buf_hdr);
	args.mtype = type;
	nodes = objcache_create("node", 0, 0, NULL, NULL, NULL, objcache_malloc_alloc,
				objcache_malloc_free, &args);
	node = objcache_get(nodes, M_WAITOK);
	if (node == NULL)
		return 0;
	memset(node, 1, args.objsize);
	objcache_put(nodes, node);
	objcache_destroy(nodes);
	kmalloc_destroy(&type);
	if (type != NULL)
		return 0;
	kmalloc_destroy(&type);
	return 1;
}

int main(void)
{
	struct objcache *list[2];
	struct buf_hdr *b, *all[8];
	void *w;

	buf_cache = objcache_create("buf", 8, 0, buf_ctor, buf_dtor, &bufs, objcache_malloc_alloc,
				    objcache_malloc_free, &buf_malloc_args);
	window_cache = objcache_create_simple(M_WINDOW, 64);
	if (buf_cache == NULL || window_cache == NULL)
		return 1;
	for (int i = 0; i < 8; i++) {
		all[i] = buf_get(M_WAITOK);
		all[i]->len = 5;
		memcpy(all[i]->storage, "hello", 5);
	}
	if (bufs != 8 || buf_get(M_NOWAIT) != NULL || buf_get(M_WAITOK | M_NULLOK) != NULL)
		return 2;
	for (int i = 0; i < 8; i++) {
		all[i]->len = 0;
		objcache_put(buf_cache, all[i]);
	}
	b = buf_get(M_WAITOK);
	if (bufs != 8 || b->len != 0)
		return 3;
	objcache_dtor(buf_cache, b);
	if (bufs != 7)
		return 4;
	objcache_set_cluster_limit(buf_cache, 2);
	if (bufs != 2)
		return 5;
	w = objcache_get(window_cache, M_WAITOK);
	memset(w, 1, 64);
	list[0] = window_cache;
	list[1] = buf_cache;
	if (!objcache_reclaimlist(list, 2, M_NOWAIT) || bufs != 0 ||
	    objcache_reclaimlist(list, 2, M_NOWAIT))
		return 6;
	objcache_put(window_cache, w);
	objcache_destroy(window_cache);
	objcache_destroy(buf_cache);
	window_cache = objcache_create_mbacked(M_WINDOW, 32, 4, 2, NULL, NULL, NULL);
	w = objcache_get(window_cache, M_NOWAIT);
	objcache_put(window_cache, w);
	objcache_destroy(window_cache);
	buf_cache = objcache_create("nop", 0, 0, NULL, NULL, NULL, objcache_nop_alloc,
				    objcache_nop_free, NULL);
	if (objcache_get(buf_cache, M_NOWAIT) != NULL)
		return 7;
	objcache_destroy(buf_cache);
	return mount_and_unmount() ? 0 : 8;
}
