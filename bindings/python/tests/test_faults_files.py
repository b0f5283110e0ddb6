# SPDX-License-Identifier: MIT
"""Directories and files that cannot be used: the program goes on, and says it once."""

import os
import struct
import subprocess
from pathlib import Path

import pytest
from programs import run, said, scrape, scrape_if_readable

FILE = "metrics.percpu"
NOBODY = 65534

# Counts by each kind of metric, and says what the process itself sees of it.
COUNT = """
import gc, os
def count():
    registry = CollectorRegistry()
    counter = Counter("jobs", "Jobs.", ["name"], registry=registry)
    histogram = Histogram("seconds", "Seconds.", registry=registry)
    summary = Summary("bytes", "Bytes.", registry=registry)
    gauge = Gauge("busy", "Busy.", registry=registry, multiprocess_mode="livesum")
    for n in range(3):
        counter.labels("one").inc(0.5)
        histogram.observe(0.25)
        summary.observe(2)
        gauge.inc()
    gauge.set(gauge._value.get() + 1)
    of = registry.get_sample_value
    assert of("jobs_total", {"name": "one"}) == 1.5, of("jobs_total", {"name": "one"})
    assert of("seconds_count") == 3, of("seconds_count")
    assert of("seconds_sum") == 0.75, of("seconds_sum")
    assert of("bytes_count") == 3, of("bytes_count")
    assert of("bytes_sum") == 6, of("bytes_sum")
    assert of("busy") == 4, of("busy")
"""
# As a user who may not do everything; root, who may, becomes one.
DROP = f"""
import os, logging.handlers, traceback, encodings.idna
if os.geteuid() == 0:
    os.setgroups([])
    os.setegid({NOBODY})
    os.seteuid({NOBODY})
"""
STATUS = """
status = percpu_prometheus.status()
assert sorted(status.private) == ["busy", "bytes", "jobs", "seconds"], status
"""


def head(path: Path) -> bytes:
    """Return how a segment begins; the whole file is large and sparse."""
    with path.open("rb") as file:
        return file.read(1 << 20)


def counts_alone(directory: Path, program: str = COUNT + "count()\n") -> list[str]:
    """Run a program whose metrics count in its process alone. Returns what it said."""
    lines = said(run(program + STATUS, directory))
    assert len(lines) == 1, lines  # one for all metrics
    return lines


def test_no_directory(tmp_path: Path) -> None:
    """Where there is no directory, the log says so, and metrics count in their process."""
    lines = counts_alone(tmp_path / "none")
    assert "there is no such directory" in lines[0]
    assert not (tmp_path / "none").exists()


def test_no_directory_any_more(tmp_path: Path) -> None:
    """A directory that is removed while the program counts stops nobody."""
    program = """
import shutil
directory = os.environ["PROMETHEUS_MULTIPROC_DIR"]
early = Counter("early", "Early.")
family = Counter("family", "Family.", ["n"])
gauge = Gauge("gauge", "Gauge.")
early.inc()
shutil.rmtree(directory)
early.inc()
family.labels("1").inc()
gauge.set(3)
if os.fork() == 0:
    early.inc()
    gauge.set(4)
    family.labels("2").inc()
    os._exit(0)
assert os.wait()[1] == 0
assert early._value.get() == 3
count()
"""
    directory = tmp_path / "counts"
    directory.mkdir()
    assert said(run(COUNT + program, directory))


def test_new_directory(tmp_path: Path) -> None:
    """Metrics that are made after the directory was made anew count in the new file."""
    program = """
import shutil
directory = os.environ["PROMETHEUS_MULTIPROC_DIR"]
Counter("early", "Early.").inc()
shutil.rmtree(directory)
os.mkdir(directory)
count()
"""
    directory = tmp_path / "counts"
    directory.mkdir()
    assert said(run(COUNT + program, directory)) == []
    assert scrape(directory)['jobs_total{name="one"}'] == 1.5


def test_read_only_directory(tmp_path: Path) -> None:
    """In a directory that may not be written to, each metric counts in its process."""
    directory = tmp_path / "counts"
    directory.mkdir(mode=0o555)
    for path in (directory, *list(directory.parents)[:3]):
        path.chmod(0o555 if path == directory else 0o755)
    lines = counts_alone(directory, DROP + COUNT + "count()\n")
    assert all("permissions" in line for line in lines), lines


