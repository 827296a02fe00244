# SPDX-License-Identifier: Apache-2.0
"""What a plan's document says about stages, as kernels in Python need it, and where things lie in a chain's memory."""

import ast
import itertools
import json
import keyword
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ._core import Diagnostic, Plan
from ._error import Error

# The memory of a chain in 32-bit words. First the record of the first wait that gave up: state, place, tile,
# semaphore, seen, expected, and nanoseconds in two words; word 8 is 0 for ever. A line of 128 bytes each:
RECORD_WORDS = 32
ZERO_WORD = 8
COUNTER_WORDS = 32
LANES = 64  # words in which the blocks of a stage that leave count themselves


def refuse(code: str, message: str, *, where: dict[str, Any] | None = None, notes: list[str] | None = None, hint: str) -> Error:
    """An Error with one diagnostic."""
    at = where or {}
    return Error(
        [Diagnostic(code, message, file=at.get("file", ""), line=at.get("line", 0), notes=notes or [], suggestion=hint)]
    )


@dataclass(frozen=True)
class Expression:
    """An index expression of a plan: `floor((x + 1)/2)`, `2*x`, `((y) mod 3)`, `min(a, b)`."""

    tree: ast.expr

    @staticmethod
    def parse(text: str) -> "Expression":
        # Dimensions may be called as Python's keywords are: while it parses, each has a letter more.
        text = re.sub(r"\b([A-Za-z_]\w*)(?![\w(])", r"\1_", text.strip().replace(" mod ", " % "))
        tree = ast.parse(text, mode="eval").body
        functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and id(node) not in functions:
                node.id = node.id[:-1]
        return Expression(tree)

    def names(self) -> set[str]:
        calls = {node.func for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        return {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name) and node not in calls}

    def value(self, tile: Mapping[str, Any], numbers: "Numbers | None" = None) -> Any:
        return _value(self.tree, tile, numbers or Numbers())

    def lowest(self, grid: dict[str, int]) -> int:
        """Over all tiles."""
        return min(_values(self, grid))

    def text(self, grid: dict[str, int], names: dict[str, str] | None = None) -> str:
        """As a line of a Triton function. `grid` has the dimensions, `names` what their variables are called."""
        return _text(self.tree, lambda node: Expression(node).lowest(grid) >= 0, names or {})


class Numbers:
    """What cannot be said of all numbers by + - *: Python's own."""

    def minimum(self, a: Any, b: Any) -> Any:
        return min(a, b)

    def maximum(self, a: Any, b: Any) -> Any:
        return max(a, b)

    def floor_div(self, a: Any, divisor: int, of: Expression) -> Any:
        """Rounded down; `of` is the expression that `a` is the value of."""
        return a // divisor

    def modulo(self, a: Any, divisor: int, of: Expression) -> Any:
        return a - self.floor_div(a, divisor, of) * divisor


def _value(node: ast.expr, tile: Mapping[str, Any], numbers: Numbers) -> Any:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return tile[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return 0 - _value(operand, tile, numbers)
        case ast.Call(
            func=ast.Name(id="floor"), args=[ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=int(divisor)))]
        ):
            return numbers.floor_div(_value(left, tile, numbers), divisor, Expression(left))
        case ast.Call(func=ast.Name(id=("min" | "max") as name), args=[a, b]):
            choose = numbers.minimum if name == "min" else numbers.maximum
            return choose(_value(a, tile, numbers), _value(b, tile, numbers))
        case ast.BinOp(left=left, op=ast.Mod(), right=ast.Constant(value=int(divisor))):
            return numbers.modulo(_value(left, tile, numbers), divisor, Expression(left))
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _value(left, tile, numbers), _value(right, tile, numbers)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
    raise ValueError(f"no index expression: {ast.unparse(node)}")


