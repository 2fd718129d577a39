"""The tree of contents that the prefix cache knows (chapter 06).

    show(prefix_tree(events))
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from minipaged.core.events import Event
from minipaged.viz.figures.pool import tell_faults
from minipaged.viz.replay import Replay, replay
from minipaged.viz.show import Picture
from minipaged.viz.style import INK, LOOKS, MUTED, PAPER, Look, box, legend, new_canvas, styled, write

MAX_DEPTH = 5
MAX_ENDS = 24


@dataclass
class Node:
    """One contents: the blocks that have it, its tokens, and what follows. `run`: contents joined into this box."""

    blocks: list[int]
    tokens: int
    tail: bool
    run: int = 1
    children: list[Node] = field(default_factory=list)


def tree_of(state: Replay) -> list[Node]:
    """The roots: contents whose parent is a salt's root, or is known no more."""
    nodes: dict[str, Node] = {}
    parents: dict[str, str] = {}
    for block, (key, parent, tokens) in sorted(state.full.items()):
        nodes.setdefault(key, Node([], tokens, False)).blocks.append(block)
        parents[key] = parent
    roots = []
    for key, node in nodes.items():
        (nodes[parents[key]].children if parents[key] in nodes else roots).append(node)
    for block, (parent, tokens) in sorted(state.tail.items()):
        if block not in state.full:
            (nodes[parent].children if parent in nodes else roots).append(Node([block], tokens, True))
    return roots


def _join(node: Node, state: Replay) -> Node:
    """A row of contents with one child each and the same holders becomes one box."""
    while len(node.children) == 1 and not node.children[0].tail and len(node.blocks) == 1 == len(
            node.children[0].blocks) and state.holders[node.blocks[-1]] == state.holders[node.children[0].blocks[0]]:
        child = node.children[0]
        node = Node(node.blocks[:1], node.tokens + child.tokens, False, node.run + child.run, child.children)
    node.children = [_join(child, state) for child in node.children]
    return node


def _depth(node: Node) -> int:
    return 1 + max((_depth(child) for child in node.children), default=0)


@styled
def prefix_tree(events: Iterable[Event], until: int | None = None, title: str | None = None) -> Picture:
    """What can be found, as a tree from left to right: a box a contents, with its block and who holds it.

    Long rows without a branch are joined into one box when the tree would be deeper than 5. Errors: ValueError
    when nothing is cached, or more than 24 ends.
    """
    state = replay(events, until, strict=False)
    roots = tree_of(state)
    if not roots:
        raise ValueError(f"nothing can be found in the prefix cache after event {state.time}; choose a later event, or "
                         "switch prefix caching on")
    if max(map(_depth, roots)) > MAX_DEPTH:
        roots = [_join(root, state) for root in roots]
    leaves = sum(map(_leaves, roots))
    if leaves > MAX_ENDS:
        raise ValueError(f"a tree with {leaves} ends after event {state.time} does not fit into one picture; choose an "
                         f"event after which it has at most {MAX_ENDS}")
    columns = max(map(_depth, roots))
    figure, axes = new_canvas(2.4 + max(columns, 4) * 3.7 - 0.7, leaves * 1.5 + 0.1, 1)
    y = 0.0
    middle = leaves * 1.5 / 2
    for root in roots:
        height = _leaves(root) * 1.5
        axes.plot((1.6, 2.4), (middle, y + height / 2), color=MUTED, linewidth=1.2, zorder=0)
        _draw(axes, root, state, 2.4, y)
        y += height
    box(axes, 0, middle - 0.5, 1.6, 1.0, Look("#444444", "", PAPER), "root")
    axes.set_title(title or f"What the prefix cache can find after event {state.time}")
    legend(figure, {"held by one": LOOKS["used"], "shared": LOOKS["shared"], "free, still cached": LOOKS["cached"],
                    "dashed: partly filled": Look(PAPER, "", INK)})
    full, tails = len(state.full), sum(block not in state.full for block in state.tail)
    free = sum(state.ref_count[block] == 0 for block in state.full.keys() | state.tail.keys())
    return Picture(figure, f"Prefix tree of {full} full blocks and {tails} partly filled ones, {columns} levels deep "
                           f"with {leaves} ends; {free} of these blocks are free and are evicted when they are "
                           f"needed.{tell_faults(state)}",
                   {"full": [[block, *state.full[block]] for block in sorted(state.full)],
                    "tail": [[block, *state.tail[block]] for block in sorted(state.tail)]})


def _leaves(node: Node) -> int:
    return sum(map(_leaves, node.children)) or 1


def _draw(axes, node: Node, state: Replay, x: float, top: float) -> None:
    height = _leaves(node) * 1.5
    middle = top + height / 2
    for child in node.children:
        child_middle = top + _leaves(child) * 1.5 / 2
        axes.plot((x + 3.0, x + 3.7), (middle, child_middle), color=MUTED, linewidth=1.2, zorder=0)
        _draw(axes, child, state, x + 3.7, top)
        top += _leaves(child) * 1.5
    holders = list(dict.fromkeys(name for block in node.blocks for name in state.holders[block]))
    most = max(state.ref_count[block] for block in node.blocks)  # equal contents in two blocks are not shared
    kind = "cached" if most == 0 else "shared" if most > 1 else "used"
    name = ", ".join(f"P{block}" for block in node.blocks) + (f" and {node.run - 1} more" if node.run > 1 else "")
    who = ", ".join(holders) or "free"
    if len(who) > 10:
        who = f"{len(holders)} holders"
    box(axes, x, middle - 0.62, 3.0, 1.24, LOOKS[kind], gid=f"{name}:{kind}",
        **({"linestyle": "--", "edgecolor": INK, "linewidth": 1.4} if node.tail else {}))
    tokens = f"{node.tokens} token{'s' if node.tokens > 1 else ''}"
    write(axes, x + 1.5, middle, f"{name}\n{tokens}: {who}", LOOKS[kind], fontsize=9, linespacing=1.2)
