# SPDX-License-Identifier: MIT
"""What the .pth of percpu-prometheus-autoload does when an interpreter starts, and where not Linux is."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

AUTOLOAD = Path(__file__).resolve().parents[1] / "autoload"
VARIABLES = ("PROMETHEUS_MULTIPROC_DIR", "prometheus_multiproc_dir")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with what the distribution installs."""
    folder = tmp_path / "site"
    folder.mkdir()
    for name in ("percpu_prometheus.pth", "percpu_prometheus_autoload.py"):
        shutil.copy(AUTOLOAD / name, folder)
    return folder


def run(site: Path, program: str, variable: str | None = None, start: str = "") -> tuple[str, str]:
    """Run a program where the folder is one of packages; return what it prints, and complains."""
    environment = {k: v for k, v in os.environ.items() if k not in VARIABLES}
    if variable is not None:
        environment[variable] = str(site.parent)
    done = subprocess.run(
        [
            sys.executable,
            "-B",
            "-c",
            f"{start}\nimport site; site.addsitedir({str(site)!r})\n{program}",
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), done.stderr


def loaded(*names: str) -> str:
    """A program that prints which of these modules are loaded."""
    return f"import sys; print(*[name for name in {names!r} if name in sys.modules])"


def test_without_the_variable(site: Path) -> None:
    program = "import prometheus_client\n" + loaded(
        "percpu_prometheus_autoload", "percpu_prometheus"
    )
    assert run(site, program) == ("", "")


@pytest.mark.parametrize("variable", VARIABLES)
def test_with_the_variable(site: Path, variable: str) -> None:
    names = loaded("percpu", "logging", "importlib.abc", "prometheus_client")
    assert run(site, names, variable) == ("", "")  # nothing before prometheus_client
    program = f"""
import importlib.util
assert importlib.util.find_spec("prometheus_client").origin  # a look does not load
{names}
from prometheus_client import Counter
import prometheus_client, percpu_prometheus
assert percpu_prometheus.status().active, percpu_prometheus.status()
for loader in (prometheus_client.__loader__, prometheus_client.__spec__.loader):
    assert not type(loader).__module__.startswith("percpu_prometheus")
assert not [f for f in sys.meta_path if type(f).__module__.startswith("percpu_prometheus")]
Counter("hits", "Hits.").inc()
"""
    assert run(site, program, variable) == ("", "")
    assert (site.parent / "metrics.percpu").exists()


def test_a_name_of_prometheus_client_first(site: Path) -> None:
    program = "from prometheus_client.multiprocess import MultiProcessCollector\n"
    assert run(site, program + loaded("percpu._core"), VARIABLES[0]) == (
        "percpu._core",
        "",
    )


def test_what_was_imported_before(site: Path) -> None:
    names = loaded("percpu._core")
    assert run(site, names, VARIABLES[0], "import prometheus_client")[0] == "percpu._core"


@pytest.mark.parametrize("broken", ["raise RuntimeError('broken')", "this is no Python", None])
def test_broken(site: Path, tmp_path: Path, broken: str | None) -> None:
    package = tmp_path / "broken" / "percpu_prometheus"
    package.mkdir(parents=True)
    if broken is not None:
        (package / "__init__.py").write_text(broken)
    else:
        (package / "__init__.py").write_text("import no_such_module_at_all")
    start = f"import sys; sys.path.insert(0, {str(package.parent)!r})"
    assert run(site, "print('started')", VARIABLES[0], start)[0] == "started"
    program = "from prometheus_client import Counter; Counter('a', '').inc(); print('counted')"
    printed, said = run(site, program, VARIABLES[0], start)
    assert printed == "counted"
    assert "percpu_prometheus cannot be imported" in said


def test_without_prometheus_client(site: Path) -> None:
    program = """
import sys
sys.path = [entry for entry in sys.path if "site-packages" not in entry]
try:
    import prometheus_client
except ModuleNotFoundError as e:
    print(e.name)
"""
    assert run(site, program, VARIABLES[0]) == ("prometheus_client", "")


# Elsewhere the wheel has no percpu._core.
ELSEWHERE = """
import sys
sys.platform = "freebsd14"
sys.modules["percpu._core"] = None
"""


def test_percpu_elsewhere(site: Path) -> None:
    program = """
try:
    import percpu
except ImportError as e:
    print(e)
"""
    printed, said = run(site, ELSEWHERE + program)
    assert printed.startswith("percpu is for Linux: ") and "\n" not in printed
    assert said == ""


@pytest.mark.parametrize("variable", [None, VARIABLES[0]])
def test_drop_in_elsewhere(site: Path, variable: str | None) -> None:
    program = """
import percpu_prometheus
from prometheus_client import Counter, values
Counter("hits", "Hits.").inc()
print(values.ValueClass.__module__, percpu_prometheus.status().active)
"""
    printed, said = run(site, ELSEWHERE + program, variable)
    assert printed == "prometheus_client.values False"
    lines = said.splitlines()
    assert len(lines) == 1, said
    assert "percpu is for Linux" in lines[0]
    assert bool(list(site.parent.glob("*.db"))) == (variable is not None)
