// Common parts of all pages: style, frame and drawing functions. They need no network and no library.
#include "../detail/page_frame.hpp"

#include <fmt/format.h>

#include "../detail/text.hpp"

namespace weft::detail {

namespace {

constexpr const char* common_style = R"css(
:root {
  color-scheme: light dark;
  --mono: ui-monospace, "DejaVu Sans Mono", monospace;
  --ground: #ffffff; --card: #f6f8fa; --line: #d8dee4; --text: #1f2328; --soft: #57606a; --mark: #0969da;
  --none: #eaeef2; --zero: #afb8c1; --bad: #e5007d; --faint: #8c959f;
  --non-finite: #bf0a6b; --exploding: #bc4c00; --vanishing: #6639ba; --dead: #57606a; --frozen: #0550ae;
  --updates: #9a6700; --broadcast: #0f766e; --run: #116329;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0d1117; --card: #161b22; --line: #30363d; --text: #e6edf3; --soft: #9198a1; --mark: #58a6ff;
    --none: #1b2129; --zero: #545d68; --bad: #ff4fa8; --faint: #6e7681;
    --non-finite: #ff7cc0; --exploding: #ffa657; --vanishing: #c4a5ff; --dead: #b1bac4; --frozen: #79c0ff;
    --updates: #e3b341; --broadcast: #5eead4; --run: #7ee787;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 28px 24px 48px; max-width: 1240px; background: var(--ground); color: var(--text);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { margin: 0; font-size: 24px; letter-spacing: -.01em; }
h1, h2, p, li { overflow-wrap: anywhere; }
h2 { margin: 0 0 2px; font-size: 16px; }
p { margin: 0; color: var(--soft); }
header { display: flex; justify-content: space-between; align-items: end; gap: 24px; margin-bottom: 20px; }
section { margin-top: 28px; }
.tabs { display: inline-flex; flex-wrap: wrap; margin: 10px 0 12px; border: 1px solid var(--line); border-radius: 6px;
  overflow: hidden; }
.tabs button { padding: 4px 12px; border: 0; border-right: 1px solid var(--line); background: none; color: var(--text);
  font: inherit; cursor: pointer; }
.tabs button:last-child { border-right: 0; }
.tabs button[aria-pressed=true] { background: var(--mark); color: var(--ground); font-weight: 600; }
.charts { display: grid; grid-template-columns: 1fr 1fr; gap: 28px; }
.charts > * { min-width: 0; }
@media (max-width: 860px) { .charts { grid-template-columns: 1fr; } header { display: block; } }
svg { display: block; width: 100%; overflow: visible; }
svg text { font-size: 11px; fill: var(--soft); font-family: inherit; }
svg .name { fill: var(--text); font-family: var(--mono); font-size: 11px; }
svg .picked { font-weight: 700; fill: var(--mark); }
svg .axis { stroke: var(--line); }
svg .row { cursor: pointer; }
svg .small { font-size: 10px; }
[hidden] { display: none !important; }
svg .hit { fill: transparent; }
#tip { position: fixed; pointer-events: none; max-width: calc(100vw - 16px); overflow-wrap: anywhere; padding: 7px 10px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--ground); color: var(--text); font-size: 12px; line-height: 1.45; white-space: pre-wrap;
  box-shadow: 0 4px 16px #0003; visibility: hidden; z-index: 2; }
footer { margin-top: 32px; color: var(--soft); font-size: 12px; }
)css";

constexpr const char* helpers = R"js(
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const pick = id => document.getElementById(id);
const css = name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim();
const svgNode = (name, attributes, text) => {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  return node;
};
const show = v => v === null || v === undefined ? '–' : v === 0 ? '0' :
  Math.abs(v) >= 1e-3 && Math.abs(v) < 1e5 ? String(+v.toPrecision(3)) : v.toExponential(1).replace('e+', 'e');
const percent = v => v === null || v === undefined ? '–' : show(100 * v) + ' %';
// ---- the tip beside the pointer ----
const tip = pick('tip');
function tell(event, text) {
  tip.textContent = text;
  tip.style.visibility = 'visible';
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.min(event.clientX + 14, innerWidth - box.width - 8) + 'px';
  tip.style.top = Math.min(event.clientY + 14, innerHeight - box.height - 8) + 'px';
}
const hush = () => { tip.style.visibility = 'hidden'; };
const pen = document.createElement('canvas').getContext('2d');
function widthOf(text, font) {
  pen.font = font || '11px ' + getComputedStyle(document.body).fontFamily;
  return pen.measureText(text).width;
}
function path(values, x, y) {
  let d = '', on = false;
  values.forEach((v, i) => {
    if (typeof v !== 'number') { on = false; return; }
    d += (on ? 'L' : 'M') + x(i).toFixed(1) + ' ' + y(v).toFixed(1);
    if (!on && typeof values[i + 1] !== 'number') d += 'h.01';
    on = true;
  });
  return d;
}
// What lies between two courses, as an area; an edge of one column is a hair wide.
function band(low, high, x, y) {
  let d = '';
  for (let i = 0; i < low.length;) {
    if (typeof low[i] !== 'number') { ++i; continue; }
    let end = i;
    while (end < low.length && typeof low[end] === 'number') ++end;
    const at = (list, k) => x(k).toFixed(1) + ' ' + y(list[k]).toFixed(1);
    d += 'M' + at(high, i) + 'h.5';
    for (let k = i + 1; k < end; ++k) d += 'L' + at(high, k);
    for (let k = end - 1; k >= i; --k) d += 'L' + at(low, k);
    d += 'Z';
    i = end;
  }
  return d;
}
// Labels in a row under an axis: of several lists, from dense to sparse, the first whose labels stand apart. Returns it.
function labels(svg, lists, y, from, to, placed) {
  const tried = lists.map(list => list.map(tick => {
    const {at, text} = placed(tick), half = widthOf(text) / 2;
    return {at, text, half, x: Math.max(from + half, Math.min(to - half, at))};
  }));
  const apart = list => list.every((l, i) => i === 0 || l.x - l.half > list[i - 1].x + list[i - 1].half + 8);
  const chosen = tried.findIndex(apart);
  for (const l of tried[chosen] || []) {
    svg.append(svgNode('line', {x1: l.at, x2: l.at, y1: y - 15, y2: y - 11, class: 'axis'}));
    svg.append(svgNode('text', {x: l.x, y, 'text-anchor': 'middle'}, l.text));
  }
  return lists[chosen] || [];
}
const raised = e => '10' + String(e).replace(/./g, c => c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[c]);
)js";

}  // namespace

std::string framed_page(const PageParts& page) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n"
      "<style>{}{}</style>\n</head>\n<body>{}<script type=\"application/json\" id=\"data\">{}</script>\n"
      "<script>{}{}</script>\n</body>\n</html>\n",
      markup(page.title), common_style, page.style, page.body, page.json, helpers, page.script);
}

}  // namespace weft::detail
