/* SPDX-License-Identifier: MIT */
/*
 * test_error_opening.c - percpu_error() after a segment or a reader could not be opened: which one,
 * what was wrong, and what to do.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "faults.h"
#include "support.h"
#include "../segments.h"

#include "segment/segment.h"

static struct percpu_segment *s;

static int open_segment(void **state)
{
	(void)state;
	return percpu_segment_open(test_path("there"), ALL, NULL, &s);
}

static int close_segment(void **state)
{
	percpu_segment_close(s);
	return test_remove_paths(state);
}

/* Fail with another sentence, which the next call must not keep. */
static void fail_otherwise(void)
{
	assert_int_equal(percpu_segment_info(s, METRIC("")), -EINVAL);
}

/* Assert that opening failed so, and that this is the sentence: of the name, and these words. */
static void refused(int got, int expected, const char *name, const char *words)
{
	char sentence[1200];

	assert_int_equal(got, expected);
	snprintf(sentence, sizeof(sentence), "segment \"%s\": %s", name, words);
	assert_ptr_equal(strstr(percpu_error(), sentence), percpu_error());
	fail_otherwise();
}

/* Each error has its own sentence, which contains these words. */
static void errors_are_told(void **state)
{
	static const struct {
		int e;
		const char *words;
	} told[] = {
		{ -ENOENT, "PERCPU_SEGMENT_CREATE" },
		{ -ELOOP, "name the file itself" },
		{ -EISDIR, "name a file in it" },
		{ -EPERM, "is sealed" },
		{ -EACCES, "the permissions of its directory" },
		{ -EROFS, "to read, open a reader" },
		{ -EBADMSG, "no segment: use another name" },
		{ -ENXIO, "no regular file" },
		{ -EPROTO, "stop the programs" },
		{ -ERANGE, "or open a reader" },
		{ -ENOSPC, "the disk is full" },
		{ -ETIMEDOUT, "may be stopped" },
		{ -EMFILE, "RLIMIT_NOFILE" },
		{ -ENOMEM, "no memory" },
		{ -E2BIG, "PERCPU_MAX_CPUS" },
		{ -ENXIO, "it is no regular file" },
	};
	const struct percpu_opening opening = { .name = "x" };
	const struct percpu_reason none = { "" };
	char last[1024] = "";

	(void)state;
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		assert_int_equal(percpu_error_keep_opening(told[i].e, &opening, &none), told[i].e);
		assert_ptr_equal(strstr(percpu_error(), "segment \"x\" (/dev/shm/percpu.x): "),
				 percpu_error());
		assert_non_null(strstr(percpu_error(), told[i].words));
		assert_string_not_equal(percpu_error(), last);
		snprintf(last, sizeof(last), "%s", percpu_error());
	}
}

static void names_are_told(void **state)
{
	static const char rule[] = "a name is of letters, digits, '_', '.' and '-'";
	struct percpu_segment *none = NULL;
	struct percpu_reader *no_reader = NULL;
	char longest[202];

	(void)state;
	memset(longest, 'x', 201);
	longest[201] = '\0';
	refused(percpu_segment_open("a b", ALL, NULL, &none), -EINVAL, "a b", rule);
	refused(percpu_segment_open("a\n", ALL, NULL, &none), -EINVAL, "a?", rule);
	refused(percpu_segment_open("\xbc\xbc"
				    "a",
				    ALL, NULL, &none),
		-EINVAL, "??a", rule);
	refused(percpu_reader_open(".a", &no_reader), -EINVAL, ".a", rule);
	refused(percpu_segment_open(longest, 0, NULL, &none), -ENAMETOOLONG, longest,
		"a name has at most 200 characters");
	refused(percpu_reader_open(longest, &no_reader), -ENAMETOOLONG, longest,
		"a name has at most 200 characters");
	assert_int_equal(percpu_segment_open(NULL, 0, NULL, &none), -EINVAL);
	assert_string_equal(percpu_error(), "the name of the segment is NULL");
	fail_otherwise();
	assert_int_equal(percpu_reader_open(NULL, &no_reader), -EINVAL);
	assert_string_equal(percpu_error(), "the name of the segment is NULL");
	fail_otherwise();
	assert_int_equal(percpu_reader_open("a", NULL), -EINVAL);
	assert_string_equal(percpu_error(), "there is no place for the reader");
	refused(percpu_segment_open("a", 0, NULL, NULL), -EINVAL, "a",
		"there is no place for the handle");
	assert_null(none);
	assert_null(no_reader);
}

