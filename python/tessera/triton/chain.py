# SPDX-License-Identifier: Apache-2.0
"""A plan's kernels as one call: compiled, checked, loaded and launched in order, early where the plan says so."""

import contextlib
import ctypes
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._core import Plan
from .._error import Error
from .._plan import ChainPlan, PlannedStage, SemaphoreSet, read, refuse, tiles_of
from .lint import findings_of


@dataclass
class Launch:
    """A stage's kernel: `arguments` by the names of its parameters, all but the chain's memory; `options` are
    Triton's (num_warps, num_stages, ...). `reads` as in check()."""

    kernel: Any
    arguments: dict[str, Any]
    options: dict[str, Any] = field(default_factory=dict)
    reads: dict[str, str] = field(default_factory=dict)
    memory: str = "mem"  # the parameter that the chain's memory goes to


class Chain:
    """Launches a plan's stages. One launch of a chain at a time: it belongs to one stream, or to one captured graph.

    What does not fit the plan, or races, is refused when the chain is made (E0802 to E0808)."""

    def __init__(self, plan: Plan, launches: Mapping[str, Launch], *, device: Any = None) -> None:
        self._plan = read(plan)
        names = [stage.name for stage in self._plan.stages]
        if sorted(launches) != sorted(names):
            raise refuse(
                "E0806",
                f"the plan of {self._plan.name} has the stages {', '.join(names)}, and the chain {', '.join(launches)}",
                hint="give a Launch for each stage, by its name",
            )
        self._launches = [launches[name] for name in names]
        self._initial, self.memory = _memory(self._plan, device)
        self.compiled = [self._compile(stage, launch) for stage, launch in zip(self._plan.stages, self._launches)]
        found = [
            one
            for stage, launch, compiled in zip(self._plan.stages, self._launches, self.compiled)
            for one in findings_of(compiled, self._plan, stage.name, launch.reads)
        ]
        if found:
            raise Error(found)
        for stage, compiled in zip(self._plan.stages, self.compiled):
            _hold_to_the_plan(stage, compiled)
        # A kernel that is loaded at its first launch waits for those that run: all are loaded before one spins.
        for compiled in self.compiled:
            _ = compiled.run  # reading it loads the kernel
        if any(stage.early for stage in self._plan.stages):
            for compiled in self.compiled:
                _divide_memory_alike(compiled.function)

    def _keywords(self, stage: PlannedStage, launch: Launch) -> dict[str, Any]:
        options = dict(launch.options)
        if stage.early:
            options["launch_pdl"] = True
        return {**launch.arguments, launch.memory: self.memory, **options}

    def _compile(self, stage: PlannedStage, launch: Launch) -> Any:
        return launch.kernel.warmup(grid=(stage.blocks,), **self._keywords(stage, launch))

    def __call__(self, *, stream: Any = None) -> None:
        """Launches all stages, in torch's current stream or in this one. No synchronization; may be captured."""
        with _in_stream(stream):
            for stage, launch in zip(self._plan.stages, self._launches):
                launch.kernel[(stage.blocks,)](**self._keywords(stage, launch))

    def check(self) -> None:
        """Waits for the chain's memory and raises (E0807) if a wait has given up; then call reset()."""
        record = [int(word) for word in self.memory[:8].tolist()]
        if record[0] != 0:
            raise stalled(self._plan, record)

    def reset(self) -> None:
        """Makes the memory what it was, behind what the stream holds: after a wait that gave up, or a launch that
        was broken off."""
        self.memory.copy_(self._initial)


def _memory(plan: ChainPlan, device: Any) -> tuple[Any, Any]:
    import torch

    initial = torch.zeros(plan.words, dtype=torch.int32, device=device or "cuda")
    if tables := plan.tables():
        initial[plan.words - len(tables) :] = torch.tensor(tables, dtype=torch.int32, device=initial.device)
    return initial, initial.clone()


@contextlib.contextmanager
def _in_stream(stream: Any) -> Iterator[None]:
    if stream is None:
        yield
        return
    import torch

    with torch.cuda.stream(stream):
        yield


def _hold_to_the_plan(stage: PlannedStage, compiled: Any) -> None:
    threads, shared = 32 * compiled.metadata.num_warps, compiled.metadata.shared
    if getattr(compiled.metadata, "num_ctas", 1) != 1:
        raise refuse("E0806", f"{stage.name} is compiled for clusters", where=stage.where, hint="num_ctas=1")
    if stage.threads is not None and threads != stage.threads:
        raise refuse(
            "E0806",
            f"{stage.name} was planned with blocks of {stage.threads} threads and is compiled for {threads}",
            where=stage.where,
            hint="plan with resources=tessera.triton.resources(compiled), or take its num_warps",
        )
    if stage.shared_bytes is not None and shared > stage.shared_bytes:
        warnings.warn(
            f"{stage.name} was planned with {stage.shared_bytes} bytes of shared memory and takes {shared}: fewer blocks "
            "may share an SM than the plan counts on; plan with resources=tessera.triton.resources(compiled)",
            stacklevel=3,
        )


def _divide_memory_alike(function: int) -> None:
    """Kernels that divide an SM's memory differently do not share an SM: all get as much shared memory as there is."""
    preferred_shared_memory_carveout, most = 9, 100
    status = ctypes.CDLL("libcuda.so.1").cuFuncSetAttribute(ctypes.c_void_p(function), preferred_shared_memory_carveout, most)
    if status != 0:
        raise RuntimeError(f"cuFuncSetAttribute: error {status}")


def stalled(plan: ChainPlan, record: list[int]) -> Error:
    """What the record of the chain's memory says: state, place, tile, semaphore, seen, expected, nanoseconds."""
    _, place, tile, semaphore, seen, expected, low, high = record
    waited_ms = ((low % 2**32) + (high % 2**32) * 2**32) / 1e6
    stage = plan.stages[place >> 8 & 0xFF] if (place >> 8 & 0xFF) < len(plan.stages) else plan.stages[-1]
    names = stage.operand_names()
    operand = names[place & 0xFF] if (place & 0xFF) < len(names) else "an operand"
    missing = (expected - seen) % 2**32
    notes, producer, posts = [], None, 0
    for one in (one for other in plan.stages for one in other.posts):
        if one.first <= semaphore < one.first + one.count:
            producer = plan.stages[one.producer]
            tiles = [at for at in tiles_of(producer.grid) if _semaphore_of(one, producer, at) == semaphore - one.first]
            posts = len(tiles)
            named = ", ".join(str(tuple(at.values())) for at in tiles[:4]) + (", ..." if posts > 4 else "")
            notes.append(f"tiles of {producer.name} that post to it: {named}")
    by = f"every block of {producer.name}" if producer else "every block"
    return refuse(
        "E0807",
        f"{stage.name}{_coordinates(stage, tile)} waited {waited_ms:.0f} ms for {operand}: semaphore "
        f"{semaphore} has {max(posts - missing, 0)} posts of {posts}",
        where=stage.where,
        notes=notes,
        hint=f"does {by} post, and only once? then chain.reset()",
    )


def _coordinates(stage: PlannedStage, tile: int) -> str:
    at = []
    for extent in stage.grid.values():
        at.append(str(tile % extent))
        tile //= extent
    return f"({', '.join(at)})"


def _semaphore_of(one: SemaphoreSet, producer: PlannedStage, tile: dict[str, int]) -> int:
    index, factor = 0, 1
    for group, (name, extent) in zip(one.groups, producer.grid.items()):
        index += factor * group.index(tile[name])
        factor *= group.count(extent)
    return index
