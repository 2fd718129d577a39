"""How values cross between the grader and a learner's process: exact plain types in a binary frame.

Nothing here can run code: there is no pickle, no eval, and every size is bounded before memory is taken. A
value has one form for each exact type. A subclass of int, float, str or list is not plain: like every other
object it crosses as the name of its type and nothing else. This file is read by both sides and imports only the
standard library; numpy and torch are used when a value needs them.
"""
from __future__ import annotations

import math
import struct
import sys

MAX_FRAME = 32 * 1024 * 1024  # bytes
MAX_DEPTH = 40
MAX_NODES = 200_000
MAX_DICT = 4096               # entries of one dict, fewer of more: bounds what colliding keys can cost
MAX_INT = 256                 # bytes
MAX_NAME = 200                # characters of a type's name
NUMPY_DTYPES = frozenset("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64".split())
TORCH_DTYPES = frozenset("bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64".split())


class ProtocolError(ValueError):
    """Bytes that are no frame of ours, or a value too large or too deep to cross."""


def encode(value: object, names_for_odd: bool = False) -> bytes:
    """`value` as bytes. What is not plain crosses as its type's name, or raises. Errors: ProtocolError."""
    parts: list[bytes] = []
    _encode(value, parts, names_for_odd, 0, [0, 0])
    data = b"".join(parts)
    if len(data) > MAX_FRAME:
        raise ProtocolError(f"the value takes {len(data):,} bytes; at most {MAX_FRAME:,} cross")
    return data


def _encode(value: object, parts: list[bytes], names_for_odd: bool, depth: int, nodes: list[int]) -> None:
    nodes[0] += 1
    if depth > MAX_DEPTH:
        raise ProtocolError(f"the value is nested deeper than {MAX_DEPTH} levels")
    if nodes[0] > MAX_NODES:
        raise ProtocolError(f"the value has more than {MAX_NODES:,} parts")
    kind = type(value)
    if value is None:
        parts.append(b"N")
    elif kind is bool:
        parts.append(b"T" if value else b"F")
    elif kind is int:
        size = value.bit_length() // 8 + 1
        if size > MAX_INT:
            raise ProtocolError(f"the number has {value.bit_length():,} bits; at most {MAX_INT * 8 - 1:,} cross")
        parts.append(b"i" + struct.pack("<H", size) + value.to_bytes(size, "little", signed=True))
    elif kind is float:
        parts.append(b"f" + struct.pack("<d", value))
    elif kind is str:
        _blob(b"s", value.encode("utf-8", "surrogatepass"), parts)
    elif kind is bytes:
        _blob(b"b", value, parts)
    elif kind is list or kind is tuple:
        parts.append((b"l" if kind is list else b"t") + struct.pack("<I", len(value)))
        for item in value:
            _encode(item, parts, names_for_odd, depth + 1, nodes)
    elif kind is dict:
        nodes[1] += len(value) ** 2
        if nodes[1] > MAX_DICT ** 2:
            raise ProtocolError(f"one or more dicts have {len(value):,} entries; one of {MAX_DICT:,} may cross")
        parts.append(b"d" + struct.pack("<I", len(value)))
        for key, item in value.items():
            _encode(key, parts, False, depth + 1, nodes)
            _encode(item, parts, names_for_odd, depth + 1, nodes)
    elif (array := _array_parts(value)) is not None:
        library, dtype, shape, raw = array
        parts.append(library + struct.pack("<B", len(dtype)) + dtype.encode() + struct.pack("<B", len(shape))
                     + struct.pack(f"<{len(shape)}Q", *shape))
        _blob(b"", raw, parts)
    elif names_for_odd:
        _blob(b"O", type_name(value)[:MAX_NAME].encode("utf-8", "replace"), parts)
    else:
        raise ProtocolError(f"an object of type {type_name(value)} is not plain data")


def type_name(value: object) -> str:
    """As minipaged.lab.plain writes it: without the module for what the learner defined."""
    kind = type(value)
    name, module = kind.__name__, getattr(kind, "__module__", "")
    name = name if type(name) is str else "object"
    return name if type(module) is not str or module in ("builtins", "__main__") else f"{module}.{name}"


def _blob(tag: bytes, raw: bytes, parts: list[bytes]) -> None:
    if len(raw) > MAX_FRAME:
        raise ProtocolError(f"the value takes {len(raw):,} bytes; at most {MAX_FRAME:,} cross")
    parts.append(tag + struct.pack("<I", len(raw)))
    parts.append(raw)


