"""The swap-in engine: a learner's part serves the engine and the simulator; a bad one is told in a sentence."""
from __future__ import annotations

import heapq

import pytest

from minipaged.errors import BlockError, OutOfBlocks
from minipaged.lab import use
from minipaged.lab.adapters import SwapError

PROMPTS = ["Once upon a time", "Once upon a time there", "The fox"]


class Allocator:
    """The highest free block first, so that its choice can be seen."""

    def __init__(self, num_blocks):
        self.heap = [-block for block in range(num_blocks)]
        heapq.heapify(self.heap)

    def allocate(self):
        if not self.heap:
            raise OutOfBlocks("none")
        return -heapq.heappop(self.heap)

    def free(self, block):
        if -block in self.heap:
            raise BlockError("free already")
        heapq.heappush(self.heap, -block)

    @property
    def free_count(self):
        return len(self.heap)


class Table:
    def __init__(self):
        self.entries = []

    def append(self, block):
        self.entries.append(block)

    def get_physical(self, logical):
        return self.entries[logical]

    @property
    def num_blocks(self):
        return len(self.entries)


def slot(block_table, position, block_size):
    return block_table[position // block_size] * block_size + position % block_size


def attention(query, key_blocks, value_blocks, block_table, context_len):
    import torch

    size = key_blocks.shape[1]
    places = torch.tensor([slot(block_table, position, size) for position in range(context_len)])
    keys, values = key_blocks.flatten(0, 1)[places], value_blocks.flatten(0, 1)[places]
    group = query.shape[0] // keys.shape[1]
    keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    weights = (torch.einsum("hd,khd->hk", query, keys) / query.shape[1] ** 0.5).softmax(-1)
    return torch.einsum("hk,khd->hd", weights, values)


def block_hash(parent, tokens):
    return f"{parent}/{','.join(map(str, tokens))}"


def texts(llm):
    from minipaged import SamplingParams

    return [out.outputs[0].text for out in llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=6))]


@pytest.fixture(scope="module")
def ours():
    from minipaged import LLM

    return texts(LLM(model="tiny", num_blocks=24, block_size=4))


@pytest.mark.parametrize("parts", [
    {"BlockAllocator": Allocator}, {"BlockTable": Table}, {"slot": slot}, {"paged_attention": attention},
    {"block_hash": block_hash}, {"choose_victim": lambda running: running[-1]["request_id"]},
    {"pick_next": lambda waiting: waiting[0]["request_id"]},
    {"BlockAllocator": Allocator, "BlockTable": Table, "slot": slot, "paged_attention": attention},
], ids="+".join)
def test_the_engine_says_the_same_with_a_learners_part(ours, parts):
    llm = use(**parts).llm(num_blocks=24, block_size=4, check_invariants=True)
    assert texts(llm) == ours


def test_the_learners_choice_is_what_happens():
    llm = use(BlockAllocator=Allocator).llm(num_blocks=24, block_size=4)
    texts(llm)
    assert llm.engine.events.select("allocate")[0].block == 23


def test_the_learners_victim_is_preempted():
    seen = []

    def oldest(running):
        seen.append([row["request_id"] for row in running])
        return running[-1]["request_id"] if len(running) < 3 else running[1]["request_id"]

    llm = use(choose_victim=oldest).llm(num_blocks=14, block_size=4, enable_prefix_caching=False)
    from minipaged import SamplingParams

    llm.generate(PROMPTS, SamplingParams(temperature=0, max_tokens=24, ignore_eos=True))
    assert seen and llm.engine.events.select("preempt")


def test_the_simulator_takes_a_learners_rule():
    options = dict(trace="azure-conv", first=40, rate=20, max_num_seqs=4)
    first = use().simulate(**options)
    longest = use(pick_next=lambda rows: max(rows, key=lambda row: row["num_tokens"])["request_id"]).simulate(**options)
    assert [one.first_token for one in first.records] != [one.first_token for one in longest.records]


def test_afterwards_everything_is_ours_again(capsys):
    from minipaged.core import kv_memory

    before = kv_memory.BlockAllocator
    with use(BlockAllocator=Allocator):
        assert kv_memory.BlockAllocator is not before
        raise RuntimeError("the learner's code fails")
    assert kv_memory.BlockAllocator is before
    assert "✗ With your BlockAllocator the engine stopped: RuntimeError" in capsys.readouterr().out


class Twice(Allocator):
    def allocate(self):
        return 3


class Miscounts(Allocator):
    free_count = 0


class Unsolved:
    def __init__(self, num_blocks):
        raise NotImplementedError()

    allocate = free = None


@pytest.mark.parametrize("parts, sentence", [
    ({"BlockAllocator": Twice}, "your allocate() gave block 3, which is still held"),
    ({"BlockAllocator": Miscounts}, "your free_count is 0; "),
    ({"BlockAllocator": Unsolved}, "not written yet"),
    ({"slot": lambda *a: None}, "your slot gave None"),
    ({"paged_attention": lambda *a: 0}, "your paged_attention gave int; a tensor of shape"),
    ({"pick_next": lambda rows: "nobody"}, "your pick_next gave 'nobody'; it must give one of the request ids"),
])
def test_a_bad_part_is_told_in_a_sentence_and_the_notebook_goes_on(capsys, parts, sentence):
    with use(**parts) as mine:
        texts(mine.llm(num_blocks=24, block_size=4))
    shown = capsys.readouterr().out
    assert sentence in shown and shown.count("\n") == 1 and mine.error == shown.rstrip("\n")


@pytest.mark.parametrize("parts, sentence", [
    ({"Allocator": Allocator}, "no part 'Allocator' to replace; there are BlockAllocator"),
    ({"BlockAllocator": 3}, "must be a class or a function"),
    ({"BlockAllocator": type("Half", (), {"allocate": None})}, "your class has no free"),
    ({"PrefixCache": type("Half", (), {})}, "your class has no match"),
])
def test_what_cannot_fit_is_refused_at_once(parts, sentence):
    with pytest.raises(SwapError, match=sentence):
        use(**parts)


def test_prefix_caching_without_touch_says_what_is_missing(capsys):
    from minipaged import LLM

    with use(BlockAllocator=Allocator):
        llm = LLM(model="tiny", num_blocks=24, block_size=4)
        texts(llm)
        texts(llm)
    assert "has no touch(block)" in capsys.readouterr().out


def test_the_line_of_a_mistake_is_the_learners(capsys):
    cell = "def attend(query, keys, values, table, length):\n    return query @ keys\n"
    names = {"__name__": "notebook"}
    exec(compile(cell, "<a cell>", "exec"), names)
    with use(paged_attention=names["attend"]) as mine:
        texts(mine.llm(num_blocks=24, block_size=4))
    assert "(line 2 of its cell)" in capsys.readouterr().out
    with use(paged_attention=lambda query: query) as mine:
        texts(mine.llm(num_blocks=24, block_size=4))
    shown = capsys.readouterr().out
    assert "takes 1 positional argument but 5 were given" in shown and "of its cell" not in shown
