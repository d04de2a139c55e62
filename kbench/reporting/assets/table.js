// Tables that sort by any column and filter by text and by choices. Rows are made in slices while the reader scrolls.

const SLICE = 150;
const PRINTED = 1000;

/**
 * `columns` as `decoded` gives them, with `count` rows. `choices` are names of columns with a control to choose a value.
 * `classOf` returns the CSS class of a cell for its column and value. `common` are words that all rows have and no column
 * shows; the filter finds them too. The result's `keep` takes a function that says which row numbers to show.
 */
function dataTable({ columns, count, label, choices = [], search = false, classOf = () => "", tall = false, common = [] }) {
  const shown = columns.filter((column) => column.values.some((value) => value != null && value !== ""));
  const state = { text: "", chosen: {}, sort: null, down: false, keep: () => true };
  const body = el("tbody");
  const heads = shown.map((column) => el("th", { scope: "col", class: isNumber(column) ? "number" : "" },
    el("button", { type: "button", click: () => sort(column) }, column.label)));
  const table = el("table", {}, el("caption", { hidden: true }, label), el("thead", {}, el("tr", {}, heads)), body);
  const end = el("div", { "aria-hidden": "true" });
  const box = el("div", { class: tall ? "box whole" : "box", tabindex: "0", role: "region", "aria-label": label }, table, end);
  const tally = el("p", { class: "count", "aria-live": "polite" });
  const texts = shown.filter((column) => !isNumber(column) || column.format === "size");
  let haystack = null;
  let order = [];
  let made = 0;
  let whole = count;

  function sort(column) {
    state.down = state.sort === column ? !state.down : false;
    state.sort = column;
    shown.forEach((other, place) => {
      if (other === column) heads[place].setAttribute("aria-sort", state.down ? "descending" : "ascending");
      else heads[place].removeAttribute("aria-sort");
    });
    update();
  }

  function matches(row) {
    if (!state.keep(row)) return false;
    for (const [name, value] of Object.entries(state.chosen)) {
      if (value !== "" && String(byName(columns, name).values[row]) !== value) return false;
    }
    if (!state.text) return true;
    haystack ??= Array.from({ length: count }, (_, i) => [...common, ...texts.map((column) => column.values[i])].join(" ").toLowerCase());
    return state.text.split(/\s+/).every((word) => haystack[row].includes(word));
  }

  function update() {
    order = Array.from({ length: count }, (_, row) => row).filter(matches);
    if (state.sort) order.sort(comparing(state.sort, state.down));
    tally.textContent = order.length === whole ? plural(whole, "row") : `${order.length.toLocaleString("en")} of ${plural(whole, "row")}`;
    body.replaceChildren();
    made = 0;
    more(SLICE);
    box.scrollTop = 0;
  }

  function more(wanted) {
    const rows = order.slice(made, made + wanted);
    body.append(...rows.map((row) => el("tr", {}, shown.map((column) => cell(column, row)))));
    made += rows.length;
  }

  function cell(column, row) {
    const value = column.values[row];
    const kind = isNumber(column) ? "number" : String(value ?? "").length > 60 ? "long" : "";
    return el("td", { class: `${kind} ${classOf(column.name, value)}`.trim() || null }, written(value, column.format));
  }

  new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && made < order.length) more(SLICE);
  }, { root: tall ? null : box, rootMargin: "600px" }).observe(end);
  window.addEventListener("beforeprint", () => more(Math.max(0, PRINTED - made)));

  const controls = [];
  if (search) {
    controls.push(labelled("filter", el("input", {
      type: "search", placeholder: "words that a row has", "aria-label": `filter ${label}`,
      input: (event) => { state.text = event.target.value.trim().toLowerCase(); update(); },
    })));
  }
  for (const name of choices) {
    const column = byName(columns, name);
    const values = column ? natural(column.values) : [];
    if (values.length < 2) continue;
    controls.push(labelled(column.label, select([["", "all"], ...values.map((value) => [String(value), value == null || value === "" ? "none" : plainly(value)])],
      "", (value) => { state.chosen[name] = value; update(); }, `${column.label} in ${label}`)));
  }
  update();
  return {
    element: el("div", {}, controls.length ? el("div", { class: "controls" }, controls) : null, search ? tally : null, box),
    controls: controls.length ? controls[0].parentElement : null,
    keep(test) {
      state.keep = test;
      whole = Array.from({ length: count }, (_, row) => row).filter(test).length;
      update();
    },
  };
}

function byName(columns, name) {
  return columns.find((column) => column.name === name);
}

function isNumber(column) {
  return column.format !== "text";
}

/** The order of rows by a column. Rows without a value come last in both directions. */
function comparing(column, down) {
  const { values } = column;
  const sign = down ? -1 : 1;
  const empty = (value) => value == null || value === "";
  return (a, b) => {
    const [x, y] = [values[a], values[b]];
    if (empty(x) || empty(y)) return empty(x) - empty(y) || a - b;
    return sign * inOrder(x, y) || a - b;
  };
}
