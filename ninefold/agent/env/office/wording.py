"""Sentences that can be written and read back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random

_FIELD = re.compile(r"\\\{(\w+)\\\}")


class Wording:
    """Ways to say one thing: templates with the same {fields}, each at the beginning of a text, up to the end of a line."""

    def __init__(self, *templates: str) -> None:
        self._templates = templates
        self._patterns = [re.compile(_FIELD.sub(r"(?P<\1>[^\\n]+?)", re.escape(text)) + r"(?=\n|$)") for text in templates]

    def say(self, rng: Random, **fields: object) -> str:
        """One of the ways."""
        return rng.choice(self._templates).format(**fields)

    def read(self, text: str) -> Mapping[str, str] | None:
        """The fields, where the text says this."""
        found = next((match for pattern in self._patterns if (match := pattern.match(text))), None)
        return None if found is None else found.groupdict()


_SUBJECTS = ("The kitchen", "The archive", "Our landlord", "The lift", "The new printer", "The auditor", "The east wing")
_DOES = ("will be closed", "has been moved", "was praised by everybody", "needs a key", "is being painted", "was on time")
_WHEN = ("this week", "since Monday", "until further notice", "as every year", "for once", "after some delay")
_THEN = (
    "Please bear with us.",
    "Nobody needs to do anything.",
    "Details are on the board downstairs.",
    "We thank all who helped.",
    "It had been announced before.",
    "The costs stay within the plan.",
)


def prose(rng: Random, sentences: int) -> str:
    """Talk that asks for nothing, in one line."""
    said = (f"{rng.choice(_SUBJECTS)} {rng.choice(_DOES)} {rng.choice(_WHEN)}. {rng.choice(_THEN)}" for _ in range(sentences))
    return " ".join(said)
