"use strict";
// Points as columns: reading, filtering, fronts, and what is exported. Nothing here touches the picture.

const TYPES = { f4: Float32Array, f8: Float64Array, i1: Int8Array, i2: Int16Array, i4: Int32Array, i8: BigInt64Array,
                u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };

async function unpacked(number, type) {
  const text = document.getElementById(`column-${number}`).textContent;
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new TYPES[type](await new Response(stream).arrayBuffer());
}

// A column gives, for each point, a number to draw (`at`) and a value to tell (`tell`).
function prepare(column, arrays) {
  const values = arrays[column.array];
  column.rounded = column.kind !== "axis" && values instanceof Float32Array;
  if (column.kind !== "axis") {
    column.ordered = true;
    column.at = (i) => values[i];
    column.tell = (i) => (column.kind === "boolean" ? Boolean(values[i]) : values[i]);
    return;
  }
  column.ordered = column.labels.every((label) => typeof label === "number");
  column.at = column.ordered ? (i) => column.labels[values[i]] : (i) => values[i];
  column.tell = (i) => column.labels[values[i]];
  column.code = (i) => values[i];
}

// Indices of the points that pass all tests.
function passing(count, tests) {
  const kept = [];
  for (let i = 0; i < count; i++) {
    let passes = true;
    for (let k = 0; k < tests.length && passes; k++) passes = tests[k](i);
    if (passes) kept.push(i);
  }
  return kept;
}

// The points that no other dominates, ordered along x. Equal points are all on the front.
function frontOf(indices, x, y, xMore, yMore) {
  const sx = xMore ? -1 : 1, sy = yMore ? -1 : 1;
  const finite = indices.filter((i) => Number.isFinite(x.at(i)) && Number.isFinite(y.at(i)));
  finite.sort((a, b) => sx * (x.at(a) - x.at(b)) || sy * (y.at(a) - y.at(b)) || a - b);
  const front = [];
  let best = Infinity;
  for (const i of finite) {
    const level = sy * y.at(i);
    const last = front.length ? front[front.length - 1] : -1;
    const same = last >= 0 && x.at(i) === x.at(last) && y.at(i) === y.at(last);
    if (level < best || same) front.push(i);
    best = Math.min(best, level);
  }
  return xMore ? front.reverse() : front;
}

// One point of each cell of the picture: more cannot be seen.
function thinned(indices, x, y, xLog, yLog, width, height) {
  const place = (column, log) => (log ? (i) => Math.log(column.at(i)) : (i) => column.at(i));
  const fx = place(x, xLog), fy = place(y, yLog);
  let lowX = Infinity, highX = -Infinity, lowY = Infinity, highY = -Infinity;
  const finite = [];
  for (const i of indices) {
    const px = fx(i), py = fy(i);
    if (!Number.isFinite(px) || !Number.isFinite(py)) continue;
    finite.push(i);
    if (px < lowX) lowX = px;
    if (px > highX) highX = px;
    if (py < lowY) lowY = py;
    if (py > highY) highY = py;
  }
  const stepX = (highX - lowX) / width || 1, stepY = (highY - lowY) / height || 1;
  const taken = new Uint8Array((width + 1) * (height + 1)), kept = [];
  for (const i of finite) {
    const cell = Math.floor((fx(i) - lowX) / stepX) * (height + 1) + Math.floor((fy(i) - lowY) / stepY);
    if (taken[cell]) continue;
    taken[cell] = 1;
    kept.push(i);
  }
  return { kept, finite: finite.length };
}

function inPolygon(px, py, xs, ys) {
  let inside = false;
  for (let a = 0, b = xs.length - 1; a < xs.length; b = a++) {
    if (ys[a] > py !== ys[b] > py && px < ((xs[b] - xs[a]) * (py - ys[a])) / (ys[b] - ys[a]) + xs[a]) inside = !inside;
  }
  return inside;
}

// Numbers as they are known: float32 has seven digits.
function known(column, value) {
  return column.rounded && !Number.isInteger(value) ? Number(value.toPrecision(7)) : value;
}

function csvOf(indices, columns, shared) {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const cell = (value) => quoted(String(value ?? ""));
  const names = Object.keys(shared);
  const head = [...columns.map((column) => column.name), ...names].map(cell).join(",");
  const tail = names.map((name) => cell(shared[name]));
  const rows = indices.map((i) => [...columns.map((column) => cell(known(column, column.tell(i)))), ...tail].join(","));
  return [head, ...rows].join("\n") + "\n";
}

function literal(value, sources) {
  if (typeof value === "string") return Object.hasOwn(sources, value) ? sources[value] : JSON.stringify(value);
  if (typeof value === "boolean") return value ? "True" : "False";
  return String(value);
}

// The Python call that gives these points again: what differs stands in `points`.
function callOf(indices, columns, call) {
  const byName = new Map(columns.map((column) => [column.name, column]));
  const fixed = Object.entries(call.fixed).map(([name, source]) => `    ${name}=${source},`);
  const options = Object.entries(call.options).map(([name, source]) => `    ${name}=${source},`);
  const varying = [];
  for (const [name, coordinate] of Object.entries(call.columns)) {
    const column = byName.get(coordinate);
    const values = indices.map((i) => literal(column.tell(i), call.sources[name] || {}));
    if (values.every((value) => value === values[0])) fixed.push(`    ${name}=${values[0]},`);
    else varying.push(`        ${JSON.stringify(name)}: [${values.join(", ")}],`);
  }
  const table = varying.length ? ["points = pd.DataFrame(", "    {", ...varying, "    }", ")"] : [];
  const head = varying.length ? ["import pandas as pd", "import stacksweep as ss", "", ...table] : ["import stacksweep as ss", ""];
  const points = varying.length ? ["    points=points,"] : [];
  return [...head, "ds = ss.sweep(", ...points, ...fixed, ...options, ")"].join("\n") + "\n";
}