def _array_parts(value: object) -> tuple[bytes, str, tuple[int, ...], bytes] | None:
    """(tag, dtype, shape, bytes in C order) of a base-class array or tensor; else None."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy is not None and type(value) is numpy.ndarray and value.dtype.name in NUMPY_DTYPES:
        if value.nbytes > MAX_FRAME or value.ndim > 16:
            raise ProtocolError(f"the array has shape {value.shape}; at most {MAX_FRAME:,} bytes cross")
        return b"A", value.dtype.name, value.shape, value.tobytes()
    if torch is not None and type(value) is torch.Tensor and value.layout is torch.strided and not value.is_meta:
        dtype = str(value.dtype).removeprefix("torch.")
        if dtype not in TORCH_DTYPES:
            return None
        if value.numel() * value.element_size() > MAX_FRAME or value.dim() > 16:
            raise ProtocolError(f"the tensor has shape {tuple(value.shape)}; at most {MAX_FRAME:,} bytes cross")
        plain = value.detach().to("cpu").contiguous()
        return b"X", dtype, tuple(plain.shape), plain.reshape(-1).view(torch.uint8).numpy().tobytes()
    return None


class _Reader:
    def __init__(self, data: bytes, odd) -> None:
        self.data, self.at, self.nodes, self.cost, self.odd = data, 0, 0, 0, odd

    def take(self, count: int) -> bytes:
        piece = self.data[self.at:self.at + count]
        if len(piece) != count:
            raise ProtocolError("a frame ends too early")
        self.at += count
        return piece

    def number(self, form: str) -> int:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))[0]


def decode(data: bytes, odd=None) -> object:
    """The value of `encode`; `odd(name of a type)` makes what stands for an odd value. Errors: ProtocolError."""
    reader = _Reader(data, odd or _no_odd)
    value = _decode(reader, 0)
    if reader.at != len(data):
        raise ProtocolError("a frame has bytes after its value")
    return value


def _decode(reader: _Reader, depth: int) -> object:
    reader.nodes += 1
    if depth > MAX_DEPTH or reader.nodes > MAX_NODES:
        raise ProtocolError("a frame with a value too deep or with too many parts")
    tag = reader.take(1)
    if tag in b"NTF":
        return {b"N": None, b"T": True, b"F": False}[tag]
    if tag == b"i":
        size = reader.number("H")
        if not 0 < size <= MAX_INT:
            raise ProtocolError("a frame with a number of a size that does not cross")
        return int.from_bytes(reader.take(size), "little", signed=True)
    if tag == b"f":
        return struct.unpack("<d", reader.take(8))[0]
    if tag == b"s":
        return _text(reader.take(reader.number("I")))
    if tag == b"b":
        return reader.take(reader.number("I"))
    if tag in b"lt":
        count = reader.number("I")
        if count > len(reader.data) - reader.at:
            raise ProtocolError("a frame that promises more items than it has")
        items = [_decode(reader, depth + 1) for _ in range(count)]
        return items if tag == b"l" else tuple(items)
    if tag == b"d":
        return _decode_dict(reader, depth)
    if tag == b"O":
        return reader.odd(_text(reader.take(reader.number("I")))[:MAX_NAME])
    if tag in b"AX":
        return _decode_array(reader, tag)
    raise ProtocolError(f"a frame with the unknown tag {tag!r}")


def _no_odd(name: str) -> object:
    raise ProtocolError(f"a frame with an object of type {name}")


def _text(raw: bytes) -> str:
    try:
        return raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise ProtocolError("a frame with a text that is not UTF-8") from None


def _decode_dict(reader: _Reader, depth: int) -> dict:
    count = reader.number("I")
    reader.cost += count ** 2
    if reader.cost > MAX_DICT ** 2:
        raise ProtocolError("a frame with a dict too large to cross")
    found = {}
    for _ in range(count):
        key = _decode(reader, depth + 1)
        if not _may_be_key(key):
            raise ProtocolError("a frame with a dict whose key is not a plain key")
        found[key] = _decode(reader, depth + 1)
    return found


def _may_be_key(key: object) -> bool:
    """Numbers of up to 64 bits, texts and tuples of them: nothing whose hash others can choose at will."""
    if type(key) is tuple:
        return all(map(_may_be_key, key))
    return type(key) in (str, bytes, bool, float, type(None)) or type(key) is int and key.bit_length() <= 64


def _decode_array(reader: _Reader, tag: bytes) -> object:
    dtype = _text(reader.take(reader.number("B")))
    shape = tuple(reader.number("Q") for _ in range(reader.number("B")))
    raw = reader.take(reader.number("I"))
    if len(shape) > 16 or dtype not in (TORCH_DTYPES if tag == b"X" else NUMPY_DTYPES):
        raise ProtocolError(f"a frame with an array of type {dtype[:20]!r}")
    width = {"bool": 1}.get(dtype) or int(dtype.lstrip("abcdefghijklmnopqrstuvwxyz")) // 8
    if width * math.prod(shape) != len(raw) or math.prod(max(length, 1) for length in shape) > MAX_FRAME:
        raise ProtocolError("a frame with an array whose bytes do not fit its shape")
    if tag == b"X":
        torch = sys.modules.get("torch")
        if torch is None:  # nobody here asked for tensors, and loading it would take seconds
            return reader.odd("torch.Tensor")
        if not raw:
            return torch.empty(shape, dtype=getattr(torch, dtype))
        flat = torch.frombuffer(bytearray(raw), dtype=torch.uint8)
        return (flat != 0 if dtype == "bool" else flat.view(getattr(torch, dtype))).reshape(shape).clone()
    import numpy

    array = numpy.frombuffer(raw, dtype="uint8") != 0 if dtype == "bool" else numpy.frombuffer(raw, dtype=dtype)
    return array.reshape(shape).copy()


def frame(payload: bytes) -> bytes:
    """The payload with its length before it."""
    if len(payload) > MAX_FRAME:
        raise ProtocolError(f"a frame of {len(payload):,} bytes; at most {MAX_FRAME:,} cross")
    return struct.pack("<I", len(payload)) + payload


def read_frame(read) -> bytes:
    """One payload from `read(count) -> at most count bytes`, b"" at the end. Errors: EOFError, ProtocolError."""
    size = struct.unpack("<I", _read_all(read, 4))[0]
    if size > MAX_FRAME:
        raise ProtocolError(f"a frame of {size:,} bytes was announced; at most {MAX_FRAME:,} cross")
    return _read_all(read, size)


def _read_all(read, count: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < count:
        piece = read(min(count - len(pieces), 1 << 20))
        if not piece:
            raise EOFError("the other side has closed the pipe")
        pieces += piece
    return bytes(pieces)
