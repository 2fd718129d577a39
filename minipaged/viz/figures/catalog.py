"""Every figure and film with its chapters and the line that draws it: the table of the README and of the gallery.

The line is the code that the gallery runs, with the values of examples.py as its variables, so it can't be wrong.
"""
from __future__ import annotations

import importlib
import re
from typing import NamedTuple

from minipaged.viz.figures.examples import EXAMPLES, value
from minipaged.viz.film import Film
from minipaged.viz.show import Picture


class Entry(NamedTuple):
    """A figure or film: its module in minipaged.viz, the chapters that it is made for, and how it is drawn."""

    module: str
    chapters: str
    usage: str

    @property
    def name(self) -> str:
        return self.usage.partition("(")[0]


CATALOG = [Entry(*row) for row in (
    ("figures.pool", "00 03", "block_map(events, until=60)"),
    ("figures.sizes", "01", "kv_size_bars(shapes, num_tokens=4096)"),
    ("figures.sizes", "01", "kv_size_curve(shapes, range(0, 32769, 1024))"),
    ("figures.sizes", "01", "cache_work(12, prompt_tokens=4)"),
    ("figures.waste", "02 16", "waste_stack(splits)"),
    ("figures.waste", "02", "waste_over_time(result.memory)"),
    ("figures.waste", "02", "region_strip(8192, regions, wanted=2048)"),
    ("figures.sizes", "03", "block_size_sweep(lengths, sizes=(1, 4, 8, 16, 32, 64, 128, 256))"),
    ("figures.ideas", "03", "page_table_analogy(table, block_size=16, position=37)"),
    ("figures.ideas", "03", "same_idea()"),
    ("figures.tables", "03 05", "block_table_arrows(events, ['A', 'B', 'C'], until=60)"),
    ("figures.pool", "03 06", "free_queue(events)"),
    ("figures.attention", "04 12", "attention_gather(table, context_len=50, block_size=16, num_blocks=16)"),
    ("figures.attention", "04 12", "online_softmax(scores, block_size=4)"),
    ("figures.tables", "05", "copy_on_write(copy_events)"),
    ("figures.plan", "06", "hash_chain(prompts, block_size=4, salts={'C': 'blue'})"),
    ("figures.prefixes", "06", "prefix_tree(events, until=60)"),
    ("figures.ideas", "06", "memory_event_table()"),
    ("figures.timeline", "07 08",
     "batching_gantt({'static': static_events, 'continuous': continuous_events}, first_step=1)"),
    ("figures.timeline", "07 09", "kv_use_over_time(events)"),
    ("figures.plan", "07 11", "step_writes(plan, num_blocks=8)"),
    ("figures.anatomy", "07 11", "step_anatomy(events, step=0)"),
    ("figures.timeline", "08", "waits({'first come': fcfs_events, 'round robin': round_robin_events}, bound=3 * 2)"),
    ("figures.timeline", "09", "batching_gantt({'recompute': recompute_events, 'swap': swap_events})"),
    ("figures.timeline", "10",
     "chunk_interleaving({'whole prompts': whole_events, 'chunks': chunked_events}, budget=8)"),
    ("figures.machine", "12", "roofline(card, kernels)"),
    ("figures.machine", "13", "traffic_ladder(sectors, 'global_load_sectors', best=4)"),
    ("figures.machine", "13", "warp_reads({'4 bytes a lane': range(0, 128, 4), 'a row a lane': range(0, 8192, 256)})"),
    ("figures.serving", "08 14", "latency_percentiles(first_tokens, 'time to the first token')"),
    ("figures.serving", "14 16", "rate_curves(curves, limit=0.1)"),
    ("figures.serving", "16", "beside_published(rows, 'system', 'ours used %', 'published used %')"),
)]

FILMS = [Entry(*row) for row in (
    ("film", "00 03", "Film(events, title='Four requests, one beginning')"),
    ("film", "05", "Film(copy_events, title='P2 is copied', start=14, select='2')"),
    ("film", "07", "Film(static_events, compare=continuous_events, labels=('static', 'continuous'), start=300)"),
    ("film", "09", "Film(recompute_events, compare=swap_events, labels=('recompute', 'swap'))"),
)]


def draw(entry: Entry) -> Picture | Film:
    """The figure or film of an entry, made from the examples."""
    function = getattr(importlib.import_module(f"minipaged.viz.{entry.module}"), entry.name)
    variables = {name: value(name) for name in re.findall(r"\b[a-z_]+\b", entry.usage) if name in EXAMPLES}
    return eval(entry.usage, {entry.name: function, "range": range, **variables})
