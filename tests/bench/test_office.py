"""The bench of the office keeps what it promises on a short week."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.full
def test_an_episode_through_kills_leaves_what_it_leaves_without() -> None:
    pytest.importorskip("mcp")
    bench = Path(__file__).parents[2] / "bench" / "office.py"
    ended = subprocess.run([sys.executable, bench, "--level", "2", "--kills", "3"], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["ok"]
    assert told["figures"]["kills"] == 3
    assert told["figures"]["met"] == told["figures"]["criteria"] > 8
    assert told["against"]["same_entries"]
