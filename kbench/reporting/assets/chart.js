// The traces and the layout that plotly draws for a plan. All text from files goes through `plain`, because plotly reads
// some HTML in its texts.

function plain(text) {
  return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
}

/** Colour, marker and dash of a line. With several files a dash is a file, and a colour is a provider. */
function styleOf(line, plan, theme) {
  const files = distinct(rows.file);
  const several = distinct(plan.lines.map((each) => each.file)).length > 1;
  if (line.curve === plot.copy) {
    return { colour: theme.quiet, symbol: null, dash: several ? plot.dashes[files.indexOf(line.file) % plot.dashes.length] : "solid" };
  }
  const [place, round] = plot.slots[Object.hasOwn(plot.slots, plan.x) ? plan.x : ""][line.curve] ?? [0, 0];
  const dash = several ? files.indexOf(line.file) : round;
  return {
    colour: theme.colours[place],
    symbol: plot.symbols[(place + 3 * round) % plot.symbols.length],
    dash: plot.dashes[dash % plot.dashes.length],
  };
}

function nameOf(line, plan) {
  const several = distinct(plan.lines.map((each) => each.file)).length > 1;
  return several ? `${line.curve} · ${line.file}` : line.curve;
}

/** The sizes that have a value or a mark, in order. With fewer than two of them the chart has bars. */
function sizesOf(plan) {
  const all = plan.lines.flatMap((line) => [...line.points, ...line.marks].map((point) => point.x));
  return distinct(all.filter((x) => x != null)).sort((a, b) => a - b);
}

function figure(plan, hidden, theme, room) {
  const visible = { ...plan, lines: plan.lines.filter((line) => !hidden.has(line.key)) };
  return sizesOf(plan).length > 1 ? lineFigure(plan, visible, theme, room) : barFigure(plan, visible, theme, room);
}

function hoverText(line, point, plan) {
  const row = point.members[0];
  const where = content.rows.fixed.filter((name) => rows[name][row] != null && rows[name][row] !== "" && name !== plan.x)
    .map((name) => (content.rows.axes.includes(name) ? `${name}=${plainly(rows[name][row])}` : rows[name][row]));
  if (plan.x && point.x != null) where.push(`${plan.x}=${point.x}`);
  const mid = (name) => median(point.members.map((member) => rows[name][member]).filter((value) => value != null));
  const said = (name, format, after) => (Number.isFinite(mid(name)) ? written(mid(name), format) + after : null);
  const band = ["ms_p20", "ms_p80"].map((name) => said(name, "us", ""));
  const texts = [
    `<b>${plain(nameOf(line, plan))}</b>`,
    plain(where.join(" · ")),
    [said("tflops", "gbps", " TFLOP/s"), said("gbps", "gbps", " GB/s"), said("ms", "us", " µs")].filter(Boolean).join(" · "),
    band.every(Boolean) ? `p20 to p80: ${band[0]} to ${band[1]} µs` : "",
    [said("copy_fraction", "share", " of copy"), said("speedup", "factor", " over the baseline"), said("max_ulp", "ulp", " ulp")]
      .filter(Boolean).join(" · "),
    point.members.length > 1 ? `median of ${point.members.length} sessions` : "",
    point.flags.length ? `flags: ${plain(point.flags.join(", "))}` : "",
  ];
  return texts.filter(Boolean).join("<br>");
}

function markText(line, mark, plan) {
  const at = mark.x == null ? "" : ` at ${plan.x}=${mark.x}`;
  const reason = plain(rows.reason[mark.row]).replace(/\s+/g, " ").replace(/(.{60}\S*) /g, "$1<br>");
  return `<b>${plain(nameOf(line, plan))}</b><br>${plain(rows.status[mark.row])}${plain(at)}<br>${reason}`;
}

function baseLayout(theme, room) {
  return {
    paper_bgcolor: theme.background,
    plot_bgcolor: theme.background,
    font: { family: "system-ui, sans-serif", size: 13, color: theme.ink },
    hovermode: "closest",
    hoverdistance: 24,
    hoverlabel: { bgcolor: theme.background, font: { size: 12.5, color: theme.ink }, align: "left", namelength: 0 },
    dragmode: room < 700 ? false : "zoom",
    showlegend: false,
    height: room < 700 ? 380 : 500,
  };
}

function axis(theme) {
  return { gridcolor: theme.grid, linecolor: theme.quiet, zeroline: false, ticks: "outside", tickcolor: theme.quiet, automargin: true };
}

/** The median of a column over the selected rows, as a limit; none where no row has a value. */
function limit(name, column, plan) {
  const known = plan.selected.map((row) => rows[column][row]).filter((value) => value > 0);
  return known.length ? [{ name, value: median(known) }] : [];
}

/**
 * The limits of the device: of its memory for GB/s, of its arithmetic for TFLOP/s. The large copy of the session is one only
 * where there is no copy control.
 */
function levelsOf(plan) {
  if (plan.metric.name === "tflops") return limit("large matmul", "ceiling_tflops", plan);
  if (plan.metric.name !== "gbps") return [];
  const files = distinct(plan.lines.map((line) => line.file));
  const peaks = distinct(files.map((file) => plot.peaks[file]));
  const levels = peaks.length === 1 && peaks[0] ? [{ name: "theoretical", value: peaks[0] }] : [];
  return plan.selected.some(isCopy) ? levels : [...levels, ...limit("large copy", "ceiling_gbps", plan)];
}
