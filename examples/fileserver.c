/* SPDX-License-Identifier: MIT */
/*
 * fileserver.c - send pages of a file to many clients at a time, without a copy.
 *
 *	fileserver FILE [keeps-size]
 *
 * The server listens on 127.0.0.1, and prints its port. A client writes two numbers of 8 bytes, in
 * the order of this machine: a page and how many pages it wants from there on. A page has 16 KiB.
 * The server sends the bytes that the file has of these, and closes the connection.
 *
 * The kernel takes the bytes from the page itself (MSG_ZEROCOPY), as sendfile(2) would, and says on
 * the socket's error queue when it needs them no longer. Until then the transfer holds a reference
 * to the page's shared buffer. One thread serves all clients: an allocation that waits for another
 * transfer to end would wait forever.
 *
 * With keeps-size the server relies on the file not to shrink, and maps its pages; else it reads
 * them. At SIGTERM it prints what it has done.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <percpu/sfbuf.h>

#define PAGE 16384
#define MOST_CLIENTS 1000
#define KEPT 64 /* pages that stay mapped when no transfer uses them */

struct transfer {
	uint64_t page, left;	  /* the page that is sent, and how many with it */
	struct percpu_sfbuf *buf; /* NULL before the request */
	size_t sent;		  /* bytes of the page */
	uint32_t begun, ended;	  /* sends of the page that copy nothing */
	bool copies;		  /* the socket has no such sends */
};

static struct percpu_lwbufs *file;
static struct transfer transfers[MOST_CLIENTS];
static struct pollfd polled[1 + MOST_CLIENTS]; /* the first one accepts clients */
static unsigned clients;
static uint64_t most_in_use;
static volatile sig_atomic_t stopped;

static void fail(const char *what, int e)
{
	fprintf(stderr, "fileserver: %s: %s\n", what, strerror(e));
	exit(1);
}

static void stop(int signo)
{
	(void)signo;
	stopped = 1;
}

static void end_page(struct transfer *t)
{
	int e = percpu_sfbuf_free(file, t->buf);

	if (e != 0)
		fail("percpu_sfbuf_free", -e);
	t->buf = NULL;
	t->page++;
	t->left--;
}

/* Begin with the next page. Return false if there is none. */
static bool begin_page(struct transfer *t)
{
	int e;

	if (t->left == 0)
		return false;
	e = percpu_sfbuf_alloc(file, t->page, 0, &t->buf);
	if (e == -ERANGE)
		return false;
	if (e != 0)
		fail("percpu_sfbuf_alloc", -e);
	t->sent = 0;
	t->begun = t->ended = 0;
	return true;
}

/* Send what the socket takes of the page. Return -errno. */
static int send_some(int fd, struct transfer *t)
{
	const char *at = percpu_sfbuf_kva(t->buf);
	size_t left = percpu_sfbuf_length(t->buf) - t->sent;
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	ssize_t n = -1;

	errno = ENOBUFS; /* as at RLIMIT_MEMLOCK: copy */
	if (!t->copies)
		n = send(fd, at + t->sent, left, flags | MSG_ZEROCOPY);
	if (n >= 0)
		t->begun++;
	else if (errno == ENOBUFS)
		n = send(fd, at + t->sent, left, flags);
	if (n < 0)
		return -errno;
	t->sent += (size_t)n;
	return 0;
}

/* Go on with a transfer. Return false when it is over. */
static bool advance(struct pollfd *p, struct transfer *t)
{
	int e;

	for (;;) {
		if (t->buf == NULL && !begin_page(t))
			return false;
		if (t->sent < percpu_sfbuf_length(t->buf)) {
			e = send_some(p->fd, t);
			p->events = POLLOUT;
			if (e != 0)
				return e == -EAGAIN || e == -EINTR;
		} else if (t->ended != t->begun) {
			p->events = 0; /* poll(2) reports the error queue in any case */
			return true;
		} else {
			end_page(t);
		}
	}
}

/* Read from the error queue which sends the kernel has ended. Return false if the client is gone.
 */
