/* SPDX-License-Identifier: MIT */
/*
 * error.c - what an error means. The texts hold for all objects: the header of a call says more.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <percpu/error.h>

static const struct {
	int e;
	const char *text;
} meanings[] = {
	{ 0, "" },
	{ -E2BIG,
	  "more than there can be: of CPUs, of labels, or of bytes or words in one update" },
	{ -EACCES, "the permissions of the file, or of its directory, do not allow it" },
	{ -EAGAIN, "other processes or threads changed it meanwhile, time was short, or no thread "
		   "could be started: try again" },
	{ -EALREADY, "another call has done it already" },
	{ -EBADF, "the descriptor is closed, or not open for this" },
	{ -EBADMSG, "the file is none of this library, or not for this kind of object; or it is "
		    "damaged or cut short, or was written by a machine of the other byte order" },
	{ -EBUSY, "it is in use" },
	{ -EDEADLK, "the call would wait for its own thread" },
	{ -EDOM, "the number is infinite, or is not a number" },
	{ -EEXIST, "something else is there already, or is there with other options" },
	{ -EFBIG, "the limit for the size of files (RLIMIT_FSIZE) is too low" },
	{ -EILSEQ, "a text is not UTF-8" },
	{ -EINTR, "a signal has interrupted the call" },
	{ -EINVAL, "an argument is not valid: a NULL; flags or options that are not known, or do "
		   "not go together; or a name or a number that cannot be" },
	{ -EIO, "the file cannot be read or written" },
	{ -EISDIR, "it is a directory, or a node of names" },
	{ -ELOOP, "the file is a symbolic link, which is not followed" },
	{ -EMFILE, "the process has no free descriptor (RLIMIT_NOFILE)" },
	{ -EMSGSIZE, "the record is longer than the ring can hold" },
	{ -ENAMETOOLONG, "a name or a text is too long" },
	{ -ENFILE, "the machine has no free descriptor" },
	{ -ENOBUFS, "the ring is full" },
	{ -ENODATA, "there is no value yet" },
	{ -ENOENT, "there is no such file, directory, name or object, or nothing is left to take" },
	{ -ENOLCK, "the file takes no locks, or the system has no room for more of them" },
	{ -ENOMEM, "there is no memory, or no address space" },
	{ -ENOSPC, "the disk, the region or the array is full, or a limit is reached" },
	{ -ENOTDIR, "a part of the path is not a directory" },
	{ -ENOTRECOVERABLE, "a writer died with the lock, and what it protects was not repaired" },
	{ -ENOTSUP, "this machine, this file or this object cannot do that" },
	{ -EOVERFLOW, "there would be too many references" },
	{ -EOWNERDEAD, "a process has died with the lock, which is held now" },
	{ -EPERM,
	  "it belongs to another user, process or thread, or the system does not allow it" },
	{ -EPROTO, "the file was written by another version of the library, or on another kind of "
		   "machine; or a section or a lock was ended more often than begun" },
	{ -ERANGE, "a number is too large or too small, or a sum would exceed its limit; or the "
		   "file has lanes for fewer CPUs than this machine may have" },
	{ -EROFS, "the file system is read-only, or the file was opened to read" },
	{ -ESTALE, "the name leads to another file now, or the count is 0" },
	{ -ETIMEDOUT, "the time is over: another process or thread holds a lock or a section, or a "
		      "CPU could not be fenced" },
	{ -EUSERS, "the table of owners is full" },
};

/* glibc writes the text of an unknown number to the buffer. musl has a constant one. */
static const char *text_of_libc(int number)
{
#ifdef __GLIBC__
	char buffer[64];
	const char *const text = strerror_r(number, buffer, sizeof(buffer));

	return text != buffer ? text : "unknown error";
#else
	return strerror(number);
#endif
}

const char *percpu_strerror(int e)
{
	const int negative = e < 0 ? e : -e;

	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++)
		if (meanings[i].e == negative)
			return meanings[i].text;
	return negative != INT_MIN ? text_of_libc(-negative) : "unknown error";
}
