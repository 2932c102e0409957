"""A server of one model after OpenAI's API (`docs/serving.md`).

- `http`: the web server, without torch. `app` has the routes; `web` is uvicorn over connections that it is given.
  `body_parsing` and `schemas` (with `unserved`, `chat_messages`, `logits_fields`, `tools` and `responses`) read a
  request, `body_process` a large one; `prompts`, `text` and `chat_template` make ids of it; `answering`, `embeddings`
  and `tokenizing` answer; `client` sends requests to the engine and hands its tokens on.
- `processes`: the main process, which an operator starts, has `engine_process` (with `pipes` and `restarts`) and
  `web_servers`, of one or of several processes (`web_processes`, `web_process`, `connections`). The engine's process
  runs `worker`, or `encoder` for a model that gives vectors; `lifecycle` is what both have. `handoff_server` is the
  whole server over connections that another program sends to it.
- `scheduler`: `batching` plans each step from `requests` and `pages`.
- `execution`: `building` makes an engine of the size that `sizing` and `pauses` choose; `engine` runs its steps.
  `backend` captures a graph of each of `shapes` and replays it, and `logits_processing` with `grammars` changes its
  logits; `megakernel_backend` takes steps of few sequences.
- `spec` is what an operator asks for, `messages` what goes to the engine and comes from it.
"""
