"""What to do where this machine refuses to isolate."""

from __future__ import annotations

import platform
import re
from pathlib import Path

_OLDEST = (5, 14)

_SETTINGS = {
    "kernel/unprivileged_userns_clone": ("0", "run `sysctl -w kernel.unprivileged_userns_clone=1` as root"),
    "kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "run `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` as root, or give this Python an AppArmor profile "
        "that allows userns",
    ),
    "user/max_user_namespaces": ("0", "run `sysctl -w user.max_user_namespaces=10000` as root"),
}


def advice() -> str:
    """The settings of this machine that stand in the way, each with its remedy."""
    if platform.system() != "Linux":
        return "sandboxes need Linux 5.14 or newer; run inside a Linux machine or virtual machine"
    found: list[str] = []
    version = re.match(r"(\d+)\.(\d+)", platform.release())
    if version is not None and (int(version[1]), int(version[2])) < _OLDEST:
        found.append(f"the kernel is {platform.release()}; sandboxes need Linux 5.14 or newer")
    for name, (bad, remedy) in _SETTINGS.items():
        setting = Path("/proc/sys") / name
        if setting.exists() and setting.read_text().strip() == bad:
            found.append(remedy)
    if not found and (Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()):
        found.append(
            "a container's own rules may refuse it: start it with --security-opt seccomp=unconfined "
            "--security-opt systempaths=unconfined (Docker, Podman)"
        )
    return "; ".join(found) or "user namespaces must be allowed to this user (see `unshare -Ur true`)"
