#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tessera::convolution_chain on a Hopper GPU: right for every filter, stride, type and batch, in streams and graphs, and
what it takes beside torch's conv2d (cuDNN). Needs torch 2.10 or later for CUDA 13.

    python/tests/gpu_torch_convolution.py [--library <folder>] [--json <file>] [--only <step>...]

--library: where libtessera_torch.so is, if not beside the package."""

import sys

from for_torch.gpu_steps import replayed, run_steps

ALLOWED_ERROR = {"float16": 1e-3, "bfloat16": 6e-3}  # of a result's norm, against fp32: two roundings and their products
# Images, pixels of an edge, channels: a residual block's two 3x3 layers.
SPEEDS = ((1, 56, 64), (1, 28, 128), (1, 14, 256), (1, 7, 512), (8, 14, 256))
CALLS = 10  # of a graph that is timed


def operands(b, images, edge, channels, kernels, dtype, seed=1):
    last = b.torch.channels_last
    x = b.x(images, channels[0], edge, edge, dtype=dtype, seed=seed).contiguous(memory_format=last)
    filters, biases = [], []
    for i, (of, out, k) in enumerate(zip(channels[:-1], channels[1:], kernels)):
        one = b.x(out, of, k, k, seed=seed + i + 1) * (2 / (of * k * k)) ** 0.5
        filters.append(one.to(dtype).contiguous(memory_format=last))
        biases.append(b.x(out, dtype=dtype, seed=seed + i + 50))
    return x, filters, biases


def exact(b, x, filters, biases, **how):
    return b.tt._convolution.by_torch(x.float(), [one.float() for one in filters], [one.float() for one in biases], **how)


def right(b, faults):
    """Filters, strides, types, batches, with and without bias, ReLU and residual, from poisoned outputs, in both operators."""
    torch, worst, cases = b.torch, {}, 0
    torch.backends.cudnn.allow_tf32 = False
    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype)[6:]
        for images, edge in ((1, 14), (3, 15), (8, 7)):
            for k1, k2, stride in ((3, 3, 1), (1, 3, 2), (5, 1, 1), (3, 1, 2)):
                for plain in (False, True):
                    x, filters, biases = operands(b, images, edge, (128, 256, 128), (k1, k2), dtype)
                    biases = [] if plain else biases
                    how = {
                        "strides": [stride, 1],
                        "paddings": [k1 // 2, k2 // 2],
                        "residuals": [-1, 0 if stride == 1 else -1],
                        "relus": [not plain, True],
                    }
                    wanted = exact(b, x, filters, biases, **how)
                    case = f"{name}, {images} of {edge}, {k1}x{k1} and {k2}x{k2}, stride {stride}, plain={plain}"
                    error = b.error(b.tt.convolution_chain(x, filters, biases, **how), wanted)
                    out = torch.full_like(wanted, float("nan"), dtype=dtype).contiguous(memory_format=torch.channels_last)
                    other = b.error(b.tt.convolution_chain(x, filters, biases, out=out, **how), wanted)
                    faults.expect(max(error, other) <= ALLOWED_ERROR[name], f"{case}: errors {error}, {other}")
                    worst[name] = max(worst.get(name, 0), error, other)
                    cases += 2
    torch.backends.cudnn.allow_tf32 = True
    return {"worst_error": worst, "cases": cases}


def streams_and_graphs(b, faults):
    """Behind a slow kernel in a side stream, in two streams at once, and captured and replayed: the same bits."""
    torch, tt = b.torch, b.tt
    how = {"residuals": [-1, -1, 1]}
    inputs = [operands(b, 2, 14, (256,) * 4, (3,) * 3, torch.float16, seed=10 * i) for i in range(3)]
    once = [tt.convolution_chain(*one, **how) for one in inputs]
    sides, x = [torch.cuda.Stream() for _ in range(2)], inputs[0][0].clone()
    torch.cuda.synchronize()
    with torch.cuda.stream(sides[0]):
        torch.cuda._sleep(20_000_000)
        x.copy_(inputs[1][0])
        y = tt.convolution_chain(x, *inputs[1][1:], **how)
    sides[0].synchronize()
    faults.expect(torch.equal(y, once[1]), "in a side stream behind a slow kernel")
    results = []
    for i in range(60):
        with torch.cuda.stream(sides[i % 2]):
            results.append((i % 3, tt.convolution_chain(*inputs[i % 3], **how)))
    torch.cuda.synchronize()
    wrong = sum(not torch.equal(y, once[which]) for which, y in results)
    faults.expect(not wrong, f"in two streams at once: {wrong} of 60 wrong")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = tt.convolution_chain(x, *inputs[0][1:], **how)
        z = tt.convolution_chain(y, *inputs[0][1:], **how)
    first = [tt.convolution_chain(one[0], *inputs[0][1:], **how) for one in inputs]
    second = [tt.convolution_chain(one, *inputs[0][1:], **how) for one in first]
    wrong = []
    for i in range(100):
        x.copy_(inputs[i % 3][0])
        y.fill_(float("nan"))
        z.fill_(float("nan"))
        graph.replay()
        if i % 5 == 0 and not torch.equal(tt.convolution_chain(*inputs[2], **how), once[2]):
            wrong.append(f"an eager call between replays ({i})")
        if not (torch.equal(y, first[i % 3]) and torch.equal(z, second[i % 3])):
            wrong.append(f"replay {i}")
    faults.expect(not wrong, f"{len(wrong)} wrong: {wrong[:3]}")
    return {"replays": 100, "calls": 60}


def speed(b, faults):
    """Microseconds of two 3x3 layers with biases, ReLU and residual in a graph of ten calls, beside conv2d."""
    torch, tt, found = b.torch, b.tt, {}
    torch.backends.cudnn.benchmark = True
    for images, edge, channels in SPEEDS:
        given = operands(b, images, edge, (channels,) * 3, (3, 3), torch.float16)
        how = {"strides": [1, 1], "paddings": [1, 1], "residuals": [-1, 0], "relus": [True, True]}
        ways = {
            "tessera": lambda given=given, how=how: tt.convolution_chain(*given, **how),
            "conv2d": lambda given=given, how=how: tt._convolution.by_torch(*given, **how),
        }
        replays = {}
        with torch.no_grad():
            for name, way in ways.items():
                way()
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    for _ in range(CALLS):
                        way()
                replays[name] = graph.replay
        name = f"{images} of {edge}x{edge}x{channels}"
        found[name] = {way: round(us, 2) for way, us in replayed(torch, replays, CALLS).items()}
        print(f"   {name}: {found[name]}", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(run_steps(__doc__, (right, streams_and_graphs, speed), on_cpu=(right,)))