def _text(node: ast.expr, is_natural: Callable[[ast.expr], bool], names: dict[str, str]) -> str:
    def whole(inner: ast.expr) -> str:
        return _text(inner, is_natural, names)

    def operand(inner: ast.expr) -> str:
        text = whole(inner)
        return text if isinstance(inner, ast.Name | ast.Constant | ast.Call) else f"({text})"

    match node:
        case ast.Constant():
            return ast.unparse(node)
        case ast.Name(id=name):
            return names.get(name, name)
        case ast.UnaryOp(operand=inner):
            return f"-{operand(inner)}"
        case ast.Call(func=ast.Name(id="floor"), args=[ast.BinOp(left=left, right=right)]):
            if is_natural(left):
                return f"({operand(left)} // {ast.unparse(right)})"
            return f"sync.floor_div({whole(left)}, {ast.unparse(right)})"
        case ast.Call(func=ast.Name(id=name), args=[a, b]):
            return f"tl.{name}imum({whole(a)}, {whole(b)})"
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            if is_natural(left):
                return f"({operand(left)} % {ast.unparse(right)})"
            return f"sync.modulo({whole(left)}, {ast.unparse(right)})"
        case ast.BinOp(left=left, op=op, right=right):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}[type(op)]
            return f"{operand(left)} {sign} {operand(right)}"
    raise ValueError(f"no index expression: {ast.unparse(node)}")


def _values(expression: Expression, grid: dict[str, int]) -> Iterator[int]:
    for tile in tiles_of({name: grid[name] for name in sorted(expression.names())}):
        yield expression.value(tile)


def tiles_of(grid: dict[str, int]) -> Iterator[dict[str, int]]:
    """All tiles of a grid, the first dimension fastest."""
    for at in itertools.product(*(range(extent) for extent in reversed(grid.values()))):
        yield dict(zip(grid, reversed(at)))


@dataclass(frozen=True)
class Range:
    """Coordinates [begin, end) along one dimension of a producer."""

    begin: Expression
    end: Expression
    clamp: bool = False

    @staticmethod
    def parse(text: str, extent: int) -> "Range":
        if text == "all":
            return Range(Expression.parse("0"), Expression.parse(str(extent)))
        clamp = text.startswith("clamp(")
        inside = text[len("clamp(") : -1] if clamp else text
        begin, colon, end = inside.partition(" : ")
        return Range(Expression.parse(begin), Expression.parse(end if colon else f"({begin}) + 1"), clamp)

    def names(self) -> set[str]:
        return self.begin.names() | self.end.names()

    def at(self, tile: dict[str, int], extent: int) -> tuple[int, int]:
        begin, end = self.begin.value(tile), self.end.value(tile)
        return (max(begin, 0), min(end, extent)) if self.clamp else (begin, end)

    def counts(self, grid: dict[str, int], group: "Grouping", extent: int) -> set[int]:
        """How many semaphores of a dimension with that extent it may touch, over all tiles of the consumer's grid."""
        tiles = tiles_of({name: grid[name] for name in grid if name in self.names()})
        return {group.count_in(*self.at(tile, extent)) for tile in tiles}


@dataclass(frozen=True)
class Grouping:
    """How one dimension of a producer's tiles is grouped into semaphores: DimensionMap of tessera/sync."""

    kind: str  # each, all, block, stride
    width: int = 1

    def count(self, extent: int) -> int:
        match self.kind:
            case "each":
                return extent
            case "block":
                return (extent - 1) // self.width + 1
            case "stride":
                return min(self.width, extent)
        return 1

    def index(self, coordinate: int) -> int:
        match self.kind:
            case "each":
                return coordinate
            case "block":
                return coordinate // self.width
            case "stride":
                return coordinate % self.width
        return 0

    def count_in(self, begin: int, end: int) -> int:
        if begin >= end:
            return 0
        match self.kind:
            case "each":
                return end - begin
            case "block":
                return (end - 1) // self.width - begin // self.width + 1
            case "stride":
                return min(end - begin, self.width)
        return 1


@dataclass(frozen=True)
class SemaphoreSet:
    """Semaphores that a stage posts to."""

    producer: int
    policy: str
    groups: tuple[Grouping, ...]
    first: int
    count: int


