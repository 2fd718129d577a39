"""Explorers: pictures with sliders that run the engine again at every move (chapters 01 to 13).

    from minipaged.viz.widgets import waste_explorer
    waste_explorer()                      the last line of a cell
    waste_explorer().at(block_size=64)    the same, standing elsewhere; its .data and .sentence are plain values

| explorer            | chapter | settings                                | shows                             |
|---------------------|---------|-----------------------------------------|-----------------------------------|
| kv_size_explorer    | 01      | model, tokens, requests, dtype          | KV cache beside weights on a card |
| waste_explorer      | 02, 03  | memory, block_size, pool, workload      | where the slots are, real traffic |
| attention_explorer  | 04      | tokens, block_size, order, reads        | an exact softmax, block by block  |
| sharing_explorer    | 05      | answers, prompt, length, block_size     | what several answers share        |
| prefix_explorer     | 06      | prefix, groups, block_size, pool        | what a common beginning saves     |
| batching_explorer   | 07      | workload, seats, every                  | static above continuous           |
| scheduling_explorer | 08      | policy, quantum, seats, every, workload | who runs, who waits               |
| preemption_explorer | 09      | pool, mode, victim, host                | who loses memory, and its cost    |
| chunk_explorer      | 10      | budget, prompt, others                  | the steps around a long prompt    |
| rounding_explorer   | 11      | form, pieces, terms                     | words that another order changes  |
| split_explorer      | 12      | card, requests, context, splits         | how busy a card is, time at best  |
| warp_explorer       | 13      | each, apart, start                      | sectors that one read moves       |
"""
from minipaged.viz.widgets.attention import attention_explorer
from minipaged.viz.widgets.batching import batching_explorer
from minipaged.viz.widgets.chunk import chunk_explorer
from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.kv_size import kv_size_explorer
from minipaged.viz.widgets.preemption import preemption_explorer
from minipaged.viz.widgets.prefix import prefix_explorer
from minipaged.viz.widgets.rounding import rounding_explorer
from minipaged.viz.widgets.scheduling import scheduling_explorer
from minipaged.viz.widgets.sharing import sharing_explorer
from minipaged.viz.widgets.splits import split_explorer
from minipaged.viz.widgets.warp import warp_explorer
from minipaged.viz.widgets.waste import waste_explorer

#: name -> what makes it, in the order of the chapters
EXPLORERS = {make.__name__: make for make in (
    kv_size_explorer, waste_explorer, attention_explorer, sharing_explorer, prefix_explorer, batching_explorer,
    scheduling_explorer, preemption_explorer, chunk_explorer, rounding_explorer, split_explorer, warp_explorer)}

__all__ = ["EXPLORERS", "Control", "Explorer", "Shown", *EXPLORERS]
