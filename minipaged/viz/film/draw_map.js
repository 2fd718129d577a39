// The block map: every block a square, and above it the table of the selected request with arrows to its blocks.
import { arrow, plate, rounded, write } from "./canvas.js";
import { GUTTER, gridFor, placeOf, stripFor } from "./layout.js";
import { MARK_SHAPES, lookOf } from "./look.js";
import { who } from "./words.js";

const STRIP = { label: 16, cell: 22, arrows: 34 };
const NUMBERS_FROM = 18, NAMES_FROM = 38, BIG_FROM = 54, SLOTS_FROM = 9, ARROWS_UP_TO = 64;

export function mapHeight(n, width, maxHeight) {
  const grid = gridFor(n, width, maxHeight, n <= 24 ? 84 : n <= 64 ? 60 : 46);
  const top = STRIP.label + STRIP.cell + STRIP.arrows;
  return { grid, top, height: top + grid.height + (n <= 24 ? 24 : 8) };
}

export function drawMap(picture, view, grid, top) {
  const place = (block) => placeOf(grid, block, top);
  if (grid.cell < 8) drawPixels(picture, view, grid, top);
  else drawSquares(picture, view, grid, top);
  drawRowNumbers(picture.ctx, view, grid, top);
  drawOutlines(picture.ctx, view, grid, place);
  drawTable(picture, view, grid, place);
  drawEvent(picture.ctx, view, grid, place);
  picture.hits.push([GUTTER, top, grid.width, grid.height, { grid, top }]);
}

// The squares are kept on a canvas of their own, and only those that changed are painted again.
function drawSquares(picture, view, grid, top) {
  const { state, run, memo, tiles, theme } = view, { side } = grid, { scale } = picture;
  const key = [grid.columns, grid.cell, top, picture.width, scale].join();
  if (memo.key !== key || memo.tiles !== tiles) {
    const canvas = document.createElement("canvas");
    canvas.width = picture.canvas.width;
    canvas.height = picture.canvas.height;
    Object.assign(memo, { key, tiles, canvas, ground: canvas.getContext("2d"), holders: [], looks: new Int32Array(state.n).fill(-1) });
    memo.ground.scale(scale, scale);
  }
  const { ground, holders, looks } = memo, filled = state.filled();
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
  if (!holders.length) { drawEmpty(ctx, state.isCached(block), x, y, side, tiles, theme); return; }
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
    const left = Math.round((side * at) / shown), width = Math.round((side * (at + 1)) / shown) - left;
    ctx.drawImage(tiles.owner(holders[at], width, side), x + left, y, width, side);
  }
  if (fill < 1 && side >= 12) { // the part of the block that holds no token yet
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
  for (let slot = 1; slot < state.blockSize; slot++) ctx.fillRect(x, Math.round(y + (side * slot) / state.blockSize), side, 1);
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
  const middle = x + side / 2, big = side >= BIG_FROM, size = big ? 13 : 11;
  if (!holders.length) { write(ctx, `P${block}`, middle, y + side / 2, { size, colour: theme.muted, align: "center" }); return; }
  plate(ctx, `P${block}`, middle, y + (big ? 13 : 10), theme, { size: big ? 12 : 10.5 });
  const names = holders.map((r) => run.names[r]).join(" "), fits = names.length <= (big ? 8 : 5);
  const text = fits ? names : shared ? `×${holders.length}` : `${names.slice(0, big ? 7 : 4)}…`;
  plate(ctx, text, middle, y + side - (big ? 15 : 11), theme, { size, weight: 700 });
  if (shared && fits && big) plate(ctx, `×${holders.length}`, middle, y + side / 2, theme, { size: 11 });
}

// Too small for hatches and numbers: one pixel a block, enlarged.
function drawPixels(picture, { state, theme, memo }, grid, top) {
  const { columns, rows, cell } = grid, { ctx } = picture;
  memo.small ??= document.createElement("canvas");
  const small = memo.small;
  if (small.width !== columns || small.height !== rows) { small.width = columns; small.height = rows; memo.image = null; }
  memo.image ??= new ImageData(columns, rows);
  const colours = memo.colours ??= new Map(), pixels = new Uint32Array(memo.image.data.buffer);
  const rgba = (colour, share = 0) => {
    const key = colour + share;
    if (!colours.has(key)) {
      const [r, g, b] = [1, 3, 5].map((at) => Math.round(parseInt(colour.slice(at, at + 2), 16) * (1 - share)));
      colours.set(key, (255 << 24) | (b << 16) | (g << 8) | r);
    }
    return colours.get(key);
  };
  const free = rgba(theme.faint), cached = rgba(theme.dots);
  for (let block = 0; block < state.n; block++) {
    const holders = state.holders[block];
    pixels[block] = holders.length ? rgba(lookOf(holders[0]).colour, holders.length > 1 ? 0.35 : 0)
      : state.isCached(block) ? cached : free;
  }
  small.getContext("2d").putImageData(memo.image, 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(small, GUTTER, top, columns * cell, rows * cell);
  if (cell < 4) return;
  ctx.fillStyle = theme.paper;
  for (let column = 1; column <= columns; column++) ctx.fillRect(GUTTER + column * cell - 1, top, 1, rows * cell);
  for (let row = 1; row <= rows; row++) ctx.fillRect(GUTTER, top + row * cell - 1, columns * cell, 1);
}

function drawRowNumbers(ctx, { theme }, grid, top) {
  const every = Math.max(1, Math.ceil(16 / grid.cell));
  for (let row = 0; row < grid.rows; row += every) {
    write(ctx, row * grid.columns, GUTTER - 8, top + row * grid.cell + Math.max(grid.side / 2, 5),
      { size: 10, colour: theme.muted, align: "right" });
  }
}

function outline(ctx, [x, y], side, colour, width, away = 1) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = width;
  rounded(ctx, x - away, y - away, side + 2 * away, side + 2 * away, 3);
  ctx.stroke();
  ctx.lineWidth = 1;
}

