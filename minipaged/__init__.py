"""minipaged: PagedAttention to read, run and break, with an engine that serves real prompts.

    from minipaged import LLM, SamplingParams
    print(LLM(model="tiny").generate(["Once upon a time"])[0].outputs[0].text)

The public names are loaded when first used: `import minipaged` alone loads neither torch nor numpy.
"""
from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minipaged.runtime.engine import LLM, BeamSearchParams, RequestOutput
    from minipaged.sampling_params import SamplingParams

__version__ = "0.1.0"
__all__ = ["LLM", "BeamSearchParams", "RequestOutput", "SamplingParams", "__version__"]

_WHERE = {
    "LLM": "minipaged.runtime.engine",
    "BeamSearchParams": "minipaged.runtime.engine",
    "RequestOutput": "minipaged.runtime.engine",
    "SamplingParams": "minipaged.sampling_params",
}


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'minipaged' has no attribute {name!r}; it has {', '.join(__all__)}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value  # the next look-up does not come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
