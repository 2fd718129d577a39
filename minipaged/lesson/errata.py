"""Twenty claims about paged serving, each with its source and the function that measures it (chapter 15).

Thirteen are of the text that the course grew from, seven of articles and calculators. Most are nearly right, and all
are easy to believe. `docs/errata.md` and the chapter are made from this module (`minipaged.lesson.errata_page`).

    for erratum in ERRATA:
        print(erratum.claim, "->", erratum.measured())
"""
from __future__ import annotations

from dataclasses import replace

from minipaged.formulas import blocks_for_tokens, prefix_sharing, weight_bytes
from minipaged.lesson.erratum import ERRATA, claims
from minipaged.presets import preset
from minipaged.sim import metrics
from minipaged.sim.cost_model import Roofline, StepWork
from minipaged.sim.experiments import common
from minipaged.sim.hardware import card, served_model
from minipaged.sim.result import SimResult
from minipaged.sim.serving import Serving
from minipaged.sim.traces import load_trace

__all__ = ["ERRATA"]

TEXT = "source text, section {}"
LLAMA_13B = preset("llama-2-13b").shape
GIB = 2**30


@claims("1,000 tokens of Llama-2-13B take 0.78 GB of cache", TEXT.format(1), "unit",
        "{gb:.3f} GB, or {found:.3f} GiB")
def thousand_tokens() -> dict[str, float]:
    """Dividing by 1000 here and by 1024 there gives a number that is neither GB nor GiB."""
    size = LLAMA_13B.sequence_bytes(1000)
    return {"claimed": 0.78, "found": size / GIB, "gb": size / 1e9}


@claims("Ten caches of 4,096 tokens (31.3) and the weights of a 13B model (26) are 57.3 GB together", TEXT.format(1),
        "unit", "{found:.1f} GB, or {gib:.1f} GiB: {cache:.2f} GiB of cache were added to {weights:.0f} GB of weights")
def cache_and_weights() -> dict[str, float]:
    """Two numbers may only be added when they have one unit."""
    cached, weights = 10 * LLAMA_13B.sequence_bytes(4096), weight_bytes(13 * 10**9)
    return {"claimed": 57.3, "found": (cached + weights) / 1e9, "gib": (cached + weights) / GIB,
            "cache": cached / GIB, "weights": weights / 1e9}


@claims("The cache grows with the number of attention heads", TEXT.format(1), "no",
        "Llama-3-8B has {heads} query heads, but its cache grows with {kv_heads} KV heads: {found:,} bytes a token, "
        "not {claimed:,}")
def attention_heads() -> dict[str, float]:
    """Queries are not kept. Only the heads of keys and values count, and today they are fewer."""
    shape = preset("llama-3-8b").shape
    as_claimed = replace(shape, num_kv_heads=shape.num_query_heads)
    return {"claimed": as_claimed.bytes_per_token, "found": shape.bytes_per_token, "heads": shape.num_query_heads,
            "kv_heads": shape.num_kv_heads}


@claims("Llama 2 70B needs 5.24 GB of cache for one sequence of 2,048 tokens",
        "[TildAlice, dev.to](https://dev.to/tildalice/kv-cache-optimization-3x-faster-llm-inference-on-24gb-vram-2d2d)",
        "no", "{found:.3f} GB; the formula without grouped heads gives {formula:.2f} GB")
def llama_70b() -> dict[str, float]:
    """The hidden size stands for all query heads. This model shares each KV head among eight of them."""
    shape = preset("llama-2-70b").shape
    every_head = replace(shape, num_kv_heads=shape.num_query_heads)
    found, formula = (kind.sequence_bytes(2048) / 1e9 for kind in (shape, every_head))
    return {"claimed": 5.24, "found": found, "formula": formula}


