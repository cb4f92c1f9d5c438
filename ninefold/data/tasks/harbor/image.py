"""What an environment's Dockerfile puts where, as far as no container has to be built for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath

from ninefold.core.errors import UserError
from ninefold.core.text import read_text, split_words
from ninefold.sandbox.archive import Entry

PLACES = ("app", "logs", "tests", "solution")
"""Top folders that a sandbox has under Harbor's names, below its working directory."""
_IGNORED = ("FROM", "LABEL", "MAINTAINER", "EXPOSE", "CMD", "ENTRYPOINT", "USER", "SHELL", "STOPSIGNAL", "HEALTHCHECK", "ARG")
_HARMLESS = re.compile(r"(useradd|groupadd|adduser|chown|chmod|mkdir)\b")
_PIP = re.compile(r"(python3? -m )?pip3? install\b")


@dataclass(slots=True, kw_only=True)
class Image:
    """A Dockerfile as files and settings."""

    workdir: str = "/app"
    files: list[Entry] = field(default_factory=list[Entry])
    """Paths relative to the sandbox's working directory."""
    environment: dict[str, str] = field(default_factory=dict[str, str])


def read_image(folder: Path) -> Image:
    """The image of an `environment` folder. Raises UserError at whatever only a container build could do."""
    file, image = folder / "Dockerfile", Image()
    if not file.is_file():
        raise UserError(f"{folder} has no Dockerfile; compose files and prebuilt images need a container engine")
    for number, words, rest in _instructions(read_text(file)):
        where = f"{file}, line {number}"
        match words:
            case "WORKDIR":
                image.workdir = str(PurePosixPath(image.workdir) / rest.strip())
                inside(image.workdir)
            case "ENV":
                pairs = split_words(rest, where)
                plain = pairs if all("=" in pair for pair in pairs) else ["=".join(rest.split(None, 1))]
                image.environment |= dict(pair.split("=", 1) for pair in plain)
            case "COPY" | "ADD":
                image.files += _copied(folder, image.workdir, rest, where)
            case "RUN":
                _check_run(rest, where)
            case _ if words in _IGNORED:
                continue
            case _:
                raise UserError(f"{where}: {words} needs a container build")
    return image


def inside(path: str) -> str:
    """Where an absolute path of Harbor's lies below the sandbox's working directory. Raises UserError for any other place."""
    parts = PurePosixPath(path).parts
    if len(parts) < 2 or parts[0] != "/" or ".." in parts or parts[1] not in PLACES:
        raise UserError(f"{path} is outside of /{', /'.join(PLACES)}, the places that a sandbox can write to")
    return str(PurePosixPath(*parts[1:]))


def entries_of(folder: Path, target: str) -> list[Entry]:
    """The regular files below `folder` (or that file) as they are to stand at `target`, relative to the working directory."""
    found = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else [folder]
    place = PurePosixPath(target)
    return [
        Entry(
            path=str(place / path.relative_to(folder)) if folder.is_dir() else target,
            kind="file",
            mode=path.stat().st_mode & 0o777,
            data=path.read_bytes(),
        )
        for path in found
    ]


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """(line, instruction, the rest of it), comments and continuations resolved."""
    pending, begun = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or not (line.strip() or pending):
            continue
        begun = begun if pending else number
        pending += line.strip().removesuffix("\\") + " "
        if not line.rstrip().endswith("\\"):
            words, _, rest = pending.strip().partition(" ")
            yield begun, words.upper(), rest
            pending = ""


def _copied(folder: Path, workdir: str, rest: str, where: str) -> list[Entry]:
    words = [word for word in split_words(rest, where) if not word.startswith(("--chown=", "--chmod="))]
    if len(words) < 2 or words[0].startswith(("--", "[")):
        raise UserError(f"{where}: only `COPY FROM… TO` with files of {folder} is understood")
    *sources, target = words
    place = inside(str(PurePosixPath(workdir) / target))
    found: list[Entry] = []
    for source in sources:
        path = (folder / source.lstrip("/")).resolve()
        if not path.is_relative_to(folder.resolve()) or not path.exists():
            raise UserError(f"{where}: there is no {source} in {folder}")
        folderlike = target.endswith(("/", ".")) or len(sources) > 1
        found += entries_of(path, place if path.is_dir() or not folderlike else f"{place}/{path.name}")
    return found


def _check_run(rest: str, where: str) -> None:
    """Pass what makes users and folders, and pip where this interpreter has the packages already."""
    for command in re.split(r"&&|;", rest):
        command = command.strip()
        if _HARMLESS.match(command):
            continue
        if not _PIP.match(command):
            raise UserError(f"{where}: `{command[:60]}` needs a container build, which is not to be had here")
        words = split_words(command, where)
        for word in words[words.index("install") + 1 :]:
            name = re.split(r"[=<>~!\[]", word)[0]
            try:
                version(name) if not word.startswith("-") else None
            except PackageNotFoundError:
                raise UserError(f"{where}: the package {name} is not installed beside ninefold; pip install it") from None
