"""The page of the result of a model of images: no word of tokens."""

import pytest
import sample_results
from django.template.loader import render_to_string

from workbench.results import page_context
from workers.documents.measurement import Interval
from workers.documents.quality import Measure, Quality
from workers.documents.stages import Results
from workers.documents.traffic import Traffic
from workers.stages.price import price

MODEL = sample_results.manifest().model_copy(update={"kind": "other", "counted": "images"})
WORKLOAD = sample_results.workload().model_copy(update={"present": None, "traffic": Traffic(batch=8)})


@pytest.fixture
def results() -> Results:
    known = sample_results.results()
    quality = Quality(
        called="quality",
        tokens=300,
        needed=300,
        compared="answers",
        change=Interval(value=0, low=0, high=0),
        measures=[Measure(name="Another class is the most likely", before=0.01, after=0.0125)],
        acceptable=True,
        sentence="Quality over 300 images: acceptable.",
    )
    verified = known.verify.model_copy(update={"counted": "images", "quality": quality})
    priced = price(WORKLOAD, known.price.book, "h200", verified, MODEL)
    return known.model_copy(update={"verify": verified, "price": priced})


def test_the_page_counts_images(results):
    page = render_to_string("results/_result.html", page_context.context(WORKLOAD, MODEL, results, []))
    assert "A dollar buys" in page
    assert "Another class is the most likely" in page
    assert "$/M images" in page
    assert "USD per M images" in page
    assert "one image a request" in page
    assert "transformers&#x27; own forward pass, eager" in page
    assert "own generate" not in page
    for said in ("tokens/s", "Tokens/s", "M tokens", "million tokens", "KL divergence", "output tokens"):
        assert said not in page
