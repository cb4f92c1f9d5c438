"""Lines of JSON as users write them."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ninefold.core.errors import UserError
from ninefold.data.lines import numbered_lines


@given(texts=st.lists(st.none() | st.text(st.sampled_from("a\u2028\u2029\x85\n\r\x0b é"), max_size=6), max_size=6))
def test_a_line_holds_any_string(texts: list[str | None]) -> None:
    """None stands for an empty line, which is passed over but counted."""
    lines = ["" if text is None else json.dumps(text, ensure_ascii=False) for text in texts]
    with TemporaryDirectory() as folder:
        path = Path(folder, "lines.jsonl")
        path.write_text("\n".join(lines), encoding="utf-8", newline="")
        read = [(number, json.loads(line)) for number, line in numbered_lines(path)]
    assert read == [(number, text) for number, text in enumerate(texts, 1) if text is not None]


def test_what_is_no_text_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no file"):
        numbered_lines(tmp_path / "none.jsonl")
    (tmp_path / "latin").write_bytes(b"\xe9\n")
    with pytest.raises(UserError, match="is not UTF-8"):
        numbered_lines(tmp_path / "latin")
