"""How large a KV cache is, and what it saves (chapters 01 and 03).

    show(kv_size_bars({"Llama-2-13B": preset("llama-2-13b").shape, ...}, num_tokens=4096))
    show(kv_size_curve({...}, lengths=range(0, 32769, 1024)))
    show(cache_work(12))                                     # without a cache and with one
    show(block_size_sweep(lengths, sizes=(1, 4, 16, 64, 256)))
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from minipaged.formulas import KVShape, blocks_for_tokens, expected_tail_waste
from minipaged.viz.show import Picture
from minipaged.viz.style import (
    BLUE,
    INK,
    LOOKS,
    MUTED,
    ORANGE,
    Look,
    legend,
    line_of,
    new_figure,
    numbered_look,
    plain_numbers,
    styled,
)

GIB = 2**30
#: kind of attention -> label, and look; a window is a property beside the kind
ATTENTION = {"multi-head": "multi-head (MHA)", "grouped-query": "grouped-query (GQA)",
             "multi-query": "multi-query (MQA)", "latent": "latent (MLA)", "window": "with sliding windows",
             "unstated": "not stated"}
_LOOKS = {kind: numbered_look(at) for kind, at in zip(ATTENTION, (4, 0, 3, 2, 6, 5))}


def _kind(shape: KVShape) -> str:
    return "window" if shape.num_window_layers else shape.attention_kind


@styled
def kv_size_bars(shapes: Mapping[str, KVShape], num_tokens: int = 4096, title: str | None = None) -> Picture:
    """The KV cache of one sequence of `num_tokens`, a bar a model, in GiB, with the kind of attention."""
    sizes = {name: shape.sequence_bytes(num_tokens) for name, shape in shapes.items()}
    figure, axes = new_figure(1.5 + 0.42 * len(sizes))
    for at, (name, size) in enumerate(sizes.items()):
        axes.barh(at, size / GIB, height=0.68, gid=name, **_LOOKS[_kind(shapes[name])].patch())
        axes.text(size / GIB, at, f"  {size / GIB:.5g} GiB", va="center", fontsize=9.5)
    axes.set(xlim=(0, 1.16 * max(sizes.values()) / GIB), xlabel="GiB of keys and values",
             title=title or f"One sequence of {num_tokens:,} tokens")
    axes.set_yticks(range(len(sizes)), sizes)
    axes.set_ylim(len(sizes) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    kinds = dict.fromkeys(_kind(shape) for shape in shapes.values())
    legend(figure, {ATTENTION[kind]: _LOOKS[kind] for kind in kinds})
    said = "; ".join(f"{name} {size / GIB:.5g}, {ATTENTION[_kind(shapes[name])]}" for name, size in sizes.items())
    return Picture(figure, f"KV cache of one sequence of {num_tokens:,} tokens in GiB: {said}.",
                   {"tokens": num_tokens, "bytes": sizes})


@styled
def kv_size_curve(shapes: Mapping[str, KVShape], lengths: Iterable[int],
                  title: str = "The cache grows with the text") -> Picture:
    """GiB of one sequence against its length, a curve a model: straight, or bent by a window."""
    lengths = list(lengths)
    figure, axes = new_figure(3.4)
    curves = {name: [shape.sequence_bytes(length) for length in lengths] for name, shape in shapes.items()}
    for at, (name, sizes) in enumerate(curves.items()):
        axes.plot(lengths, [size / GIB for size in sizes], label=name, gid=name, markevery=max(1, len(lengths) // 8),
                  **line_of(at))
    axes.grid(axis="y")
    axes.set(xlim=(lengths[0], lengths[-1]), xlabel="tokens of the sequence", ylabel="GiB", title=title)
    axes.set_ylim(bottom=0)
    plain_numbers(axes.xaxis)
    figure.legend(loc="outside lower center", ncols=3, handlelength=4)
    said = ", ".join(f"{name} {sizes[-1] / GIB:.4g}" for name, sizes in curves.items())
    return Picture(figure, f"KV cache in GiB against the length of a sequence; at {lengths[-1]:,} tokens: {said}.",
                   {"tokens": lengths, "bytes": curves})


@styled
def cache_work(num_tokens: int, prompt_tokens: int = 1) -> Picture:
    """Keys and values computed to write `num_tokens` tokens after a prompt, step by step, without and with a cache."""
    without = [prompt_tokens + step for step in range(num_tokens)]
    cached = [prompt_tokens, *[1] * (num_tokens - 1)]
    figure, axes = new_figure(2.9)
    steps = range(1, num_tokens + 1)
    looks = {"without a cache: all tokens again": Look(ORANGE, "///", "white"),
             "with a cache: the new token": Look(BLUE, "", "white")}
    for (label, look), heights, shift in zip(looks.items(), (without, cached), (-0.2, 0.2)):
        axes.bar([step + shift for step in steps], heights, width=0.4, gid=label, **look.patch())
    axes.set(xlabel="step", ylabel="tokens computed", xlim=(0.4, num_tokens + 0.6),
             title=f"{sum(without):,} keys and values without a cache, {sum(cached):,} with one")
    axes.xaxis.get_major_locator().set_params(integer=True)
    legend(figure, looks, 2)
    return Picture(figure, f"Tokens whose keys and values are computed in {num_tokens} steps after a prompt of "
                           f"{prompt_tokens}: {sum(without):,} without a cache, {sum(cached):,} with one, "
                           f"{sum(without) / sum(cached):.1f} times as many.",
                   {"without": without, "cached": cached})


@styled
def block_size_sweep(lengths: Sequence[int], sizes: Sequence[int] = (1, 4, 8, 16, 32, 64, 128, 256)) -> Picture:
    """What sequences of these lengths waste at the end of their last block, and how long their tables get."""
    tokens = sum(lengths)
    rows = []
    for size in sizes:
        blocks = sum(blocks_for_tokens(length, size) for length in lengths)
        rows.append((size, blocks * size - tokens, blocks))
    waste = [100 * empty / (tokens + empty) for _, empty, _ in rows]
    expected = [float(expected_tail_waste(size)) * len(lengths) for size in sizes]
    figure, (left, right) = new_figure(3.2, 1, 2)
    at = range(len(sizes))
    left.bar(at, waste, width=0.7, gid="waste", **LOOKS["internal"].patch())
    left.plot(at, [100 * empty / (tokens + empty) for empty in expected], gid="expected", color=INK, marker="D",
              linestyle="--", label="if every rest is equally likely: (size - 1) / 2 tokens")
    for x, value in zip(at, waste):
        left.text(x, value + max(waste) * 0.03, f"{value:.1f}", ha="center", fontsize=9,
                  bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}, zorder=5)
    left.set(ylabel="percent of held slots", title="Empty slots of last blocks", ylim=(0, max(max(waste), 1) * 1.2))
    per_request = [blocks / len(lengths) for _, _, blocks in rows]
    right.plot(at, per_request, gid="entries", color=BLUE, marker="o")
    for x, value in zip(at, per_request):
        right.text(x + 0.08, value * 1.12, f"{value:,.0f}" if value >= 100 else f"{value:.3g}", fontsize=9, color=MUTED)
    right.set(yscale="log", title="Entries of a block table", ylabel="blocks a sequence", xlim=(-0.4, len(sizes) + 0.1),
              ylim=(min(per_request) * 0.7, max(per_request) * 2))
    plain_numbers(right.yaxis)
    for axes in (left, right):
        axes.set_xticks(at, sizes)
        axes.set_xlabel("tokens a block")
    figure.legend(loc="outside lower center", handlelength=4)
    said = ", ".join(f"{size}: {share:.1f}%" for size, share in zip(sizes, waste))
    return Picture(figure, f"Empty slots by block size for {len(lengths):,} sequences of {tokens / len(lengths):.0f} "
                           f"tokens on average: {said}; the table has {per_request[0]:,.0f} entries at size {sizes[0]} "
                           f"and {per_request[-1]:.1f} at {sizes[-1]}.",
                   {"sizes": list(sizes), "empty": [row[1] for row in rows], "blocks": [row[2] for row in rows],
                    "tokens": tokens})
