// The free queue from front to back, and the host pool.
import { plate, write } from "./canvas.js";
import { GUTTER, gridFor, placeOf, stripFor } from "./layout.js";
import { number } from "./words.js";

export const FREE_HEIGHT = 44;

export function drawFree(picture, view) {
  const { ctx, width } = picture, { state, theme, tiles, followed, event } = view;
  const count = state.freeCount;
  if (!count) { write(ctx, "No block is free", 0, 20, { size: 12, colour: theme.muted }); return; }
  const strip = stripFor(count, width, 28, 26), side = strip.size - 3;
  const cell = (block, at) => {
    const x = at * strip.size, cached = state.isCached(block);
    if (cached) ctx.drawImage(tiles.cached(side, side), x, 0, side, side);
    const touched = event.block === block;
    ctx.strokeStyle = block === followed ? theme.accent : touched ? theme.ink : cached ? theme.dots : theme.line;
    ctx.lineWidth = block === followed || touched ? 2.5 : 1;
    ctx.setLineDash(cached && !touched && block !== followed ? [3, 2] : []);
    ctx.strokeRect(x + 1, 1, side - 2, side - 2);
    ctx.setLineDash([]);
    ctx.lineWidth = 1;
    const text = block > 999 ? { size: 9 } : { size: 10 };
    if (cached) plate(ctx, block, x + side / 2, side / 2, theme, text);
    else write(ctx, block, x + side / 2, side / 2, { ...text, colour: theme.ink, align: "center", weight: 600 });
    picture.hits.push([x, 0, side, side, { block }]);
  };
  state.freeBlocks(strip.first).forEach(cell);
  state.freeBlocks(strip.last, state.prev).reverse().forEach((block, at) => cell(block, strip.first + 1 + at));
  if (strip.last) write(ctx, "…", (strip.first + 0.5) * strip.size - 2, side / 2, { size: 14, colour: theme.muted, align: "center" });
  write(ctx, "↑ front: taken next", 0, side + 10, { size: 10, colour: theme.muted });
  const end = (strip.last ? strip.first + 1 + strip.last : count) * strip.size - 3;
  if (end > 240) write(ctx, "back ↑", end, side + 10, { size: 10, colour: theme.muted, align: "right" });
}

export function hostGrid(numBlocks, width) {
  return gridFor(numBlocks, width, 90, 30);
}

export function drawHost(picture, view, grid) {
  const { ctx } = picture, { state, theme, tiles, event } = view, { side } = grid;
  for (let block = 0; block < state.hostSize; block++) {
    const [x, y] = placeOf(grid, block, 2), holders = state.host.get(block);
    if (holders?.length) ctx.drawImage(tiles.owner(holders[0], side, side), x, y, side, side);
    else if (holders) ctx.drawImage(tiles.cached(side, side), x, y, side, side);
    const now = event.host_block === block;
    ctx.strokeStyle = now ? theme.ink : holders ? theme.muted : theme.line;
    ctx.lineWidth = now ? 2.5 : 1;
    ctx.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
    ctx.lineWidth = 1;
    if (side < 20) continue;
    if (holders) plate(ctx, `H${block}`, x + side / 2, y + side / 2, theme, { size: 9.5 });
    else write(ctx, `H${block}`, x + side / 2, y + side / 2, { size: 9.5, colour: theme.muted, align: "center" });
    if (holders?.length > 1) plate(ctx, `×${number(holders.length)}`, x + side, y + side - 4, theme, { size: 9, align: "right" });
  }
  write(ctx, "host", GUTTER - 8, 2 + side / 2, { size: 10, colour: theme.muted, align: "right" });
}
