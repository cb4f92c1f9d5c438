"""The user of this host that sandboxed programs run as and their files belong to."""

from __future__ import annotations

import os

_NOBODY = 65534


def owner_ids() -> tuple[int, int]:
    """(uid, gid): one's own, but never root's, which would lift the limit on processes and open root's files."""
    return (_NOBODY, _NOBODY) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
