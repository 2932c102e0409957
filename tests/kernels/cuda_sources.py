"""Which headers a CUDA source is made of."""

import re
from pathlib import Path


def own_headers(source: Path) -> list[Path]:
    """The headers beside the source that it includes, or that those include; not those of the tile layer."""
    result: list[Path] = []
    waiting = [source]
    while waiting:
        for name in re.findall(r'#include "(.*?)"', waiting.pop().read_text()):
            header = source.parent / name
            if header.exists() and header not in result:
                result.append(header)
                waiting.append(header)
    return sorted(result)
