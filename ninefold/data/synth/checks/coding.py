"""Judge /app/solution.py: what its `solve` returns for every hidden call of expected.json beside this file.

The solution runs in a process of its own that is told the calls but not the results; its report is compared here, as text.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS = 30
_DRIVER = """
import json, sys
write, dumps, (nonce, calls) = sys.stdout.write, json.dumps, json.load(sys.stdin)
sys.path.insert(0, sys.argv[1])
from solution import solve
report = []
for arguments in calls:
    try:
        report.append(dumps(solve(*arguments), sort_keys=True))
    except Exception as error:
        report.append(type(error).__name__)
write("\\n" + nonce + dumps(report) + "\\n")
"""


def report(app: Path, calls: list[Any]) -> list[str] | None:
    """What the solution returned, as JSON text; None where it did not come to its end."""
    nonce = secrets.token_hex(16)
    command = [sys.executable, "-ISB", "-c", _DRIVER, str(app)]
    try:
        ended = subprocess.run(command, input=json.dumps([nonce, calls]), capture_output=True, text=True, timeout=SECONDS)
    except (subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    lines = [line.removeprefix(nonce) for line in ended.stdout.splitlines() if line.startswith(nonce)]
    return json.loads(lines[0]) if ended.returncode == 0 and len(lines) == 1 else None


def main(app: Path, tests: Path, reward: Path) -> None:
    file = tests / "expected.json"
    text = file.read_text()
    file.unlink()  # the solution runs as the same user, and might look
    try:
        expected = json.loads(text)
        passed = report(app, expected["calls"]) == expected["results"]
    finally:
        file.write_text(text)
    reward.write_text("1.0\n" if passed else "0.0\n")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
