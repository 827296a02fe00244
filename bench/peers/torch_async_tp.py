#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's async tensor parallelism (symmetric memory) at the sizes of a record, beside its matmul and then NCCL.

  torchrun --standalone --nproc-per-node 2 bench/peers/torch_async_tp.py results/h200x2/gemm_collectives.json -o out.json

A process for each GPU. Each way is captured in a graph where it can be, and timed by turns with the others: samples of
several calls begun together, the longer of the ranks, medians. Results are compared with the sequence's. NVLink's
multicast stays off (NCCL_NVLS_ENABLE, TORCH_SYMM_MEM_DISABLE_MULTICAST)."""
import argparse
import json
import os
import random
import statistics
import sys
import time

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
os.environ.setdefault("TORCH_SYMM_MEM_DISABLE_MULTICAST", "1")
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

LARGEST_ERROR = 1e-2


def ways_of(layer, group, ranks):
    """Each way by its name: a call that returns the rank's result. Operands are the rank's own."""
    kind, rows, columns, depth = (layer[name] for name in ("collective", "rows", "columns", "depth"))
    name = group.group_name
    gathers = kind == "all_gather_gemm"
    own_rows, own_columns, own_depth = (rows // ranks, columns // ranks, depth) if gathers else (rows, columns, depth // ranks)
    a = torch.randn(own_rows, own_depth, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(own_columns, own_depth, device="cuda", dtype=torch.bfloat16) / depth ** 0.5
    if gathers:
        whole = torch.empty(rows, depth, device="cuda", dtype=torch.bfloat16)

        def in_sequence():
            dist.all_gather_into_tensor(whole, a, group=group)
            return whole @ b.t()

        return {"sequential": in_sequence,
                "async": lambda: torch.ops.symm_mem.fused_all_gather_matmul(a, [b.t()], 0, name)[1][0]}
    if kind == "gemm_reduce_scatter":
        share = torch.empty(rows // ranks, columns, device="cuda", dtype=torch.bfloat16)

        def in_sequence():
            dist.reduce_scatter_tensor(share, a @ b.t(), group=group)
            return share

        return {"sequential": in_sequence,
                "async": lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b.t(), "sum", 0, name)}
    shared = symmetric_memory.empty(rows, columns, device="cuda", dtype=torch.bfloat16)
    symmetric_memory.rendezvous(shared, name)

    def in_sequence():
        sums = a @ b.t()
        dist.all_reduce(sums, group=group)
        return sums

    def one_shot():
        torch.mm(a, b.t(), out=shared)
        return torch.ops.symm_mem.one_shot_all_reduce(shared, "sum", name)

    def two_shot():
        torch.mm(a, b.t(), out=shared)
        torch.ops.symm_mem.two_shot_all_reduce_(shared, "sum", name)
        return shared

    ways = {"sequential": in_sequence, "two_shot": two_shot}
    if rows <= 512:
        ways["one_shot"] = one_shot
    return ways


def captured(way, calls):
    """Something that runs it so many times, and whether that is a graph."""
    for _ in range(2):
        way()
    torch.cuda.synchronize()
    dist.barrier()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(calls):
                way()
        graph.replay()
        torch.cuda.synchronize()
        return graph.replay, True
    except Exception as error:  # noqa: BLE001: whatever torch says, the way runs without a graph
        print(f"   not in a graph: {str(error).splitlines()[0]}", file=sys.stderr)
        torch.cuda.synchronize()

    def eager():
        for _ in range(calls):
            way()

    return eager, False


def sample(run, calls):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    together = torch.zeros(1, device="cuda")
    dist.all_reduce(together)  # the ranks begin together, on the GPUs
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    longest = torch.tensor([begin.elapsed_time(end) * 1e3 / calls], device="cuda")
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    return longest.item()


def measure(layer, group, ranks, samples, calls):
    torch.manual_seed(1 + dist.get_rank())
    ways = ways_of(layer, group, ranks)
    expected = ways["sequential"]().float().clone()
    rows, runs = {}, {}
    for name, way in ways.items():
        got = way().float()
        error = ((got - expected).norm() / expected.norm()).item()
        runs[name], in_graph = captured(way, calls)
        rows[name] = {"variant": name, "graph": in_graph, "error": round(error, 6), "right": error < LARGEST_ERROR}
    times = {name: [] for name in ways}
    order = random.Random(1)  # the same on all ranks
    for _ in range(samples):
        names = list(ways)
        order.shuffle(names)
        for name in names:
            sample(runs[name], calls)
            times[name].append(sample(runs[name], calls))
    for name, us in times.items():
        us.sort()
        rows[name].update(us=round(statistics.median(us), 2), us_p10=round(us[len(us) // 10], 2), us_p90=round(us[-1 - len(us) // 10], 2))
    return {"layer": layer["layer"], **{name: layer[name] for name in ("collective", "rows", "columns", "depth")},
            "variants": list(rows.values())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("record")
    parser.add_argument("-o", "--output")
    parser.add_argument("--seconds", type=float, default=60, help="no size is begun later")
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of layers")
    arguments = parser.parse_args()
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", rank)))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    group = dist.group.WORLD
    symmetric_memory.enable_symm_mem_for_group(group.group_name)
    with open(arguments.record) as file:
        layers = [layer for part in json.load(file).values() for layer in part["layers"]]
    if arguments.only:
        layers = [layer for layer in layers if any(part in layer["layer"] for part in arguments.only)]
    out, begin, right = [], time.monotonic(), True
    for layer in layers:
        late = torch.tensor([time.monotonic() - begin > arguments.seconds], device="cuda", dtype=torch.int32)
        dist.all_reduce(late)  # all ranks leave out the same sizes
        if late.item():
            break
        divided = layer["columns"] if layer["collective"] == "all_gather_gemm" else layer["depth"]
        scatters = layer["collective"] != "gemm_all_reduce"
        if divided % ranks or (scatters and layer["rows"] % ranks):
            continue
        calls = 3 if 2 * layer["rows"] * layer["columns"] * layer["depth"] / ranks / 650e6 > 1000 else 6
        one = measure(layer, group, ranks, samples=7, calls=calls)
        right = right and all(way["right"] for way in one["variants"])
        out.append(one)
        if rank == 0:
            print(layer["layer"] + ":", *(f'{way["variant"]} {way["us"]:.1f}{"" if way["graph"] else " (eager)"}'
                                         f'{"" if way["right"] else " WRONG"}' for way in one["variants"]), flush=True)
            if arguments.output:
                with open(arguments.output, "w") as file:
                    file.write(json.dumps({"torch": torch.__version__, "nccl": ".".join(map(str, torch.cuda.nccl.version())),
                                           "unit": "microseconds; the longer of the ranks, medians of 7 samples by turns",
                                           "left_out": len(layers) - len(out), "layers": out}, indent=1) + "\n")
    dist.destroy_process_group()
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
