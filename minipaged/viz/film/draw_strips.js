// The free queue from front to back, and the host pool.
import { plate, write } from "./canvas.js";
import { GUTTER, gridFor, placeOf, stripFor } from "./layout.js";
import { number } from "./words.js";

export const FREE_HEIGHT = 44;
const CELL = 24;
const HALF = CELL / 2;

export function drawFree(picture, view) {
  const { ctx, width } = picture;
  const { state, theme, tiles, followed, event } = view;
  const count = state.freeCount;
  if (!count) {
    write(ctx, "No block is free", 0, 20, { size: 12, colour: theme.muted });
    return;
  }
  const strip = stripFor(count, width, ...(state.n > 1000 ? [36, 34] : [28, 26]));
  const side = strip.size - 3;
  const cell = (block, at) => {
    const x = at * strip.size;
    const cached = state.isCached(block);
    if (cached) ctx.drawImage(tiles.cached(side, CELL), x, 0, side, CELL);
    const touched = event.block === block;
    ctx.strokeStyle = block === followed ? theme.accent : touched ? theme.ink : cached ? theme.dots : theme.line;
    ctx.lineWidth = block === followed || touched ? 2.5 : 1;
    ctx.setLineDash(cached && !touched && block !== followed ? [3, 2] : []);
    ctx.strokeRect(x + 1, 1, side - 2, CELL - 2);
    ctx.setLineDash([]);
    ctx.lineWidth = 1;
    if (cached) plate(ctx, block, x + side / 2, HALF, theme, { size: 10 });
    else write(ctx, block, x + side / 2, HALF, { size: 10, colour: theme.ink, align: "center", weight: 600 });
    picture.hits.push([x, 0, side, CELL, { block }]);
  };
  state.freeBlocks(strip.first).forEach(cell);
  state
    .freeBlocks(strip.last, state.prev)
    .reverse()
    .forEach((block, at) => cell(block, strip.first + 1 + at));
  if (strip.last)
    write(ctx, "…", (strip.first + 0.5) * strip.size - 2, HALF, { size: 14, colour: theme.muted, align: "center" });
  write(ctx, "↑ front: taken next", 0, CELL + 10, { size: 10, colour: theme.muted });
  const end = (strip.last ? strip.first + 1 + strip.last : count) * strip.size - 3;
  if (end > 240) write(ctx, "back ↑", end, CELL + 10, { size: 10, colour: theme.muted, align: "right" });
}

export function hostGrid(numBlocks, width) {
  return gridFor(numBlocks, width, 90, 38);
}

export function drawHost(picture, view, grid) {
  const { ctx } = picture;
  const { state, theme, tiles, event } = view;
  const { side } = grid;
  for (let block = 0; block < state.hostSize; block++) {
    const [x, y] = placeOf(grid, block, 2);
    const holders = state.host.get(block);
    if (holders?.length) ctx.drawImage(tiles.owner(holders[0], side, side), x, y, side, side);
    else if (holders) ctx.drawImage(tiles.cached(side, side), x, y, side, side);
    const now = event.host_block === block;
    ctx.strokeStyle = now ? theme.ink : holders ? theme.muted : theme.line;
    ctx.lineWidth = now ? 2.5 : 1;
    ctx.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
    ctx.lineWidth = 1;
    if (side < 20) continue;
    const shared = holders?.length > 1;
    if (holders) plate(ctx, `H${block}`, x + side / 2, y + side / 2 - (shared ? 7 : 0), theme, { size: 9.5 });
    else write(ctx, `H${block}`, x + side / 2, y + side / 2, { size: 9.5, colour: theme.muted, align: "center" });
    if (shared) plate(ctx, `×${number(holders.length)}`, x + side / 2, y + side - 8, theme, { size: 9 });
  }
  write(ctx, "host", GUTTER - 8, 2 + side / 2, { size: 10, colour: theme.muted, align: "right" });
}
