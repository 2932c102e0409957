"""Makes what changes the logits of requests, in a thread: a grammar may take a tenth of a second to read, the model's
vocabulary for the first one longer. The requests wait, and the engine's steps do not.
"""

import logging
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING

from kernels.server.messages import Refusal
from kernels.server.scheduler.requests import LogitsOptions, Request
from kernels.server.spec import Spec, configuration

if TYPE_CHECKING:
    from kernels.server.execution.grammars import Grammars
    from kernels.server.execution.logits_processing import Processor

logger = logging.getLogger(__name__)


class GrammarCompiler:
    """Requests whose processors are made."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._grammar_thread, self._other_thread = ThreadPoolExecutor(1, "grammars"), ThreadPoolExecutor(1, "penalties")
        self.pending: dict[str, tuple[Request, Future[Processor], str]] = {}

    def start(self, request: Request, options: LogitsOptions) -> None:
        """Begins with a request. One without a grammar does not wait for the grammars of others."""
        thread = self._other_thread if options.grammar is None else self._grammar_thread
        field = "tools" if options.grammar and options.grammar.form == "lark" else "response_format"
        self.pending[request.name] = request, thread.submit(self._processor, request, options), field

    def cancel(self, name: str) -> None:
        """Gives a request up, if it is pending. What has begun goes on, and its result is lost."""
        if name in self.pending:
            self.pending.pop(name)[1].cancel()

    def compiled(self) -> Iterator[tuple[Request, Refusal | None]]:
        """The requests that have got their processors, or why they have not."""
        for name, (request, future, field) in list(self.pending.items()):
            if future.done():
                del self.pending[name]
                error = future.exception()
                if error is None:
                    request.processor = future.result()
                    yield request, None
                    continue
                reason = str(error)
                if not isinstance(error, ValueError):  # whatever a library raises ends no engine
                    logger.error("a grammar could not be read", exc_info=error)
                    reason = "the grammar could not be read, and the server's log says why"
                yield request, Refusal(f"{field}: {reason}", field)

    def _processor(self, request: Request, options: LogitsOptions) -> "Processor":
        from kernels.server.execution.logits_processing import Processor

        grammar = options.grammar
        matcher = None if grammar is None else self._grammars.matcher(grammar, request.stop_ids)
        return Processor(request.ids, options, matcher)

    @cached_property
    def _grammars(self) -> "Grammars":
        from kernels.server.execution.grammars import Grammars
        from kernels.server.http.text import text_of

        text = text_of(*configuration(self._spec))
        tokens, special = text.vocabulary()
        return Grammars(tokens, special, lambda given: text.encode(given, special=False))
