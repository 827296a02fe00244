# SPDX-License-Identifier: Apache-2.0
"""Large inputs that are legal: what once took time with the square of something, asked the same thing of every stage, or
was not estimated before it began. Sizes are drawn: what is bounded is not one size."""

import json

from cases import FINE, REFUSED, Case

WRONG_FILE, WRONG_OPTIONS = 1, 2  # exit codes


def numbers(least, most):
    return ",".join(map(str, range(least, most + 1)))


def products(count, sides):
    """A chain; `sides`: n of each, which is k of the next."""
    return [{"name": f"g{i}", "kind": "gemm", "m": 2048, "n": sides[i + 1], "k": sides[i],
             "inputs": [{"name": "a", **({"producer": f"g{i - 1}"} if i > 0 else {"buffer": "x"})},
                        {"name": "b", "buffer": f"w{i}"}]} for i in range(count)]


def chain_of(operators):
    return {"w.json": json.dumps({"schema": "tessera.workload/1", "name": "chain", "type": "bf16",
                                  "operators": operators}).encode()}


def networks(text, rng):
    def layer(**sizes):
        one = {"name": "l", "p": 28, "q": 28, "channels": 64, "r": 3, "s": 3, "convs": 2} | sizes
        return {"n.json": json.dumps(json.loads(text) | {"layers": [one]}, indent=1).encode()}

    # halos of 64 equal convolutions were computed for each of them and each candidate
    for p in (7, 31, rng.randint(8, 60)):
        yield Case(f"large: 64 convolutions of {p} x {p}", ["plan", "n.json", "--layer", "l"],
                   layer(p=p, q=p, convs=64), FINE)
    rows, columns = (rng.choice((1, 5, 7, 9)) for _ in range(2))
    yield Case(f"large: 64 convolutions, kernels of {rows} x {columns}", ["plan", "n.json", "--layer", "l"],
               layer(r=rows, s=columns, convs=64), FINE)
    for name, sizes, says in (("an even kernel", {"r": 4}, "odd"), ("65 convolutions", {"convs": 65}, "64"),
                              ("a kernel of 33 rows", {"r": 33}, "31"), ("no pixels", {"p": 0}, "1")):
        yield Case("large: " + name, ["check", "n.json", "--layer", "l"], layer(**sizes), REFUSED, blamed="n.json",
                   says=says, exit_code=WRONG_FILE)
    yield Case("large: no layer of that name", ["check", "n.json", "--layer", "m"], layer(), REFUSED, "E0220",
               exit_code=WRONG_OPTIONS)


def chains(rng):
    # each operator's choices were looked at with those of all others, and priced again for its equals
    sides = [2048] * 301
    yield Case("large: 100 equal products", ["plan", "w.json"], chain_of(products(100, sides)), FINE)
    yield Case("large: 200 small products", ["plan", "w.json"], chain_of(products(200, [128] * 201)), FINE)
    sides = [64 * rng.randint(8, 64) for _ in range(31)]
    yield Case("large: 30 products of other sizes", ["plan", "w.json"], chain_of(products(30, sides)), FINE)
    for count in (720, 5000):
        yield Case(f"large: {count} products", ["plan", "w.json"], chain_of(products(count, [128] * (count + 1))), REFUSED,
                   "E0504", "w.json", f"{count} operators; 707 can be planned", exit_code=WRONG_FILE)
        yield Case(f"large: check {count} products", ["check", "w.json"],
                   chain_of(products(count, [128] * (count + 1))), FINE)


def loops(text, rng):
    def copies(count):
        return {"w.json": json.dumps(json.loads(text) | {"loop": {"copies": {"u": count}}}, indent=1).encode()}

    # whether a copy may be overwritten was asked in every iteration
    for count in (8, rng.randint(5, 7)):
        for command in (["check", "w.json", "--iterations", "200"], ["plan", "w.json", "--iterations", "20"]):
            yield Case(f"large: {count} copies: {command[0]}", command, copies(count), FINE)
    yield Case("large: 16 copies", ["check", "w.json", "--iterations", "40"], copies(16), FINE,
               says="covered by the dependences; the same for 63 other")
    for count in (0, 65):
        yield Case(f"large: {count} copies", ["check", "w.json", "--iterations", "4"], copies(count), REFUSED, "E0114"
                   if count else "", "w.json", exit_code=WRONG_FILE)


