"""A real sandbox runtime, where this machine can isolate."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ninefold.core.errors import SandboxUnavailable
from ninefold.core.protocols import SandboxRuntime
from ninefold.sandbox.runtime import open_runtime

LONG = {"professional": (2, 3, 4), "research": (5,)}
"""Family → levels that cost more than every run can pay; `make test-full` plays them."""


@pytest.fixture(scope="module")
def isolated() -> Iterator[SandboxRuntime]:
    runtime = open_runtime("namespace")
    try:
        runtime.check()
    except SandboxUnavailable as error:
        pytest.skip(f"this machine cannot isolate: {error}")
    yield runtime
    runtime.close()
