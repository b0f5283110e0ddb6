# SPDX-License-Identifier: MIT
"""The file system that a test system boots into: a cpio archive in memory.

It holds init, the programs of a build directory, and the libraries that they
name. Nothing but readelf and a compiler's search path is used, so it works for
another machine's programs as well.
"""

import os
import re
import stat
import subprocess


class Archive:
    """A cpio archive of the kind the kernel unpacks ("newc")."""

    def __init__(self):
        self._data = bytearray()
        self._names = set()

    def _append(self, name, mode, content=b""):
        raw = name.encode() + b"\0"
        fields = [len(self._names), mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(raw), 0]
        self._data += b"070701" + b"".join(b"%08X" % f for f in fields) + raw
        self._pad()
        self._data += content
        self._pad()

    def _pad(self):
        self._data += bytes(-len(self._data) % 4)

    def directory(self, path):
        """Add a directory, after those above it."""
        if path and path not in self._names:
            self.directory(os.path.dirname(path))
            self._names.add(path)
            self._append(path, stat.S_IFDIR | 0o755)

    def file(self, path, content, mode=0o755):
        """Add a file, once."""
        path = path.lstrip("/")
        if path not in self._names:
            self.directory(os.path.dirname(path))
            self._names.add(path)
            self._append(path, stat.S_IFREG | mode, content)

    def finish(self):
        """Return the bytes."""
        self._append("TRAILER!!!", 0)
        return bytes(self._data)


def read(path):
    """The content of a file."""
    with open(path, "rb") as f:
        return f.read()


def needed(program):
    """What an ELF file wants: (its interpreter or None, the names of its libraries)."""
    text = subprocess.run(
        ["readelf", "-ldW", program], capture_output=True, text=True, check=True
    ).stdout
    interpreter = re.search(r"program interpreter: (.*)\]", text)
    libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", text)
    return interpreter and interpreter[1], libraries


def find(library, directories, compiler):
    """Where a library is: in one of the directories, or where the compiler looks."""
    for d in directories:
        if os.path.exists(os.path.join(d, library)):
            return os.path.join(d, library)
    path = subprocess.run(
        [compiler, "-print-file-name=" + library], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not os.path.isabs(path):
        raise FileNotFoundError(library)
    return path


def add_program(archive, path, program, directories, compiler):
    """Add a program, or a library, and all it needs."""
    interpreter, libraries = needed(program)
    archive.file(path, read(program))
    if interpreter:
        archive.file(interpreter, read(find(os.path.basename(interpreter), directories, compiler)))
    if interpreter and "libc.so.6" in libraries:
        libraries.append("libgcc_s.so.1")  # glibc loads it when a thread is canceled
    for library in libraries:
        where = find(library, directories, compiler)
        add_program(archive, "lib/" + library, where, directories, compiler)
