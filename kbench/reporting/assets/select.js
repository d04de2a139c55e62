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