@dataclass(frozen=True)
class Wait:
    """One dependence of a stage. `set` None: kept by the order of the launches, or by a wait for all of them."""

    operand: str
    producer: int
    set: SemaphoreSet | None
    accesses: tuple[tuple[Range, ...], ...]
    where: dict[str, Any]


@dataclass(frozen=True)
class PlannedStage:
    index: int
    name: str
    grid: dict[str, int]
    operands: tuple[str, ...]
    threads: int | None
    shared_bytes: int | None
    early: bool
    triggers: bool
    tickets: bool
    plain_store: bool
    table: tuple[int, ...]  # tile of each position; empty: row major
    where: dict[str, Any]
    waits: list[Wait] = field(default_factory=list)
    posts: list[SemaphoreSet] = field(default_factory=list)

    @property
    def blocks(self) -> int:
        product = 1
        for extent in self.grid.values():
            product *= extent
        return product

    @property
    def needs_launch(self) -> bool:
        """Some wait or post of it depends on the number of the launch."""
        return any(wait.set for wait in self.waits) or (self.plain_store and bool(self.posts))

    @property
    def counts_leaving(self) -> bool:
        return self.needs_launch and not self.tickets

    @property
    def waits_for_grid(self) -> bool:
        return self.early and any(wait.set is None for wait in self.waits)

    def operand_names(self) -> list[str]:
        """With those that only a dependence names."""
        return [*self.operands, *sorted({wait.operand for wait in self.waits} - set(self.operands))]

    def produced(self) -> list[str]:
        """Operands with a producer that a wait must come before: not those that the order of launches keeps."""
        return sorted({wait.operand for wait in self.waits if wait.set or self.early})


@dataclass(frozen=True)
class ChainPlan:
    name: str
    machine: str
    mechanism: str
    stages: tuple[PlannedStage, ...]
    semaphores: int
    fingerprint: int  # of the document, 15 bits: tells generated modules apart

    def place(self, stage: int, operand: int) -> int:
        """What a wait calls itself, in the record and in the compiled kernel."""
        return self.fingerprint << 16 | stage << 8 | operand

    def place_of(self, stage: PlannedStage, operand: str) -> int:
        return self.place(stage.index, stage.operand_names().index(operand))

    def counter_word(self, stage: int, counter: int) -> int:
        """Counter 0 draws tickets, 2 and up are the lanes."""
        return RECORD_WORDS + ((2 + LANES) * stage + counter) * COUNTER_WORDS

    @property
    def semaphore_word(self) -> int:
        return self.counter_word(len(self.stages), 0)

    def table_word(self, stage: int) -> int:
        """Where the order of a stage lies, which has a table."""
        return self.semaphore_word + self.semaphores + sum(len(other.table) for other in self.stages[:stage])

    @property
    def words(self) -> int:
        return self.table_word(len(self.stages))

    def tables(self) -> list[int]:
        """What stands behind the semaphores."""
        return [tile for stage in self.stages for tile in stage.table]


# What a generated function names already.
_TAKEN = {"mem", "launch", "own", "index", "lane", "block", "ticket", "tile", "left", "tl", "sync", "triton", "DEADLINE"}


def coordinates(grid: dict[str, int]) -> list[str]:
    """Names of Python for a grid's dimensions."""
    names: list[str] = []
    for name in grid:
        while keyword.iskeyword(name) or name in _TAKEN or name in names or re.fullmatch(r"(begin|end|count|at)\d", name):
            name += "_"
        names.append(name)
    return names


