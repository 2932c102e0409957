"""The profile of a model of images: how it cuts them into patches has a name and a floor."""

import json

import pytest

from tests.workers.stages.kinds import IMAGES, SLA, documents
from workers.harness.context import Context
from workers.stages import profile

pytestmark = pytest.mark.usefixtures("known_ceilings")


def test_patches_are_a_convolution_with_a_floor(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(IMAGES))
    found = profile.run(documents("profile", IMAGES), Context(tmp_path, tmp_path, seconds=20))
    patches, width = (IMAGES["image_size"] // IMAGES["patch_size"]) ** 2, 3 * IMAGES["patch_size"] ** 2
    (row,) = (each for each in found.rows if each.op == "convolution projection")
    assert row.flops == 2 * SLA["traffic"]["batch"] * patches * IMAGES["hidden_size"] * width
    assert row.floor_ms
    assert not [each.op for each in found.rows if "Conv2d" in each.op]
