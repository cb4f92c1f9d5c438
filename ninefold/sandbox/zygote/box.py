"""The namespaces of one sandbox, and how a process enters them for good."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ninefold.sandbox import linux
from ninefold.sandbox.zygote.root import USER, WORK

_OWN = (("mnt", linux.NEW_MOUNTS), ("net", linux.NEW_NETWORK), ("ipc", linux.NEW_IPC))
_OPEN_FILES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespaces:
    """Open descriptors of a mount, a network and an IPC namespace."""

    fds: tuple[int, ...]

    @staticmethod
    def current() -> Namespaces:
        return Namespaces(fds=tuple(os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name, _ in _OWN))

    def enter(self) -> None:
        for fd, (_, kind) in zip(self.fds, _OWN):
            linux.setns(fd, kind)

    def join_network(self) -> None:
        """Enter the network namespace alone."""
        for fd, (_, kind) in zip(self.fds, _OWN):
            if kind == linux.NEW_NETWORK:
                linux.setns(fd, kind)

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


def create(home: Namespaces, *, megabytes: int, files: int, beside: Namespaces | None = None) -> tuple[Namespaces, int]:
    """New namespaces with an empty working directory in memory, and a descriptor of that directory. The network namespace has
    a loopback and nothing else; it is that of `beside` where given.

    The caller, who lives in `home`, is back there whatever happens.
    """
    linux.unshare(sum(kind for _, kind in _OWN))
    try:
        if beside is None:
            linux.raise_loopback()
        else:
            beside.join_network()
        flags = linux.MS_NOSUID | linux.MS_NODEV
        for path in (WORK, "/tmp"):
            linux.mount("tmpfs", path, "tmpfs", flags, f"mode=755,size={megabytes}m,nr_inodes={files}")
        return Namespaces.current(), os.open(WORK, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        home.enter()


def confine(box: Namespaces, limits: Mapping[str, Any]) -> None:
    """Put this process, the first of a new process namespace, into the sandbox: no way back, no rights, bounded.

    `limits` are the fields of `ExecLimits`.
    """
    box.enter()
    linux.unshare(linux.NEW_MOUNTS)
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    os.chdir(WORK)
    os.setsid()
    linux.new_session_keyring()
    linux.unshare(linux.NEW_USER)
    # A user namespace of its own gives each execution its own count of processes, and no rights over the sandbox's mounts.
    _write("/proc/self/setgroups", b"deny")
    _write("/proc/self/uid_map", b"%d 0 1" % USER)
    _write("/proc/self/gid_map", b"%d 0 1" % USER)
    _write("/proc/sys/user/max_user_namespaces", b"0")
    mib = 1 << 20
    _limit(resource.RLIMIT_AS, int(limits["address_mb"] or limits["memory_mb"]) * mib)
    _limit(resource.RLIMIT_FSIZE, int(limits["files_mb"]) * mib)
    _limit(resource.RLIMIT_NPROC, int(limits["processes"]))
    # The wall clock of the caller comes first; this one holds even if the caller is stopped.
    _limit(resource.RLIMIT_CPU, int(limits["seconds"]) + 2)
    _limit(resource.RLIMIT_CORE, 0)
    linux.no_new_privileges()
    linux.drop_capabilities()


def keep_only(descriptors: Sequence[int]) -> None:
    """Make `descriptors` numbers 0, 1, … and close every other one."""
    parked = [os.dup(fd) for fd in descriptors]
    for number, fd in enumerate(parked):
        os.dup2(fd, number)
    linux.close_from(len(parked))
    _limit(resource.RLIMIT_NOFILE, _OPEN_FILES)


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (bound, bound))


def _write(path: str, text: bytes) -> None:
    fd = os.open(path, os.O_WRONLY)
    os.write(fd, text)
    os.close(fd)
