// Where the film lives: on a page of its own, in the output of a cell, or in a widget that Python can steer.
import { Film } from "./app.js";

// A page: keys work wherever the focus is.
export function mountPage(root, film) {
  const player = new Film(root, film);
  document.addEventListener("keydown", (event) => {
    if (!root.contains(event.target)) player.key(event);
  });
  return player;
}

function render({ model, el }) {
  const root = document.createElement("div");
  el.append(root);
  const player = new Film(root, JSON.parse(model.get("film")), (position) => {
    if (model.get("position") === position) return;
    model.set("position", position);
    model.save_changes();
  });
  const onPosition = () => {
    if (model.get("position") !== player.position) player.seek(model.get("position"));
  };
  model.on("change:position", onPosition);
  return () => {
    model.off("change:position", onPosition);
    player.close();
  };
}

// The output of a cell: the film takes the place of its still picture.
function replace(figure, style, film) {
  const sheet = document.createElement("style");
  const root = document.createElement("div");
  sheet.textContent = style;
  figure.replaceWith(sheet, root);
  return new Film(root, film);
}

export default { render, replace };
