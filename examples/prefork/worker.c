/* SPDX-License-Identifier: MIT */
/* worker.c - one process, one thread, one event loop. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <event2/event.h>
#include <event2/listener.h>

#include "prefork.h"

static void on_client(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from,
		      int size, void *base)
{
	(void)listener;
	(void)from;
	(void)size;
	connection_start(base, fd);
}

static void on_signal(evutil_socket_t number, short what, void *base)
{
	(void)number;
	(void)what;
	event_base_loopbreak(base);
}

static void unblock(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
}

int worker_run(int fd)
{
	struct event_base *base = event_base_new();
	struct event *term = NULL, *interrupt = NULL;
	struct evconnlistener *listener = NULL;
	int e = metrics_joined(), status = 1;

	if (e != 0)
		fprintf(stderr, "prefork: cannot join the workers: %s\n", strerror(-e));
	if (base) {
		term = evsignal_new(base, SIGTERM, on_signal, base);
		interrupt = evsignal_new(base, SIGINT, on_signal, base);
		listener = evconnlistener_new(base, on_client, base, LEV_OPT_CLOSE_ON_EXEC, -1, fd);
	}
	if (e == 0 && listener && term && interrupt && event_add(term, NULL) == 0 &&
	    event_add(interrupt, NULL) == 0) {
		unblock();
		status = event_base_dispatch(base) == 0 ? 0 : 1;
		connections_close();
	}
	if (listener)
		evconnlistener_free(listener);
	if (interrupt)
		event_free(interrupt);
	if (term)
		event_free(term);
	if (base)
		event_base_free(base);
	return status;
}
