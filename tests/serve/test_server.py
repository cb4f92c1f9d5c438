"""The server through the public client: streams with tool calls at each effort, choices, errors, company, disconnects."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from .conftest import ASK, CONTEXT, LIMIT, WEATHER

CLOCK: Any = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}}}


def ask(client: openai.OpenAI, **fields: Any) -> Any:
    return client.chat.completions.create(**{"model": "tiny", "messages": ASK, "seed": 3, **fields})


def gather(stream: Any) -> dict[str, Any]:
    """A stream put together as a client does it."""
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "calls": {}, "finish": None, "usage": None}
    for chunk in stream:
        message["usage"] = chunk.usage or message["usage"]
        for choice in chunk.choices:
            message["finish"] = choice.finish_reason or message["finish"]
            message["content"] += choice.delta.content or ""
            message["reasoning_content"] += getattr(choice.delta, "reasoning_content", None) or ""
            for call in choice.delta.tool_calls or ():
                known = message["calls"].setdefault(call.index, {"id": "", "name": "", "arguments": ""})
                known["id"] += call.id or ""
                known["name"] += call.function.name or ""
                known["arguments"] += call.function.arguments or ""
    return message


@pytest.mark.parametrize("effort", ["low", "high", "max"])
def test_streamed_tool_call_at_each_effort(client: openai.OpenAI, effort: str) -> None:
    tools = {"tools": [WEATHER], "tool_choice": "required", "reasoning_effort": effort}
    message = gather(ask(client, **tools, stream=True, stream_options={"include_usage": True}))
    assert message["finish"] == "tool_calls"
    assert message["reasoning_content"]
    for call in message["calls"].values():
        assert call["name"] == "weather"
        assert call["id"].startswith("call_")
        arguments = json.loads(call["arguments"])
        assert isinstance(arguments["days"], int)
        assert arguments["unit"] in ("celsius", "kelvin")
    whole = ask(client, **tools)
    assert [c.function.arguments for c in whole.choices[0].message.tool_calls] == [
        c["arguments"] for c in message["calls"].values()
    ]
    assert whole.usage.total_tokens == message["usage"].total_tokens
    assert 0 < whole.usage.prompt_tokens_details.cached_tokens < whole.usage.prompt_tokens


def test_a_second_turn_with_the_tools_result(client: openai.OpenAI) -> None:
    first = ask(client, tools=[WEATHER], tool_choice="required").choices[0].message
    results = [{"role": "tool", "tool_call_id": call.id, "content": "18"} for call in first.tool_calls]
    answer = ask(client, messages=[*ASK, first.model_dump(exclude_none=True), *results], tools=[WEATHER], tool_choice="none")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.tool_calls is None


def test_named_tool(client: openai.OpenAI) -> None:
    choice: Any = {"type": "function", "function": {"name": "clock"}}
    message = ask(client, tools=[WEATHER, CLOCK], tool_choice=choice, temperature=0).choices[0].message
    assert {(call.function.name, call.function.arguments) for call in message.tool_calls} == {("clock", "{}")}


def test_choices_seeds_and_limits(client: openai.OpenAI) -> None:
    answers = ask(client, n=3, temperature=1.5, max_tokens=40)
    again = ask(client, n=3, temperature=1.5, max_tokens=40)
    other = ask(client, n=3, temperature=1.5, max_tokens=40, seed=4)
    texts = [[c.message.model_dump() for c in reply.choices] for reply in (answers, again, other)]
    assert texts[0] == texts[1] != texts[2]
    assert [choice.index for choice in answers.choices] == [0, 1, 2]
    short = ask(client, max_completion_tokens=2)
    assert short.choices[0].finish_reason == "length"
    assert short.usage.completion_tokens == 2


def test_log_probabilities_cover_the_content(client: openai.OpenAI) -> None:
    answer = ask(client, logprobs=True, temperature=0).choices[0]
    tokens = answer.logprobs.content
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == answer.message.content
    assert all(token.logprob <= 0 for token in tokens)


def test_stop_sequence(client: openai.OpenAI) -> None:
    whole = ask(client, temperature=0).choices[0].message.content
    assert len(whole) > 4
    cut = ask(client, temperature=0, stop=whole[2:4])
    assert cut.choices[0].finish_reason == "stop"
    assert cut.choices[0].message.content == whole[: whole.index(whole[2:4])]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": 3}, "temperature"),
        ({"reasoning_effort": "medium"}, "reasoning_effort"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "wizard", "content": "hi"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}, "messages.0.content"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [CLOCK], "tool_choice": {"type": "function", "function": {"name": "sing"}}}, "tool_choice"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools"),
        ({"frequency_penalty": 0.5}, "frequency_penalty"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"extra_body": {"best_of": 2}}, "best_of"),
        ({"stop": list("abcde")}, "stop"),
    ],
)
def test_bad_requests_name_the_parameter(client: openai.OpenAI, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, **fields)
    assert caught.value.param == param
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize(
    "parameters", ["x", True, {"properties": 3}, {"properties": {}, "required": 5}, {"properties": {"a": {"type": "lunch"}}}]
)
def test_a_malformed_tool_is_told(http: httpx.Client, parameters: Any) -> None:
    tool = {"type": "function", "function": {"name": "clock", "parameters": parameters}}
    reply = http.post("/v1/chat/completions", json={"model": "tiny", "messages": ASK, "tools": [tool]})
    assert reply.status_code == 400
    assert "clock" in reply.json()["error"]["message"] or "lunch" in reply.json()["error"]["message"]


def test_names_that_are_no_unicode_and_bodies_that_are_too_large(http: httpx.Client) -> None:
    body = json.dumps({"model": "\ud800", "messages": ASK})
    assert http.post("/v1/chat/completions", content=body, headers={"content-type": "application/json"}).status_code == 404
    large = {"model": "tiny", "messages": [{"role": "user", "content": "x" * 1_100_000}]}
    reply = http.post("/v1/chat/completions", json=large)
    assert reply.status_code == 413
    assert "1,000,000 bytes" in reply.json()["error"]["message"]
    assert http.get("/health").status_code == 200


def test_a_developer_message_is_a_system_message(client: openai.OpenAI) -> None:
    said = [ask(client, messages=[{"role": role, "content": "Be brief."}, *ASK]) for role in ("developer", "system")]
    assert said[0].usage.total_tokens == said[1].usage.total_tokens
    assert said[0].choices[0].message == said[1].choices[0].message


def test_parameters_that_change_nothing_are_taken(client: openai.OpenAI) -> None:
    neutral: Any = {
        "frequency_penalty": 0,
        "presence_penalty": 0.0,
        "logit_bias": {},
        "user": "u",
        "response_format": {"type": "text"},
    }
    assert ask(client, **neutral, max_tokens=3).choices[0].finish_reason == "length"


def test_other_errors(client: openai.OpenAI, url: str, http: httpx.Client) -> None:
    with pytest.raises(openai.NotFoundError):
        ask(client, model="gpt-nope")
    with pytest.raises(openai.AuthenticationError):
        ask(openai.OpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0))
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, messages=[{"role": "user", "content": "far away " * CONTEXT}])
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.RateLimitError):
        ask(client, n=LIMIT + 1)
    missing = http.get("/v1/nothing")
    assert (missing.status_code, missing.json()["error"]["type"]) == (404, "invalid_request_error")
    torn = http.post("/v1/chat/completions", content="{", headers={"Content-Type": "application/json"})
    assert (torn.status_code, torn.json()["error"]["type"]) == (400, "invalid_request_error")
    assert torn.json()["error"]["message"].startswith("the body is no JSON: ")
    plain = http.post("/v1/chat/completions", content="{}")
    assert (plain.status_code, plain.json()["error"]["param"]) == (400, None)
    assert plain.json()["error"]["message"] == "the request lacks the header Content-Type: application/json"


def test_models_and_health(client: openai.OpenAI, url: str) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"
    assert httpx.get(f"{url}/health").json()["status"] == "ok"


def test_company_changes_nothing(client: openai.OpenAI) -> None:
    def one(seed: int) -> str:
        said = ask(client, seed=seed, temperature=1.3, max_tokens=40)
        return said.model_dump_json(include={"choices": True, "usage": {"total_tokens"}})

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(one, range(8)))
    assert together == [one(seed) for seed in range(8)]
