// One clock for one run, or for two side by side: within a step both go on together, event by event.

// [time in a, time in b] of the first events that differ, or null. What was set up (pool, scheduler) is no difference.
export function firstDifference(a, b) {
  const happened = (run) => run.events.filter(({ kind }) => kind !== "pool" && kind !== "scheduler");
  const left = happened(a);
  const right = happened(b);
  const same = (one, other) =>
    one.kind === other.kind &&
    one.step === other.step &&
    a.fields[one.kind].every(
      (field) =>
        one[field] === other[field] ||
        (typeof one[field] === "object" && JSON.stringify(one[field]) === JSON.stringify(other[field])),
    );
  let at = 0;
  while (at < left.length && at < right.length && same(left[at], right[at])) at++;
  if (at === left.length && at === right.length) return null;
  return [left[at]?.time ?? a.length - 1, right[at]?.time ?? b.length - 1];
}

// `length` positions; at(position) gives the time in each run. `marks` and `stepEnds` are positions.
export class Clock {
  constructor(runs) {
    this.runs = runs;
    this.times = runs.length > 1 ? together(runs) : [null];
    this.length = runs.length > 1 ? this.times[0].length : runs[0].length;
    this.positions = runs.map((run, which) => firstPositions(this.times[which], run.length));
    const merged = (listOf) =>
      [...new Set(runs.flatMap((run, which) => listOf(run).map((time) => this.positionOf(which, time))))].sort(
        (a, b) => a - b,
      );
    this.marks = Object.fromEntries(Object.keys(runs[0].marks).map((kind) => [kind, merged((run) => run.marks[kind])]));
    this.stepEnds = runs.length > 1 ? this.jointStepEnds() : runs[0].stepEnds;
    const differ = runs.length > 1 ? firstDifference(...runs) : null;
    this.difference = differ && Math.max(...differ.map((time, which) => this.positionOf(which, time)));
    this.marks.difference = this.difference === null ? [] : [this.difference];
  }

  at(position) {
    return this.times.map((times) => (times ? times[position] : position));
  }
  positionOf(which, time) {
    return this.positions[which] ? this.positions[which][time] : time;
  }

  jointStepEnds() {
    const step = (position) => Math.max(...this.at(position).map((time, which) => this.runs[which].events[time].step));
    const ends = [];
    for (let position = 0; position < this.length; position++) {
      if (position === this.length - 1 || step(position + 1) !== step(position)) ends.push(position);
    }
    return ends;
  }

  // The nearest position before or after `position` in a sorted list, or null.
  static next(list, position, direction) {
    if (direction > 0) return list.find((one) => one > position) ?? null;
    return list.findLast((one) => one < position) ?? null;
  }
}

function together(runs) {
  const times = runs.map(() => []);
  const at = runs.map(() => 0);
  while (runs.some((run, which) => at[which] < run.length)) {
    const step = Math.min(...runs.map((run, which) => run.events[at[which]]?.step ?? Infinity));
    const ends = runs.map((run, which) => {
      let end = at[which];
      while (end < run.length && run.events[end].step === step) end++;
      return end;
    });
    const longest = Math.max(...ends.map((end, which) => end - at[which]));
    for (let k = 0; k < longest; k++) {
      runs.forEach((_, which) => times[which].push(Math.max(0, Math.min(at[which] + k, ends[which] - 1))));
    }
    ends.forEach((end, which) => {
      at[which] = end;
    });
  }
  return times;
}

function firstPositions(times, length) {
  if (!times) return null;
  const positions = new Int32Array(length).fill(-1);
  times.forEach((time, position) => {
    if (positions[time] < 0) positions[time] = position;
  });
  return positions;
}
