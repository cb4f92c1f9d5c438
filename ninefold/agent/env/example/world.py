"""The boxes, and the tools that act on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ninefold.agent.env.calls import refusal
from ninefold.core.protocols import Observation, Tool
from ninefold.core.types import Call

from .errand import BOXES

TOOLS: tuple[Tool, ...] = (
    Tool(name="look", description="What lies in a box.", parameters={"box": "string"}),
    Tool(name="move", description="Put a thing into a box.", parameters={"thing": "string", "box": "string"}),
)


class Boxes:
    """Who has which thing; a call answers whatever it is sent."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(places)

    def call(self, call: Call) -> Observation:
        """Execute one call; every outcome is a short text."""
        refused = refusal(call, TOOLS)
        if refused is not None:
            return Observation(text=refused)
        box = call.arguments["box"].strip()
        if box not in BOXES:
            return Observation(text="error: no such box")
        if call.tool == "look":
            return Observation(text=" ".join(thing for thing, place in self._places.items() if place == box) or "nothing")
        thing = call.arguments["thing"].strip()
        if thing not in self._places:
            return Observation(text="error: no such thing")
        self._places[thing] = box
        return Observation(text="moved")

    def final(self, response: str | None) -> Mapping[str, Any]:
        """The last response, and where everything lies."""
        return {"response": response, "places": self._places}

    def save(self) -> bytes:
        return json.dumps(self._places).encode()

    def close(self) -> None:
        pass
