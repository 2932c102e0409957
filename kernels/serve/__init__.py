"""A server of one model after OpenAI's API (`docs/serving.md`). Its modules, by the process that runs them:

- The web server, without torch. `app` has the routes, and `web` uvicorn's settings. `bodies`, `reading` and `schemas`
  take a request, a large one in the process of `body_process`; `prompts` makes ids of it with `text`, `chat_template`
  and `text_bounds`. `answering`, `entries` and `forms` make an answer, `embeddings` vectors, `errors` what is wrong;
  `writing` writes a long answer; `metrics` counts. `client` keeps the engine's process, with `sending` and `hanging`.
  `handed` is the whole server over connections that another program hands to it.
- The engine's process. `worker` runs a model that makes text, `encoder` one that gives vectors; `process` and
  `starting` are what both have. `building` makes an engine: `sizing` and `pauses` choose its size, `served_plans` and
  `excluded` what it takes and leaves out, `compiling` what is compiled ahead. `engine` runs the steps that `scheduler`
  plans from `requests` and `pages`.
- The passes of a step. `backend` captures a graph of each of `shapes` and replays it: `packed` is the pass, `ops` its
  variants, `inputs` what it is told, `embed_triton`, `attention`, `sampling`, `draw_triton`, `heads` and `logprobs` its
  parts. `megakernel_backend` takes steps of few sequences, with `megakernel_instance`, `rows` and `rows_triton`.
- Both sides: `spec` is what an operator asks for, `messages` what the two processes send each other.
"""
