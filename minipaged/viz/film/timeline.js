// The timeline as a slider: it is drawn by draw_timeline.js, dragged by mouse or finger, read by screen readers.
import { make } from "./board.js";
import { Picture } from "./canvas.js";
import { drawCursor, drawTimelineGround, timeAt, timelineHeight } from "./draw_timeline.js";
import { number } from "./words.js";

export class Timeline {
  // `onMove(position)` while it is dragged, `onRest()` when it is let go.
  constructor(clock, onMove, onRest) {
    this.clock = clock;
    this.dragging = false;
    this.picture = new Picture("");
    const { canvas } = this.picture;
    this.element = make("div", { className: "mp-timeline" }, canvas);
    const facts = {
      role: "slider",
      "aria-label": "Timeline: event",
      "aria-valuemin": 0,
      "aria-valuemax": clock.length - 1,
      tabindex: 0,
    };
    for (const [name, value] of Object.entries(facts)) canvas.setAttribute(name, value);
    const go = (event) => onMove(timeAt(event.clientX - canvas.getBoundingClientRect().left, this.width, clock.length));
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.dragging = true;
      go(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.dragging) go(event);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, () => {
        if (this.dragging) {
          this.dragging = false;
          onRest();
        }
      });
    }
  }

  measure() {
    this.width = this.element.clientWidth;
  }

  draw(position, sentence, theme, scale, playing) {
    const { picture, clock, width } = this;
    const height = timelineHeight(clock.runs.length);
    if (!picture.begin(width, height, scale)) return;
    const key = [width, scale, theme.paper].join();
    if (this.key !== key) {
      // everything but the cursor, once
      this.key = key;
      this.ground = make("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
      const ctx = this.ground.getContext("2d");
      ctx.scale(scale, scale);
      drawTimelineGround(ctx, width, height, clock, theme);
    }
    picture.ctx.drawImage(this.ground, 0, 0, width, height);
    drawCursor(picture.ctx, width, height, clock, position, theme);
    picture.canvas.setAttribute("aria-valuenow", position);
    if (!playing) picture.canvas.setAttribute("aria-valuetext", `event ${number(position)}: ${sentence}`);
  }
}
