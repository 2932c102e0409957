"""Published configurations that the megakernel promises to serve, those of the catalogue, and the sample model's."""

import json
from pathlib import Path

from kernels.model_files import catalogue

SAMPLE = Path(__file__).parents[3] / "samples" / "voice-agent" / "config.json"
LARGE = "llama-3.1-70b"
"""Larger than one GPU."""
CONFIGS = {
    **{name: catalogue.entry(name)[0] for name in catalogue.names() if not name.startswith("tiny-") and name != LARGE},
    "voice-agent": json.loads(SAMPLE.read_text()),
}
