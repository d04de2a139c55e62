// The sections of a page on results, in their order.

// -- summary

function summarySection() {
  const advice = content.files.length > 1 && !content.comparison
    ? el("p", { class: "note" }, "This page shows each file alone. To see what changed between two of them, name the older one with --baseline.")
    : null;
  return section("summary", "Summary", advice, content.files.map(standing));
}

function standing(file) {
  const several = content.files.length > 1;
  const hasSpeedUps = file.table.columns.some((column) => column.name === "geomean"); // not if the machine is too noisy
  const table = dataTable({
    columns: decoded(file.table), count: file.table.count, label: `providers of ${file.file}`, tall: true,
  });
  const winners = file.winners.count
    ? el("details", {}, el("summary", {}, `The fastest of each case (${file.winners.count})`), el("div", {}, dataTable({
      columns: decoded(file.winners), count: file.winners.count, label: `fastest of each case of ${file.file}`,
    }).element))
    : null;
  return el("div", {}, several ? el("h3", {}, file.file) : null,
    el("p", { class: "headline" }, file.headline),
    facts([
      ["operator", file.operators.join(", ")],
      ["cases", file.cases],
      ["providers", file.providers],
      ["dtypes", file.dtypes.join(", ")],
      ["rows", file.counts],
      ["sessions", file.sessions],
      ["device", file.devices.join(", ")],
      ["measured", file.dates.join(", ")],
    ]),
    table.element,
    notes([
      ...(hasSpeedUps ? [`Speed-ups are relative to ${file.baseline}. Each is the geometric mean of the cases in which both providers were timed. `
        + "Do not rank providers by it if they were timed in different cases."] : []),
      ...(file.baseline ? [] : ["No baseline was measured: there are no speed-ups."]),
      ...file.caveats,
    ]),
    winners);
}

// -- verdicts

function comparisonSection() {
  const { comparison } = content;
  const tone = (word) => ({ "!": "alarm", "+": "good" })[comparison.glyphs[word]] ?? "";
  const columns = decoded(comparison.table);
  return section("comparison", "Compared with the baseline",
    el("p", { class: "headline" }, comparison.title),
    el("ul", { class: "chips" }, comparison.counts.map(({ word, glyph, count }) =>
      el("li", { class: tone(word) }, `${glyph} ${count} ${word}`))),
    notes(comparison.notes),
    comparison.pictures.slice(0, 1).map(changePicture),
    comparison.pictures.length > 1
      ? el("details", {}, el("summary", {}, `${plural(comparison.pictures.length - 1, "more picture")}`), comparison.pictures.slice(1).map(changePicture))
      : null,
    comparison.differences.length ? [el("h3", {}, "Not the same on both sides"), plainTable(["what", "old", "new", ""],
      comparison.differences.map((found) => [found.name, wide(found.old), wide(found.new), found.weight]), "differences")] : null,
    el("h3", {}, "Verdicts"),
    dataTable({
      columns, count: comparison.table.count, label: "verdicts", search: true, choices: ["verdict", "provider", "dtype"],
      classOf: (name, value) => (name === "verdict" ? tone(value) : ""),
    }).element);
}

function changePicture(picture) {
  return themedPicture(picture, "the change of every row with its interval; the table below has the numbers", "picture of the changes");
}

// -- rows

