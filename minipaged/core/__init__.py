"""The engine's memory and schedule in pure Python: no torch, no numpy, one concept a file."""
from minipaged.core.allocator import BlockAllocator
from minipaged.core.block_table import BlockTable
from minipaged.core.events import Event, EventLog
from minipaged.core.invariants import InvariantError, check_invariants
from minipaged.core.kv_manager import KVCacheManager
from minipaged.core.plan import Admission, ScheduledRequest, StepPlan
from minipaged.core.prefix_cache import PrefixCache
from minipaged.core.request import FinishReason, Request, RequestStatus
from minipaged.core.scheduler import ContinuousBatchingScheduler
from minipaged.core.static_batching import StaticBatchingScheduler
from minipaged.sampling_params import SamplingParams

__all__ = ["Admission", "BlockAllocator", "BlockTable", "ContinuousBatchingScheduler", "Event", "EventLog",
           "FinishReason", "InvariantError", "KVCacheManager", "PrefixCache", "Request", "RequestStatus",
           "SamplingParams", "ScheduledRequest", "StaticBatchingScheduler", "StepPlan", "check_invariants"]
