# SPDX-License-Identifier: Apache-2.0
"""Two pairs of Triton kernels in a plan: GEMM then GEMM, and GEMM then row softmax.

    pair = gemm_gemm(rows=1152)
    chain = pair.chain(plan, pair.tensors())     # needs a GPU, torch and Triton
    chain()

Plans are made and kernels compiled and checked without a GPU; python/tests/gpu_triton.py runs and measures them."""

from dataclasses import dataclass
from typing import Any

import tessera
import tessera.triton
import triton
import triton.language as tl

TILE = 128  # rows of a GEMM's tile
SLICE = 64
SOFTMAX_ROWS = 4  # of a softmax's block
# By the tile's columns. Two blocks of the narrow one share an SM; of the wide one each has an SM for itself, so that a
# few tiles more than SMs take twice the time.
GEMM_OPTIONS = {128: {"num_warps": 4, "num_stages": 3}, 256: {"num_warps": 8, "num_stages": 4}}
SOFTMAX_OPTIONS = {"num_warps": 4}


@triton.jit
def gemm(
    a, b, c, mem, start: tl.constexpr, wait_a: tl.constexpr, post: tl.constexpr,
    N: tl.constexpr, K: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr, SLICE: tl.constexpr
):  # fmt: skip
    x, y, launch = start(mem)
    rows = y * TILE + tl.arange(0, TILE)
    columns = x * WIDTH + tl.arange(0, WIDTH)
    depth = tl.arange(0, SLICE)
    a_at = a + rows[:, None] * K + depth[None, :]
    b_at = b + depth[:, None] * N + columns[None, :]
    sum = tl.zeros((TILE, WIDTH), dtype=tl.float32)
    wait_a(mem, launch, x, y)  # in front of the loop, which Triton pipelines
    for _ in range(0, K, SLICE):
        sum = tl.dot(tl.load(a_at), tl.load(b_at), sum)
        a_at += SLICE
        b_at += SLICE * N
    tl.store(c + rows[:, None] * N + columns[None, :], sum.to(c.dtype.element_ty))
    post(mem, launch, x, y)


@triton.jit
def no_wait(mem, launch, x, y):
    """Of a stage whose operand no other stage writes."""


@triton.jit
def softmax(s, p, mem, start: tl.constexpr, wait_s: tl.constexpr, post: tl.constexpr, ROWS: tl.constexpr, N: tl.constexpr):
    r, launch = start(mem)
    columns = tl.arange(0, N)
    wait_s(mem, launch, r)
    for i in range(ROWS):
        at = (r * ROWS + i) * N + columns
        row = tl.load(s + at).to(tl.float32)
        row = tl.exp(row - tl.max(row, axis=0))
        tl.store(p + at, (row / tl.sum(row, axis=0)).to(p.dtype.element_ty))
    post(mem, launch, r)


