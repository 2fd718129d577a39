// Where the film lives: on a page of its own, or in a notebook through anywidget.
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

export default { render };
