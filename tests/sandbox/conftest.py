"""One namespace runtime for all tests; they are skipped only where the kernel refuses namespaces."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ninefold.core.errors import SandboxUnavailable
from ninefold.core.protocols import Sandbox, SandboxRuntime
from ninefold.sandbox.memory import MemoryRuntime
from ninefold.sandbox.namespace import NamespaceRuntime


@pytest.fixture(scope="session")
def namespaces() -> Iterator[NamespaceRuntime]:
    runtime = NamespaceRuntime()
    try:
        runtime.check()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    yield runtime
    runtime.close()


@pytest.fixture(params=["memory", "namespace"])
def runtime(request: pytest.FixtureRequest) -> SandboxRuntime:
    return MemoryRuntime() if request.param == "memory" else request.getfixturevalue("namespaces")


@pytest.fixture
def box(namespaces: NamespaceRuntime) -> Iterator[Sandbox]:
    sandbox = namespaces.create()
    yield sandbox
    sandbox.close()
