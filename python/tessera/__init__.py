# SPDX-License-Identifier: Apache-2.0
"""Fine-grained synchronization for dependent GPU kernels: describe, check, plan, simulate, generate.

    import tessera

    mlp = tessera.Pipeline("mlp")
    x, y = mlp.dims("x", "y")
    gemm1 = mlp.stage("gemm1", {x: 24, y: 4})
    gemm2 = mlp.stage("gemm2", {x: 48, y: 4})
    gemm2[x, y].reads(gemm1[:, y])          # a row of gemm1 before a tile of gemm2
    print(tessera.plan(mlp, "h200"))

What is refused raises tessera.Error with codes and the lines that they are about.
"""

from ._core import (
    Alternative,
    CheckedPipeline,
    DependenceFacts,
    Diagnostic,
    Dim,
    MachineProfile,
    Pipeline,
    Plan,
    Policy,
    Range,
    Resources,
    SourceLine,
    Stage,
    StageCost,
    StageSpan,
    Tile,
    Timeline,
    Workload,
    check,
    clamp,
    diff,
    each_tile,
    earlier,
    explain,
    generate,
    load,
    machine,
    machines,
    plan,
    report,
    rows,
    simulate,
    strided,
    whole_grid,
    workload,
    workloads,
)
from ._core import max as max, min as min  # in no "import *": they would hide Python's
from ._core import version as __version__
from ._error import Error

__all__ = [
    "Alternative",
    "CheckedPipeline",
    "DependenceFacts",
    "Diagnostic",
    "Dim",
    "Error",
    "MachineProfile",
    "Pipeline",
    "Plan",
    "Policy",
    "Range",
    "Resources",
    "SourceLine",
    "Stage",
    "StageCost",
    "StageSpan",
    "Tile",
    "Timeline",
    "Workload",
    "check",
    "clamp",
    "diff",
    "each_tile",
    "earlier",
    "explain",
    "generate",
    "load",
    "machine",
    "machines",
    "plan",
    "report",
    "rows",
    "simulate",
    "strided",
    "whole_grid",
    "workload",
    "workloads",
]