/* The end of a long path is told, from the begin of a character on. */
static void long_paths_end_with_their_name(void **state)
{
	struct percpu_segment *none = NULL;
	char path[2000] = "/dev/shm/none", end[600] = "...";
	size_t n;

	(void)state;
	for (int i = 0; i < 300; i++)
		strcat(path, "/\xc3\xbc");
	strcat(path, "/abc");
	n = strlen(path);
	snprintf(end + 3, sizeof(end) - 3, "%s", path + n - 500);
	assert_int_equal((unsigned char)path[n - 500], 0xbc); /* within a character */
	memmove(end + 3, end + 4, strlen(end + 3));
	refused(percpu_segment_open(path, 0, NULL, &none), -ENOENT, end,
		"there is no such directory");
	for (size_t i = 0; i < 4; i++) /* two bytes of three are left out */
		path[n - 502 + i] = "/\xe2\x82\xac"[i];
	snprintf(end + 3, sizeof(end) - 3, "%s", path + n - 498);
	refused(percpu_segment_open(path, 0, NULL, &none), -ENOENT, end,
		"there is no such directory");
	assert_null(none);
}

/* A path of 500 bytes is told as a whole. Of a longer one, an end without '/' is no name. */
static void ends_of_paths_are_no_names(void **state)
{
	struct percpu_segment *none = NULL;
	char path[600], end[504];

	(void)state;
	memset(path, 'x', sizeof(path));
	memcpy(path, "/none/", 6);
	path[500] = '\0';
	refused(percpu_segment_open(path, 0, NULL, &none), -ENOENT, path,
		"there is no such directory");
	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	path[599] = '\0';
	snprintf(end, sizeof(end), "...%s", path + 99);
	refused(percpu_segment_open(path, 0, NULL, &none), -ENAMETOOLONG, end,
		percpu_strerror(-ENAMETOOLONG));
	assert_null(none);
}

/* Without memory for the directory's name, nothing is said of the directory. */
static void without_memory_no_directory_is_missing(void **state)
{
	const char *const path = "/none/x";
	struct percpu_segment *none = NULL;
	int e;

	(void)state;
	fault_set(FAULT_ASPRINTF, 1, ENOMEM, false); /* the first one is for the path */
	e = percpu_segment_open(path, 0, NULL, &none);
	assert_int_equal(fault_clear(), 1);
	refused(e, -ENOENT, path, "there is no such file");
	assert_null(none);
}

static void flags_and_options_are_told(void **state)
{
	struct {
		struct percpu_segment_options o;
		uint64_t later;
	} newer = { .o = { .size = sizeof(newer) }, .later = 1 };
	const struct percpu_segment_options odd = { .size = sizeof(odd), .mode = 010000 };
	struct percpu_segment *none = NULL;

	(void)state;
	refused(percpu_segment_open("./a", ALL, &odd, &none), -EINVAL, "./a",
		"its .mode has bits beside 07777");
	refused(percpu_segment_open("a", 0x41, NULL, &none), -EINVAL, "a",
		"flags 0x40 are not known");
	refused(percpu_segment_open("a", ALL, &newer.o, &none), -EINVAL, "a",
		"its options have another size, or fields that are not known");
	assert_null(none);
}

