"""A virtual clock for the real scheduler: replay traffic on simulated GPUs (chapters 08 to 10, 14 and 16).

`workload` says what arrives, `cost_model` how long a step takes on a `hardware` card, `simulator` drives
core's own scheduler and memory code with them, `result` holds what came of it, `metrics` and `perfetto` say
how it went. `reservation` is memory as it was before paging; `experiments` holds the field's known figures;
`sweep` runs a grid.
"""
