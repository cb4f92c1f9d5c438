"""The Linux system calls that Python 3.11 has no function for. Each raises OSError naming the call."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

NEW_MOUNTS = 0x00020000
NEW_HOSTNAME = 0x04000000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_PIDS = 0x20000000
NEW_NETWORK = 0x40000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_RECURSIVE = 0x4000
MS_PRIVATE = 0x40000

ATTR_READ_ONLY = 0x1
ATTR_NOSUID = 0x2
ATTR_NODEV = 0x4

_DETACH = 2
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000
_SET_PDEATHSIG = 1
_SET_DUMPABLE = 4
_SET_NO_NEW_PRIVS = 38
_SET_CHILD_SUBREAPER = 36
_CAPABILITY_VERSION_3 = 0x20080522
_JOIN_SESSION_KEYRING = 1
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_BENEATH = 0x08

# Calls added since Linux 5.1 have one number on every architecture; keyctl does not.
_CLOSE_RANGE = 436
_OPENAT2 = 437
_MOUNT_SETATTR = 442
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}.get(platform.machine())

_SET_INTERFACE_FLAGS = 0x8914
_INTERFACE_UP = 0x41

_LIBC = ctypes.CDLL(None, use_errno=True)


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]


class _CapabilityHeader(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones; NEW_PIDS counts for the next child only."""
    _call("unshare", flags)


def setns(fd: int, kind: int) -> None:
    """Enter the namespace that `fd` stands for."""
    _call("setns", fd, kind)


def mount(source: str, target: str, kind: str | None, flags: int = 0, options: str | None = None) -> None:
    try:
        _call("mount", source.encode(), target.encode(), kind and kind.encode(), flags, options and options.encode())
    except OSError as error:
        raise OSError(error.errno, f"mount {kind or source} at {target}: {os.strerror(error.errno or 0)}") from None


def detach(target: str) -> None:
    """Unmount a whole tree, now for new look-ups and for good when nobody uses it."""
    _call("umount2", target.encode(), _DETACH)


def pivot_root(new: str, put_old: str) -> None:
    _call("pivot_root", new.encode(), put_old.encode())


def restrict_mounts(target: str, attributes: int) -> None:
    """Set ATTR_… on the mount at `target` and on every mount below it (Linux 5.12)."""
    attr = _MountAttr(set=attributes)
    path = ctypes.c_char_p(target.encode())
    _syscall("mount_setattr", _MOUNT_SETATTR, _AT_FDCWD, path, _AT_RECURSIVE, ctypes.byref(attr), ctypes.sizeof(attr))


def raise_loopback() -> None:
    """Let the processes of this network namespace reach each other by 127.0.0.1; a new namespace's loopback is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        fcntl.ioctl(link, _SET_INTERFACE_FLAGS, struct.pack("16sH22x", b"lo", _INTERFACE_UP))


def die_with_parent() -> None:
    """Be killed when the thread that made this process ends."""
    _call("prctl", _SET_PDEATHSIG, 9, 0, 0, 0)


def make_dumpable() -> None:
    """Let the files of /proc/self belong to the present user again after a change of user."""
    _call("prctl", _SET_DUMPABLE, 1, 0, 0, 0)


def hide_memory() -> None:
    """No process without more rights can trace this one, or read its memory, from here on."""
    _call("prctl", _SET_DUMPABLE, 0, 0, 0, 0)


def adopt_orphans() -> None:
    """Descendants whose parent ends become children of this process."""
    _call("prctl", _SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def no_new_privileges() -> None:
    """From here on no exec gives more rights: set-user-id programs run as plain ones."""
    _call("prctl", _SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def drop_capabilities() -> None:
    header = _CapabilityHeader(version=_CAPABILITY_VERSION_3, pid=0)
    nothing = (ctypes.c_uint32 * 6)()
    _call("capset", ctypes.byref(header), ctypes.byref(nothing))


def new_session_keyring() -> None:
    """Let go of the keys inherited from whoever started this process."""
    if _KEYCTL is None:
        raise OSError(f"keyctl: number unknown on {platform.machine()}")
    _syscall("keyctl", _KEYCTL, _JOIN_SESSION_KEYRING, None)


def close_from(first: int) -> None:
    """Close every descriptor from `first` on (Linux 5.9)."""
    _syscall("close_range", _CLOSE_RANGE, first, 0x7FFFFFFF, 0)


def open_beneath(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Open `path` below the folder descriptor; a link that leads out of the folder fails with EXDEV (Linux 5.6)."""
    how = _OpenHow(flags=flags | os.O_CLOEXEC, mode=mode, resolve=_RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS)
    name = ctypes.c_char_p(os.fsencode(path))
    return _syscall("openat2", _OPENAT2, folder, name, ctypes.byref(how), ctypes.sizeof(how))


@contextmanager
def file_access_as(uid: int, gid: int) -> Iterator[None]:
    """Within it this thread's file accesses are those of another user. Only root may ask for a user that is not itself."""
    old_uid, old_gid = os.geteuid(), os.getegid()
    if uid == old_uid and gid == old_gid:
        yield
        return
    _LIBC.setfsgid(gid)
    _LIBC.setfsuid(uid)
    try:
        yield
    finally:
        _LIBC.setfsuid(old_uid)
        _LIBC.setfsgid(old_gid)


def _call(name: str, *args: object) -> int:
    return _checked(name, getattr(_LIBC, name)(*args))


def _syscall(name: str, number: int, *args: object) -> int:
    longs = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    return _checked(name, _LIBC.syscall(ctypes.c_long(number), *longs))


def _checked(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result
