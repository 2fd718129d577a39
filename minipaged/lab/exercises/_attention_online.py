"""Lab of chapter 04: softmax, one block at a time."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

ONLINE = '''\
import math

import torch

class OnlineSoftmax:
    def __init__(self, head_dim):
        self.largest = float("-inf")
        self.total = 0.0
        self.weighted = torch.zeros(head_dim, dtype=torch.float64)

    def add(self, scores, values):
        largest = max(self.largest, scores.max().item())
        if largest == float("-inf"):
            return
        scale = math.exp(self.largest - largest)
        weights = torch.exp(scores - largest)
        self.total = self.total * scale + weights.sum().item()
        self.weighted = self.weighted * scale + weights @ values
        self.largest = largest

    def result(self):
        return self.weighted / self.total
'''


def _online_case(rng: random.Random) -> dict:
    dim = rng.randint(1, 2)

    def token() -> list:
        score = rng.randint(-3, 3) + rng.choice([0, 0, 0, 1000, -1000])
        return [None if rng.random() > 0.75 else score, [rng.randint(-4, 4) for _ in range(dim)]]

    return {"head_dim": dim, "blocks": [[token() for _ in range(rng.randint(1, 3))] for _ in range(rng.randint(1, 4))]}


def _drive_online(trace: Trace, case: dict) -> None:
    """Blocks of (score, value); None is a token that must not be seen. A result is asked for after every block."""
    import torch

    online = trace.new("online", "OnlineSoftmax", case["head_dim"])
    seen = False
    for block in case["blocks"]:
        numbers = [float("-inf") if score is None else float(score) for score, _ in block]
        values = [value for _, value in block]
        online.call("add", torch.tensor(numbers, dtype=torch.float64), torch.tensor(values, dtype=torch.float64),
                    text=f"online.add(scores {numbers}, values {values})")
        seen = seen or any(score is not None for score, _ in block)
        if seen:
            online.call("result")


def _online_reference() -> SimpleNamespace:
    import torch

    class KeepsAll:
        """The softmax of everything at once: what an online one must equal."""

        def __init__(self, head_dim: int) -> None:
            self.scores, self.values = torch.empty(0).double(), torch.empty(0, head_dim).double()

        def add(self, scores: torch.Tensor, values: torch.Tensor) -> None:
            self.scores, self.values = torch.cat([self.scores, scores]), torch.cat([self.values, values])

        def result(self) -> torch.Tensor:
            return torch.softmax(self.scores, dim=0) @ self.values

    return SimpleNamespace(OnlineSoftmax=KeepsAll)


def _wrong_online(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(ONLINE, *pairs))


ONLINE_EXERCISE = Exercise(
    id="attention.online",
    title="Softmax, one block at a time",
    chapter="04_paged_attention",
    minutes=30,
    level="hard",
    goal="Attend to a context of any length while holding the scores of one block only, as the fast kernels do.",
    interface=("OnlineSoftmax(head_dim)", "OnlineSoftmax.add(scores, values)", "OnlineSoftmax.result()"),
    hints=("A softmax subtracts the largest score from all scores. You used the largest so far; now a larger one "
           "comes. By which factor are all your old weights too large?",
           "Keep three things: the largest score so far, the sum of the weights exp(score - largest), and the sum of "
           "the values times their weights. When the largest grows, multiply both sums by exp(old - new) first. Divide "
           "at the very end. While every score is -inf there is nothing to add.",
           "add: new = max(self.largest, scores.max().item()); if new is -inf, return; scale = math.exp(self.largest - "
           "new); weights = torch.exp(scores - new); total = total * scale + weights.sum(); weighted = weighted * "
           "scale + weights @ values; self.largest = new. result: weighted / total."),
    rule="result() is the softmax of all scores seen so far, times their values, as if they had come at once. Scores "
         "may be large (1000) or -inf (a token that is not seen), and result() changes nothing.",
    examples=({"head_dim": 1, "blocks": [[[0, [2]], [0, [4]]], [[1000, [7]]]]},
              {"head_dim": 2, "blocks": [[[1, [1, 0]], [2, [0, 1]]], [[3, [1, 1]], [0, [4, 2]]], [[-1, [0, 3]]]]},
              {"head_dim": 1, "blocks": [[[None, [5]]], [[-1000, [3]], [None, [9]]], [[None, [1]]]]}),
    case=_online_case,
    drive=_drive_online,
    reference=_online_reference,
    misconceptions=(
        _wrong_online("no-maximum", "you take exp of the plain scores: exp(1000) is infinite, and inf / inf is NaN. "
                      "Measure from the largest score.", "max(self.largest, scores.max().item())", "0.0"),
        _wrong_online("no-rescale", "when a larger score comes, your old sums are still measured from the old largest: "
                      "multiply them by exp(old - new).", "math.exp(self.largest - largest)", "1.0"),
        _wrong_online("rescales-half", "you scale the sum of the weights down, but not the sum of the weighted values; "
                      "both were measured from the old largest.", "self.weighted * scale", "self.weighted"),
        _wrong_online("block-maximum", "you measure from the largest score of this block, even when an earlier block "
                      "had a larger one: then exp(old - new) is larger than 1, and overflows. The largest only grows.",
                      "max(self.largest, scores.max().item())", "scores.max().item()"),
        _wrong_online("mean-of-blocks", "you take the softmax of each block and then a mean. A block with small scores "
                      "must count less than one with large scores.",
                      "weights = torch.exp(scores - largest)", "weights, scale = torch.softmax(scores, dim=0), 1.0"),
        _wrong_online("masked-block", "in a block where nothing may be seen every score is -inf, and -inf - (-inf) is "
                      "NaN. Such a block adds nothing.",
                      "        if largest == float(\"-inf\"):\n            return\n", "",
                      "math.exp(self.largest - largest)", "float(torch.exp(torch.tensor(self.largest - largest)))"),
        _wrong_online("divides-in-place", "result() divides the sum itself, so the next block is added to something "
                      "that was divided already. It must change nothing.",
                      "return self.weighted / self.total", "self.weighted /= self.total\n        return self.weighted"),
        _wrong_online("last-block", "you forget the weights of earlier blocks: the sum of the weights goes over all "
                      "blocks.",
                      "self.total * scale + weights.sum().item()", "weights.sum().item()"),
        _wrong_online("no-division", "you give the sum of the weighted values; divide it by the sum of the weights.",
                      "return self.weighted / self.total", "return self.weighted.clone()"),
    ),
    needs=("torch",),
    trials=60,
    seconds=2.0,
)
