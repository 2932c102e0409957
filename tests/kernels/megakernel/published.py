"""Published configurations that the megakernel promises to serve, those of the catalogue, and the sample model's."""

import json
from pathlib import Path

from kernels.model_files import catalogue

SAMPLE = Path(__file__).parents[3] / "samples" / "voice-agent" / "config.json"
NOT_SERVED = ("llama-3.1-70b", "striped-hyena-150m")
"""Larger than one GPU; without attention in most layers."""
CONFIGS = {
    **{
        name: catalogue.entry(name)[0]
        for name in catalogue.names()
        if not name.startswith("tiny-") and name not in NOT_SERVED
    },
    "voice-agent": json.loads(SAMPLE.read_text()),
}
