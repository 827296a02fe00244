# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/python.md and of the README do what the pages say."""

import contextlib
import doctest
import io
import os
import re
import unittest

import tessera
from support import ROOT, Folder


def examples(page):
    """(code, the output that stands below it or None) for each example of a page."""
    with open(os.path.join(ROOT, page)) as file:
        text = file.read()
    return re.findall(r"^```python\n(.*?)^```\n(?:\n^```\n(.*?)^```\n)?", text, re.M | re.S)


def output_of(code, names):
    """What a file pipeline.py with this code prints, or is refused with."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(code, "pipeline.py", "exec"), names)
        except tessera.Error as error:
            print(error)
    return printed.getvalue()


class Pages(unittest.TestCase):
    def hold(self, page):
        found = examples(page)
        self.assertTrue(found)
        here, names = os.getcwd(), {}
        with Folder() as at:
            os.chdir(at())
            try:
                for code, wanted in found:
                    with self.subTest(code):
                        seen = output_of(code, names)
                        matches = doctest.OutputChecker().check_output(wanted, seen, doctest.ELLIPSIS)
                        self.assertTrue(matches, f"the page says\n{wanted}\nbut it is\n{seen}")
            finally:
                os.chdir(here)

    def test_python_page(self):
        self.hold("docs/python.md")

    def test_readme(self):
        self.hold("README.md")


if __name__ == "__main__":
    unittest.main()
