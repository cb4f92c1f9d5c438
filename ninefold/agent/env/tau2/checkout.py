"""Where tau2-bench lies, and the program that runs its domains."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Lock

from ninefold.core.errors import SandboxUnavailable, UserError
from ninefold.core.guest import Guest

PLACE, PYTHON = "NINEFOLD_TAU2", "NINEFOLD_TAU2_PYTHON"
"""Environment variables: the checkout, and the interpreter that has what its domains import."""
HOST = Path(__file__).with_name("host.py")

_guest: Guest | None = None
_lock = Lock()


def place() -> tuple[Path, Path]:
    """(checkout, interpreter): what the environment names, or where `make referees` puts them."""
    checkout = Path(os.environ.get(PLACE, "runs/referees/tau2")).absolute()
    return checkout, Path(os.environ.get(PYTHON, "runs/referees/tau2-env/bin/python")).absolute()


def lacks() -> str | None:
    """What is missing, in a sentence; None where tau2 can run."""
    checkout, python = place()
    if not (checkout / "src" / "tau2" / "domains").is_dir():
        return f"no checkout of tau2-bench at {checkout}: clone sierra-research/tau2-bench there, or set {PLACE}"
    if not python.exists():
        return f"no interpreter at {python}: `make referees` makes it, or set {PYTHON} to one that has tau2's dependencies"
    return None


def check_domain(domain: str) -> None:
    """Raise UserError where the checkout has no such domain, SandboxUnavailable where there is no checkout."""
    if missing := lacks():
        raise SandboxUnavailable(missing)
    domains = place()[0] / "src" / "tau2" / "domains"
    found = sorted(path.parent.name for path in domains.glob("*/environment.py"))
    if domain not in found:
        raise UserError(f"there is no domain {domain!r} in {domains}; there are {', '.join(found) or 'none'}")


def guest() -> Guest:
    """The one program of this process; started again where it has ended. Raises SandboxUnavailable."""
    global _guest
    with _lock:
        if _guest is None or not _guest.alive:
            if missing := lacks():
                raise SandboxUnavailable(missing)
            checkout, python = place()
            _guest = Guest(python, str(HOST), str(checkout), at=checkout)
        return _guest
