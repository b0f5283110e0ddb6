# SPDX-License-Identifier: MIT
"""Test tests_of.py: which tests and bugs it prints of a function, a file or a test, in a small tree."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/dev"))

import tests_of

SOURCE = """\
#include "b.h"

static int first(void);

/* The first one. */
static int first(void)
{
	return 1;
}

#define SECOND(x) \\
	(x)

int third(int a,
	  int b)
{
	return a + b;
}
"""

# Two hunks: the first adds a line to first(), the second takes the last statement of third().
PATCH = """\
A sentence
in two lines.

Seen by: unit/test_one, stress/test_two
Seen by (i686): compat/pads.sh

--- a/src/room/a.c
+++ b/src/room/a.c
@@ -7,2 +7,3 @@
 {
+	;
 	return 1;
@@ -15,3 +16,2 @@
 	  int b)
 {
-	return a + b;
"""

FILES = {
    "src/room/a.c": SOURCE,
    "src/room/other_a.c": "int fourth(void)\n{\n\treturn 4;\n}\n",
    "tests/mutants/room/a/bug.patch": PATCH,
    "tests/mutants/room/other_a/late.patch": "Late.\n\nSeen by: unit/test_one\n\n"
    "--- a/src/room/other_a.c\n+++ b/src/room/other_a.c\n@@ -3 +3 @@\n-\treturn 4;\n+\treturn 5;\n",
    "tests/unit/room/test_on.c": "int w = not_third(third_not);\n",
    "tests/unit/room/test_one.c": "int x = third(1, 2);\n",
    "tests/unit/room/test_three.c": "int y = third(1, 2);\n",
    "tests/unit/room/meson.build": "tests = {'again': {}}\n",
}


class Tree(unittest.TestCase):
    """Each test has the small tree."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        root = pathlib.Path(directory.name)
        for name, text in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text, encoding="utf-8")
        patched = mock.patch.object(tests_of, "ROOT", root)
        patched.start()
        self.addCleanup(patched.stop)

    def say(self, *args):
        """Return the lines that it prints."""
        output = io.StringIO()
        argv = mock.patch.object(sys, "argv", ["tests_of.py", *args])
        with argv, contextlib.redirect_stdout(output):
            tests_of.main()
        return output.getvalue().splitlines()

    def test_lines_are_of_functions(self):
        """A declaration begins no function; parameters, braces and macros belong to one."""
        names = tests_of.functions_of(SOURCE.splitlines())
        self.assertEqual(names[:5], [""] * 5)
        self.assertEqual(names[5:9], ["first"] * 4)
        self.assertEqual(names[9], "")
        self.assertEqual(names[10:12], ["SECOND"] * 2)
        self.assertEqual(names[13:], ["third"] * 5)

    def test_changes_are_of_functions(self):
        """Added lines do not count as lines of the source, removed ones do."""
        both = {("src/room/a.c", "first"), ("src/room/a.c", "third")}
        self.assertEqual(tests_of.places(PATCH, {}), both)
        removed = "--- a/src/room/a.c\n+++ b/src/room/a.c\n@@ -8,3 +8,1 @@\n" + (
            "-\treturn 1;\n-}\n \n@@ -18 +16,2 @@\n }\n+int fifth(void);\n"
        )
        found = tests_of.places(removed, {})
        self.assertEqual(found, both)
        added = "--- a/src/room/a.c\n+++ b/src/room/a.c\n@@ -8,2 +8,4 @@\n \treturn 1;\n" + (
            "+a\n+b\n+c\n-}\n"
        )
        self.assertEqual(tests_of.places(added, {}), {("src/room/a.c", "first")})

    def test_empty_context_may_lack_its_space(self):
        """An editor may have taken the space of an empty line, and there may be one at the end."""
        patch = "--- a/src/room/a.c\n+++ b/src/room/a.c\n@@ -9,2 +9,2 @@\n }\n\n-#define\n+#\n\n"
        self.assertEqual(tests_of.places(patch, {}), {("src/room/a.c", "SECOND")})

    def test_functions_have_bugs_and_callers(self):
        """Tests of a bug come first, then those that name the function as a whole word."""
        self.assertEqual(
            self.say("third"),
            [
                "unit/one\tsees 1 of its bugs",
                "stress/two\tsees 1 of its bugs",
                "compat/pads.sh\tsees 1 of its bugs",
                "unit/three\tnames it",
                "bug: A sentence in two lines. [unit/one, stress/two, compat/pads.sh]",
            ],
        )

    def test_programs_alone_are_printed(self):
        """Of these, ./dev test runs the programs."""
        self.assertEqual(self.say("--tests", "third"), ["stress/two", "unit/one", "unit/three"])
        self.assertEqual(self.say("--tests", "a.c"), ["stress/two", "unit/one"])

    def test_files_are_whole_names(self):
        """The name of a file is not the end of another name; a path is a file, too."""
        for name in ("other_a.c", "src/room/other_a.c"):
            self.assertEqual(
                self.say(name), ["unit/one\tsees 1 of its bugs", "late: Late. [unit/one]"]
            )
        self.assertNotIn("late", "".join(self.say("a.c")))

    def test_tests_have_files_and_bugs(self):
        """A test is named with its suite or without; its file may be another test's."""
        for name in ("one", "unit/one", "test_one", "unit/test_one.c"):
            self.assertEqual(
                self.say(name),
                [
                    "tests/unit/room/test_one.c",
                    "bug: A sentence in two lines.",
                    "late: Late.",
                ],
            )
        self.assertEqual(self.say("on"), ["tests/unit/room/test_on.c"])
        self.assertEqual(self.say("again"), ["tests/unit/room/meson.build"])

    def test_others_are_refused(self):
        """What is neither is said, and what can be asked."""
        for args in (["nothing"], ["--tests", "one"], ["stress/one"]):
            with self.assertRaisesRegex(
                SystemExit, "^no bug of tests/mutants is in .*, and no test"
            ):
                self.say(*args)


if __name__ == "__main__":
    unittest.main()
