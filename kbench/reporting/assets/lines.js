// A chart of lines: values against a size, with their bands, and marks below for rows without a value.

const MARKS = { wrong: "x-thin-open", failed: "asterisk-open", declined: "line-ew-open" };
const STRIP_ROW = 0.045;
const STRIP = 0.3;

function lineFigure(plan, visible, theme, room) {
  const xs = sizesOf(plan);
  const marked = visible.lines.filter((line) => line.marks.length);
  const strip = Math.min(STRIP, STRIP_ROW * distinct(marked.map((line) => line.curve)).length);
  const levels = levelsOf(visible);
  const scale = limits(visible, levels);
  const files = distinct(plan.lines.map((line) => line.file));
  const grids = new Map(files.map((file) => [file, sizesOf({ lines: plan.lines.filter((line) => line.file === file) })]));
  const data = [];
  for (const line of visible.lines) {
    const style = styleOf(line, plan, theme);
    if (line.points.length) data.push(...drawnLine(line, plan, style, theme, xs, grids.get(line.file)));
  }
  for (const line of visible.lines) data.push(...suspects(line, plan, styleOf(line, plan, theme), scale));
  distinct(marked.map((line) => line.curve)).forEach((curve, place) => {
    for (const line of marked.filter((each) => each.curve === curve)) data.push(drawnMarks(line, plan, styleOf(line, plan, theme), place));
  });
  const log = plan.scale === "log2";
  const layout = {
    ...baseLayout(theme, room),
    margin: { l: 62, r: 14, t: 14, b: 52 },
    xaxis: { ...axis(theme), title: { text: plain(plan.x) }, anchor: strip ? "y2" : "y", ...along(xs, log, room) },
    yaxis: { ...axis(theme), title: { text: plan.metric.label }, domain: [strip ? strip + 0.015 : 0, 1], ...scale.axis },
    shapes: levels.map((level) => flat(level.value, theme, "dash")),
    annotations: levels.map((level) => caption(level, scale, theme)),
  };
  if (plan.metric.ratio) layout.shapes.push(flat(1, theme, "solid"));
  if (strip) {
    const count = distinct(marked.map((line) => line.curve)).length;
    layout.yaxis2 = { domain: [0, strip], range: [-0.7, count - 0.3], visible: false, fixedrange: true };
  }
  return { data, layout };
}

/** Ticks at powers of two on a log2 axis; at multiples of one where all sizes are multiples of 64. */
function along(xs, log, room) {
  const most = Math.max(3, Math.floor(room / 95));
  const [first, last] = [xs[0], xs.at(-1)];
  if (log) {
    const margin = 0.03 * Math.log10(last / first);
    const range = [Math.log10(first) - margin, Math.log10(last) + margin];
    const few = xs.length <= most;
    const ticks = few ? { tickvals: xs, ticktext: xs.map(short) } : first < 1 ? decades(first, last) : powers(first, last, most);
    return { type: "log", range, ...ticks };
  }
  const margin = 0.025 * (last - first);
  const range = [first - margin, last + margin];
  if (!xs.every((x) => x % 64 === 0)) return { type: "linear", range, nticks: most };
  return { type: "linear", range, tick0: 0, dtick: 2 ** Math.ceil(Math.log2((last - first) / most)), tickformat: "d" };
}

function powers(first, last, most) {
  const [low, high] = [Math.ceil(Math.log2(first)), Math.floor(Math.log2(last))];
  const step = Math.max(1, Math.ceil((high - low + 1) / most));
  const values = [];
  for (let power = low; power <= high; power += step) values.push(2 ** power);
  return { tickvals: values, ticktext: values.map(short) };
}

/** 4096 as `4K`, 1048576 as `1M`. A size that is no whole multiple stays as it is. */
function short(size) {
  for (const [unit, suffix] of [[2 ** 30, "G"], [2 ** 20, "M"], [2 ** 10, "K"]]) {
    if (size >= unit && size % unit === 0) return `${size / unit}${suffix}`;
  }
  return String(size);
}

/** Whether sizes grow by factors: powers of two, or a wide range with more even factors than steps. */
function growsByFactors(xs) {
  if (xs[0] <= 0) return false;
  if (xs.every((x) => Number.isInteger(Math.log2(x)))) return true;
  if (xs.length < 3 || xs.at(-1) < 32 * xs[0]) return false;
  const spread = (of) => {
    const found = xs.slice(1).map((x, place) => of(xs[place], x));
    return Math.max(...found) / Math.min(...found);
  };
  return spread((a, b) => Math.log(b / a)) < spread((a, b) => b - a);
}

/** The limits of y: from zero, or logarithmic where a linear axis would press most values flat. The rule is that of
    `wants_log` and `extent` in kbench/plotting/panels. Long bands are cut. */
function limits(plan, levels) {
  const points = plan.lines.flatMap((line) => line.points).filter((point) => point.value != null);
  const values = points.map((point) => point.value);
  const [least, most] = [values.reduce((a, b) => Math.min(a, b), Infinity), values.reduce((a, b) => Math.max(a, b), 0)];
  if (!values.length) return { log: false, bottom: 0, top: 1, axis: { range: [0, 1] } };
  const best = new Map();
  for (const { x, value } of points) best.set(x, Math.max(value, best.get(x) ?? 0));
  const bests = [...best.values()];
  const pressed = plan.metric.lower ? most > 10 * least : Math.max(...bests) > 20 * Math.min(...bests);
  if (least > 0 && !plan.metric.ratio && pressed) {
    const [bottom, top] = [least / 1.25, most * 1.25];
    return { log: true, bottom, top, axis: { type: "log", range: [Math.log10(bottom), Math.log10(top)], ...decades(bottom, top) } };
  }
  const high = points.reduce((top, point) => Math.max(top, point.high), most);
  const near = levels.map((level) => 1.04 * level.value).filter((value) => value < 2 * most);
  const top = Math.max(1.05 * Math.min(high, 1.25 * most), ...near, plan.metric.ratio ? 1.04 : 0) || 1;
  return { log: false, bottom: 0, top, axis: { type: "linear", range: [0, top] } };
}

