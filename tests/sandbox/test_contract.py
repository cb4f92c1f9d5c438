"""What every runtime promises."""

from __future__ import annotations

from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ninefold.core.errors import SandboxError, UserError
from ninefold.core.protocols import SandboxRuntime

NAMES = st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
FILES = st.dictionaries(PATHS, st.binary(max_size=300), max_size=6).filter(
    lambda files: not any(a != b and a.startswith(b + "/") for a in files for b in files)
)
SHARED = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@SHARED
@given(files=FILES)
def test_export_and_restore_keep_every_byte_and_name(runtime: SandboxRuntime, files: dict[str, bytes]) -> None:
    with closing(runtime.create()) as first:
        for path, data in files.items():
            first.write(path, data)
        exported = first.export()
    with closing(runtime.restore(exported)) as second:
        assert {path: second.read(path) for path in files} == files
        assert second.export() == exported


@SHARED
@given(files=FILES)
def test_equal_content_gives_equal_exports_in_whatever_order_written(runtime: SandboxRuntime, files: dict[str, bytes]) -> None:
    with closing(runtime.create()) as one, closing(runtime.create()) as other:
        for path, data in files.items():
            one.write(path, data)
        for path, data in reversed(files.items()):
            other.write(path, b"overwritten, and longer" + data)
            other.write(path, data)
        assert one.export() == other.export()


def test_a_fork_shares_nothing(runtime: SandboxRuntime) -> None:
    with closing(runtime.create({"a": "1"})) as original, closing(original.fork()) as copy:
        copy.write("a", b"2")
        copy.write("b", b"3")
        assert original.read("a") == b"1"
        assert copy.read("a") == b"2"
        with pytest.raises(FileNotFoundError):
            original.read("b")


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "", ".", "a\0b"])
def test_paths_out_of_the_working_directory_are_refused(runtime: SandboxRuntime, path: str) -> None:
    with closing(runtime.create()) as sandbox:
        with pytest.raises(UserError):
            sandbox.write(path, b"x")
        with pytest.raises(UserError):
            sandbox.read(path)


def test_a_closed_sandbox_refuses_everything(runtime: SandboxRuntime) -> None:
    sandbox = runtime.create({"a": "1"})
    sandbox.close()
    sandbox.close()
    for act in (lambda: sandbox.read("a"), lambda: sandbox.python("1"), lambda: sandbox.run(["true"]), sandbox.export):
        with pytest.raises(SandboxError):
            act()


@pytest.mark.parametrize("data", [b"", b"rubbish" * 200])
def test_what_is_no_export_is_refused(runtime: SandboxRuntime, data: bytes) -> None:
    with pytest.raises(UserError):
        runtime.restore(data)
