"""The method as a page: every word that a result links to is defined there."""

import re
from typing import Any

from workbench.accounts.models import User
from workbench.library import documents
from workbench.pages.templatetags.page import TERMS, term
from workbench.results.page_context import DEFINED
from workbench.runs.models import Run
from workers.charts import CHARTS
from workers.charts.economics import COSTS
from workers.documents.workload import TITLES


def defined(client: Any) -> set[str]:
    page = client.get("/method/").content.decode()
    return set(re.findall(r' id="([^"]+)"', page[page.index("<article") : page.index("</article>")]))


def test_every_figure_of_a_result_leads_to_its_line(browser: Any, engineer: User, done: Run) -> None:
    client = browser(engineer)
    page = client.get(f"/runs/{done.id}/result/").content.decode()
    asked = set(re.findall(r'href="/method/#([^"]*)"', page))
    assert asked <= defined(client), asked - defined(client)
    assert {"ttf-n", "tpot", "verdict", "speedup", "noise-floor", "roofline", "m-tokens", "output-tokens"} <= asked
    labels = re.findall(r'<span class="stat-label">(.*?)</span>', page)
    assert labels
    assert [each for each in labels if "/method/#" not in each] == []
    charts = re.findall(r'<figure class="chart">.*?</figure>', page, re.DOTALL)
    assert len(charts) > 3
    assert [each for each in charts if "/method/#" not in each] == []
    quality = page[page.index('<h3 id="quality"') :]
    assert re.findall(r'<th scope="row">(?!<a class="term")', quality[: quality.index("</table>")]) == []


def test_every_chart_has_its_line(browser: Any, engineer: User) -> None:
    assert {each.key for each in CHARTS} <= set(DEFINED)
    assert set(DEFINED.values()) | set(TERMS.values()) <= defined(browser(engineer))


def test_every_metric_and_unit_cost_has_its_line(browser: Any, engineer: User) -> None:
    names = {TERMS.get(each, each) for each in (*TITLES, "ttf_n")}
    assert names | (COSTS.keys() - {"counted"}) <= defined(browser(engineer))


def test_a_word_leads_to_where_it_is_defined_and_not_to_an_earlier_mention() -> None:
    html = documents.rendered("- As *speedup* says.\n- **Speedup**: b over a, see *drift*.\n\n## Drift\n")
    assert '<strong id="speedup">Speedup</strong>' in html
    assert '<h2 id="drift">Drift</h2>' in html
    assert html.count(" id=") == 2


def test_a_metric_is_named_by_its_own_words() -> None:
    assert term("TTF64 p50", "ttf_n") == '<a class="term" href="/method/#ttf-n">TTF64 p50</a>'


def test_ids_are_unique_and_links_lead_somewhere(browser: Any, engineer: User) -> None:
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


def test_every_term_of_a_result_explains_itself(browser: Any, engineer: User, done: Run) -> None:
    client = browser(engineer)
    page = client.get(f"/runs/{done.id}/result/").content.decode()
    terms = set(re.findall(r'class="term" href="/method/#([^"]*)"', page))
    meanings = client.get("/method/meanings/").json()
    assert {each: meanings.get(each, "") for each in terms if len(meanings.get(each, "")) < 20} == {}
    assert meanings["ttft"].startswith("TTFT: the first token's arrival minus the intended send time")
    assert "TTF-N" not in meanings["ttft"]
    assert not [words for words in meanings.values() if "<" in words and ">" in words]
