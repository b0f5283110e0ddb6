/* SPDX-License-Identifier: MIT */
/* plugin.c - a shared library that does not know of libpercpu, and its caller. */
#define _GNU_SOURCE
#include <sys/wait.h>
#include <unistd.h>

int plugin_run(void);

#ifdef MAIN
int main(void)
{
	return plugin_run() == 3 ? 0 : 1;
}
#else
int plugin_run(void)
{
	int status = -1;
	pid_t pid = vfork();

	if (pid == 0)
		_exit(3);
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}
#endif