def read(plan: Plan, kernels: str = "Triton") -> ChainPlan:
    """Refuses (E0801) what a chain of such kernels cannot do."""
    text = plan.to_json()
    document = json.loads(text)
    pipeline = document["pipeline"]
    index_of = {stage["name"]: i for i, stage in enumerate(pipeline["stages"])}

    def cannot(what: str, hint: str, where: dict[str, Any] | None = None) -> Error:
        return refuse(
            "E0801", f"{what}, which chains of {kernels} kernels do not", where=where or pipeline.get("where"),
            notes=[f"the plan of {pipeline['name']} is: {document['mechanism']}"], hint=hint,
        )  # fmt: skip

    mechanisms = 'plan with mechanisms=["stream_order", "pdl", "pdl_tiles"]'
    early = {}
    for launch in document["launches"]:
        if len(launch["stages"]) > 1 or launch.get("workers"):
            raise cannot("a launch holds several stages", mechanisms)
        if launch["start"] == "beside":
            raise cannot("a launch runs in a stream of its own", mechanisms)
        early[index_of[launch["stages"][0]]] = launch["start"] == "early"
    if document["reuse_edges"]:
        edge = document["reuse_edges"][0]
        raise cannot(
            f"{edge['writer']} overwrites {edge['buffer']}, which {edge['reader']} reads", "give each stage a buffer of its own"
        )
    sets = []
    for described in document["semaphores"]:
        producer = index_of[described["producer"]]
        if isinstance(described["map"], dict):
            raise cannot(
                f"semaphores of {described['producer']} are given by a table", "take a policy of rows, strides or tiles",
                pipeline["stages"][producer].get("where"),
            )  # fmt: skip
        groups = tuple(_grouping(one) for one in described["map"])
        sets.append(SemaphoreSet(producer, described["policy"], groups, described["first"], described["count"]))
    stages = []
    for i, (described, planned) in enumerate(zip(pipeline["stages"], document["stages"])):
        where = described.get("where", {})
        if described.get("splits", 1) > 1:
            raise cannot(f"{described['name']} splits its sums", "leave splits out", where)
        if planned.get("persistent_blocks"):
            raise cannot(f"{described['name']} has fewer blocks than tiles", "plan with a block for each tile", where)
        order = planned["order"]
        if "bands" in order:
            raise cannot(f"{described['name']} takes its tiles in bands", "leave the order of tiles to row major", where)
        resources = described.get("resources", {})
        stages.append(
            PlannedStage(
                index=i, name=described["name"], grid=described["grid"], where=where,
                operands=tuple(operand["name"] for operand in described.get("operands", [])),
                threads=resources.get("threads"), shared_bytes=resources.get("shared_bytes"),
                early=early[i], triggers=early.get(i + 1, early[0]),
                tickets=planned["custom_order"], plain_store=planned["plain_store"], table=tuple(order.get("table", ())),
                posts=[one for one in sets if one.producer == i],
            )
        )  # fmt: skip
    for described, planned in zip(pipeline["dependences"], document["dependences"]):
        producer = index_of[described["producer"]]
        extents = list(stages[producer].grid.values())
        accesses = tuple(
            tuple(Range.parse(text, extent) for text, extent in zip(access, extents)) for access in described["accesses"]
        )
        chosen = planned["semaphore_set"]
        stages[index_of[described["consumer"]]].waits.append(
            Wait(described["operand"], producer, None if chosen is None else sets[chosen], accesses, described.get("where", {}))
        )
    return ChainPlan(
        pipeline["name"], document["machine"], document["mechanism"], tuple(stages), sum(one.count for one in sets),
        _fingerprint(document),
    )  # fmt: skip


def _fingerprint(document: dict[str, Any]) -> int:
    """Of what generated functions depend on: neither lines of the user's text nor predicted times."""
    pipeline = document["pipeline"]
    parts = [
        [
            [stage["name"], list(stage["grid"].items()), [o["name"] for o in stage.get("operands", [])]]
            for stage in pipeline["stages"]
        ],
        [[edge[key] for key in ("consumer", "producer", "operand", "accesses")] for edge in pipeline["dependences"]],
        [[stage[key] for key in ("custom_order", "order", "plain_store")] for stage in document["stages"]],
        [document[key] for key in ("launches", "semaphores", "dependences")],
    ]
    return zlib.crc32(json.dumps(parts).encode()) & 0x7FFF


def _grouping(described: str | dict[str, int]) -> Grouping:
    if isinstance(described, str):
        return Grouping(described)
    ((kind, width),) = described.items()
    return Grouping(kind, width)
