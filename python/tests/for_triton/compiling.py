# SPDX-License-Identifier: Apache-2.0
"""The kernels of kernels.py, compiled for sm_90 without a GPU. Needs Triton."""

import kernels
import tessera.triton

ELEMENTS = "*fp16"
OPTIONS = {"num_warps": 4, "num_stages": 3}


def gemm(module, where, stage="down", **options):
    """The GEMM that waits there; its tiles are 128 x 128 x 64, the producer's 128 x 128."""
    wait, wait_tile = (module.wait_down_a, module.wait_tile_down_a) if stage == "down" else (kernels.no_wait, kernels.no_wait)
    return tessera.triton.compile(
        kernels.gemm,
        dict(
            a=ELEMENTS, b=ELEMENTS, c=ELEMENTS, mem="*i32", K="i32:16", start=getattr(module, f"start_{stage}"), wait=wait,
            wait_tile=wait_tile, post=getattr(module, f"post_{stage}"), WHERE=getattr(kernels, where).value, N=4096, BM=128, BN=128,
            BK=64, TILE=128,
        ),
        **{**OPTIONS, **options},
    )  # fmt: skip


def gemm_tma(module, inside, stage="down"):
    waits = (module.wait_down_a, module.wait_tile_down_a) if stage == "down" else (kernels.no_wait, kernels.no_wait)
    return tessera.triton.compile(
        kernels.gemm_tma,
        dict(
            a=ELEMENTS, b=ELEMENTS, c=ELEMENTS, mem="*i32", K="i32:16", start=getattr(module, f"start_{stage}"), wait=waits[0],
            wait_tile=waits[1], post=getattr(module, f"post_{stage}"), INSIDE=inside, M=1152, N=4096, BM=128, BN=128, BK=64,
        ),
        **OPTIONS,
    )  # fmt: skip


def gemm_host_tma(module, inside):
    return tessera.triton.compile(
        kernels.gemm_host_tma,
        dict(
            a="tensordesc<fp16[128,64]>", b="tensordesc<fp16[64,128]>", c="tensordesc<fp16[128,128]>", mem="*i32", K="i32:16",
            start=module.start_down, wait=module.wait_down_a, post=module.post_down, INSIDE=inside, BM=128, BN=128, BK=64,
        ),
        **OPTIONS,
    )  # fmt: skip


def small(kernel, module, stage, **constants):
    """A kernel of a few lines."""
    return tessera.triton.compile(
        kernel,
        {
            "a": ELEMENTS, "c": ELEMENTS, "mem": "*i32", "start": getattr(module, f"start_{stage}"), "N": 128, "TIMES": "i32",
            "wait": module.wait_down_a if stage == "down" else kernels.no_wait, "post": getattr(module, f"post_{stage}"), **constants,
        },
        **OPTIONS,
    )  # fmt: skip


def touch(module, stage):
    """A kernel that calls all functions of a stage of two dimensions."""
    waits = tuple(
        getattr(module, f"wait_{stage.name}_{operand}") for operand in dict.fromkeys(wait.operand for wait in stage.waits)
    )
    return tessera.triton.compile(
        kernels.touch,
        dict(p=ELEMENTS, q=ELEMENTS, mem="*i32", start=getattr(module, f"start_{stage.name}"), waits=waits,
             post=getattr(module, f"post_{stage.name}"), RANK=2),
        **OPTIONS,
    )  # fmt: skip


def gemm_of(module, where, elements, columns):
    """The GEMM of a stage "down", of another type and size."""
    return tessera.triton.compile(
        kernels.gemm,
        dict(
            a=elements, b=elements, c=elements, mem="*i32", K="i32:16", start=module.start_down, wait=module.wait_down_a,
            wait_tile=module.wait_tile_down_a, post=module.post_down, WHERE=getattr(kernels, where).value, N=columns, BM=128, BN=128,
            BK=64, TILE=128,
        ),
        **OPTIONS,
    )  # fmt: skip
