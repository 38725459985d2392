// The page: controls, picture, hover, selection.

const meta = JSON.parse(document.getElementById("meta").textContent);
const byId = (id) => document.getElementById(id);
const column = (name) => meta.columns.find((one) => one.name === name);
const state = { x: meta.first.x, y: meta.first.y, colour: meta.first.colour || "", facet: "", sliders: {}, booleans: {},
                constraints: [], kept: [], panels: [], fronts: [], selected: [] };

const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"];
const SYMBOLS = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x"];
const MOST_PANELS = 12, MOST_CLASSES = 14, ROWS = 50, MOST_CALL = 2000;
const PREFIXES = { "-15": "f", "-12": "p", "-9": "n", "-6": "µ", "-3": "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E" };

// Words

function shown(one, i) {
  const value = one.tell(i);
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (one.kind === "flags") {
    const set = one.flags.filter((_, bit) => value & (1 << bit)).map((flag) => flag.replaceAll("_", " "));
    return set.length ? set.join(", ") : "none";
  }
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "number" ? quantity(value, one) : value;
}

function quantity(value, one) {
  let number = value * one.factor, prefix = "";
  if (one.prefixed && number !== 0) {
    const power = Math.max(-15, Math.min(18, 3 * Math.floor(Math.log10(Math.abs(number)) / 3 + 1e-12)));
    const used = one.unit === "s" ? Math.min(power, 0) : power;
    number /= 10 ** used;
    prefix = PREFIXES[used];
  }
  const digits = Number.isInteger(number) ? number : Number(number.toPrecision(5));
  const text = digits.toLocaleString("en", { maximumSignificantDigits: 9 });
  return one.unit ? `${text} ${prefix}${one.unit}` : text;
}

const named = (one) => one.name.replaceAll("_", " ");
const count = (number) => number.toLocaleString("en");

// Controls

function options(select, columns, chosen, none) {
  select.replaceChildren();
  if (none) select.add(new Option(none, ""));
  for (const one of columns) select.add(new Option(named(one), one.name, false, one.name === chosen));
  if (none && !chosen) select.value = "";
}

const drawable = () => meta.columns.filter((one) => one.kind !== "flags" && (one.kind !== "axis" || one.labels.length > 1));
const comparable = () => drawable().filter((one) => one.kind === "number" || (one.kind === "axis" && one.ordered));

// Least and largest value of a column at some points, by default all.
function extent(one, indices) {
  let low = Infinity, high = -Infinity;
  const size = indices ? indices.length : meta.points;
  for (let k = 0; k < size; k++) {
    const value = one.at(indices ? indices[k] : k);
    if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  }
  return [low, high];
}

function suitsLog(one) {
  if (!one.ordered || one.kind === "boolean") return false;
  const [low, high] = extent(one);
  return low > 0 && high / low > 30;
}

function follow(axis) {
  byId(`${axis}-log`).checked = suitsLog(column(state[axis]));
  byId(`${axis}-log`).disabled = !(column(state[axis]).ordered && extent(column(state[axis]))[1] > 0);
  byId(`${axis}-better`).value = column(state[axis]).higher ? "more" : "less";
}

