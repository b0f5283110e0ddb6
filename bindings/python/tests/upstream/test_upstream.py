# SPDX-License-Identifier: MIT
"""prometheus_client's own test suites, with the drop-in: newest release, and oldest supported."""

import pathlib
from concurrent.futures import ThreadPoolExecutor

import pytest
import suites
from expected import EXPECTED, NEWER, OTHERS, SAME

NEWEST, OLDEST = "0.26.0", "0.16.0"
OF_MULTIPROCESS = "tests/test_multiprocess.py"
NOT_MULTIPROCESS = f"--ignore={OF_MULTIPROCESS}"
PREFIX = "test_multiprocess."
# Passes or fails by chance, without the drop-in, too: whether the server's alert comes first.
BY_CHANCE = (
    "--deselect=tests/test_exposition.py::TestWsgiTLS::test_mtls_untrusted_client_cert_raises"
)

both_releases = pytest.mark.parametrize("version", [NEWEST, OLDEST])


def both(
    version: str, work: pathlib.Path, plugins: tuple[list[str], list[str]], *tests: str
) -> tuple[suites.Outcomes, suites.Outcomes]:
    """Run a release's suite at the same time with these plugins, and with those."""
    source = suites.release(version)

    def ran(n: int) -> suites.Outcomes:
        """Run one of the two."""
        directory = work / str(n)
        directory.mkdir()
        return suites.run(source, directory, plugins[n], BY_CHANCE, *tests)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(ran, (0, 1))
    assert len(first) > 240, "the suite is not whole"
    return first, second


@both_releases
def test_multiprocess(version: str, tmp_path: pathlib.Path) -> None:
    """Upstream's tests of multi-process mode give what the table says."""
    ran = suites.run(suites.release(version), tmp_path, ["switch_on_percpu"], OF_MULTIPROCESS)
    of = {name for name in EXPECTED if version == NEWEST or name not in NEWER}
    passes = {PREFIX + name: "passed" for name in of if EXPECTED[name] == SAME}
    differs = {PREFIX + name: "failed" for name in of if EXPECTED[name] != SAME}
    assert ran == passes | differs


@pytest.mark.whole
@both_releases
def test_all_when_off(version: str, tmp_path: pathlib.Path) -> None:
    """The whole suite gives the same without the drop-in, and with it loaded but not on."""
    without, off = both(version, tmp_path, ([], ["load_percpu"]), NOT_MULTIPROCESS)
    assert off == without


@pytest.mark.whole
@both_releases
def test_all_when_on(version: str, tmp_path: pathlib.Path) -> None:
    """What passes in upstream's multi-process mode passes with the drop-in, but for a table."""
    mode = ["multiprocess_mode"]
    plugins = (mode, ["switch_on_percpu", *mode])
    upstream, ours = both(version, tmp_path, plugins, NOT_MULTIPROCESS)
    assert ours.keys() == upstream.keys()
    assert suites.failed(ours) - suites.failed(upstream) == set(OTHERS)
