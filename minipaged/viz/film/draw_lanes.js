// Who runs, who waits: a lane for each status, a chip for each request.
import { FONT, fitted, plate, rounded, write } from "./canvas.js";
import { count, number } from "./words.js";
import { STATUS } from "./state.js";

const LANES = ["running", "waiting", "paused", "swapped", "finished"];
const LABEL = 74;
const ROW = 30;
const CHIP = 24;
const NARROW = 34;

export function laneNames(run) {
  return LANES.filter((name) => !["paused", "swapped"].includes(name) || run.lanes.has(name));
}

// How many rows the running requests get.
export function runningRows({ most }) {
  return most > 40 ? 4 : most > 24 ? 3 : most > 8 ? 2 : 1;
}

export function lanesHeight(run, rows) {
  return laneNames(run).length * ROW + (rows - 1) * ROW;
}

// `rows`: how many rows the running requests may take; each other lane has one.
export function drawLanes(picture, view, rows) {
  const { ctx } = picture;
  const { state, run, theme } = view;
  const lanes = Object.fromEntries(LANES.map((name) => [name, []]));
  for (const r of state.running) lanes.running.push(r);
  for (const r of state.waiting) lanes[STATUS[state.requests.status[r]]]?.push(r);
  lanes.finished = state.finished.slice(-60).reverse();
  const place = new Map(state.waiting.map((r, at) => [r, at + 1]));
  let y = 0;
  for (const name of laneNames(run)) {
    const height = name === "running" ? ROW * rows : ROW;
    const total = name === "finished" ? state.finished.length : lanes[name].length;
    write(ctx, name[0].toUpperCase() + name.slice(1), 0, y + 10, { size: 12, colour: theme.ink, weight: 600 });
    write(
      ctx,
      name === "running" && state.seats && state.seats < 1000 ? `${total} of ${state.seats}` : number(total),
      0,
      y + 22,
      { size: 10, colour: theme.muted },
    );
    drawChips(picture, view, lanes[name], total, { top: y, rows: height / ROW, name, place });
    y += height;
    ctx.fillStyle = theme.faint;
    ctx.fillRect(0, y - 2, picture.width, 1);
  }
}

function drawChips(picture, view, requests, total, { top, rows, name, place }) {
  const width = picture.width - LABEL;
  const { ctx } = picture;
  const { state, theme } = view;
  const seats = name === "running" && state.seats <= 16 ? state.seats : 0;
  const wanted = Math.max(requests.length, seats);
  let chip = Math.min(92, Math.floor((width * rows) / Math.max(wanted, 1)) - 4);
  let perRow = Math.max(1, Math.floor(width / (chip + 4)));
  while (chip > NARROW && perRow * rows < wanted) perRow = Math.floor(width / (--chip + 4));
  chip = Math.max(chip, NARROW);
  perRow = Math.max(1, Math.floor(width / (chip + 4)));
  const room = perRow * rows;
  const hidden = total - (total > room ? room - 2 : total);
  const spot = (at) => [LABEL + (at % perRow) * (chip + 4), top + 1 + Math.floor(at / perRow) * ROW];
  requests.slice(0, total - hidden).forEach((r, at) => drawChip(picture, view, r, ...spot(at), chip, place.get(r)));
  if (hidden)
    write(ctx, `+${number(hidden)}`, spot(total - hidden)[0] + 4, spot(total - hidden)[1] + 12, {
      size: 11,
      colour: theme.muted,
    });
  ctx.strokeStyle = theme.line;
  ctx.setLineDash([2, 3]);
  for (let at = requests.length; at < Math.min(seats, room); at++) {
    rounded(ctx, spot(at)[0] + 0.5, spot(at)[1] + 0.5, chip - 1, CHIP - 1, 5);
    ctx.stroke();
  }
  ctx.setLineDash([]);
}

function drawChip(picture, view, r, x, y, width, position) {
  const { ctx } = picture;
  const { state, run, tiles, theme, selected, event } = view;
  const small = width < 44;
  const name = run.names[r];
  const { computed, maxTokens, tokens } = state.requests;
  const swatch = small ? width : 18;
  ctx.save();
  rounded(ctx, x, y, width, CHIP, 5);
  ctx.clip();
  ctx.fillStyle = theme.paper;
  ctx.fillRect(x, y, width, CHIP);
  ctx.drawImage(tiles.owner(r, swatch, CHIP), x, y, swatch, CHIP);
  const whole = Math.max(maxTokens[r], tokens[r], 1);
  ctx.fillStyle = theme.line;
  ctx.fillRect(x + (small ? 0 : swatch), y + CHIP - 4, width, 4);
  ctx.fillStyle = theme.edge;
  const bar = small ? width : width - swatch;
  ctx.fillRect(x + width - bar, y + CHIP - 4, Math.round(bar * Math.min(1, computed[r] / whole)), 4);
  ctx.restore();
  if (small) plate(ctx, fitted(ctx, name, width - 6, 10, 600), x + width / 2, y + 10, theme, { size: 10 });
  else {
    const held = state.tables.get(r)?.filter((block) => block >= 0).length ?? 0;
    const note = held ? count(held, "block") : position ? `#${position}` : "";
    ctx.font = `600 12px ${FONT}`;
    const nameWidth = ctx.measureText(name).width;
    ctx.font = `10px ${FONT}`;
    const noteWidth =
      note && nameWidth + ctx.measureText(note).width + 16 < width - swatch ? ctx.measureText(note).width + 6 : 0;
    write(ctx, fitted(ctx, name, width - swatch - 8 - noteWidth, 12, 600), x + swatch + 5, y + 10, {
      size: 12,
      colour: theme.ink,
      weight: 600,
    });
    if (noteWidth) write(ctx, note, x + width - 5, y + 10, { size: 10, colour: theme.muted, align: "right" });
  }
  const chosen = r === selected;
  const acting = event.r === r;
  ctx.strokeStyle = chosen || acting ? theme.ink : theme.line;
  ctx.lineWidth = chosen ? 2.5 : acting ? 1.5 : 1;
  rounded(ctx, x + 0.5, y + 0.5, width - 1, CHIP - 1, 5);
  ctx.stroke();
  ctx.lineWidth = 1;
  picture.hits.push([x, y, width, CHIP, { request: r }]);
}
