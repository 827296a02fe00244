# SPDX-License-Identifier: Apache-2.0
"""One change of a JSON document at a time.

A document is kept as a tree in which an object is a list of (name, value) pairs, so that a member can be given
twice, and a Raw is text that is printed as it is.
"""

import json


class Raw(str):
    pass


class Object(list):
    pass


def parse(text):
    return json.loads(text, object_pairs_hook=Object)


def dump(node):
    if isinstance(node, Raw):
        return str(node)
    if isinstance(node, Object):
        return "{" + ",\n".join(json.dumps(name) + ": " + dump(value) for name, value in node) + "}"
    if isinstance(node, list):
        return "[" + ", ".join(dump(value) for value in node) + "]"
    return json.dumps(node)


def paths(node, here=()):
    """Of all values; members that are comments (_about, $schema) are nobody's."""
    yield here
    if isinstance(node, Object):
        for index, (name, value) in enumerate(node):
            if not name.startswith(("_", "$")):
                yield from paths(value, here + (index,))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from paths(value, here + (index,))


def at(node, path):
    for index in path:
        node = node[index][1] if isinstance(node, Object) else node[index]
    return node


def name_of(node, path):
    words = []
    for index in path:
        words.append(node[index][0] if isinstance(node, Object) else str(index))
        node = node[index][1] if isinstance(node, Object) else node[index]
    return ".".join(words) or "whole"


def replaced(node, path, value):
    if not path:
        return value
    index, rest = path[0], path[1:]
    copy = type(node)(node)
    if isinstance(node, Object):
        copy[index] = (node[index][0], replaced(node[index][1], rest, value))
    else:
        copy[index] = replaced(node[index], rest, value)
    return copy


def kind(value):
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Object) else "array"


# name: (value, the kinds of values that it is of the wrong type for)
ALL = {"boolean", "number", "string", "object", "array"}
VALUES = {
    "null": (None, ALL),
    "true": (True, ALL - {"boolean"}),
    "text": ("seven", ALL - {"string"}),
    "NaN text": ("NaN", ALL - {"string"}),
    "NaN": (Raw("NaN"), ALL),
    "object": (Object([("value", 1)]), ALL - {"object"}),
    "nested": (Raw("[" * 70 + "]" * 70), ALL),
    "empty text": ("", ALL - {"string"}),
    "long text": ("x" * 100_000, ALL - {"string"}),
    "escapes": ("a\u001b[31m\"\n\u0000", ALL - {"string"}),
    "negative": (-1, ALL - {"number"}),
    "zero": (0, ALL - {"number"}),
    "huge": (2**31 - 1, ALL - {"number"}),
    "beyond 64 bits": (Raw("99999999999999999999"), ALL - {"number"}),
    "1e300": (Raw("1e300"), ALL - {"number"}),
    "1e999": (Raw("1e999"), ALL),
    "fraction": (0.5, ALL - {"number"}),
    "tiny": (Raw("1e-300"), ALL - {"number"}),
    "empty array": ([], ALL - {"array"}),
    "empty object": (Object(), ALL - {"object"}),
}


def changes(tree, random, count):
    """`count` of (name, text, is it certainly a mistake), no two the same."""
    everything = list(paths(tree))
    seen = set()
    while len(seen) < count:
        path = random.choice(everything)
        node = at(tree, path)
        what = random.choice([*VALUES, "duplicate", "missing", "unknown"])
        if (path, what) in seen:
            continue
        seen.add((path, what))
        where = name_of(tree, path)
        if what in VALUES:
            value, wrong_for = VALUES[what]
            yield f"{where} {what}", dump(replaced(tree, path, value)), kind(node) in wrong_for
        elif isinstance(node, Object) and node:
            if what == "duplicate":
                changed, certain = Object(node + [node[0]]), True
            elif what == "missing":
                gone = random.randrange(len(node))
                changed, certain = Object(node[:gone] + node[gone + 1:]), False
                where += " without " + node[gone][0]
            else:
                changed, certain = Object(node + [("no_such_member", 1)]), True
            yield f"{where} {what}", dump(replaced(tree, path, changed)), certain


def truncations(text, random, count):
    end = len(text.rstrip())
    for position in sorted(random.sample(range(end), min(count, end))):
        yield f"cut at byte {position}", text[:position]
