# SPDX-License-Identifier: MIT
"""counting.py - programs that count, `percpu serve`, and what processes cost.

The program that counts is the example `counting` of the tool."""

import contextlib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PERCPU = os.path.abspath(sys.argv[1])


def counting() -> str:
    """Return the program that counts, made if it is not there."""
    made = pathlib.Path(PERCPU).parent / "examples/counting"
    if not made.exists():
        target = ROOT / "build/rust"
        command = ["cargo", "build", "-q", "--locked", "-p", "percpu-tool", "--example", "counting"]
        command += [
            "--manifest-path",
            str(ROOT / "bindings/rust/Cargo.toml"),
            "--target-dir",
            str(target),
        ]
        subprocess.run(command, check=True, timeout=900)
        made = target / "debug/examples/counting"
    return str(made)


class Program:
    """A program that counts."""

    def __init__(self, segment: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [counting(), segment, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.expect("ready")

    def expect(self, line: str) -> None:
        assert self.process.stdout
        said = self.process.stdout.readline()
        assert said == line + "\n", f"the program said {said!r}"

    def tell(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """Let it count no more. It still has its shares."""
        self.tell("stop")
        self.expect("stopped")

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class Server:
    def __init__(self, *segments: str, port: int = 0) -> None:
        command = [PERCPU, "serve", "--listen", f"127.0.0.1:{port}", *segments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr
        found = re.search(r"http://127.0.0.1:(\d+)/", self.process.stderr.readline())
        assert found, "percpu serve does not say where it listens"
        self.url, self.port = found.group(0), int(found.group(1))

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=20)


def cpu_seconds(pids: list[int]) -> float:
    """Return the time that processes had on a CPU."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """Return a process and all that it has started."""
    out = [pid]
    for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):
            out += children(int(child))
    return out


def resident(pid: int) -> int:
    """Return the KiB of memory of a process."""
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", text)[0])
