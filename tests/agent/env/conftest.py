"""A real sandbox runtime, where this machine can isolate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ninefold.core.errors import SandboxUnavailable
from ninefold.core.protocols import SandboxRuntime
from ninefold.sandbox.runtime import PACKAGES, open_runtime

LONG = {
    "kernels": range(1, 5),
    "office": range(3, 5),
    "professional": range(2, 5),
    "research": (5,),
    "software": range(2, 5),
    "web": range(1, 5),
}
"""Family → levels of hundreds of calls, or whose every verdict takes a good part of a second (a compiler, a browser): they are
played in `make test-full` alone."""


@pytest.fixture(scope="module")
def isolated() -> Iterator[SandboxRuntime]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(PACKAGES, raising=False)
        runtime = open_runtime("namespace")
    try:
        runtime.check()
    except SandboxUnavailable as error:
        pytest.skip(f"this machine cannot isolate: {error}")
    yield runtime
    runtime.close()
