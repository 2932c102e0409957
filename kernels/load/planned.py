"""A request as it is planned, before it is sent."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedRequest:
    """One request: what is asked for and when.

    `at_s`: seconds after the beginning; None in a closed loop, where it is sent as soon as a user is free. `think_s`:
    in a closed loop the user's pause before it. Lengths are in tokens. `conversation`: requests of one conversation
    have prompts that begin alike; "" for none. `cancel_after`: tokens after which the user goes away.
    """

    index: int
    at_s: float | None
    think_s: float
    prompt_tokens: int
    output_tokens: int
    conversation: str = ""
    cancel_after: int | None = None
