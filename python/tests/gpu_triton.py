#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Triton pairs on a GPU (examples/08_triton_pairs): right bit for bit, and how fast, against stream order.

    python/tests/gpu_triton.py pack <folder> [--rows 640,1152]   compiles all; needs Triton and tessera, and no GPU
    python/tests/gpu_triton.py pack-cute <folder>                the same for a pair in CuTe DSL; needs that and tessera
    python/tests/gpu_triton.py run <folder> [--json <file>]      needs a Hopper GPU and its driver; no Triton, no torch
    python/tests/gpu_triton.py torch [--rows 1152] [--json <file>]   tessera.triton.Chain itself; needs all of them

What is run: outputs poisoned before each launch and two inputs in turns, so that what is read too early is seen;
replayed from a graph; a chain without posts, whose waits must give up; and, counted but not judged, a pair whose waits
Triton has overtaken, which tessera.triton.check() refuses."""

import argparse
import array
import json
import math
import os
import random
import re
import statistics
import struct
import sys
import time

from for_triton.driver import POISON, Gpu, Program

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "examples", "08_triton_pairs")
MECHANISMS = ("stream_order", "pdl", "pdl_tiles")
LAUNCHES = 40  # of each plan, for their results
ROWS = [640, 1152, 1408]
WIDE_ROWS = [1152, 1408]  # of the pairs whose waves fit badly
CHAINS_OF_A_GRAPH = 10
STALL_MS = 20


# What is compiled elsewhere.


def pack(folder, rows_of_pairs):
    sys.path[:0] = [EXAMPLE, os.path.join(HERE, "for_triton")]
    import compiling
    import kernels
    import pairs
    import tessera
    import tessera.triton
    import triton

    os.makedirs(folder, exist_ok=True)

    def launch(name, compiled, grid, early, arguments):
        metadata = compiled.metadata
        file = f"{name}.cubin"
        with open(os.path.join(folder, file), "wb") as out:
            out.write(compiled.asm["cubin"])
        entry = re.search(r"\.entry\s+\w+\((.*?)\)", compiled.asm["ptx"], re.S)
        return {
            "cubin": file, "function": metadata.name, "blocks": grid, "threads": 32 * metadata.num_warps, "shared": metadata.shared,
            "early": early, "arguments": arguments, "parameters": entry[1].count(".param"),
        }  # fmt: skip

    def program(label, plan, compiled, arguments):
        from tessera import _plan

        read = _plan.read(plan)
        assert not read.tables()
        return {
            "label": label, "predicted_us": plan.predicted_us, "words": read.words,
            "launches": [
                launch(f"{label}_{stage.name}", compiled[stage.name], stage.blocks, stage.early, arguments[stage.name])
                for stage in read.stages
            ],
        }  # fmt: skip

    described = []
    wide_rows = rows_of_pairs if rows_of_pairs != ROWS else WIDE_ROWS
    for make, all_rows in (
        (pairs.wide_gemm_gemm, wide_rows),
        (pairs.wide_gemm_softmax, wide_rows),
        (pairs.gemm_gemm, rows_of_pairs),
        (pairs.gemm_softmax, rows_of_pairs),
    ):
        for rows in all_rows:
            pair = make(rows=rows)
            arguments = {"up": ["input", "w_up", "up", "mem"]}
            arguments |= (
                {"down": ["up", "w_down", "output", "mem"]} if pair.second == "gemm" else {"softmax": ["up", "output", "mem"]}
            )
            programs = []
            for mechanism in MECHANISMS:
                plan = pair.plan(mechanisms=[mechanism])
                compiled = pair.compile(plan)
                for stage, one in compiled.items():
                    tessera.triton.check(one, plan, stage)
                programs.append(program(f"{pair.name}_{rows}_{mechanism}", plan, compiled, arguments))
            # The last plan again without posts, and with a deadline that a test can wait for.
            sync = tessera.triton.load(plan, deadline_ms=STALL_MS)
            kernel, constants, options = pair.kernels(plan)["up"]
            types = {"a": "*bf16", "b": "*bf16", "c": "*bf16", "mem": "*i32"}
            silent = tessera.triton.compile(kernel, {**types, **constants, "post": kernels.no_wait}, **options)
            second = next(name for name in arguments if name != "up")
            kernel, constants, options = pair.kernels(plan)[second]
            functions = {
                name: getattr(sync, value.__name__)
                for name, value in constants.items()
                if hasattr(sync, getattr(value, "__name__", "-"))
            }
            waiting = tessera.triton.compile(kernel, {**types, "s": "*bf16", "p": "*bf16", **constants, **functions}, **options)
            assert f", {STALL_MS * 1_000_000};" in waiting.asm["ptx"], "the deadline of the stalled chain is another"
            stalled = program(f"{pair.name}_{rows}_stalled", plan, {"up": silent, second: waiting}, arguments)
            racing = None
            if make == pairs.gemm_gemm:
                module = tessera.triton.load(plan)
                overtaken = compiling.gemm_of(module, "INSIDE", "*bf16", pair.outputs)
                assert [one.code for one in tessera.triton.findings(overtaken, plan, "down")] == ["E0802"]
                racing = program(f"{pair.name}_{rows}_racing", plan, {**compiled, "down": overtaken}, arguments)
                racing["launches"][1]["arguments"] = ["up", "w_down", "output", "mem", pair.hidden]
            buffers = {"input": rows * pair.inputs, "other_input": rows * pair.inputs, "w_up": pair.inputs * pair.hidden}
            buffers |= {"w_down": pair.hidden * pair.outputs} if pair.second == "gemm" else {}
            described.append(
                {
                    "name": pair.name, "second": pair.second, "rows": rows, "inputs": pair.inputs, "hidden": pair.hidden,
                    "outputs": pair.outputs, "random": buffers, "made": {"up": rows * pair.hidden, "output": rows * pair.outputs},
                    "programs": programs, "stalled": stalled, "racing": racing,
                }
            )  # fmt: skip
    with open(os.path.join(folder, "pairs.json"), "w") as out:
        json.dump({"triton": triton.__version__, "pairs": described}, out, indent=1)
    print(f"{folder}: {len(described)} pairs by Triton {triton.__version__}")


CUTE_WIDTHS, CUTE_ROWS = (24, 32), 9


def pack_cute(folder):
    """A pair that adds up rows of numbers, as PTX, which the driver compiles."""
    os.environ.setdefault("CUTE_DSL_ARCH", "sm_90a")
    sys.path[:0] = [os.path.join(HERE, "for_triton"), HERE]
    import for_cute
    import tessera
    from test_triton import gemm_pair

    os.makedirs(folder, exist_ok=True)
    programs = []
    for label, mechanism, policy in (
        ("cute_stream_order", "stream_order", None),
        ("cute_pdl", "pdl", None),
        ("cute_rows", "pdl_tiles", tessera.rows()),
        ("cute_tiles", "pdl_tiles", tessera.each_tile()),
    ):
        launches, words = [], 0
        for name, (ptx, stage) in for_cute.pair(gemm_pair(policy, mechanisms=[mechanism]), CUTE_WIDTHS).items():
            with open(os.path.join(folder, f"{label}_{name}.ptx"), "w") as out:
                out.write(ptx)
            words = stage.words
            launches.append(
                {
                    "cubin": f"{label}_{name}.ptx", "function": re.search(r"\.entry\s+(\w+)\(", ptx)[1], "blocks": stage.blocks,
                    "threads": for_cute.THREADS, "shared": 0, "early": stage.early, "parameters": 3,
                    "arguments": ["mem", "input", "up"] if name == "up" else ["mem", "up", "output"],
                }
            )  # fmt: skip
        programs.append({"label": label, "words": words, "launches": launches})
    with open(os.path.join(folder, "cute.json"), "w") as out:
        json.dump({"threads": for_cute.THREADS, "widths": CUTE_WIDTHS, "rows": CUTE_ROWS, "programs": programs}, out, indent=1)
    print(f"{folder}: {len(programs)} plans of a pair in CuTe DSL")


def run_cute(gpu, folder, packed):
    """Every number of every launch is held to what it has to be."""
    threads, (first, second), rows = packed["threads"], packed["widths"], packed["rows"]
    sizes = {
        "input": 4 * threads,
        "other_input": 4 * threads,
        "up": 4 * threads * first * rows,
        "output": 4 * threads * second * rows,
    }
    buffers = {name: gpu.allocate(size) for name, size in sizes.items()}
    wanted = []
    for other, name in enumerate(("input", "other_input")):
        given = [1000 * (other + 1) + thread for thread in range(threads)]
        gpu.write(buffers[name], struct.pack(f"<{threads}i", *given))
        sums = [
            [first * given[thread] + sum(y * first + x for x in range(first)) for thread in range(threads)] for y in range(rows)
        ]
        numbers = [sums[y][thread] + x for y in range(rows) for x in range(second) for thread in range(threads)]
        wanted.append(struct.pack(f"<{len(numbers)}i", *numbers))
    faults = []
    for one in packed["programs"]:
        program = Program(gpu, folder, one, buffers)
        wrong = 0
        for i in range(10 * LAUNCHES):
            for name in ("up", "output"):
                gpu.fill(buffers[name], POISON, sizes[name])
            program.launch(i % 2 == 1)
            wrong += gpu.read(buffers["output"], sizes["output"]) != wanted[i % 2]
        if wrong or program.record()[0]:
            faults.append(f"{one['label']}: {wrong} wrong results, record {program.record()}")
    print(f"CuTe DSL, {len(packed['programs'])} plans: {faults or 'right'}")
    return {"pair": "cute", "compared": 10 * LAUNCHES, "faults": faults}


# The CUDA driver, as far as it is needed.


# What is run.


def random_bf16(count, scale_exponent, seed):
    """Between one and two times 2^exponent, of both signs: as many bytes as that takes."""
    mask = int.from_bytes(struct.pack("<H", 0x807F) * count, "little")
    exponent = int.from_bytes(struct.pack("<H", (127 + scale_exponent) << 7) * count, "little")
    return ((int.from_bytes(random.Random(seed).randbytes(2 * count), "little") & mask) | exponent).to_bytes(
        2 * count, "little"
    )


def floats(data):
    words = array.array("H", data)
    return [struct.unpack("<f", struct.pack("<I", word << 16))[0] for word in words]


def run_pair(gpu, folder, pair, rounds):
    buffers = {name: gpu.allocate(2 * count) for name, count in {**pair["random"], **pair["made"]}.items()}
    depth_of = {"w_up": pair["inputs"], "w_down": pair["hidden"]}
    contents = {}
    for i, (name, count) in enumerate(pair["random"].items()):
        contents[name] = random_bf16(count, -int(math.log2(depth_of.get(name, 1)) / 2), i)
        gpu.write(buffers[name], contents[name])
    programs = {mechanism: Program(gpu, folder, one, buffers) for mechanism, one in zip(MECHANISMS, pair["programs"])}
    size = 2 * pair["made"]["output"]
    found = {"pair": pair["name"], "rows": pair["rows"], "faults": []}

    def poisoned():
        for name, count in pair["made"].items():
            gpu.fill(buffers[name], POISON, 2 * count)

    def result(program, other):
        poisoned()
        program.launch(other)
        return gpu.read(buffers["output"], size)

    wanted = [result(programs["stream_order"], other) for other in (False, True)]
    if wanted[0] == wanted[1]:
        found["faults"].append("two inputs have one result")
    found["faults"] += plausible(gpu, pair, buffers, contents)
    for mechanism, program in programs.items():
        wrong = sum(result(program, i % 2 == 1) != wanted[i % 2] for i in range(LAUNCHES))
        graph = gpu.captured(lambda: (poisoned(), program.launch()))
        for _ in range(LAUNCHES // 2):
            gpu.replay(graph)
            wrong += gpu.read(buffers["output"], size) != wanted[0]
        wrong += result(program, True) != wanted[1]  # launched between replays
        gpu.replay(graph)
        wrong += gpu.read(buffers["output"], size) != wanted[0]
        if wrong or program.record()[0]:
            found["faults"].append(f"{mechanism}: {wrong} wrong results, record {program.record()}")
    found["compared"] = LAUNCHES + LAUNCHES // 2 + 2
    found |= timed(gpu, pair, programs, rounds)
    found |= stalled(gpu, folder, pair, buffers, found["faults"])
    if pair["racing"]:
        racing = Program(gpu, folder, pair["racing"], buffers)
        found["racing_wrong"] = sum(result(racing, i % 2 == 1) != wanted[i % 2] for i in range(LAUNCHES))
        found["racing_launches"] = LAUNCHES
    for address in buffers.values():
        gpu.free(address)
    return found


def plausible(gpu, pair, buffers, contents):
    """A few elements by plain arithmetic, of what the last launch, with the other input, has left."""
    lot, faults = random.Random(7), []
    up = gpu.read(buffers["up"], 2 * pair["made"]["up"])
    output = gpu.read(buffers["output"], 2 * pair["made"]["output"])

    def row(data, index, width):
        return floats(data[2 * index * width : 2 * (index + 1) * width])

    def column(data, index, width):
        return floats(
            b"".join(data[2 * (i * width + index) : 2 * (i * width + index) + 2] for i in range(len(data) // (2 * width)))
        )

    def hold(what, seen, wanted, scale):
        if not abs(seen - wanted) <= 0.01 * scale:
            faults.append(f"{what} is {seen}, not {wanted}")

    for _ in range(6):
        y, x = lot.randrange(pair["rows"]), lot.randrange(pair["hidden"])
        wanted = sum(
            a * b for a, b in zip(row(contents["other_input"], y, pair["inputs"]), column(contents["w_up"], x, pair["hidden"]))
        )
        hold(f"up({y}, {x})", row(up, y, pair["hidden"])[x], wanted, max(abs(wanted), 1))
        of_y = row(up, y, pair["hidden"])
        if pair["second"] == "gemm":
            x = lot.randrange(pair["outputs"])
            wanted = sum(a * b for a, b in zip(of_y, column(contents["w_down"], x, pair["outputs"])))
        else:
            highest = max(of_y)
            wanted = math.exp(of_y[x] - highest) / sum(math.exp(one - highest) for one in of_y)
        hold(
            f"output({y}, {x})",
            row(output, y, pair["outputs"])[x],
            wanted,
            max(abs(wanted), 1 if pair["second"] == "gemm" else 0),
        )
    return faults


def timed(gpu, pair, programs, rounds):
    """Chains back to back in a graph, the mechanisms in turns: medians and least times of one chain."""

    def chains(program):
        return gpu.captured(lambda: [program.launch() for _ in range(CHAINS_OF_A_GRAPH)])

    graphs = {mechanism: chains(program) for mechanism, program in programs.items()}
    taken = {mechanism: [] for mechanism in programs}
    for round_number in range(rounds + 3):
        for mechanism, graph in graphs.items():
            once = gpu.timed_us(lambda: gpu.replay(graph)) / CHAINS_OF_A_GRAPH
            if round_number >= 3:  # the first ones warm up
                taken[mechanism].append(once)
    medians = {mechanism: statistics.median(times) for mechanism, times in taken.items()}
    return {
        "us": {mechanism: round(value, 3) for mechanism, value in medians.items()},
        "least_us": {mechanism: round(min(times), 3) for mechanism, times in taken.items()},
        "predicted_us": {mechanism: round(one["predicted_us"], 3) for mechanism, one in zip(MECHANISMS, pair["programs"])},
        "speedup": {mechanism: round(medians["stream_order"] / value, 4) for mechanism, value in medians.items()},
    }


def stalled(gpu, folder, pair, buffers, faults):
    """Without posts, waits meet their deadline, and say so."""
    program = Program(gpu, folder, pair["stalled"], buffers)
    taken = gpu.timed_us(program.launch) / 1e3
    state, _, tile, semaphore, seen, expected, low, high = program.record()
    waited = (low + (high << 32)) / 1e6
    if state != 2 or seen != 0 or expected == 0 or not STALL_MS <= waited <= taken:
        faults.append(f"a stalled chain left record {program.record()} after {taken} ms")
    return {"stall": {"ms": round(taken, 1), "tile": tile, "semaphore": semaphore, "waited_ms": round(waited, 1)}}


def run(folder, rounds, seconds, write):
    with open(os.path.join(folder, "pairs.json")) as file:
        packed = json.load(file)
    began = time.monotonic()
    gpu = Gpu()
    cute = os.path.join(folder, "cute.json")
    values = {
        "triton": packed["triton"],
        "how": f"medians of {rounds} replays of {CHAINS_OF_A_GRAPH} chains, in turns",
        "pairs": [],
    }
    for pair in packed["pairs"]:
        if time.monotonic() > began + seconds:
            values.setdefault("left_out", []).append(f"{pair['name']}, {pair['rows']} rows")
            continue
        found = run_pair(gpu, folder, pair, rounds)
        values["pairs"].append(found)
        write(values)
        shown = ", ".join(f"{mechanism} {value} us" for mechanism, value in found["us"].items())
        print(
            f"{found['pair']}, {found['rows']} rows: {shown}; x{found['speedup']['pdl_tiles']}; {found['faults'] or 'right bit for bit'}"
        )
    if os.path.exists(cute):
        with open(cute) as file:
            values["pairs"].append(run_cute(gpu, folder, json.load(file)))
    return values


def run_torch(rows_of_pairs, seconds, write):
    """The same pairs by Chain, with torch's tensors, streams and graphs."""
    sys.path.insert(0, EXAMPLE)
    import pairs
    import tessera
    import torch
    import triton

    began = time.monotonic()
    values = {"triton": triton.__version__, "torch": torch.__version__, "pairs": []}
    for make in (pairs.gemm_gemm, pairs.gemm_softmax, pairs.wide_gemm_gemm):
        for rows in rows_of_pairs:
            pair = make(rows=rows)
            if time.monotonic() > began + seconds:
                values.setdefault("left_out", []).append(f"{pair.name}, {rows} rows")
                continue
            tensors = pair.tensors()
            faults = []
            inputs = [tensors["input"].clone(), torch.randn_like(tensors["input"])]
            wanted = []
            for mechanism in MECHANISMS:
                chain = pair.chain(pair.plan(mechanisms=[mechanism]), tensors)
                side = torch.cuda.Stream()
                for i in range(LAUNCHES):
                    with torch.cuda.stream(side):
                        tensors["input"].copy_(inputs[i % 2])
                        for name in ("up", "output"):
                            tensors[name].fill_(float("nan"))
                        chain()
                    side.synchronize()
                    if mechanism == "stream_order" and i < 2:
                        wanted.append(tensors["output"].clone())
                    elif not torch.equal(tensors["output"].view(torch.int16), wanted[i % 2].view(torch.int16)):
                        faults.append(f"{mechanism}, launch {i}")
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    tensors["output"].fill_(float("nan"))
                    chain()
                tensors["input"].copy_(inputs[0])
                for _ in range(LAUNCHES):
                    graph.replay()
                torch.cuda.synchronize()
                if not torch.equal(tensors["output"].view(torch.int16), wanted[0].view(torch.int16)):
                    faults.append(f"{mechanism}, replayed")
                try:
                    chain.check()
                except tessera.Error as error:
                    faults.append(str(error))
            values["pairs"].append({"pair": pair.name, "rows": rows, "faults": faults})
            write(values)
            print(f"{pair.name}, {rows} rows, tessera.triton.Chain: {faults or 'right bit for bit'}")
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pack", "pack-cute", "run", "torch"])
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--rows", help="multiples of 128")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--json")
    parser.add_argument("--seconds", type=float, default=1e9, help="no pair begins after so many; it is named as left out")
    given = parser.parse_args()
    # Triton compiles each pair anew for torch, which takes longer than all that runs.
    rows = [int(word) for word in given.rows.split(",")] if given.rows else ROWS if given.what != "torch" else [1152]
    if given.what != "torch" and not given.folder:
        parser.error("which folder?")
    if given.what == "pack":
        return pack(given.folder, rows)
    if given.what == "pack-cute":
        return pack_cute(given.folder)

    def write(values):
        if given.json:
            with open(given.json, "w") as out:
                json.dump(values, out, indent=2)
                out.write("\n")

    timed = given.what == "run"
    values = run(given.folder, given.rounds, given.seconds, write) if timed else run_torch(rows, given.seconds, write)
    write(values)
    sys.exit(1 if any(pair["faults"] for pair in values["pairs"]) else 0)


if __name__ == "__main__":
    main()
