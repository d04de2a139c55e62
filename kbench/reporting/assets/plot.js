// The interactive plot: controls, chart, legend and notes.

const dark = window.matchMedia("(prefers-color-scheme: dark)");

/** The width of a chart on paper, in pixels: A4 or Letter without its margins. */
const PAPER = 680;

function plotSection() {
  const measured = plot.metrics.filter((metric) => drawnRows.some((row) => !isCopy(row) && kindOf(row, metric) === "value"));
  if (!measured.length) return el("p", {}, "There is nothing to draw: no provider has a value. See the reasons below.");
  const state = { metric: (measured.find((metric) => metric.name === plot.metric) ?? measured[0]).name, chosen: {}, x: "", scale: "" };
  const hidden = new Set();
  const [controls, title, notes] = [el("div", { class: "controls" }), el("p", { class: "chart-title" }), el("ul", { class: "notes note" })];
  const chart = el("div", { class: "chart", id: "chart", role: "img", "aria-label": "chart; the table below has its numbers" });
  const list = el("ul", { class: "legend", "aria-label": "lines of the chart" });
  const save = el("button", { type: "button", click: () => savePicture() }, "Save picture");
  const hint = el("p", { class: "hint" });
  let theme = plot.themes.light;
  let plan = null;

  function update() {
    theme = plot.themes[dark.matches && !printing ? "dark" : "light"];
    plan = planned(state);
    const xs = sizesOf(plan);
    plan.scale = state.scale || (growsByFactors(xs) ? "log2" : "linear");
    const focused = [...controls.querySelectorAll("select")].findIndex((each) => each === document.activeElement);
    controls.replaceChildren(...controlsOf(plan, xs), save);
    controls.querySelectorAll("select")[focused]?.focus();
    title.textContent = describe(plan);
    draw();
  }

  function draw() {
    const focused = document.activeElement?.dataset?.key;
    list.replaceChildren(...legend(plan, hidden, theme, draw));
    [...list.querySelectorAll("button")].find((button) => button.dataset.key === focused)?.focus();
    notes.replaceChildren(...notesOn(plan).map((text) => el("li", {}, text)));
    const room = printing ? PAPER : chart.clientWidth || 800;
    const { data, layout } = figure(plan, hidden, theme, room);
    if (printing) layout.width = PAPER;
    hint.textContent = "Click a name to hide its line. Double-click it to see only its line."
      + (layout.dragmode ? " Drag in the chart to zoom, double-click to see it all." : "");
    layout.uirevision = [state.metric, plan.x, plan.scale, describe(plan)].join(); // a zoom survives the hiding of lines, and nothing else
    Plotly.react(chart, data, layout, { displayModeBar: false, responsive: true });
  }

  function controlsOf(plan, xs) {
    const choose = (name) => (value) => { state.chosen[name] = value; update(); };
    const names = measured.map((metric) => [metric.name, metric.label]);
    const made = [labelled("metric", select(names, state.metric, (value) => { state.metric = value; update(); }, "metric"))];
    for (const { name, options, value } of plan.choices) {
      const changed = name === "x" ? (value) => { state.x = value; state.scale = ""; update(); } : choose(name);
      made.push(labelled(name, select(options, value, changed, name)));
    }
    if (xs.length > 1 && xs[0] > 0) {
      const scales = [["log2", "log2"], ["linear", "linear"]];
      made.push(labelled("x scale", select(scales, plan.scale, (value) => { state.scale = value; update(); }, "x scale")));
    }
    return made;
  }

  /** Save the chart as a PNG, with a title and a legend of its own. */
  function savePicture() {
    const [width, height] = [1200, sizesOf(plan).length > 1 ? 675 : chart.clientHeight + 80];
    const { data, layout } = figure(plan, hidden, theme, width);
    const subtitle = { text: plain([seenIn("devices"), seenIn("dates"), `kbench ${content.version}`].filter(Boolean).join(" · ")) };
    const heading = { text: plain(describe(plan)), subtitle, font: { size: 16 }, x: 0.01, xanchor: "left" };
    const named = { ...layout, width, height, title: heading, margin: { ...layout.margin, t: 72 }, showlegend: sizesOf(plan).length > 1 };
    return Plotly.downloadImage({ data, layout: named }, { format: "png", width, height, scale: 2, filename: "kbench" });
  }

  let printing = false;
  const print = (now) => { printing = now; update(); };
  window.addEventListener("beforeprint", () => print(true));
  window.addEventListener("afterprint", () => print(false));
  dark.addEventListener("change", update);
  window.addEventListener("resize", debounced(draw));
  requestAnimationFrame(update);
  return el("div", {}, controls, title, el("div", { class: "drawing" }, chart, list), notes, hint);
}

/** `softmax · float32 · M=4096` */
function describe(plan) {
  const several = distinct(rows.file).length > 1;
  const known = Object.entries(plan.fixed).filter(([name, value]) => value != null && value !== "" && (several || name !== "file"));
  const parts = known.map(([name, value]) => (content.rows.axes.includes(name) ? `${name}=${plainly(value)}` : value));
  const models = distinct(plan.selected.map((row) => rows.model?.[row] ?? ""));
  if (models.length === 1 && models[0]) parts.push(models[0]);
  const sizes = sizesOf(plan);
  if (sizes.length === 1) parts.push(`${plan.x}=${sizes[0]}`);
  return parts.join(" · ");
}

/** What the signs in the chart mean, and which rows it does not show. */
function notesOn(plan) {
  const points = plan.lines.flatMap((line) => line.points);
  const marks = distinct(plan.lines.flatMap((line) => line.marks.map((mark) => mark.kind)));
  const hollow = distinct(points.filter((point) => point.hollow).flatMap((point) => point.flags)).filter((flag) => plot.hollow.includes(flag));
  const notes = [];
  const signs = [];
  if (points.some((point) => point.high > point.low)) signs.push(sizesOf(plan).length > 1 ? "band: p20 to p80" : "whisker: p20 to p80");
  if (hollow.length) signs.push(`hollow: ${hollow.join(" or ")}`);
  if (points.some((point) => point.claimed != null)) signs.push("?: suspect, implausible time");
  if (sizesOf(plan).length > 1) {
    const shapes = { wrong: "×: wrong", failed: "∗: failed", declined: "–: declined" };
    signs.push(...marks.map((mark) => shapes[mark]));
  }
  if (signs.length) notes.push(signs.join(" · "));
  notes.push(...plan.paired);
  const lost = plan.selected.filter((row) => !isCopy(row) && !kindOf(row, plan.metric));
  if (lost.length) {
    const curves = natural(lost.map((row) => rows.curve[row]));
    const named = curves.length > 8 ? `${curves.slice(0, 8).join(", ")} and ${curves.length - 8} more` : curves.join(", ");
    notes.push(`not drawn: ${plural(lost.length, "row")} (${named}): ${natural(lost.map((row) => rows.status[row])).join(", ")}`);
  }
  return notes;
}

function debounced(action) {
  let waiting = null;
  return () => { clearTimeout(waiting); waiting = setTimeout(action, 150); };
}