static void files_are_told(void **state)
{
	char missing[160], deep[160];
	struct percpu_reader *no_reader = NULL;
	struct percpu_segment *none = NULL;

	(void)state;
	snprintf(missing, sizeof(missing), "%s", test_path("missing"));
	snprintf(deep, sizeof(deep), "%s", test_path("none/deep"));
	refused(percpu_segment_open(missing, 0, NULL, &none), -ENOENT, missing,
		"there is no such file: the first process that counts creates it");
	refused(percpu_reader_open(missing, &no_reader), -ENOENT, missing, "there is no such file");
	refused(percpu_segment_open(deep, ALL, NULL, &none), -ENOENT, deep,
		"there is no such directory");
	refused(percpu_reader_open(deep, &no_reader), -ENOENT, deep, "there is no such directory");
	refused(percpu_segment_open("/none/x", 0, NULL, &none), -ENOENT, "/none/x",
		"there is no such directory");
	refused(percpu_segment_open("/none", 0, NULL, &none), -ENOENT, "/none",
		"there is no such file");
	assert_int_equal(percpu_reader_open("missing-percpu", &no_reader), -ENOENT);
	assert_ptr_equal(strstr(percpu_error(),
				"segment \"missing-percpu\" (/dev/shm/percpu.missing-percpu, "
				"or else /run/percpu/missing-percpu): "
				"there is no such file"),
			 percpu_error());
	refused(percpu_reader_open("/dev/shm", &no_reader), -EISDIR, "/dev/shm",
		"it is a directory");
	assert_null(none);
	assert_null(no_reader);
}

/* A path may fail before its last name. */
static void links_are_told(void **state)
{
	char link[160], below[180];
	struct percpu_reader *no_reader = NULL;
	struct percpu_segment *none = NULL;

	(void)state;
	snprintf(link, sizeof(link), "%s", test_path("circle"));
	snprintf(below, sizeof(below), "%s/x", link);
	assert_int_equal(symlink("circle", link), 0);
	refused(percpu_segment_open(link, ALL, NULL, &none), -ELOOP, link,
		"the file is a symbolic link");
	refused(percpu_segment_open(below, ALL, NULL, &none), -ELOOP, below,
		"the path has too many symbolic links");
	refused(percpu_reader_open(below, &no_reader), -ELOOP, below,
		"the path has too many symbolic links");
	assert_int_equal(unlink(link), 0);
	assert_null(none);
	assert_null(no_reader);
}

/* The program is in a folder that was removed. To create the file is no advice there. */
static void folders_that_take_no_file_are_told(void **state)
{
	const int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct percpu_segment *none = NULL;
	char folder[160];

	(void)state;
	snprintf(folder, sizeof(folder), "%s", test_path("gone"));
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(chdir(folder), 0);
	assert_int_equal(rmdir(folder), 0);
	refused(percpu_segment_open("./x", ALL, NULL, &none), -ENOENT, "./x",
		"no file can be created in this directory");
	refused(percpu_segment_open("./x", 0, NULL, &none), -ENOENT, "./x",
		"there is no such file");
	assert_int_equal(fchdir(here), 0);
	assert_int_equal(close(here), 0);
	assert_null(none);
}

static void descriptors_are_told(void **state)
{
	const int fd = memfd_create("text", 0);
	struct percpu_reader *no_reader = NULL;
	struct percpu_segment *none = NULL;
	char words[100];

	(void)state;
	assert_int_equal(write(fd, "text", 4), 4);
	assert_int_equal(percpu_segment_open_fd(-1, 0, NULL, &none), -EBADF);
	assert_string_equal(percpu_error(), "segment of descriptor -1: the descriptor is closed, "
					    "or not open for this");
	fail_otherwise();
	assert_int_equal(percpu_reader_open_fd(-1, &no_reader), -EBADF);
	assert_string_equal(percpu_error(), "segment of descriptor -1: the descriptor is closed, "
					    "or not open for this");
	snprintf(words, sizeof(words), "segment of descriptor %d: the file ends before byte", fd);
	assert_int_equal(percpu_reader_open_fd(fd, &no_reader), -EBADMSG);
	assert_ptr_equal(strstr(percpu_error(), words), percpu_error());
	snprintf(words, sizeof(words), "segment of descriptor %d: the file is no segment", fd);
	assert_int_equal(percpu_segment_open_fd(fd, 0, NULL, &none), -EBADMSG);
	assert_ptr_equal(strstr(percpu_error(), words), percpu_error());
	fail_otherwise();
	assert_int_equal(percpu_segment_open_fd(fd, 0, NULL, NULL), -EINVAL);
	assert_non_null(strstr(percpu_error(), "there is no place for the handle"));
	fail_otherwise();
	assert_int_equal(percpu_reader_open_fd(fd, NULL), -EINVAL);
	assert_string_equal(percpu_error(), "there is no place for the reader");
	assert_null(none);
	assert_null(no_reader);
	close(fd);
}

