"""Control tokens: the ids that only the renderer emits (spec: XTML, Safety)."""

from __future__ import annotations

PAD = "<|pad|>"
OPEN = "<|open|>"
SEP = "<|sep|>"
CLOSE = "<|close|>"
END_OF_MSG = "<|end_of_msg|>"
BOS = "<|bos|>"
EOS = "<|eos|>"
UNK = "<|unk|>"
MEDIA_BEGIN = "<|media_begin|>"
MEDIA_CONTENT = "<|media_content|>"
MEDIA_PAD = "<|media_pad|>"
MEDIA_END = "<|media_end|>"

CONTROL_TOKENS: tuple[str, ...] = (
    PAD,
    OPEN,
    SEP,
    CLOSE,
    END_OF_MSG,
    BOS,
    EOS,
    UNK,
    MEDIA_BEGIN,
    MEDIA_CONTENT,
    MEDIA_PAD,
    MEDIA_END,
)
"""In id order: a tokenizer trained here gives the n-th the id n."""

IMAGE_PLACEHOLDER = "<|kimi_image_placeholder|>"
"""Stands for a picture whose size nobody stated; it can be shown, but not encoded."""


def image_prompt(width: int, height: int) -> str:
    """What stands on the wire for a picture of `width` × `height` source pixels."""
    return f"{MEDIA_BEGIN}image {width}x{height}{MEDIA_CONTENT}{MEDIA_PAD}{MEDIA_END}"
