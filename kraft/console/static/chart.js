// Draws lag and offsets of a group over time, from the JSON of the page it is on, and draws on while the page is open.
"use strict";

(() => {
  const place = document.querySelector("[data-history]");
  if (!place || typeof uPlot === "undefined") return;
  const waiting = place.querySelector("[data-waiting]");
  const EVERY_MS = 10_000;
  const HEIGHT = 260;
  const HUES = [212, 28, 145, 340, 265, 185, 55, 0, 110, 300];
  let charts = [];
  let drawn = "";

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  const hue = (index) => `hsl(${HUES[index % HUES.length]} 70% ${isDark() ? 68 : 38}%)`;

  const short = (value) => {
    for (const [size, unit] of [[1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
      if (Math.abs(value) >= 10 * size) return `${+(value / size).toFixed(1)}${unit}`;
    }
    return String(value);
  };

  const clock = (seconds, step) => {
    const iso = new Date(seconds * 1000).toISOString();
    return step < 60 ? iso.slice(11, 19) : iso.slice(11, 16);
  };

  const axis = (more) => ({ stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") }, ...more });

  const linesOf = (series, kind) => {
    const lines = [];
    series.topics.forEach((topic, index) => {
      const line = { stroke: hue(index), width: 2, spanGaps: false, value: (_, value) => (value === null || value === undefined ? "–" : value.toLocaleString("en")) };
      if (kind === "lag") lines.push([{ ...line, label: topic.topic }, topic.lag]);
      else {
        lines.push([{ ...line, label: `${topic.topic}, end` }, topic.end]);
        lines.push([{ ...line, label: `${topic.topic}, committed`, dash: [6, 4] }, topic.committed]);
      }
    });
    return lines;
  };

  const draw = (series) => {
    const times = series.times_ms.map((each) => each / 1000);
    const names = JSON.stringify(series.topics.map((each) => each.topic)) + isDark();
    waiting.hidden = times.length > 0;
    if (!times.length) return;
    if (names !== drawn) {
      charts.forEach((each) => each.chart.destroy());
      charts = [...place.querySelectorAll("[data-chart]")].map((element) => {
        const kind = element.dataset.chart;
        const lines = linesOf(series, kind);
        const options = {
          width: element.clientWidth,
          height: HEIGHT,
          tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
          scales: {
            // A minute at least: of the first sample alone, each mark of the axis would be the same.
            x: { range: (_, low, high) => [Math.min(low, high - 60), high] },
            ...(kind === "lag" ? { y: { range: (_, low, high) => [0, Math.max(1, high * 1.1)] } } : {}),
          },
          axes: [axis({ space: 90, values: (_, ticks, __, ___, step) => ticks.map((each) => clock(each, step)) }), axis({ size: 70, values: (_, ticks) => ticks.map(short) })],
          series: [{ label: "UTC", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" }, ...lines.map((each) => each[0])],
        };
        return { kind, element, chart: new uPlot(options, [times, ...lines.map((each) => each[1])], element) };
      });
      drawn = names;
      return;
    }
    charts.forEach((each) => each.chart.setData([times, ...linesOf(series, each.kind).map((line) => line[1])]));
  };

  const look = async () => {
    if (document.hidden) return;
    try {
      const answer = await fetch(place.dataset.history);
      if (!answer.ok) throw new Error(answer.status === 401 ? "the session has ended: load the page again" : `the console answered ${answer.status}`);
      draw((await answer.json()).series.value);
    } catch (error) {
      waiting.hidden = false;
      waiting.textContent = `No new figures: ${error.message}.`;
    }
  };

  window.addEventListener("resize", () => charts.forEach((each) => each.chart.setSize({ width: each.element.clientWidth, height: HEIGHT })));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", look);
  waiting.textContent = "The first figures come within a few seconds.";
  setTimeout(look, 1_500);
  look();
  setInterval(look, EVERY_MS);
})();
