"""What gives a fake away in its source, before anything is run (spec 09, row 26).

A page cannot tell its judge from a visitor anyhow; one that tries to is not meant for visitors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MOST_BYTES = 1 << 18
"""Of all files together; a whole site of the hardest level takes a twentieth."""
_TELLS = {
    "asks whether a program drives the browser": r"\bwebdriver\b|HeadlessChrome|__playwright|__puppeteer|\bcdc_",
    "asks whether it is under test": r"\bNODE_ENV\b|(environ|getenv|process\.env)[^\n]{0,40}\b(CI|(TEST|PYTEST|GITHUB)\w*)\b",
}


def suspicion(files: Mapping[str, str]) -> str | None:
    """Why these files are refused unseen; None where they are not."""
    if sum(len(text) for text in files.values()) > MOST_BYTES:
        return f"more than {MOST_BYTES:,} bytes were handed in"
    for path, text in files.items():
        for what, pattern in _TELLS.items():
            if found := re.search(pattern, text):
                return f"{path} {what}: {found[0][:60]}"
    return None
