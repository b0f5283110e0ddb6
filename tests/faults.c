/* SPDX-License-Identifier: MIT */
/* faults.c - functions by which the linker replaces libc's: see --wrap in ld(1). */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "blocks.h"
#include "faults.h"
#include "syscalls.h"

static const struct {
	const char *name;
	int error;
} calls[FAULT_CALLS] = {
	[FAULT_OPEN] = { "open", EMFILE },
	[FAULT_FCNTL] = { "fcntl", EBADF },
	[FAULT_FSTAT] = { "fstat", EIO },
	[FAULT_FSTATFS] = { "fstatfs", EIO },
	[FAULT_FTRUNCATE] = { "ftruncate", EIO },
	[FAULT_PREAD] = { "pread", EIO },
	[FAULT_PWRITE] = { "pwrite", EIO },
	[FAULT_LINK] = { "link", ENOSPC },
	[FAULT_MMAP] = { "mmap", ENOMEM },
	[FAULT_MREMAP] = { "mremap", ENOMEM },
	[FAULT_MPROTECT] = { "mprotect", ENOMEM },
	[FAULT_MADVISE] = { "madvise", ENOMEM },
	[FAULT_MALLOC] = { "malloc", ENOMEM },
	[FAULT_CALLOC] = { "calloc", ENOMEM },
	[FAULT_REALLOC] = { "realloc", ENOMEM },
	[FAULT_ALIGNED_ALLOC] = { "aligned_alloc", ENOMEM },
	[FAULT_ASPRINTF] = { "asprintf", ENOMEM },
	[FAULT_PTHREAD_CREATE] = { "pthread_create", EAGAIN },
	[FAULT_AFFINITY] = { "sched_setaffinity", EPERM },
	[FAULT_FUTEX_WAIT] = { "futex to wait", EINTR },
	[FAULT_FUTEX_TOUCH] = { "futex to touch", EFAULT },
	[FAULT_MEMBARRIER] = { "membarrier", EPERM },
	[FAULT_GETTID] = { "gettid", EPERM },
	[FAULT_GETCPU] = { "getcpu", EPERM },
	[FAULT_CELLS] = { "allocation of cells", ENOMEM },
};

static struct {
	bool set;
	bool later;
	enum fault_call call;
	int error;
	unsigned left; /* calls that succeed before */
	unsigned failed;
} fault;

static unsigned inherited; /* atomic */

const char *fault_name(enum fault_call call)
{
	return calls[call].name;
}

int fault_error(enum fault_call call)
{
	return calls[call].error;
}

void fault_set(enum fault_call call, unsigned nth, int error, bool later)
{
	fault.call = call;
	fault.left = nth;
	fault.error = error;
	fault.later = later;
	fault.failed = 0;
	__atomic_store_n(&fault.set, true, __ATOMIC_RELEASE);
}

unsigned fault_clear(void)
{
	__atomic_store_n(&fault.set, false, __ATOMIC_RELEASE);
	return __atomic_load_n(&fault.failed, __ATOMIC_RELAXED);
}

unsigned fault_inherited(void)
{
	return __atomic_load_n(&inherited, __ATOMIC_RELAXED);
}

bool fault_fails(enum fault_call call)
{
	unsigned left;

	if (!__atomic_load_n(&fault.set, __ATOMIC_ACQUIRE) || fault.call != call)
		return false;
	left = __atomic_load_n(&fault.left, __ATOMIC_RELAXED);
	while (left != 0 && left != UINT32_MAX &&
	       !__atomic_compare_exchange_n(&fault.left, &left, left - 1, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED))
		;
	if (left != 0)
		return false;
	if (!fault.later) {
		/* Only one thread's call fails. */
		if (__atomic_exchange_n(&fault.left, UINT32_MAX, __ATOMIC_RELAXED) != 0)
			return false;
	}
	__atomic_fetch_add(&fault.failed, 1, __ATOMIC_RELAXED);
	errno = fault.error;
	return true;
}

/* Names as the linker sees them. Meson defines _FILE_OFFSET_BITS, with which the headers replace
 * open by open64. */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	if (flags & O_CREAT) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	if (!(flags & O_CLOEXEC))
		__atomic_fetch_add(&inherited, 1, __ATOMIC_RELAXED);
	return fault_fails(FAULT_OPEN) ? -1 : __real_open64(path, flags, mode);
}

/* Names if a time_t is longer than in system calls. */
#if defined(__TIMESIZE) && __TIMESIZE == 32 && defined(__USE_TIME_BITS64)
#define FCNTL(prefix) prefix##__fcntl_time64
#define FSTAT(prefix) prefix##__fstat64_time64
#else
#define FCNTL(prefix) prefix##fcntl64
#define FSTAT(prefix) prefix##fstat64
#endif

