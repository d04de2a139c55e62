// What all parts of the page use: the content, elements, controls, and the formats of numbers.
// Text from files becomes only the text of elements.

const content = JSON.parse(document.getElementById("content").textContent);

/** An element with attributes (functions are listeners) and children (strings are text). */
function el(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key, value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== ""));
  return element;
}

/** The columns of a table of the content, each with all its values. */
function decoded(table) {
  return table.columns.map((column) => ({
    ...column,
    values: column.values ?? column.codes.map((code) => column.words[code]),
  }));
}

function microseconds(ms) {
  const us = ms * 1000;
  return us < 100 ? us.toFixed(2) : us < 1000 ? us.toFixed(1) : us.toFixed(0);
}

/** A word, or the value of an axis or a scalar as a config writes it: 4096, 0.1, 1e-06. */
function plainly(value) {
  const small = typeof value === "number" && value !== 0 && Math.abs(value) < 1e-4;
  return small ? value.toExponential().replace(/-(\d)$/, "-0$1") : String(value);
}

const WRITTEN = {
  text: (value) => String(value),
  size: plainly,
  whole: (value) => value.toFixed(0),
  us: microseconds,
  gbps: (value) => (value < 10 ? value.toPrecision(3) : value.toFixed(1)),
  "GB/s": (value) => (value < 10 ? value.toPrecision(3) : value.toFixed(1)),
  "TFLOP/s": (value) => (value < 10 ? value.toPrecision(3) : value.toFixed(1)),
  "%": (value) => (100 * value).toFixed(1),
  share: (value) => value.toFixed(3),
  factor: (value) => `${value < 0.1 ? value.toPrecision(2) : value.toFixed(2)}x`,
  ulp: (value) => (value < 9.95 ? value.toFixed(1) : value.toFixed(0)),
  change: (value) => `${value > 0 ? "+" : ""}${(100 * value).toFixed(1)} %`,
};

/** A value in a format, "" for a missing one. */
function written(value, format) {
  return value == null || value === "" ? "" : WRITTEN[format](value);
}

const collator = new Intl.Collator("en", { numeric: true });

function distinct(values) {
  return [...new Set(values)];
}

function natural(values) {
  return distinct(values).sort(inOrder);
}

/** Numbers by size, modes as forward, backward, full, other words by the alphabet. */
function inOrder(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  const [first, second] = [content.modes.indexOf(a), content.modes.indexOf(b)];
  return first >= 0 && second >= 0 ? first - second : collator.compare(String(a), String(b));
}

function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

/** The different values of a property of all files: `NVIDIA H200`, or `2026-11-19, 2026-11-20`. */
function seenIn(name) {
  return natural(content.files.flatMap((file) => file[name])).join(", ");
}

// Controls with a label above them.

function labelled(text, control) {
  return el("label", {}, text, control);
}

/** A choice among `[value, text]` pairs. */
function select(options, chosen, changed, name) {
  const control = el("select", { "aria-label": name, change: (event) => changed(event.target.value) },
    options.map(([value, text]) => el("option", { value }, String(text))));
  control.value = chosen;
  return control;
}
