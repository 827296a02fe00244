# SPDX-License-Identifier: Apache-2.0
"""The command `tessera`: the same code as the executable that CMake builds."""

import os
import sys

from ._core import run_command_line


def main() -> int:
    """Runs sys.argv and returns the exit code."""
    folder = os.path.dirname(os.path.abspath(sys.argv[0]))
    return run_command_line(["tessera", *sys.argv[1:]], folder)
