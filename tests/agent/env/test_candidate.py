"""Reports of candidates: JSON text, compared outside the sandbox."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ninefold.agent.env.candidate import agree, results
from ninefold.core.protocols import ExecResult
from ninefold.sandbox.memory import MemoryRuntime

JSON = st.recursive(
    st.booleans() | st.integers(-(10**6), 10**6) | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=6
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(JSON, min_size=1, max_size=4))
def test_what_a_function_returns_arrives(isolated, values):
    calls = [[value] for value in values]
    report = results(isolated, {"echo.py": "def echo(x): return x\n"}, "echo", "echo", calls)
    assert agree(report, values)


@given(JSON, JSON)
def test_only_equal_texts_agree(one, other):
    assert agree([json.dumps(one)], [other]) == (json.dumps(one) == json.dumps(other))


def test_lookalikes_do_not_agree():
    for seen in ("true", "1.0", '"1"', "[1]", "NaN"):
        assert not agree([seen], [1])
    assert not agree(None, [1])
    assert not agree([], [1])
    assert not agree(["1", "1"], [1])


@given(st.text())
def test_whatever_is_printed_is_no_report(text):
    """Without the nonce, which is drawn anew for every execution, nothing printed counts."""
    runtime = MemoryRuntime(lambda execution: ExecResult(stdout=text, stderr="", exit_code=0, reason="exited"))
    assert results(runtime, {"f.py": ""}, "f", "f", [[1]]) is None
