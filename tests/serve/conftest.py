"""A real server on localhost over a fresh tiny model, and the public client."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
import uvicorn

from ninefold.chat.tokenizer import Tokenizer
from ninefold.chat.xtml import Xtml, wire_phrases
from ninefold.core.types import EFFORTS, Batch, Segment
from ninefold.data.samples import sample_of_segments
from ninefold.engine.native import NativeConfig, NativeEngine
from ninefold.learn.loss.sft import sft_loss
from ninefold.learn.optim.adamw import AdamWConfig
from ninefold.learn.optim.muon import MuonConfig
from ninefold.learn.trainer import Trainer, TrainerConfig
from ninefold.model.k3 import K3
from ninefold.model.presets import preset
from ninefold.serve.completion import Service
from ninefold.serve.generation import EngineLoop
from ninefold.serve.server import create_app

KEY = "key-of-the-tests"
CONTEXT = 512
LIMIT = 12
STEPS = 30

ASK: Any = [{"role": "user", "content": "what is the weather in Paris?"}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a place.",
        "parameters": {
            "type": "object",
            "properties": {"days": {"type": "integer"}, "unit": {"type": "string", "enum": ["celsius", "kelvin"]}},
            "required": ["days", "unit"],
        },
    },
}


@pytest.fixture(scope="session")
def chat() -> Xtml:
    corpus = ["what is the weather in Paris? it is 18 degrees and clear.", "def add(a, b):\n    return a + b"] * 30
    return Xtml(Tokenizer.train(corpus, wire_phrases(), 400))


@pytest.fixture(scope="session")
def engine(chat: Xtml) -> NativeEngine:
    """Of a model that has learned, in a few steps, to think in few words, to answer, and to call a tool."""
    model = K3(preset("tiny", vocab_size=chat.tokenizer.vocab_size), seed=1)
    trainer = Trainer(model, TrainerConfig(steps=STEPS, muon=MuonConfig(lr=0.02), adamw=AdamWConfig(lr=1e-2)))
    batch = Batch.pack([sample_of_segments(segments) for segments in lessons(chat)])
    for _ in range(STEPS):
        trainer.step([batch], sft_loss)
    return NativeEngine(model, stop_ids=chat.stop_ids, config=NativeConfig(rows=16, capacity=CONTEXT, prompts=4, grain=8))


def lessons(chat: Xtml) -> Iterator[list[Segment]]:
    call = {"id": "1", "function": {"name": "weather", "arguments": '{"days": 2, "unit": "celsius"}'}}
    for effort in EFFORTS:
        for tools, answer in (([WEATHER], {"tool_calls": [call]}), ([], {"content": "it is clear."})):
            message = {"role": "assistant", "reasoning_content": "it is Paris.", **answer}
            yield chat.conversation([*ASK, message], tools=tools, effort=effort)


@pytest.fixture(scope="session")
def service(engine: NativeEngine, chat: Xtml) -> Service:
    return Service(loop=EngineLoop(engine), chat=chat, model="tiny", context=CONTEXT, limit=LIMIT)


@pytest.fixture(scope="session")
def url(service: Service) -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(create_app(service, api_key=KEY), log_level="error"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def client(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=60)


@pytest.fixture(scope="session")
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {KEY}"}, timeout=60) as client:
        yield client
