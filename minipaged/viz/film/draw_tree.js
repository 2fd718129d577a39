// The prefix tree: which cached block continues which. A tail that is filled in part is a dashed square.
import { plate, write } from "./canvas.js";
import { treePlaces } from "./layout.js";
import { count, who } from "./words.js";

const MOST_NODES = 4000;
const LABEL_FROM = 17;

// {nodes, places ...}: the tree of these blocks.
function treeOf(state, blocks) {
  const children = new Map();
  const keys = new Set();
  const add = (parent, node) => {
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(node);
  };
  for (const block of blocks) {
    const key = state.fullKey[block];
    if (key >= 0) keys.add(key);
    if (key >= 0) add(state.fullParent[block], { block, key, tail: false });
    else add(state.tailParent[block], { block, key: -1, tail: true });
  }
  const roots = [...children].filter(([parent]) => !keys.has(parent)).flatMap(([, below]) => below);
  const seen = new Set(); // two blocks can have one key: what follows is drawn once
  const below = ({ key }) => {
    if (key < 0 || seen.has(key)) return [];
    seen.add(key);
    return children.get(key) ?? [];
  };
  return treePlaces(roots, below);
}

function cachedBlocks(state) {
  const blocks = [];
  for (let block = 0; block < state.n; block++) if (state.isCached(block)) blocks.push(block);
  return blocks;
}

export function treeWords(state) {
  const blocks = cachedBlocks(state);
  if (!blocks.length) return "Nothing is cached yet.";
  if (blocks.length > MOST_NODES) return `${count(blocks.length, "cached block")}: too many for a picture.`;
  const tree = treeOf(state, blocks);
  const branches = count(tree.rows, "branch", "branches");
  return `Prefix tree: ${count(blocks.length, "cached block")} in ${branches}, ${tree.deepest + 1} deep at most.`;
}

export function drawTree(picture, view) {
  const { ctx, width, height } = picture;
  const { state, run, theme, selected } = view;
  let blocks = cachedBlocks(state);
  if (blocks.length > MOST_NODES) {
    // then only what the selected request holds
    const table = state.tables.get(selected) ?? [];
    write(
      ctx,
      treeWords(state) + (table.length ? ` This is the branch of ${who(run.names[selected])}.` : ""),
      0,
      height - 10,
      { size: 11, colour: theme.muted },
    );
    blocks = table.filter((block) => block >= 0 && state.isCached(block));
  } else if (!blocks.length) write(ctx, treeWords(state), 0, 12, { size: 12, colour: theme.muted });
  if (!blocks.length) return;
  const tree = treeOf(state, blocks);
  const columns = tree.deepest + 1;
  const cell = Math.max(
    2,
    Math.min(26, Math.floor((height - 2) / Math.max(tree.rows, 1)), Math.floor((width - 34) / columns)),
  );
  const stride = Math.max(cell, Math.min(cell * 1.6, (width - 34) / columns));
  const side = Math.max(2, cell - Math.max(1, cell * 0.22));
  const root = cell >= 12 ? 34 : 8;
  const x = (depth) => root + depth * stride;
  const middle = (row) => row * cell + cell / 2 + 1;
  write(ctx, cell >= 12 ? "root" : "", 0, middle(0), { size: 10, colour: theme.muted });
  ctx.strokeStyle = theme.muted;
  ctx.beginPath();
  for (const { parent, depth, row } of tree.places) {
    const fromX = parent ? x(parent.depth) + side : root - 8;
    const fromY = parent ? middle(parent.row) : middle(0);
    const bend = x(depth) - Math.min(5, (stride - side) / 2 + 1);
    ctx.moveTo(fromX, fromY);
    ctx.lineTo(bend, fromY);
    ctx.lineTo(bend, middle(row));
    ctx.lineTo(x(depth), middle(row));
  }
  ctx.stroke();
  for (const { node, depth, row } of tree.places) drawNode(picture, view, node, x(depth), middle(row) - side / 2, side);
}

function drawNode(picture, view, { block, tail }, left, top, side) {
  const { ctx } = picture;
  const { state, theme, tiles, followed, event } = view;
  const holders = state.holders[block];
  const size = Math.round(side);
  ctx.drawImage(holders.length ? tiles.owner(holders[0], size, size) : tiles.cached(size, size), left, top, side, side);
  if (tail) {
    ctx.fillStyle = theme.paper; // the part of the block that can't be found
    ctx.globalAlpha = 0.8;
    ctx.fillRect(left, top, side, side * (1 - state.tailTokens[block] / state.blockSize));
    ctx.globalAlpha = 1;
  }
  const marked = block === followed ? theme.accent : event.block === block ? theme.ink : null;
  if (side >= 8 || marked) {
    ctx.strokeStyle = marked ?? (holders.length ? theme.muted : theme.dots);
    ctx.lineWidth = marked ? 2.5 : 1;
    if (tail) ctx.setLineDash([2, 2]);
    ctx.strokeRect(left + 0.5, top + 0.5, side - 1, side - 1);
    ctx.setLineDash([]);
    ctx.lineWidth = 1;
  }
  if (side >= LABEL_FROM) plate(ctx, block, left + side / 2, top + side / 2, theme, { size: 9 });
  picture.hits.push([left, top, side, side, { block }]);
}