@claims("Gemma 2 27B, 8 bits, a million tokens: 2 x 46 x (16 x 144) x 1e6, about 200 GB",
        "[a comment on Hacker News](https://news.ycombinator.com/item?id=41288514)", "no",
        "{found:.1f} GB: a head has {head_dim} numbers, not 144, and {window_layers} of {layers} layers keep only "
        "{window:,} tokens")
def gemma_27b() -> dict[str, float]:
    """Hidden size over heads is not always the size of a head, and not every layer keeps every token."""
    shape = replace(preset("gemma-2-27b").shape, kv_dtype="fp8", max_model_len=None)
    return {"claimed": 200, "found": shape.sequence_bytes(10**6) / 1e9, "head_dim": shape.head_dim,
            "window_layers": shape.num_window_layers, "layers": shape.num_layers, "window": shape.window}


@claims("A cache is 2 x layers x KV heads x head size x tokens x bytes",
        "[a VRAM calculator's glossary](https://llm-vram-calc.choppytoast.com/glossary/kv-cache/)", "depends",
        "DeepSeek-V3 keeps {found:,} bytes a token; the formula says {claimed:,}, {times:.0f} times as much")
def latent_attention() -> dict[str, float]:
    """Latent attention keeps one short vector for all heads, and for keys and values together."""
    shape = preset("deepseek-v3").shape
    formula = shape.expanded().bytes_per_token
    return {"claimed": formula, "found": shape.bytes_per_token, "times": formula / shape.bytes_per_token}


@claims("With blocks of 64, 17 tokens need 2 blocks and waste 15 slots", TEXT.format(5), "no",
        "{blocks} block and {found} empty slots; 2 blocks and {small} slots are right for blocks of 16")
def seventeen_tokens() -> dict[str, float]:
    """The larger the block, the more of it stays empty."""
    blocks = blocks_for_tokens(17, 64)
    return {"claimed": 15, "found": blocks * 64 - 17, "blocks": blocks, "small": blocks_for_tokens(17, 16) * 16 - 17}


@claims("16 is best since most outputs are multiples of 16, so less than 5% is lost", TEXT.format(5), "no",
        "{found:.1f}% of {answers:,} answers are multiples of 16, and chance gives {chance:.1f}%; lost are "
        "{whole:.1f}% of whole texts, {alone:.1f}% of answers alone, {short:.1f}% of texts below 100 tokens")
def multiples_of_16() -> dict[str, float]:
    """Half a block is lost a text, whatever its length. Long texts make that a small share, nothing else does."""
    requests = load_trace("azure-conv").requests
    outputs = [request.output_tokens for request in requests]
    texts = [request.input_tokens + request.output_tokens for request in requests]

    def lost(lengths: list[int]) -> float:
        empty = sum(-length % 16 for length in lengths)
        return 100 * empty / (sum(lengths) + empty)

    return {"found": 100 * sum(length % 16 == 0 for length in outputs) / len(outputs), "answers": len(outputs),
            "chance": 100 / 16, "whole": lost(texts), "alone": lost(outputs),
            "short": lost([length for length in texts if length < 100])}


@claims("PagedAttention wastes under 4% of the memory", "[vLLM blog, 2023](https://vllm.ai/blog/2023-06-20-vllm)",
        "depends", "{chats:.1f}% of what is held with chats, {found:.1f}% with short instructions")
def under_four_percent() -> dict[str, float]:
    """It is the same half block a request. Whether that is little is a matter of the traffic."""
    lost = {}
    for name, lengths, count in (("chats", common.SHAREGPT, 150), ("short", common.ALPACA, 1500)):
        result = _serve(lengths, count)
        shares = metrics.memory_shares(result, *common.full_window(result))
        lost[name] = 100 * (shares["reserved"] + shares["internal"]) / (1 - shares["free"] - shares["external"])
    return {"claimed": 4, "found": lost["short"], "chats": lost["chats"]}


@claims("A new block is due when the number of generated tokens is a multiple of 16", TEXT.format("8, its code"), "no",
        "that is right for {found} of {lengths} prompt lengths")
