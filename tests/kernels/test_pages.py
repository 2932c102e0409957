"""Every kernel has a page in docs/kernels with its picture, its figures and its limits."""

import re
from pathlib import Path

import pytest

from kernels import registry

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "kernels").glob("*.md"))
LAYERS = {"new-generation", "tiles"}
"""Pages of what is no variant, and has no figures of its own."""


@pytest.mark.parametrize("variant", [item.name for item in registry.variants() if not item.peer])
def test_every_variant_of_ours_is_on_the_page_that_it_names(variant):
    family = re.sub(r"_(fp8|nvfp4|int4)$", "", variant)
    page = ROOT / "docs" / "kernels" / f"{registry.variant(variant).page}.md"
    assert re.search(rf"\b{family}\b", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_a_picture_and_says_where_the_kernel_ends(page):
    text = page.read_text()
    assert text.startswith("# ")
    assert "\n```\n" in text
    assert "\n## Limits\n" in text
    assert page.stem in LAYERS or re.search(r"\n## Figures[\n,]", text)


@pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")],
    ids=lambda page: page.stem,
)
def test_files_that_a_page_links_to_or_names_are_there(page):
    text = page.read_text()
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
        assert (page.parent / target).exists(), target
    if page.stem == "add-a-stage":
        return  # it names the files that a reader would write
    names = r"`((?:kernels|workers|workbench|tests|benchmarks|docs)/[\w./-]+\.(?:py|cuh?|md|json))`"
    for path in re.findall(names, text):
        assert (ROOT / path).exists(), path
