// The face of an explorer: labelled native controls, the picture, and one sentence that is read out when it changes.

function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function slider(control, position, moved) {
  const said = make("output", { textContent: control.texts[position] });
  const input = make("input", { type: "range", min: 0, max: control.texts.length - 1, step: 1, value: position });
  const show = (value) => {
    input.value = value;
    input.setAttribute("aria-valuetext", control.texts[value]);
    said.textContent = control.texts[value];
  };
  show(position);
  input.addEventListener("input", () => { show(Number(input.value)); moved(Number(input.value)); });
  return { row: make("label", {}, make("span", { textContent: control.label }), input, said), show };
}

function list(control, position, moved) {
  const options = control.texts.map((text, index) => make("option", { value: index, textContent: text }));
  const select = make("select", {}, ...options);
  const show = (value) => { select.value = value; };
  show(position);
  select.addEventListener("change", () => moved(Number(select.value)));
  return { row: make("label", {}, make("span", { textContent: control.label }), select), show };
}

function render({ model, el }) {
  const values = { ...model.get("asked").values };
  let turn = model.get("asked").turn;
  let waiting = false; // for an answer; one question at a time, the newest next
  let again = false;

  const ask = () => {
    if (waiting) { again = true; return; }
    waiting = true;
    turn += 1;
    model.set("asked", { turn, values: { ...values } });
    model.save_changes();
  };

  const picture = make("div", { className: "picture" });
  if (matchMedia("(max-width: 480px)").matches) picture.tabIndex = 0; // there it scrolls, so keys must reach it
  const sentence = make("p", { className: "sentence" });
  sentence.setAttribute("aria-live", "polite");
  const controls = model.get("controls").map((control) => {
    const build = control.slider ? slider : list;
    return { ...build(control, values[control.name], (value) => { values[control.name] = value; ask(); }), control };
  });
  const reset = make("button", { type: "button", textContent: "Start values" });
  reset.addEventListener("click", () => {
    for (const { control, show } of controls) { values[control.name] = control.start; show(control.start); }
    ask();
  });

  const showAnswer = () => {
    const answer = model.get("answer");
    picture.innerHTML = answer.svg;
    sentence.textContent = answer.sentence;
    el.dataset.turn = answer.turn;
    turn = Math.max(turn, answer.turn);
    waiting = false;
    if (again) { again = false; ask(); }
  };
  // a second view of the same explorer follows the first
  const follow = () => {
    const asked = model.get("asked");
    turn = Math.max(turn, asked.turn);
    if (again) return;
    for (const { control, show } of controls) {
      values[control.name] = asked.values[control.name];
      show(values[control.name]);
    }
  };
  model.on("change:answer", showAnswer);
  model.on("change:asked", follow);
  showAnswer();

  // JupyterLab takes the arrow keys of a focused control for itself unless they stop here
  const keep = (event) => event.stopPropagation();
  el.addEventListener("keydown", keep);
  el.classList.add("minipaged-explorer");
  const group = make("section", {}, make("p", { className: "title", textContent: model.get("title") }),
    make("div", { className: "controls" }, ...controls.map(({ row }) => row), reset), picture, sentence);
  group.setAttribute("aria-label", model.get("title"));
  el.append(group);
  return () => {
    model.off("change:answer", showAnswer);
    model.off("change:asked", follow);
    el.removeEventListener("keydown", keep);
  };
}

export default { render };
