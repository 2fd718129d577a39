// The whole run on one line: blocks in use, marks for copies, evictions and preemptions, and where we are.
import { fitted, write } from "./canvas.js";
import { MARK_SHAPES } from "./look.js";

export const TIMELINE = { label: 64, marks: 13, chart: 34 };

export function timelineHeight(runs) {
  return TIMELINE.marks * 3 + TIMELINE.chart * runs + 4;
}

export function timeAt(x, width, length) {
  const share = (x - TIMELINE.label) / Math.max(1, width - TIMELINE.label - 4);
  return Math.max(0, Math.min(length - 1, Math.round(share * (length - 1))));
}

const placeAt = (position, width, length) =>
  TIMELINE.label + (position / Math.max(1, length - 1)) * (width - TIMELINE.label - 4);

// Everything but the cursor; it is drawn once for each size and theme.
export function drawTimelineGround(ctx, width, height, clock, theme) {
  const kinds = ["copy", "evict", "preempt"];
  kinds.forEach((kind, row) => {
    const y = row * TIMELINE.marks + 7;
    write(ctx, kind, 0, y, { size: 10, colour: theme[kind], weight: 600 });
    let last = -9;
    for (const position of clock.marks[kind]) {
      const x = placeAt(position, width, clock.length);
      if (x - last < 3) continue;
      write(ctx, MARK_SHAPES[kind], (last = x), y, {
        size: kind === "evict" ? 8 : 7,
        colour: theme[kind],
        align: "center",
      });
    }
  });
  clock.runs.forEach((run, row) =>
    drawUsed(ctx, width, kinds.length * TIMELINE.marks + row * TIMELINE.chart, clock, run, row, theme),
  );
  if (clock.difference !== null) {
    ctx.fillStyle = theme.evict;
    const x = placeAt(clock.difference, width, clock.length);
    ctx.fillRect(x - 1, 0, 2, height);
    write(ctx, MARK_SHAPES.difference, x, 5, { size: 11, colour: theme.evict, align: "center" });
  }
}

function drawUsed(ctx, width, top, clock, run, row, theme) {
  const base = top + TIMELINE.chart - 2;
  const room = TIMELINE.chart - 8;
  const most = run.totals.blocks;
  const columns = Math.floor(width - TIMELINE.label - 4);
  ctx.beginPath();
  ctx.moveTo(TIMELINE.label, base);
  for (let column = 0; column <= columns; column++) {
    const from = Math.floor((column / columns) * (clock.length - 1));
    const to = Math.floor(((column + 1) / columns) * (clock.length - 1));
    let used = 0;
    for (
      let at = from, stride = Math.max(1, Math.floor((to - from) / 16));
      at <= Math.min(Math.max(from, to - 1), clock.length - 1);
      at += stride
    ) {
      used = Math.max(used, run.used[clock.at(at)[row]]);
    }
    ctx.lineTo(TIMELINE.label + column, base - (used / most) * room);
  }
  ctx.lineTo(TIMELINE.label + columns, base);
  ctx.closePath();
  ctx.fillStyle = theme.area;
  ctx.fill();
  ctx.strokeStyle = theme.edge;
  ctx.stroke();
  ctx.fillStyle = theme.line;
  ctx.fillRect(TIMELINE.label, base - room, columns, 1);
  write(ctx, fitted(ctx, clock.runs.length > 1 ? run.label : "used", TIMELINE.label - 4, 10), 0, base - room / 2 - 5, {
    size: 10,
    colour: theme.muted,
  });
  write(ctx, `of ${most}`, 0, base - room / 2 + 7, { size: 10, colour: theme.muted });
}

export function drawCursor(ctx, width, height, clock, position, theme) {
  const x = placeAt(position, width, clock.length);
  ctx.fillStyle = theme.ink;
  ctx.fillRect(x - 1, 0, 2, height);
  ctx.beginPath();
  ctx.arc(x, height - 5, 5, 0, 7);
  ctx.fill();
  ctx.strokeStyle = theme.paper;
  ctx.lineWidth = 1.5;
  ctx.stroke();
  ctx.lineWidth = 1;
}
