"""A server of chat completions that answers with scripted moves: what a model would say that plays tasks by gold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from ninefold.core.protocols import Message


@contextmanager
def answering(scripts: Mapping[str, Sequence[Message]]) -> Iterator[str]:
    """URL of a server that says to whoever quotes a key of `scripts` the script's next message, beyond its end an empty one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = json.dumps(_answer(body, scripts)).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(body: Mapping[str, Any], scripts: Mapping[str, Sequence[Message]]) -> dict[str, Any]:
    said = json.dumps(body["messages"], ensure_ascii=False)
    script = next(script for key, script in scripts.items() if json.dumps(key, ensure_ascii=False)[1:-1] in said)
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    given = {call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()}
    assert {message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"} <= given
    message = dict(script[turn]) if turn < len(script) else {"role": "assistant", "content": ""}
    calls = message.get("tool_calls")
    if calls:
        message["tool_calls"] = [{**call, "id": f"call_{turn}_{number}"} for number, call in enumerate(calls)]
    return {
        "id": f"answer-{turn}",
        "object": "chat.completion",
        "created": 0,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