/* Assert that a segment cannot be created in the file, and how the sentence goes on. */
static void no_segment_in(int fd, int expected, const char *words)
{
	struct percpu_segment *none = NULL;
	char sentence[200];

	assert_true(fd >= 0);
	assert_int_equal(percpu_segment_open_fd(fd, ALL, NULL, &none), expected);
	snprintf(sentence, sizeof(sentence), "segment of descriptor %d: %s", fd, words);
	assert_ptr_equal(strstr(percpu_error(), sentence), percpu_error());
	assert_null(none);
	close(fd);
}

/* Where a segment cannot be created, the sentence is not about another file. */
static void files_that_take_no_segment_are_told(void **state)
{
	int sealed = memfd_create("sealed", MFD_ALLOW_SEALING), pair[2];

	(void)state;
	assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_GROW), 0);
	no_segment_in(sealed, -EPERM, "the file is sealed (fcntl(2), F_ADD_SEALS), or immutable");
	no_segment_in(open("/dev/null", O_RDWR), -EBADMSG, "it is no regular file");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	no_segment_in(pair[0], -EBADMSG, "it is no regular file");
	close(pair[1]);
	assert_int_equal(mkfifo(test_path("fifo"), 0600), 0);
	no_segment_in(open(test_path("fifo"), O_RDWR), -EBADMSG, "it is no regular file");
	assert_int_equal(unlink(test_path("fifo")), 0);
}

/* Return one end of a pipe, or of a pair of sockets. The other end is closed. */

static int pipe_end(bool to_write)
{
	int pair[2];

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	close(pair[!to_write]);
	return pair[to_write];
}

static int socket_end(void)
{
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	close(pair[1]);
	return pair[0];
}

/* What a file is comes before how it is open. Only a descriptor of O_PATH, which tells nothing else,
 * is refused in any case. */
static void descriptors_are_told_apart(void **state)
{
	char file[160];
	struct percpu_reader *reader = NULL;
	struct percpu_segment *none = NULL;

	(void)state;
	snprintf(file, sizeof(file), "%s", test_path("there"));
	const struct {
		int fd, to_count, to_read;
		const char *words;
	} of[] = {
		{ pipe_end(false), -EBADMSG, -EBADMSG, "it is no regular file" },
		{ pipe_end(true), -EBADMSG, -EBADMSG, "it is no regular file" },
		{ socket_end(), -EBADMSG, -EBADMSG, "it is no regular file" },
		{ open("/dev/null", O_RDWR), -EBADMSG, -EBADMSG, "it is no regular file" },
		{ open("/dev/null", O_RDONLY), -EBADMSG, -EBADMSG, "it is no regular file" },
		{ open("/dev/null", O_WRONLY), -EBADMSG, -EBADMSG, "it is no regular file" },
		{ open("/dev/null", O_PATH), -EBADF, -EBADF, "the descriptor is closed, or not" },
		{ open("/", O_RDONLY | O_DIRECTORY), -EISDIR, -EISDIR, "it is a directory" },
		{ open("/", O_PATH | O_DIRECTORY), -EBADF, -EBADF, "the descriptor is closed" },
		{ open(file, O_WRONLY), -EBADF, -EBADF, "the descriptor is closed, or not open" },
		{ open(file, O_PATH), -EBADF, -EBADF, "the descriptor is closed, or not open" },
		{ open(file, O_RDONLY), -EBADF, 0, "the descriptor is closed, or not open" },
		{ 1000, -EBADF, -EBADF, "the descriptor is closed, or not open" },
	};

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		assert_true(of[i].fd >= 0);
		for (unsigned flags = 0; flags < 8; flags++) {
			assert_int_equal(percpu_segment_open_fd(of[i].fd, flags, NULL, &none),
					 of[i].to_count);
			assert_non_null(strstr(percpu_error(), of[i].words));
			fail_otherwise();
		}
		assert_int_equal(percpu_reader_open_fd(of[i].fd, &reader), of[i].to_read);
		if (of[i].to_read != 0)
			assert_non_null(strstr(percpu_error(), of[i].words));
		percpu_reader_close(of[i].to_read == 0 ? reader : NULL);
		(void)close(of[i].fd);
	}
	assert_null(none);
}

