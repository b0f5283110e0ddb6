/* SPDX-License-Identifier: MIT */
/* answer.c - make answers, and send them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "prefork.h"

/* Zeros; more than a socket's buffers hold, so that they are sent in parts. */
static char large[4 << 20];

static const struct page {
	const char *path, *location;
	unsigned status;
	const char *body;
	size_t size;
} pages[] = {
	{ "/", NULL, 200, "Hello from a worker.\n", 21 },
	{ "/large", NULL, 200, large, sizeof(large) },
	{ "/old", "/", 301, "It is at / now.\n", 16 },
	{ NULL, NULL, 404, "Not found.\n", 11 }, /* all other paths */
};

static const char *reason(unsigned status)
{
	switch (status) {
	case 200:
		return "OK";
	case 301:
		return "Moved Permanently";
	case 404:
		return "Not Found";
	case 414:
		return "URI Too Long";
	case 501:
		return "Not Implemented";
	default:
		return "Bad Request";
	}
}

static void make(struct answer *a, const struct page *page, bool head, bool keep_alive)
{
	int n = snprintf(a->head, sizeof(a->head),
			 "HTTP/1.1 %u %s\r\n"
			 "Content-Type: text/plain\r\n"
			 "Content-Length: %zu\r\n"
			 "%s%s%s"
			 "Connection: %s\r\n"
			 "\r\n",
			 page->status, reason(page->status), page->size,
			 page->location ? "Location: " : "", page->location ? page->location : "",
			 page->location ? "\r\n" : "", keep_alive ? "keep-alive" : "close");

	a->status = page->status;
	a->head_size = (size_t)n;
	a->body = page->body;
	a->body_size = head ? 0 : page->size;
	a->sent = 0;
}

void answer_make(struct answer *a, const char *path, bool head, bool keep_alive)
{
	const struct page *page = pages;

	while (page->path && strcmp(page->path, path) != 0)
		page++;
	make(a, page, head, keep_alive);
}

void answer_refuse(struct answer *a, unsigned status, bool keep_alive)
{
	const struct page nothing = { NULL, NULL, status, "", 0 };

	make(a, &nothing, false, keep_alive);
}

int answer_send(struct answer *a, int fd)
{
	size_t of_body = a->sent > a->head_size ? a->sent - a->head_size : 0;
	size_t of_head = a->sent - of_body;
	struct iovec parts[2] = {
		{ a->head + of_head, a->head_size - of_head },
		{ (char *)a->body + of_body, a->body_size - of_body },
	};
	const struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
	ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL);

	if (n < 0)
		return -errno;
	a->sent += (size_t)n;
	return a->sent < a->head_size + a->body_size ? -EAGAIN : 0;
}
