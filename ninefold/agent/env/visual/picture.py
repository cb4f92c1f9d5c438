"""Pictures for programs in the sandbox, with nothing but the standard library: load, change, measure, show.

    show(load("a.png").crop(0, 0, 64, 48).zoom(4))   pictures that are shown come back to whoever ran the program
    look("top left")                                 the same of a quarter of a.png, as it is

Boxes are left, top, right, bottom in pixels, the right and lower edge outside; colours are (red, green, blue).
"""

from __future__ import annotations

import os
import re
import struct
import zlib

SHOWN = 4
"""Pictures that one program may show."""
FOLDER = "shown"
"""Where pictures wait to be taken to whoever looks at them."""
_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_shown = 0


class Picture:
    """Width, height and the red, green and blue bytes of each pixel, row by row."""

    def __init__(self, width: int, height: int, data: bytes) -> None:
        if width < 1 or height < 1 or len(data) != 3 * width * height:
            raise ValueError(f"{len(data)} bytes are no picture of {width}x{height}")
        self.width, self.height, self.data = width, height, bytes(data)

    def __repr__(self) -> str:
        return f"Picture {self.width}x{self.height}"

    def at(self, x: int, y: int) -> tuple[int, int, int]:
        """The colour of a pixel."""
        if not (0 <= x < self.width and 0 <= y < self.height):
            raise ValueError(f"({x}, {y}) is outside of {self.width}x{self.height}")
        place = 3 * (y * self.width + x)
        red, green, blue = self.data[place : place + 3]
        return red, green, blue

    def crop(self, left: int, top: int, right: int, bottom: int) -> Picture:
        """The part inside a box; what of it lies outside of the picture is left out."""
        left, top = max(0, left), max(0, top)
        right, bottom = min(self.width, right), min(self.height, bottom)
        if left >= right or top >= bottom:
            raise ValueError(f"nothing of {self.width}x{self.height} lies in that box")
        rows = (self._row(y)[3 * left : 3 * right] for y in range(top, bottom))
        return Picture(right - left, bottom - top, b"".join(rows))

    def zoom(self, times: int) -> Picture:
        """Each pixel as a square of `times` pixels a side."""
        wide = bytearray(3 * self.width * times)
        rows: list[bytes] = []
        for y in range(self.height):
            row = self._row(y)
            for channel in range(3):
                for n in range(times):
                    wide[channel + 3 * n :: 3 * times] = row[channel::3]
            rows.append(bytes(wide) * times)
        return Picture(self.width * times, self.height * times, b"".join(rows))

    def shrink(self, times: int) -> Picture:
        """Every `times`-th pixel of every `times`-th row."""
        rows = [self._planes(self._row(y), slice(None, None, times)) for y in range(0, self.height, times)]
        return Picture(len(rows[0]) // 3, len(rows), b"".join(rows))

    def mirror(self) -> Picture:
        """Left and right exchanged."""
        rows = (self._planes(self._row(y), slice(None, None, -1)) for y in range(self.height))
        return Picture(self.width, self.height, b"".join(rows))

    def turn(self, quarters: int = 1) -> Picture:
        """Turned clockwise by so many quarters."""
        picture = self
        for _ in range(quarters % 4):
            picture = picture._turned()
        return picture

    def difference(self, other: Picture) -> Picture:
        """This picture where the other one differs, white elsewhere."""
        if (self.width, self.height) != (other.width, other.height):
            raise ValueError(f"{self!r} and {other!r} differ in size")
        channels = [_differ(self.data[c::3], other.data[c::3]) for c in range(3)]
        mask = _join(channels, any_of=True)
        data = bytearray(b"\xff" * len(self.data))
        for run in re.finditer(rb"\x01+", mask):
            start, end = 3 * run.start(), 3 * run.end()
            data[start:end] = self.data[start:end]
        return Picture(self.width, self.height, bytes(data))

    def only(self, colour: tuple[int, int, int], near: int = 40) -> Picture:
        """Black where a pixel has about that colour, each channel within `near`, white elsewhere."""
        mask = self._mask(colour, near).translate(bytes([255, 0]) + bytes(254))
        data = bytearray(len(self.data))
        for channel in range(3):
            data[channel::3] = mask
        return Picture(self.width, self.height, bytes(data))

    def spots(self, colour: tuple[int, int, int], near: int = 40) -> list[tuple[int, int, int, int]]:
        """Boxes of the connected areas of about that colour, from above."""
        mask = self._mask(colour, near)
        parents: list[int] = []
        boxes: list[tuple[int, int, int, int]] = []
        above: list[tuple[int, int, int]] = []
        for y in range(self.height):
            here: list[tuple[int, int, int]] = []
            for found in re.finditer(rb"\x01+", mask[y * self.width : (y + 1) * self.width]):
                start, end = found.span()
                run = len(parents)
                parents.append(run)
                boxes.append((start, y, end, y + 1))
                for left, right, other in above:
                    if left <= end and start <= right:
                        parents[_root(parents, other)] = _root(parents, run)
                here.append((start, end, run))
            above = here
        merged: dict[int, tuple[int, int, int, int]] = {}
        for run, box in enumerate(boxes):
            root = _root(parents, run)
            left, top, right, bottom = merged.get(root, box)
            merged[root] = min(left, box[0]), min(top, box[1]), max(right, box[2]), max(bottom, box[3])
        return sorted(merged.values(), key=lambda box: (box[1], box[0]))

    def save(self, path: str) -> None:
        """Write a PNG file."""
        with open(path, "wb") as file:
            file.write(self.png())

    def png(self) -> bytes:
        """As a PNG file, its rows unfiltered."""
        raw = b"".join(b"\0" + self._row(y) for y in range(self.height))
        header = struct.pack(">IIBBBBB", self.width, self.height, 8, 2, 0, 0, 0)
        chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 3)), (b"IEND", b""))
        return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)

    def _row(self, y: int) -> bytes:
        return self.data[3 * y * self.width : 3 * (y + 1) * self.width]

    def _planes(self, row: bytes, places: slice) -> bytes:
        """The pixels of a row that a slice names, in its order."""
        red = row[::3][places]
        out = bytearray(3 * len(red))
        out[::3], out[1::3], out[2::3] = red, row[1::3][places], row[2::3][places]
        return bytes(out)

    def _turned(self) -> Picture:
        data = bytearray(len(self.data))
        for channel in range(3):
            plane = self.data[channel::3]
            data[channel::3] = b"".join(plane[x :: self.width][::-1] for x in range(self.width))
        return Picture(self.height, self.width, bytes(data))

    def _mask(self, colour: tuple[int, int, int], near: int) -> bytes:
        """A byte a pixel, 1 where the colour is near."""
        channels = []
        for channel, value in enumerate(colour):
            table = bytes(abs(byte - value) <= near for byte in range(256))
            channels.append(self.data[channel::3].translate(table))
        return _join(channels, any_of=False)


