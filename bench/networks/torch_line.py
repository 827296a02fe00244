# SPDX-License-Identifier: Apache-2.0
"""The convolutions of ResNet-38 and VGG-19, and chains of two and four, in torch: as it is (cuDNN by its own benchmark),
and compiled. fp16, NHWC, one CUDA graph, sets of filters and inputs in turns so that filters come from memory; each
compiled result is compared with the other.

    python3 torch_line.py <out.json> [--seconds N] [<case>x<images>...]      case: resnet-38, vgg-19, 14x2, 7x4, ..."""
import argparse
import json
import math
import statistics
import subprocess
import time

import torch
import torch.nn.functional as F

ROTATED = 120e6  # bytes of all sets: more than the L2 holds
SAMPLES = 30


def chain_of(case):
    """Edge and channels of the input, and layers: channels out, stride, which activation is added (-1: none), whether
    2x2 max pooling follows."""
    if case == "resnet-38":
        layers = []
        for stage, pairs in enumerate((3, 4, 6, 3)):
            for i in range(2 * pairs):
                number = len(layers)
                adds = i % 2 == 1 and (stage == 0 or i > 1)
                layers.append((64 << stage, 2 if stage > 0 and i == 0 else 1, number - 1 if adds else -1, False))
        return 56, 64, layers
    if case == "vgg-19":
        layers = []
        for stage, count in enumerate((2, 2, 4, 4)):
            for i in range(count):
                layers.append((64 << stage, 1, -1, i + 1 == count and stage < 3))
        return 56, 64, layers
    edge, count = (int(one) for one in case.split("x"))
    channels = 64 * 56 // edge
    return edge, channels, [(channels, 1, -1, False)] * count


def compute(x, weights, layers):
    before = [x]
    for (filters, bias), (_, stride, adds, pools) in zip(weights, layers):
        y = F.conv2d(before[-1], filters, bias, stride=stride, padding=1)
        if adds >= 0:
            y = y + before[adds]
        y = F.relu(y)
        if pools:
            y = F.max_pool2d(y, 2)
        before.append(y)
    return before[-1]


def make_set(images, edge, channels, layers, seed):
    random = torch.Generator(device="cuda").manual_seed(seed)

    def normal(*size):
        return torch.randn(*size, generator=random, device="cuda", dtype=torch.float32)

    x = normal(images, channels, edge, edge).half().contiguous(memory_format=torch.channels_last)
    weights = []
    depth = channels
    for out, *_ in layers:
        filters = normal(out, depth, 3, 3) * math.sqrt(2 / (9 * depth))
        weights.append((filters.half().contiguous(memory_format=torch.channels_last), (normal(out) * 0.3).half()))
        depth = out
    return x, weights


def bytes_of(one):
    x, weights = one
    return 2 * (x.numel() + sum(a.numel() + b.numel() for a, b in weights))


def graph_of(function, sets, layers):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for x, weights in sets:
            function(x, weights, layers)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = [function(x, weights, layers) for x, weights in sets]
    return graph, results


def once(graph, count):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3 / count


def measure(case, images, mode):
    edge, channels, layers = chain_of(case)
    sets = [make_set(images, edge, channels, layers, 1)]
    count = max(2, min(16, math.ceil(ROTATED / bytes_of(sets[0]))))
    sets += [make_set(images, edge, channels, layers, seed) for seed in range(2, count + 1)]
    begin = time.monotonic()
    compiled = torch.compile(compute, dynamic=False, fullgraph=True, mode=mode)
    rows = {"torch": compute, "torch.compile": compiled}
    graphs = {name: graph_of(function, sets, layers) for name, function in rows.items()}
    made_s = time.monotonic() - begin
    for graph, _ in graphs.values():
        graph.replay()
    torch.cuda.synchronize()
    a, b = (results[0].float() for _, results in graphs.values())
    off = ((a - b).square().sum() / a.square().sum()).sqrt().item()
    samples = {name: [] for name in rows}
    for sample in range(SAMPLES + 3):
        for name, (graph, _) in graphs.items():
            us = once(graph, count)
            if sample >= 3:
                samples[name].append(us)
    us = {name: round(statistics.median(all_of), 2) for name, all_of in samples.items()}
    print(f"{case} with {images} images: {us}, off {off:.1e}, made in {made_s:.1f} s", flush=True)
    return {"case": case, "images": images, "sets": count, "us": us, "mode": mode or "default",
            "off": float(f"{off:.2e}"), "made_s": round(made_s, 1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--seconds", type=float, default=1e9, help="no case begins after it")
    parser.add_argument("--mode", default=None, help="of torch.compile: max-autotune-no-cudagraphs")
    parser.add_argument("cases", nargs="*")
    given = parser.parse_intermixed_args()
    cases = given.cases or [f"{case}x{images}" for images in (1, 4, 8, 16, 32)
                            for case in ("resnet-38", "vgg-19", "56x2", "28x2", "14x2", "7x2", "14x4", "7x4")]
    torch.backends.cudnn.benchmark = True
    machine = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                             capture_output=True, text=True, check=False).stdout.strip().split("\n")[0]
    record = {"about": {"machine": machine, "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(),
                        "unit": "microseconds, medians; fp16 NHWC, bias and ReLU; filters and inputs rotate through "
                                "sets; one CUDA graph"},
              "cases": []}
    begin = time.monotonic()
    torch.set_grad_enabled(False)
    for one in cases:
        if time.monotonic() - begin > given.seconds:
            break
        case, images = one.rsplit("x", 1)
        torch._dynamo.reset()
        record["cases"].append(measure(case, int(images), given.mode))
        # After each: what was measured is not lost if something stops the rest.
        with open(given.out, "w", encoding="utf-8") as file:
            file.write(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
