# SPDX-License-Identifier: Apache-2.0
"""A CuTe DSL kernel that calls all methods of a stage of two dimensions, compiled for sm_90a without a GPU."""

import tempfile

import cutlass
import tessera.cute
from cutlass import Int32, cute
from cutlass.cute.runtime import make_ptr


@cute.kernel
def touch(mem: cute.Pointer, out: cute.Pointer, stage: cutlass.Constexpr, operands: cutlass.Constexpr):
    x, y, launch = stage.start(mem)
    for operand in cutlass.range_constexpr(len(operands)):
        stage.wait(operands[operand], mem, launch, x, y)
    cute.arch.store(out + cute.arch.thread_idx()[0], Int32(x))
    stage.post(mem, launch, x, y)


@cute.jit
def host(mem: cute.Pointer, out: cute.Pointer, stage: cutlass.Constexpr, operands: cutlass.Constexpr):
    touch(mem, out, stage, operands).launch(grid=[stage.blocks, 1, 1], block=[128, 1, 1], use_pdl=stage.early)


def compiled(plan, name):
    """The PTX."""
    stage = tessera.cute.Stage(plan, name)
    operands = tuple(dict.fromkeys(wait.operand for wait in stage._stage.waits))
    pointers = [make_ptr(Int32, 0, cute.AddressSpace.gmem, assumed_align=16) for _ in range(2)]
    with tempfile.TemporaryDirectory() as folder:
        built = cute.compile(host, *pointers, stage, operands, options=f"--keep-ptx --dump-dir={folder}")
        return built.__ptx__