def accesses(rng):
    # what tiles wait for was enumerated for every candidate, and not in the estimate
    def reading(stages, side, ranges):
        named = [{"name": f"s{i}", "grid": {"x": side, "y": side}, "output": f"b{i}",
                  "operands": [{"name": "a", "buffer": f"b{i - 1}"}] if i > 0 else []} for i in range(stages)]
        reads = [{"consumer": f"s{i}", "producer": f"s{i - 1}", "operand": "a", "accesses": ranges}
                 for i in range(1, stages)]
        return {"w.json": json.dumps({"schema": "tessera.workload/1", "name": "m", "stages": named,
                                      "dependences": reads}).encode()}

    def scattered(count, side):
        return [[f"mod(x * {i + 1}, {side})", f"mod(y * {i + 1} + x, {side})"] for i in range(count)]

    def around(reach, boxes):
        return [[f"clamp(x - {reach} : x + {reach - i})", f"clamp(y - {reach - i} : y + {reach})"]
                for i in range(boxes)]

    for stages, side, ranges in ((8, 24, scattered(400, 24)), (2, 32, scattered(800, 32)), (16, 16, scattered(200, 16)),
                                 (8, 8, scattered(1000, 8)), (8, 24, around(12, 2)), (8, 36, around(12, 1))):
        files = reading(stages, side, ranges)
        name = f"large: {stages} stages of {side} x {side}, {len(ranges)} accesses"
        yield Case(name, ["plan", "w.json"], files, REFUSED, "E0504", "w.json", "lists of the tiles that a tile waits for",
                   exit_code=WRONG_FILE)
        yield Case(name + ", stream order", ["plan", "w.json", "--mechanism", "stream_order,pdl"], files, FINE)
    for stages, side, ranges in ((8, 24, scattered(rng.randint(1, 10), 24)), (2, 24, scattered(200, 24)),
                                 (40, 20, around(4, 1)), (8, 24, around(rng.randint(1, 3), 2))):
        yield Case(f"large: {stages} stages of {side} x {side}, {len(ranges)} accesses: few enough", ["plan", "w.json"],
                   reading(stages, side, ranges), FINE)


def lists():
    yield Case("large: 40 numbers of tokens", ["plan", "llama-65b", "--tokens", numbers(1, 40)], {}, FINE)
    for command, says in ((["llama-65b", "--tokens", numbers(1, 4000)], "of the 4000 sizes"),
                          (["resnet-38", "--layer", "56x56x64", "--images", numbers(1, 900)], "of the 900 sizes"),
                          (["jacobi", "--iterations", numbers(1, 30)], "of the 30 sizes")):
        yield Case(f"large: plan a list of {command[0]}", ["plan", *command], {}, REFUSED, "E0504", says=says,
                   exit_code=WRONG_FILE)
    for command in ("check", "plan"):
        yield Case(f"large: {command} 90 numbers of iterations", [command, "jacobi", "--iterations", numbers(1, 90)], {},
                   REFUSED, "E0112", says="of them at a time", exit_code=WRONG_FILE)
    yield Case("large: check 400 numbers of tokens", ["check", "llama-65b", "--tokens", numbers(1, 400)], {}, FINE)


