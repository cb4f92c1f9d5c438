"""Whatever foreign code raises becomes one of our errors; nothing of ours is renamed and no exit is swallowed."""

from __future__ import annotations

import pytest

from ninefold.core.errors import EngineError, NinefoldError, SandboxError, UserError, boundary


def test_foreign_errors_are_wrapped_and_ours_pass() -> None:
    with pytest.raises(EngineError, match="the engine: KeyError: 'x'") as raised, boundary(EngineError, "the engine"):
        raise KeyError("x")
    assert isinstance(raised.value.__cause__, KeyError)
    with pytest.raises(UserError, match="mend this"), boundary(EngineError, "the engine"):
        raise UserError("mend this")


@pytest.mark.parametrize("exit", [KeyboardInterrupt, SystemExit])
def test_exits_are_never_caught(exit: type[BaseException]) -> None:
    caught: list[NinefoldError] = []
    with pytest.raises(exit), boundary(SandboxError, "the sandbox", catch=caught.append):
        raise exit
    assert caught == []


def test_errors_are_handed_over_where_they_are_wanted() -> None:
    caught: list[NinefoldError] = []
    for error in (OSError("gone"), UserError("mend this")):
        with boundary(SandboxError, "the sandbox", catch=caught.append):
            raise error
    assert [type(error) for error in caught] == [SandboxError, UserError]
    assert str(caught[0]) == "the sandbox: OSError: gone"
