// A canvas that knows its size and its pixel ratio, and small things to draw on it.

export const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

export class Picture {
  constructor(label) {
    this.canvas = document.createElement("canvas");
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", label);
    this.ctx = this.canvas.getContext("2d");
    this.width = this.height = 0;
    this.hits = []; // [x, y, width, height, what]: where a click means something
  }

  // An empty canvas, as wide as its place and `height(width)` high. False when it isn't shown.
  begin(width, height, scale) {
    if (width < 20) return false;
    if (this.width !== width || this.height !== height || this.scale !== scale) {
      Object.assign(this, { width, height, scale });
      this.canvas.width = Math.round(width * scale);
      this.canvas.height = Math.round(height * scale);
      this.canvas.style.height = `${height}px`;
    }
    this.hits = [];
    this.ctx.setTransform(scale, 0, 0, scale, 0, 0);
    this.ctx.clearRect(0, 0, width, height);
    this.ctx.lineWidth = 1;
    return true;
  }

  describe(text) {
    if (this.said !== text) this.canvas.setAttribute("aria-label", (this.said = text));
  }

  at(x, y) {
    return this.hits.find(
      ([left, top, width, height]) => x >= left && x < left + width && y >= top && y < top + height,
    )?.[4];
  }
}

export function write(ctx, text, x, y, { size = 11, colour, align = "left", weight = 400 }) {
  ctx.font = `${weight} ${size}px ${FONT}`;
  ctx.textAlign = align;
  ctx.textBaseline = "middle";
  ctx.fillStyle = colour;
  ctx.fillText(text, x, y + 0.5);
}

// Text on a small plate, so that a hatch does not cross it. Returns the plate's width.
export function plate(ctx, text, x, y, theme, { size = 10, weight = 600, align = "center", colour } = {}) {
  ctx.font = `${weight} ${size}px ${FONT}`;
  const width = ctx.measureText(text).width + 5;
  const height = size + 3;
  const left = align === "center" ? x - width / 2 : align === "right" ? x - width : x;
  ctx.fillStyle = theme.paper;
  rounded(ctx, left, y - height / 2, width, height, 3);
  ctx.fill();
  write(ctx, text, left + width / 2, y, { size, weight, align: "center", colour: colour ?? theme.ink });
  return width;
}

export function rounded(ctx, x, y, width, height, radius) {
  ctx.beginPath();
  ctx.roundRect(x, y, width, height, Math.min(radius, width / 2, height / 2));
}

// A curve from above to below with an arrow head.
export function arrow(ctx, x0, y0, x1, y1, { head = true, bend = 0.5 } = {}) {
  const middle = (y1 - y0) * bend;
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.bezierCurveTo(x0, y0 + middle, x1, y1 - middle, x1, y1 - (head ? 5 : 0));
  ctx.stroke();
  if (!head) return;
  ctx.beginPath();
  ctx.moveTo(x1 - 3.5, y1 - 6);
  ctx.lineTo(x1 + 3.5, y1 - 6);
  ctx.lineTo(x1, y1);
  ctx.fill();
}

// Text that fits, with an ellipsis where it was cut.
export function fitted(ctx, text, width, size = 11, weight = 400) {
  ctx.font = `${weight} ${size}px ${FONT}`;
  if (ctx.measureText(text).width <= width) return text;
  let cut = text;
  while (cut.length > 1 && ctx.measureText(`${cut}…`).width > width) cut = cut.slice(0, -1);
  return `${cut}…`;
}
