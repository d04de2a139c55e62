// From rows to lines. A line is one provider with its parameters in one file, measured in one configuration: whatever else
// varies is chosen by the reader, so that no line joins two configurations. Sessions are pooled: the median and the widest band.

const rows = Object.fromEntries(decoded(content.rows).map((column) => [column.name, column.values]));
const { look } = content;
const everyRow = Array.from({ length: content.rows.count }, (_, row) => row)
  .filter((row) => rows.role[row] === "provider" || isCopy(row));

const MARKED = { wrong: "wrong", unsupported: "declined", error: "failed", oom: "failed", timeout: "failed", crashed: "failed" };

function isCopy(row) {
  return rows.role[row] === "control" && rows.provider[row] === "copy";
}

/** "value", a mark, or "" for a row that has neither. */
function kindOf(row, metric) {
  const value = rows[metric.column][row];
  const known = metric.statuses.includes(rows.status[row]) && value != null && (metric.zero ? value >= 0 : value > 0);
  return known ? "value" : MARKED[rows.status[row]] ?? "";
}

const paramsOf = (() => {
  const known = new Map();
  return (row) => {
    const text = rows.params[row];
    if (!known.has(text)) known.set(text, Object.fromEntries(text.split(",").filter(Boolean).map((item) => item.split("="))));
    return known.get(text);
  };
})();

function numberParam(row, name) {
  const value = Object.hasOwn(paramsOf(row), name) ? paramsOf(row)[name] : undefined;
  return value !== undefined && value.trim() !== "" && Number.isFinite(Number(value)) ? Number(value) : null;
}

/** What can run along x for these rows: axes of sizes, and parameters that were swept over numbers. */
function alongs(selected) {
  const axes = content.rows.numeric.filter((name) => selected.some((row) => rows[name][row] != null));
  const names = distinct(selected.flatMap((row) => Object.keys(paramsOf(row))));
  const params = names.filter((name) => distinct(selected.map((row) => numberParam(row, name)).filter((n) => n != null)).length > 1);
  return { axes, params };
}

/** The axis with the most values or, where a parameter was swept over more curves than there are colours, that one. */
function usualAlong(selected, { axes, params }) {
  const count = (name, of) => distinct(selected.map((row) => of(row, name)).filter((value) => value != null)).length;
  const most = (names, of) => names.reduce((best, name) => (best && count(best, of) > count(name, of) ? best : name), "");
  const [axis, param] = [most(axes, (row, name) => rows[name][row]), most(params, numberParam)];
  const curves = distinct(selected.filter((row) => !isCopy(row)).map((row) => rows.curve[row])).length;
  const swept = param && curves > look.symbols.length && count(param, numberParam) >= count(axis, (row, name) => rows[name][row]);
  return swept ? param : axis;
}

function xOf(row, x) {
  if (!x) return null;
  return content.rows.axes.includes(x) ? rows[x][row] : numberParam(row, x);
}

function curveOf(row, x) {
  if (isCopy(row)) return look.copy;
  if (!x || content.rows.axes.includes(x) || numberParam(row, x) == null) return rows.curve[row];
  const params = Object.entries({ ...paramsOf(row), [x]: "*" }).map(([name, value]) => `${name}=${value}`);
  return `${rows.provider[row]}[${params.join(",")}]`;
}

/**
 * What to draw for what the reader chose: `choices` are the controls that there is something to choose by, each with its
 * options and value, `fixed` what all lines have in common, `lines` the lines, highest last value first.
 */
function planned(state) {
  const metric = look.metrics.find((each) => each.name === state.metric);
  let selected = everyRow.filter((row) => metric.copy || !isCopy(row));
  const choices = [];
  const fixed = {};
  const valued = (row) => kindOf(row, metric) === "value";
  const narrow = (name, x, all = false) => {
    const values = natural(selected.map((row) => rows[name][row] ?? ""));
    if (values.length < 2) {
      fixed[name] = values[0];
      return;
    }
    const options = values.map((value) => [String(value), value === "" ? "none" : value]);
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
  const along = alongs(selected);
  const x = [...along.axes, ...along.params].includes(state.x) ? state.x : usualAlong(selected.filter(valued), along);
  const varying = along.axes.filter((name) => distinct(selected.map((row) => rows[name][row])).length > 1);
  if (varying.length + along.params.length > 1) {
    choices.push({ name: "x", options: [...varying, ...along.params].map((name) => [name, name]), value: x });
  }
  const paired = companions(selected, x);
  const isAxis = (name) => content.rows.axes.includes(name);
  const others = content.rows.configuration.filter((name) => name !== "operator" && name !== x && !Object.hasOwn(paired, name));
  for (const name of [...others.filter(isAxis), ...others.filter((name) => !isAxis(name))]) narrow(name, x);
  return { metric, x, choices, fixed, selected, paired: Object.values(paired), lines: linesOf(selected, metric, x) };
}

/** Axes that go with x, and how: every x has a value of theirs to itself, so that there is nothing to choose. The rule of
    kbench/plotting/selection/pages.py. */
function companions(selected, x) {
  const found = {};
  for (const axis of content.rows.axes.includes(x) ? content.rows.axes : []) {
    if (axis === x) continue;
    const pairs = new Map(selected.map((row) => [JSON.stringify([rows[x][row], rows[axis][row]]), [rows[x][row], rows[axis][row]]]));
    const known = [...pairs.values()].sort((a, b) => a[0] - b[0]);
    const unique = (place) => distinct(known.map((pair) => pair[place])).length === known.length;
    if (known.length < 3 || !unique(0) || !unique(1)) continue;
    const [first, last] = [known[0], known.at(-1)];
    found[axis] = `${axis} goes with ${x}: ${first[1]} at ${first[0]}, ${last[1]} at ${last[0]}`;
  }
  return found;
}

/** The value with the most sizes to draw along x; of equals the largest size, or the first word of the file. */
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
    const [file, curve] = [rows.file[row], curveOf(row, x)];
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
  const suspects = metric.timed ? members.filter((row) => rows.flags[row].split(";").includes(look.suspect)) : [];
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
    hollow: metric.timed && flags.some((flag) => look.hollow.includes(flag)),
  };
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