/* Assert that neither a segment nor a reader is opened in the file, and how the sentence goes on.
 * Remove the file. */
static void no_segment_at(const char *name, int expected, const char *words)
{
	struct percpu_reader *no_reader = NULL;
	struct percpu_segment *none = NULL;

	refused(percpu_segment_open(name, 0, NULL, &none), expected, name, words);
	refused(percpu_segment_open(name, ALL, NULL, &none), expected, name, words);
	refused(percpu_reader_open(name, &no_reader), expected, name, words);
	assert_null(none);
	assert_null(no_reader);
	assert_int_equal(unlink(name), 0);
}

static void files_without_segment_are_told_apart(void **state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct percpu_reader *no_reader = NULL;
	struct percpu_segment *none = NULL;
	char name[sizeof(address.sun_path)];
	int fd;

	(void)state;
	snprintf(name, sizeof(name), "%s", test_path("no-segment"));
	strcpy(address.sun_path, name);
	fd = open(name, O_RDWR | O_CREAT, 0600);
	assert_int_equal(percpu_segment_open_fd(fd, 0, NULL, &none), -EBADMSG);
	assert_non_null(strstr(percpu_error(), ": the file is empty: "));
	assert_int_equal(percpu_reader_open_fd(fd, &no_reader), -EBADMSG);
	assert_non_null(strstr(percpu_error(), ": the file is empty: "));
	assert_null(none);
	fault_set(FAULT_FSTAT, 2, EIO, false); /* what the file is cannot be found out */
	assert_int_equal(percpu_segment_open_fd(fd, 0, NULL, &none), -EBADMSG);
	assert_int_equal(fault_clear(), 1);
	assert_non_null(strstr(percpu_error(), ": the file is no segment: "));
	assert_null(none);
	assert_null(no_reader);
	close(fd);
	no_segment_at(name, -EBADMSG, "the file is empty: ");
	assert_int_equal(mkfifo(name, 0600), 0);
	no_segment_at(name, -EBADMSG, "it is no regular file");
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	no_segment_at(name, -ENXIO, "it is no regular file");
	close(fd);
}

/* Write a segment's file, with these bytes of its head changed, and cut to that length. */
static void make_odd_file(const char *name, size_t at, uint64_t value, off_t length)
{
	struct percpu_segment *s = NULL;
	int fd;

	assert_int_equal(percpu_segment_open(name, ALL, NULL, &s), 0);
	percpu_segment_close(s);
	fd = open(name, O_RDWR | O_CLOEXEC);
	assert_int_equal(pwrite(fd, &value, sizeof(value), (off_t)at), sizeof(value));
	if (length != 0)
		assert_int_equal(ftruncate(fd, length), 0);
	close(fd);
}

static uint64_t head_of(uint32_t version)
{
	const uint32_t half[2] = { version, 0 };
	uint64_t all;

	memcpy(&all, half, sizeof(all));
	return all;
}

