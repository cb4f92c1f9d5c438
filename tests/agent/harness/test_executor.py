"""The executor: every operation answers, whatever is asked; paths, patterns and commands stay inside; it survives a restart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ninefold.agent.harness.executor import OPERATIONS, Executor, ExecutorConfig
from ninefold.agent.harness.executor.files import glob_pattern
from ninefold.core.protocols import Observation
from ninefold.core.types import Call
from ninefold.index import Document, Index
from ninefold.media.png import from_png, to_png
from ninefold.media.scene import draw
from ninefold.sandbox.memory import MemoryRuntime
from ninefold.sandbox.namespace import NamespaceRuntime

FILES = {"a.txt": "one\ntwo\nthree\n", "src/b.py": "def f():\n    return 1\n", "src/deep/c.py": "import b\n", "empty": ""}
DOCUMENTS = [Document(id="http://x/1", title="Moss", text="Moss grows in shade."), Document(id="2", title="Sun", text="Hot.")]


@pytest.fixture
def executor(namespaces: NamespaceRuntime) -> Iterator[Executor]:
    made = Executor(namespaces.create(FILES), index=Index.build(DOCUMENTS), config=ExecutorConfig(seconds=1.0))
    yield made
    made.close()


def use(executor: Executor, tool: str, **arguments: Any) -> Observation:
    return executor.call(Call(tool=tool, arguments=arguments))


def data(observation: Observation) -> Mapping[str, Any]:
    assert observation.data is not None
    return observation.data


@pytest.mark.parametrize(
    ("offset", "limit", "shown", "first", "left_out"),
    [
        (1, None, ["one", "two", "three"], 1, 0),
        (2, 1, ["two"], 2, 1),
        (-1, None, ["three"], 3, 0),
        (-9, 2, ["one", "two"], 1, 1),
        (0, 1, ["one"], 1, 2),
        (9, None, [], 9, 0),
    ],
)
def test_read(executor: Executor, offset: int, limit: int | None, shown: list[str], first: int, left_out: int) -> None:
    arguments = {"offset": offset} | ({} if limit is None else {"limit": limit})
    found = data(use(executor, "read", path="/work/a.txt", **arguments))
    assert (found["lines"], found["first"], found["left_out"], found["total"]) == (shown, first, left_out, 3)


def test_write_and_edit_refuse_what_was_not_read(executor: Executor) -> None:
    assert "read it first" in use(executor, "write", path="a.txt", text="x", read_first=True).text
    assert "read it first" in use(executor, "edit", path="a.txt", old="two", new="2", read_first=True).text
    use(executor, "read", path="a.txt")
    assert use(executor, "edit", path="a.txt", old="two", new="2", read_first=True).text == "Edited a.txt"
    use(executor, "shell", command="echo more >> a.txt")
    assert "changed since" in use(executor, "edit", path="a.txt", old="2", new="3", read_first=True).text
    assert use(executor, "write", path="new/x.txt", text="x", read_first=True).text == "Created new/x.txt"
    use(executor, "write", path="new/x.txt", text="y", append=True)
    assert executor.files()["new/x.txt"] == b"xy"


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ({"old": "zz", "new": "y"}, "does not occur"),
        ({"old": "e", "new": "y"}, "occurs 3 times"),
        ({"old": "", "new": "y"}, "is empty"),
        ({"old": "one", "new": "one"}, "equals the old"),
        ({"old": "e", "new": "E", "every": True}, "Edited"),
    ],
)
def test_edit(executor: Executor, arguments: Mapping[str, Any], answer: str) -> None:
    assert answer in use(executor, "edit", path="a.txt", **arguments).text


def test_listing_and_finding(executor: Executor) -> None:
    assert use(executor, "list").text.split("\n") == ["a.txt", "empty", "src/"]
    assert use(executor, "list", path="src").text.split("\n") == ["b.py", "deep/"]
    assert use(executor, "glob", pattern="*.py").text.split("\n") == ["src/b.py", "src/deep/c.py"]
    assert use(executor, "glob", pattern="src/*.py").text == "src/b.py"
    found = data(use(executor, "glob", pattern="**/*", limit=2))
    assert (len(found["lines"]), found["left_out"]) == (2, 2)
    assert use(executor, "grep", pattern="RETURN", ignore_case=True).text == "src/b.py:2:    return 1"
    assert use(executor, "grep", pattern="b", mode="files").text.split("\n") == ["src/deep/c.py"]
    assert use(executor, "grep", pattern="t", path="a.txt", mode="count").text == "a.txt:2"
    assert use(executor, "grep", pattern="two", before=1, numbers=False).text == "a.txt-one\na.txt:two"
    assert use(executor, "grep", pattern="f():", literal=True, kind="py").text == "src/b.py:1:def f():"
    assert use(executor, "grep", pattern=r"one\ntwo", multiline=True, glob="*.txt").text == "a.txt:1:one\na.txt:2:two"
    assert use(executor, "grep", pattern="th\\w+", only=True).text == "a.txt:3:three"
    assert "cannot be used" in use(executor, "grep", pattern="(").text


@given(st.lists(st.sampled_from(["a", "b.py", "src", "c"]), min_size=1, max_size=4))
def test_globs(parts: list[str]) -> None:
    path = "/".join(parts)
    assert glob_pattern("**/*").fullmatch(path)
    assert glob_pattern(parts[-1]).fullmatch(path), "a bare name is found in any folder"
    assert bool(glob_pattern("*/?.{py,txt}").fullmatch(path)) == (len(parts) == 2 and parts[1] == "b.py")
    assert bool(glob_pattern("./[a-b]").fullmatch(path)) is False


def test_shell(executor: Executor) -> None:
    ended = data(use(executor, "shell", command="echo out; echo err >&2; exit 3"))
    assert (ended["output"], ended["exit_code"]) == ("out\nerr\n", 3)
    assert data(use(executor, "shell", command="pwd", folder="src"))["output"] == "/work/src\n"
    slow = data(use(executor, "shell", command="echo begun; sleep 9", seconds=0.3))
    assert (slow["output"], slow["exit_code"], slow["why"]) == ("begun\n", None, "timed out after 0.3 seconds")
    assert "background" in use(executor, "shell", command="sleep 9", background=True).text


def test_patch_is_all_or_nothing(executor: Executor) -> None:
    before = executor.files()
    good = "*** Update File: src/b.py\n@@ def f():\n-    return 1\n+    return 2\n"
    bad = "*** Update File: a.txt\n-four\n+4\n"
    assert "holds no such lines" in use(executor, "patch", patch=f"*** Begin Patch\n{good}{bad}*** End Patch").text
    assert executor.files() == before
    rest = "*** Add File: new.txt\n+hello\n*** Delete File: empty\n*** Update File: a.txt\n*** Move to: b.txt\n one\n-two\n+2\n"
    done = use(executor, "patch", patch=f"*** Begin Patch\n{good}{rest}*** End Patch")
    assert done.text.split("\n") == ["M src/b.py", "A new.txt", "D empty", "M b.txt"]
    after = executor.files()
    assert (after["src/b.py"], after["new.txt"], after["b.txt"]) == (
        b"def f():\n    return 2\n",
        b"hello\n",
        b"one\n2\nthree\n",
    )
    assert not after.keys() & {"empty", "a.txt"}


def test_documents_and_pictures(executor: Executor) -> None:
    assert use(executor, "search", query="moss").text.startswith("Moss\nhttp://x/1\nMoss grows")
    found = data(use(executor, "fetch", url="http://x/1", offset=5, limit=5))
    assert (found["output"], found["left_out"]) == ("grows", 10)
    assert "nothing is found" in use(executor, "fetch", url="http://x/3").text
    picture = draw({"kind": "bars", "width": 24, "height": 16, "bars": [["red", 3], ["blue", 1]], "most": 3})
    executor.sandbox.write("p.png", to_png(picture))
    assert [from_png(image) for image in use(executor, "media", path="p.png").images] == [picture]
    region = {"x": 2, "y": 0, "width": 5, "height": 4}
    part = from_png(use(executor, "media", path="p.png", region=region).images[0])
    assert (part.width, part.height) == (5, 4)
    assert "error" in data(use(executor, "media", path="p.png", region={**region, "x": 22}))
    assert "not a picture" in use(executor, "media", path="a.txt").text


def test_notes(executor: Executor) -> None:
    items = [{"text": "look", "status": "completed"}, {"text": "write", "status": "pending"}]
    assert use(executor, "todo", items=items).text == "[completed] look\n[pending] write"
    assert use(executor, "todo", items=[{"text": "write", "status": "completed"}], merge=True).text.endswith(
        "[completed] write"
    )
    assert use(executor, "todo", items=[]).text == "the list is empty"
    assert use(executor, "memory", action="add", text="likes moss").text == "likes moss"
    assert "holds 2200 characters" in use(executor, "memory", action="add", text="x" * 2_200).text
    assert use(executor, "memory", action="replace", old="moss", text="likes sun").text == "likes sun"
    assert use(executor, "cron", action="create", when="0 9 * * 1", prompt="report").text == "created cron_1"
    assert use(executor, "cron", action="list").text == "cron_1: 0 9 * * 1 report"
    assert "five fields" in use(executor, "cron", action="create", when="daily", prompt="x").text


def test_a_restart_changes_nothing(executor: Executor, namespaces: NamespaceRuntime) -> None:
    use(executor, "read", path="a.txt")
    use(executor, "todo", items=[{"text": "go on"}])
    use(executor, "shell", command="echo x > made.txt")
    again = Executor.restore(executor.save(), runtime=namespaces)
    assert again.files() == executor.files()
    assert use(again, "todo").text == "[pending] go on"
    assert use(again, "edit", path="a.txt", old="one", new="1", read_first=True).text == "Edited a.txt"
    again.close()


VALUES = st.text(max_size=8) | st.integers(-3, 3) | st.floats(-2, 2) | st.booleans() | st.none() | st.lists(st.text(max_size=3))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_whatever_is_asked_is_answered_with_text(data: st.DataObject) -> None:
    """Over files in memory, so that nothing is executed."""
    executor = Executor(MemoryRuntime().create(FILES))
    tool = data.draw(st.sampled_from([*OPERATIONS, "nope"]))
    known = OPERATIONS.get(tool, OPERATIONS["read"])
    names = st.sampled_from([*known.parameters, *known.optional, "other"])
    paths = st.sampled_from(["a.txt", "src", "../a", "/etc/passwd", ".", "", "x\0y", "\ud800"])
    arguments = data.draw(st.dictionaries(names, VALUES | paths, max_size=4))
    answer = executor.call(Call(tool=tool, arguments=arguments))
    assert isinstance(answer.text, str)


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", "a/../../x"])
@pytest.mark.parametrize("tool", ["read", "write", "edit", "list", "glob", "grep", "media"])
def test_nothing_outside_is_reached(tool: str, path: str) -> None:
    executor = Executor(MemoryRuntime().create(FILES))
    needed = {name: path if name == "path" else "x" for name in OPERATIONS[tool].parameters}
    answer = executor.call(Call(tool=tool, arguments={**needed, "path": path}))
    assert answer.data is not None
    assert "error" in answer.data
