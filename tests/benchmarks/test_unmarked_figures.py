"""Prose of the pages that are read first has no measured figure without a marker: what is left is listed here."""

import re

import pytest

from benchmarks import figures
from benchmarks.documents import document, rows
from benchmarks.tables import TABLES, several_gpus
from tests.method_page import quoted_shares

LEFT = {
    "README.md": {
        "promises and settings": ['"the first 64 tokens within 100 ms"', "(95 % interval"],
        "computed, and checked below": ["by some 10 % of vLLM's with 32 users"],
    },
    "docs/measured.md": {
        "promises and settings": [
            "95 % of the requests have 64 tokens within 100 ms",
            "the 5 ms at the 99th percentile that [void a measurement]",
            "Poisson arrivals at 80 % of the rate",
            "the 1 % of the tokens that were allowed",
            "(95 % interval",
            "95 % intervals",
        ],
        "computed or simulated, and checked below": [
            "by some 10 % of vLLM's with 32 users",
            "6 % of this server's with 128, 2 % elsewhere",
            "up to 38.8 %",
            "2.6 % at p50 where all times rise and fall in 2 s",
        ],
    },
    "docs/kernels/megakernel-gpus.md": {
        "promises and settings": [
            "a token within 1.5 ms at the median",
            "where 0.8 were wanted",
            "where 3.45 were wanted",
            "does not come within 2 s",
        ],
        "limits of tests": ["to 0.01 % of the logits in float32", "no further from float32 than 1.5 times"],
        "sizes": ["`intermediate_size` by 16 times that number", "8,192 times 4 on four GPUs"],
        "computed": ["At 450 GB/s NVLink takes 2.3 µs for so much (computed)", "64 of these are 0.07 ms of a token"],
        "of the document that its sentence names": [
            "1.1 µs until all SMs have added the words ([exchange.jsonl]",
            "of its 21 µs the mean SM waits 13 for words",
            "a layer takes 104 µs",
        ],
        "said to have no document": ["1.8 µs between four GPUs, of which no document is kept"],
        "computed, and checked below": [
            "nothing is off by more than 9 %",
        ],
    },
    "benchmarks/README.md": {
        "settings": ["where [5 ms void a row]"],
        "computed, and checked below": [
            "above 100 %, by 4 % at most",
            "nothing is slower than its fastest peer beyond 0.2 %",
        ],
    },
}


def prose(name: str) -> str:
    """The page; of the index of benchmarks without its hand-written tables, which hold targets and settings."""
    text = (figures.ROOT / name).read_text()
    return re.sub(r"^\|.*\n", "", text, flags=re.MULTILINE) if name == "benchmarks/README.md" else text


@pytest.mark.parametrize("name", sorted(LEFT))
def test_prose_has_no_unmarked_figure_but_those_that_are_listed(name):
    text = prose(name)
    for fragment in (each for reason in LEFT[name].values() for each in reason):
        assert fragment in text, "it stands there no more: take it off the list"
        text = text.replace(fragment, "")
    assert list(figures.unmarked(text)) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It takes 106, 122 and 175 ms.", ["175 ms"]),
        ("It is 2.47 times as fast, or 2.5x.", ["2.47 times", "2.5x"]),
        ("It makes 1,584 tokens/s on two H200s.", ["1,584 tokens/s"]),
        ("It takes 37.2 ms<!-- decode-vllm-processes: ms variant=megakernel -->, as `--limit 5 ms` says.", []),
    ],
)
def test_a_figure_with_a_unit_and_no_marker_is_found(text, found):
    assert list(figures.unmarked(text)) == found


def test_shares_of_false_verdicts_in_the_page_are_those_of_the_method():
    quoted = quoted_shares("workers.simulations.load_verdict_errors")
    assert max(quoted["1 slow period in a load"]) == pytest.approx(0.388)
    assert quoted["all slower and faster together, in 2 s"][0] == pytest.approx(0.026)


def test_pauses_of_late_users_are_as_short_as_the_pages_say():
    found = [row for name in ("serve", "serve-qwen2.5-1.5b") for row in document(name)["rows"]]
    late = [row for row in found if row["generator"]["send_late_ms"] > 5]
    shares = {
        (row["case"]["model"], row["variant"], row["case"]["concurrency"]): row["generator"]["send_late_ms"]
        / row["ttf64_ms"]["p50"]
        for row in late
    }
    assert len(shares) == 7
    assert 0.10 < shares.pop(("llama-3.2-1b", "vllm_api_servers", 32)) < 0.11
    assert 0.05 < shares.pop(("llama-3.2-1b", "kernels", 128)) < 0.06
    assert 0.01 < max(shares.values()) < 0.023


def test_predictions_of_several_gpus_are_off_by_what_the_page_says():
    off: list[float] = []
    for _, source, weights, name, _ in several_gpus.CASES:
        for gpu, folders in (("h200", ("h200x2", "h200x4")), ("h100", ("h100x4",))):
            modelled = several_gpus._modelled(several_gpus.MODELS[source], weights, name, f"{gpu}x4")
            for gpus, time in zip((None, 2, 4), modelled, strict=True):
                found = filter(None, (several_gpus._row(folder, source, weights, gpus) for folder in folders))
                if row := next(found, None):
                    off.append(time / row[name] - 1)
    assert len(off) == 23
    assert round(100 * max(map(abs, off))) == 8


def test_the_table_of_every_op_bears_out_what_is_said_of_it():
    lines = [line.split("|")[6:9] for line in TABLES["every-op"]().splitlines()[2:]]
    assert min(float(burst.strip(" x")) for burst, *_ in lines) == 0.998
    assert min(float(settled.strip(" x")) for _, settled, _ in lines) >= 0.998
    assert max(int(floor.strip(" %")) for *_, floor in lines) == 104


def test_as_many_cases_of_the_library_are_slower_than_a_peer_as_the_index_says():
    best: dict[str, tuple[float, str]] = {}
    for row in rows("library", peer=False, gate="pass"):
        if row["ratio_to_best_peer"]:
            case = str(row["case"])
            best[case] = max(best.get(case, (0.0, "")), (row["ratio_to_best_peer"], row["case"]["op"]))
    slower = sorted(each for each in best.values() if each[0] < 0.998)
    assert (len(best), len(slower)) == (187, 33)
    assert {op for _, op in slower} == {"linear"}
