# SPDX-License-Identifier: Apache-2.0
"""TTGIR as text, read as far as lint.py asks: operations in their regions, where values come from, lines of source."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

_NAME = r"%[\w$.-]+"
_VALUE = re.compile(rf"({_NAME})(?:#(\d+))?")
_OPERATION = re.compile(rf'^(?:({_NAME}(?::\d+)?(?:, {_NAME}(?::\d+)?)*) = )?"?([a-z_][\w]*\.[\w.]+)"?(.*)$')
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_LOCATION_OF = re.compile(r" loc\((#loc\d*|unknown|.*)\)$")
_BRANCH = re.compile(r"\^(\w+)(?:\(([^)]*)\))?")


@dataclass(eq=False)
class Value:
    """A result, or an argument of a block; `name` of an argument of the function."""

    operation: "Operation | None"  # that it is a result of, or whose region has the block
    index: int
    block: "Block | None" = None  # of an argument
    name: str = ""
    pointer: bool = False  # an argument of the function that is a pointer or a descriptor


@dataclass(eq=False)
class Block:
    region: "Region"
    label: str
    arguments: list[Value] = field(default_factory=list)
    operations: list["Operation"] = field(default_factory=list)


@dataclass(eq=False)
class Region:
    parent: "Operation | None"
    blocks: list[Block] = field(default_factory=list)


@dataclass(eq=False)
class Operation:
    name: str
    text: str  # behind the name, without the location
    operands: list[Value | None]  # None: used before it stands in the text
    block: Block
    location: str
    number: int  # in the text
    regions: list[Region] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)

    def ancestors(self) -> Iterator["Operation"]:
        """The operations whose regions hold it, innermost first."""
        at = self.block.region.parent
        while at is not None:
            yield at
            at = at.block.region.parent


@dataclass(frozen=True)
class Place:
    file: str
    line: int
    column: int


class Module:
    """The functions of a TTGIR text."""

    def __init__(self, text: str):
        self.locations = _locations(text)
        self.functions: list[Operation] = []
        self._operations: list[Operation] = []
        self._parse(text)

    def all(self) -> list[Operation]:
        """Every operation, in the order of the text."""
        return self._operations

    def kernel(self) -> Operation | None:
        """The function that is launched."""
        return next((function for function in self.functions if " public " in function.text), None)

    def frames(self, location: str, depth: int = 0) -> list[Place]:
        """Lines of source, the called function's first."""
        text = self.locations.get(location, location)
        if depth > 100:
            return []
        if found := re.fullmatch(r'loc\("(.*)":(\d+):(\d+)\)', text):
            return [Place(found[1], int(found[2]), int(found[3]))]
        if found := re.fullmatch(r"loc\(callsite\((#\w+) at (#\w+)\)\)", text):
            return self.frames(found[1], depth + 1) + self.frames(found[2], depth + 1)
        if found := re.search(r"(#loc\d*)", text) if text != location else None:  # "name"(#loc7), fused[#loc1, #loc2]
            return self.frames(found[1], depth + 1)
        return []

    def place(self, operation: Operation) -> Place:
        """The kernel's own line."""
        frames = self.frames(operation.location)
        return frames[-1] if frames else Place("", 0, 0)

    def _parse(self, text: str) -> None:
        top = Block(Region(None), "")
        top.region.blocks.append(top)
        block = top
        scopes: list[dict[str, Any]] = [{}]
        open_regions: list[tuple[Block, Operation]] = []
        for raw in text.splitlines():
            line = raw.strip()
            if not line or line[0] == "#" or line.startswith("//"):
                continue
            location = ""
            if found := re.search(r" loc\((#loc\d*)\)$", line):
                location, line = found[1], line[: found.start()]
            if line.startswith("^"):
                label = line[1:].split("(")[0].split(":")[0]
                new = Block(block.region, label)
                # The first block of a region may be named; then it is the one that was opened with it.
                if len(block.region.blocks) == 1 and not block.operations and not block.label:
                    block.label, new = label, block
                else:
                    block.region.blocks.append(new)
                header = line[line.find("(") + 1 : line.rfind(")")] if "(" in line else ""
                for name in re.findall(rf"({_NAME}):", header):
                    value = Value(block.region.parent, len(new.arguments), new)
                    new.arguments.append(value)
                    scopes[-1][name] = value
                block = new
                continue
            owner: Operation | None = None
            if line.startswith("}"):
                if open_regions:
                    block, owner = open_regions.pop()
                    scopes.pop()
                    if location:
                        owner.location = location
            elif found := _OPERATION.match(line):
                owner = self._operation(found, location, block, scopes, line)
            else:
                owner = block.operations[-1] if block.operations else None  # "default {", "partition0(...) {"
            if line.endswith("{") and owner is not None:
                region = Region(owner)
                owner.regions.append(region)
                inner = Block(region, "")
                region.blocks.append(inner)
                open_regions.append((block, owner))
                scopes.append({})
                self._arguments(owner, inner, scopes[-1])
                block = inner

    def _operation(
        self, found: re.Match[str], location: str, block: Block, scopes: list[dict[str, Any]], line: str
    ) -> Operation:
        results, name, rest = found[1], found[2], found[3]
        plain = _STRING.sub('""', rest)
        if name == "scf.for":
            initial = re.search(r"iter_args\((.*?)\) ->", plain)
            plain_operands = [value for pair in initial[1].split(",") for value in pair.split("=")[1:]] if initial else []
        elif name in ("tt.func", "module"):
            plain_operands = []
        else:
            plain_operands = [plain]
        operands = []
        for part in plain_operands:
            for used in _VALUE.finditer(part):
                operands.append(_look_up(scopes, used[1], int(used[2] or 0)))
        operation = Operation(name, rest, operands, block, location, len(self._operations))
        self._operations.append(operation)
        block.operations.append(operation)
        if name == "tt.func":
            self.functions.append(operation)
        for group in (results or "").split(", "):
            if not group:
                continue
            base, _, count = group.partition(":")
            values = [Value(operation, len(operation.results) + i) for i in range(int(count or 1))]
            operation.results += values
            scopes[-1][base] = values if count else values[0]
        return operation

    def _arguments(self, owner: Operation, block: Block, scope: dict[str, Any]) -> None:
        """Names that an operation gives to its region: a function's arguments, a loop's variables."""
        if len(owner.regions) > 1 and owner.name != "scf.while":
            return
        names: list[tuple[str, str]] = []
        if owner.name == "tt.func":
            for found in re.finditer(rf"({_NAME}): ((?:(?!{_NAME}: ).)*)", owner.text):
                names.append((found[1], found[2]))
        elif owner.name == "scf.for":
            if induction := re.match(rf" ?({_NAME}) = ", owner.text):
                names.append((induction[1], ""))
            if initial := re.search(r"iter_args\((.*?)\) ->", owner.text):
                names += [(name, "") for name in re.findall(rf"({_NAME}) = ", initial[1])]
        elif owner.name == "scf.while" and len(owner.regions) == 1:
            names += [(name, "") for name in re.findall(rf"({_NAME}) = ", owner.text)]
        seen = set()
        for name, rest in names:
            if name in seen:
                continue
            seen.add(name)
            value = Value(owner, len(block.arguments), block)
            if owner.name == "tt.func":
                called = re.search(r'loc\("([^"]+)"', rest)
                value.name = called[1] if called else name[1:]
                value.pointer = "!tt.ptr" in rest or "tensordesc" in rest
            block.arguments.append(value)
            scope[name] = value


