"""What was measured at a workload's endpoint."""

from pydantic import Field

from workers.documents.base import Document
from workers.documents.load import LoadedServer, LoadResult
from workers.documents.measurement import Interval


class EndpointRound(Document):
    """One round of requests: `when` is before or after verify, `median` that of the first promise."""

    when: str
    at: str = Field(description="when it began, ISO 8601 UTC")
    seconds: float
    requests: int
    failed: int
    median: Interval | None


class EndpointRatio(Document):
    """The endpoint's median over the plan's, above 1 where the plan is faster.

    `ratio` has as its ends the quotients of the two medians' 95 % intervals; it is no paired interval.
    """

    metric: str
    n: int | None = None
    unit: str
    endpoint: Interval
    after: Interval
    ratio: Interval


class EndpointResult(Document):
    """The workload's traffic at its endpoint, all rounds together in `load`; None where `sentence` says why not.

    `server` says what it is and whose hardware, and by its caveats what is not comparable with the other figures.
    """

    server: LoadedServer
    sentence: str
    load: LoadResult | None = None
    rounds: list[EndpointRound] = []
    ratios: list[EndpointRatio] = []
