/* SPDX-License-Identifier: MIT */
/*
 * pageserver.c - serve the pages of a file that does not fit into the address space of the
 * server.
 *
 *	pageserver FILE SOCKET MIB [keeps-size]
 *
 * The server limits its own address space to MIB mebibytes. A client connects to the Unix socket
 * and writes page numbers, of 8 bytes each in the order of this machine. For each, the server
 * writes how many bytes the page has, as a number of 4 bytes, and the bytes. A page has 64 KiB;
 * one that the file does not have is 0 bytes long. With keeps-size the server relies on the file
 * not to shrink, and maps windows; else it reads. It ends at SIGTERM.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <percpu/lwbuf.h>

#define STACK 262144

static struct percpu_lwbufs *file;

static void fail(const char *what, int e)
{
	fprintf(stderr, "pageserver: %s: %s\n", what, strerror(e));
	exit(1);
}

/* Write all. Returns false if the client is gone. */
static bool send_all(int client, struct iovec *part, int parts)
{
	ssize_t n;

	while (parts > 0) {
		n = writev(client, part, parts);
		if (n < 0)
			return false;
		while (parts > 0 && (size_t)n >= part->iov_len) {
			n -= (ssize_t)part->iov_len;
			part++;
			parts--;
		}
		if (parts > 0) {
			part->iov_base = (char *)part->iov_base + n;
			part->iov_len -= (size_t)n;
		}
	}
	return true;
}

/* Send a page: the kernel copies it from the window to the socket. */
static bool send_page(int client, uint64_t page)
{
	struct percpu_lwbuf b;
	uint32_t length = 0;
	struct iovec part[2] = { { .iov_base = &length, .iov_len = sizeof(length) } };
	int e = percpu_lwbuf_alloc(file, page, 0, &b);
	bool sent;

	if (e == -ERANGE)
		return send_all(client, part, 1);
	if (e != 0)
		fail("percpu_lwbuf_alloc", -e);
	length = (uint32_t)percpu_lwbuf_length(&b);
	part[1].iov_base = percpu_lwbuf_kva(&b);
	part[1].iov_len = length;
	sent = send_all(client, part, 2);
	e = percpu_lwbuf_free(file, &b);
	if (e != 0)
		fail("percpu_lwbuf_free", -e);
	return sent;
}

static void *serve(void *arg)
{
	int client = (int)(intptr_t)arg;
	uint64_t page;

	while (recv(client, &page, sizeof(page), MSG_WAITALL) == sizeof(page))
		if (!send_page(client, page))
			break;
	close(client);
	return NULL;
}

static int listen_at(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (s < 0 || bind(s, (struct sockaddr *)&address, sizeof(address)) != 0 ||
	    listen(s, 16) != 0)
		fail(path, errno);
	return s;
}

static void open_file(const char *path, bool keeps_size)
{
	struct percpu_lwbuf_options o = {
		.size = sizeof(o),
		.window = 65536,
		.max_excess = 64,
		.flags = keeps_size ? PERCPU_LWBUF_KEEPS_SIZE : 0,
	};
	int fd = open(path, O_RDONLY | O_CLOEXEC), e;

	if (fd < 0)
		fail(path, errno);
	e = percpu_lwbuf_create(fd, &o, &file);
	if (e != 0)
		fail(path, -e);
	close(fd);
}

int main(int argc, char **argv)
{
	struct rlimit limit;
	pthread_attr_t attr;
	pthread_t thread;
	int s, client;

	if (argc < 4) {
		fprintf(stderr, "usage: pageserver FILE SOCKET MIB [keeps-size]\n");
		return 2;
	}
	limit.rlim_cur = limit.rlim_max = (rlim_t)atol(argv[3]) << 20;
	if (setrlimit(RLIMIT_AS, &limit) != 0)
		fail("setrlimit", errno);
	signal(SIGPIPE, SIG_IGN);
	open_file(argv[1], argc > 4);
	s = listen_at(argv[2]);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	while ((client = accept4(s, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		int e = pthread_create(&thread, &attr, serve, (void *)(intptr_t)client);

		if (e != 0)
			fail("pthread_create", e);
	}
	fail("accept", errno);
}
