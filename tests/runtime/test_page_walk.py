"""The C++ page walk: built where there is a compiler, and never needed."""
from __future__ import annotations

import pytest
import torch

from minipaged import LLM, SamplingParams
from minipaged.core import ScheduledRequest, StepPlan
from minipaged.runtime import page_walk
from minipaged.runtime.attention import PagedAttention, TorchBackend, make_backend
from minipaged.runtime.config import ModelConfig
from minipaged.runtime.inputs import StepInputs
from minipaged.runtime.kv_pool import KVPool


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """An empty cache folder and no library loaded."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    page_walk.library.cache_clear()
    yield tmp_path
    page_walk.library.cache_clear()


def test_built_once_and_kept(fresh, cxx):
    page_walk.library()
    made = list(fresh.rglob("page_walk-*.so"))
    assert len(made) == 1
    before = made[0].stat().st_mtime_ns
    page_walk.library.cache_clear()
    page_walk.library()
    assert list(fresh.rglob("*page_walk*")) == made and made[0].stat().st_mtime_ns == before


def test_without_a_compiler_auto_takes_torch(fresh, monkeypatch, folder, solo):
    monkeypatch.setenv("MINIPAGED_CXX", "")
    assert type(make_backend("auto")) is TorchBackend
    with pytest.raises(ValueError, match="needs a C.. compiler.*use 'torch'"):
        LLM(folder, attention_backend="cpp")
    params = SamplingParams(temperature=0, max_tokens=5)
    assert LLM(folder, dtype="float64").generate([[1, 2]], params)[0].outputs[0].token_ids == solo([1, 2], params)


def test_a_compiler_that_fails_is_one_line(fresh, monkeypatch):
    monkeypatch.setenv("MINIPAGED_CXX", "false")
    with pytest.raises(ValueError, match="can't be built with .*false"):
        make_backend("cpp")
    assert type(make_backend("auto")) is TorchBackend


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(4, 2, 32), (6, 2, 10), (8, 8, 64), (4, 1, 128),
                                                             (2, 2, 16)])
@pytest.mark.parametrize("window", [None, 5])
def test_equal_to_torch(cxx, dtype, heads, kv_heads, head_dim, window):
    """Lengths at, before and after the ends of pages, pages anywhere in a pool that is NaN elsewhere, one chunk."""
    generator = torch.Generator().manual_seed(0)
    pool = KVPool(ModelConfig("llama", 10, 8, 8, 1, heads, kv_heads, head_dim, 64, 1e-6, 1e4), 60, 4, dtype=dtype)
    pool.fill(float("nan"))
    free, plan = torch.randperm(60, generator=generator).tolist(), StepPlan(0, 4)
    for index, length in enumerate((1, 3, 4, 5, 8, 33, 21)):
        table = tuple(free.pop() for _ in range(-(-length // 4)))
        start = 0 if index == 3 else length - 1
        plan.scheduled.append(ScheduledRequest(str(index), start, (1,) * (length - start), table, True))
        for position in range(length):
            for side in (pool.key, pool.value):
                side[0][table[position // 4], position % 4] = torch.randn(kv_heads, head_dim, generator=generator)
    query = torch.randn(plan.total_tokens, heads, head_dim, generator=generator).to(dtype)
    found = []
    for name in ("torch", "cpp"):
        backend = make_backend(name)
        backend.begin(StepInputs.from_plan(plan))
        found.append(backend.attend(query, pool.key[0], pool.value[0], 0.4, window))
    tolerance = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 0}[dtype]
    torch.testing.assert_close(found[1], found[0], atol=tolerance, rtol=tolerance)


def test_extreme_scores(cxx):
    """Softmax of scores far apart: no overflow, and the largest takes all."""
    pool = KVPool(ModelConfig("llama", 10, 8, 8, 1, 1, 1, 16, 64, 1e-6, 1e4), 2, 4)
    pool.key[0].copy_(torch.tensor([-1e4, -500.0, 900.0, 1e4] * 2).view(2, 4, 1, 1).expand(2, 4, 1, 16))
    pool.value[0].copy_(torch.arange(8.0).view(2, 4, 1, 1).expand(2, 4, 1, 16))
    plan = StepPlan(0, 4, [ScheduledRequest("a", 5, (1,), (1, 0), True)])
    attention = PagedAttention(pool, make_backend("cpp"), 1.0, [None])
    inputs = StepInputs.from_plan(plan)
    attention.begin(inputs)
    out = attention.backend.attend(torch.ones(1, 1, 16), pool.key[0], pool.value[0], 1.0, None)
    assert out.flatten().tolist() == [7.0] * 16  # block 1 holds positions 0 to 3; the largest is its last