def moment_of_a_new_block() -> dict[str, float]:
    """The prompt fills blocks too. What counts is the position that is about to be written."""
    right = sum(all(((prompt + done) % 16 == 0) == (done % 16 == 0) for done in range(1, 65))
                for prompt in range(1, 17))
    return {"claimed": 16, "found": right, "lengths": 16}


@claims("Ten requests that share 2,000 tokens save 13.77 GB, 90% of the memory", TEXT.format(6), "depends",
        "{found:.2f} GiB, and 90% of the shared beginning alone; with 500 tokens of their own each {own:.1f}%")
def shared_prefix() -> dict[str, float]:
    """What a request does not share, it stores. The saving of the whole is smaller than that of the part."""
    saved = prefix_sharing(10, 2000).blocks_saved * LLAMA_13B.block_bytes(16)
    return {"claimed": 13.77, "found": saved / GIB, "own": 100 * prefix_sharing(10, 2000, own_tokens=500).saving}


@claims("Gather the blocks, put them in a row, attend to the row", TEXT.format("4, its code"), "no",
        "50 tokens in 4 blocks of 16: {found:.1f}% of the attention goes to {empty} slots that hold none of them")
def whole_last_block() -> dict[str, float]:
    """A block table says where the blocks are. It does not say where the text ends."""
    import torch

    from minipaged.kernels.reference import paged_attention

    keys = torch.zeros(4, 16, 1, 1)  # all alike, so that every slot that is read weighs the same
    values = (torch.arange(64) >= 50).double().reshape(4, 16, 1, 1)  # 1 in a slot that is not ours
    stale = paged_attention(torch.zeros(1, 1, 1), keys, values, [0, 1, 2, 3], 64)
    return {"found": 100 * stale.item(), "empty": 64 - 50}


@claims("A kernel can keep the scores of a whole context in shared memory", TEXT.format("9, its code"), "depends",
        "48 KiB hold {found:,} scores; Llama-3.1-8B takes contexts of {longest:,}")
