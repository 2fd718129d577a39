"""One simulated run as a row of plain options: what `simulate` takes and `sweep` varies (chapter 14)."""
from __future__ import annotations

import argparse
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path

from minipaged.presets import preset
from minipaged.sim import metrics
from minipaged.sim.cost_model import CostModel, Moves, Roofline
from minipaged.sim.hardware import CARDS, card, served_model
from minipaged.sim.profile import Profiled, read_meta
from minipaged.sim.reservation import RESERVATIONS
from minipaged.sim.serving import Serving
from minipaged.sim.simulator import SimResult, check_conservation, simulate
from minipaged.sim.traces import load_trace
from minipaged.sim.workload import Trace


def option(default: object, help: str, *choices: str, kind: type | None = None):
    """A field of Scenario with its help; `kind` where the default is None."""
    return field(default=default, metadata={"help": help, "choices": choices or None, "kind": kind or type(default)})


@dataclass(frozen=True)
class Scenario:
    """Everything that decides a run. Names and defaults are those of the command line."""

    model: str = option("llama-3.1-8b", "preset to serve (see `minipaged calc --list`)")
    gpu: str = option("a100-80g", f"card: {', '.join(CARDS)}")
    profile: str = option("", "folder of measured operator tables, in place of the roofline")
    trace: str = option("azure-conv", "bundled name (azure-conv, mooncake-conv, sharegpt-300, vllm-rtx4090), file, or "
                                      "made: poisson:n=200,rate=4 (poisson, bursty, shared_prefix, multi_turn, "
                                      "samples, beams)")
    first: int = option(None, "only the first N requests", kind=int)
    every: int = option(1, "only each N-th request")
    rate: float = option(None, "squeeze or stretch arrivals to this many requests a second", kind=float)
    policy: str = option("fcfs", "who runs next", "fcfs", "round_robin", "priority", "static")
    quantum: int = option(16, "steps of a seat under round_robin")
    memory: str = option("paged", "paged, or one contiguous region a request", "paged", *RESERVATIONS)
    fit: str = option("buddy", "allocator of contiguous regions", "buddy", "first_fit")
    block_size: int = option(16, "tokens a block")
    blocks: int = option(None, "KV blocks (default: what fits beside the weights in 90%% of the card)", kind=int)
    max_num_seqs: int = option(256, "seats")
    max_num_batched_tokens: int = option(2048, "token budget of a step")
    max_model_len: int = option(None, "longest sequence, prompt and output together", kind=int)
    prefix_caching: bool = option(True, "find prompts that begin alike")
    chunked_prefill: bool = option(True, "compute long prompts in chunks")
    share_partial_blocks: bool = option(False, "share partly filled last blocks too")
    free_order: str = option("unhashed_first", "where released blocks go", "unhashed_first", "append")
    victim: str = option("newest", "who is preempted", "newest", "most_generated", "lowest_priority")
    preemption: str = option("recompute", "what happens to the victim", "recompute", "swap")
    cpu_blocks: int = option(0, "host blocks for swapping")
    watermark: float = option(0.0, "share of the pool that admission leaves free")
    efficiency: float = option(1.0, "share of the datasheet's rates that the roofline reaches")
    host_overhead_us: float = option(None, "microseconds added to every step (default: the profile's, else 0)",
                                     kind=float)
    seed: int = option(0, "for the choices of beam search")

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        """One option a field, dashes for underscores."""
        for one in fields(cls):
            flag, data = "--" + one.name.replace("_", "-"), one.metadata
            shown = "" if one.default is None or one.default is MISSING or one.default == "" else \
                f" (default: {'on' if one.default is True else 'off' if one.default is False else one.default})"
            if data["kind"] is bool:
                parser.add_argument(flag, default=one.default, action=argparse.BooleanOptionalAction,
                                    help=data["help"] + shown)
            else:
                parser.add_argument(flag, default=one.default, type=data["kind"], choices=data["choices"],
                                    metavar=None if data["choices"] else data["kind"].__name__.upper(),
                                    help=data["help"] + shown)

    @classmethod
    def from_args(cls, args: argparse.Namespace) -> Scenario:
        return cls(**{one.name: getattr(args, one.name) for one in fields(cls)})

    def load(self, skip_bad: bool = False) -> Trace:
        """The trace, thinned and stretched as asked."""
        for name in ("first", "every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        trace = load_trace(self.trace, skip_bad).every(self.every)
        trace = trace if self.first is None else trace.first(self.first)
        return trace if self.rate is None else trace.at_rate(self.rate)

    def serving(self) -> Serving:
        """The scheduler's and the memory's settings; without `blocks`, as many as the card has room for."""
        blocks = self.blocks
        if blocks is None:
            blocks = served_model(self.model).num_blocks(card(self.gpu), self.block_size)
        return Serving(blocks, self.block_size, self.memory, self.fit, self.max_num_seqs, self.max_num_batched_tokens,
                       self.max_model_len, self.prefix_caching, self.chunked_prefill, self.share_partial_blocks,
                       self.free_order, self.policy, self.quantum, self.victim, self.preemption, self.cpu_blocks,
                       self.watermark)

    def cost_model(self) -> CostModel:
        """Measured operators where a profile is named, else the roofline. Errors: ValueError for another model's."""
        model, gpu = served_model(self.model), card(self.gpu)
        if self.profile:
            measured = read_meta(Path(self.profile)).get("model")
            if measured and preset(measured).name != model.name:
                raise ValueError(f"the profile {self.profile} is of {measured}; --model says {model.name}")
            return Profiled(Path(self.profile), num_layers=model.shape.num_layers,
                            host_overhead_us=self.host_overhead_us, moves=Moves.on(gpu, model.shape, self.block_size))
        return Roofline(gpu, model, self.block_size, efficiency=self.efficiency,
                        host_overhead_us=self.host_overhead_us or 0.0)

    def simulate(self, trace: Trace | None = None, **options: object) -> SimResult:
        """Run it; options are Simulator's and `progress`. Raises AssertionError if a token was lost."""
        result = simulate(self.serving().scheduler(), self.cost_model(), trace or self.load(), seed=self.seed,
                          **options)
        check_conservation(result)
        return result

    def row(self) -> dict:
        """The flat result of a sweep: the options, then the numbers (`error` when it could not run)."""
        options = {one.name: getattr(self, one.name) for one in fields(self)}
        try:
            return {**options, "error": "", **flatten(metrics.summary(self.simulate()))}
        except (ValueError, MemoryError) as error:
            return {**options, "error": " ".join(str(error).split())}


def flatten(report: dict) -> dict:
    """Nested summaries as ttft_mean, ttft_p99, ..."""
    flat: dict = {}
    for name, value in report.items():
        if name == "trace":
            continue
        if isinstance(value, dict):
            flat |= {f"{name}_{inner}": number for inner, number in value.items()}
        else:
            flat[name] = value
    return flat
