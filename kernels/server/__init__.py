"""A server of one model after OpenAI's API (`docs/serving.md`). Its modules, by the process that runs them:

- The web server, without torch. `app` has the routes, and `web` uvicorn over connections that it is given. `bodies`,
  `reading` and `schemas` take a request, a large one in the process of `body_process`; `prompts` makes ids of it with
  `text`, `chat_template` and `text_bounds`. `answering`, `entries` and `forms` make an answer, `embeddings` vectors,
  `errors` what is wrong; `writing` writes a long answer; `metrics` counts. `client` sends the engine requests and hands
  its tokens on.
- The server's main process, which an operator starts. `engine_process` starts and watches the engine's process, with
  `pipes`, `hanging` and `restarting`, and tells its `engine_state`. `web_servers` makes the one web server of the main
  process, or several: `web_processes` sends each its messages and, by `connections`, its connections; `web_process` is
  each. `handed` is the whole server over connections that another program sends to it.
- The engine's process. `worker` runs a model that makes text, `encoder` one that gives vectors; `process` and
  `starting` are what both have. `building` makes an engine: `sizing` and `pauses` choose its size, `served_plans` and
  `excluded` what it takes and leaves out, `compiling` what is compiled ahead. `engine` runs the steps that `scheduler`
  plans from `requests` and `pages`.
- The passes of a step. `backend` captures a graph of each of `shapes` and replays it: `packed` is the pass, `ops` its
  variants, `inputs` what it is told, `embed_triton`, `attention`, `sampling`, `draw_triton`, `heads` and `logprobs` its
  parts. `megakernel_backend` takes steps of few sequences, with `megakernel_instance`, `rows` and `rows_triton`.
- All of them: `spec` is what an operator asks for, `messages` what goes to the engine and comes from it.
"""
