"""`chat` and `serve`: a run's model, to talk to."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ninefold.app.console import RunName, check_port, err, out
from ninefold.app.runs import open_run
from ninefold.core.errors import UserError
from ninefold.core.store import Run
from ninefold.core.types import Effort

StageName = Annotated[
    str, typer.Option("--stage", help="Whose model: mopd, pooled, sft, pretrain, rl/coding/low, …; the final one if absent.")
]
LOCAL = ("127.0.0.1", "localhost", "::1")


def chat(
    run: RunName,
    effort: Annotated[Effort, typer.Option("--effort", help="How hard it thinks.")] = "max",
    prompt: Annotated[str, typer.Option("--prompt", help="Answer this and leave.")] = "",
    stage: StageName = "",
    temperature: Annotated[float, typer.Option("--temperature", min=0, max=2, help="0 is greedy.")] = 1.0,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", min=1, help="Bound of one answer.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Makes answers repeatable.")] = None,
) -> None:
    """Talk to a run's model; it thinks in grey, then answers."""
    from ninefold.app.model import open_service
    from ninefold.app.talk import Talk

    target = open_run(run)
    service = open_service(target, stage or _final(target))
    options: dict[str, Any] = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed}
    service.loop.start()
    try:
        talk = Talk(service, out(), effort=effort, options=options)
        if prompt:
            talk.answer(prompt)
        else:
            talk.loop()
    finally:
        service.loop.close()


def serve(
    run: RunName,
    port: Annotated[int, typer.Option("--port", min=0, max=65535)] = 8000,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; this machine alone if absent.")] = "127.0.0.1",
    api_key: Annotated[
        str, typer.Option("--api-key", envvar="NINEFOLD_API_KEY", help="Clients must send it; none is asked for if absent.")
    ] = "",
    stage: StageName = "",
    draft: Annotated[
        bool, typer.Option("--draft", help="Speculative decoding with the run's draft; answers are distributed alike.")
    ] = False,
) -> None:
    """Serve a run's model to OpenAI clients, effort included (`reasoning_effort`: low, high, max)."""
    import uvicorn

    from ninefold.app.model import open_service
    from ninefold.serve.server import create_app

    if host not in LOCAL and not api_key:
        raise UserError(f"--host {host} opens the server to others: give it an --api-key (or NINEFOLD_API_KEY)")
    target = open_run(run)
    check_port(host, port)
    service = open_service(target, stage or _final(target), draft=draft)
    err().print(f"model {service.model} at http://{host}:{port}/v1 (Ctrl-C ends it)", style="bold", soft_wrap=True)
    uvicorn.run(create_app(service, api_key=api_key or None), host=host, port=port, log_level="warning")


def _final(run: Run) -> str:
    """The best model there is; says so where that is not the student after MOPD."""
    from ninefold.app.model import FINAL, final_stage

    stage = final_stage(run)
    if stage != FINAL[0]:
        err().print(f"{run.path} has not come to {FINAL[0]} yet: this is the model of stage {stage}", style="yellow")
    return stage
