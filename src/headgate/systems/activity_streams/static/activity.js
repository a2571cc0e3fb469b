// Draws the chart, and polls while the recording is being fetched. Without JavaScript the page is
// complete too: the numbers are in a table, and the page reloads itself.
"use strict";

(() => {
  const WAIT_S_MAX = 120;
  const PHONE_HEIGHT = 260;
  const DESK_HEIGHT = 340;
  const WIDE = 560;
  // Each line has its own dashes, so that no line is known by its colour alone.
  const DASHES = [[], [8, 4], [2, 3], [12, 3, 2, 3], [4, 4], [16, 4], [6, 2, 2, 2], [1, 5]];
  const main = document.querySelector("main");

  // ---- waiting ---------------------------------------------------------------------------------

  let failures = 0;
  let timer;

  async function look() {
    try {
      const answer = await fetch(location.href, {
        headers: { "X-Headgate-Fragment": "1", "If-None-Match": document.body.dataset.etag },
        signal: AbortSignal.timeout(20_000),
      });
      // Something has changed, or the link has expired: reload to show the server's page.
      if ([200, 404, 410].includes(answer.status)) return location.reload();
      failures = answer.status === 304 ? 0 : failures + 1;
    } catch {
      failures += 1;
    }
    plan();
  }

  // Stops polling while the page is hidden, and when nothing more will change.
  function plan() {
    clearTimeout(timer);
    const seconds = Number(main.dataset.pollAfterS);
    if (!seconds || document.hidden) return;
    timer = setTimeout(look, Math.min(seconds * 2 ** failures, WAIT_S_MAX) * 1000);
  }

  // ---- drawing ---------------------------------------------------------------------------------

  const place = document.getElementById("chart");
  const form = document.getElementById("channels");
  let points;
  let chart;

  const boxes = () => [...form.querySelectorAll("input[type=checkbox]")];
  const colour = (name, of = place) => getComputedStyle(of).getPropertyValue(name).trim();

  function clock(seconds) {
    const two = (number) => String(Math.floor(number)).padStart(2, "0");
    return `${Math.floor(seconds / 3600)}:${two((seconds % 3600) / 60)}:${two(seconds % 60)}`;
  }

  const isWide = () => place.clientWidth >= WIDE;

  function size() {
    return { width: place.clientWidth, height: isWide() ? DESK_HEIGHT : PHONE_HEIGHT };
  }

  // The values in the unit of the label.
  function values(box) {
    const factor = Number(box.dataset.factor);
    return points[box.value].map((value) => (value == null ? null : value * factor));
  }

  function line(box, at) {
    const { label, unit, digits } = box.dataset;
    return {
      label,
      scale: box.value,
      stroke: colour("--line-colour", box.closest("label")),
      dash: DASHES[at % DASHES.length],
      width: 1.75,
      points: { show: false },
      value: (_, value) => (value == null ? "–" : `${value.toFixed(Number(digits))} ${unit}`),
    };
  }

  // The first two lines have a scale each, on the left and on the right.
  function scaleOf(box, at) {
    const { label, unit } = box.dataset;
    return {
      scale: box.value,
      side: at === 0 ? 3 : 1,
      // On a narrow screen the scale has no label, only the colour of its line.
      label: isWide() ? `${label} (${unit})` : undefined,
      labelSize: 20,
      size: 46,
      stroke: colour("--line-colour", box.closest("label")),
      grid: at === 0 ? { stroke: colour("--line"), width: 1 } : { show: false },
      ticks: { stroke: colour("--line"), width: 1 },
    };
  }

  function draw() {
    const all = boxes();
    const chosen = all.filter((box) => box.checked && points[box.value]);
    chart?.destroy();
    chart = undefined;
    place.hidden = chosen.length === 0;
    if (place.hidden) return;
    const over = points.time ?? points[chosen[0].value].map((_, at) => at);
    chart = new uPlot(
      {
        ...size(),
        cursor: { y: false },
        scales: { x: { time: false } },
        series: [
          { label: "Time", value: (_, value) => (value == null ? "–" : clock(value)) },
          ...chosen.map((box) => line(box, all.indexOf(box))),
        ],
        axes: [
          {
            stroke: colour("--soft"),
            grid: { stroke: colour("--line"), width: 1 },
            ticks: { stroke: colour("--line"), width: 1 },
            incrs: [1, 5, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400],
            values: (_, splits) => splits.map((value) => clock(value)),
            space: 64,
          },
          ...chosen.slice(0, 2).map(scaleOf),
        ],
      },
      [over, ...chosen.map(values)],
      place,
    );
    const names = chosen.map((box) => box.dataset.label);
    place.setAttribute("aria-label", `Chart of ${names.join(", ")} over time; the numbers are in the table below`);
  }

  // Updates the table and the address as well.
  async function choose() {
    draw();
    const query = new URLSearchParams(new FormData(form));
    const address = query.size ? `${form.action}?${query}` : form.action;
    history.replaceState(null, "", address);
    const answer = await fetch(address);
    if (!answer.ok || address !== location.href) return;
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    document.querySelector("#numbers table").replaceWith(next.querySelector("#numbers table"));
  }

  async function begin() {
    const answer = await fetch(place.dataset.from, { signal: AbortSignal.timeout(20_000) });
    if (!answer.ok) throw new Error(answer.statusText);
    points = (await answer.json()).stream_data;
    draw();
    form.addEventListener("change", choose);
    document.getElementById("choose").hidden = true;
    new ResizeObserver(() => chart?.setSize(size())).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }

  if (place)
    begin().catch(() => {
      place.hidden = true;
      document.getElementById("unable").hidden = false;
    });
  if (main.dataset.pollAfterS) {
    document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : look()));
    plan();
  }
})();
