"""ninefold's namespace sandbox as an environment of Harbor's.

    harbor run --env ninefold.data.tasks.harbor.environment:NamespaceEnvironment …

For the interpreter that runs Harbor (Python ≥ 3.12) with ninefold on its path; nothing else imports this module. Every
command is a process tree of its own, which is dead when it has ended, so that nothing of an agent's lives on while it is
judged. There is no network, one user, and no container build: tasks that need more are refused before they start.
"""

from __future__ import annotations

import asyncio
import json
import sysconfig
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult  # pyright: ignore[reportMissingImports]
from harbor.environments.capabilities import EnvironmentCapabilities  # pyright: ignore[reportMissingImports]

from ninefold.core.errors import UserError
from ninefold.core.protocols import ExecLimits
from ninefold.core.records import task_of
from ninefold.data.tasks.harbor.image import PLACES, Image, entries_of, inside, read_image
from ninefold.data.tasks.harbor.layout import CALLS, WORLD
from ninefold.data.tasks.harbor.served import ServedWorld, door
from ninefold.sandbox.archive import Entry, pack, unpack
from ninefold.sandbox.namespace import NamespaceConfig, NamespaceRuntime, NamespaceSandbox
from ninefold.sandbox.zygote.root import PACKAGES

LIMITS = ExecLimits(seconds=600.0, memory_mb=2048, output_bytes=1 << 20, processes=256, files_mb=64)
"""Of a command that states none."""
_TIMED_OUT, _KILLED = 124, 137


class NamespaceEnvironment(BaseEnvironment):
    """One sandbox. /app, /logs, /tests and /solution are all that can be written to."""

    _sandbox: NamespaceSandbox
    _image: Image

    def __init__(self, *args: Any, offline: bool = False, **kwargs: Any) -> None:
        """`offline` (`--ek offline=true`) runs tasks that allow a network without one instead of refusing them."""
        self._offline = offline
        self._served: ServedWorld | None = None
        # The verifiers' libraries are shown to every program, read-only, as an image with the same packages would.
        self._runtime = NamespaceRuntime(NamespaceConfig(packages=sysconfig.get_paths()["purelib"]))
        super().__init__(*args, **kwargs)

    @staticmethod
    def type() -> str:
        return "ninefold-namespace"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        self._image = read_image(self.environment_dir)
        if self._network_policy.network_mode.value != "no-network" and not self._offline:
            raise UserError(
                f"{self.environment_name} asks for network_mode {self._network_policy.network_mode.value!r}, sandboxes have "
                "none; `--ek offline=true` runs it without"
            )

    async def start(self, force_build: bool) -> None:
        """A fresh sandbox with what the image holds."""
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        folders = [*PLACES, "logs/agent", "logs/verifier", "logs/artifacts", inside(self._image.workdir)]
        entries = [*(Entry(path=path, kind="folder", mode=0o755) for path in folders), *self._image.files]
        world = self.environment_dir / WORLD
        if world.exists():
            entries += door()
        self._sandbox = self._runtime.restore(pack({entry.path: entry for entry in entries}.values()))
        if world.exists():
            self._served = ServedWorld(task_of(json.loads(world.read_text())), self._sandbox, self._runtime)

    async def stop(self, delete: bool) -> None:
        await asyncio.to_thread(self._stop)

    def _stop(self) -> None:
        if self._served is not None:
            self._served.close()
            self._served = None
        self._runtime.close()

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run a shell command; its processes are dead when this returns. There is one user, whoever is named."""
        settings = {"PYTHONPATH": PACKAGES, **self._image.environment, **(self._merge_env(env) or {})}
        lines = [f"export {name}={quote(value)}" for name, value in settings.items()]
        script = "\n".join(
            [*lines, f"cd {quote(cwd or self.task_env_config.workdir or self._image.workdir)} || exit 1", command]
        )
        limits = LIMITS if timeout_sec is None else _within(float(timeout_sec))
        ended = await asyncio.to_thread(self._sandbox.run, ["bash", "-c", script], limits=limits)
        code = ended.exit_code if ended.exit_code is not None else _TIMED_OUT if ended.reason == "timeout" else _KILLED
        return ExecResult(stdout=ended.stdout, stderr=ended.stderr, return_code=code)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        await asyncio.to_thread(self._upload, Path(source_path), target_path)

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        await asyncio.to_thread(self._upload, Path(source_dir), target_dir)

    def _upload(self, source: Path, target: str) -> None:
        for entry in entries_of(source, inside(target)):
            self._sandbox.write(entry.path, entry.data)
        if inside(target) == "tests" and self._served is not None:
            # The agent is gone; whatever it left there, the calls are those that were really made.
            self._sandbox.write(f"tests/{CALLS}", json.dumps(self._served.close()).encode())
            self._served = None

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        data = await asyncio.to_thread(self._sandbox.read, inside(source_path))
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        Path(target_path).write_bytes(data)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        await asyncio.to_thread(self._download, inside(source_dir), Path(target_dir))

    def _download(self, place: str, target: Path) -> None:
        """Regular files alone: a link means nothing outside."""
        target.mkdir(parents=True, exist_ok=True)
        for entry in unpack(self._sandbox.export()):
            if entry.kind == "file" and entry.path.startswith(f"{place}/"):
                file = target / entry.path.removeprefix(f"{place}/")
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(entry.data)


def _within(seconds: float) -> ExecLimits:
    return replace(LIMITS, seconds=seconds)
