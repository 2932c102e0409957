"""Published configurations that the megakernel promises to serve, those of the catalogue, and the sample model's."""

import json
from pathlib import Path

from kernels.model_files import catalogue

SAMPLE = Path(__file__).parents[3] / "samples" / "voice-agent" / "config.json"
CONFIGS = {
    **{name: catalogue.entry(name)[0] for name in catalogue.names() if not name.startswith("tiny-")},
    "voice-agent": json.loads(SAMPLE.read_text()),
}
