"use strict";

// Draws every <div data-figure="id"> from the JSON script of that id once it comes into view, in the page's colours.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function themed(layout, width) {
    const axis = { gridcolor: colour("--grid"), linecolor: colour("--line-strong"), tickcolor: colour("--line-strong") };
    const narrow = width < 560;
    return {
      ...layout,
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow ? 11 : 12, color: colour("--ink") },
      hoverlabel: { bgcolor: colour("--surface"), bordercolor: colour("--line-strong"), font: { color: colour("--ink") } },
      xaxis: { ...layout.xaxis, ...axis, nticks: narrow ? 5 : undefined },
      yaxis: { ...layout.yaxis, ...axis },
      dragmode: false,
    };
  }

  // Long names of ops and cases would leave no room for the bars on a phone: they take two lines, and an ellipsis.
  function inTwoLines(name) {
    const lines = [""];
    for (const word of name.split(" ")) {
      const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
      if (longer.length <= 20 || !lines.at(-1)) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    if (lines.length > 2) lines.splice(1, lines.length, lines.slice(1).join(" "));
    return lines.map((line) => (line.length > 20 ? `${line.slice(0, 19)}…` : line)).join("<br>");
  }

  // The names themselves stay: bars of two names that begin alike would be drawn as one.
  function nameBriefly(figure, axis) {
    const names = [...new Set(figure.data.flatMap((trace) => trace.y))].filter((name) => typeof name === "string");
    if (names.length) Object.assign(axis, { tickmode: "array", tickvals: names, ticktext: names.map(inTwoLines) });
  }

  function draw(area) {
    const figure = JSON.parse(document.getElementById(area.dataset.figure).textContent);
    const layout = themed(figure.layout, area.clientWidth);
    for (const trace of figure.data) if (trace.error_x) trace.error_x.color = colour("--ink");
    if (area.clientWidth < 560) nameBriefly(figure, layout.yaxis);
    // On a logarithmic axis Plotly takes lines by their value, and notes by its logarithm.
    for (const note of layout.annotations ?? []) {
      if (note.xref === "x" && layout.xaxis.type === "log") note.x = Math.log10(note.x);
      if (note.yref === "y" && layout.yaxis.type === "log") note.y = Math.log10(note.y);
    }
    area.style.minHeight = `${layout.height}px`;
    window.Plotly.react(area, figure.data, layout, { responsive: true, displayModeBar: false });
    area.dataset.drawn = "yes";
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) {
        seen.unobserve(entry.target);
        draw(entry.target);
      }
    }
  }, { rootMargin: "400px" });

  document.querySelectorAll("[data-figure]").forEach((area) => seen.observe(area));
  dark.addEventListener("change", () => document.querySelectorAll("[data-drawn]").forEach(draw));
  window.addEventListener("beforeprint", () => document.querySelectorAll("[data-figure]").forEach(draw));
})();
