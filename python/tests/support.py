# SPDX-License-Identifier: Apache-2.0
"""What the tests share."""

import inspect
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def tool(*words):
    """Standard output of the executable `tessera` of the same build, which must succeed."""
    return subprocess.run(
        [os.environ["TESSERA_BINARY"], *words], check=True, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
    ).stdout


def python(code, *options):
    """A fresh interpreter that runs `code`: (exit code, standard output, standard error)."""
    run = subprocess.run([sys.executable, *options, "-c", code], capture_output=True, text=True)
    return run.returncode, run.stdout, run.stderr


def line():
    """The number of the line that calls."""
    return inspect.currentframe().f_back.f_lineno


def refusal(test, call, *arguments, **keywords):
    """What a call is refused with."""
    import tessera

    with test.assertRaises(tessera.Error) as caught:
        call(*arguments, **keywords)
    return caught.exception


class Folder(tempfile.TemporaryDirectory):
    """A folder for a test's files: with Folder() as at: at("plan.json")."""

    def __enter__(self):
        name = super().__enter__()
        return lambda *parts: os.path.join(name, *parts)
