# SPDX-License-Identifier: MIT
"""Test coverage.py: what it makes of llvm-cov's answers, and what it asks to be explained."""

import collections
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/dev"))

import coverage

SOURCE = """\
int f(int x)
{
	if (x)
		return 1;
	return 2;
}
"""

# Of a build where x was always 0: (line, column, count, is counted, begins a region, is a gap).
NEVER = [
    [2, 1, 7, True, True, False],
    [3, 8, 0, True, True, True],
    [4, 3, 0, True, True, False],
    [4, 11, 7, True, True, True],
    [5, 2, 7, True, True, False],
    [6, 2, 0, False, False, False],
]
# Line, column, end of both, how often true and false; what follows does not matter.
NEVER_TRUE = [[3, 6, 3, 7, 0, 7, 0, 0, 4], [3, 2, 3, 4, 0, 7, 0, 0, 4]]


def answer(root, *files):
    """Return what llvm-cov prints of files: (name, segments, branches)."""
    entries = [{"filename": f"{root}/{f}", "segments": s, "branches": b} for f, s, b in files]
    return json.dumps({"data": [{"files": entries}]})


class Counting(unittest.TestCase):
    """How often lines and conditions ran."""

    def test_lines_have_the_most_of_their_parts(self):
        """Gaps and what is not counted are left out."""
        self.assertEqual(coverage.count_lines(NEVER), {2: 7, 3: 7, 4: 0, 5: 7, 6: 7})
        parts = [
            [1, 1, 5, True, True, False],
            [2, 5, 0, True, True, False],
            [2, 9, 5, True, False, False],
            [4, 1, 0, False, False, False],
            [6, 1, 3, True, True, False],
            [7, 1, 0, False, False, False],
        ]
        self.assertEqual(coverage.count_lines(parts), {1: 5, 2: 5, 3: 5, 6: 3})
        goes_on = [
            [1, 1, 0, True, True, False],
            [3, 2, 9, True, False, False],
            [5, 1, 0, False, False, False],
        ]
        self.assertEqual(coverage.count_lines(goes_on), {1: 0, 2: 0, 3: 0, 4: 9})

    def test_builds_are_added(self):
        """What one build did not reach, another one may; each condition has a place of its own."""
        other = [[line, column, 1, *rest] for line, column, _, *rest in NEVER]
        builds = [
            {"segments": NEVER, "branches": [[3, 6, 3, 7, 0, 7]]},
            {"segments": other, "branches": [[3, 6, 3, 7, 1, 0], [3, 9, 3, 9, 1, 0]]},
        ]
        for order in (builds, builds[::-1]):
            counts = coverage.Counts()
            for build in order:
                counts.add(build)
            self.assertEqual(list(counts.unreached()), [(3, "false")])
        counts = coverage.Counts()
        counts.add(builds[0])
        self.assertEqual(sorted(counts.unreached()), [(3, "true"), (4, "line")])

    def test_conditions_that_never_ran_are_lines(self):
        """Only the line is told."""
        counts = coverage.Counts()
        counts.add({"segments": NEVER, "branches": [[4, 3, 4, 4, 0, 0]]})
        self.assertEqual(list(counts.unreached()), [(4, "line")])

    def test_some_lines_have_no_code(self):
        """Braces, comments, directives, and words that only begin a block."""
        for line in (
            "",
            "\t}",
            "\t};",
            "{",
            " * text",
            "\t/* text */",
            "#else",
            "\telse",
            "\tdo {",
        ):
            self.assertFalse(coverage.has_code(line), line)
        for line in ("\treturn 1;", "\t} else if (x) {", "\tdone = 1;", "\telse x = 1;"):
            self.assertTrue(coverage.has_code(line), line)


