"""Pages about the kernels: every variant is explained, and documents become HTML that does nothing."""

import re
from typing import Any

import pytest

from kernels import registry
from workbench.accounts.models import User
from workbench.library import documents, sources
from workbench.pages.templatetags.page import variant


@pytest.mark.parametrize("name", documents.names())
def test_every_page_is_shown_and_its_links_lead_somewhere(name: str, browser: Any, engineer: User) -> None:
    client = browser(engineer)
    page = client.get(f"/kernels/{name}/").content.decode()
    article = page[page.index("<article") : page.index("</article>")]
    links = [each for each in re.findall(r'href="([^"]*)"', article) if not each.startswith("https://")]
    for target in links:
        address, _, anchor = target.partition("#")
        found = client.get(address) if address else None
        assert found is None or found.status_code == 200, target
        assert f'id="{anchor}"' in (found.content.decode() if found else page) or not anchor, target
    assert ".md" not in "".join(links)


def test_the_list_names_every_variant(browser: Any, engineer: User) -> None:
    page = browser(engineer).get("/kernels/").content.decode()
    headings = re.findall(r'<h2 id="op-\d+">(.*?)</h2>', page)
    assert {"Attention", "LM head", "RMSNorm", "RoPE", "Step attention", "Whole models"} <= set(headings)
    assert all(f'<tr id="{each.name}">' in page for each in registry.variants())


def test_a_kernel_is_shown_with_its_source(browser: Any, engineer: User) -> None:
    page = browser(engineer).get("/kernels/small-gemm/").content.decode()
    files = re.findall(r"<summary>(\S+)", page)
    assert files[0] == "kernels/gemm/small.cu"
    assert {"kernels/gemm/small.py", "kernels/gemm/small_call.py"} < set(files)
    assert sources.of_page("megakernel")[0].path == "kernels/megakernel/cuda/decode.cu"
    assert "__global__ void" in page
    assert "#include &quot;" in page
    with_variants = {each.page for each in registry.variants() if each.page}
    assert all(sources.of_page(name) for name in with_variants)
    assert sources.of_page("tiles") == []


@pytest.mark.parametrize("name", ["nothing", "..", "../security", "%2e%2e%2fsecurity", "tiles.md"])
def test_other_files_are_no_pages(name: str, browser: Any, engineer: User) -> None:
    assert browser(engineer).get(f"/kernels/{name}/").status_code == 404


def test_a_document_cannot_put_scripts_into_the_page() -> None:
    html = documents.rendered(
        "<script>alert(1)</script> `<b>` [a](javascript:alert(1)) [b](//evil.example/x) [c](../../README.md)\n\n"
        "| a<img src=x> |\n|---|\n| [d](tiles.md#x) |\n"
    )
    assert re.findall(r"<[a-z]+[^>]*>", html) == [
        "<p>",
        "<code>",
        '<div class="table-wrap" tabindex="0">',
        '<table class="table">',
        *("<thead>", "<tr>", "<th>", "<tbody>", "<tr>", "<td>"),
        '<a href="/kernels/tiles/#x">',
    ]
    assert "&lt;script&gt;" in html


def test_a_comment_that_says_where_a_figure_comes_from_is_not_shown() -> None:
    html = documents.rendered("<!-- table: step -->\n| a |\n| --- |\n| 1 |\n<!-- end -->\n\n5 ms<!-- decode: ms -->.")
    assert "&lt;" not in html
    assert "<td>1</td>" in html
    assert "<p>5 ms.</p>" in html


def test_a_variant_is_linked_to_what_says_what_it_is() -> None:
    assert 'href="/kernels/flash-hopper/"' in variant("flash_hopper")
    assert 'href="/kernels/#sdpa_cudnn"' in variant("sdpa_cudnn")
    assert variant("of<another>version") == "of&lt;another&gt;version"
