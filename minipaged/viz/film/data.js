// The film's data: columns of numbers become events again. The encoder is minipaged/viz/film_data.py.

// One column of one kind of event, as a function of the row.
function columnReader([type, values], strings) {
  const text = (index) => (index === null ? null : strings[index]);
  if (type === "b") return (row) => values[row] === 1;
  if (type === "s") return (row) => text(values[row]);
  if (type === "l") return (row) => values[row].map(text);
  if (type === "d") return (row) => entries(values[row], 2, text);
  if (type === "p") return (row) => entries(values[row], 3, text);
  return (row) => values[row];
}

// A dictionary in its own order (an object would sort names that are numbers): [name, value, ...] for each entry.
function entries(flat, width, text) {
  const found = [];
  for (let at = 0; at < flat.length; at += width) found.push([text(flat[at]), ...flat.slice(at + 1, at + width)]);
  return found;
}

// The events as the log has them: {time, step, kind, ...its fields}.
export function decodeEvents(film) {
  const readers = film.kinds.map((kind) =>
    Object.entries(film.columns[kind]).map(([field, column]) => [field, columnReader(column, film.strings)]),
  );
  const rows = new Int32Array(film.kinds.length);
  const events = new Array(film.order.length);
  let run = 0;
  let left = film.steps[1];
  for (let time = 0; time < events.length; time++) {
    while (left === 0) {
      run += 2;
      left = film.steps[run + 1];
    }
    left--;
    const kind = film.order.charCodeAt(time) - 97;
    const event = { time, step: film.steps[run], kind: film.kinds[kind] };
    for (const [field, read] of readers[kind]) event[field] = read(rows[kind]);
    rows[kind]++;
    events[time] = event;
  }
  return events;
}

class Numbering {
  constructor() {
    this.items = [];
    this.numbers = new Map();
  }
  of(item) {
    let number = this.numbers.get(item);
    if (number === undefined) {
      number = this.items.length;
      this.items.push(item);
      this.numbers.set(item, number);
    }
    return number;
  }
}

// Events with small numbers beside the names, for quick replay: r (request), p (parent request), k and pk (keys),
// plan ([request, start, tokens] of a step), sampled (requests of a commit), back (requests of a cancel).
export function linkEvents(events) {
  const names = new Numbering();
  const keys = new Numbering();
  for (const event of events) {
    if ("request" in event) event.r = names.of(event.request ?? "");
    if (event.kind === "fork") event.p = names.of(event.parent);
    if (event.kind === "publish" || event.kind === "withdraw") event.k = event.key === null ? -1 : keys.of(event.key);
    if (event.kind === "publish") event.pk = keys.of(event.parent);
    if (event.kind === "step") event.plan = event.scheduled.map(([name, ...span]) => [names.of(name), ...span]);
    if (event.kind === "commit") event.sampled = new Set(event.tokens.map(([name]) => names.of(name)));
    if (event.kind === "cancel") event.back = event.returned.map((name) => names.of(name));
  }
  return { events, names: names.items, keys: keys.items, numberOf: names.numbers };
}
