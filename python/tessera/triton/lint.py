# SPDX-License-Identifier: Apache-2.0
"""Whether Triton has kept a kernel's loads behind their waits, and its stores in front of its post.

Triton's software pipeliner moves loads to earlier iterations of a loop and to the front of it. It takes no wait for a
reason not to: neither inline assembly nor an acquire of Triton's own. What came out is in the compiled kernel, as
TTGIR and PTX; neither a GPU nor Triton is needed to read it.
"""

import re
from collections.abc import Mapping
from typing import Any

from .._core import Diagnostic, Plan
from .._error import Error
from ._ir import Module, Operation, Place, Value, dominates, origins, reachable, successors
from .._plan import ChainPlan, PlannedStage, read, refuse

_LOADS = {
    "tt.load", "tt.descriptor_load", "tt.descriptor_gather", "ttg.async_copy_global_to_local",
    "ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather", "tt.atomic_rmw", "tt.atomic_cas", "tt.call",
}  # fmt: skip
_TMA_LOADS = {"tt.descriptor_load", "tt.descriptor_gather", "ttng.async_tma_copy_global_to_local", "ttng.async_tma_gather"}
_STORES = {
    "tt.store", "tt.descriptor_store", "tt.descriptor_scatter", "tt.descriptor_reduce",
    "ttng.async_tma_copy_local_to_global", "ttng.async_tma_scatter", "ttng.async_tma_reduce",
}  # fmt: skip
_LOOPS = ("scf.for", "scf.while")


def check(compiled: Any, plan: Plan, stage: str, *, reads: Mapping[str, str] | None = None) -> None:
    """Refuses a compiled kernel that is not safe as this stage of the plan, with everything that is wrong.

    `compiled` is what Triton's compile() or warmup() return, or a dict with the texts "ttgir" and "ptx". `reads` names
    the kernel's argument for each operand that a stage before produces, where they are not named alike."""
    found = findings(compiled, plan, stage, reads=reads)
    if found:
        raise Error(found)


def findings(compiled: Any, plan: Plan, stage: str, *, reads: Mapping[str, str] | None = None) -> list[Diagnostic]:
    """What check() would refuse."""
    return findings_of(compiled, read(plan), stage, reads)


def findings_of(compiled: Any, plan: ChainPlan, stage: str, reads: Mapping[str, str] | None) -> list[Diagnostic]:
    planned = next((one for one in plan.stages if one.name == stage), None)
    if planned is None:
        raise refuse(
            "E0806",
            f'the plan of {plan.name} has no stage "{stage}"',
            hint=f"its stages: {', '.join(s.name for s in plan.stages)}",
        )
    texts = compiled if isinstance(compiled, Mapping) else compiled.asm
    return _Kernel(texts["ttgir"], texts.get("ptx", ""), plan, planned, dict(reads or {})).findings()