static void odd_files_are_told_apart(void **state)
{
	static const size_t version = offsetof(struct percpu_header, version);
	static const size_t stride = offsetof(struct percpu_header, stride);
	const struct {
		size_t at;
		uint64_t value;
		off_t length;
		int e;
		const char *words;
	} odd[] = {
		{ 0, 7, 0, -EBADMSG, "the file is no segment: use another name" },
		{ 0, __builtin_bswap64(PERCPU_MAGIC), 0, -EBADMSG, "of the other byte order" },
		{ 0, PERCPU_MAGIC, 5000, -EBADMSG, "is damaged or cut short" },
		{ version, head_of(PERCPU_FORMAT_MAJOR + 1), 0, -EPROTO,
		  "by another version of the library" },
		{ stride, 4096, 0, -EPROTO, "on another kind of machine" },
	};
	struct percpu_segment *none = NULL;
	char name[160], words[300];

	(void)state;
	snprintf(name, sizeof(name), "%s", test_path("odd"));
	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		make_odd_file(name, odd[i].at, odd[i].value, odd[i].length);
		assert_int_equal(percpu_segment_open(name, ALL, NULL, &none), odd[i].e);
		snprintf(words, sizeof(words), "segment \"%s\": the file was", name);
		if (i != 0)
			assert_ptr_equal(strstr(percpu_error(), words), percpu_error());
		assert_non_null(strstr(percpu_error(), odd[i].words));
		assert_int_equal(unlink(name), 0);
	}
	assert_null(none);
}

/* Less than a head is no head, although it begins like one; and the offset of the program's
 * descriptor stays. */
static void short_files_are_no_segments(void **state)
{
	const uint64_t words[2] = { PERCPU_MAGIC, 0 };
	struct percpu_segment *none = NULL;
	int fd;

	(void)state;
	for (size_t n = 1; n <= sizeof(words); n++) {
		fd = memfd_create("short", 0);
		assert_int_equal(write(fd, words, n), n);
		assert_int_equal(lseek(fd, 1, SEEK_SET), 1);
		assert_int_equal(percpu_segment_open_fd(fd, ALL, NULL, &none), -EBADMSG);
		assert_non_null(strstr(percpu_error(), n == sizeof(words) ?
							       "is damaged or cut short" :
							       "the file is no segment: "));
		assert_int_equal(lseek(fd, 0, SEEK_CUR), 1);
		close(fd);
	}
	assert_null(none);
}

/* A thread that was canceled comes out of the call with its error. */
static void *open_when_canceled(void *arg)
{
	struct percpu_segment *none = NULL;
	int *const e = arg;

	(void)pthread_cancel(pthread_self());
	*e = percpu_segment_open(test_path("canceled"), ALL, NULL, &none);
	return NULL;
}

static void canceled_threads_are_told(void **state)
{
	pthread_t thread;
	int fd, e = 0;

	(void)state;
	fd = open(test_path("canceled"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "text", 4), 4);
	close(fd);
	assert_int_equal(pthread_create(&thread, NULL, open_when_canceled, &e), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(e, -EBADMSG);
	assert_int_equal(unlink(test_path("canceled")), 0);
}

/* The file is that of the user who has started the program, and not of the one as whom it runs. */
static int open_as_another(void *arg)
{
	struct percpu_segment *none = NULL;

	if (setresuid((uid_t)-1, 12345, (uid_t)-1) != 0)
		return 77;
	test_child_require(percpu_segment_open(arg, 0, NULL, &none) == -EPERM, "refused");
	test_child_require(strstr(percpu_error(), "the file is another user's") != NULL,
			   percpu_error());
	return 0;
}

static void who_runs_the_program_is_told(void **state)
{
	struct percpu_segment *s = NULL;
	char name[160], directory[160];
	int status;

	(void)state;
	snprintf(name, sizeof(name), "%s", test_path("real"));
	assert_int_equal(percpu_segment_open(name, ALL, NULL, &s), 0);
	percpu_segment_close(s);
	assert_int_equal(chmod(name, 0666), 0);
	snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(name, '/') - name), name);
	assert_int_equal(chmod(directory, 0755), 0);
	status = test_wait(test_fork(open_as_another, name), 60);
	assert_int_equal(unlink(name), 0);
	if (status == 77 << 8)
		test_skip("not permitted to become another user");
	assert_int_equal(status, 0);
}

