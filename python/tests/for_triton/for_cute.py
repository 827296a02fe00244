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


@cute.kernel
def write(mem: cute.Pointer, given: cute.Pointer, up: cute.Pointer, stage: cutlass.Constexpr, width: cutlass.Constexpr):
    """Tile t of `up` is given + t: one number for each thread."""
    x, y, launch = stage.start(mem)
    thread = cute.arch.thread_idx()[0]
    tile = y * width + x
    cute.arch.store(up + (tile * THREADS + thread), cute.arch.load(given + thread, Int32) + tile)
    stage.post(mem, launch, x, y)


@cute.kernel
def add(mem: cute.Pointer, up: cute.Pointer, out: cute.Pointer, stage: cutlass.Constexpr, widths: cutlass.Constexpr):
    """Tile (x, y) of `out` is the sum of row y of `up`, and x."""
    x, y, launch = stage.start(mem)
    thread = cute.arch.thread_idx()[0]
    stage.wait("a", mem, launch, x, y)
    sum = Int32(x)
    for i in cutlass.range(widths[0]):
        sum += cute.arch.load(up + ((y * widths[0] + i) * THREADS + thread), Int32)
    cute.arch.store(out + ((y * widths[1] + x) * THREADS + thread), sum)
    stage.post(mem, launch, x, y)


THREADS = 128


@cute.jit
def host_of(
    mem: cute.Pointer,
    a: cute.Pointer,
    b: cute.Pointer,
    kernel: cutlass.Constexpr,
    stage: cutlass.Constexpr,
    widths: cutlass.Constexpr,
):
    kernel(mem, a, b, stage, widths).launch(grid=[stage.blocks, 1, 1], block=[THREADS, 1, 1], use_pdl=stage.early)


def pair(plan, widths):
    """PTX and the stage of `write` as up and `add` as down, of a plan with grids widths[0] x rows and widths[1] x rows."""
    found = {}
    for name, kernel, given in (("up", write, widths[0]), ("down", add, widths)):
        stage = tessera.cute.Stage(plan, name)
        pointers = [make_ptr(Int32, 0, cute.AddressSpace.gmem, assumed_align=16) for _ in range(3)]
        with tempfile.TemporaryDirectory() as folder:
            built = cute.compile(host_of, *pointers, kernel, stage, given, options=f"--keep-ptx --dump-dir={folder}")
            found[name] = (built.__ptx__, stage)
    return found
