// What the sections of all pages are made of.

function section(id, title, ...children) {
  return el("section", { id, "aria-label": title }, el("h2", {}, title), ...children);
}

function notes(texts) {
  return texts.length ? el("ul", { class: "notes note" }, texts.map((text) => el("li", {}, text))) : null;
}

function facts(entries) {
  return el("dl", { class: "facts" }, entries.filter(([, value]) => value)
    .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, String(value)))));
}

/** A picture in the colours of the page. Printed pages are always light. */
function themedPicture({ light, dark }, alt, label) {
  return el("div", { class: "box changes", tabindex: "0", role: "region", "aria-label": label },
    el("img", { class: "on-light", src: light, alt }), el("img", { class: "on-dark", src: dark, alt }));
}

/** A table without controls. Cells are text, elements, or `wide` elements that may wrap. */
function plainTable(names, lines, label) {
  const cell = (value) => el("td", { class: value instanceof HTMLDivElement ? value.className : null }, value);
  return el("div", { class: "box whole fit", tabindex: "0", role: "region", "aria-label": label }, el("table", {},
    el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, lines.map((line) => el("tr", {}, line.map(cell))))));
}

function wide(text) {
  return el("div", { class: text.length > 28 ? "long" : "" }, text);
}

/** Show the sections with links to them, and a line at the end. */
function showSections(sections, end) {
  document.getElementById("contents").append(...sections.map((each) => el("a", { href: `#${each.id}` }, each.getAttribute("aria-label"))));
  document.getElementById("main").append(...sections);
  document.getElementById("footer").textContent = `Written by kbench ${content.version}. ${end}`;
  requestAnimationFrame(() => { document.documentElement.dataset.ready = "yes"; }); // after a chart, which waits for its width
}