class _Kernel:
    def __init__(self, ttgir: str, ptx: str, plan: ChainPlan, stage: PlannedStage, reads: dict[str, str]):
        self.module = Module(ttgir)
        self.ptx = ptx
        self.plan, self.stage, self.reads = plan, stage, reads
        self.kernel = self.module.kernel()
        self.found: list[Diagnostic] = []

    def findings(self) -> list[Diagnostic]:
        if self.kernel is None:
            return [
                Diagnostic(
                    "E0808", f"the TTGIR of stage {self.stage.name} has no kernel", suggestion='give asm["ttgir"] as it is'
                )
            ]
        name = re.search(r"@(\"?)([\w.$]+)\1", self.kernel.text)
        self.name = name[2] if name else self.stage.name
        operations = self.module.all()
        for one in operations:
            if one.name in ("ttg.warp_specialize", "ttng.warp_specialize"):
                self._say("E0808", one, f"{self.name} is warp-specialized, which this check does not follow",
                          hint="leave warp_specialize out, or compile this stage with CUDA")  # fmt: skip
                return self.found
        self._waits(operations)
        if self.found:
            return self.found
        for operand in self.stage.produced():
            self._operand(operand, operations)
        self._post(operations)
        return self.found

    def _say(self, code: str, at: Operation | None, message: str, *, notes: list[str] | None = None, hint: str) -> None:
        place = (
            self.module.place(at)
            if at is not None
            else Place(self.stage.where.get("file", ""), self.stage.where.get("line", 0), 0)
        )
        self.found.append(Diagnostic(code, message, file=place.file, line=place.line, notes=notes or [], suggestion=hint))

    def _waits(self, operations: list[Operation]) -> None:
        """Waits by what they call themselves; those for whole launches; proxy fences."""
        self.waits: dict[int, list[Operation]] = {}
        self.own_waits: list[Operation] = []  # acquires that no generated function has made: taken for waits for anything
        self.grid_waits: list[Operation] = []
        self.last_waits: list[Operation] = []
        self.fences: list[Operation] = []
        others = []
        for one in operations:
            assembly = one.text if one.name == "tt.elementwise_inline_asm" else ""
            if one.name == "tt.grid_dependency_wait" or "griddepcontrol.wait;" in assembly:
                # The one of a post, which stands behind everything, is for the kernels behind.
                at_the_end = bool(one.operands) and _constant(one.operands[0]) == self.plan.place(self.stage.index, 255)
                (self.last_waits if at_the_end else self.grid_waits).append(one)
            elif "fence.proxy.async" in assembly and "cp.async.bulk" not in assembly:
                self.fences.append(one)
            elif "ld.acquire.gpu" in assembly and len(one.operands) >= 4:
                place = _constant(one.operands[3])
                self.waits.setdefault(place, []).append(one)
                if place >> 16 != self.plan.fingerprint or (place >> 8 & 0xFF) != self.stage.index:
                    others.append(one)
            elif "ld.acquire" in assembly or (
                one.name.startswith("tt.atomic_") and re.match(r" (\w+, )?(acquire|acq_rel)\b", one.text)
            ):
                self.own_waits.append(one)
        for one in others:
            self._say("E0806", one, f"{self.name} waits as another plan or stage says, not as {self.stage.name} of {self.plan.name}",
                      hint="import the module that was generated for this plan, and the functions of this stage")  # fmt: skip

    def _operand(self, operand: str, operations: list[Operation]) -> None:
        argument = self.reads.get(operand, operand)
        if not any(value.name == argument for value in self._arguments()):
            names = ", ".join(value.name for value in self._arguments() if value.pointer)
            self._say("E0806", self.kernel, f'{self.name} has no argument "{argument}" for operand {operand}, which another stage produces',
                      notes=[f"pointers of {self.name}: {names}"], hint=f'say which: reads={{"{operand}": "..."}}')  # fmt: skip
            return
        loads, unknown = [], []
        for one in operations:
            if one.name not in _LOADS:
                continue
            parts = [origins(self.module, value) for value in (one.operands if one.name == "tt.call" else one.operands[:1])]
            if any(argument in names for names, _ in parts):
                loads.append(one)
            elif any(not known for _, known in parts):
                unknown.append(one)
        planned = [wait for wait in self.stage.waits if wait.operand == operand]
        waits = [] if any(wait.set is None for wait in planned) else self.waits.get(self.plan.place_of(self.stage, operand), [])
        waits = (waits or self.own_waits) + self.grid_waits
        function = f"wait_{self.stage.name}_{operand}"
        if loads and not waits:
            self._say("E0803", loads[0], f"{self.name} loads {operand} ({argument}) and never waits for it",
                      hint=f"call {function}() in front of the first load, outside of the loop")  # fmt: skip
            return
        said = set()
        for load in [*loads, *unknown]:
            place = self.module.place(load)
            if place in said:
                continue
            if reason := self._early(load, waits, loads):
                said.add(place)
                what = (
                    f"{operand} ({argument})"
                    if load in loads
                    else "from an address that is read from memory, so perhaps " + operand
                )
                self._say(
                    "E0802",
                    load,
                    f"{self.name} loads {what} in front of its wait",
                    notes=[reason],
                    hint=self._way_out(load, loads, waits, function),
                )
            elif load.name in _TMA_LOADS and load in loads and not self._fenced(load, waits):
                said.add(place)
                self._say("E0805", load, f"{self.name} loads {operand} ({argument}) by TMA with no proxy fence behind its wait",
                          hint="generate() with tma=True")  # fmt: skip

    def _arguments(self) -> list[Value]:
        return self.kernel.regions[0].blocks[0].arguments if self.kernel and self.kernel.regions else []

    def _early(self, load: Operation, waits: list[Operation], loads: list[Operation]) -> str:
        """Why a load may run before its wait; empty if it cannot."""
        place = self.module.place(load)
        again = [other for other in loads if other is not load and self.module.place(other) == place]
        for wait in waits:
            for loop in wait.ancestors():
                if loop.name in _LOOPS and loop not in load.ancestors() and any(loop in other.ancestors() for other in again):
                    return (
                        f"line {place.line} stands in the loop behind the wait of line {self.module.place(wait).line}, and the "
                        f"compiled kernel has it in front of the loop as well: Triton's software pipeliner moved it"
                    )
        if any(_precedes(wait, load) for wait in waits):
            return ""
        return f"no wait precedes it on every path; {_lines([self.module.place(wait).line for wait in waits])}"

    def _way_out(self, load: Operation, loads: list[Operation], waits: list[Operation], function: str) -> str:
        place = self.module.place(load)
        moved = any(other is not load and self.module.place(other) == place for other in loads)
        inside = any(loop.name in _LOOPS for wait in waits for loop in wait.ancestors())
        if moved and inside:
            return (
                f"call {function}() in front of the loop, or the wait for a tile in a loop around it; or keep this loop from "
                f"being pipelined: tl.range(..., num_stages=1)"
            )
        return f"call {function}() in front of the load, outside of any if"

    def _fenced(self, load: Operation, waits: list[Operation]) -> bool:
        return any(_precedes(fence, load) and any(_precedes(wait, fence) for wait in waits) for fence in self.fences)

    def _post(self, operations: list[Operation]) -> None:
        releases = [
            one for one in operations
            if one.name == "tt.elementwise_inline_asm" and re.search(r"(red|st)\.release\.gpu", one.text) and "ld.acquire" not in one.text
        ]  # fmt: skip
        leaves = [
            one
            for one in operations
            if one.name == "tt.elementwise_inline_asm" and "red.relaxed.gpu.global.add.u64" in one.text
        ]
        function = f"post_{self.stage.name}"
        # What every block does when it calls post(), and what for.
        for wanted, marks, consequence in (
            (bool(self.stage.posts), releases, f"those that wait for {self.stage.name} wait for ever"),
            (
                self.stage.early,
                self.last_waits,
                "it may be complete before the kernels in front of it, which those behind rely on",
            ),
            (self.stage.counts_leaving, leaves, "the next launch takes itself for this one"),
        ):
            if not wanted:
                continue
            if not marks:
                self._say(
                    "E0804",
                    self.kernel,
                    f"{self.name} never posts: {consequence}",
                    hint=f"call {function}() behind the last store",
                )
                return
            if fault := self._fault_of(marks, len(self.stage.posts) if marks is releases else 1):
                self._say("E0804", marks[0], f"{self.name} {fault}; every block posts once, or {consequence}",
                          hint=f"call {function}() at the end of the kernel, outside of loops and conditions")  # fmt: skip
                return
        if not releases:
            return
        for one in operations:
            if one.name in _STORES and any(_can_follow(one, post) for post in releases):
                self._say("E0804", one, f"{self.name} stores behind its post, when readers of its tile may have begun",
                          hint=f"call {function}() behind the last store")  # fmt: skip
        if _overtakes(self.ptx):
            self._say("E0805", releases[0], f"the post of {self.name} can overtake stores by TMA: they are waited for until they are read, not written",
                      hint="generate() with tma=True")  # fmt: skip

    def _fault_of(self, marks: list[Operation], times: int) -> str:
        """Whether a path through the kernel has other than so many of them."""
        if any(mark.block.region.parent is not self.kernel for mark in marks):
            return "posts in a loop or in one branch"
        region = marks[0].block.region
        after = successors(region)
        marked = {mark.block: [one.block for one in marks].count(mark.block) for mark in marks}
        left, seen = [region.blocks[0]], set()
        while left:
            block = left.pop()
            if block in seen or block in marked:
                continue
            seen.add(block)
            if not after[block]:
                return "leaves on a path without its post"
            left += after[block]
        for block, count in marked.items():
            if count != times or any(other in marked for other in reachable(block, after)):
                return "posts more than once"
        return ""