def test_file_as_directory(tmp_path: Path) -> None:
    """Where the directory is a file, each metric counts in its process."""
    (tmp_path / "file").write_text("")
    counts_alone(tmp_path / "file")


@pytest.mark.parametrize(
    "content",
    [b"hello\n", os.urandom(1 << 20), bytes(1 << 20), b""],
    ids=["text", "random", "zeros", "empty"],
)
def test_foreign_file(tmp_path: Path, content: bytes) -> None:
    """A file that is no segment is left as it is, and metrics count in their process."""
    (tmp_path / FILE).write_bytes(content)
    counts_alone(tmp_path)
    assert (tmp_path / FILE).read_bytes() == content
    assert scrape_if_readable(tmp_path) is None


@pytest.mark.parametrize("kind", ["directory", "fifo", "link", "dangling"])
def test_no_regular_file(tmp_path: Path, kind: str) -> None:
    """What is no regular file is not used, and nobody waits for it."""
    directory, path = tmp_path / "counts", tmp_path / "counts" / FILE
    directory.mkdir()
    other = tmp_path / "other"
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(other)
        if kind == "link":
            other.write_text("precious")
    counts_alone(directory)
    assert other.read_text() == "precious" if kind == "link" else not other.exists()


def test_another_users_file(tmp_path: Path) -> None:
    """In a directory that all may write to, another user's file is not used."""
    if os.geteuid() != 0:
        pytest.skip("to give a file to another user takes root")
    directory = tmp_path / "counts"
    directory.mkdir()
    run(COUNT + "count()\n", directory)
    before = head(directory / FILE)
    os.chown(directory / FILE, NOBODY, NOBODY)
    directory.chmod(0o1777)
    lines = counts_alone(directory)
    assert head(directory / FILE) == before
    assert all("another user" in line for line in lines), lines


def test_another_version(tmp_path: Path) -> None:
    """A segment of another version is left as it is."""
    run(COUNT + "count()\n", tmp_path)
    path = tmp_path / FILE
    (version,) = struct.unpack_from("<I", head(path), 8)
    with path.open("r+b") as file:
        file.seek(8)
        file.write(struct.pack("<I", version + 1))
    changed = head(path)
    lines = counts_alone(tmp_path)
    assert head(path) == changed
    assert all("version" in line for line in lines), lines


DAMAGE = """
import random
draw = random.Random({seed})
count()
descriptor = os.open(os.environ["PROMETHEUS_MULTIPROC_DIR"] + "/metrics.percpu", os.O_RDWR)
size = os.fstat(descriptor).st_size
used, at = [], 0
while True:  # the file is sparse
    try:
        at = os.lseek(descriptor, at, os.SEEK_DATA)
    except OSError:
        break
    used.append(at)
    at += 4096
for i in range(40):
    at = draw.choice(used) + draw.randrange(4096)
    os.pwrite(descriptor, draw.randbytes(draw.choice((1, 8))), min(at, size - 8))
child = Counter("more", "More.", ["n"])
gauge = Gauge("gauge", "Gauge.")
for n in range(3):
    child.labels(str(n)).inc()
    gauge.set(n)
import percpu
from prometheus_client import generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
registry = CollectorRegistry()
MultiProcessCollector(registry)
def scrape():
    try:
        generate_latest(registry)
    except percpu.Error:
        pass

scrape()
if os.fork() == 0:
    for n in range(5):
        child.labels(str(n)).inc()
        gauge.set(n)
    scrape()
    os._exit(0)
assert os.wait()[1] == 0
"""


@pytest.mark.parametrize("seed", range(12))
def test_damaged_segment(tmp_path: Path, seed: int) -> None:
    """A segment that is damaged beneath a program neither ends it nor raises from it."""
    run(COUNT + DAMAGE.format(seed=seed), tmp_path)
    run(COUNT + "try: count()\nexcept AssertionError: pass\n", tmp_path)
    scrape_if_readable(tmp_path)


