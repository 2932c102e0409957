"""The log on the page of a run."""

import re

from django.urls import reverse

from workbench.runs.models import Event


def test_what_counts_up_takes_one_line_of_the_log(browser, engineer, done):
    said = [*(f"pairs of requests measured: {each}" for each in range(1, 31)), "one user", "two users"]
    said += ["before: 2 requests per second", "before: 4 requests per second"]
    for each in said:
        Event.objects.create(run=done, stage="verify", attempt=1, kind="progress", message=each)
    page = browser(engineer).get(reverse("run", args=[done.id])).content.decode()
    told = re.findall(r'<span class="what">(.*?)</span>', page)
    assert told[:5] == [*said[:-5:-1], "pairs of requests measured: 30"]
    assert sum(each.startswith("pairs of requests") for each in told) == 1
