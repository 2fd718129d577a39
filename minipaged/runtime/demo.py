"""`minipaged demo`: twelve stories through a small paged memory, then what paging did (chapter 00)."""
from __future__ import annotations

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-m", "--model", default="tiny", help="a bundled name or a model folder (default: tiny)")
    parser.add_argument("--max-tokens", type=int, default=160, help="new tokens a prompt, at most (default: 160)")
    parser.add_argument("--block-size", type=int, default=16, help="tokens a block (default: 16)")
    parser.add_argument("--num-blocks", type=int, help="blocks of the pool (default: half of what all need)")
    parser.add_argument("--temperature", type=float, default=0.7, help="0 is greedy (default: 0.7)")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same stories (default: 0)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--events", metavar="FILE", type=Path, help="also write the event log, as JSON")


def run(args: argparse.Namespace) -> int:
    from minipaged.core.request import SamplingParams
    from minipaged.errors import RequestError, whole_number
    from minipaged.event_file import save_events
    from minipaged.models import model_path
    from minipaged.models.stories import DEMO_PROMPTS, SYSTEM_PROMPT
    from minipaged.output_file import check_writable
    from minipaged.runtime.engine import LLM
    from minipaged.runtime.loader import load_config
    from minipaged.runtime.paging_report import paging_report
    from minipaged.runtime.tokenizer import Tokenizer

    whole_number("--block-size", args.block_size, 1)
    prompts = [SYSTEM_PROMPT + opening for opening in DEMO_PROMPTS]
    params = [SamplingParams(temperature=args.temperature, seed=args.seed + index, max_tokens=args.max_tokens)
              for index in range(len(prompts))]
    tokenizer = Tokenizer.from_folder(model_path(args.model))
    if tokenizer is None:
        raise RequestError(f"model {args.model} has no tokenizer.json, so it can't read text")
    check_writable(args.events)
    num_blocks = args.num_blocks
    if num_blocks is None:
        prompt_ids = [tokenizer.encode(prompt) for prompt in prompts]
        limit = load_config(model_path(args.model)).max_model_len
        num_blocks = half_of_what_all_need(prompt_ids, args.max_tokens, args.block_size, limit)
    llm = LLM(args.model, block_size=args.block_size, num_blocks=num_blocks)
    # The common start is served once by itself; the twelve then share its blocks, the half full last one too.
    llm.generate([SYSTEM_PROMPT], SamplingParams(temperature=0, max_tokens=1))
    outputs = llm.generate(prompts, params, use_tqdm=not args.json)
    report = paging_report(llm.engine.events, llm.engine.max_model_len)
    if args.events is not None:
        save_events(llm.engine.events, args.events)
    if args.json:
        stories = [{"prompt": opening, "text": output.outputs[0].text, "finish_reason": output.outputs[0].finish_reason,
                    "num_cached_tokens": output.num_cached_tokens, "num_preemptions": output.metrics.num_preemptions}
                   for opening, output in zip(DEMO_PROMPTS, outputs)]
        print(json.dumps({"paging": report.to_dict(), "stories": stories}, ensure_ascii=False))
    else:
        _print_stories(DEMO_PROMPTS, outputs)
        _print_report(report, llm.engine.max_model_len)
    return 0


def half_of_what_all_need(tokens: list[list[int]], max_tokens: int, block_size: int, max_model_len: int) -> int:
    """Blocks for the common start once, and for half of all that comes after it: too few to run undisturbed."""
    first, last = min(tokens), max(tokens)
    common = next((i for i, (a, b) in enumerate(zip(first, last)) if a != b), min(len(first), len(last)))
    ends = [min(len(one) + max_tokens, max_model_len) for one in tokens]
    own = sum(-(-(end - common) // block_size) for end in ends)
    return max(-(-max(ends) // block_size), common // block_size + own // 2)


def _print_stories(openings: tuple[str, ...], outputs: list) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for number, (opening, output) in enumerate(zip(openings, outputs), 1):
        story = Text(f"{number:>2}. ", style="bold")
        story.append(opening, style="cyan not bold")
        story.append(output.outputs[0].text.rstrip(), style="not bold")
        console.print(story)
        console.print()


def _print_report(report, max_model_len: int) -> None:
    from rich.console import Console
    from rich.table import Table

    r = report
    rows = [
        ("blocks used", f"{r.blocks_used} of {r.num_blocks}", f"{r.block_size} tokens each, most at one time"),
        ("blocks shared", f"{r.blocks_shared}", "times that a table took an existing block"),
        ("blocks copied", f"{r.blocks_copied}", "copy-on-write, before writing a shared one"),
        ("blocks evicted", f"{r.blocks_evicted}", "cached, but their room was needed"),
        ("preemptions", f"{r.preemptions}", "requests that lost their blocks for a while"),
        ("tokens computed", f"{r.tokens_computed}", f"{r.tokens_recomputed} of them again, after preemption"),
        ("tokens reused", f"{r.tokens_reused}", "found in the prefix cache"),
        ("waste, paged", f"{r.paged_waste:.1%}", f"{r.fullest_slots - r.fullest_filled} of {r.fullest_slots} slots "
                         f"empty at step {r.fullest_step}"),
        ("waste, contiguous", f"{r.contiguous_waste:.1%}", f"{max_model_len} slots for each request there"),
        ("requests at a time", f"{r.fullest_requests}", f"contiguous memory would run {r.contiguous_requests}"),
    ]
    table = Table(title=f"What paging did: the system prompt and {r.num_requests - 1} stories in {r.num_steps} steps",
                  title_justify="left")
    for name, justify in (("what", "left"), ("number", "right"), ("meaning", "left")):
        table.add_column(name, justify=justify)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)
