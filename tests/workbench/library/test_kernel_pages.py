"""Pages about the kernels and the method: every variant and every word of a result is explained, and no HTML acts."""

import re
from functools import cache
from typing import Any

import pytest

from kernels import registry
from workbench.library import documents, views
from workbench.pages.templatetags.page import TERMS, term, variant
from workbench.results.page_context import DEFINED
from workers.charts import CHARTS
from workers.charts.economics import COSTS
from workers.documents.workload import TITLES


def test_every_page_is_shown_and_its_links_lead_somewhere(browser, engineer):
    client = browser(engineer)
    open_page = cache(client.get)
    for name in documents.names():
        page = open_page(f"/kernels/{name}/").content.decode()
        article = page[page.index("<article") : page.index("</article>")]
        links = [item for item in re.findall(r'href="([^"]*)"', article) if not item.startswith("https://")]
        assert ".md" not in "".join(links)
        for target in links:
            address, _, anchor = target.partition("#")
            opened = open_page(address or f"/kernels/{name}/")
            assert opened.status_code == 200, target
            assert f'id="{anchor}"' in opened.content.decode() or not anchor, target


def test_the_list_names_every_variant_and_a_kernel_is_shown_with_its_source(browser, engineer):
    page = browser(engineer).get("/kernels/").content.decode()
    headings = re.findall(r'<h2 id="op-\d+">(.*?)</h2>', page)
    assert {"Attention", "LM head", "RMSNorm", "RoPE", "Step attention", "Whole models"} <= set(headings)
    assert all(f'<tr id="{item.name}">' in page for item in registry.variants())
    assert 'href="/kernels/flash-hopper/"' in variant("flash_hopper")
    assert 'href="/kernels/#sdpa_cudnn"' in variant("sdpa_cudnn")
    assert variant("of<another>version") == "of&lt;another&gt;version"
    page = browser(engineer).get("/kernels/small-gemm/").content.decode()
    files = re.findall(r"<summary>(\S+)", page)
    assert files[0] == "kernels/gemm/small.cu"
    assert {"kernels/gemm/small.py", "kernels/gemm/small_call.py"} < set(files)
    assert views.of_page("megakernel")[0].path == "kernels/megakernel/cuda/decode.cu"
    assert "__global__ void" in page
    assert "#include &quot;" in page
    with_variants = {item.page for item in registry.variants() if item.page}
    assert all(views.of_page(name) for name in with_variants)
    assert views.of_page("tiles") == []


@pytest.mark.parametrize("name", ["nothing", "..", "../security", "%2e%2e%2fsecurity", "tiles.md"])
def test_other_files_are_no_pages(name, browser, engineer):
    assert browser(engineer).get(f"/kernels/{name}/").status_code == 404


def test_a_document_puts_neither_scripts_nor_comments_into_the_page():
    html = documents.rendered(
        "<script>alert(1)</script> `<b>` [a](javascript:alert(1)) [b](//evil.example/x) [c](../../README.md)\n\n"
        "| a<img src=x> |\n|---|\n| [d](tiles.md#x) |\n"
    )
    assert re.findall(r"<[a-z]+[^>]*>", html) == [
        *("<p>", "<code>", '<div class="table-wrap" tabindex="0">', '<table class="table">'),
        *("<thead>", "<tr>", "<th>", "<tbody>", "<tr>", "<td>", '<a href="/kernels/tiles/#x">'),
    ]
    assert "&lt;script&gt;" in html
    html = documents.rendered("<!-- table: step -->\n| a |\n| --- |\n| 1 |\n<!-- end -->\n\n5 ms<!-- decode: ms -->.")
    assert "&lt;" not in html
    assert "<td>1</td>" in html
    assert "<p>5 ms.</p>" in html


def defined(client: Any) -> set[str]:
    page = client.get("/method/").content.decode()
    return set(re.findall(r' id="([^"]+)"', page[page.index("<article") : page.index("</article>")]))


def test_every_figure_of_a_result_leads_to_its_line_and_every_term_explains_itself(browser, engineer, done):
    client = browser(engineer)
    page = client.get(f"/runs/{done.id}/result/").content.decode()
    anchors = set(re.findall(r'href="/method/#([^"]*)"', page))
    assert anchors <= defined(client), anchors - defined(client)
    assert {"ttf-n", "tpot", "verdict", "speedup", "noise-floor", "roofline", "m-tokens", "output-tokens"} <= anchors
    labels = re.findall(r'<span class="stat-label">(.*?)</span>', page)
    assert labels
    assert [label for label in labels if "/method/#" not in label] == []
    charts = re.findall(r'<figure class="chart">.*?</figure>', page, re.DOTALL)
    assert len(charts) > 3
    assert [chart for chart in charts if "/method/#" not in chart] == []
    quality = page[page.index('<h3 id="quality"') :]
    assert re.findall(r'<th scope="row">(?!<a class="term")', quality[: quality.index("</table>")]) == []
    terms = set(re.findall(r'class="term" href="/method/#([^"]*)"', page))
    meanings = client.get("/method/meanings/").json()
    assert {item: meanings.get(item, "") for item in terms if len(meanings.get(item, "")) < 20} == {}
    assert meanings["ttft"].startswith("TTFT: the first token's arrival minus")
    assert "TTF-N" not in meanings["ttft"]
    assert not [words for words in meanings.values() if "<" in words and ">" in words]


def test_every_chart_metric_and_unit_cost_leads_to_its_line_and_ids_are_unique(browser, engineer):
    client = browser(engineer)
    page = client.get("/method/").content.decode()
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    article = page[page.index("<article") : page.index("</article>")]
    inside = re.findall(r'href="#([^"]*)"', article)
    assert inside
    assert set(inside) <= set(ids)
    contents = re.findall(r'href="#([^"]*)"', page[page.index('aria-label="Contents"') : page.index("<article")])
    assert set(re.findall(r'<h[23] id="([^"]+)"', article)) | {"verdict", "speedup", "noise-floor"} <= set(contents)
    assert set(contents) <= set(ids)
    assert ".md" not in "".join(re.findall(r'href="(/[^"]*)"', article))
    lines = defined(browser(engineer))
    assert {chart.key for chart in CHARTS} <= set(DEFINED)
    assert set(DEFINED.values()) | set(TERMS.values()) <= lines
    assert {TERMS.get(value, value) for value in (*TITLES, "ttf_n")} | (COSTS.keys() - {"counted"}) <= lines
    assert term("TTF64 p50", "ttf_n") == '<a class="term" href="/method/#ttf-n">TTF64 p50</a>'
    html = documents.rendered("- As *speedup* says.\n- **Speedup**: b over a, see *drift*.\n\n## Drift\n")
    assert '<strong id="speedup">Speedup</strong>' in html
    assert '<h2 id="drift">Drift</h2>' in html
    assert html.count(" id=") == 2
