// A chart of one case, where nothing runs along x: bars, or dots where there are many lines.

const BARS = { row: 27, font: 12 };
const DOTS = { row: 17, font: 11 };
/** The height of a row and the size of its font, in pixels. */

/** A row for every line, the best on top, each with its value: a bar from zero, or a dot (kbench/plotting/panels/dots.py). */
function barFigure(plan, visible, theme, room) {
  const sign = plan.metric.lower ? 1 : -1;
  const drawn = visible.lines.filter((line) => line.points.length && line.points[0].value != null)
    .sort((a, b) => sign * (a.points[0].value - b.points[0].value));
  const lost = visible.lines.filter((line) => !drawn.includes(line));
  const names = [...drawn, ...lost].map((line) => nameOf(line, plan));
  const values = drawn.map((line) => line.points[0].value);
  const most = Math.max(0, ...values) || 1;
  const levels = levelsOf(visible).filter((level) => most > level.value / 2);
  const many = names.length > plot.most_bars;
  const size = many ? DOTS : BARS;
  const top = levels.reduce((end, level) => Math.max(end, 1.03 * level.value), (many ? 1.05 : 1.22) * most);
  const least = values.length ? Math.min(...values) : 0;
  const start = many && least > 0.5 * top ? least - 0.1 * (top - least) : 0; // not at zero where values are close together
  const upright = (x, dash) => ({
    type: "line", yref: "paper", y0: 0, y1: 1, x0: x, x1: x, layer: "below", line: { color: theme.quiet, width: 1.2, dash },
  });
  const data = drawn.map((line, place) => {
    const [point, style] = [line.points[0], styleOf(line, plan, theme)];
    return {
      ...(many ? dot(style, point, theme) : bar(style, point, theme)),
      x: [point.value], y: [place], legendgroup: line.key, name: plain(nameOf(line, plan)),
      error_x: {
        type: "data", symmetric: false, array: [point.high - point.value], arrayminus: [point.value - point.low],
        color: many ? style.colour : theme.ink, thickness: 1.2, width: many ? 0 : 3,
      },
      text: [fourDigits(point.value)], hoverinfo: "text", hovertext: [hoverText(line, point, plan)],
      hoverlabel: { bordercolor: style.colour },
    };
  });
  const beside = (text, x, y, colour) => ({
    text, x, y, xanchor: "left", xshift: 6, showarrow: false, font: { size: size.font, color: colour },
    ...(many ? { xref: "paper", x: 1 } : { bgcolor: theme.background }),
  });
  const layout = {
    ...baseLayout(theme, room),
    height: Math.max(200, size.row * names.length + 90),
    margin: { l: 20, r: many ? 76 : 20, t: levels.length ? 26 : 10, b: 48 },
    dragmode: false,
    xaxis: { ...axis(theme), title: { text: plan.metric.label }, range: [start, top], nticks: Math.max(3, Math.floor(room / 120)) },
    yaxis: {
      ...axis(theme), range: [names.length - 0.4, -0.6], tickvals: names.map((_, place) => place), ticks: "", showgrid: many,
      tickfont: { size: many ? size.font : 13 },
      ticktext: names.map((name) => plain(name.length > 34 && room < 700 ? `${name.slice(0, 20)}…${name.slice(-8)}` : name)),
    },
    annotations: [
      ...drawn.map((line, place) => beside(fourDigits(line.points[0].value), Math.max(line.points[0].high, line.points[0].value), place, theme.ink)),
      ...levels.map((level) => ({
        yref: "paper", y: 1, x: level.value, xanchor: "right", yanchor: "bottom", showarrow: false,
        text: `${level.name} ${level.value < 100 ? fourDigits(level.value) : level.value.toFixed(0)}`, font: { size: 11.5, color: theme.muted },
      })),
      ...lost.map((line, place) => beside(lostText(line), 0, drawn.length + place, theme.muted)),
    ],
  };
  layout.shapes = levels.map((level) => upright(level.value, "dash"));
  if (plan.metric.ratio) layout.shapes.push(upright(1, "solid"));
  return { data, layout };
}

function bar(style, point, theme) {
  const marker = { color: point.hollow ? theme.background : style.colour, line: { color: style.colour, width: point.hollow ? 1.6 : 0 } };
  return { type: "bar", orientation: "h", width: 0.68, textposition: "none", marker };
}

function dot(style, point, theme) {
  const face = point.hollow ? theme.background : style.colour;
  const marker = { symbol: style.symbol ?? "circle", size: 8, opacity: 1, color: face, line: { color: style.colour, width: 1.6 } };
  return { type: "scatter", mode: "markers", marker, cliponaxis: false };
}

function lostText(line) {
  const point = line.points[0];
  return point ? `suspect: ${fourDigits(point.claimed)}` : distinct(line.marks.map((mark) => rows.status[mark.row])).join(", ");
}

/** Four significant digits. Numbers above 9999 have all their whole digits and no exponent. */
function fourDigits(value) {
  return value < 9999.5 ? String(Number(value.toPrecision(4))) : value.toFixed(0);
}