@pytest.mark.parametrize("kept", [0, 100, 4096, 70000, 140000, 300000])
def test_cut_segment(tmp_path: Path, kept: int) -> None:
    """A segment that was cut off is not counted in, and does not spoil a scrape."""
    run(COUNT + "count()\n", tmp_path)
    os.truncate(tmp_path / FILE, kept)
    run(COUNT + "try: count()\nexcept AssertionError: pass\n", tmp_path)
    scrape_if_readable(tmp_path)


def test_old_files(tmp_path: Path) -> None:
    """Files of upstream's own mode are named once, not read, and left."""
    old = ["counter_1.db", "gauge_livesum_2.db", "histogram_3.db"]
    for name in old:
        (tmp_path / name).write_bytes(b"")
    lines = said(run(COUNT + "count()\nCounter('more', 'More.').inc()\n", tmp_path))
    assert len(lines) == 1
    assert ".db" in lines[0]
    assert scrape(tmp_path)["more_total"] == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*old, FILE])


def test_no_descriptors(tmp_path: Path) -> None:
    """Where no descriptor is left, metrics count in their process; those that are open go on."""
    program = """
import resource
early = Counter("early", "Early.", ["n"])
gauge = Gauge("gauge", "Gauge.", multiprocess_mode="sum")
early.labels("1").inc()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
early.labels("1").inc()
early.labels("2").inc()
gauge.inc()
pid = os.fork()
if pid == 0:
    early.labels("3").inc()
    gauge.inc()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
count()
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
"""
    said(run(COUNT + program, tmp_path))
    found = scrape(tmp_path)
    assert [found[f'early_total{{n="{n}"}}'] for n in (1, 2, 3)] == [2, 1, 1]
    assert found["gauge"] == 2


def test_no_descriptors_from_the_start(tmp_path: Path) -> None:
    """Where no descriptor was ever left, all metrics count in their process."""
    program = """
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
count()
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
"""
    counts_alone(tmp_path, COUNT + program)


def test_no_larger_files(tmp_path: Path) -> None:
    """Where files may not grow, all metrics count in their process."""
    program = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
count()
"""
    counts_alone(tmp_path, COUNT + program)


FILL = """
families = [Counter(f"family_{i}", "A family.", ["n"]) for i in range(8)]
histogram = Histogram("histogram", "Of a family.", ["n"])
gauge = Gauge("gauge", "Gauge.", ["n"])
updates = 0
def fill(n):
    global updates
    for family in families:
        family.labels(str(n)).inc()
        updates += 1
    histogram.labels(str(n)).observe(1)
    updates += 1
    gauge.labels(str(n)).set(1)
def counted():
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    wanted = ["_total", "_count"]
    return sum(sample.value for metric in registry.collect() for sample in metric.samples
               if sample.name[-6:] in wanted and "overflows" not in sample.name)
from prometheus_client.multiprocess import MultiProcessCollector
for n in range(2000):
    fill(n)
status = percpu_prometheus.status()
assert status.lost or status.private
if not status.private:  # what has no room of its own counts in the overflow
    assert counted() == updates, (counted(), updates, status)
pid = os.fork()
if pid == 0:
    for n in range(2000, 2100):
        fill(n)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""


@pytest.mark.parametrize("size", ["4k", "64k", "256k", "1m"])
def test_full_disk(tmp_path: Path, size: str) -> None:
    """On a full disk the program goes on: what has no room counts in its process."""
    mount = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-Urm"]
    script = 'mount -t tmpfs -o "size=$1" none "$2" && shift 2 && exec "$@"'
    before = [*mount, "sh", "-c", script, "sh", size, str(tmp_path)]
    if subprocess.run([*before, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    ran = run(COUNT + "import os\n" + FILL, tmp_path, before=before)
    lines = said(ran)
    assert lines, "the disk was not full"
    assert len(lines) == len(set(lines)) <= 12, lines


def test_copy(tmp_path: Path) -> None:
    """A copy of the file can be scraped, after the processes have ended."""
    run(COUNT + "count()\n", tmp_path)
    copy = tmp_path / "copy"
    copy.mkdir()
    subprocess.run(["cp", "--sparse=always", tmp_path / FILE, copy], check=True)
    assert scrape(copy)['jobs_total{name="one"}'] == 1.5
