from collections.abc import Callable, Sequence
import os
from typing import Any, overload


version: str = '0.1.0'

class SourceLine:
    """A place in the user's text: a line of Python, or of a JSON file."""

    @property
    def file(self) -> str: ...

    @property
    def line(self) -> int:
        """0: the whole file"""

    def __repr__(self) -> str: ...

class Diagnostic:
    """One finding. `tessera.explain(code)` is its page."""

    def __init__(self, code: str, message: str, *, file: str = '', line: int = 0, notes: Sequence[str] = [], suggestion: str = '') -> None:
        """What the package's own parts in Python find."""

    @property
    def code(self) -> str:
        """"E0103\""""

    @property
    def severity(self) -> str:
        """"error" or "warning\""""

    @property
    def where(self) -> SourceLine: ...

    @property
    def message(self) -> str:
        """One sentence."""

    @property
    def notes(self) -> list[str]:
        """Tiles, grids, numbers."""

    @property
    def suggestion(self) -> str:
        """What to change."""

    def __str__(self) -> str: ...

    def __repr__(self) -> str: ...

class Workload:
    """Operators of a model, or a pipeline of tiles, or a loop."""

    def to_json(self) -> str:
        """The document of schema tessera.workload/1."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes to_json() into a file, whole or not at all."""

    @property
    def name(self) -> str: ...

    def __repr__(self) -> str: ...

def workload(source: str | os.PathLike[str] | dict[str, Any], *, block: str | None = None, tokens: int | None = None, sequences: int | None = None, cached: int | None = None, tp: int | None = None, dtype: str | None = None, layer: str | None = None, images: int | None = None, iterations: int | None = None, routing: Sequence[int] | None = None, layers: str | None = None, prompts: Sequence[int] | None = None, mask: str | None = None) -> Workload:
    """
    A shipped workload by name, a file, or a document: a model's config.json, a convolution network, or Tessera's own format. Of a model: `block` ("mlp", "attention", "experts", ...), `tokens`, `sequences`, `cached`, `tp` (GPUs that share it), `dtype`, `routing` (tokens that each expert gets), `layers` ("4", or "all"), `prompts` (tokens of each of several sequences) and `mask` ("causal", or "all"); of a network: `layer` and `images`; of a loop: `iterations`.
    """

def workloads() -> list[str]:
    """Names of the workloads that are shipped."""

class MachineProfile:
    """What a GPU holds, how fast it is, what waiting costs on it."""

    def to_json(self) -> str:
        """The document of schema tessera.machine/1."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes to_json() into a file, whole or not at all."""

    @property
    def name(self) -> str: ...

    @property
    def gpu(self) -> str: ...

    @property
    def sms(self) -> int: ...

    @property
    def provisional(self) -> bool:
        """Not measured by `tessera probe`."""

    def __repr__(self) -> str: ...

def machine(source: str | os.PathLike[str] | dict[str, Any] | MachineProfile) -> MachineProfile:
    """A shipped profile by name, a file, or a document."""

def machines() -> list[str]:
    """Names of the profiles that are shipped."""

def load(path: str | os.PathLike[str]) -> Plan | Timeline | MachineProfile | Workload:
    """
    What stands in a file that the command line or save() wrote. A plan is held against its machine and proved again.
    """

class Dim:
    """
    A dimension of a grid, or an affine expression over dimensions: + - * // % with constants.
    """

    def __init__(self, constant: int) -> None: ...

    def __add__(self, other: int | Dim, /) -> Dim: ...

    def __radd__(self, other: int | Dim, /) -> Dim: ...

    def __sub__(self, other: int | Dim, /) -> Dim: ...

    def __rsub__(self, other: int | Dim, /) -> Dim: ...

    def __mul__(self, other: int | Dim, /) -> Dim: ...

    def __rmul__(self, other: int | Dim, /) -> Dim: ...

    def __floordiv__(self, arg: int, /) -> Dim: ...

    def __mod__(self, arg: int, /) -> Dim: ...

    def __neg__(self) -> Dim: ...

def min(a: int | Dim, b: int | Dim) -> Dim:
    """The smaller of two expressions."""

def max(a: int | Dim, b: int | Dim) -> Dim:
    """The larger of two expressions."""

class Range:
    """Tiles of a dimension, cut to the grid: what clamp() returns."""

@overload
def clamp(begin: int | Dim, end: int | Dim) -> Range:
    """
    Tiles from `begin` up to but without `end`, cut to the producer's grid: a convolution's halo.
    """

@overload
def clamp(tile: int | Dim) -> Range:
    """One tile, or none where it lies outside the producer's grid."""

