"""Hostile CUDA texts: none speaks for the program that measures it, and no read is saved by not counting it."""
from __future__ import annotations

import time

import pytest

from minipaged.lab import cuda_runner, exercises
from minipaged.lab.cuda_kernel import _headers
from minipaged.lab.cuda_text import Foreign, safe
from minipaged.lab.exercises._cuda_coalesced import COALESCED as RIGHT
from minipaged.lab.grader import batch

from .classroom import hand_in, notebook
from .kernels import MEMORY, PROGRAM

BARRIER, COALESCED = "cuda.barrier", "cuda.coalesced"
KERNEL = "__global__ void"


def wrong(exercise_id: str, name: str) -> str:
    return {one.id: one.source for one in exercises.find(exercise_id).misconceptions}[name]


def text_of(source: str) -> str:
    names: dict = {}
    exec(source, names)
    return names["scores_source"]()


SLOW = text_of(wrong(COALESCED, "key-a-lane"))


@pytest.fixture(scope="module")
def run(cxx, tmp_path_factory):
    """A text in a program that does nothing: ("compiler", what it said) or ("ran", ...)."""
    folder = str(tmp_path_factory.mktemp("kernels"))
    return lambda text: cuda_runner.run_kernel(f'#line 1 "kernel.cu"\n{text}\nint main() {{ }}\n', _headers(), [], cxx,
                                               folder)


def hostile(before: str, inside: str) -> str:
    first, brace, rest = SLOW.partition("{\n")
    return f"{before}{first}{brace}{inside}\n{rest}"


def test_no_kernel_hides_from_what_examines_it(tmp_path, cxx):
    racing = wrong(BARRIER, "not-behind")
    slow = wrong(COALESCED, "key-a-lane")
    attacks = {
        "spliced": (BARRIER, racing.replace(KERNEL, f'__attri\\\nbute__((no_sanitize("thread"))) {KERNEL}')),
        "uncounted": (COALESCED, slow.replace("keys[k * head_dim + d]", "keys.data[k * head_dim + d]")),
        "not its own": (COALESCED, slow.replace("int lane", "out[-4000] = 0; int lane")),
        "initialiser": (COALESCED, slow.replace(KERNEL, f"int early = puts(0);\n{KERNEL}")),
        "z right": (COALESCED, RIGHT.replace("    for (int d", "    #pragma unroll\n    for (int d")),
    }
    for name, (exercise_id, source) in attacks.items():
        assert source not in (racing, slow), name
        hand_in(tmp_path / "class", name, notebook({exercise_id: source}))
    rows = batch.grade_class(tmp_path / "class", tmp_path / "results", labs=["13_cuda"], key=b"k" * 20)
    found = {row["learner"]: next(one for one in row["verdicts"] if one["exercise"] == attacks[row["learner"]][0])
             for row in rows}
    assert found.pop("z right")["status"] == "right"
    assert {name: one["status"] for name, one in found.items()} == dict.fromkeys(found, "wrong")

    def said(name: str) -> str:
        return found[name]["message"] + "".join(found[name]["calls"])

    assert "__attribute" in said("spliced")
    assert "puts" in said("initialiser") and "not declared" in said("initialiser")
    assert "outside of its array" in said("not its own")


@pytest.mark.parametrize("name", MEMORY)
def test_no_text_makes_a_pointer_or_an_array_of_its_own(name):
    with pytest.raises(Foreign):
        safe(hostile(*MEMORY[name]), ["scores"])


@pytest.mark.parametrize("name", PROGRAM)
def test_no_text_reaches_the_program_around_it(name, run):
    """Refused, or not compiled; what runs all the same has another name, or ends where the text ends."""
    try:
        text = safe(hostile(*PROGRAM[name]), ["scores"])
    except Foreign:
        return
    what, *rest = run(text)
    if name in ("own main", "comment to the end"):
        assert what == "ran" and "/*" not in text and " main(" not in text
    else:
        assert what == "compiler" and "kernel.cu" in rest[0], rest


@pytest.mark.parametrize("inside", [
    "  __shared__ float tile[8][33]; tile[threadIdx.x % 8][0] = 1;", "  float part[2] = {1, 2}; part[0] += part[1];",
    "  const float* half = query + 16; out[0] = half[0] + *query;", "  for (int i = 0, j = 9; i < j; i++, j--) { }",
    "  for (const float* p = query; p - query < 4 && p != query + 9; p++) out[0] += *p;",
    "  float sum = __shfl_xor_sync(0xffffffff, max(1, 2), 16, 32); __syncwarp(); __syncthreads();",
    "  unsigned int low = num_keys & 3u;",
    "  constexpr int N = 4; float a[N * 2]; a[N] = float(num_keys) / (float)N;",
    "  float4 v = make_float4(1, 2, 3, 4); v.x = 2;",
    "  const bool both = num_keys && head_dim || !lane_0(num_keys);", "  if (num_keys > 1) { } else if (head_dim) { }",
    "  static_cast<float>(num_keys); float worst = fmaxf(-INFINITY, max(1, 2));",
    "  float part[3]; add(part, 3); add(out, 1);",
])
def test_what_kernels_are_made_of_is_taken(inside, run):
    helpers = ("__device__ bool lane_0(int n) { return threadIdx.x + n == 0; }\n"
               "__device__ __forceinline__ void add(float* to, int n) { for (int i = 0; i < n; i++) to[i] += 1; }\n")
    text = safe(hostile(helpers, inside), ["scores"])
    what, *rest = run(text)
    assert what == "ran", rest


@pytest.mark.parametrize("text", ["int(" * 4_900, "const " * 3_000 + "int", "int " * 4_900, "/*" * 9_900, "(" * 19_000,
                                  "int a[" * 3_000, "\\ " * 9_000, "x" * 10**7, "# pragma " * 2_000, ", (" * 6_000],
                         ids=lambda text: text[:8])
def test_no_text_takes_long_to_read(text):
    start = time.process_time()
    try:
        safe(text)
    except Foreign as foreign:
        assert len(str(foreign)) < 200
    assert time.process_time() - start < 1


def test_a_text_keeps_its_lines_and_the_compiler_speaks_of_the_learners_words():
    text = safe("/* one\ntwo */ __global__ void f(float* __restrict__ out,\n  int n) {\n  #pragma unroll\n  }\n", ["f"])
    assert text.count("\n") == 5 and text.splitlines()[2].strip().startswith("int n_learner")
    assert "lab::Pointer<float>" in text
