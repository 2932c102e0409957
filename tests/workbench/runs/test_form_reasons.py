"""Where the form of a workload says what is wrong with an objective."""

from html import unescape
from typing import Any

import pytest

from tests.workbench.intake.workload_documents import GOOD, Clients, fields
from workbench.accounts.models import User


@pytest.mark.parametrize(
    ("objectives", "shown"),
    [
        (
            [{"metric": "ttf_n", "n": 900, "percentile": 50, "limit": 100}],
            'id="f-objectives-0-n-error">TTF900 p50 asks for token 900, but an answer has 64',
        ),
        (
            [{"metric": "ttft", "percentile": 50, "limit": each} for each in (5, 6)],
            'id="f-objectives-1-metric-error">TTFT p50 is promised twice; remove one of them',
        ),
        ([], '<p class="error">'),
    ],
)
def test_a_wrong_objective_is_told_once_beside_its_input(
    browser: Clients, engineer: User, objectives: list[dict[str, Any]], shown: str
) -> None:
    answer = browser(engineer).post("/workloads/new/", fields(GOOD | {"objectives": objectives}))
    page = unescape(answer.content.decode())
    assert answer.status_code == 422
    assert "One field needs a correction" in page
    assert shown in page.partition('id="h-general"')[0]
    assert "<ul>" not in page.partition('id="form-errors"')[2].partition("</div>")[0], "nothing is told twice"