function setUp() {
  byId("title").textContent = meta.title;
  byId("counts").textContent = counts();
  options(byId("x"), drawable(), state.x);
  options(byId("y"), drawable(), state.y);
  options(byId("colour"), drawable(), state.colour, "none");
  const panels = drawable().filter((one) => one.kind === "boolean" || (one.kind === "axis" && one.labels.length <= MOST_PANELS));
  options(byId("facet"), panels, "", "one");
  for (const name of ["x", "y", "colour", "facet"]) {
    byId(name).addEventListener("change", (event) => {
      state[name] = event.target.value;
      if (name === "x" || name === "y") follow(name);
      update();
    });
  }
  for (const id of ["x-log", "y-log", "front", "x-better", "y-better"]) byId(id).addEventListener("change", draw);
  follow("x");
  follow("y");
  for (const one of meta.columns.filter((other) => other.slider)) byId("sliders").append(slider(one));
  for (const one of meta.columns.filter((other) => other.kind === "boolean")) byId("booleans").append(boolean(one));
  byId("add").addEventListener("click", () => addConstraint());
  byId("take-front").addEventListener("click", () => choose(state.fronts.flat()));
  byId("take-all").addEventListener("click", () => choose(state.kept));
  byId("clear").addEventListener("click", () => choose([]));
  byId("csv").addEventListener("click", saveCsv);
  byId("copy").addEventListener("click", copyCall);
  const constants = Object.entries(meta.shared).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`);
  byId("constants").textContent = constants.join(" · ");
  byId("shared").hidden = !constants.length;
}

function counts() {
  const masked = Object.entries(meta.masked).map(([reason, number]) => `${reason.replaceAll("_", " ")} ${count(number)}`);
  const left = masked.length ? ` ${count(meta.total - meta.valid)} of ${count(meta.total)} points cannot be and are left out (${masked.join(", ")}).` : "";
  if (meta.points === meta.valid) return `All ${count(meta.valid)} valid points are on this page, with seven digits.${left}`;
  const share = ((100 * meta.points) / meta.valid).toPrecision(3);
  return `This page holds ${count(meta.points)} of ${count(meta.valid)} valid points (${share} %), drawn at random, with seven digits. ` +
    "The extremes of each result and the front of the two results shown first, of all points and of those that fit, are among them; " +
    `any other front is that of the sample.${left}`;
}

function slider(one) {
  const box = document.createElement("div"), label = document.createElement("label");
  const output = document.createElement("output"), input = document.createElement("input");
  box.className = "slider";
  Object.assign(input, { type: "range", min: -1, max: one.labels.length - 1, value: -1 });
  input.id = `slider-${one.name}`;
  label.htmlFor = input.id;
  label.textContent = named(one);
  label.title = one.words;
  const tell = () => {
    const code = Number(input.value), label = one.labels[code];
    output.textContent = code < 0 ? "all" : typeof label === "number" ? quantity(label, one) : String(label);
  };
  tell();
  input.addEventListener("input", () => {
    tell();
    if (Number(input.value) < 0) delete state.sliders[one.name];
    else state.sliders[one.name] = Number(input.value);
    later();
  });
  box.append(label, output, input);
  return box;
}

function boolean(one) {
  const box = document.createElement("div"), label = document.createElement("label"), select = document.createElement("select");
  box.className = "row";
  label.textContent = named(one);
  label.title = one.words;
  select.id = `boolean-${one.name}`;
  label.htmlFor = select.id;
  for (const [text, value] of [["any", ""], ["yes", "1"], ["no", "0"]]) select.add(new Option(text, value));
  if (one.name === "fits") {
    for (let i = 0; i < meta.points; i++) if (one.at(i)) { select.value = "1"; state.booleans.fits = 1; break; }
  }
  select.addEventListener("change", () => {
    if (select.value === "") delete state.booleans[one.name];
    else state.booleans[one.name] = Number(select.value);
    update();
  });
  box.append(label, select);
  return box;
}

function addConstraint(name, sign = "<", value = "") {
  const one = { name: name || state.x, sign, value };
  if (!comparable().some((other) => other.name === one.name)) one.name = comparable()[0].name;
  const box = document.createElement("div");
  box.className = "constraint";
  box.innerHTML = '<select aria-label="variable"></select><select aria-label="comparison"></select>' +
    '<div class="value"><input aria-label="value" inputmode="decimal" placeholder="number"><span></span><button type="button" aria-label="remove">✕</button></div>';
  const [what, sense] = box.querySelectorAll("select"), input = box.querySelector("input");
  options(what, comparable(), one.name);
  for (const each of ["<", "≤", "≥", ">"]) sense.add(new Option(each));
  sense.value = sign;
  input.value = value;
  const unit = () => { box.querySelector("span").textContent = column(one.name).unit; };
  unit();
  what.addEventListener("change", () => { one.name = what.value; unit(); update(); });
  sense.addEventListener("change", () => { one.sign = sense.value; update(); });
  input.addEventListener("input", () => { one.value = input.value; input.classList.toggle("bad", !readable(one)); later(); });
  box.querySelector("button").addEventListener("click", () => {
    state.constraints.splice(state.constraints.indexOf(one), 1);
    box.remove();
    update();
  });
  state.constraints.push(one);
  byId("constraints").append(box);
  input.focus();
}

const readable = (one) => one.value.trim() === "" || Number.isFinite(Number(one.value));

function tests() {
  const found = [];
  for (const [name, code] of Object.entries(state.sliders)) {
    const one = column(name);
    found.push((i) => one.code(i) === code);
  }
  for (const [name, value] of Object.entries(state.booleans)) {
    const one = column(name);
    found.push((i) => one.at(i) === value);
  }
  for (const { name, sign, value } of state.constraints) {
    if (value.trim() === "" || !Number.isFinite(Number(value))) continue;
    const one = column(name), limit = Number(value) / one.factor;
    const test = { "<": (v) => v < limit, "≤": (v) => v <= limit, "≥": (v) => v >= limit, ">": (v) => v > limit }[sign];
    found.push((i) => test(one.at(i)));
  }
  return found;
}

// Picture

let waiting = 0;
function later() {
  cancelAnimationFrame(waiting);
  waiting = requestAnimationFrame(update);
}

function update() {
  state.kept = passing(meta.points, tests());
  draw();
}

function panelsOf() {
  if (!state.facet) return [{ title: "", indices: state.kept }];
  const one = column(state.facet);
  const titles = one.kind === "boolean" ? ["no", "yes"] : one.labels.map((label) => (typeof label === "number" ? quantity(label, one) : label));
  const panels = titles.map((title) => ({ title: `${named(one)}: ${title}`, indices: [] }));
  const code = one.code || one.at;
  for (const i of state.kept) panels[code(i)].indices.push(i);
  return panels.filter((panel) => panel.indices.length);
}

// Groups of points of one colour: a class each where there are few, else one with a colour scale.
function groupsOf(indices) {
  if (!state.colour) return { groups: [{ name: "points", indices, colour: "#4d7ea8", symbol: "circle" }], scale: false };
  const one = column(state.colour);
  const labels = one.kind === "boolean" ? ["no", "yes"] : one.kind === "axis" ? one.labels : null;
  if (!labels || (one.ordered && labels.length > COLOURS.length) || labels.length > MOST_CLASSES) {
    return { groups: [{ name: named(one), indices, colour: null, symbol: "circle" }], scale: true };
  }
  const groups = labels.map((label, code) => ({
    name: typeof label === "number" ? quantity(label, one) : String(label), indices: [],
    colour: COLOURS[code % COLOURS.length], symbol: SYMBOLS[(code + Math.floor(code / COLOURS.length)) % SYMBOLS.length],
  }));
  const code = one.code || one.at;
  for (const i of indices) groups[code(i)].indices.push(i);
  return { groups, scale: false };
}

// Ticks at 1, 2 and 5 of each decade, at every digit where there is about one decade.
function logTicks(one) {
  const [low, high] = extent(one, state.kept), ticks = [];
  if (!(low > 0 && high < Infinity)) return {};
  const digits = Math.log10(high / low) < 1.3 ? [1, 2, 3, 4, 5, 6, 8] : Math.log10(high / low) < 3.5 ? [1, 2, 5] : [1];
  for (let power = Math.floor(Math.log10(low)) - 1; power <= Math.log10(high) + 1; power++) {
    for (const digit of digits) ticks.push(Number(`${digit}e${power}`));
  }
  return { tickvals: ticks.map((tick) => tick * one.factor), ticktext: ticks.map((tick) => quantity(tick, { ...one, unit: one.prefixed ? one.unit : "" })) };
}

function axisOf(name, log, short) {
  const one = column(name);
  const unit = one.prefixed || !one.unit ? "" : ` (${one.unit})`;
  const axis = { title: { text: (short ? named(one) : one.words) + unit }, type: log ? "log" : "linear", zeroline: false,
                 gridcolor: "#e6e9ec", linecolor: "#8a949e", ticks: "outside", tickcolor: "#8a949e", automargin: true };
  if (one.prefixed) Object.assign(axis, { tickformat: "~s", ticksuffix: one.unit });
  else if (one.unit) axis.tickformat = "~s";
  const labels = one.kind === "boolean" ? ["no", "yes"] : one.kind === "axis" ? one.labels : null;
  if (labels && !one.ordered) {
    const step = Math.ceil(labels.length / 20);
    const shownAt = labels.map((_, code) => code).filter((code) => code % step === 0);
    Object.assign(axis, { type: "linear", tickvals: shownAt, ticktext: shownAt.map((code) => String(labels[code])) });
  } else if (log && !(labels && labels.length <= 14)) {
    Object.assign(axis, logTicks(one));
  } else if (labels && one.kind === "axis" && labels.length <= 14) {
    Object.assign(axis, { tickvals: labels.map((label) => label * one.factor), ticktext: labels.map((label) => quantity(label, one)) });
  }
  return axis;
}

const tip = (one, axis) => `${named(one)} %{${axis}${one.unit ? ":.5~s" : ""}}${one.prefixed ? "" : " "}${one.unit}`;
const drawnAt = (one) => (i) => one.at(i) * one.factor;

function draw() {
  const x = column(state.x), y = column(state.y), xLog = byId("x-log").checked, yLog = byId("y-log").checked;
  const xMore = byId("x-better").value === "more", yMore = byId("y-better").value === "more";
  const panels = (state.panels = panelsOf());
  const across = Math.max(1, Math.ceil(Math.sqrt(panels.length))), down = Math.max(1, Math.ceil(panels.length / across));
  const size = byId("plot").getBoundingClientRect();
  const traces = [], seen = new Set();
  let finite = 0, marks = 0, isScale = false;
  state.fronts = [];
  const colour = state.colour ? column(state.colour) : null;
  panels.forEach((panel, number) => {
    const suffix = number ? number + 1 : "";
    const where = { xaxis: `x${suffix}`, yaxis: `y${suffix}` };
    const { groups, scale } = groupsOf(panel.indices);
    isScale ||= scale;
    for (const group of groups) {
      if (!group.indices.length) continue;
      const some = thinned(group.indices, x, y, xLog, yLog, Math.round(size.width / across), Math.round(size.height / down));
      finite += some.finite;
      marks += some.kept.length;
      const marker = { size: some.kept.length > 3000 ? 4 : 7, symbol: group.symbol, opacity: 0.75 };
      if (scale) Object.assign(marker, { color: some.kept.map(drawnAt(colour)), coloraxis: "coloraxis" });
      else marker.color = group.colour;
      traces.push({ type: "scattergl", mode: "markers", name: group.name, legendgroup: group.name, showlegend: !scale && groups.length > 1 && !seen.has(group.name),
                    x: some.kept.map(drawnAt(x)), y: some.kept.map(drawnAt(y)), customdata: some.kept, marker, ...where,
                    hovertemplate: `${tip(x, "x")}<br>${tip(y, "y")}<extra></extra>`,
                    unselected: { marker: { opacity: 0.75 } } });
      seen.add(group.name);
    }
    if (!byId("front").checked) return;
    const front = frontOf(panel.indices, x, y, xMore, yMore);
    state.fronts.push(front);
    traces.push({ type: "scattergl", mode: front.length > 400 ? "lines" : "lines+markers", name: "front", legendgroup: "front", showlegend: number === 0,
                  x: front.map(drawnAt(x)), y: front.map(drawnAt(y)), customdata: front, line: { color: "#1c232a", width: 1.5, shape: xMore ? "vh" : "hv" },
                  marker: { size: 6, color: "#1c232a" }, hoverinfo: "none", unselected: { marker: { opacity: 1 } }, ...where });
  });
  traces.push(...rings(x, y));
  const layout = { margin: { l: 64, r: 16, t: 60, b: 54 }, paper_bgcolor: "#fff", plot_bgcolor: "#fff", dragmode: state.drag || "zoom", hovermode: "closest",
                   uirevision: [state.x, state.y, state.facet, xLog, yLog].join(), selectionrevision: Math.random(), font: { family: "system-ui, sans-serif", size: 12, color: "#1c232a" },
                   legend: { title: { text: colour && !isScale ? named(colour) : "" }, itemsizing: "constant" }, annotations: [] };
  if (isScale) {
    layout.coloraxis = { colorscale: "Viridis", colorbar: { title: { text: named(colour) + (colour.unit && !colour.prefixed ? ` (${colour.unit})` : ""), side: "right" }, thickness: 14,
                         y: 0.45, len: 0.9, tickformat: colour.unit ? "~s" : "", ticksuffix: colour.prefixed ? colour.unit : "" } };
    const labels = colour.kind === "axis" && !colour.ordered ? colour.labels : null;
    if (labels) {
      const step = Math.ceil(labels.length / 12), at = labels.map((_, code) => code).filter((code) => code % step === 0);
      Object.assign(layout.coloraxis.colorbar, { tickvals: at, ticktext: at.map((code) => labels[code]) });
    }
  }
  if (isScale) Object.assign(layout.legend, { orientation: "h", x: 0, xanchor: "left", y: 1.06, yanchor: "bottom" });
  const gapX = across > 1 ? 0.05 : 0, gapY = down > 1 ? 0.13 : 0;
  panels.forEach((panel, number) => {
    const suffix = number ? number + 1 : "", column_ = number % across, row = Math.floor(number / across);
    const width = (1 - gapX * (across - 1)) / across, height = (1 - gapY * (down - 1)) / down;
    const left = column_ * (width + gapX), top = 1 - row * (height + gapY);
    const own = { x: axisOf(state.x, xLog, across > 2), y: axisOf(state.y, yLog, down > 1) };
    if (number) Object.assign(own.x, { matches: "x" }) && Object.assign(own.y, { matches: "y" });
    if (column_) own.y.title.text = "";
    if (number + across < panels.length) own.x.title.text = "";
    layout[`xaxis${suffix}`] = { ...own.x, domain: [left, left + width], anchor: `y${suffix}` };
    layout[`yaxis${suffix}`] = { ...own.y, domain: [top - height, top], anchor: `x${suffix}` };
    if (panel.title) {
      layout.annotations.push({ text: panel.title, x: left, y: top, xref: "paper", yref: "paper", xanchor: "left", yanchor: "bottom", showarrow: false });
    }
  });
  const missing = state.kept.length - finite, parts = [`${count(state.kept.length)} of the page's ${count(meta.points)} points meet the conditions`];
  if (missing) parts.push(`${count(missing)} have no value here`);
  parts.push(marks < finite ? `${count(marks)} marks stand for them, one for each pixel and colour` : "all are drawn");
  byId("drawn").textContent = state.kept.length ? `${parts.join("; ")}.` : "No point meets the conditions.";
  Plotly.react("plot", traces, layout, { responsive: true, displaylogo: false, modeBarButtonsToAdd: ["select2d", "lasso2d"], modeBarButtonsToRemove: ["autoScale2d"] });
}

