"""Pictures inside OpenAI-style messages: taken out of data URIs, nothing is ever fetched."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from ninefold.core.errors import UserError
from ninefold.core.picture import Picture
from ninefold.media.png import from_png, to_png


def picture_part(picture: Picture) -> dict[str, Any]:
    """A content part that holds the picture; `take_pictures` takes it out again."""
    data = base64.b64encode(to_png(picture)).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}


def take_pictures(messages: Sequence[Any]) -> tuple[list[Any], dict[str, Picture]]:
    """The messages with sizes and hashes in the pictures' places, and the pictures by hash.

    Raises UserError, naming the message, for a part that is no picture in a data URI.
    """
    pictures: dict[str, Picture] = {}
    taken: list[Any] = []
    for index, message in enumerate(messages):
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, list):
            parts = [_part(part, pictures, index) if _is_image(part) else part for part in content]
            taken.append({**message, "content": parts})
        else:
            taken.append(message)
    return taken, pictures


def _is_image(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in ("image", "image_url")


def _part(part: Mapping[str, Any], pictures: dict[str, Picture], index: int) -> dict[str, Any]:
    given = part.get("image_url", part.get("image"))
    url = given.get("url") if isinstance(given, Mapping) else given
    head, comma, data = url.partition(",") if isinstance(url, str) else ("", "", "")
    if not (comma and head.startswith("data:image/") and head.endswith(";base64")):
        raise UserError(f"message {index}: a picture must be a data URI, data:image/png;base64,…; nothing is fetched")
    try:
        picture = from_png(base64.b64decode(data, validate=True))
    except ValueError as error:
        raise UserError(f"message {index}: {error}") from None
    pictures[picture.hash] = picture
    return {"type": "image", "width": picture.width, "height": picture.height, "hash": picture.hash}
