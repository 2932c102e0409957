"""Published configurations that the megakernel promises to serve, those of the catalogue, and the sample model's."""

import json
from pathlib import Path

from kernels.model_files import catalogue

SAMPLE = Path(__file__).parents[3] / "samples" / "voice-agent" / "config.json"
LARGE = "llama-3.1-70b"
"""Larger than one GPU."""
MIXTURES = ("olmoe-1b-7b", "qwen3-30b-a3b", "mixtral-8x7b")
"""Of experts, which it refuses."""
CONFIGS = {
    **{
        name: catalogue.entry(name)[0]
        for name in catalogue.names()
        if not name.startswith("tiny-") and name not in (LARGE, *MIXTURES)
    },
    "voice-agent": json.loads(SAMPLE.read_text()),
}
