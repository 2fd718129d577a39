// The block map: every block a square, and above it the table of the selected request with arrows to its blocks.
import { arrow, plate, rounded, write } from "./canvas.js";
import { GUTTER, gridFor, placeOf, stripFor } from "./layout.js";
import { drawPixels, drawSquares } from "./draw_squares.js";
import { MARK_SHAPES } from "./look.js";
import { who } from "./words.js";

const STRIP = { label: 16, cell: 22, arrows: 34 };
const SQUARES_FROM = 8; // smaller ones are pixels
const ARROWS_UP_TO = 64; // blocks of one table

export function mapHeight(n, width, maxHeight) {
  const grid = gridFor(n, width, maxHeight, n <= 24 ? 84 : n <= 64 ? 60 : 46);
  const top = STRIP.label + STRIP.cell + STRIP.arrows;
  return { grid, top, height: top + grid.height + (n <= 24 ? 24 : 8) };
}

export function drawMap(picture, view, grid, top) {
  const place = (block) => placeOf(grid, block, top);
  if (grid.cell < SQUARES_FROM) drawPixels(picture, view, grid, top);
  else drawSquares(picture, view, grid, top);
  drawRowNumbers(picture.ctx, view, grid, top);
  drawOutlines(picture.ctx, view, grid, place);
  drawTable(picture, view, grid, place);
  drawEvent(picture.ctx, view, grid, place);
  picture.hits.push([GUTTER, top, grid.width, grid.height, { grid, top }]);
}

function drawRowNumbers(ctx, { theme }, grid, top) {
  const every = Math.max(1, Math.ceil(16 / grid.cell));
  for (let row = 0; row < grid.rows; row += every) {
    write(ctx, row * grid.columns, GUTTER - 8, top + row * grid.cell + Math.max(grid.side / 2, 5), {
      size: 10,
      colour: theme.muted,
      align: "right",
    });
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
  const table = selected === null ? [] : (state.tables.get(selected) ?? []);
  for (const block of table)
    if (block >= 0) outline(ctx, place(block), grid.side, theme.ink, grid.cell >= 8 ? 1.8 : 1, 0.5);
  if (followed !== null && followed < state.n) {
    outline(ctx, place(followed), grid.side, theme.paper, 5, 3);
    outline(ctx, place(followed), grid.side, theme.accent, 3, 3);
  }
}

function drawTable(picture, view, grid, place) {
  const { ctx } = picture;
  const { state, run, theme, tiles, selected } = view;
  const middle = STRIP.label + STRIP.cell;
  if (selected === null) {
    write(ctx, "Select a request to see its block table", 0, 8, { size: 11, colour: theme.muted });
    return;
  }
  const table = state.tables.get(selected) ?? [];
  const { tokens, computed } = state.requests;
  write(ctx, `Block table of ${who(run.names[selected])}`, 0, 8, { size: 11.5, colour: theme.ink, weight: 600 });
  const facts = table.length ? `${computed[selected]} of ${tokens[selected]} tokens computed` : "holds no block now";
  write(ctx, facts, picture.width, 8, { size: 11, colour: theme.muted, align: "right" });
  const strip = stripFor(table.length, picture.width, ...(state.n > 1000 ? [36, 34] : [26, 24]));
  const shown = table
    .map((block, index) => ({ block, index }))
    .filter(({ index }) => index < strip.first || index >= table.length - strip.last);
  ctx.strokeStyle = ctx.fillStyle = theme.ink;
  shown.forEach(({ block, index }, at) => {
    const x = (at + (index < strip.first ? 0 : 1)) * strip.size;
    const width = strip.size - 3;
    if (index === table.length - strip.last)
      write(ctx, "…", x - strip.size / 2, STRIP.label + 11, { size: 12, colour: theme.muted, align: "center" });
    ctx.drawImage(tiles.owner(selected, width, STRIP.cell - 3), x, STRIP.label, width, STRIP.cell - 3);
    plate(ctx, block < 0 ? "–" : block, x + width / 2, STRIP.label + 9.5, theme, { size: 10 });
    if (block < 0) return;
    picture.hits.push([x, STRIP.label, width, STRIP.cell, { block }]);
    const [left, top] = place(block);
    const touched = state.touched[block] === state.time;
    ctx.globalAlpha = touched ? 1 : table.length <= 6 ? 0.65 : table.length <= 20 ? 0.45 : 0.3;
    ctx.strokeStyle = ctx.fillStyle = theme.ink;
    ctx.lineWidth = touched ? 2 : 1.1;
    if (table.length <= ARROWS_UP_TO || touched)
      arrow(ctx, x + width / 2, middle - 2, left + grid.side / 2, top, { head: grid.cell >= 14 });
    ctx.globalAlpha = ctx.lineWidth = 1;
  });
}

// What the event itself does to blocks.
function drawEvent(ctx, view, grid, place) {
  const { event, theme } = view;
  const mark = view.markOf(event);
  const colour = mark ? theme[mark] : theme.ink;
  const { side } = grid;
  if (event.kind === "copy") {
    const [x0, y0] = place(event.src);
    const [x1, y1] = place(event.dst);
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
  const level = Math.abs(y1 - y0) < 2;
  const mx = (x0 + x1) / 2;
  const my = level ? y0 + 26 : (y0 + y1) / 2;
  const angle = Math.atan2(y1 - my, x1 - mx);
  const tip = [x1, y1 + (level ? 3 : 0)];
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
