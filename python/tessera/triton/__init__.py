# SPDX-License-Identifier: Apache-2.0
"""Triton kernels in a plan: generated start, wait and post, a check of what the compiler made, launches.

Generating and checking need neither Triton nor a GPU."""

from ._generate import generate
from ._load import load
from .chain import Chain, Launch
from .compiled import compile, resources
from .lint import check, findings

__all__ = ["Chain", "Launch", "check", "compile", "findings", "generate", "load", "resources"]
