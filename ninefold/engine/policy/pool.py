"""One pool of pages for everything that is cached: who holds a page, and which one goes when room is needed (spec 07)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable


class PagePool:
    """Pages of one size in bytes, by number: each is free, pinned, or kept, or both of the last; only what is kept and not
    pinned makes room, the least recently used first."""

    def __init__(self, pages: int, evict: Callable[[int], None]) -> None:
        """`evict` is told which kept page must go; it gives up that page and whatever is of no use without it."""
        self.pins = [0] * pages
        """[pages] how many hold each."""
        self._kept = [False] * pages
        self._free = list(range(pages - 1, -1, -1))
        self._idle: OrderedDict[int, None] = OrderedDict()
        """Kept and not pinned, least recently used first."""
        self._evict = evict

    @property
    def free(self) -> int:
        """Pages that hold nothing."""
        return len(self._free)

    @property
    def idle(self) -> int:
        """Pages that would make room."""
        return len(self._idle)

    def allocate(self, count: int) -> tuple[int, ...] | None:
        """So many pages, pinned once each; None, and nothing is evicted, where there cannot be so many."""
        if count > len(self._free) + len(self._idle):
            return None
        while len(self._free) < count:
            self._evict(next(iter(self._idle)))
        pages = tuple(self._free.pop() for _ in range(count))
        self.pin(pages)
        return pages

    def pin(self, pages: Iterable[int]) -> None:
        """Nothing that is pinned is evicted."""
        for page in pages:
            self.pins[page] += 1
            self._idle.pop(page, None)

    def unpin(self, pages: Iterable[int]) -> None:
        """Undo one `pin`; the last one becomes the most recently used, or free where nobody keeps it."""
        for page in pages:
            assert self.pins[page] > 0, f"page {page} is not pinned"
            self.pins[page] -= 1
            self._settle(page)

    def keep(self, pages: Iterable[int]) -> None:
        """Pinned pages stay after their last `unpin`, until they are evicted or given up."""
        for page in pages:
            assert self.pins[page] > 0, f"page {page} is not pinned"
            self._kept[page] = True

    def give_up(self, pages: Iterable[int]) -> None:
        """Kept pages are kept no more."""
        for page in pages:
            assert self._kept[page], f"page {page} is not kept"
            self._kept[page] = False
            self._idle.pop(page, None)
            self._settle(page)

    def _settle(self, page: int) -> None:
        if self.pins[page]:
            return
        if self._kept[page]:
            self._idle[page] = None
        else:
            self._free.append(page)
