/* SPDX-License-Identifier: MIT */
/*
 * lwbuf_xio.cc - copy ranges of bytes out of pages of a file, and into them: by xio.h, by pread(2)
 * and pwrite(2), and by memcpy() from a mapping of the whole file.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include <percpu/percpu.h>
#include <percpu/seq.h>
#include <percpu/xio.h>

#include "lwbuf.h"

static constexpr size_t file_size = size_t(4) << 20;

static int file()
{
	static int fd = [] {
		int made = memfd_create("bench-xio", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		std::vector<char> bytes(file_size, 'x');

		if (made < 0 || pwrite(made, bytes.data(), file_size, 0) != ssize_t(file_size) ||
		    fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
			must(-errno, "a sealed memfd");
		return made;
	}();

	return fd;
}

template <percpu_lwbuf_backend backend> struct xio {
	percpu_lwbufs *f;

	xio()
	{
		percpu_lwbuf_options o = {};

		o.size = sizeof(o);
		o.backend = backend;
		o.flags = PERCPU_LWBUF_WRITABLE;
		must(percpu_lwbuf_create(file(), &o, &f), "buffers of a file");
	}
	~xio()
	{
		must(percpu_lwbuf_destroy(f), "destroyed buffers");
	}
	void copy(size_t at, char *memory, size_t bytes, bool in)
	{
		percpu_xio x;
		int e = percpu_xio_init(&x, f, at, bytes);

		if (e == 0)
			e = in ? percpu_xio_copy_in(&x, 0, memory, bytes) :
				 percpu_xio_copy_out(&x, 0, memory, bytes);
		if (e != 0)
			must(e, "a copy");
	}
};

struct system_calls {
	static void copy(size_t at, char *memory, size_t bytes, bool in)
	{
		ssize_t n = in ? pwrite(file(), memory, bytes, off_t(at)) :
				 pread(file(), memory, bytes, off_t(at));

		if (n != ssize_t(bytes))
			must(-EIO, "a copy");
	}
};

struct own_mapping {
	char *at;

	own_mapping()
		: at(static_cast<char *>(
			  mmap(nullptr, file_size, PROT_READ | PROT_WRITE, MAP_SHARED, file(), 0)))
	{
		if (at == MAP_FAILED)
			must(-errno, "mmap");
	}
	~own_mapping()
	{
		munmap(at, file_size);
	}
	void copy(size_t from, char *memory, size_t bytes, bool in)
	{
		if (in)
			memcpy(at + from, memory, bytes);
		else
			memcpy(memory, at + from, bytes);
	}
};

/* Copies begin 100 bytes behind a page's first byte, so that they cross a page more. */
template <class C> static void run(benchmark::State &state, C &c, unsigned bytes, bool in)
{
	std::vector<char> memory(bytes, 'y');
	constexpr unsigned batch = 16;
	pinned here(unsigned(state.thread_index()));
	size_t at = 100;

	percpu_seq_attach();
	for (auto _ : state) {
		for (unsigned i = 0; i < batch; i++) {
			c.copy(at, memory.data(), bytes, in);
			at = (at + 4096 * 17) % (file_size - 65536 - 4096);
			at = at - at % 4096 + 100;
		}
		benchmark::DoNotOptimize(memory.data());
	}
	state.counters["ops"] = double(state.iterations()) * batch;
}

template <class C> static void measure(const char *name)
{
	for (bool in : { false, true })
		for (unsigned bytes : copied) {
			auto c = std::make_shared<C>();

			benchmark::RegisterBenchmark(
				text(in ? COPY_IN : COPY_OUT, name, bytes).c_str(),
				[c, bytes, in](benchmark::State &state) {
					run(state, *c, bytes, in);
				});
		}
}

void register_copies()
{
	measure<xio<PERCPU_LWBUF_WINDOW>>(XIO_WINDOW);
	measure<xio<PERCPU_LWBUF_DIRECT>>(XIO_DIRECT);
	measure<xio<PERCPU_LWBUF_BOUNCE>>(XIO_BOUNCE);
	measure<system_calls>(SYSTEM_CALLS);
	measure<own_mapping>(OWN_MAPPING);
}