// Rings around selected points that are in the picture.
function rings(x, y) {
  const chosen = new Set(state.selected);
  if (!chosen.size) return [];
  return state.panels.map((panel, number) => {
    const at = thinned(panel.indices.filter((i) => chosen.has(i)), x, y, byId("x-log").checked, byId("y-log").checked, 300, 200).kept;
    const suffix = number ? number + 1 : "";
    return { type: "scattergl", mode: "markers", name: "selected", showlegend: number === 0, x: at.map(drawnAt(x)), y: at.map(drawnAt(y)), hoverinfo: "skip",
             customdata: at, marker: at.length > 300 ? { size: 3, color: "#D55E00" } : { size: 11, symbol: "circle-open", color: "#D55E00", line: { width: 2 } }, unselected: { marker: { opacity: 1 } },
             xaxis: `x${suffix}`, yaxis: `y${suffix}` };
  });
}

// Hover and selection

function detail(i) {
  const rows = meta.columns.map((one) => {
    const row = document.createElement("tr"), head = document.createElement("th"), cell = document.createElement("td");
    row.className = one.kind;
    head.textContent = named(one);
    head.title = one.words;
    cell.textContent = shown(one, i);
    row.append(head, cell);
    return row;
  });
  const table = document.createElement("table");
  table.append(...rows);
  byId("details").replaceChildren(table);
}

