"""A process of our own without network, whose files are read-only and whose children live in process trees of their own.

For trusted code that judges untrusted work; programs that are not trusted belong in a sandbox.
"""

from __future__ import annotations

import os
from pathlib import Path

from ninefold.sandbox import linux

_SCRATCH = "/dev/shm"


class Seclusion:
    """The state of a secluded process."""

    def __init__(self, pids: int) -> None:
        """`pids` is a descriptor of the process namespace that this process lives in."""
        self._pids = pids

    @staticmethod
    def enter() -> Seclusion:
        """Seclude this process, which must have one thread: return as the first process of new namespaces, while the one that
        was here waits for it and ends with it. It keeps a loopback device, and `TMPDIR`, which lies in memory.

        Raises OSError where the kernel refuses; what was done by then stays.
        """
        _unshare(linux.NEW_MOUNTS | linux.NEW_NETWORK | linux.NEW_IPC | linux.NEW_PIDS)
        if child := os.fork():
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xFF)
        linux.die_with_parent()
        linux.mount("none", "/", None, linux.MS_RECURSIVE | linux.MS_PRIVATE)
        linux.restrict_mounts("/", linux.ATTR_READ_ONLY)
        _mount_processes()
        linux.mount("tmpfs", _SCRATCH, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=1777,size=512m")
        os.environ["TMPDIR"] = _SCRATCH
        linux.raise_loopback()
        return Seclusion(os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC))

    def fork(self) -> int:
        """As os.fork, but the child is the first process of a namespace, so that all its descendants die with it."""
        linux.unshare(linux.NEW_PIDS)
        pid = -1
        try:
            pid = os.fork()
        finally:
            if pid != 0:
                linux.setns(self._pids, linux.NEW_PIDS)
        if pid == 0:
            linux.die_with_parent()
            linux.unshare(linux.NEW_MOUNTS)
            _mount_processes()
        return pid


def _mount_processes() -> None:
    """Show the processes of this namespace in place of the outer one's."""
    linux.mount("proc", "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)


def _unshare(kinds: int) -> None:
    """Whoever is not root needs a user namespace for it, in which it stays who it is."""
    if os.geteuid() == 0:
        linux.unshare(kinds)
        return
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(kinds | linux.NEW_USER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
