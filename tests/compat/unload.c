/* SPDX-License-Identifier: MIT */
/*
 * unload.c - a program that does not know of libpercpu unloads plugins that use it.
 *
 *	unload PLUGIN [WAY]
 *
 * It loads the plugin, counts in it from a thread, and unloads it. After that, nothing in this
 * process may point to memory that is gone: the descriptor of a thread's last sequence, which
 * the kernel reads when the thread goes on; functions that run when a thread exits, or at a
 * fork; and threads of the self-test. WAY is one of
 *
 *	early		unload it while the self-test's threads run
 *	deleted		its file is removed before it is unloaded
 *	memfd		its file is in memory, and has a name in /proc
 *	namespace	load it by dlmopen() into a namespace of its own
 *	outer		another object counts, which the plugin needs
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

static int counted[2]; /* pipe: a byte from the thread that has counted */
static int go[2];      /* pipe: a byte to let it go on */
static bool early;

static void *count(void *arg)
{
	void (*plugin_count)(int);
	char byte = 0;

	*(void **)&plugin_count = arg;
	plugin_count(!early);
	if (write(counted[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
		return arg;
	return NULL;
}

static int copy(const char *path)
{
	int from = open(path, O_RDONLY), to = memfd_create("plugin", 0);

	while (sendfile(to, from, NULL, 1 << 20) > 0)
		;
	close(from);
	return to;
}

static void *load(const char *path, const char *way)
{
	char name[32];

	if (strcmp(way, "memfd") == 0) {
		snprintf(name, sizeof(name), "/proc/self/fd/%d", copy(path));
		path = name;
	}
	if (strcmp(way, "namespace") == 0)
		return dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
	return dlopen(path, RTLD_NOW);
}

int main(int argc, char **argv)
{
	const char *way = argc > 2 ? argv[2] : "";
	pthread_t thread;
	bool ok = true;
	void *plugin, *fn;
	char byte = 0;
	int status;
	pid_t pid;

	if (argc < 2 || pipe(counted) != 0 || pipe(go) != 0)
		return 2;
	early = strcmp(way, "early") == 0;
	plugin = load(argv[1], way);
	fn = plugin != NULL ? dlsym(plugin, "plugin_count") : NULL;
	if (fn == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	if (strcmp(way, "deleted") == 0)
		unlink(argv[1]);
	if (pthread_create(&thread, NULL, count, fn) != 0 || read(counted[0], &byte, 1) != 1)
		return 2;
	if (dlclose(plugin) != 0)
		return 2;
	ok = write(go[1], &byte, 1) == 1;
	pthread_join(thread, NULL);
	pid = fork();
	if (pid == 0)
		_exit(0);
	ok = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && ok;
	usleep(20000); /* the self-test goes on */
	/* If no code would notice that it is gone, ask dlopen(). */
	if (way[0] == '\0' && dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL) {
		fprintf(stderr, "it is gone\n");
		ok = false;
	}
	return ok ? 0 : 1;
}
