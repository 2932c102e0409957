"""A packed launch: what the driver is handed, and what it says when that fails."""

import ctypes
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from kernels.cuda import driver, launch, nvrtc
from kernels.cuda.launch import Launch, current_stream

KERNEL = SimpleNamespace(kernel=SimpleNamespace(ptr=99))
SOURCE = 'extern "C" __global__ void fill(int* y, long long value) { y[threadIdx.x] = value; }'


def bytes_of(value):
    held = launch.pack_argument(value)
    return ctypes.string_at(ctypes.addressof(held), ctypes.sizeof(held))


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (7, (7).to_bytes(8, "little")), ((1 << 63) + 5, ((1 << 63) + 5).to_bytes(8, "little")), (-1, b"\xff" * 8),
        (True, b"\x01"), (1.5, np.float64(1.5).tobytes()), (np.float64(2.5), np.float64(2.5).tobytes()),
        (np.float32(0.25), np.float32(0.25).tobytes()),
        (np.array((1, 2), dtype="i4,i8")[()], np.array((1, 2), dtype="i4,i8").tobytes()),
    ],
)  # fmt: skip
def test_an_argument_keeps_its_bytes(value, content):
    assert bytes_of(value) == content


class Driver:
    """Stands in for libcuda: notes each launch, answers with one of `codes` after the other."""

    def __init__(self, *codes):
        self.codes, self.seen = list(codes), []

    def cuLaunchKernelEx(self, config, function, arguments, extra):
        seen = config._obj
        attributes = [(seen.attributes[at].id, seen.attributes[at].value[0]) for at in range(seen.attribute_count)]
        values = [ctypes.cast(item, ctypes.POINTER(ctypes.c_int64))[0] for item in arguments._obj]
        self.seen.append(
            (repr(function), list(seen.grid), list(seen.block), seen.shared_bytes, seen.stream, attributes, values)
        )
        return self.codes.pop(0)


@pytest.mark.parametrize(("pdl", "attributes"), [(True, [(6, 1)]), (False, [])])
def test_it_hands_over_grid_block_stream_arguments_and_the_permission(pdl, attributes, monkeypatch):
    driver = Driver(0, 0)
    monkeypatch.setattr(launch, "driver", lambda: driver)
    packed = Launch(KERNEL, (132,), 256, (5, 6), 77, 1024, pdl)
    packed()
    packed()
    assert driver.seen == [("<cparam 'P' (0x63)>", [132, 1, 1], [256, 1, 1], 1024, 77, attributes, [5, 6])] * 2


def test_cudas_error_is_reported_but_for_the_context_of_a_threads_first_launch(monkeypatch):
    monkeypatch.setattr(launch, "driver", lambda: Driver(700))
    with pytest.raises(RuntimeError, match="700"):
        Launch(KERNEL, (1,), 32, (), 0)()
    driver, made = Driver(201, 0), []
    monkeypatch.setattr(launch, "driver", lambda: driver)
    monkeypatch.setattr(launch, "_make_context_current", lambda: made.append(1))
    Launch(KERNEL, (1,), 32, (), 0)()
    assert len(driver.seen) == 2
    assert made == [1]


@pytest.mark.gpu
def test_another_thread_may_be_the_first_to_call_it(tmp_path: Path):
    source = tmp_path / "fill.cu"
    source.write_text(SOURCE)
    y = torch.zeros(32, dtype=torch.int32, device="cuda")
    packed = Launch(nvrtc.load(nvrtc.Build(source), "fill"), (1,), 32, (y.data_ptr(), 3), current_stream()[1])
    thread = threading.Thread(target=packed)
    thread.start()
    thread.join()
    assert y.tolist() == [3] * 32


class ClusterDriver:
    """Stands in for libcuda: holds 65 clusters, or fails with `code`."""

    def __init__(self, code=0):
        self.code = code

    def cuOccupancyMaxActiveClusters(self, count, function, config):
        seen = config._obj
        attribute = seen.attributes[0]
        self.seen = (function.value, seen.grid[0], seen.block[0], seen.shared_bytes, seen.attribute_count)
        self.attribute = (attribute.id, list(attribute.value)[:3])
        count._obj.value = 65
        return self.code


def test_it_asks_for_clusters_of_this_launch_by_cudas_structures(monkeypatch):
    fake = ClusterDriver()
    monkeypatch.setattr(driver, "driver", lambda: fake)
    assert driver.max_active_clusters(99, 2, 384, 220_000) == 65
    assert fake.seen == (99, 2, 384, 220_000, 1)
    assert fake.attribute == (4, [2, 1, 1])
    assert ctypes.sizeof(driver.Attribute) == 72
    assert driver.LaunchConfig.stream.offset == 32
