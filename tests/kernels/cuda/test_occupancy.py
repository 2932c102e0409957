"""How many clusters find room at once: the driver's answer where there is a GPU, the table elsewhere."""

import subprocess
import sys

import pytest
import torch

from kernels.cuda import driver, occupancy
from kernels.cuda.occupancy import H200_CLUSTERS, MAX_SHARED_BYTES, SHARED_HALF, max_active_clusters
from kernels.gemm import skinny_tiles, small_tiles
from kernels.ops import LinearCase

SPLIT_BY_4 = skinny_tiles.TileConfig("same", 16, 4096, 14336, splits=4)
SMALL = small_tiles.SmallTileConfig(LinearCase(m=128, n=4096, k=4096), groups=1, splits=4, tokens=1)


class Driver:
    """Stands in for libcuda on a GPU that runs `room` clusters of any size at once; `asked` counts the questions."""

    def __init__(self, room: int) -> None:
        self.room, self.asked = room, 0

    def cuOccupancyMaxActiveClusters(self, count, function, config):
        self.asked += 1
        count._obj.value = self.room
        return 0


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def on_gpu(monkeypatch):
    """Makes a GPU of compute capability 9.0 current, whose driver answers as told."""

    def give(room, capability=(9, 0), device=0):
        fake = Driver(room)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: device)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        monkeypatch.setattr(occupancy, "empty_kernel", lambda device: 99)
        monkeypatch.setattr(driver, "driver", lambda: fake)
        return fake

    occupancy._max_active_empty.cache_clear()
    yield give
    occupancy._max_active_empty.cache_clear()


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_the_table_answers():
    assert {size: max_active_clusters(size, 384, MAX_SHARED_BYTES) for size in H200_CLUSTERS} == H200_CLUSTERS


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(("size", "shared_bytes"), [(9, MAX_SHARED_BYTES), (2, SHARED_HALF), (2, 0)])
def test_the_table_refuses_what_it_does_not_hold(size, shared_bytes):
    with pytest.raises(ValueError, match=f"clusters of {size} blocks with {shared_bytes} bytes"):
        max_active_clusters(size, 384, shared_bytes)


def test_the_drivers_answer_wins_and_is_asked_once_per_device(on_gpu):
    fake = on_gpu(28)
    assert [max_active_clusters(4, 384, MAX_SHARED_BYTES) for _ in range(3)] == [28] * 3
    assert fake.asked == 1
    assert max_active_clusters(4, 320, MAX_SHARED_BYTES) == 28
    assert fake.asked == 2
    on_gpu(31, device=1)
    assert max_active_clusters(4, 384, MAX_SHARED_BYTES) == 31


def test_a_gpu_that_the_kernels_are_not_built_for_is_not_asked(on_gpu):
    assert on_gpu(28, capability=(8, 0)).asked == 0
    assert max_active_clusters(4, 384, MAX_SHARED_BYTES) == H200_CLUSTERS[4]


def test_both_products_divide_by_the_one_answer(on_gpu, monkeypatch):
    on_gpu(16)
    assert SPLIT_BY_4.max_active() == 16
    assert SPLIT_BY_4.groups(SPLIT_BY_4.max_active()) == 15
    assert small_tiles.SmallTileConfig(SMALL.case, 1, 4, 1).waves == 64 // 16
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert SPLIT_BY_4.groups(SPLIT_BY_4.max_active()) == 29
    assert small_tiles.SmallTileConfig(SMALL.case, 1, 4, 1).waves == 3


def test_the_choice_of_a_packed_layout_depends_on_no_gpu(on_gpu):
    before = skinny_tiles.configs("same", 16, 4096, 14336)
    on_gpu(7)
    skinny_tiles.configs.cache_clear()
    assert skinny_tiles.configs("same", 16, 4096, 14336) == before


def test_planning_does_not_import_torch():
    code = (
        "import sys; from kernels.gemm.small_tiles import configs; from kernels.ops import LinearCase;"
        "configs(LinearCase(m=64, n=64, k=64)); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.gpu
@pytest.mark.parametrize("size", H200_CLUSTERS)
def test_a_gpu_answers(size):
    """The SMs bound the clusters; the kernels' registers and static shared memory are not asked for here."""
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    assert 0.75 * sms // size <= max_active_clusters(size, 640, MAX_SHARED_BYTES) <= sms // size


@pytest.mark.gpu
def test_a_gpu_has_the_shared_memory_of_its_architecture():
    assert torch.cuda.get_device_properties(0).shared_memory_per_block_optin == MAX_SHARED_BYTES
