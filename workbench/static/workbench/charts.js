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

  // Long names of ops and cases would leave no room for the bars on a phone.
  const short = (name) => (typeof name === "string" && name.length > 20 ? `${name.slice(0, 19)}…` : name);

  function draw(area) {
    const figure = JSON.parse(document.getElementById(area.dataset.figure).textContent);
    const layout = themed(figure.layout, area.clientWidth);
    for (const trace of figure.data) if (trace.error_x) trace.error_x.color = colour("--ink");
    if (area.clientWidth < 560) {
      for (const trace of figure.data) trace.y = trace.y.map(short);
      if (layout.yaxis.categoryarray) layout.yaxis.categoryarray = layout.yaxis.categoryarray.map(short);
    }
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