def _look_up(scopes: list[dict[str, Any]], name: str, index: int) -> Value | None:
    for scope in reversed(scopes):
        if name in scope:
            found = scope[name]
            return found[index] if isinstance(found, list) else found
    return None


def _locations(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        if line.startswith("#loc"):
            name, _, what = line.partition(" = ")
            found[name] = what
    return found


def dominates(first: Operation, second: Operation) -> bool:
    """`first` has run whenever `second` runs, in the same pass through the regions that hold both."""
    region = first.block.region
    at: Operation | None = second
    while at is not None and at.block.region is not region:
        at = at.block.region.parent
    if at is None:
        return False
    if at.block is first.block:
        return first.number < at.number
    return first.block in _dominators(region)[at.block]


def successors(region: Region) -> dict[Block, list[Block]]:
    by_label = {block.label: block for block in region.blocks if block.label}
    after: dict[Block, list[Block]] = {block: [] for block in region.blocks}
    for block in region.blocks:
        if block.operations and block.operations[-1].name.startswith("cf."):
            for branch in _BRANCH.finditer(_STRING.sub('""', block.operations[-1].text)):
                if branch[1] in by_label:
                    after[block].append(by_label[branch[1]])
    return after


def reachable(block: Block, after: dict[Block, list[Block]]) -> set[Block]:
    """Blocks that may run behind this one."""
    left, seen = list(after[block]), set()
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            left += after[one]
    return seen


def _dominators(region: Region) -> dict[Block, set[Block]]:
    before: dict[Block, list[Block]] = {block: [] for block in region.blocks}
    for block, following in successors(region).items():
        for one in following:
            before[one].append(block)
    everything = set(region.blocks)
    found = {block: {block} if i == 0 else set(everything) for i, block in enumerate(region.blocks)}
    changed = True
    while changed:
        changed = False
        for block in region.blocks[1:]:
            above = [found[one] for one in before[block]]
            new = {block} | (set.intersection(*above) if above else set())
            changed = changed or new != found[block]
            found[block] = new
    return found


def origins(module: Module, value: Value | None) -> tuple[set[str], bool]:
    """The function's pointers that an address is made of, and whether all of it is known."""
    found: set[str] = set()
    known = True
    seen: set[int] = set()
    left: list[Value | None] = [value]
    while left:
        one = left.pop()
        if one is None:
            known = False
            continue
        if id(one) in seen:
            continue
        seen.add(id(one))
        owner = one.operation
        if one.block is not None:
            if owner is not None and owner.name == "tt.func":
                if one.block is owner.regions[0].blocks[0]:
                    if one.pointer:
                        found.add(one.name)
                    continue
            left += _into(one)
            continue
        assert owner is not None
        match owner.name:
            case "tt.load" | "tt.descriptor_load" | "tt.elementwise_inline_asm" | "tt.atomic_rmw" | "tt.atomic_cas":
                if "!tt.ptr<!tt.ptr" in owner.text or "-> !tt.ptr" in owner.text:
                    known = False
            case (
                "tt.addptr"
                | "tt.make_tensor_descriptor"
                | "ttng.reinterpret_tensor_descriptor"
                | "tt.make_tensor_ptr"
                | "tt.advance"
            ):
                left.append(owner.operands[0])
            case "arith.select":
                left += owner.operands[1:]
            case "scf.for" | "scf.if" | "scf.while":
                left += _out_of(owner, one.index)
            case "ttg.global_scratch_alloc":
                left += _described(module, one)
            case "tt.call":
                known = False
            case _:
                left += owner.operands
    return found, known


def _yields(operation: Operation) -> list[Operation]:
    return [
        one
        for region in operation.regions
        for block in region.blocks
        for one in block.operations[-1:]
        if one.name in ("scf.yield", "scf.condition")
    ]


def _out_of(operation: Operation, index: int) -> list[Value | None]:
    """What a result of a loop or a choice may be."""
    if operation.name == "scf.while":
        return [*operation.operands, *(value for one in _yields(operation) for value in one.operands)]
    values = [one.operands[index] for one in _yields(operation) if index < len(one.operands)]
    if operation.name == "scf.for":
        values.append(operation.operands[index] if index < len(operation.operands) else None)
    return values


def _into(argument: Value) -> list[Value | None]:
    """What an argument of a block may be."""
    owner, block = argument.operation, argument.block
    assert block is not None
    if owner is not None and owner.name == "scf.for":
        return _out_of(owner, argument.index - 1) if argument.index > 0 else []
    if owner is not None and owner.name == "scf.while":
        return _out_of(owner, argument.index)
    if owner is not None and owner.name == "tt.func":
        branches = [
            one.operations[-1] for one in block.region.blocks if one.operations and one.operations[-1].name.startswith("cf.")
        ]
        return [value for one in branches if f"^{block.label}" in one.text for value in one.operands]
    return [None]


def _described(module: Module, memory: Value) -> list[Value | None]:
    """Bases of the descriptors that are written into `memory`."""
    values: list[Value | None] = []
    for one in module.all():
        if "tensormap_create" in one.name and len(one.operands) > 1:
            at = one.operands[0]
            while (
                at is not None and at is not memory and at.operation is not None and at.block is None and at.operation.operands
            ):
                at = at.operation.operands[0]
            if at is memory:
                values.append(one.operands[1])
    return values or [None]
