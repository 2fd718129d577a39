"""The command line of ``minipaged calc``: its options, what each of them accepts, and which output is wanted."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

from minipaged.calc.figures import calculate, known_models
from minipaged.calc.table import figures_table, models_table
from minipaged.formulas import DTYPE_BITS, parse_bytes
from minipaged.presets import Preset


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", nargs="?", help="a name from --list, a config.json, or the folder that holds one")
    add("--list", action="store_true", help="list the models known by name, and stop")
    add("--seq-len", type=_count, default=4096, metavar="TOKENS",
        help="tokens of each request, prompt and output together (default 4096)")
    add("--requests", type=_count, default=1, metavar="N", help="requests at once (default 1)")
    add("--shared-prefix", type=_count_or_zero, default=0, metavar="TOKENS",
        help="tokens at the start that all requests have in common (default 0)")
    add("--block-size", type=_count, default=16, metavar="TOKENS", help="tokens a block (default 16)")
    add("--kv-dtype", default="auto", metavar="TYPE", help=f"auto (as the model says), {', '.join(DTYPE_BITS)}")
    add("--kv-scale-bytes", type=_count_or_zero, default=0, metavar="BYTES",
        help="scales kept beside each quantised vector, such as 4 for one fp32 (default 0)")
    add("--tp", type=_count, default=1, metavar="RANKS",
        help="tensor-parallel GPUs; all figures are then for one of them (default 1)")
    add("--memory", type=_memory_size, metavar="SIZE", help="memory of one GPU, as in 80GiB or 80GB")
    add("--gpu-memory-utilization", type=_fraction, default=1.0, metavar="F",
        help="part of it to use (default 1; real engines keep a reserve)")
    add("--weights", default="auto", metavar="SIZE",
        help="memory of all weights: a size, none, or auto (parameters x type, if known)")
    add("--weights-dtype", default="auto", metavar="TYPE", help="element type of the weights")
    add("--json", action="store_true", help="print one JSON object; all sizes are in bytes")


def run(args: argparse.Namespace) -> int:
    if args.list:
        models = known_models()
        print(json.dumps([_model_row(model) for model in models]) if args.json else models_table(models))
        return 0
    if args.model is None:
        raise ValueError("name a model, or see the known ones with `minipaged calc --list`")
    figures = calculate(args)
    print(json.dumps(figures) if args.json else figures_table(figures))
    return 0


def _model_row(model: Preset) -> dict:
    return {"model": model.name, "bytes_per_token": model.shape.bytes_per_token, "kv_dtype": model.shape.kv_dtype,
            "parameters": model.parameters, "source": model.source}


def _checked(convert: Callable, what: str | None = None) -> Callable:
    """``convert`` for argparse: what it refuses is "not ``what``", or in its own words where that is None."""
    def parse(text: str):
        try:
            return convert(text)
        except ValueError as error:
            message = str(error) if what is None else f"{text!r:.60} is not {what}"
            raise argparse.ArgumentTypeError(message) from None

    return parse


def _at_least(minimum: int) -> Callable:
    def convert(text: str) -> int:
        value = int(text)
        if not minimum <= value <= _MOST:
            raise ValueError
        return value

    return convert


def _at_least_a_byte(text: str) -> str:
    """The text of a size, unchanged: whether a unit was written matters later."""
    if parse_bytes(text) < 1:
        raise ValueError(f"{text!r} is no memory at all; write a size, as in 80GiB")
    return text


def _part(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise ValueError
    return value


_MOST = 10**12
_count = _checked(_at_least(1), f"a whole number from 1 to {_MOST:,}")
_count_or_zero = _checked(_at_least(0), f"a whole number from 0 to {_MOST:,}")
_fraction = _checked(_part, "a number above 0 and at most 1")
_memory_size = _checked(_at_least_a_byte)