function choose(indices) {
  state.selected = [...new Set(indices)].sort((a, b) => a - b);
  byId("selected").textContent = count(state.selected.length);
  for (const id of ["csv", "clear"]) byId(id).disabled = !state.selected.length;
  byId("copy").disabled = !state.selected.length || !meta.call || state.selected.length > MOST_CALL;
  const first = state.selected.slice(0, ROWS);
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const one of meta.columns) head.append(Object.assign(document.createElement("th"), { textContent: named(one), title: one.words }));
  const body = table.createTBody();
  for (const i of first) {
    const row = body.insertRow();
    for (const one of meta.columns) row.insertCell().textContent = shown(one, i);
    row.addEventListener("mouseenter", () => detail(i));
  }
  byId("table").replaceChildren(...(first.length ? [table] : []));
  if (state.selected.length > ROWS) byId("table").append(`… and ${count(state.selected.length - ROWS)} more, all of them in the CSV.`);
  byId("call").textContent = callText();
  draw();
}

function callText() {
  if (!state.selected.length) return "";
  if (!meta.call) return "# The data does not say which call made it.\n";
  if (state.selected.length > MOST_CALL) return `# The Python call is written for up to ${count(MOST_CALL)} points.\n`;
  return callOf(state.selected, meta.columns, meta.call);
}

