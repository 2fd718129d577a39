"""Every figure with its chapters and the line that draws it: the table of the README and of the gallery.

The line is the code that the gallery runs, with the values of examples.py as its variables, so it can't be wrong.
"""
from __future__ import annotations

import importlib
import re
from typing import NamedTuple

from minipaged.viz.figures.examples import EXAMPLES, value
from minipaged.viz.show import Picture


class Entry(NamedTuple):
    """A figure: the module it lives in, the chapters that it is made for, and how it is drawn."""

    module: str
    chapters: str
    usage: str

    @property
    def name(self) -> str:
        return self.usage.partition("(")[0]


CATALOG = [Entry(*row) for row in (
    ("pool", "00 03", "block_map(events, until=60)"),
    ("sizes", "01", "kv_size_bars(shapes, num_tokens=4096)"),
    ("sizes", "01", "kv_size_curve(shapes, range(0, 32769, 1024))"),
    ("sizes", "01", "cache_work(12, prompt_tokens=4)"),
    ("waste", "02 16", "waste_stack(splits)"),
    ("waste", "02", "waste_over_time(result.memory)"),
    ("waste", "02", "region_strip(8192, regions, wanted=2048)"),
    ("sizes", "03", "block_size_sweep(lengths, sizes=(1, 4, 8, 16, 32, 64, 128, 256))"),
    ("ideas", "03", "page_table_analogy(table, block_size=16, position=37)"),
    ("ideas", "03", "same_idea()"),
    ("tables", "03 05", "block_table_arrows(events, ['A', 'B', 'C'], until=60)"),
    ("pool", "03 06", "free_queue(events)"),
    ("attention", "04 12", "attention_gather(table, context_len=50, block_size=16, num_blocks=16)"),
    ("attention", "04 12", "online_softmax(scores, block_size=4)"),
    ("tables", "05", "copy_on_write(copy_events)"),
    ("plan", "06", "hash_chain(prompts, block_size=4, salts={'C': 'blue'})"),
    ("prefixes", "06", "prefix_tree(events, until=60)"),
    ("ideas", "06", "memory_event_table()"),
    ("timeline", "07 08", "batching_gantt({'static': static_events, 'continuous': continuous_events}, first_step=1)"),
    ("timeline", "07 09", "kv_use_over_time(recompute_events)"),
    ("plan", "07 11", "step_writes(plan, num_blocks=8)"),
    ("timeline", "08", "waits({'first come': fcfs_events, 'round robin': round_robin_events}, bound=3 * 2)"),
    ("timeline", "09", "batching_gantt({'recompute': recompute_events, 'swap': swap_events})"),
    ("timeline", "10", "chunk_interleaving({'whole prompts': whole_events, 'chunks': chunked_events}, budget=8)"),
    ("machine", "12", "roofline(card, kernels)"),
    ("machine", "13", "traffic_ladder(sectors, 'global_load_sectors')"),
    ("machine", "13", "warp_reads({'4 bytes a lane': range(0, 128, 4), 'a row a lane': range(0, 8192, 256)})"),
    ("serving", "08 14", "latency_percentiles(first_tokens, 'time to the first token')"),
    ("serving", "14 16", "rate_curves(curves, limit=0.1)"),
    ("serving", "16", "beside_published(rows, 'system', 'ours used %', 'published used %')"),
)]


def draw(entry: Entry) -> Picture:
    """The figure of an entry, drawn from the examples."""
    function = getattr(importlib.import_module(f"minipaged.viz.figures.{entry.module}"), entry.name)
    variables = {name: value(name) for name in re.findall(r"\b[a-z_]+\b", entry.usage) if name in EXAMPLES}
    return eval(entry.usage, {entry.name: function, "range": range, **variables})
