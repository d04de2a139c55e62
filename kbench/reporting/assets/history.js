// The sections of a page on a history, in their order.

function tone(word) {
  return { "!": "alarm", "+": "good" }[content.glyphs[word]] ?? "";
}

function overTimeSection() {
  const alt = "the change of the time of every provider, run by run; the tables below have the numbers";
  const pictures = content.pictures.map((picture) => themedPicture(picture, alt, `picture of ${picture.title}`));
  return section("pictures", "Over time",
    el("p", { class: "headline" }, content.headline),
    notes(content.notes),
    pictures.length ? pictures : el("p", {}, "No reading has a time."));
}

function changesSection() {
  const { changes } = content;
  return section("changes", "Changes",
    el("ul", { class: "chips" }, content.counts.map(({ word, glyph, count }) => el("li", { class: tone(word) }, `${glyph} ${count} ${word}`))),
    changes.count
      ? dataTable({
        columns: decoded(changes), count: changes.count, label: "changes", search: true, choices: ["kind", "machine", "operator", "provider"],
        classOf: (name, value) => (name === "kind" ? tone(value) : ""),
      }).element
      : el("p", {}, "Nothing changed."));
}

function seriesSection() {
  const { series } = content;
  return section("series", "All series",
    el("p", { class: "hint" }, "Click a column's name to sort by it."),
    dataTable({
      columns: decoded(series), count: series.count, label: "series", search: true, choices: ["machine", "operator", "dtype", "provider", "status"],
      classOf: (name, value) => (name === "status" && content.failures.includes(value) ? "failed" : ""),
    }).element);
}

function methodSection() {
  return section("method", "How to read it", content.method.map((text) => el("p", {}, text)));
}

document.getElementById("lede").textContent = content.lede;
showSections([overTimeSection(), changesSection(), seriesSection(), methodSection()], "`kbench history check --json` has all numbers.");
