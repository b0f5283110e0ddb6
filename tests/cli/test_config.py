#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the example of grace periods: readers, writers, and both when they are killed.

    test_config.py CONFIG

Prints TAP.
"""

import pathlib
import signal
import subprocess
import sys
import tempfile

CONFIG = sys.argv[1]
SECONDS = 60


class Settings:
    """A file of settings, and processes that use it."""

    def __init__(self, directory):
        self.path = str(pathlib.Path(directory) / "settings")

    def start(self, *args):
        """Start the program."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen([CONFIG, self.path, *args], **pipes)

    def run(self, *args):
        """Run it; return (status, output, errors)."""
        program = self.start(*args)
        output, errors = program.communicate(timeout=SECONDS)
        return program.returncode, output, errors

    def set(self, name, value):
        """Set a setting; the program must print nothing."""
        result = self.run("set", name, value)
        assert result == (0, "", ""), result

    def hold(self):
        """Start a reader that stays in a section."""
        reader = self.start("hold", "600")
        assert reader.stdout.readline().startswith("holding version "), "no section"
        return reader


def settings_are_read(settings):
    """What was set is read, and what was not is not there."""
    settings.set("color", "red")
    settings.set("size", "3")
    settings.set("color", "blue")
    assert settings.run("get", "color") == (0, "blue\n", "")
    assert settings.run("get", "size") == (0, "3\n", "")
    assert settings.run("get", "weight") == (1, "", "")


def tables_are_whole(settings):
    """Readers read all the time while the table is replaced."""
    readers = [settings.start("read", "1") for _ in range(3)]
    for i in range(20):
        settings.set("count", str(i))
        if i == 10:
            readers[0].kill()
    for i, reader in enumerate(readers):
        output, errors = reader.communicate(timeout=SECONDS)
        if i > 0:
            assert (reader.returncode, errors) == (0, ""), errors
            assert int(output.split()[0]) > 0, output
    assert settings.run("get", "count") == (0, "19\n", "")


def the_killed_are_not_waited_for(settings):
    """Who is stopped in a section is waited for and named; once it is killed it is not."""
    reader = settings.hold()
    reader.send_signal(signal.SIGSTOP)
    writer = settings.start("set", "color", "green")
    line = writer.stderr.readline()
    assert line == f"config: waiting for process {reader.pid}, which is stopped\n", line
    assert settings.run("get", "color") == (0, "blue\n", "")
    reader.kill()
    writer.communicate(timeout=SECONDS)
    reader.communicate(timeout=SECONDS)
    assert writer.returncode == 0
    assert settings.run("get", "color") == (0, "green\n", "")


def a_killed_writer_leaves_what_is_whole(settings):
    """One that waits, and holds the lock of writers."""
    reader = settings.hold()
    writer = settings.start("set", "color", "black")
    assert "waiting for process" in writer.stderr.readline()
    writer.kill()
    writer.communicate(timeout=SECONDS)
    assert settings.run("get", "color") == (0, "green\n", "")
    reader.kill()
    reader.communicate(timeout=SECONDS)
    settings.set("color", "white")
    assert settings.run("get", "color") == (0, "white\n", "")


def main():
    """Print a line per test."""
    tests = (
        settings_are_read,
        tables_are_whole,
        the_killed_are_not_waited_for,
        a_killed_writer_leaves_what_is_whole,
    )
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(directory)
        for i, test in enumerate(tests, 1):
            try:
                test(settings)
                print(f"ok {i} - {test.__doc__.strip()}", flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as wrong:
                print(f"# {wrong}\nnot ok {i} - {test.__doc__.strip()}", flush=True)
                failed += 1
    print(f"1..{len(tests)}")
    sys.exit(failed != 0)


main()