def studies():
    run = ["simulate", "--study", "t3", "--config", "t3", "--layer"]
    yield Case("large: T3 with 16384 tokens of GPT-3", [*run, "FC-2", "--model", "gpt-3-145b", "--tokens", "16384",
                                                        "--tp", "8"], {}, REFUSED, "E0544",
               says="that is at most 14080 tokens", exit_code=WRONG_FILE)
    yield Case("large: T3 with 65536 tokens of Llama", [*run, "FC-1", "--model", "llama-3-70b", "--tokens", "65536",
                                                        "--tp", "8"], {}, REFUSED, "E0544", exit_code=WRONG_FILE)
    yield Case("large: a box of 1.7 billion cells", ["run", "lattice-boltzmann", "--predict", "--variant", "in_place",
                                                     "--box", "1200x1200x1200"], {}, FINE, says="in_place 74767")
    yield Case("large: a box of 2 billion cells", ["run", "lattice-boltzmann", "--predict", "--variant", "two_lattices",
                                                   "--box", "1290x1290x1290"], {}, FINE, says="two_lattices -")
    yield Case("large: a channel of 2 billion cells", ["run", "lattice-boltzmann", "--flow", "channel", "--box",
                                                       "4096x4096x127"], {}, REFUSED, "E0936", beside={})
    for tokens in (16384, 131072):
        yield Case(f"large: attention in one kernel over {tokens} tokens",
                   ["plan", "llama-65b", "--block", "fused_attention", "--tokens", str(tokens), "--tp", "8"], {}, FINE)


def block_times(text, rng):
    def timed(**time):
        graph = json.loads(text)
        graph["stages"][0]["block_time"] = {"alone_ns": 1000.0, "share_ns": 500.0} | time
        return {"w.json": json.dumps(graph, indent=1).encode()}

    for name, time in (("as measured", {"alone_ns": rng.uniform(1, 1e6)}), ("a second", {"alone_ns": 1e9}),
                       ("a waiting share", {"waits_ns": 1e6})):
        yield Case(f"large: block_time, {name}", ["plan", "w.json"], timed(**time), FINE)
    for name, time in (("below 0", {"alone_ns": -1}), ("0", {"alone_ns": 0}), ("null", {"alone_ns": None}),
                       ("a word", {"alone_ns": "long"}), ("a share below 0", {"share_ns": -1}),
                       ("beyond any block", {"alone_ns": 1e300})):
        yield Case(f"large: block_time, {name}", ["check", "w.json"], timed(**time), REFUSED, blamed="w.json",
                   exit_code=WRONG_FILE)


def pages(text):
    def grids(side):
        return {"w.json": json.dumps(json.loads(text), indent=1).replace('"x": 8,', f'"x": {side},')
                .replace('"y": 8', f'"y": {side}').encode()}

    # all tiles were simulated anew and kept, however many
    for side, options in ((480, ["--mechanism", "stream_order"]), (690, ["--mechanism", "stream_order"]), (360, [])):
        yield Case(f"large: a page of {side} x {side}", ["plan", "w.json", *options, "--html", "o.html"], grids(side),
                   REFUSED, "E0504", says="at most 131072 are drawn", exit_code=WRONG_FILE)
    yield Case("large: a page of 250 x 250", ["plan", "w.json", "--html", "o.html"], grids(250), FINE, outputs=("o.html",))


def cases(texts, rng):
    yield from networks(texts["network resnet-38"], rng)
    yield from chains(rng)
    yield from loops(texts["workload jacobi"], rng)
    yield from accesses(rng)
    yield from lists()
    yield from studies()
    yield from pages(texts["workload two-gemms"])
    yield from block_times(texts["workload two-gemms"], rng)
    for iterations, answer in ((300, {"expect": FINE}), (1000, {"expect": REFUSED, "code": "E0506", "says": "3e7 slots"})):
        yield Case(f"large: roles, {iterations} iterations", ["simulate", "--roles", "r.json", "--iterations", str(iterations)],
                   {"r.json": texts["roles"].encode()}, **answer)
    # 20 us a state
    yield Case("large: 200000 states", ["simulate", "p.json", "--explore", "200000"],
               {"p.json": texts["plan of 4 x 4"].encode()}, says="no conclusion: 200001 states seen, none stuck",
               exit_code=1)
