"""The read-only file system that every sandbox sees: system libraries and Python, nothing of this host's own."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ninefold.sandbox import linux

WORK = "/work"
"""The working directory, the one place whose files belong to a sandbox and outlive an execution."""
PACKAGES = "/opt/packages"
"""Where Python packages of this host are seen that are not the interpreter's own."""
USER = 1000
"""User and group id inside."""

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_DEVICES = ("null", "zero", "full", "random", "urandom")
_ETC = ("/etc/alternatives", "/etc/ld.so.cache")
_PLACES = ("app", "logs", "tests", "solution")
"""Where Harbor's tasks look for their parts (spec 10): links into the working directory, from where they are seen at all."""
_OLD = "/.old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A place of this host to be shown inside."""

    path: str
    """Inside; the same outside, but for packages."""
    fd: int
    """O_PATH descriptor, so that the way there need not be open to the user who mounts it."""
    link: str | None
    """Target, where the place is a symbolic link: it is made again rather than followed."""


def sources(packages: str) -> list[Source]:
    """What of this host is shown, `packages` included unless empty. Call it within the new mount namespace, as the user who
    may see the most."""
    found: list[Source] = []
    for path in (*_SYSTEM, *_python(), *_ETC):
        if os.path.lexists(path):
            fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
            found.append(Source(path=path, fd=fd, link=str(Path(path).readlink()) if Path(path).is_symlink() else None))
    if packages:
        found.append(Source(path=PACKAGES, fd=os.open(packages, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), link=None))
    return found


def build(shown: Sequence[Source]) -> None:
    """Replace the root of this mount namespace; nothing of the old one stays reachable but what is `shown`, read-only."""
    linux.mount("none", "/", None, linux.MS_RECURSIVE | linux.MS_PRIVATE)
    linux.mount("tmpfs", "/tmp", "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755,size=1m")
    Path(f"/tmp{_OLD}").mkdir()
    linux.pivot_root("/tmp", f"/tmp{_OLD}")
    os.chdir("/")
    for folder in ("/dev", "/etc", "/opt/bin", "/proc", "/tmp", WORK):
        Path(folder).mkdir(parents=True)
    for source in shown:
        _show(source)
    for place in _PLACES:
        Path(f"/{place}").symlink_to(f"{WORK}/{place}")
    _write_accounts()
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    _mount_devices()
    linux.detach(_OLD)
    Path(_OLD).rmdir()
    linux.restrict_mounts("/", linux.ATTR_READ_ONLY | linux.ATTR_NOSUID)


def search_path() -> str:
    """PATH inside: this Python first, as `python` and `python3`."""
    return "/opt/bin:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def _python() -> tuple[str, ...]:
    """Programs and library of the interpreter; its prefix may lie in someone's home, the rest of which stays out."""
    prefixes = {sys.base_prefix, sys.base_exec_prefix, os.path.realpath(sys.base_prefix)}
    places = {f"{prefix}/{folder}" for prefix in prefixes for folder in ("bin", "lib", "lib64")}
    return tuple(sorted(place for place in places if not place.startswith("/usr/")))


def _show(source: Source) -> None:
    target = Path(source.path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.link is not None:
        target.symlink_to(source.link)
    else:
        old = Path(f"{_OLD}/proc/self/fd/{source.fd}")
        target.mkdir() if old.is_dir() else target.touch()
        linux.mount(str(old), source.path, None, linux.MS_BIND | linux.MS_RECURSIVE)
        linux.restrict_mounts(source.path, linux.ATTR_NODEV)
    os.close(source.fd)


def _write_accounts() -> None:
    for name in ("python", "python3"):
        Path(f"/opt/bin/{name}").symlink_to(sys.executable)
    etc = Path("/etc")
    (etc / "passwd").write_text(f"root:x:0:0::/:/bin/sh\nagent:x:{USER}:{USER}::{WORK}:/bin/sh\n")
    (etc / "group").write_text(f"root:x:0:\nagent:x:{USER}:\n")
    (etc / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")


def _mount_devices() -> None:
    linux.mount("tmpfs", "/dev", "tmpfs", linux.MS_NOSUID, "mode=755,size=64k")
    for name in _DEVICES:
        Path(f"/dev/{name}").touch()
        linux.mount(f"{_OLD}/dev/{name}", f"/dev/{name}", None, linux.MS_BIND)
    for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2", "shm": "/tmp"}.items():
        Path(f"/dev/{name}").symlink_to(target)
