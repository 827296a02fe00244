# SPDX-License-Identifier: Apache-2.0
"""Triton with a driver that only writes down what it is asked, and tensors that are names: launches without a GPU."""

import contextlib
import itertools
import types
from unittest import mock


class Type:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return f"torch.{self.name}"

    def __eq__(self, other):
        return isinstance(other, Type) and self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Tensor:
    addresses = itertools.count(1 << 20, 1 << 12)

    def __init__(self, type_name):
        self.dtype, self.address = Type(type_name), next(self.addresses)

    def data_ptr(self):
        return self.address


class Memory(Tensor):
    """The chain's memory."""

    def __init__(self, words):
        super().__init__("int32")
        self.words = list(words)

    def __getitem__(self, part):
        return types.SimpleNamespace(tolist=lambda: self.words[part])

    def copy_(self, other):
        self.words = list(other.words)


class Driver:
    """`log` gets (kernel's name, grid, whether launched early) for each launch, and ("load", name) for each load."""

    def __init__(self, log):
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget("cuda", 90, 32)
        self.log = log
        self.utils = types.SimpleNamespace(
            get_device_properties=lambda device: {"max_shared_mem": 232448, "multiprocessor_count": 132},
            load_binary=self.load_binary,
        )

    def load_binary(self, name, *_):
        self.log.append(("load", name))
        return (1, 2, 168, 0, 1024)

    def launcher_cls(self, source, metadata):
        def launch(x, y, z, stream, function, *rest):
            self.log.append((metadata.name, (x, y, z), metadata.launch_pdl))

        return launch

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 0

    def get_current_target(self):
        return self.target

    def is_active(self):
        return True


@contextlib.contextmanager
def triton_without_gpu():
    """Gives the log."""
    from tessera.triton import chain
    from triton.runtime.driver import driver

    log = []

    def memory(plan, device):
        words = [0] * (plan.words - len(plan.tables())) + plan.tables()
        return Memory(words), Memory(words)

    before = driver.active if hasattr(driver, "_active") and driver._active else None
    driver.set_active(Driver(log))
    try:
        with (
            mock.patch.object(chain, "_memory", memory),
            mock.patch.object(chain, "_divide_memory_alike", lambda function: log.append(("carveout", function))),
        ):
            yield log
    finally:
        if before is not None:
            driver.set_active(before)