class Judging(unittest.TestCase):
    """What is explained, and what is not so."""

    def judge(self, places, explained, machines=()):
        """Return what it returns, and the lines that it prints."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            result = coverage.judge(places, collections.Counter(explained), set(machines))
        return result, output.getvalue().splitlines()

    def test_each_line_is_explained_by_itself(self):
        """Two equal lines need two explanations."""
        places = {"k": ["at 1", "at 2"]}
        self.assertEqual(self.judge(places, {"k": 2}), ((0, 0), []))
        self.assertEqual(self.judge(places, {}), ((2, 0), ["at 1", "at 2"]))
        said = ["at 1", "at 2", "of these 2, 1 explained: k"]
        self.assertEqual(self.judge(places, {"k": 1}), ((1, 0), said))

    def test_what_is_reached_needs_no_explanation(self):
        """Unless other machines reach it."""
        said = ["explained, but reached or gone, 2 of 3: k"]
        self.assertEqual(self.judge({"k": ["at 1"]}, {"k": 3}), ((0, 2), said))
        self.assertEqual(self.judge({"k": ["at 1"]}, {"k": 3}, ["k"]), ((0, 0), []))

    def test_a_whole_file_is_explained_at_once(self):
        """However many lines it has, but it has one."""
        places = {"f: *": ["at 1", "at 2"]}
        self.assertEqual(self.judge(places, {"f: *": 1}), ((0, 0), []))
        self.assertEqual(self.judge({}, {"f: *": 1})[0], (0, 1))


class Running(unittest.TestCase):
    """The program, with another llvm-cov, which prints the program that it is asked about."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name).resolve()
        (self.root / "src").mkdir()
        (self.root / "src/a.c").write_text(SOURCE, encoding="utf-8")
        self.write("llvm-cov", '#!/bin/sh\nexec cat "$4"\n').chmod(0o755)
        path = f"{self.root}{os.pathsep}{os.environ['PATH']}"
        for patch in (
            mock.patch.object(coverage, "ROOT", self.root),
            mock.patch.dict(os.environ, {"PATH": path}),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, name, text):
        """Write a file, and return its path."""
        path = self.root / name
        path.write_text(text, encoding="utf-8")
        return path

    def say(self, explained, *programs):
        """Return the exit status, and the lines that it prints."""
        argv = ["coverage.py", "profile", str(self.write("explained", explained)), *programs]
        output = io.StringIO()
        with mock.patch.object(sys, "argv", argv), contextlib.redirect_stdout(output):
            status = coverage.main()
        return status, output.getvalue().splitlines()

    def test_what_is_not_reached_is_printed(self):
        """A line and a condition, once each, of the library alone."""
        (self.root / "tests").mkdir()
        files = [("src/a.c", NEVER, NEVER_TRUE), ("tests/t.c", NEVER, NEVER_TRUE)]
        programs = [str(self.write(name, answer(self.root, *files))) for name in ("one", "two")]
        line, condition = "src/a.c:4: line: return 1;", "src/a.c:3: true: if (x)"
        expected = [condition, line, "2 not reached, 0 explained, 0 of these reached or gone"]
        self.assertEqual(self.say("", *programs), (True, expected))
        explained = "Nobody asks.\n\tsrc/a.c: line: return 1;\n\t?x2 src/a.c: true: if (x)\n"
        expected = ["0 not reached, 3 explained, 0 of these reached or gone"]
        self.assertEqual(self.say(explained, *programs), (False, expected))
        expected = ["0 not reached, 1 explained, 0 of these reached or gone"]
        self.assertEqual(self.say("None.\n\tsrc/a.c: *\n", *programs), (False, expected))

    def test_an_explanation_of_what_is_reached_fails(self):
        """Also if all else is explained."""
        always = [[line, column, 1, *rest] for line, column, _, *rest in NEVER]
        program = self.write("one", answer(self.root, ("src/a.c", always, [])))
        key = "src/a.c: line: return 1;"
        expected = [
            f"explained, but reached or gone, 1 of 1: {key}",
            "0 not reached, 1 explained, 1 of these reached or gone",
        ]
        self.assertEqual(self.say(f"None.\n\t{key}\n", str(program)), (True, expected))

    def test_errors_of_llvm_end_it(self):
        """Nothing is said to be reached then."""
        self.write("llvm-cov", "#!/bin/sh\necho broken >&2\nexit 1\n")
        with self.assertRaisesRegex(SystemExit, "broken"):
            self.say("", "one")


if __name__ == "__main__":
    unittest.main()
