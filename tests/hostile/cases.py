# SPDX-License-Identifier: Apache-2.0
"""A case: one command with its files, and what its answer must be."""

from dataclasses import dataclass, field

# What a case says of its answer. Every case, whatever it says, ends within the limits of run.py.
ANY = "any"          # fine, or refused with a code
REFUSED = "refused"  # refused with a code; where a file is at fault, with its name and line
FINE = "fine"        # exit code 0


@dataclass
class Case:
    name: str
    arguments: list
    files: dict = field(default_factory=dict)    # name: bytes, or a function that makes it at a path
    expect: str = ANY
    code: str = ""                               # E0103: the first code of a refusal
    blamed: str = ""                             # the file whose name and line a refusal must give
    says: str = ""                               # must stand in what is printed
    outputs: tuple = ()                          # files that are there afterwards if the answer is fine
    stdin: object = None                         # bytes
    beside: object = None                        # scripts by name: the tool runs from a folder with these alone
    exit_code: object = None                     # the one it must end with; None: any that is documented
