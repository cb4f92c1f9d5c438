"""Building the kernels: switched off, without a compiler, with a broken one, and by several builders at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from ninefold.model.ops import native
from ninefold.model.ops.situ import situ_glu, situ_glu_torch


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("NINEFOLD_NATIVE", "0", "switched off by NINEFOLD_NATIVE=0"),
        ("CC", "no-such-compiler", "no C compiler"),
        ("CC", "broken-cc", "no such header"),
    ],
)
def test_no_kernels_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, reason: str) -> None:
    broken = tmp_path / "broken-cc"
    broken.write_text("#!/bin/sh\necho 'no such header' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setenv("NINEFOLD_NATIVE", "1")
    monkeypatch.setenv(variable, value)
    library, status = native.load()
    assert library is None
    assert not status.available
    assert reason in status.detail
    if value == "broken-cc":
        asked = status.detail.split(" -o ")[1].split()[0]
        assert Path(asked).parent == tmp_path / "ninefold" / "native", "the folder that is gone is not named"


def test_unwritable_cache_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ninefold").write_text("a file where a folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    library, status = native.load()
    assert library is None
    assert "PyTorch forms in use" in status.detail


@pytest.mark.skipif(not native.status().available, reason="no C compiler on this machine")
def test_builders_at_once_share_one_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ThreadPoolExecutor(2) as pool:
        loaded = list(pool.map(lambda _: native.load(), range(2)))
    assert all(status.available for _, status in loaded)
    assert [path.suffix for path in (tmp_path / "ninefold" / "native").iterdir()] == [".so"]


def test_what_the_kernels_do_not_take_goes_to_pytorch() -> None:
    x = torch.linspace(-3, 3, 7, dtype=torch.float64)
    assert not native.usable(x)
    assert torch.equal(situ_glu(x, x), situ_glu_torch(x, x))