function rowsSection() {
  const columns = decoded(content.rows);
  const known = columns.filter((column) => !content.rows.hidden.includes(column.name));
  const same = known.filter((column) => !isMeasured(column) && distinct(column.values).length === 1);
  const caption = same.filter((column) => !["file", "session"].includes(column.name) && column.values[0] != null && column.values[0] !== "")
    .map((column) => (content.rows.axes.includes(column.name) ? `${column.name}=${plainly(column.values[0])}` : String(column.values[0])));
  const columnsShown = timeThird(known.filter((column) => !same.includes(column)));
  const table = dataTable({
    columns: columnsShown, count: content.rows.count, label: "rows", common: caption, search: true, choices: ["file", "operator", "dtype", "curve", "status"],
    classOf: (name, value) => (name === "status" && content.failures.includes(value) ? "failed" : ""),
  });
  if (rows.role.includes("control")) {
    const keep = { providers: (row) => rows.role[row] === "provider", controls: (row) => rows.role[row] === "control", both: () => true };
    const options = [["providers", "providers"], ["controls", "controls"], ["both", "both"]];
    table.controls.append(labelled("kind of row", select(options, "providers", (value) => table.keep(keep[value]), "kind of row")));
    table.keep(keep.providers);
  }
  return section("rows", "All rows", el("p", { class: "count" }, caption.length ? `The same in all rows: ${caption.join(" · ")}` : null),
    el("p", { class: "hint" }, "Click a column's name to sort by it."), table.element);
}

function isMeasured(column) {
  return isNumber(column) && column.format !== "size";
}

/** Columns with the provider, the size that varies most and the time first, so that a phone shows them. */
function timeThird(columns) {
  const count = (column) => distinct(column.values).length;
  const sizes = columns.filter((column) => content.rows.axes.includes(column.name));
  const size = sizes.reduce((best, column) => (best && count(best) > count(column) ? best : column), null);
  const first = [byName(columns, "curve"), size, byName(columns, "ms")].filter(Boolean);
  return [...first, ...columns.filter((column) => !first.includes(column))];
}

// -- what has no time

function lostSection() {
  const lines = content.lost.map((lost) => [
    ...(content.files.length > 1 ? [lost.file] : []),
    lost.curve,
    el("span", { class: lost.failed ? "failed" : "" }, lost.status),
    wide(lost.reason),
    lost.cases.length > 3
      ? el("details", {}, el("summary", {}, plural(lost.cases.length, "case")), lost.cases.map((name) => el("div", {}, name)))
      : el("span", {}, lost.cases.map((name) => el("div", {}, name))),
  ]);
  const names = [...(content.files.length > 1 ? ["file"] : []), "provider", "status", "reason", "cases"];
  return section("lost", "Skipped and failed", lines.length ? plainTable(names, lines, "skipped and failed") : el("p", {}, "Every row has a time."));
}

// -- machine and method

function sideBySide({ files, lines }, label) {
  if (!lines.length) return el("p", {}, "Not known: the CSV has no environment file.");
  const several = files.length > 1;
  return plainTable(["", ...(content.files.length > 1 ? files : ["value"]), ...(several ? [""] : [])], lines.map((line) => [
    el("strong", {}, line.name), ...line.values.map(wide), ...(several ? [line.differs ? el("span", { class: "alarm" }, "≠ differs") : ""] : []),
  ]), label);
}

function methodSection() {
  return section("method", "How it was measured",
    el("p", {}, "kbench compared the output of every provider with an fp64 reference before and after timing. A provider with a wrong output "
      + "has no time. All providers of a case were timed together in rounds, in shuffled order. The time of a row is the median of its rounds. "
      + "Rows with the flag unchecked come from a benchmark script, which has no reference."),
    sideBySide(content.method, "how it was measured"),
    content.configs.map(({ file, path, text }) => el("details", {}, el("summary", {}, `Config of ${file}${path ? `: ${path}` : ""}`), el("pre", {}, text))));
}

function wordsSection() {
  return section("words", "Words", el("dl", { class: "words" },
    content.words.map(({ word, text }) => [el("dt", {}, word), el("dd", {}, text)])));
}

// -- all of it

function build() {
  document.getElementById("lede").textContent = ["operators", "devices", "dates", "path"].map(seenIn).filter(Boolean).join(" · ");
  const made = [
    summarySection(),
    content.comparison ? comparisonSection() : null,
    section("plot", "Plot", plotSection()),
    rowsSection(),
    lostSection(),
    section("machine", "Machine", sideBySide(content.machine, "machine")),
    methodSection(),
    wordsSection(),
  ].filter(Boolean);
  showSections(made, "Numbers have six digits here; the CSV has all.");
}

build();
