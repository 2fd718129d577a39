// The film's frame: title, facts, boards, and the dock with timeline and controls.
import { make } from "./board.js";
import { count } from "./words.js";

// The parts of the player, from top to bottom.
export function putTogether(root, title, { runs, boards, timeline, controls, live }) {
  root.classList.add("mp-film");
  root.tabIndex = 0;
  root.setAttribute("role", "region");
  root.setAttribute("aria-label", title);
  const { requests, blocks, blockSize, steps } = runs[0].totals;
  const facts = [
    count(requests, "request"),
    `${count(blocks, "block")} of ${count(blockSize, "token")}`,
    count(steps, "step"),
    count(runs[0].length, "event"),
  ].join(" · ");
  const heading = make("div", {}, make("h2", { textContent: title }), make("p", { textContent: facts }));
  const elements = boards.map((board) => board.element);
  const body = make("div", { className: "mp-body" });
  body.append(
    make("header", { className: "mp-head" }, heading, controls.tools),
    make("div", { className: `mp-boards mp-boards-${runs.length}` }, ...elements),
    make("div", { className: "mp-dock" }, timeline.element, controls.element),
  );
  root.replaceChildren(body, live, controls.help);
}
