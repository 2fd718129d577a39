// Where things go: plain geometry, no drawing.

export const GUTTER = 38; // room for the number of the first block of each row

// Squares for n blocks within a width and a height: as large as fits; many blocks in rows of 8, 16, 24 ...
export function gridFor(n, width, maxHeight, maxCell) {
  const room = width - GUTTER;
  const step = n > 24 ? 8 : 1;
  let best = { cell: 0 };
  for (let columns = Math.min(step, n); columns <= Math.max(step, Math.min(n, room / 2)); columns += step) {
    const rows = Math.ceil(n / columns);
    const cell = Math.floor(Math.min(maxCell, room / columns, maxHeight / rows));
    if (cell >= best.cell) best = { cell, columns, rows };
  }
  if (best.cell < 2) best = { cell: 2, columns: Math.floor(room / 2), rows: Math.ceil(n / Math.floor(room / 2)) };
  const { cell, columns, rows } = best;
  const gap = cell >= 14 ? 3 : cell >= 8 ? 2 : cell >= 4 ? 1 : 0;
  return { columns, rows, cell, gap, side: cell - gap, height: rows * cell, width: columns * cell };
}

export function placeOf(grid, block, top = 0) {
  return [GUTTER + (block % grid.columns) * grid.cell, top + Math.floor(block / grid.columns) * grid.cell];
}

export function blockAt(grid, x, y) {
  return Math.floor(y / grid.cell) * grid.columns + Math.floor((x - GUTTER) / grid.cell);
}

// A row of equal cells for `count` things in a width: the first ones, a gap with "…", the last ones.
export function stripFor(count, width, wanted = 24, least = 18) {
  const size = Math.max(least, Math.min(wanted, Math.floor(width / Math.max(count, 1))));
  const fit = Math.max(1, Math.floor(width / size));
  if (count <= fit) return { size, first: count, last: 0 };
  const last = Math.min(4, Math.max(1, Math.floor(fit / 4)));
  return { size, first: Math.max(1, fit - last - 2), last };
}

// The places of a tree's nodes: leaves in rows, depth in columns. `children(node)` gives a list.
export function treePlaces(roots, children) {
  const places = [];
  let row = 0;
  let deepest = 0;
  const stack = roots.map((node) => ({ node, depth: 0, parent: null })).reverse();
  while (stack.length) {
    const item = stack.pop();
    const below = children(item.node);
    const place = { ...item, row };
    if (item.parent && item.parent.firstChild === undefined) item.parent.firstChild = place;
    places.push(place);
    deepest = Math.max(deepest, item.depth);
    if (!below.length) row++;
    for (let at = below.length - 1; at >= 0; at--)
      stack.push({ node: below[at], depth: item.depth + 1, parent: place });
  }
  return { places, rows: row, deepest };
}