// What this step touched, what the selected request holds, and the block that is followed.
function drawOutlines(ctx, view, grid, place) {
  const { state, theme, selected, followed, stepStart } = view;
  if (grid.cell >= 14) {
    ctx.globalAlpha = 0.55;
    for (let block = 0; block < state.n; block++) {
      if (state.touched[block] >= stepStart) outline(ctx, place(block), grid.side, theme.accent, 1.5);
    }
    ctx.globalAlpha = 1;
  }
  const table = selected === null ? [] : state.tables.get(selected) ?? [];
  for (const block of table) if (block >= 0) outline(ctx, place(block), grid.side, theme.ink, grid.cell >= 8 ? 1.8 : 1, 0.5);
  if (followed !== null && followed < state.n) {
    outline(ctx, place(followed), grid.side, theme.paper, 5, 3);
    outline(ctx, place(followed), grid.side, theme.accent, 3, 3);
  }
}

function drawTable(picture, view, grid, place) {
  const { ctx } = picture, { state, run, theme, tiles, selected } = view, middle = STRIP.label + STRIP.cell;
  if (selected === null) {
    write(ctx, "Select a request to see its block table", 0, 8, { size: 11, colour: theme.muted });
    return;
  }
  const table = state.tables.get(selected) ?? [], { tokens, computed } = state.requests;
  write(ctx, `Block table of ${who(run.names[selected])}`, 0, 8, { size: 11.5, colour: theme.ink, weight: 600 });
  const facts = table.length ? `${computed[selected]} of ${tokens[selected]} tokens computed` : "holds no block now";
  write(ctx, facts, picture.width, 8, { size: 11, colour: theme.muted, align: "right" });
  const strip = stripFor(table.length, picture.width, ...(state.n > 1000 ? [36, 34] : [26, 24]));
  const shown = table.map((block, index) => ({ block, index })).filter(({ index }) => index < strip.first || index >= table.length - strip.last);
  ctx.strokeStyle = ctx.fillStyle = theme.ink;
  shown.forEach(({ block, index }, at) => {
    const x = (at + (index < strip.first ? 0 : 1)) * strip.size, width = strip.size - 3;
    if (index === table.length - strip.last) write(ctx, "…", x - strip.size / 2, STRIP.label + 11, { size: 12, colour: theme.muted, align: "center" });
    ctx.drawImage(tiles.owner(selected, width, STRIP.cell - 3), x, STRIP.label, width, STRIP.cell - 3);
    plate(ctx, block < 0 ? "–" : block, x + width / 2, STRIP.label + 9.5, theme, { size: 10 });
    if (block < 0) return;
    picture.hits.push([x, STRIP.label, width, STRIP.cell, { block }]);
    const [left, top] = place(block), touched = state.touched[block] === state.time;
    ctx.globalAlpha = touched ? 1 : table.length <= 6 ? 0.65 : table.length <= 20 ? 0.45 : 0.3;
    ctx.strokeStyle = ctx.fillStyle = theme.ink;
    ctx.lineWidth = touched ? 2 : 1.1;
    if (table.length <= ARROWS_UP_TO || touched) arrow(ctx, x + width / 2, middle - 2, left + grid.side / 2, top, { head: grid.cell >= 14 });
    ctx.globalAlpha = ctx.lineWidth = 1;
  });
}

// What the event itself does to blocks.
function drawEvent(ctx, view, grid, place) {
  const { event, theme } = view, mark = view.markOf(event);
  const colour = mark ? theme[mark] : theme.ink, { side } = grid;
  if (event.kind === "copy") {
    const [x0, y0] = place(event.src), [x1, y1] = place(event.dst);
    outline(ctx, [x0, y0], side, colour, 2.5, 2);
    outline(ctx, [x1, y1], side, colour, 2.5, 2);
    bow(ctx, [x0 + side / 2, y0 + side], [x1 + side / 2, y1 + (y1 < y0 - 1 ? side : y1 > y0 + 1 ? 0 : side)], colour);
    return;
  }
  if (!("block" in event)) return;
  const [x, y] = place(event.block);
  outline(ctx, [x, y], side, theme.paper, 4.5, 2);
  outline(ctx, [x, y], side, colour, 2.5, 2);
  if (mark === "evict" && side >= 14) plate(ctx, MARK_SHAPES.evict, x + side - 5, y + 5, theme, { size: 11, colour });
}

// A thick bow, below the squares if both are in one row, with the head of an arrow.
function bow(ctx, [x0, y0], [x1, y1], colour) {
  const level = Math.abs(y1 - y0) < 2, mx = (x0 + x1) / 2, my = level ? y0 + 26 : (y0 + y1) / 2;
  const angle = Math.atan2(y1 - my, x1 - mx), tip = [x1, y1 + (level ? 3 : 0)];
  const along = (back, turn = 0) => [tip[0] - Math.cos(angle + turn) * back, tip[1] - Math.sin(angle + turn) * back];
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = 3;
  ctx.beginPath();
  ctx.moveTo(x0, y0 + (level ? 4 : 0));
  ctx.quadraticCurveTo(mx, my, ...along(7));
  ctx.stroke();
  ctx.beginPath();
  ctx.moveTo(...tip);
  ctx.lineTo(...along(12, 0.5));
  ctx.lineTo(...along(12, -0.5));
  ctx.fill();
  ctx.lineWidth = 1;
}