/* A process without rights, for which each cause has words of its own. */
static int open_without_rights(void *arg)
{
	const char *const file = arg;
	struct percpu_segment *none = NULL;
	char beside[200];

	if (seteuid(12345) != 0)
		return 77;
	test_child_require(percpu_segment_open(file, ALL, NULL, &none) == -EACCES, "a file");
	test_child_require(strstr(percpu_error(), "the permissions of the file do not") != NULL,
			   percpu_error());
	snprintf(beside, sizeof(beside), "%s-beside", file);
	test_child_require(percpu_segment_open(beside, ALL, NULL, &none) == -EACCES, "no file");
	test_child_require(strstr(percpu_error(), "the permissions of its directory do not") !=
				   NULL,
			   percpu_error());
	return 0;
}

static int open_anothers_file(void *arg)
{
	const char *const file = arg;
	struct percpu_segment *none = NULL;

	test_child_require(percpu_segment_open(file, ALL, NULL, &none) == -EPERM, "refused");
	test_child_require(strstr(percpu_error(),
				  "another user's: PERCPU_SEGMENT_FOREIGN counts in "
				  "it nevertheless") != NULL,
			   percpu_error());
	return 0;
}

static void rights_are_told_apart(void **state)
{
	struct percpu_segment *s = NULL;
	char name[160], directory[160];
	int status;

	(void)state;
	snprintf(name, sizeof(name), "%s", test_path("rights"));
	snprintf(directory, sizeof(directory), "%s", name);
	*strrchr(directory, '/') = '\0';
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(percpu_segment_open(name, ALL, NULL, &s), 0);
	percpu_segment_close(s);
	status = test_wait(test_fork(open_without_rights, name), 60);
	if (status == 0 && chown(name, 12345, (gid_t)-1) == 0)
		test_in_child(open_anothers_file, name);
	assert_int_equal(unlink(name), 0);
	if (status == 77 << 8)
		test_skip("not permitted to become another user");
	assert_int_equal(status, 0);
}

/* Options are named. */
static void options_are_told(void **state)
{
	struct percpu_segment_options o = { .size = sizeof(o), .cpus = PERCPU_MAX_CPUS + 1 };
	struct percpu_segment *none = NULL;
	uint32_t certain = 0;
	char words[100];

	(void)state;
	refused(percpu_segment_open("./a", ALL, &o, &none), -E2BIG, "./a",
		"its .cpus is more than");
	assert_true(percpu_possible_cpus(&certain) > 0);
	if (certain < 2)
		test_skip("there is one CPU");
	o.cpus = certain - 1;
	snprintf(words, sizeof(words), "its .cpus is %u, and this machine has %u CPUs", certain - 1,
		 certain);
	refused(percpu_segment_open("./a", ALL, &o, &none), -EINVAL, "./a", words);
	assert_null(none);
}

/* A descriptor has no directory that could be missing. */
static void regions_without_segment_are_told(void **state)
{
	const int fd = memfd_create("bare", 0);
	struct percpu_reader *no_reader = NULL;
	struct percpu_region *region;

	(void)state;
	assert_int_equal(percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL,
					       &region),
			 0);
	assert_int_equal(percpu_reader_open_fd(fd, &no_reader), -ENOENT);
	assert_non_null(strstr(percpu_error(), ": the file is a region without a segment"));
	assert_null(no_reader);
	percpu_region_close(region);
	close(fd);
}

/* A file with another program's objects need not be damaged. */
static void other_regions_are_told(void **state)
{
	const int fd = memfd_create("other", 0);
	struct percpu_counter_array *array;
	struct percpu_segment *no_segment = NULL;
	struct percpu_reader *none = NULL;
	struct percpu_region *region;

	(void)state;
	assert_int_equal(percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL,
					       &region),
			 0);
	assert_int_equal(percpu_counter_array_open(region, 0, 4, &array), 0);
	assert_int_equal(percpu_segment_open_fd(fd, 0, NULL, &no_segment), -EBADMSG);
	assert_non_null(strstr(percpu_error(), ": the file is a region with other objects"));
	assert_int_equal(percpu_reader_open_fd(fd, &none), -EBADMSG);
	assert_non_null(strstr(percpu_error(), ": the file is a region with other objects"));
	assert_null(none);
	assert_null(no_segment);
	percpu_counter_array_detach(array);
	percpu_region_close(region);
	close(fd);
}

