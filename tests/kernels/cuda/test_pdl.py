"""Programmatic dependent launch: what the driver is handed."""

import ctypes

import numpy as np
import pytest

from kernels.cuda import pdl


def bytes_of(value):
    held = pdl.packed_argument(value)
    return ctypes.string_at(ctypes.addressof(held), ctypes.sizeof(held))


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (7, (7).to_bytes(8, "little")),
        ((1 << 63) + 5, ((1 << 63) + 5).to_bytes(8, "little")),
        (-1, b"\xff" * 8),
        (True, b"\x01"),
        (1.5, np.float64(1.5).tobytes()),
        (np.float64(2.5), np.float64(2.5).tobytes()),
        (np.float32(0.25), np.float32(0.25).tobytes()),
        (np.array((1, 2), dtype="i4,i8")[()], np.array((1, 2), dtype="i4,i8").tobytes()),
    ],
)
def test_an_argument_keeps_its_bytes(value, content):
    assert bytes_of(value) == content


def test_it_refuses_an_argument_that_has_no_bytes():
    with pytest.raises(TypeError, match="str"):
        pdl.packed_argument("x")


class Driver:
    """Stands in for libcuda: notes the launch, answers with `code`."""

    def __init__(self, code):
        self.code = code

    def cuLaunchKernelEx(self, config, function, arguments, extra):
        seen = config._obj
        self.seen = (list(seen.grid), list(seen.block), seen.shared_bytes, seen.stream, seen.attribute_count)
        self.attribute = (seen.attributes[0].id, seen.attributes[0].value[0])
        self.arguments = [ctypes.cast(each, ctypes.POINTER(ctypes.c_int64))[0] for each in arguments]
        return self.code


def test_it_hands_over_grid_block_stream_and_the_permission(monkeypatch):
    driver = Driver(0)
    monkeypatch.setattr(pdl, "driver", lambda: driver)
    pdl.launch_pdl_kernel(99, (132,), 256, (5, 6), 1024, 77)
    assert driver.seen == ([132, 1, 1], [256, 1, 1], 1024, 77, 1)
    assert driver.attribute == (6, 1)
    assert driver.arguments == [5, 6]


def test_it_reports_cudas_error(monkeypatch):
    monkeypatch.setattr(pdl, "driver", lambda: Driver(700))
    with pytest.raises(RuntimeError, match="700"):
        pdl.launch_pdl_kernel(99, (1,), 32, (), 0, 0)
