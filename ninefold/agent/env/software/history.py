"""A git repository of one commit, made from nothing: no other commit, reflog, pack or remote in which a solution could lie.

Written without git, so that equal files give equal bytes on every machine; git reads it as its own.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Mapping
from pathlib import PurePosixPath

_FILE, _FOLDER = 0o100644, 0o40000
_WHO = "nobody <nobody@invalid> 0 +0000"
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tfilemode = false\n\tbare = false\n"
_FOREIGN = ("packed-refs", "logs/", "refs/remotes/", "refs/tags/", "objects/pack/", "ORIG_HEAD", "FETCH_HEAD", "refs/stash")
"""Where a repository keeps what is not its own single commit."""


def orphan(files: Mapping[str, str], message: str) -> dict[str, bytes]:
    """Path below `.git` → content, of a repository whose only commit holds `files`, checked out."""
    objects: dict[str, bytes] = {}
    tree = _tree({PurePosixPath(path).parts: text for path, text in files.items()}, objects)
    commit = _add(objects, "commit", f"tree {tree}\nauthor {_WHO}\ncommitter {_WHO}\n\n{message}\n".encode())
    return {
        "HEAD": b"ref: refs/heads/main\n",
        "config": _CONFIG.encode(),
        "refs/heads/main": f"{commit}\n".encode(),
        "index": _index(files),
        **{_place(name): data for name, data in objects.items()},
    }


def leaks(git: Mapping[str, bytes], gold: Mapping[str, str]) -> list[str]:
    """Paths that are more than one commit, or that hold the text of one of these files; empty where there are none."""
    found = [path for path in git if path.startswith(_FOREIGN)]
    commits = [path for path in git if _is_object(path) and zlib.decompress(git[path]).startswith(b"commit ")]
    found += commits[1:]
    return found + [path for path, text in gold.items() if _place(blob_name(text)) in git]


def blob_name(text: str) -> str:
    """Name of the object that holds a file of this text."""
    return _name("blob", text.encode())


def _tree(files: Mapping[tuple[str, ...], str], objects: dict[str, bytes]) -> str:
    """Name of the tree object of files by the parts of their paths; it and all below go into `objects`."""
    entries: list[tuple[str, int, str]] = []
    for name in sorted({parts[0] for parts in files}):
        if (name,) in files:
            entries.append((name, _FILE, _add(objects, "blob", files[name,].encode())))
        else:
            below = {parts[1:]: text for parts, text in files.items() if parts[0] == name}
            entries.append((name, _FOLDER, _tree(below, objects)))
    # git sorts folders as if their names ended in a slash.
    entries.sort(key=lambda entry: entry[0] + "/" * (entry[1] == _FOLDER))
    return _add(objects, "tree", b"".join(f"{mode:o} {name}\0".encode() + bytes.fromhex(id) for name, mode, id in entries))


def _index(files: Mapping[str, str]) -> bytes:
    """The index (version 2) with sizes and times of zero, at which git looks at the content itself."""
    data = struct.pack(">4sLL", b"DIRC", 2, len(files))
    for path in sorted(files, key=str.encode):
        name = path.encode()
        blob = bytes.fromhex(blob_name(files[path]))
        entry = struct.pack(">10L20sH", *[0] * 6, _FILE, *[0] * 3, blob, len(name)) + name
        data += entry + b"\0" * (8 - len(entry) % 8)
    return data + hashlib.sha1(data, usedforsecurity=False).digest()


def _add(objects: dict[str, bytes], kind: str, data: bytes) -> str:
    name = _name(kind, data)
    objects[name] = zlib.compress(_headed(kind, data))
    return name


def _name(kind: str, data: bytes) -> str:
    return hashlib.sha1(_headed(kind, data), usedforsecurity=False).hexdigest()


def _headed(kind: str, data: bytes) -> bytes:
    return f"{kind} {len(data)}\0".encode() + data


def _place(name: str) -> str:
    return f"objects/{name[:2]}/{name[2:]}"


def _is_object(path: str) -> bool:
    parts = path.split("/")
    return len(parts) == 3 and parts[0] == "objects" and len(parts[1]) == 2
