// A chart of bars, where nothing runs along x.

/** One case: a bar from zero for every line, the best on top, with its value beside it. */
function barFigure(plan, visible, theme, room) {
  const sign = plan.metric.lower ? 1 : -1;
  const drawn = visible.lines.filter((line) => line.points.length && line.points[0].value != null)
    .sort((a, b) => sign * (a.points[0].value - b.points[0].value));
  const lost = visible.lines.filter((line) => !drawn.includes(line));
  const names = [...drawn, ...lost].map((line) => nameOf(line, plan));
  const most = drawn.reduce((top, line) => Math.max(top, line.points[0].value), 0) || 1;
  const levels = levelsOf(visible).filter((level) => most > level.value / 2);
  const upright = (x, dash) => ({
    type: "line", yref: "paper", y0: 0, y1: 1, x0: x, x1: x, layer: "below", line: { color: theme.quiet, width: 1.2, dash },
  });
  const data = drawn.map((line, place) => {
    const [point, style] = [line.points[0], styleOf(line, plan, theme)];
    return {
      type: "bar", orientation: "h", x: [point.value], y: [place], width: 0.68, legendgroup: line.key, name: plain(nameOf(line, plan)),
      marker: { color: point.hollow ? theme.background : style.colour, line: { color: style.colour, width: point.hollow ? 1.6 : 0 } },
      error_x: {
        type: "data", symmetric: false, array: [point.high - point.value], arrayminus: [point.value - point.low],
        color: theme.ink, thickness: 1.2, width: 3,
      },
      text: [figures(point.value)], textposition: "none", hoverinfo: "text", hovertext: [hoverText(line, point, plan)],
      hoverlabel: { bordercolor: style.colour },
    };
  });
  const beside = (text, x, y, colour) => ({
    text, x, y, xanchor: "left", xshift: 6, showarrow: false, font: { size: 12, color: colour }, bgcolor: theme.background,
  });
  const layout = {
    ...baseLayout(theme, room),
    height: Math.max(200, 27 * names.length + 90),
    margin: { l: 20, r: 20, t: levels.length ? 26 : 10, b: 48 },
    dragmode: false,
    xaxis: { ...axis(theme), title: { text: plan.metric.label }, range: [0, levels.reduce((top, level) => Math.max(top, 1.03 * level.value), 1.22 * most)], nticks: Math.max(3, Math.floor(room / 120)) },
    yaxis: {
      ...axis(theme), range: [names.length - 0.4, -0.6], tickvals: names.map((_, place) => place), ticks: "", showgrid: false,
      ticktext: names.map((name) => plain(name.length > 34 && room < 700 ? `${name.slice(0, 20)}…${name.slice(-8)}` : name)),
    },
    annotations: [
      ...drawn.map((line, place) => beside(figures(line.points[0].value), Math.max(line.points[0].high, line.points[0].value), place, theme.ink)),
      ...levels.map((level) => ({
        yref: "paper", y: 1, x: level.value, xanchor: "right", yanchor: "bottom", showarrow: false,
        text: `${level.name} ${level.value.toFixed(0)}`, font: { size: 11.5, color: theme.muted },
      })),
      ...lost.map((line, place) => beside(lostText(line), 0, drawn.length + place, theme.muted)),
    ],
  };
  layout.shapes = levels.map((level) => upright(level.value, "dash"));
  if (plan.metric.ratio) layout.shapes.push(upright(1, "solid"));
  return { data, layout };
}

function lostText(line) {
  const point = line.points[0];
  return point ? `suspect: ${figures(point.claimed)}` : distinct(line.marks.map((mark) => rows.status[mark.row])).join(", ");
}

/** Four significant digits, and never an exponent where whole digits do. */
function figures(value) {
  return value < 9999.5 ? String(Number(value.toPrecision(4))) : value.toFixed(0);
}