def _can_follow(store: Operation, post: Operation) -> bool:
    """The store may run behind the post. (Posts stand in the kernel's own blocks.)"""
    at = store
    while at.block.region is not post.block.region:
        parent = at.block.region.parent
        if parent is None:
            return False
        at = parent
    if at.block is post.block:
        return at.number > post.number
    return at.block in reachable(post.block, successors(post.block.region))


def _precedes(wait: Operation, load: Operation) -> bool:
    """A wait in a loop of its own counts as the loop: it waits for several tiles, one by one."""
    if dominates(wait, load):
        return True
    at = wait
    around = set(map(id, load.ancestors()))
    while (parent := at.block.region.parent) is not None and parent.name in _LOOPS and id(parent) not in around:
        at = parent
        if dominates(at, load):
            return True
    return False


def _constant(value: Value | None) -> int:
    """A number that is known when compiling, also as a tensor of it; -1: none."""
    if value is None or value.operation is None or value.operation.name != "arith.constant":
        return -1
    found = re.match(r" (?:dense<)?(-?\d+)>?(?: |$)", value.operation.text)
    return int(found[1]) if found else -1


def _lines(lines: list[int]) -> str:
    numbers = sorted(set(lines))
    return f"the wait is in line {numbers[0]}" if len(numbers) == 1 else f"waits are in lines {', '.join(map(str, numbers))}"


def _overtakes(ptx: str) -> bool:
    """Stores by TMA are not complete at a release behind them."""
    stored = False
    for line in ptx.splitlines():
        line = line.strip()
        if re.match(r"(@\S+\s+)?cp\.(reduce\.)?async\.bulk\S*\.global\.shared", line):
            stored = True
        elif re.match(r"cp\.async\.bulk\.wait_group\s+0", line):
            stored = False
        elif stored and re.match(r"(@\S+\s+)?(red|st)\.release\.gpu", line):
            return True
    return False
