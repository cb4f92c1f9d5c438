"""Where the parts of an exported task lie, for those who write them and those who read them."""

from __future__ import annotations

RECORD = "task.json"
"""In tests/: the task as ninefold knows it, answers included."""
CALLS = "calls.json"
"""In tests/: the calls of the world's tools, in order, put there by the environment that served them."""
WORLD = "world.json"
"""In environment/: the task whose world the environment serves; no image gets it."""
ANSWER = "answer.txt"
"""In the working directory: what the agent says at the end."""