def load(path: str = "a.png") -> Picture:
    """A picture from a PNG file."""
    with open(path, "rb") as file:
        return from_png(file.read())


def show(*pictures: Picture) -> None:
    """Show pictures, four at most in one program."""
    global _shown
    if not os.path.isdir(FOLDER):
        os.mkdir(FOLDER)
    for picture in pictures:
        if _shown == SHOWN:
            raise ValueError(f"a program may show {SHOWN} pictures")
        _shown += 1
        picture.save(f"{FOLDER}/{len(os.listdir(FOLDER)) + 1}.png")


def look(place: str, path: str = "a.png") -> None:
    """Show a quarter of a picture: "top left", "top right", "bottom left" or "bottom right"."""
    row, column = place.split()
    picture = load(path)
    left = {"left": 0, "right": picture.width // 2}[column]
    top = {"top": 0, "bottom": picture.height // 2}[row]
    show(picture.crop(left, top, left + picture.width // 2, top + picture.height // 2))


def from_png(data: bytes) -> Picture:
    """A picture from the bytes of a PNG file of eight bits a channel, grey or in colour, what is transparent as it is."""
    if not data.startswith(_SIGNATURE):
        raise ValueError("not a PNG file")
    try:
        return _decoded(data)
    except (struct.error, zlib.error, IndexError):
        raise ValueError("a damaged PNG file") from None


def _decoded(data: bytes) -> Picture:
    place, packed, channels, width, height = len(_SIGNATURE), b"", 0, 0, 0
    while place < len(data):
        length, kind = struct.unpack(">I4s", data[place : place + 8])
        body = data[place + 8 : place + 8 + length]
        if kind == b"IHDR":
            width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", body)
            if depth != 8 or interlaced or colour not in _CHANNELS:
                raise ValueError("only plain PNG files of eight bits a channel are read")
            channels = _CHANNELS[colour]
        elif kind == b"IDAT":
            packed += body
        place += 12 + length
    rows = _unfiltered(zlib.decompress(packed), width * channels, height, channels)
    if channels < 3:
        rows = b"".join(bytes((value,)) * 3 for value in rows[::channels])
    elif channels == 4:
        out = bytearray(3 * width * height)
        out[::3], out[1::3], out[2::3] = rows[::4], rows[1::4], rows[2::4]
        rows = bytes(out)
    return Picture(width, height, rows)


_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}


def _unfiltered(raw: bytes, stride: int, height: int, step: int) -> bytes:
    """The rows of a PNG file without their filters (PNG specification, section 9)."""
    rows: list[bytes] = []
    above = bytes(stride)
    for y in range(height):
        start = y * (stride + 1)
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + stride])
        for x in range(stride) if kind else ():
            left = row[x - step] if x >= step else 0
            up, corner = above[x], above[x - step] if x >= step else 0
            row[x] = (row[x] + (left, up, (left + up) // 2, _paeth(left, up, corner))[kind - 1]) & 255
        above = bytes(row)
        rows.append(above)
    return b"".join(rows)


def _paeth(left: int, up: int, corner: int) -> int:
    """Whichever of the three lies nearest to left + up − corner."""
    guess = left + up - corner
    return min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _root(parents: list[int], run: int) -> int:
    """The run that stands for all that are connected with this one."""
    while parents[run] != run:
        parents[run] = parents[parents[run]]
        run = parents[run]
    return run


def _differ(a: bytes, b: bytes) -> bytes:
    """A byte for each place, 1 where the two differ."""
    found = int.from_bytes(a, "big") ^ int.from_bytes(b, "big")
    return found.to_bytes(len(a), "big").translate(b"\0" + b"\1" * 255)


def _join(masks: list[bytes], any_of: bool) -> bytes:
    """One mask of several: 1 where any, or all of them are."""
    joined = int.from_bytes(masks[0], "big")
    for mask in masks[1:]:
        other = int.from_bytes(mask, "big")
        joined = joined | other if any_of else joined & other
    return joined.to_bytes(len(masks[0]), "big")