@dataclass
class Pair:
    """Two stages: what they compute, and how they become a plan and a chain."""

    name: str
    second: str  # "gemm" or "softmax"
    rows: int
    inputs: int  # columns of the first GEMM's input
    hidden: int  # of its output, which the second stage reads
    outputs: int  # of the second stage's output
    width: int = 128  # of the GEMMs' tiles

    def pipeline(self, first: tessera.Resources, second: tessera.Resources) -> tessera.Pipeline:
        pair = tessera.Pipeline(self.name)
        x, y = pair.dims("x", "y")
        up = pair.stage("up", {x: self.hidden // self.width, y: self.rows // TILE}, resources=first, cost=self._cost(self.inputs))
        _reads(up, "a", "input", TILE, self.rows, self.inputs)
        _reads(up, "b", "w_up", self.width, self.hidden, self.inputs)
        if self.second == "gemm":
            down = pair.stage(
                "down", {x: self.outputs // self.width, y: self.rows // TILE}, resources=second, cost=self._cost(self.hidden)
            )  # fmt: skip
            _reads(down, "a", "up", TILE, self.rows, self.hidden)
            _reads(down, "b", "w_down", self.width, self.outputs, self.hidden)
            down[x, y].reads(up[:, y], through="a")
        else:
            r = pair.dim("r")
            bytes_of_block = 2 * SOFTMAX_ROWS * self.hidden
            cost = tessera.StageCost(flops_per_block=5 * bytes_of_block, store_bytes_per_block=bytes_of_block)
            rows = pair.stage("softmax", {r: self.rows // SOFTMAX_ROWS}, resources=second, cost=cost)
            rows.reads("s", "up", bytes_per_block=bytes_of_block, unique_bytes=2 * self.rows * self.hidden)
            rows[r].reads(up[:, r // (TILE // SOFTMAX_ROWS)], through="s")
        return pair

    def _cost(self, depth: int) -> tessera.StageCost:
        return tessera.StageCost(
            flops_per_block=2 * TILE * self.width * depth, store_bytes_per_block=2 * TILE * self.width, k_steps=depth // SLICE,
            pipeline_stages=GEMM_OPTIONS[self.width]["num_stages"],
        )  # fmt: skip

    def plan(self, machine: Any = "h200", **how: Any) -> tessera.Plan:
        """As tessera.plan(): mechanisms=["pdl_tiles"], ... With what the compiled kernels hold."""
        draft = tessera.plan(self.pipeline(tessera.Resources(), tessera.Resources()), machine, mechanisms=["stream_order"])
        held = [tessera.triton.resources(one) for one in self.compile(draft).values()]
        return tessera.plan(self.pipeline(*held), machine, **how)

    def kernels(self, plan: tessera.Plan) -> dict[str, tuple[Any, dict[str, Any], dict[str, Any]]]:
        """Kernel, constants and options of each stage; the synchronization is the plan's."""
        sync = tessera.triton.load(plan)
        tiles = {"TILE": TILE, "WIDTH": self.width, "SLICE": SLICE}
        options = GEMM_OPTIONS[self.width]
        found = {
            "up": (
                gemm,
                {"start": sync.start_up, "wait_a": no_wait, "post": sync.post_up, "N": self.hidden, "K": self.inputs, **tiles},
                options,
            )
        }
        if self.second == "gemm":
            functions = {"start": sync.start_down, "wait_a": sync.wait_down_a, "post": sync.post_down}
            found["down"] = (gemm, {**functions, "N": self.outputs, "K": self.hidden, **tiles}, options)
        else:
            functions = {"start": sync.start_softmax, "wait_s": sync.wait_softmax_s, "post": sync.post_softmax}
            found["softmax"] = (softmax, {**functions, "ROWS": SOFTMAX_ROWS, "N": self.hidden}, SOFTMAX_OPTIONS)
        return found

    def compile(self, plan: tessera.Plan) -> dict[str, Any]:
        """For sm_90, without a GPU: what tessera.triton.check() and resources() take."""
        types = {"a": "*bf16", "b": "*bf16", "c": "*bf16", "s": "*bf16", "p": "*bf16", "mem": "*i32"}
        return {
            name: tessera.triton.compile(kernel, {**types, **constants}, **options)
            for name, (kernel, constants, options) in self.kernels(plan).items()
        }

    def tensors(self, device: str = "cuda") -> dict[str, Any]:
        """Random inputs, and outputs that hold no numbers."""
        import torch

        def random(rows: int, columns: int) -> Any:
            return torch.randn(rows, columns, device=device, dtype=torch.bfloat16) * columns**-0.5

        def empty(rows: int, columns: int) -> Any:
            return torch.full((rows, columns), float("nan"), device=device, dtype=torch.bfloat16)

        found = {
            "input": random(self.rows, self.inputs),
            "w_up": random(self.inputs, self.hidden),
            "up": empty(self.rows, self.hidden),
        }
        if self.second == "gemm":
            found["w_down"] = random(self.hidden, self.outputs)
        found["output"] = empty(self.rows, self.outputs)
        return found

    def chain(self, plan: tessera.Plan, tensors: dict[str, Any]) -> tessera.triton.Chain:
        operands = {"up": {"a": tensors["input"], "b": tensors["w_up"], "c": tensors["up"]}}
        if self.second == "gemm":
            operands["down"] = {"a": tensors["up"], "b": tensors["w_down"], "c": tensors["output"]}
        else:
            operands["softmax"] = {"s": tensors["up"], "p": tensors["output"]}
        return tessera.triton.Chain(
            plan,
            {
                name: tessera.triton.Launch(kernel, {**operands[name], **constants}, options)
                for name, (kernel, constants, options) in self.kernels(plan).items()
            },
        )


def gemm_gemm(rows: int = 1152, inputs: int = 4096, hidden: int = 3072, outputs: int = 4096) -> Pair:
    return Pair("gemm_gemm", "gemm", rows, inputs, hidden, outputs)


def gemm_softmax(rows: int = 1152, inputs: int = 4096, hidden: int = 4096) -> Pair:
    return Pair("gemm_softmax", "softmax", rows, inputs, hidden, hidden)


def wide_gemm_gemm(rows: int = 1152, inputs: int = 4096, hidden: int = 4096, outputs: int = 4096) -> Pair:
    """Waves that fit badly: with 1152 rows both kernels have 144 tiles for 132 SMs."""
    return Pair("wide_gemm_gemm", "gemm", rows, inputs, hidden, outputs, width=256)


def wide_gemm_softmax(rows: int = 1152, inputs: int = 2048, hidden: int = 4096) -> Pair:
    return Pair("wide_gemm_softmax", "softmax", rows, inputs, hidden, hidden, width=256)


def _reads(stage: tessera.Stage, operand: str, buffer: str, tile: int, extent: int, depth: int) -> None:
    stage.reads(operand, buffer, bytes_per_block=2 * tile * depth, unique_bytes=2 * extent * depth)
