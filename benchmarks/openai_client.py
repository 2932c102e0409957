"""The `openai` package as a load generator, for `benchmarks/load_generators.py`; it runs where that is installed.

Reads JSON from its standard input, `{url, concurrency, prompts, tokens}`, and writes one row for each request:
`{prompt, token_ns, intended_ns}`, nanoseconds of the monotonic clock.
"""

import asyncio
import json
import sys
import time
from typing import Any


async def main(request: dict[str, Any]) -> dict[str, Any]:
    """`concurrency` users who take the prompts one after the other, each as soon as its last answer ended."""
    import openai

    client = openai.AsyncOpenAI(base_url=request["url"] + "/v1", api_key="none", max_retries=0)
    prompts, rows = iter(request["prompts"]), []

    async def user() -> None:
        for prompt in prompts:
            intended, times = time.monotonic_ns(), []
            stream = await client.completions.create(
                model="stub", prompt=prompt, max_tokens=request["tokens"], stream=True
            )
            async for chunk in stream:
                if chunk.choices and chunk.choices[0].text:
                    times.append(time.monotonic_ns())
            rows.append({"prompt": prompt, "intended_ns": intended, "token_ns": times})

    began = time.process_time()
    await asyncio.gather(*(user() for _ in range(request["concurrency"])))
    return {"version": openai.__version__, "cpu_s": time.process_time() - began, "rows": rows}


if __name__ == "__main__":
    json.dump(asyncio.run(main(json.load(sys.stdin))), sys.stdout)
