// The legend: a button for every line, in the order in which the lines end. It is not plotly's legend, so that it works
// without a mouse and shows names as text.

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = {
  circle: "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",
  square: "M-3.5 -3.5H3.5V3.5H-3.5Z",
  "triangle-up": "M0 -4.5L4.5 3.5H-4.5Z",
  diamond: "M0 -5L5 0L0 5L-5 0Z",
  "triangle-down": "M0 4.5L4.5 -3.5H-4.5Z",
  cross: "M-1.5 -4.5H1.5V-1.5H4.5V1.5H1.5V4.5H-1.5V1.5H-4.5V-1.5H-1.5Z",
  x: "M-4.2 -2L-2 -4.2L0 -2.2L2 -4.2L4.2 -2L2.2 0L4.2 2L2 4.2L0 2.2L-2 4.2L-4.2 2L-2.2 0Z",
  star: "M0 -5L1.4 -1.6L5 -1.5L2.2 .8L3.1 4.3L0 2.3L-3.1 4.3L-2.2 .8L-5 -1.5L-1.4 -1.6Z",
};
const DASHED = { solid: "none", dash: "7 4", dot: "2 3", dashdot: "7 3 2 3" };

function legend(plan, hidden, theme, changed) {
  const keys = plan.lines.map((line) => line.key);
  const show = (hide) => { hidden.clear(); hide.forEach((key) => hidden.add(key)); changed(); };
  const buttons = plan.lines.map((line) => el("li", {}, el("button", {
    type: "button",
    "aria-pressed": String(!hidden.has(line.key)),
    "data-key": line.key,
    click: () => { if (!hidden.delete(line.key)) hidden.add(line.key); changed(); },
    dblclick: () => show(keys.filter((key) => key !== line.key)),
  }, swatch(styleOf(line, plan, theme)), nameOf(line, plan))));
  if (keys.length > 2) {
    const all = hidden.size ? ["show all", []] : ["hide all", keys];
    buttons.push(el("li", {}, el("button", { type: "button", class: "hint", "data-key": "all", click: () => show(all[1]) }, all[0])));
  }
  return buttons;
}

function swatch({ colour, symbol, dash }) {
  const svg = document.createElementNS(SVG, "svg");
  for (const [name, value] of Object.entries({ width: 30, height: 12, viewBox: "-15 -6 30 12", "aria-hidden": "true" })) {
    svg.setAttribute(name, value);
  }
  const add = (d, attributes) => {
    const path = document.createElementNS(SVG, "path");
    for (const [name, value] of Object.entries({ d, ...attributes })) path.setAttribute(name, value);
    svg.append(path);
  };
  add("M-15 0H15", { stroke: colour, "stroke-width": 2, "stroke-dasharray": DASHED[dash] ?? dash.replaceAll("px", ""), fill: "none" });
  if (symbol) add(SHAPES[symbol], { fill: colour });
  return svg;
}