int FCNTL(__real_)(int fd, int command, ...);
int FCNTL(__wrap_)(int fd, int command, ...);
int FCNTL(__wrap_)(int fd, int command, ...)
{
	va_list ap;
	long arg;

	va_start(ap, command);
	arg = va_arg(ap, long); /* not read if there is none */
	va_end(ap);
	if (command == F_DUPFD)
		__atomic_fetch_add(&inherited, 1, __ATOMIC_RELAXED);
	return fault_fails(FAULT_FCNTL) ? -1 : FCNTL(__real_)(fd, command, arg);
}

int FSTAT(__real_)(int fd, struct stat *st);
int FSTAT(__wrap_)(int fd, struct stat *st);
int FSTAT(__wrap_)(int fd, struct stat *st)
{
	return fault_fails(FAULT_FSTAT) ? -1 : FSTAT(__real_)(fd, st);
}

int __real_fstatfs64(int fd, struct statfs *fs);
int __wrap_fstatfs64(int fd, struct statfs *fs);
int __wrap_fstatfs64(int fd, struct statfs *fs)
{
	return fault_fails(FAULT_FSTATFS) ? -1 : __real_fstatfs64(fd, fs);
}

int __real_ftruncate64(int fd, off_t size);
int __wrap_ftruncate64(int fd, off_t size);
int __wrap_ftruncate64(int fd, off_t size)
{
	return fault_fails(FAULT_FTRUNCATE) ? -1 : __real_ftruncate64(fd, size);
}

ssize_t __real_pread64(int fd, void *buf, size_t size, off_t at);
ssize_t __wrap_pread64(int fd, void *buf, size_t size, off_t at);
ssize_t __wrap_pread64(int fd, void *buf, size_t size, off_t at)
{
	return fault_fails(FAULT_PREAD) ? -1 : __real_pread64(fd, buf, size, at);
}

ssize_t __real_pwrite64(int fd, const void *buf, size_t size, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *buf, size_t size, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *buf, size_t size, off_t at)
{
	return fault_fails(FAULT_PWRITE) ? -1 : __real_pwrite64(fd, buf, size, at);
}

int __real_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to);
int __wrap_link(const char *from, const char *to)
{
	return fault_fails(FAULT_LINK) ? -1 : __real_link(from, to);
}

void *__real_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	return fault_fails(FAULT_MMAP) ? MAP_FAILED :
					 __real_mmap64(at, size, prot, flags, fd, offset);
}

void *__real_mremap(void *old, size_t old_size, size_t size, int flags, ...);
void *__wrap_mremap(void *old, size_t old_size, size_t size, int flags, ...);
void *__wrap_mremap(void *old, size_t old_size, size_t size, int flags, ...)
{
	void *to = NULL;
	va_list ap;

	if (flags & MREMAP_FIXED) {
		va_start(ap, flags);
		to = va_arg(ap, void *);
		va_end(ap);
	}
	return fault_fails(FAULT_MREMAP) ? MAP_FAILED :
					   __real_mremap(old, old_size, size, flags, to);
}

int __real_mprotect(void *at, size_t size, int prot);
int __wrap_mprotect(void *at, size_t size, int prot);
int __wrap_mprotect(void *at, size_t size, int prot)
{
	return fault_fails(FAULT_MPROTECT) ? -1 : __real_mprotect(at, size, prot);
}

int __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice)
{
	return fault_fails(FAULT_MADVISE) ? -1 : __real_madvise(at, size, advice);
}

/* Calls that allocate memory: blocks.c. */
bool test_block_fails(enum test_block_call call, size_t size)
{
	(void)size;
	return fault_fails(FAULT_MALLOC + (enum fault_call)call);
}

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg)
{
	return fault_fails(FAULT_PTHREAD_CREATE) ? errno :
						   __real_pthread_create(ret, attr, fn, arg);
}

int __real_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set)
{
	return fault_fails(FAULT_AFFINITY) ? -1 : __real_sched_setaffinity(tid, size, set);
}

bool syscall_is_answered(long number, const long a[6], long *ret)
{
	const long command = number == SYS_futex ? a[1] & FUTEX_CMD_MASK : -1;

	*ret = -1;
	return (number == SYS_membarrier && fault_fails(FAULT_MEMBARRIER)) ||
	       (number == SYS_gettid && fault_fails(FAULT_GETTID)) ||
	       (number == SYS_getcpu && fault_fails(FAULT_GETCPU)) ||
	       (command == FUTEX_WAIT && fault_fails(FAULT_FUTEX_WAIT)) ||
	       (command == FUTEX_WAKE_OP && fault_fails(FAULT_FUTEX_TOUCH));
}
