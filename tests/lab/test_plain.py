"""Plain data: what becomes of a learner's value, and when two values are the same."""
from __future__ import annotations

import math

import numpy
import pytest

from minipaged.lab.plain import Odd, Said, difference, plain, same, show


class Lying(int):
    def __eq__(self, other):
        return True

    __hash__ = None


@pytest.mark.parametrize("expected, got", [
    (3, 3), (1.0, 1), (0.1 + 0.2, 0.3), ([1, (2, 3)], (1, [2, 3])), (None, None), ("a", "a"), ({"a": [1]}, {"a": (1,)}),
    (Said("free"), Said("free")), (math.inf, math.inf),
])
def test_the_same(expected, got):
    assert same(plain(expected) if not isinstance(expected, Said) else expected, got)


@pytest.mark.parametrize("expected, got", [
    (3, 3.0), (1, True), (True, 1), (math.nan, math.nan), ([1], [1, 2]), ([1], 1), ("1", 1), (b"a", "a"), (0, None),
    ({"a": 1}, {"b": 1}), (1.0, 10 ** 400), (math.inf, -math.inf), (Said("free"), "free"), (3, Odd("int")),
])
def test_not_the_same(expected, got):
    assert not same(expected, got) and difference(expected, got)


def test_subclasses_and_strange_objects_are_odd():
    for value in (Lying(3), numpy.float64(1.0), {1, 2}, range(3), object(), iter([]), numpy.array(["a"]), print):
        assert isinstance(plain(value), Odd), value
        assert not same(plain(value), plain(value))


def test_arrays_compare_by_shape_type_and_value():
    torch = pytest.importorskip("torch")
    ones = torch.ones(2, 3)
    assert same(plain(ones), plain(ones + 1e-6))
    for other in (torch.ones(3, 2), ones.double(), ones.numpy(), ones + 1e-3, ones * math.nan, [[1.0] * 3] * 2):
        assert not same(plain(ones), plain(other)), other
    assert isinstance(plain(torch.nn.Parameter(ones)), Odd)


def test_a_copy_is_the_parents_own():
    value = [[1], {"a": [2]}]
    copied = plain(value)
    value[0].append(3)
    assert copied == [[1], {"a": [2]}]


def test_endless_and_huge_values_end():
    loop = []
    loop.append(loop)
    assert "too large or too deep" in repr(plain(loop))
    assert isinstance(plain([0] * 200_000), Odd)
    assert show(10 ** 5000) == f"a whole number of {(10 ** 5000).bit_length()} bits"


def test_the_difference_is_told_where_it_is():
    assert difference([1, [2, 3]], [1, [2, 4]]) == "is 4 at [1][1], not 3"
    assert "keep whole numbers whole" in difference(2, 2.0)
    assert len(show(list(range(1000)))) < 120
