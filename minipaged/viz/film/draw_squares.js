// The squares of the block map: who holds each block, how full it is, whether it can be found.
import { plate, write } from "./canvas.js";
import { GUTTER, placeOf } from "./layout.js";
import { MARK_SHAPES, lookOf } from "./look.js";

// From which side in pixels a square shows: its number, its holder's name, larger text, a line for each slot.
const NUMBERS_FROM = 18;
const NAMES_FROM = 38;
const BIG_FROM = 54;
const SLOTS_FROM = 9;

// The squares are kept on a canvas of their own, and only those that changed are painted again.
export function drawSquares(picture, view, grid, top) {
  const { state, run, memo, tiles, theme } = view;
  const { side } = grid;
  const { scale } = picture;
  const key = [grid.columns, grid.cell, top, picture.width, scale].join();
  if (memo.key !== key || memo.tiles !== tiles) {
    const canvas = document.createElement("canvas");
    canvas.width = picture.canvas.width;
    canvas.height = picture.canvas.height;
    Object.assign(memo, {
      key,
      tiles,
      canvas,
      ground: canvas.getContext("2d"),
      holders: [],
      looks: new Int32Array(state.n).fill(-1),
    });
    memo.ground.scale(scale, scale);
  }
  const { ground, holders, looks } = memo;
  const filled = state.filled();
  const copied = new Set(state.copies.map((event) => event.dst));
  for (let block = 0; block < state.n; block++) {
    const look = filled[block] * 4 + (state.isCached(block) ? 2 : 0) + (copied.has(block) ? 1 : 0);
    if (holders[block] === state.holders[block] && looks[block] === look) continue;
    holders[block] = state.holders[block];
    looks[block] = look;
    const [x, y] = placeOf(grid, block, top);
    ground.clearRect(x, y, grid.cell, grid.cell);
    drawSquare(ground, view, block, filled[block], x, y, side);
    if (side >= NUMBERS_FROM) label(ground, block, holders[block], run, x, y, side, theme);
    if (copied.has(block) && side >= 14) {
      write(ground, MARK_SHAPES.copy, x + side - 6, y + 6, { size: 9, colour: theme.copy, align: "center" });
    }
  }
  picture.ctx.drawImage(memo.canvas, 0, 0, picture.width, picture.height);
}

function drawSquare(ctx, { state, tiles, theme }, block, filled, x, y, side) {
  const holders = state.holders[block];
  if (!holders.length) {
    drawEmpty(ctx, state.isCached(block), x, y, side, tiles, theme);
    return;
  }
  drawHeld(ctx, holders, filled / state.blockSize, x, y, side, tiles, theme);
  if (side / state.blockSize >= SLOTS_FROM) drawSlots(ctx, { state, theme }, x, y, side);
}

function drawEmpty(ctx, cached, x, y, side, tiles, theme) {
  if (cached) ctx.drawImage(tiles.cached(side, side), x, y, side, side);
  ctx.strokeStyle = cached ? theme.dots : theme.line;
  ctx.setLineDash(cached && side >= 14 ? [3, 2] : []);
  ctx.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
  ctx.setLineDash([]);
}

function drawHeld(ctx, holders, fill, x, y, side, tiles, theme) {
  const shown = Math.min(holders.length, Math.max(1, Math.min(4, Math.floor(side / 7))));
  for (let at = 0; at < shown; at++) {
    const left = Math.round((side * at) / shown);
    const width = Math.round((side * (at + 1)) / shown) - left;
    ctx.drawImage(tiles.owner(holders[at], width, side), x + left, y, width, side);
  }
  if (fill < 1 && side >= 12) {
    // the part of the block that holds no token yet
    ctx.fillStyle = theme.paper;
    ctx.globalAlpha = 0.78;
    ctx.fillRect(x, y, side, Math.round(side * (1 - fill)));
    ctx.globalAlpha = 1;
  }
  ctx.strokeStyle = holders.length > 1 ? theme.ink : theme.muted;
  ctx.strokeRect(x + 0.5, y + 0.5, side - 1, side - 1);
}

// A line between the slots of a block, one a token.
function drawSlots(ctx, { state, theme }, x, y, side) {
  ctx.fillStyle = theme.ink;
  ctx.globalAlpha = 0.28;
  for (let slot = 1; slot < state.blockSize; slot++)
    ctx.fillRect(x, Math.round(y + (side * slot) / state.blockSize), side, 1);
  ctx.globalAlpha = 1;
}

function label(ctx, block, holders, run, x, y, side, theme) {
  const shared = holders.length > 1;
  if (side < NAMES_FROM) {
    const colour = holders.length ? theme.ink : theme.muted;
    if (holders.length) plate(ctx, block, x + side / 2, y + side / 2 - (shared ? 4 : 0), theme, { size: 10 });
    else write(ctx, block, x + side / 2, y + side / 2, { size: 10, colour, align: "center" });
    if (shared) plate(ctx, `×${holders.length}`, x + side / 2, y + side - 6, theme, { size: 9 });
    return;
  }
  const middle = x + side / 2;
  const big = side >= BIG_FROM;
  const size = big ? 13 : 11;
  if (!holders.length) {
    write(ctx, `P${block}`, middle, y + side / 2, { size, colour: theme.muted, align: "center" });
    return;
  }
  plate(ctx, `P${block}`, middle, y + (big ? 13 : 10), theme, { size: big ? 12 : 10.5 });
  const names = holders.map((r) => run.names[r]).join(" ");
  const fits = names.length <= (big ? 8 : 5);
  const text = fits ? names : shared ? `×${holders.length}` : `${names.slice(0, big ? 7 : 4)}…`;
  plate(ctx, text, middle, y + side - (big ? 15 : 11), theme, { size, weight: 700 });
  if (shared && fits && big) plate(ctx, `×${holders.length}`, middle, y + side / 2, theme, { size: 11 });
}

// Too small for hatches and numbers: one pixel a block, enlarged.
export function drawPixels(picture, { state, theme, memo }, grid, top) {
  const { columns, rows, cell } = grid;
  const { ctx } = picture;
  memo.small ??= document.createElement("canvas");
  const small = memo.small;
  if (small.width !== columns || small.height !== rows) {
    small.width = columns;
    small.height = rows;
    memo.image = null;
  }
  memo.image ??= new ImageData(columns, rows);
  const colours = (memo.colours ??= new Map());
  const pixels = new Uint32Array(memo.image.data.buffer);
  const rgba = (colour, share = 0) => {
    const key = colour + share;
    if (!colours.has(key)) {
      const [r, g, b] = [1, 3, 5].map((at) => Math.round(parseInt(colour.slice(at, at + 2), 16) * (1 - share)));
      colours.set(key, (255 << 24) | (b << 16) | (g << 8) | r);
    }
    return colours.get(key);
  };
  const free = rgba(theme.faint);
  const cached = rgba(theme.dots);
  for (let block = 0; block < state.n; block++) {
    const holders = state.holders[block];
    pixels[block] = holders.length
      ? rgba(lookOf(holders[0]).colour, holders.length > 1 ? 0.35 : 0)
      : state.isCached(block)
        ? cached
        : free;
  }
  small.getContext("2d").putImageData(memo.image, 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(small, GUTTER, top, columns * cell, rows * cell);
  if (cell < 4) return;
  ctx.fillStyle = theme.paper;
  for (let column = 1; column <= columns; column++) ctx.fillRect(GUTTER + column * cell - 1, top, 1, rows * cell);
  for (let row = 1; row <= rows; row++) ctx.fillRect(GUTTER, top + row * cell - 1, columns * cell, 1);
}
