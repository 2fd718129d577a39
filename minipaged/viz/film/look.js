// How things look: colours, hatches and themes. A request has a colour and a hatch, so that no colour stands alone.

// Okabe and Ito's colours; the same order as minipaged/viz/style.py, so that films and figures agree.
const COLOURS = ["#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7"];
const HATCHES = ["", "/", ".", "\\", "x", "-", "|", "o", "+"];

export const THEMES = {
  light: {
    paper: "#ffffff",
    ink: "#1d2129",
    muted: "#5b6270",
    line: "#d9d5cc",
    faint: "#ece9e2",
    cached: "#e9e6df",
    dots: "#8d8a83",
    copy: "#0058a3",
    evict: "#b3400a",
    preempt: "#8a2c6d",
    accent: "#0058a3",
    area: "#c9d6e2",
    edge: "#6d87a1",
  },
  dark: {
    paper: "#1b1e24",
    ink: "#eceef2",
    muted: "#a3abb8",
    line: "#3b414c",
    faint: "#2a2f38",
    cached: "#31363f",
    dots: "#8d95a3",
    copy: "#7cc4ff",
    evict: "#ff9d6b",
    preempt: "#f0a3d6",
    accent: "#7cc4ff",
    area: "#33475c",
    edge: "#7591ad",
  },
};

export const MARK_SHAPES = { copy: "▲", evict: "✕", preempt: "■", difference: "◆" };

export function lookOf(r) {
  return { colour: COLOURS[r % COLOURS.length], hatch: HATCHES[r % HATCHES.length] };
}

function paintHatch(ctx, hatch, width, height, colour) {
  const gap = 6;
  const reach = width + height;
  ctx.strokeStyle = ctx.fillStyle = colour;
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let at = -height; at < reach; at += gap) {
    if (hatch === "/" || hatch === "x") {
      ctx.moveTo(at, height);
      ctx.lineTo(at + height, 0);
    }
    if (hatch === "\\" || hatch === "x") {
      ctx.moveTo(at, 0);
      ctx.lineTo(at + height, height);
    }
    if (hatch === "-" || hatch === "+") {
      ctx.moveTo(0, at + 3.5);
      ctx.lineTo(width, at + 3.5);
    }
    if (hatch === "|" || hatch === "+") {
      ctx.moveTo(at + 3.5, 0);
      ctx.lineTo(at + 3.5, height);
    }
  }
  ctx.stroke();
  if (hatch !== "." && hatch !== "o") return;
  for (let y = 3; y < height; y += gap) {
    for (let x = 3; x < width; x += gap) {
      ctx.beginPath();
      ctx.arc(x, y, hatch === "o" ? 1.9 : 1.1, 0, 7);
      if (hatch === "o") ctx.stroke();
      else ctx.fill();
    }
  }
}

// Small pictures that are painted once and copied many times: (name, width, height) -> canvas.
export class Tiles {
  constructor(scale, theme) {
    Object.assign(this, { scale, theme, made: new Map() });
  }

  get(name, width, height, paint) {
    const key = `${name}:${width}:${height}`;
    let tile = this.made.get(key);
    if (!tile) {
      tile = document.createElement("canvas");
      tile.width = Math.max(1, Math.round(width * this.scale));
      tile.height = Math.max(1, Math.round(height * this.scale));
      const ctx = tile.getContext("2d");
      ctx.scale(this.scale, this.scale);
      paint(ctx);
      this.made.set(key, tile);
    }
    return tile;
  }

  owner(r, width, height) {
    const { colour, hatch } = lookOf(r);
    return this.get(`r${r % 63}`, width, height, (ctx) => {
      ctx.fillStyle = colour;
      ctx.fillRect(0, 0, width, height);
      if (Math.min(width, height) >= 8) paintHatch(ctx, hatch, width, height, "rgba(0,0,0,.45)");
    });
  }

  cached(width, height) {
    return this.get("cached", width, height, (ctx) => {
      ctx.fillStyle = this.theme.cached;
      ctx.fillRect(0, 0, width, height);
      if (Math.min(width, height) >= 8) paintHatch(ctx, ".", width, height, this.theme.dots);
    });
  }
}

// What the page around the film wants, "dark" or "light": JupyterLab, VS Code, or else the reader's system.
export function themeAround(system) {
  const { body } = document;
  if (body.dataset.jpThemeLight === "false" || body.classList.contains("vscode-dark")) return "dark";
  if (body.dataset.jpThemeLight === "true" || body.classList.contains("vscode-light")) return "light";
  return system.matches ? "dark" : "light";
}
