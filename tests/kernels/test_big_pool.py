"""Blocks that begin past element 2^31 of the pool. Bugs of this kind are public in several engines.

The pool is virtual memory: 8.6 GB asked for, a few pages touched. Each half of the test has a control: with
the 64-bit step removed from the kernel the same test must fail, in a process of its own, for it may crash.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys, pathlib, types, torch
from minipaged.kernels import grid, reference, build, cuda_ops
which, broken, folder = sys.argv[1], sys.argv[2] == "broken", pathlib.Path(sys.argv[3])
page, kv_heads, dim = 16, 2, 64
blocks = 2**31 // (page * kv_heads * dim) + 8
try:
    keys, values = (torch.empty(blocks, page, kv_heads, dim, dtype=torch.float16) for _ in range(2))
except RuntimeError as error:
    print("SKIP", error); sys.exit(0)
table = torch.tensor([[blocks - 1, blocks - 3, blocks - 2]], dtype=torch.int32)
torch.manual_seed(0)
for block in table[0]:
    keys[block], values[block] = torch.randn(2, page, kv_heads, dim).half()
query, lens = torch.randn(1, 4, dim).half(), torch.tensor([40])
if which == "cuda":
    if broken:
        text = (build.CUDA_FOLDER / "paged.cuh").read_text(encoding="utf-8")
        new = text.replace("return block * p.cache_stride_block", "return (int)block * (int)p.cache_stride_block")
        assert new != text
        (folder / "paged.cuh").write_text(new, encoding="utf-8")
        source = folder / "v4_split.cu"
        source.write_text((build.CUDA_FOLDER / "v4_split.cu").read_text(encoding="utf-8"), encoding="utf-8")
        library = build.load(source, include=(folder,))
        cuda_ops.library = lambda *_: library
    result = cuda_ops.paged_decode(query, keys, values, table, lens)
else:
    from minipaged.kernels import triton as kernels
    from minipaged.kernels.triton import runtime
    runtime.prepare(query.device)
    if broken:
        import importlib.util
        original = pathlib.Path(kernels.__file__).with_name("decode.py").read_text(encoding="utf-8")
        new = original.replace(".to(tl.int64)\\n    valid", "\\n    valid")
        new = new.replace("(positions % BLOCK_SIZE).to(tl.int64)", "(positions % BLOCK_SIZE)")
        assert new != original
        file = folder / "decode.py"
        file.write_text(new, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("minipaged.kernels.triton.decode", file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    result = kernels.paged_decode(query, keys, values, table, lens)
error = float((result.double() - reference.paged_decode(query, keys, values, table, lens)).abs().max())
print("ERROR", error)
sys.exit(0 if error < 2e-3 else 3)
"""


@pytest.mark.parametrize("kind", ["right", "broken"])
@pytest.mark.parametrize("which", ["cuda", "triton"])
def test_blocks_past_two_to_the_31(request, tmp_path, which, kind):
    request.getfixturevalue("cxx" if which == "cuda" else "triton_kernels")
    script = tmp_path / "big_pool.py"
    script.write_text(SCRIPT, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-P", str(script), which, kind, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.stdout.startswith("SKIP"):
        pytest.skip(f"no room for 8.6 GB of virtual memory: {done.stdout.strip()}")
    assert "AssertionError" not in done.stderr, done.stderr
    if kind == "right":
        assert done.returncode == 0 and done.stdout.startswith("ERROR"), done.stdout + done.stderr
    else:  # a wrong result (3) or a crash (a signal), but not success and not an error of the script itself
        assert done.returncode == 3 or done.returncode < 0, f"{done.returncode}: {done.stdout}{done.stderr}"
