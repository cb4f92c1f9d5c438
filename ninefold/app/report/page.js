"use strict";
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function draw(charts) {
  const axis = { gridcolor: colour("--line"), zerolinecolor: colour("--line"), automargin: true };
  for (const [id, chart] of Object.entries(charts)) {
    const given = chart.layout;
    const layout = {
      ...given,
      xaxis: { ...axis, ...given.xaxis, title: { standoff: 6, ...given.xaxis.title } },
      yaxis: { ...axis, ...given.yaxis },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--ink"), family: "system-ui, sans-serif", size: 12 },
      margin: { l: 48, r: 8, t: 34, b: 36 },
      legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", font: { size: 11 } },
      uirevision: id,
    };
    Plotly.react(id, chart.data, layout, { responsive: true, displaylogo: false, displayModeBar: false });
  }
}

function show(part) {
  const main = document.querySelector("main");
  const open = new Set([...main.querySelectorAll("details[open][id]")].map((fold) => fold.id));
  main.innerHTML = part.body;
  for (const fold of main.querySelectorAll("details[id]")) fold.open = open.has(fold.id);
  draw(part.charts);
}

async function follow(seconds) {
  let version = "";
  for (;;) {
    try {
      const answer = await fetch("content?version=" + encodeURIComponent(version));
      if (answer.status === 200) {
        const part = await answer.json();
        version = part.version;
        show(part);
      }
    } catch {
      document.title = "(no connection) " + document.title.replace("(no connection) ", "");
    }
    await new Promise((wake) => setTimeout(wake, seconds * 1000));
  }
}

const matching = matchMedia("(prefers-color-scheme: dark)");
