"""The settings of a simulated server, and core's scheduler and memory made from them (chapter 14)."""
from __future__ import annotations

from dataclasses import asdict, dataclass

from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, StaticBatchingScheduler
from minipaged.core.base_scheduler import BaseScheduler
from minipaged.core.events import EventLog
from minipaged.sim.reservation import RESERVATIONS, ContiguousKV, ReservingScheduler


@dataclass(frozen=True)
class Serving:
    """Settings by vLLM's names, plus the baselines.

    memory      "paged", or one contiguous region a request: reserved to the "max" length, to the "pow2"
                above the output, or to the "oracle"'s exact length; `fit`: "buddy" or "first_fit"
    policy      "fcfs", "round_robin", "priority", or "static" (whole batches, memory for the longest)
    preemption  "recompute", or "swap" with `num_cpu_blocks` blocks on the host
    """

    num_blocks: int
    block_size: int = 16
    memory: str = "paged"
    fit: str = "buddy"
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int | None = None
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    share_partial_blocks: bool = False
    free_order: str = "unhashed_first"
    policy: str = "fcfs"
    quantum: int = 16
    victim: str = "newest"
    preemption: str = "recompute"
    num_cpu_blocks: int = 0
    watermark: float = 0.0

    def __post_init__(self) -> None:
        if self.memory != "paged" and self.memory not in RESERVATIONS:
            raise ValueError(f"memory is {self.memory!r}; it must be one of paged, {', '.join(RESERVATIONS)}")
        if self.memory == "max" and self.max_model_len is None:
            raise ValueError("memory 'max' reserves max_model_len tokens a request; set max_model_len")
        if self.memory != "paged" and (self.policy != "fcfs" or self.preemption != "recompute"):
            raise ValueError(f"memory {self.memory!r} is a baseline for policy fcfs, which never preempts")
        if self.policy == "static" and self.preemption != "recompute":
            raise ValueError("static batching never preempts; leave preemption at 'recompute'")
        if self.preemption == "swap" and self.num_cpu_blocks < 1:
            raise ValueError("preemption 'swap' needs a host pool; set num_cpu_blocks")

    def scheduler(self, events: EventLog | None = None) -> BaseScheduler:
        """A fresh scheduler with fresh memory."""
        shared = dict(max_num_seqs=self.max_num_seqs, max_num_batched_tokens=self.max_num_batched_tokens,
                      max_model_len=self.max_model_len, events=events)
        options = dict(enable_chunked_prefill=self.enable_chunked_prefill, watermark=self.watermark)
        if self.memory != "paged":
            region = ContiguousKV(self.num_blocks * self.block_size, self.memory, fit=self.fit,
                                  max_model_len=self.max_model_len)
            return ReservingScheduler(region, **shared, **options)
        kv = KVCacheManager(self.num_blocks, self.block_size, free_order=self.free_order, events=events,
                            enable_prefix_caching=self.enable_prefix_caching and self.policy != "static",
                            share_partial_blocks=self.share_partial_blocks, num_cpu_blocks=self.num_cpu_blocks)
        if self.policy == "static":
            return StaticBatchingScheduler(kv, **shared)
        return ContinuousBatchingScheduler(kv, **shared, **options, scheduling_policy=self.policy,
                                           quantum=self.quantum, victim=self.victim,
                                           preemption_mode=self.preemption)

    def describe(self) -> dict:
        return asdict(self)
