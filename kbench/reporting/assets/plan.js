// From rows to lines. A line is one provider with its parameters in one file. Its rows have equal values in the fixed columns,
// except x. The reader chooses these values where they vary. Sessions are pooled: the median and the widest band.
// What a row is drawn as, and what can run along x, comes from kbench/reporting/plot_data.py.

const rows = Object.fromEntries(decoded(content.rows).map((column) => [column.name, column.values]));
const { plot } = content;
const kinds = Object.fromEntries(Object.entries(plot.kinds).map(([name, column]) => [name, column.codes.map((code) => column.words[code])]));
const drawnRows = Array.from({ length: content.rows.count }, (_, row) => row).filter((row) => rows.line[row] !== "");

function isCopy(row) {
  return rows.line[row] === plot.copy;
}

/** "value", a mark, or "" for a row that is not drawn. */
function kindOf(row, metric) {
  return kinds[metric.name][row];
}

function isAxis(name) {
  return content.rows.axes.includes(name);
}

/** The place of a row along x; null where it has none. */
function xOf(row, x) {
  if (!x) return null;
  return isAxis(x) ? rows[x][row] : plot.parameters[x].x[rows.line[row]];
}

/** The name of the line of a row where `x` runs along x. */
function lineOf(row, x) {
  return !x || isAxis(x) ? rows.line[row] : plot.parameters[x].line[rows.line[row]];
}

/**
 * What to draw for the reader's choices. `choices` are the controls with their options and values, `fixed` what all lines
 * have in common, and `lines` the lines with the highest last value first.
 */
function planned(state) {
  const metric = plot.metrics.find((each) => each.name === state.metric);
  let selected = drawnRows.filter((row) => metric.copy || !isCopy(row));
  const choices = [];
  const fixed = {};
  const valued = (row) => kindOf(row, metric) === "value";
  const narrow = (name, x, all = false) => {
    const values = natural(selected.map((row) => rows[name][row] ?? ""));
    if (values.length < 2) {
      fixed[name] = values[0];
      return;
    }
    const options = values.map((value) => [String(value), value === "" ? "none" : plainly(value)]);
    const usual = all ? "" : String(mostDrawn(name, selected, selected.filter(valued), x));
    const wanted = state.chosen[name];
    const value = options.some(([key]) => key === wanted) || (all && wanted === "") ? wanted : usual;
    choices.push({ name, options: all ? [["", "all files"], ...options] : options, value });
    if (value !== "" || !all) {
      selected = selected.filter((row) => String(rows[name][row] ?? "") === value);
      fixed[name] = value;
    }
  };
  narrow("operator");
  narrow("file", "", true);
  const sweep = plot.sweeps.find((each) => each.operator === fixed.operator && each.file === (fixed.file ?? ""));
  const x = sweep.options.includes(state.x) ? state.x : sweep.usual[metric.name];
  if (sweep.options.length > 1) choices.push({ name: "x", options: sweep.options.map((name) => [name, name]), value: x });
  const paired = Object.hasOwn(sweep.paired, x) ? sweep.paired[x] : {};
  const others = content.rows.fixed.filter((name) => name !== "operator" && name !== x && !Object.hasOwn(paired, name));
  for (const name of [...others.filter(isAxis), ...others.filter((name) => !isAxis(name))]) narrow(name, x);
  return { metric, x, choices, fixed, selected, paired: Object.values(paired), lines: linesOf(selected, metric, x) };
}

/** The value with the most sizes along x; of equals the largest size, or the first word of the file. */
function mostDrawn(name, selected, valued, x) {
  const sizes = new Map(selected.map((row) => [rows[name][row] ?? "", new Set()]));
  for (const row of valued) sizes.get(rows[name][row] ?? "").add(`${xOf(row, x)} ${rows.file[row]}`);
  const more = (a, b) => sizes.get(a).size - sizes.get(b).size || (typeof a === "number" && typeof b === "number" ? a - b : 0);
  return [...sizes.keys()].reduce((best, value) => (more(value, best) > 0 ? value : best));
}

function linesOf(selected, metric, x) {
  const lines = new Map();
  for (const row of selected) {
    const kind = kindOf(row, metric);
    if (!kind) continue;
    const [file, curve] = [rows.file[row], lineOf(row, x)];
    const key = JSON.stringify([curve, file]);
    if (!lines.has(key)) lines.set(key, { key, file, curve, at: new Map(), marks: [] });
    const line = lines.get(key);
    if (kind !== "value") {
      line.marks.push({ x: xOf(row, x), kind, row });
      continue;
    }
    const place = xOf(row, x);
    if (!line.at.has(place)) line.at.set(place, []);
    line.at.get(place).push(row);
  }
  for (const line of lines.values()) {
    line.points = [...line.at].map(([at, members]) => pooled(at, members, metric)).sort((a, b) => a.x - b.x);
    line.last = line.points.at(-1)?.value ?? line.points.at(-1)?.claimed ?? null;
  }
  return [...lines.values()].sort((a, b) => (b.last ?? -1) - (a.last ?? -1) || collator.compare(a.key, b.key));
}

function pooled(x, members, metric) {
  const flags = distinct(members.flatMap((row) => rows.flags[row].split(";"))).filter(Boolean);
  const suspects = metric.timed ? members.filter((row) => rows.flags[row].split(";").includes(plot.suspect)) : [];
  const good = members.filter((row) => !suspects.includes(row));
  const of = (row) => rows[metric.column][row] * metric.scale;
  const ends = good.flatMap((row) => ["_p20", "_p80"].map((end) => rows[metric.column + end]?.[row] ?? rows[metric.column][row]));
  return {
    x,
    members,
    flags,
    value: good.length ? median(good.map(of)) : null,
    low: good.length ? Math.min(...ends) * metric.scale : null,
    high: good.length ? Math.max(...ends) * metric.scale : null,
    claimed: good.length ? null : median(suspects.map(of)),
    hollow: metric.timed && flags.some((flag) => plot.hollow.includes(flag)),
  };
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
