"""The driver's structures, and how many clusters it is asked for."""

import ctypes

from kernels.cuda import driver


class Driver:
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


def test_it_asks_for_clusters_of_this_launch(monkeypatch):
    fake = Driver()
    monkeypatch.setattr(driver, "driver", lambda: fake)
    assert driver.clusters_at_once(99, 2, 384, 220_000) == 65
    assert fake.seen == (99, 2, 384, 220_000, 1)
    assert fake.attribute == (4, [2, 1, 1])


def test_its_structures_are_cudas():
    assert ctypes.sizeof(driver.Attribute) == 72
    assert driver.LaunchConfig.stream.offset == 32
