# SPDX-License-Identifier: MIT
"""Run the test suites that prometheus_client's releases come with, and return what each test gave.

pip downloads a source release into build/python/upstream, once. The suite runs in a process of its
own, with the release's modules before the installed ones.
"""

import os
import pathlib
import subprocess
import sys
import tarfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
KEPT = HERE.parents[3] / "build" / "python" / "upstream"

# Each upstream test by its name, module.Class::test, and whether it passed, failed or was skipped.
Outcomes = dict[str, str]


def release(version: str) -> pathlib.Path:
    """Return the directory of a source release; download it if it is not there."""
    directory = KEPT / f"prometheus_client-{version}"
    if not (directory / "tests").is_dir():
        KEPT.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip", "-q", "download", "--no-deps", "--no-binary", ":all:"]
        subprocess.run(
            [*pip, "-d", str(KEPT), f"prometheus_client=={version}"], check=True, timeout=120
        )
        with tarfile.open(directory.with_name(directory.name + ".tar.gz")) as archive:
            archive.extractall(KEPT, filter="data")
    return directory


def outcome_of(case: xml.etree.ElementTree.Element) -> str:
    """Return what one test case of a JUnit report gave."""
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"


def outcomes_of(report: pathlib.Path) -> Outcomes:
    """Return what each test of a JUnit report gave."""
    cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    return {
        f"{case.get('classname', '').removeprefix('tests.')}::{case.get('name')}": outcome_of(case)
        for case in cases
    }


def run(source: pathlib.Path, work: pathlib.Path, plugins: list[str], *tests: str) -> Outcomes:
    """Run tests of a release with plugins of this directory, and return what each gave."""
    report = work / "report.xml"
    environment = {
        name: value for name, value in os.environ.items() if "multiproc_dir" not in name.lower()
    }
    environment |= {
        "PYTHONPATH": f"{source}{os.pathsep}{HERE}",
        "TMPDIR": str(work),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    options = ["-q", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    (work / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    options += ["-c", str(work / "pytest.ini"), "--rootdir", ".", f"--junitxml={report}"]
    for plugin in plugins:
        options += ["-p", plugin]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    ran = subprocess.run(
        command,
        check=False,
        cwd=source,
        env=environment,
        timeout=300,
        capture_output=True,
        text=True,
    )
    if not report.is_file() or ran.returncode not in (0, 1):
        raise RuntimeError(f"{command}: {ran.returncode}\n{ran.stdout}{ran.stderr}")
    (work / "output").write_text(ran.stdout + ran.stderr, encoding="utf-8")
    return outcomes_of(report)


def failed(outcomes: Outcomes) -> set[str]:
    """Return the names of the tests that failed."""
    return {name for name, outcome in outcomes.items() if outcome == "failed"}