def scores_in_shared_memory() -> dict[str, float]:
    """What grows with the context does not fit a memory of fixed size. An online softmax needs no such room."""
    return {"found": 48 * 1024 // 4, "longest": preset("llama-3.1-8b").shape.max_model_len}


@claims("The cache turns generation from quadratic to linear",
        "[codedive.in](https://codedive.in/kv-cache) and many others", "depends",
        "a text of 2,000 tokens computes {projections:.1f} times the keys and values of one of 1,000, and "
        "{found:.1f} times the scores")
def quadratic_to_linear() -> dict[str, float]:
    """Keys and values are computed once. Each new token still looks at all earlier ones."""
    short, long = (sum(range(1, tokens + 1)) for tokens in (1000, 2000))
    return {"claimed": 2, "found": long / short, "projections": 2000 / 1000}


@claims("With a cache the time for a token is roughly constant",
        "[R. Paul](https://www.rohan-paul.com/p/kv-caching-in-llm-inference-a-comprehensive)", "depends",
        "one reader of Llama-3.1-8B on an A100: {short:.1f} ms after 1,000 tokens, {long:.1f} ms after 128,000; "
        "16 readers: {found:.1f} times as long after 32,000 as after 1,000")
def constant_token_time() -> dict[str, float]:
    """Each step reads the whole cache. That is little beside the weights until texts or batches are long."""
    cost = Roofline(card("a100-80g"), served_model("llama-3.1-8b"))

    def ms(readers: int, tokens: int) -> float:
        return 1e3 * cost.step_seconds(StepWork(num_decodes=readers, decode_kv=readers * tokens))

    return {"claimed": 1, "found": ms(16, 32_000) / ms(16, 1000), "short": ms(1, 1000), "long": ms(1, 128_000)}


@claims("Requests of 100, 50, 200 and 30 tokens in one static batch use 30% of the GPU", TEXT.format(7), "no",
        "{found:.1f}% of the slot-steps")
def static_batch() -> dict[str, float]:
    """Add up the steps in which a seat works, and divide by all seats times the longest."""
    outputs = (100, 50, 200, 30)
    return {"claimed": 30, "found": 100 * sum(outputs) / (len(outputs) * max(outputs))}


@claims("Continuous batching enables 23x throughput",
        "[Anyscale, a title](https://www.anyscale.com/blog/continuous-batching-llm-inference)", "depends",
        "{found:.1f} times by continuous batching, {paged:.1f} times with paged memory too, on one card and one queue")
def continuous_batching() -> dict[str, float]:
    """Two ideas work together here. Most of the gain is memory, and the rest is what one compares with."""
    static = _serve(common.SHAREGPT, 150, policy="static", max_num_batched_tokens=common.PAPER_SLOTS, max_num_seqs=7)
    seats = _serve(common.SHAREGPT, 150, memory="max")
    paged = _serve(common.SHAREGPT, 150)
    return {"claimed": 23, "found": static.end / seats.end, "paged": static.end / paged.end}


@claims("A constant batch size is best", TEXT.format(8), "no",
        "a batch that stays at 28 makes {fixed:,.0f} tokens a second, one that goes from {least} to {most} "
        "{free:,.0f}")
def constant_batch() -> dict[str, float]:
    """The batch that always fits is smaller than the one that fits now."""
    runs = {seats: _serve(common.SHAREGPT, 150, max_num_seqs=seats) for seats in (28, 48, 256)}
    fixed, capped, free = (common.output_rate(run, *common.full_window(run)) for run in runs.values())
    start, end = common.full_window(runs[256])
    running = [count for at, count in zip(runs[256].steps.start, runs[256].steps.running) if start <= at <= end]
    return {"fixed": fixed, "free": free, "least": min(running), "most": max(running), "seats": 48, "capped": capped}


@claims("Who has generated most is least likely to finish soon", TEXT.format(8), "no",
        "of {answers:,} real answers {start:.0f}% end within 50 tokens from the start, {middle:.0f}% after 200 tokens, "
        "{late:.0f}% after 400")
def most_generated() -> dict[str, float]:
    """How long an answer is tells something about its end, but not what one thinks. Ask the traffic."""
    outputs = [request.output_tokens for request in load_trace("azure-conv").requests]

    def soon(generated: int) -> float:
        rest = [length - generated for length in outputs if length > generated]
        return 100 * sum(left <= 50 for left in rest) / len(rest)

    return {"answers": len(outputs), "start": soon(0), "middle": soon(200), "late": soon(400)}


@claims("The cost of a swap is small beside the run time", TEXT.format(8), "depends",
        "512 tokens out and in take {one:.0f} ms, as long as {steps:.1f} steps; in a crowded run swaps take "
        "{share:.1f}% of all time")
def swap_cost() -> dict[str, float]:
    """True for one swap. But all others wait for it, and a crowded server swaps again and again."""
    gpu, model = common.paper_machine()
    cost = Roofline(gpu, model, 16)
    one = cost.step_seconds(StepWork(swap_blocks=2 * 32))
    crowded = _serve(common.SHAREGPT, 150, victim="most_generated", preemption="swap", num_cpu_blocks=981)
    swapping = cost.step_seconds(StepWork(swap_blocks=crowded.counts.swapped_blocks))
    return {"one": 1e3 * one, "steps": one / cost.step_seconds(StepWork(num_decodes=1, decode_kv=512)),
            "share": 100 * swapping / crowded.end}


def _serve(lengths: tuple[float, float, str], count: int, **options: object) -> SimResult:
    """A full queue on the paper's machine: OPT-13B on an A100-40GB."""
    options = {"max_model_len": common.MAX_MODEL_LEN, "enable_prefix_caching": False, **options}
    settings = Serving(common.PAPER_SLOTS // 16, **options)
    return common.serve(common.workload(lengths, count), settings, common.paper_machine(), sample_every=0.5)
