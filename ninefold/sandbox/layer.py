"""The writable layer of a sandbox, reached from outside through a descriptor of its working directory.

No path of the host is ever formed, and no link is followed out of the layer: every look-up is openat2 with RESOLVE_BENEATH,
made as the user that the sandbox runs as.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath

from ninefold.core.errors import SandboxError, UserError
from ninefold.sandbox import linux
from ninefold.sandbox.archive import Entry, Kind, layer_path
from ninefold.sandbox.owner import owner_ids

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# A pipe without a partner would block the one who opens it.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_WRITE = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CREAT
_KINDS: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo"}


class Layer:
    """Files below one directory descriptor, which it owns."""

    def __init__(self, folder: int, *, limit_bytes: int) -> None:
        """`limit_bytes` bounds what is read out of the layer at once: files full of holes look larger than they are."""
        self._folder = folder
        self._limit = limit_bytes

    def close(self) -> None:
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    def read(self, path: str) -> bytes:
        """Raises FileNotFoundError, also where a link leads out of the layer or no file that can be read stands there."""
        path = layer_path(path)
        with self._access(path):
            try:
                fd = linux.open_beneath(self._folder, path, _READ)
            except OSError as error:
                raise FileNotFoundError(errno.ENOENT, f"no file of the sandbox ({error.strerror})", path) from error
            return self._content(fd, path)

    def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Parents are made. Raises UserError where the path is unusable or the layer is full."""
        path = layer_path(path)
        with self._access(path):
            self._make_folders(PurePosixPath(path).parent)
            fd = linux.open_beneath(self._folder, path, _WRITE, mode)
            with os.fdopen(fd, "wb") as file:
                if not stat.S_ISREG(os.fstat(fd).st_mode):
                    raise UserError(f"{path!r} in the sandbox is no regular file; remove it first or choose another name")
                file.truncate()
                file.write(data)

    def pipe(self, path: str) -> int:
        """Open a FIFO for reading and writing at once, so that nobody waits for the other end. Raises FileNotFoundError."""
        path = layer_path(path)
        with self._access(path):
            fd = linux.open_beneath(self._folder, path, os.O_RDWR | os.O_NONBLOCK)
            if not stat.S_ISFIFO(os.fstat(fd).st_mode):
                os.close(fd)
                raise FileNotFoundError(errno.ENOENT, "no FIFO of the sandbox", path)
            return fd

    def entries(self) -> list[Entry]:
        """Everything in the layer but sockets, which mean nothing without their process. Raises SandboxError over the limit."""
        found: list[Entry] = []
        try:
            with self._access("the working directory"):
                mode = stat.S_IMODE(os.fstat(self._folder).st_mode)
                os.fchmod(self._folder, mode | stat.S_IRWXU)
                try:
                    self._walk(os.open(".", _FOLDER, dir_fd=self._folder), "", found)
                finally:
                    os.fchmod(self._folder, mode)
        except UserError as error:
            raise SandboxError(f"cannot export: {error}") from error
        return found

    def add(self, entries: Sequence[Entry]) -> None:
        """Put `entries` into an empty layer; a folder gets its permissions after its content."""
        for entry in entries:
            with self._access(entry.path):
                self._add(entry)
        for entry in reversed(entries):
            if entry.kind == "folder":
                with self._access(entry.path), self._opened(entry.path, _FOLDER) as fd:
                    os.fchmod(fd, entry.mode)

    def _add(self, entry: Entry) -> None:
        path = PurePosixPath(entry.path)
        if entry.kind == "folder":
            self._make_folders(path)
            return
        self._make_folders(path.parent)
        if entry.kind == "file":
            self.write(entry.path, entry.data)
            with self._opened(entry.path, _READ) as fd:
                os.fchmod(fd, entry.mode)
            return
        with self._opened(str(path.parent), _FOLDER) as parent:
            if entry.kind == "link":
                os.symlink(entry.target, path.name, dir_fd=parent)
            else:
                os.mkfifo(path.name, entry.mode, dir_fd=parent)

    def _walk(self, folder: int, prefix: str, found: list[Entry]) -> None:
        """Append what lies in `folder`, which is closed at the end."""
        try:
            for name in sorted(os.listdir(folder)):
                path = f"{prefix}{name}"
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                mode = stat.S_IMODE(status.st_mode)
                kind = _kind(status.st_mode)
                if kind == "link":
                    found.append(Entry(path=path, kind=kind, mode=0o777, target=os.readlink(name, dir_fd=folder)))
                elif kind == "fifo":
                    found.append(Entry(path=path, kind=kind, mode=mode))
                elif kind == "folder":
                    found.append(Entry(path=path, kind=kind, mode=mode))
                    with _unlocked(name, folder, mode, stat.S_IRWXU):
                        self._walk(linux.open_beneath(folder, name, _FOLDER), f"{path}/", found)
                elif kind == "file":
                    with _unlocked(name, folder, mode, stat.S_IRUSR):
                        fd = linux.open_beneath(folder, name, _READ | os.O_NOFOLLOW)
                    found.append(Entry(path=path, kind=kind, mode=mode, data=self._content(fd, path)))
                    self._check_total(found)
        finally:
            os.close(folder)

    def _content(self, fd: int, path: str) -> bytes:
        """Content of an open file, which is closed."""
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(fd)
            raise FileNotFoundError(errno.ENOENT, "no file of the sandbox (something else stands there)", path)
        with os.fdopen(fd, "rb") as file:
            if status.st_size > self._limit:
                raise UserError(f"{path!r} in the sandbox has {status.st_size:,} bytes, over the limit of {self._limit:,}")
            return file.read()

    def _check_total(self, found: Sequence[Entry]) -> None:
        total = sum(len(entry.data) for entry in found)
        if total > self._limit:
            raise UserError(f"the sandbox's files have {total:,} bytes or more, over the limit of {self._limit:,}")

    def _make_folders(self, path: PurePosixPath) -> None:
        for folder in [*reversed(path.parents), path]:
            if not folder.parts:
                continue
            try:
                os.close(linux.open_beneath(self._folder, str(folder), os.O_PATH | os.O_DIRECTORY))
            except FileNotFoundError:
                with self._opened(str(folder.parent), os.O_PATH | os.O_DIRECTORY) as parent:
                    os.mkdir(folder.name, 0o755, dir_fd=parent)

    @contextmanager
    def _opened(self, path: str, flags: int) -> Iterator[int]:
        fd = linux.open_beneath(self._folder, path, flags)
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def _access(self, what: str) -> Iterator[None]:
        """Act as the sandbox's user, and say in our own terms what the kernel refuses."""
        if self._folder < 0:
            raise SandboxError("the sandbox is closed")
        try:
            with linux.file_access_as(*owner_ids()):
                yield
        except FileNotFoundError:
            raise
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            remedy = "remove files first" if full else "choose another path"
            raise UserError(f"{what!r} in the sandbox: {error.strerror}; {remedy}") from error


@contextmanager
def _unlocked(name: str, folder: int, mode: int, needed: int) -> Iterator[None]:
    """Within it a file has the `needed` permission bits, which its owner may have taken from itself."""
    if mode & needed == needed:
        yield
        return
    os.chmod(name, mode | needed, dir_fd=folder)
    try:
        yield
    finally:
        os.chmod(name, mode, dir_fd=folder)


def _kind(mode: int) -> Kind | None:
    return _KINDS.get(stat.S_IFMT(mode))
