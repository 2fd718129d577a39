"""Hostile answers to a lab with torch: no tensor passes for the right one, and what loaded torch lives on."""
from __future__ import annotations

import sys

import pytest

from minipaged.lab.exercises import attention
from minipaged.lab.grader import batch

from .classroom import hand_in, notebook

GATHER = "attention.gather"
HEAD = "import gc, torch\ndef paged_attention(query, key_blocks, value_blocks, block_table, context_len):\n"
LIAR = """
class T(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None): return True
    def __eq__(self, other): return True
"""
ATTACKS = {
    "subclass": HEAD.replace("def", LIAR + "def", 1) + "    return query.as_subclass(T)",
    "nan": HEAD + "    return query * float('nan')",
    "infinity": HEAD + "    return query / 0",
    "freed memory": HEAD + "    return torch.empty_like(query)",
    "found by gc": HEAD + "    found = [one for one in gc.get_objects() if type(one) is torch.Tensor\n"
                          "             and one.shape == query.shape and one is not query]\n"
                          "    return found[0] if found else query",
    "fills the inputs": HEAD + "    for one in (query, key_blocks, value_blocks): one.fill_(0)\n    return query",
    "other type": HEAD + "    return query.float()",
    "parameter": HEAD + "    return torch.nn.Parameter(query)",
    "sparse": HEAD + "    return query.to_sparse()",
    "meta": HEAD + "    return torch.empty_like(query, device='meta')",
    "huge and small": HEAD + "    return torch.zeros(1).expand(10**9)",
    "quantised": HEAD + "    return torch.quantize_per_tensor(query.float(), 0.1, 0, torch.qint8)",
    "patched torch": HEAD + "    torch.Tensor.tolist = torch.Tensor.cpu = lambda *args: True\n    return query",
    "by the id": HEAD.replace("def", "seen = {}\ndef", 1) + "    return seen.setdefault(query.data_ptr(), query)",
    "saved file": HEAD + "    torch.save(query, 'x.pt')\n    return torch.load('x.pt', weights_only=False)",
}


@pytest.mark.skipif(sys.platform == "win32", reason="without fork torch is loaded anew for each of these")
def test_no_tensor_passes_for_the_right_one(tmp_path):
    (tmp_path / "class").mkdir()
    for name, code in ATTACKS.items():
        hand_in(tmp_path / "class", name, notebook({GATHER: code}))
    hand_in(tmp_path / "class", "z right", notebook({GATHER: attention.GATHER}))
    rows = batch.grade_class(tmp_path / "class", tmp_path / "results", labs=["04_paged_attention"], key=b"k" * 20)
    verdicts = {row["learner"]: next(one for one in row["verdicts"] if one["exercise"] == GATHER) for row in rows}
    assert verdicts.pop("z right")["status"] == "right"
    assert {name: one["status"] for name, one in verdicts.items() if one["points"]} == {}
    assert {one["status"] for one in verdicts.values()} <= {"wrong", "stopped"}
