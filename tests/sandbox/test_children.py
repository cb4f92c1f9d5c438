"""Children in a folder: what they write, and what is refused, names files as whoever put them there does."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import json
from ninefold.sandbox.children import ChildRuntime

box = ChildRuntime().create({"lib/part": "text"})
ended = box.run(["sh", "-c", 'echo "$HOME $HOME/lib/part"; echo "$HOME/lib/part: broken" >&2'])
try:
    box.read("lib/none")
except FileNotFoundError as error:
    print(json.dumps([ended.stdout, ended.stderr, error.filename]))
box.close()
"""
"""A process of its own: the sandbox ends all children of the process that it is in."""


def test_the_folder_that_nobody_knows_is_not_named() -> None:
    told = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True).stdout
    assert json.loads(told) == [". lib/part\n", "lib/part: broken\n", "lib/none"]
