// Tables sort by a click on a column's name, and filter by words and by choices. Without this script they show all rows.

for (const box of document.querySelectorAll(".data")) {
  const body = box.querySelector("tbody");
  const rows = [...body.rows];
  const heads = [...box.querySelectorAll("thead th")];
  const tally = box.querySelector(".count");
  const controls = [...box.querySelectorAll("input, select")];

  heads.forEach((head, column) => head.firstElementChild.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const values = new Map(rows.map((row) => [row, valueOf(row.cells[column].textContent, head.className === "number")]));
    body.append(...rows.sort((a, b) => inOrder(values.get(a), values.get(b), down ? -1 : 1)));
  }));

  function filter() {
    for (const row of rows) row.hidden = !controls.every((control) => matches(row, control));
    const shown = rows.filter((row) => !row.hidden).length;
    tally.textContent = `${shown === rows.length ? "" : `${shown} of `}${rows.length} row${rows.length === 1 ? "" : "s"}`;
  }

  for (const control of controls) control.addEventListener("input", filter);
  if (controls.length) filter(); // a browser keeps the choices when it loads a page again
}

/** A choice is the whole text of its column. Words may stand anywhere in the row. */
function matches(row, control) {
  if (control.dataset.column) return !control.value || row.cells[control.dataset.column].textContent === control.value;
  const text = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
  return control.value.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

function valueOf(text, isNumber) {
  const value = isNumber ? parseFloat(text.replace(/^[<>~+ [\]]+|,/g, "")) : text;
  return value === "" || Number.isNaN(value) ? null : value;
}

/** Rows without a value come last in both directions. */
function inOrder(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
}