function saveCsv() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([csvOf(state.selected, meta.columns, meta.shared)], { type: "text/csv" }));
  link.download = "points.csv";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

async function copyCall() {
  try {
    await navigator.clipboard.writeText(byId("call").textContent);
  } catch {
    // browsers may not let a local file use the clipboard
    getSelection().selectAllChildren(byId("call"));
    document.execCommand("copy");
  }
}

// All points within what was drawn, also those that share a pixel.
function within(event) {
  const x = column(state.x), y = column(state.y), box = event.range || event.lassoPoints;
  const xName = Object.keys(box).find((name) => name.startsWith("x")), yName = Object.keys(box).find((name) => name.startsWith("y"));
  const panel = state.panels[(Number(xName.slice(1)) || 1) - 1];
  const atX = drawnAt(x), atY = drawnAt(y);
  if (event.lassoPoints) {
    const log = { x: byId("x-log").checked, y: byId("y-log").checked };
    const place = (value, isLog) => (isLog ? Math.log(value) : value);
    const xs = box[xName].map((value) => place(value, log.x)), ys = box[yName].map((value) => place(value, log.y));
    return panel.indices.filter((i) => inPolygon(place(atX(i), log.x), place(atY(i), log.y), xs, ys));
  }
  const [left, right] = [...box[xName]].sort((a, b) => a - b), [low, high] = [...box[yName]].sort((a, b) => a - b);
  return panel.indices.filter((i) => atX(i) >= left && atX(i) <= right && atY(i) >= low && atY(i) <= high);
}

function listen() {
  const plot = byId("plot");
  plot.on("plotly_hover", (event) => { if (event.points.length) detail(event.points[0].customdata); });
  plot.on("plotly_click", (event) => choose([event.points[0].customdata]));
  plot.on("plotly_selected", (event) => { if (event && (event.range || event.lassoPoints)) choose(within(event)); });
  plot.on("plotly_relayout", (event) => { if (event.dragmode) state.drag = event.dragmode; });
}

async function start() {
  const arrays = await Promise.all(meta.types.map((type, number) => unpacked(number, type)));
  for (const one of meta.columns) prepare(one, arrays);
  setUp();
  state.kept = passing(meta.points, tests());
  draw();
  listen();
  choose([]);
  document.body.dataset.ready = "yes";
}

start().catch((error) => { byId("counts").textContent = `The page could not be read: ${error.message}`; throw error; });