/* A thread that has a sentence needs no memory for the next one. */
static void sentences_are_replaced_without_memory(void **state)
{
	(void)state;
	fail_otherwise();
	fault_set(FAULT_MALLOC, 0, ENOMEM, true);
	assert_int_equal(percpu_segment_info(NULL, METRIC("x")), -EINVAL);
	assert_int_equal(fault_clear(), 0);
	assert_string_equal(percpu_error(), "the segment is NULL");
}

/* Run as a thread. Returns its sentence, after a failure for which there was no memory. */
static void *fail_without_memory(void *arg)
{
	int e;

	(void)arg;
	fault_set(FAULT_MALLOC, 0, ENOMEM, true);
	e = percpu_segment_info(NULL, METRIC("x"));
	(void)fault_clear();
	return (void *)(e == -EINVAL && *percpu_error() == '\0' ? "" : "said");
}

static int start_thread_without_memory(void *arg)
{
	void *said = NULL;
	pthread_t t;

	(void)signal(SIGSEGV, SIG_DFL);
	test_child_require(pthread_create(&t, NULL, fail_without_memory, arg) == 0, "a thread");
	test_child_require(pthread_join(t, &said) == 0 && said != NULL, "joined");
	test_child_require(*(const char *)said == '\0', "no sentence");
	return 0;
}

static void threads_without_memory_are_told_nothing(void **state)
{
	(void)state;
	test_in_child(start_thread_without_memory, NULL);
}

static void success_leaves_the_sentence(void **state)
{
	const char *const path = test_path("there");
	struct percpu_segment *again;
	struct percpu_reader *r;

	(void)state;
	assert_int_equal(percpu_reader_open(NULL, &r), -EINVAL);
	assert_int_equal(percpu_segment_open(path, 0, NULL, &again), 0);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	assert_int_equal(percpu_reader_set_timeout(r, 0), 0);
	percpu_reader_close(r);
	percpu_segment_close(again);
	assert_string_equal(percpu_error(), "the name of the segment is NULL");
	assert_int_equal(percpu_reader_set_timeout(NULL, 0), -EINVAL);
	assert_string_equal(percpu_error(), "the reader is NULL");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_are_told),
		cmocka_unit_test(names_are_told),
		cmocka_unit_test(long_paths_end_with_their_name),
		cmocka_unit_test(ends_of_paths_are_no_names),
		cmocka_unit_test(without_memory_no_directory_is_missing),
		cmocka_unit_test(flags_and_options_are_told),
		cmocka_unit_test(files_are_told),
		cmocka_unit_test(links_are_told),
		cmocka_unit_test(folders_that_take_no_file_are_told),
		cmocka_unit_test(descriptors_are_told),
		cmocka_unit_test(files_that_take_no_segment_are_told),
		cmocka_unit_test(descriptors_are_told_apart),
		cmocka_unit_test(files_without_segment_are_told_apart),
		cmocka_unit_test(odd_files_are_told_apart),
		cmocka_unit_test(short_files_are_no_segments),
		cmocka_unit_test(canceled_threads_are_told),
		cmocka_unit_test(who_runs_the_program_is_told),
		cmocka_unit_test(rights_are_told_apart),
		cmocka_unit_test(options_are_told),
		cmocka_unit_test(regions_without_segment_are_told),
		cmocka_unit_test(other_regions_are_told),
		cmocka_unit_test(sentences_are_replaced_without_memory),
		cmocka_unit_test(threads_without_memory_are_told_nothing),
		cmocka_unit_test(success_leaves_the_sentence),
	};

	return cmocka_run_group_tests(tests, open_segment, close_segment);
}
