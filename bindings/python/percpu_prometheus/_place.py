# SPDX-License-Identifier: MIT
"""The file in which the processes of a directory count, and the name by which this one does."""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import stat
from collections.abc import Callable

from percpu import Reader, Segment, _core

from ._say import reason_of, say_once

FILE = "metrics.percpu"


def _open(path: str) -> Segment:
    """Open the file, or create it with the permissions of its directory.

    In a directory that all users may write to, a file of another user than root or the
    directory's owner is refused.
    """
    folder = os.stat(os.path.dirname(path))
    mode = stat.S_IMODE(folder.st_mode) & 0o666 | 0o600
    open_to_all = bool(folder.st_mode & stat.S_IWOTH)
    if folder.st_mode & stat.S_ISVTX:
        mode &= 0o644
    foreign = not open_to_all
    try:
        foreign = foreign or os.lstat(path).st_uid in (0, folder.st_uid)
    except FileNotFoundError:
        pass
    return Segment(path, create=True, mode=mode, foreign=foreign)


def _give_to_owner(path: str) -> None:
    """Let the directory's owner have a file that root has made for workers of that user.

    The owner may put another file of root's in its place meanwhile. That is no segment, or has a
    name elsewhere, and stays root's.
    """
    folder = os.stat(os.path.dirname(path))
    if os.geteuid() != 0 or folder.st_uid == 0:
        return
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(file)
            if status.st_uid == 0 and status.st_nlink == 1:
                Reader(file).close()
                os.fchown(file, folder.st_uid, folder.st_gid)
        finally:
            os.close(file)


def _file_id(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _tell_of_files(folder: str) -> None:
    """Say that files of prometheus_client's own mode are not read."""
    files = glob.glob(os.path.join(glob.escape(folder), "*.db"))
    own = f"_{os.getpid()}.db"
    if any(not file.endswith(own) for file in files):
        say_once(
            f"{folder} has .db files of prometheus_client's own multi-process mode, which are not "
            "read: remove them, unless a process without percpu_prometheus writes them"
        )


# In words of this package; other errors have the library's.
_WHY = {
    errno.ENOENT: "there is no such directory",
    errno.EACCES: "the permissions of the file or of its directory do not allow it",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EBADMSG: "the file is damaged, or is none of libpercpu: remove it",
    errno.EPROTO: "the file is of another version of libpercpu: remove it, and start all processes",
}


class NoFile(Exception):
    """The file cannot be had."""


class Place:
    """A file, and the segments by which this process counts in it: one for each identity."""

    def __init__(self, path: str, identify: Callable[[], object]) -> None:
        self.path = path
        self.identify = identify
        self.forks = _core.forks()
        self.segments: dict[str, Segment] = {}
        self.left: set[str] = set()  # identities that were given up
        self.file_id: tuple[int, int] | None = None
        _tell_of_files(os.path.dirname(path))

    def is_current(self) -> bool:
        """Tell whether the path still leads to the file."""
        return self.file_id is None or self.file_id == _file_id(self.path)

    def segment(self) -> Segment:
        """Return the segment to count in as the process that this is now, or raise an OSError."""
        name = str(self.identify())
        forks = _core.forks()
        if forks != self.forks:  # a child of fork has its parent's segments, and no name
            inherited = list(self.segments.values())[-1:]
            for segment in inherited:
                self._join(segment, name)
            self.segments = dict(zip((name,), inherited))
            self.forks = forks  # last: until then each thread joins, by the same name
        found = self.segments.get(name)
        if found is None:
            found = self.segments.setdefault(name, self._open(name))
        if name in self.left:
            self._join(found, name)
            self.left.discard(name)
        return found

    def _open(self, name: str) -> Segment:
        try:
            segment = _open(self.path)
        except OSError as e:
            why = _WHY.get(e.errno or 0) or reason_of(e)
            raise NoFile(f"{self.path}: {why}") from e
        _give_to_owner(self.path)
        self.file_id = _file_id(self.path)
        self._join(segment, name)
        return segment

    def _join(self, segment: Segment, name: str) -> None:
        short = name.encode("utf-8", "replace")[:63].decode("utf-8", "ignore")
        try:
            segment.join(short or "-")
        except OSError as e:
            say_once(f"gauges have no name of this process: {reason_of(e)}")


_places: dict[tuple[str, Callable[[], object]], Place] = {}


def place_of(folder: str, identify: Callable[[], object]) -> Place:
    """Return the place of a directory for such identities."""
    key = (folder, identify)
    place = _places.get(key)
    if place is None or not place.is_current():
        place = _places[key] = Place(os.path.join(folder, FILE), identify)
    return place


def leave(folder: str, identity: str) -> None:
    """Be no longer the process of that name, if this one has it."""
    for (named, _), place in list(_places.items()):
        segment = place.segments.get(identity) if named == folder else None
        if segment is not None:
            segment.leave()
            place.left.add(identity)
