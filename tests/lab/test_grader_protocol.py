"""The frames between grader and child: exact plain values there and back, and no bytes that do harm."""
from __future__ import annotations

import math
import random

import pytest

from minipaged.lab.grader import protocol
from minipaged.lab.plain import Odd

VALUES = [None, True, False, 0, -1, 255, -128, 2**63, -(10**300), 0.5, -0.0, float("inf"), "", "块表 \ud800",
          b"\x00\xff", [], (), {}, [1, (2, [3.5, "x"]), {"a": b"b", 1: None, (1, "x"): [True]}]]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_plain_value_comes_back_the_same_in_value_and_type(value):
    found = protocol.decode(protocol.encode(value))
    assert repr(found) == repr(value) and type(found) is type(value)


def test_nan_stays_nan():
    assert math.isnan(protocol.decode(protocol.encode(float("nan"))))


class Whole(int):
    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize("value", [Whole(3), {1, 2}, object(), range(3), 1j, type("f", (float,), {})(2.0)],
                         ids=protocol.type_name)
def test_what_is_not_plain_crosses_as_the_name_of_its_type(value):
    found = protocol.decode(protocol.encode([value], names_for_odd=True), Odd)
    assert found == [Odd(protocol.type_name(value))]
    with pytest.raises(protocol.ProtocolError, match="is not plain data"):
        protocol.encode([value])


def test_arrays_and_tensors_keep_library_type_shape_and_bytes():
    numpy, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    for dtype in sorted(protocol.NUMPY_DTYPES):
        array = numpy.arange(6).reshape(2, 3).astype(dtype)
        found = protocol.decode(protocol.encode(array.T))
        assert type(found) is numpy.ndarray and found.dtype == array.dtype and (found == array.T).all()
    for dtype in sorted(protocol.TORCH_DTYPES):
        tensor = torch.arange(6).reshape(2, 3).to(getattr(torch, dtype))
        for shaped in (tensor.T, tensor[:0], tensor[0, 0]):
            found = protocol.decode(protocol.encode(shaped))
            assert found.dtype is tensor.dtype and found.shape == shaped.shape and torch.equal(found, shaped)
    odd = protocol.decode(protocol.encode([numpy.int64(3), torch.nn.Parameter(torch.ones(1))], True), Odd)
    assert odd == [Odd("numpy.int64"), Odd("torch.nn.parameter.Parameter")]


def test_what_is_too_large_is_refused_before_it_is_sent():
    deep: list = []
    deep.append(deep)
    for value, words in ((deep, "nested deeper"), ([0] * 300_000, "more than"), (1 << 5000, "bits"),
                         (b"x" * (protocol.MAX_FRAME + 1), "bytes"), ({n: 0 for n in range(5000)}, "entries"),
                         ([{n: 0 for n in range(4000)}] * 2, "entries")):
        with pytest.raises(protocol.ProtocolError, match=words):
            protocol.encode(value)


def test_any_bytes_are_a_value_or_a_protocol_error():
    rng = random.Random(0)
    good = [protocol.encode(value) for value in VALUES]
    for _ in range(20_000):
        data = bytearray(rng.choice(good))
        for _ in range(rng.randint(1, 4)):
            where = rng.randrange(len(data) + 1)
            data[where:where + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 3))
        try:
            protocol.decode(bytes(data), Odd)
        except protocol.ProtocolError:
            continue


@pytest.mark.parametrize("data", [
    b"l\xff\xff\xff\xff" + b"N" * 10, b"s\xff\xff\xff\x7f", b"d\x01\x00\x00\x00l\x00\x00\x00\x00N", b"NN", b"",
    b"A\x05int64\x01" + b"\xff" * 8 + b"\x00" * 4, b"A\x06object\x00\x00\x00\x00\x00",
    b"l\x01\x00\x00\x00" * 1000 + b"N",
    b"d\x01\x00\x00\x00i\x20\x00" + b"\x01" * 32 + b"N"], ids=repr)
def test_promises_that_bytes_do_not_keep_are_refused(data):
    with pytest.raises(protocol.ProtocolError):
        protocol.decode(data)


def test_a_frame_is_read_in_pieces_and_a_torn_one_is_an_end():
    pieces = iter([b"\x03\x00", b"\x00\x00a", b"bc", b"\x05\x00\x00\x00xy", b""])
    held = bytearray()

    def read(count: int) -> bytes:
        if not held:
            held.extend(next(pieces))
        piece, held[:] = bytes(held[:count]), held[count:]
        return piece

    assert protocol.read_frame(read) == b"abc"
    with pytest.raises(EOFError):
        protocol.read_frame(read)
    with pytest.raises(protocol.ProtocolError, match="announced"):
        protocol.read_frame(lambda count: b"\xff" * count)