static bool note_ended(int fd, struct transfer *t)
{
	char control[128];
	struct msghdr m = { .msg_control = control, .msg_controllen = sizeof(control) };
	const struct sock_extended_err *what;
	const struct cmsghdr *c;

	if (recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
		return false;
	for (c = CMSG_FIRSTHDR(&m); c != NULL; c = CMSG_NXTHDR(&m, (struct cmsghdr *)c)) {
		what = (const struct sock_extended_err *)(const void *)CMSG_DATA(c);
		if (c->cmsg_level != SOL_IP || what->ee_origin != SO_EE_ORIGIN_ZEROCOPY)
			return false;
		t->ended += what->ee_data - what->ee_info + 1;
	}
	return true;
}

static bool read_request(int fd, struct transfer *t)
{
	uint64_t request[2];

	if (recv(fd, request, sizeof(request), MSG_DONTWAIT) != sizeof(request))
		return false;
	t->page = request[0];
	t->left = request[1];
	return true;
}

/* Do what there is to do for a client. Return false when its transfer is over. */
static bool serve(struct pollfd *p, struct transfer *t)
{
	if (p->revents == 0)
		return true;
	if (t->buf == NULL)
		return read_request(p->fd, t) && advance(p, t);
	if ((p->revents & POLLERR) && !note_ended(p->fd, t))
		return false;
	return !(p->revents & POLLHUP) && advance(p, t);
}

static void accept_client(int listening)
{
	int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC), size = PAGE, one = 1;

	if (fd < 0)
		return;
	/* The kernel holds about a page for a slow client. */
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	transfers[clients] = (struct transfer){
		.copies = setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof(one)) != 0,
	};
	polled[++clients] = (struct pollfd){ .fd = fd, .events = POLLIN };
}

/* Close a connection; the last client takes its place. If the client is gone, the kernel may still
 * use a page that is freed here, but its bytes reach nobody. */
static void drop_client(unsigned i)
{
	if (transfers[i].buf != NULL)
		end_page(&transfers[i]);
	close(polled[1 + i].fd);
	clients--;
	transfers[i] = transfers[clients];
	polled[1 + i] = polled[1 + clients];
}

static void serve_all(void)
{
	struct percpu_sfbuf_stats s;

	while (!stopped) {
		polled[0].events = clients < MOST_CLIENTS ? POLLIN : 0;
		if (poll(polled, 1 + clients, -1) < 0)
			continue;
		for (unsigned i = clients; i-- > 0;)
			if (!serve(&polled[1 + i], &transfers[i]))
				drop_client(i);
		percpu_sfbuf_stats(file, &s);
		if (s.used > most_in_use)
			most_in_use = s.used;
		if (polled[0].revents & POLLIN)
			accept_client(polled[0].fd);
	}
}

static void open_file(const char *path, bool keeps_size)
{
	struct percpu_lwbuf_options o = {
		.size = sizeof(o),
		.window = PAGE,
		.backend = keeps_size ? PERCPU_LWBUF_WINDOW : PERCPU_LWBUF_BOUNCE,
		.flags = keeps_size ? PERCPU_LWBUF_KEEPS_SIZE : 0,
	};
	int fd = open(path, O_RDONLY | O_CLOEXEC), e;

	if (fd < 0)
		fail(path, errno);
	e = percpu_lwbuf_create(fd, &o, &file);
	if (e == 0)
		e = percpu_sfbuf_set_max_excess(file, KEPT);
	if (e != 0)
		fail(path, -e);
	close(fd);
}

static int listen_locally(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (s < 0 || bind(s, (struct sockaddr *)&address, size) != 0 || listen(s, 1024) != 0 ||
	    getsockname(s, (struct sockaddr *)&address, &size) != 0)
		fail("listen", errno);
	printf("%u\n", ntohs(address.sin_port));
	(void)fflush(stdout);
	return s;
}

int main(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = stop };
	struct percpu_sfbuf_stats s;

	if (argc < 2) {
		fprintf(stderr, "usage: fileserver FILE [keeps-size]\n");
		return 2;
	}
	sigaction(SIGTERM, &act, NULL);
	open_file(argv[1], argc > 2);
	polled[0].fd = listen_locally();
	serve_all();
	while (clients > 0)
		drop_client(clients - 1);
	percpu_sfbuf_stats(file, &s);
	printf("pages in use at a time, at most: %llu\n", (unsigned long long)most_in_use);
	printf("pages mapped or read: %llu\n", (unsigned long long)s.fills);
	printf("pages mapped at the end: %llu\n", (unsigned long long)s.excess);
	return percpu_lwbuf_destroy(file) != 0;
}
