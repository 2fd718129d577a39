"""Keys of blocks: chained hashes and salts (chapter 06)."""
from array import array
from collections.abc import Callable, Hashable
from hashlib import sha256

#: (key of the parent, tokens of a full block) -> key of the block
HashFn = Callable[[Hashable, array], Hashable]


def sha256_key(parent_key: bytes, tokens: array) -> bytes:
    """The key of a full block: SHA-256 over its parent's key and its tokens, 8 bytes a token."""
    return sha256(parent_key + tokens.tobytes()).digest()


def root_key(cache_salt: object) -> bytes:
    """The key above every first block with this salt."""
    return sha256(b"root" + encode(cache_salt)).digest()


def encode(value: object) -> bytes:
    """Write a salt as Python writes it, so that different values never give the same bytes.

    Takes None, bool, int, float, text, bytes, and lists or tuples of these; anything else is a TypeError
    (of an image or a tensor pass its shape, its dtype and a strong hash of its bytes).
    """
    if isinstance(value, (list, tuple)):
        return b"(" + b"".join(encode(item) + b"," for item in value) + b")"
    if value is None or type(value) in (bool, int, float, str, bytes):
        return repr(value).encode()
    raise TypeError(f"a cache salt can't hold a {type(value).__name__}; use None, numbers, text, bytes or tuples of "
                    "these")


def show_key(key: Hashable) -> str | None:
    """A key for the log: the first 12 hex digits of a digest."""
    return key.hex()[:12] if isinstance(key, bytes) else None if key is None else str(key)