/** Ticks of a logarithmic axis, closer for a shorter axis, each with its number. */
function decades(bottom, top) {
  const span = top / bottom;
  const steps = span < 6 ? [1, 1.5, 2, 3, 4, 5, 7] : span < 30 ? [1, 2, 3, 5] : span < 1e4 ? [1, 2, 5] : [1];
  const values = [];
  for (let power = Math.floor(Math.log10(bottom)); power <= Math.ceil(Math.log10(top)); power += 1) {
    values.push(...steps.map((step) => step * 10 ** power).filter((value) => value >= bottom && value <= top));
  }
  return { tickvals: values, ticktext: values.map((value) => String(Number(value.toPrecision(3)))) };
}

/** A line, which breaks where it has no value at a size of its file (`grid`). `xs` are the sizes of all files. */
function drawnLine(line, plan, style, theme, xs, grid) {
  const common = { legendgroup: line.key, name: plain(nameOf(line, plan)), showlegend: false };
  const level = line.points.every((point) => point.x == null);
  const at = level
    ? xs.map((x) => ({ ...line.points[0], x }))
    : grid.map((x) => line.points.find((point) => point.x === x) ?? { x, value: null });
  const alone = at.map((point, i) => point.value != null && at[i - 1]?.value == null && at[i + 1]?.value == null);
  const size = grid.length > 24 ? 5 : 8;
  const traces = level ? [] : bands(at, style, common);
  traces.push({
    ...common,
    type: "scatter",
    mode: style.symbol && !level ? "lines+markers" : alone.some(Boolean) ? "lines+markers" : "lines",
    x: at.map((point) => point.x),
    y: at.map((point) => point.value),
    line: { color: style.colour, width: 2, dash: level ? "dash" : style.dash },
    marker: {
      symbol: style.symbol ?? "circle",
      opacity: 1,
      size: at.map((point) => (point.hollow ? size + 1 : size)),
      color: at.map((point) => (point.hollow ? theme.background : style.colour)),
      line: { color: style.colour, width: at.map((point) => (point.hollow ? 1.6 : 0)) },
    },
    hoverinfo: "text",
    hovertext: at.map((point) => (point.value == null ? "" : hoverText(line, point, plan))),
    hoverlabel: { bordercolor: style.colour },
    showlegend: true,
  });
  return traces;
}

/** p20 to p80: an area for every stretch without a gap. */
function bands(at, style, common) {
  const stretches = [[]];
  for (const point of at) {
    if (point.value == null) stretches.push([]);
    else stretches.at(-1).push(point);
  }
  return stretches.filter((stretch) => stretch.length > 1 && stretch.some((point) => point.high > point.low)).map((stretch) => ({
    ...common,
    type: "scatter",
    mode: "lines",
    x: [...stretch.map((point) => point.x), ...stretch.map((point) => point.x).reverse()],
    y: [...stretch.map((point) => point.low), ...stretch.map((point) => point.high).reverse()],
    fill: "toself",
    fillcolor: `${style.colour}26`,
    line: { width: 0 },
    hoverinfo: "skip",
  }));
}

/** A question mark at each claimed value. Values beyond the axis have it at the edge. */
function suspects(line, plan, style, scale) {
  const points = line.points.filter((point) => point.claimed != null && point.x != null);
  if (!points.length) return [];
  return [{
    type: "scatter", mode: "text", legendgroup: line.key, showlegend: false, hoverinfo: "text",
    x: points.map((point) => point.x),
    y: points.map((point) => Math.min(Math.max(point.claimed, scale.bottom * 1.1), 0.97 * scale.top)),
    text: points.map(() => "<b>?</b>"),
    textfont: { color: style.colour, size: 17 },
    hovertext: points.map((point) => hoverText(line, point, plan)),
  }];
}

function drawnMarks(line, plan, style, place) {
  const marks = line.marks.filter((mark) => mark.x != null);
  return {
    type: "scatter", mode: "markers", yaxis: "y2", legendgroup: line.key, showlegend: false, hoverinfo: "text",
    x: marks.map((mark) => mark.x),
    y: marks.map(() => place),
    marker: { symbol: marks.map((mark) => MARKS[mark.kind]), size: 9, color: style.colour, line: { color: style.colour, width: 2 } },
    hovertext: marks.map((mark) => markText(line, mark, plan)),
  };
}

function flat(value, theme, dash) {
  return { type: "line", xref: "paper", x0: 0, x1: 1, y0: value, y1: value, layer: "below", line: { color: theme.quiet, width: 1.2, dash } };
}

function caption(level, scale, theme) {
  const y = scale.log ? Math.log10(level.value) : level.value;
  return {
    xref: "paper", x: 1, y, xanchor: "right", yanchor: "top", showarrow: false,
    text: `${level.name} ${level.value < 100 ? fourDigits(level.value) : level.value.toFixed(0)}`, font: { size: 11.5, color: theme.muted },
  };
}
