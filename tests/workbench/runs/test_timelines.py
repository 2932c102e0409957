"""The timeline of a traced request: on the result's page where a run kept one, served compressed, to its members."""

import gzip
import json

import pytest
import sample_runs
from django.urls import reverse

from workbench.intake import blobs
from workbench.runs.models import StoredArtifact
from workers.documents.base import Artifact
from workers.documents.profile import LaneSummary, RequestTimeline

pytestmark = pytest.mark.django_db
FILE = {"version": 1, "duration_ns": 10, "names": ["gemm"], "lanes": []}
NAMES = {"profile": "timeline.json.gz", "verify": "plan-timeline.json.gz"}


def keep(run, stage):
    """What a worker leaves behind: the file, and its summary in the stage's result."""
    sha256, size = blobs.store([gzip.compress(json.dumps(FILE).encode())])
    file = Artifact(name=NAMES[stage], sha256=sha256, size=size, media_type="application/gzip")
    StoredArtifact.objects.create(run=run, organisation=run.organisation, stage=stage, **file.model_dump())
    lanes = [LaneSummary(name="GPU stream 7", events=1_234, busy_ms=7.5)]
    shown = RequestTimeline(file=file, duration_ms=10.0, lanes=lanes, sentence="Of 9 events the timeline shows 8.")
    row = run.stages.get(stage=stage)
    part = row.result if stage == "profile" else row.result["profile"]
    part["timeline"] = shown.model_dump()
    row.save()


@pytest.fixture
def run(organisation, engineer):
    return sample_runs.run(organisation, engineer)


@pytest.mark.parametrize(("stage", "side"), [("profile", "before"), ("verify", "after")])
def test_a_kept_timeline_is_drawn_and_its_lanes_are_a_table_too(browser, engineer, run, stage, side):
    keep(run, stage)
    client = browser(engineer)
    page = client.get(reverse("run-result", args=[run.id])).content.decode()
    address = reverse(f"run-timeline-{side}", args=[run.id])
    assert f'data-timeline="{address}"' in page
    assert 'id="one-request"' in page
    assert '<th scope="row">GPU stream 7</th><td class="number">1,234</td>' in page
    assert "75.0 %" in page
    assert "Of 9 events the timeline shows 8." in page
    answer = client.get(address)
    assert answer["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(b"".join(answer.streaming_content))) == FILE


def test_without_a_timeline_there_is_no_section_and_no_file(browser, engineer, run):
    client = browser(engineer)
    assert "data-timeline" not in client.get(reverse("run-result", args=[run.id])).content.decode()
    assert client.get(reverse("run-timeline-before", args=[run.id])).status_code == 404
