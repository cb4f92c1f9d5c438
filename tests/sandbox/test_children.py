"""Children in a folder: what they write, and what is refused, names files as whoever put them there does."""

from __future__ import annotations

from contextlib import closing

import pytest

from ninefold.sandbox.children import ChildRuntime


def test_the_folder_that_nobody_knows_is_not_named() -> None:
    with closing(ChildRuntime().create({"lib/part": "text"})) as box:
        ended = box.run(["sh", "-c", 'echo "$HOME $HOME/lib/part"; echo "$HOME/lib/part: broken" >&2'])
        assert (ended.stdout, ended.stderr) == (". lib/part\n", "lib/part: broken\n")
        with pytest.raises(FileNotFoundError) as refused:
            box.read("lib/none")
        assert refused.value.filename == "lib/none"
