# SPDX-License-Identifier: Apache-2.0
"""CuTe DSL kernels in a plan: start, wait and post of a stage, with the plan's numbers."""

from .stage import Stage

__all__ = ["Stage"]