class Policy:
    """Which of a producer's tiles share a semaphore."""

    @property
    def name(self) -> str: ...

def each_tile() -> Policy:
    """A semaphore for each tile (TileSync)."""

def rows(together: int = 1) -> Policy:
    """So many neighbouring rows share one (RowSync, BatchedRowSync)."""

def strided(tiles: int) -> Policy:
    """Tiles of a row at this distance share one (StridedSync)."""

def whole_grid() -> Policy:
    """One semaphore for the whole grid (GridSync)."""

class Resources:
    """What one thread block holds while it is resident."""

    def __init__(self, *, threads: int = 256, registers_per_thread: int = 64, shared_bytes: int = 0) -> None: ...

    @property
    def threads(self) -> int: ...

    @property
    def registers_per_thread(self) -> int: ...

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic."""

class StageCost:
    """What one block of a stage computes and writes."""

    def __init__(self, *, flops_per_block: float = 0.0, store_bytes_per_block: float = 0.0, k_steps: int = 1, pipeline_stages: int = 2) -> None: ...

    @property
    def flops_per_block(self) -> float: ...

    @property
    def store_bytes_per_block(self) -> float: ...

    @property
    def k_steps(self) -> int:
        """Main-loop slices of one block."""

    @property
    def pipeline_stages(self) -> int:
        """Slices in flight in one block."""

class Tile:
    """A stage with coordinates: gemm1[:, y]."""

    def reads(self, *producers: Tile, through: str = '', policy: Policy | Callable[[int, int, int, int], int] | None = None, on_complete: str = 'release_waiters') -> None:
        """
        This tile reads these tiles of producers, through the operand `through` (the producer's output unless said). `policy` says which of the producer's tiles share a semaphore, where the planner shall not choose.
        """

def earlier(tile: Tile, iterations: int = 1) -> Tile:
    """The tile of so many iterations before: of a loop."""

class Stage:
    """A stage of a pipeline: stage[x, y] is a tile of it."""

    def __repr__(self) -> str: ...

    def __getitem__(self, tile: int | Dim | Range | slice | tuple[int | Dim | Range | slice, ...], /) -> Tile: ...

    def reads(self, operand: str, buffer: str, *, bytes_per_block: float = 0.0, unique_bytes: float = 0.0) -> None:
        """
        An operand that comes from outside, or the cost of one that a dependence brings.
        """

class Pipeline:
    """
    Stages and what their tiles read of each other. Mistakes are collected, each with its line, and raised by check(), plan() and to_json().
    """

    def __init__(self, name: str) -> None: ...

    def to_json(self) -> str:
        """The document of schema tessera.workload/1."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes to_json() into a file, whole or not at all."""

    def dim(self, name: str) -> Dim:
        """A dimension, which several grids may share."""

    def dims(self, *names: str) -> tuple[Dim, ...]:
        """x, y = pipeline.dims("x", "y")"""

    def stage(self, name: str, grid: dict[Dim, int], *, splits: int = 1, output: str = '', kernel: str = '', resources: Resources | None = None, cost: StageCost | None = None) -> Stage:
        """
        A kernel whose grid has so many tiles along each dimension, the first one fastest: stage("gemm1", {x: 24, y: 4}). Stages run in the order in which they are declared. `output` is the buffer that it writes, the stage's name unless given.
        """

    def copies(self, buffer: str, count: int) -> None:
        """How many copies of a buffer the iterations of a loop take turns at."""

    def each_iteration(self, buffer: str) -> None:
        """Each iteration has this buffer of its own: a layer's weights."""

class DependenceFacts:
    """Exact facts about one dependence, by counting."""

    @property
    def pairs(self) -> int:
        """Pairs of a consumer tile and a producer tile."""

    @property
    def min_producers(self) -> int:
        """Producer tiles that one consumer tile reads."""

    @property
    def max_producers(self) -> int: ...

    @property
    def unread_producers(self) -> int:
        """Producer tiles that no consumer tile of this dependence reads."""

class CheckedPipeline:
    """A pipeline that passed check(). str() is what was counted."""

    def to_json(self) -> str:
        """The document of schema tessera.check/1."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes to_json() into a file, whole or not at all."""

    def __str__(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def facts(self) -> list[DependenceFacts]:
        """For each dependence."""

    @property
    def warnings(self) -> list[Diagnostic]: ...

    def __repr__(self) -> str: ...

def check(workload: Pipeline | Workload | str | os.PathLike[str] | dict[str, Any], *, iterations: int | None = None, architecture: str = 'sm_90') -> CheckedPipeline:
    """
    Is it what its author meant? Bounds, cycles, coverage, buffer reuse; raises Error with every mistake. A model's operators are cut into tiles by the first kernels of `architecture` that fit.
    """

class StageSpan:
    """When a stage ran."""

    @property
    def name(self) -> str: ...

    @property
    def tiles(self) -> int: ...

    @property
    def first_start_us(self) -> float: ...

    @property
    def last_end_us(self) -> float: ...

class Timeline:
    """What happened when: simulated, or measured. str() is a summary."""

    def to_json(self) -> str:
        """The document of schema tessera.timeline/1."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes to_json() into a file, whole or not at all."""

    def __str__(self) -> str: ...

    @property
    def pipeline(self) -> str: ...

    @property
    def machine(self) -> str: ...

    @property
    def mechanism(self) -> str: ...

    @property
    def measured(self) -> bool:
        """False: simulated."""

    @property
    def end_us(self) -> float:
        """The whole chain."""

    @property
    def waves(self) -> float: ...

    @property
    def busy(self) -> float:
        """Share of SM time with at least one block that does not wait."""

    @property
    def stages(self) -> list[StageSpan]: ...

    def draw(self, columns: int = 72) -> str:
        """As text, one row per SM slot."""

    def csv(self) -> str:
        """A row per block, times in nanoseconds."""

    def trace(self, plan: Plan | None = None) -> str:
        """
        JSON for Perfetto or chrome://tracing; with the plan also arrows from posts to waits.
        """

    def __repr__(self) -> str: ...

def simulate(plan: Plan, machine: str | os.PathLike[str] | dict[str, Any] | MachineProfile | None = None) -> Timeline:
    """The plan on its machine, or on another one, without the machine."""

def diff(before: Timeline, after: Timeline) -> str:
    """What moved between two runs."""

@overload
def report(timeline: Timeline) -> str:
    """A page (HTML) of a timeline."""

@overload
def report(plan: Plan, *, title: str = '', stream_order: Plan | None = None) -> str:
    """
    A page (HTML) of a plan, with its simulated timeline; beside it that of a plan in stream order.
    """

@overload
def report(plans: Sequence[Plan], *, title: str = '', stream_order: Sequence[Plan] = ()) -> str:
    """A page of several plans: sizes of one workload."""

class Alternative:
    """A candidate that was priced or ruled out, and why."""

    @property
    def description(self) -> str: ...

    @property
    def predicted_us(self) -> float:
        """0: not priced."""

    @property
    def reason(self) -> str: ...

class Plan:
    """How a workload's kernels are synchronized, and why. str() explains it."""

    def to_json(self) -> str:
        """The document of schema tessera.plan/2."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes to_json() into a file, whole or not at all."""

    def __str__(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def machine(self) -> MachineProfile: ...

    @property
    def mechanism(self) -> str:
        """"stream order", "PDL + tiles", ..."""

    @property
    def predicted_us(self) -> float: ...

    @property
    def stream_order_us(self) -> float:
        """The best plan in stream order, on the same machine."""

    @property
    def bound_by(self) -> str: ...

    @property
    def why(self) -> str: ...

    @property
    def proof(self) -> str:
        """Why it cannot hang."""

    @property
    def alternatives(self) -> list[Alternative]: ...

    def dot(self) -> str:
        """Graphviz: stages and dependences."""

    def __repr__(self) -> str: ...

def plan(workload: Pipeline | Workload | str | os.PathLike[str] | dict[str, Any], machine: str | os.PathLike[str] | dict[str, Any] | MachineProfile = 'h200', *, mechanisms: Sequence[str] = (), policies: Sequence[str] = (), vanilla: bool = False, chained: bool = False, iterations: int | None = None) -> Plan:
    """
    Chooses how the workload's kernels are synchronized, by simulation. Only these `mechanisms` (stream_order, pdl, wait_kernel, pdl_tiles, fused) and `policies` (TileSync, RowSync, ...) are tried, or all. `vanilla`: without the paper's optimizations. `chained`: the work is launched back to back.
    """

def generate(plan: Plan) -> str:
    """The plan's CUDA header: policies, tile orders and constants."""

@overload
def explain(plan: Plan, *, alternatives: int = 8) -> str:
    """What was chosen, why, and why so many other candidates were not."""

@overload
def explain(code: str) -> str:
    """The page of a diagnostic: explain("E0103")."""

def run_command_line(words: Sequence[str], folder: str) -> int:
    """
    Runs the command line, the program's name first; returns its exit code. `folder` is where the programs that launch kernels are looked for. Takes over SIGINT, SIGTERM, SIGHUP and SIGPIPE.
    """
