# SPDX-License-Identifier: Apache-2.0
"""CUDA's driver by ctypes, and the kernels of a packed plan on it: for machines without Triton and torch."""

import ctypes
import os
import struct


class Config(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint),
    ]  # fmt: skip


class Attribute(ctypes.Structure):  # CUlaunchAttribute
    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_char * 4), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60)]


PROGRAMMATIC_STREAM_SERIALIZATION = 6
MAX_DYNAMIC_SHARED_SIZE_BYTES, PREFERRED_SHARED_MEMORY_CARVEOUT = 8, 9
POISON = 0xFF  # NaN in every element


class Gpu:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context, stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(stream), 1)  # does not wait for the default stream
        self.stream = stream

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(status, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'?').decode()}")

    def allocate(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def free(self, address):
        self.call("cuMemFree_v2", address)

    def fill(self, address, byte, size):
        self.call("cuMemsetD8Async", address, ctypes.c_ubyte(byte), ctypes.c_size_t(size), self.stream)

    def write(self, address, data):
        self.call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
        self.call("cuCtxSynchronize")  # the copy may be under way still, and this stream does not wait for it

    def read(self, address, size):
        data = ctypes.create_string_buffer(size)
        self.call("cuStreamSynchronize", self.stream)
        self.call("cuMemcpyDtoH_v2", data, address, ctypes.c_size_t(size))
        return data.raw

    def load(self, cubin, function, shared):
        module, found = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), cubin)
        self.call("cuModuleGetFunction", ctypes.byref(found), module, function.encode())
        self.call("cuFuncSetAttribute", found, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)
        self.call("cuFuncSetAttribute", found, PREFERRED_SHARED_MEMORY_CARVEOUT, 100)
        return found

    def launch(self, function, described, arguments):
        attribute = Attribute(PROGRAMMATIC_STREAM_SERIALIZATION, b"", 1, b"")
        config = Config(
            (described["blocks"], 1, 1), (described["threads"], 1, 1), described["shared"], self.stream.value,
            ctypes.addressof(attribute), 1 if described["early"] else 0,
        )  # fmt: skip
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))
        self.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)

    def captured(self, work):
        """A graph of what `work` launches."""
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", self.stream, 1)  # of this thread
        work()
        self.call("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        self.call("cuGraphDestroy", graph)
        return executable

    def replay(self, executable):
        self.call("cuGraphLaunch", executable, self.stream)

    def timed_us(self, work):
        begin, end, taken = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
        for event in (begin, end):
            self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuEventRecord", begin, self.stream)
        work()
        self.call("cuEventRecord", end, self.stream)
        self.call("cuEventSynchronize", end)
        newest = "cuEventElapsedTime_v2" if hasattr(self.library, "cuEventElapsedTime_v2") else "cuEventElapsedTime"
        self.call(newest, ctypes.byref(taken), begin, end)
        for event in (begin, end):
            self.call("cuEventDestroy_v2", event)
        return taken.value * 1e3


class Program:
    """A plan's kernels, loaded, with memory of their own."""

    def __init__(self, gpu, folder, described, buffers):
        self.gpu, self.described, self.buffers = gpu, described, buffers
        self.bytes = 4 * described["words"]
        self.memory = gpu.allocate(self.bytes)
        self.reset()
        self.functions = []
        for one in described["launches"]:
            with open(os.path.join(folder, one["cubin"]), "rb") as file:  # PTX ends with a zero
                self.functions.append(gpu.load(file.read() + b"\0", one["function"], one["shared"]))

    def reset(self):
        self.gpu.fill(self.memory, 0, self.bytes)

    def launch(self, other=False):
        for function, one in zip(self.functions, self.described["launches"]):
            arguments = []
            for name in one["arguments"]:
                name = "other_input" if other and name == "input" else name
                arguments.append(
                    ctypes.c_int32(name) if isinstance(name, int) else self.memory if name == "mem" else self.buffers[name]
                )
            # Triton's scratch memory, of which these kernels take none.
            arguments += [ctypes.c_uint64(0)] * (one["parameters"] - len(arguments))
            self.gpu.launch(function, one, arguments)

    def record(self):
        return struct.unpack("<8I", self.gpu.read(self.memory, 32))
