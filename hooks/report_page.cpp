// The report's page: its look, its frame and the script that draws. It needs no network and no library.
#include <weft/hooks/detail/report_page.hpp>

#include <weft/hooks/detail/text.hpp>

namespace weft::detail {

namespace {

constexpr const char* style = R"css(
:root {
  color-scheme: light dark;
  --ground: #ffffff; --card: #f6f8fa; --line: #d8dee4; --text: #1f2328; --soft: #57606a; --mark: #0969da;
  --none: #eaeef2; --zero: #afb8c1; --bad: #e5007d; --faint: #8c959f;
  --non-finite: #bf0a6b; --exploding: #bc4c00; --vanishing: #6639ba; --dead: #57606a; --frozen: #0550ae;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0d1117; --card: #161b22; --line: #30363d; --text: #e6edf3; --soft: #9198a1; --mark: #58a6ff;
    --none: #1b2129; --zero: #545d68; --bad: #ff4fa8; --faint: #6e7681;
    --non-finite: #ff7cc0; --exploding: #ffa657; --vanishing: #c4a5ff; --dead: #b1bac4; --frozen: #79c0ff;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 28px 24px 48px; max-width: 1240px; background: var(--ground); color: var(--text);
  font: 14px/1.5 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { margin: 0; font-size: 24px; letter-spacing: -.01em; }
h2 { margin: 0 0 2px; font-size: 16px; }
p { margin: 0; color: var(--soft); }
header { display: flex; justify-content: space-between; align-items: end; gap: 24px; margin-bottom: 20px; }
section { margin-top: 28px; }
.suspects { list-style: none; margin: 10px 0 0; padding: 0; display: grid; gap: 6px; }
.suspects li { display: flex; gap: 12px; align-items: baseline; padding: 7px 12px; background: var(--card);
  border-radius: 6px; border-left: 4px solid var(--colour); cursor: pointer; }
.suspects li:hover, .suspects li:focus-visible { outline: 1px solid var(--colour); }
.suspects b { flex: 0 0 86px; color: var(--colour); font-weight: 600; }
.suspects .more { border-left-color: var(--line); color: var(--mark); }
.well { padding: 9px 14px; background: var(--card); border-radius: 6px; border-left: 4px solid #2da44e; color: var(--text); }
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
svg .name { fill: var(--text); font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 11px; }
svg .picked { font-weight: 700; fill: var(--mark); }
svg .axis { stroke: var(--line); }
svg .row { cursor: pointer; }
svg .hit { fill: transparent; }
#tip { position: fixed; pointer-events: none; padding: 7px 10px; border: 1px solid var(--line); border-radius: 6px;
  background: var(--ground); color: var(--text); font-size: 12px; line-height: 1.45; white-space: pre;
  box-shadow: 0 4px 16px #0003; visibility: hidden; z-index: 2; }
footer { margin-top: 32px; color: var(--soft); font-size: 12px; }
)css";

constexpr const char* body = R"html(
<header>
  <div><h1></h1><p id="facts"></p></div>
  <svg id="loss" style="max-width: 300px" role="img" aria-label="Loss over the steps"></svg>
</header>
<section><h2>Suspects</h2><p id="verdict"></p><ul class="suspects"></ul></section>
<section>
  <h2>Layer by layer</h2><p id="about"></p>
  <div class="tabs" role="group" aria-label="What is shown"></div>
  <svg id="legend" role="img" aria-label="Colour scale"></svg>
  <svg id="heat" role="img" aria-label="Heat map: layers down, steps across"></svg>
</section>
<section class="charts">
  <div><h2 id="curves-title"></h2><p id="curves-about"></p>
    <svg id="curves" role="img" aria-label="Curves over the steps"></svg></div>
  <div><h2>How large its elements are</h2><p id="bins-about"></p>
    <svg id="bins" role="img" aria-label="Histograms"></svg></div>
</section>
<footer>Drawn by Weft from a GradientRecorder. rms is the norm divided by the square root of the number of elements, so
layers of any size compare. A click on a row picks it for the charts below.</footer>
<div id="tip"></div>
)html";

constexpr const char* script = R"js(
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

// ---- what may be shown: a figure per row and step, on a logarithmic scale or as a share ----
const views = [
  {key: 'Gradient', about: 'rms of each parameter’s gradient', kind: 'parameter', of: w => w.gradient.rms,
   bins: w => w.gradientBins, log: true},
  {key: 'Update ÷ weight', about: 'how far a step moves each parameter, as a share of its norm', kind: 'parameter',
   of: w => w.ratio, bins: w => w.gradientBins, log: true},
  {key: 'Zeros', about: 'share of each gradient that is exactly 0', kind: 'parameter', of: w => w.gradient.zeros,
   bins: w => w.gradientBins, log: false},
  {key: 'Weights', about: 'rms of each parameter', kind: 'parameter', of: w => w.value.rms, bins: w => w.valueBins,
   log: true},
  {key: 'Activations', about: 'rms of each activation', kind: 'activation', of: w => w.value.rms,
   bins: w => w.valueBins, log: true},
  {key: 'Activation gradients', about: 'rms of the gradient of each activation', kind: 'activation',
   of: w => w.gradient.rms, bins: w => w.gradientBins, log: true},
  {key: 'Activation zeros', about: 'share of each activation that is exactly 0', kind: 'activation',
   of: w => w.value.zeros, bins: w => w.valueBins, log: false},
].filter(v => data.watched.some(w => w.kind === v.kind && v.of(w).some(x => x !== null)));
const all = data.watched.map((w, index) => ({...w, index}));
const accused = new Map();
for (const s of data.suspects) if (!accused.has(s.which)) accused.set(s.which, s.trouble);
let view = views[0], rows = [], picked = null;

const lastOf = list => { for (let i = list.length - 1; i >= 0; --i) if (list[i] !== null) return list[i]; return null; };
const isBad = (w, i) => (w.gradient.bad[i] || 0) + (w.value.bad[i] || 0) > 0;

// ---- colours: dark for small, bright for large; nothing, zero and NaN have their own ----
const stops = [[48, 18, 98], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
function ramp(t) {
  const at = Math.min(Math.max(t, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
  return 'rgb(' + stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i))) + ')';
}
function scaleOf(lists) {
  if (!view.log) return {low: 0, high: 1, share: v => v, text: percent, ticks: [0, .25, .5, .75, 1]};
  const values = lists.flat().filter(v => v !== null && v > 0 && isFinite(v)).sort((a, b) => a - b);
  if (!values.length) values.push(1e-3, 1);
  // A lone outlier must not squeeze the rest into one colour.
  let low = Math.floor(Math.log10(values[Math.floor(values.length * .005)]));
  let high = Math.ceil(Math.log10(values[Math.ceil((values.length - 1) * .995)]));
  while (high - low < 2) { high += 1; if (high - low < 2) low -= 1; }
  const step = Math.ceil((high - low) / 8), ticks = [];
  for (let e = low; e <= high; e += step) ticks.push(10 ** e);
  return {low, high, share: v => (Math.log10(v) - low) / (high - low), text: show, ticks};
}
const raised = e => '10' + String(e).replace(/./g, c => c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[c]);
const power = v => view.log ? raised(Math.round(Math.log10(v))) : percent(v);
let scale;

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
function describe(w, i) {
  const lines = [w.name + '  ·  step ' + data.steps[i]];
  const part = (name, s) => {
    if (s.rms[i] === null) return;
    lines.push(name + ': rms ' + show(s.rms[i]) + ', norm ' + show(s.norm[i]) + ', mean ' + show(s.mean[i]) +
      ', deviation ' + show(s.deviation[i]));
    lines.push('   from ' + show(s.low[i]) + ' to ' + show(s.high[i]) + ', zeros ' + percent(s.zeros[i]) +
      (s.bad[i] ? ', NOT FINITE: ' + s.bad[i] : ''));
  };
  part('gradient', w.gradient);
  part('value', w.value);
  if (w.ratio[i] !== null) lines.push('update ÷ weight: ' + show(w.ratio[i]));
  return lines.join('\n');
}

// ---- charts ----
function sized(id, height) {
  const svg = pick(id), width = Math.max(240, svg.parentNode.clientWidth);
  const shown = id === 'loss' ? Math.min(300, width) : width;
  svg.replaceChildren();
  svg.setAttribute('viewBox', '0 0 ' + shown + ' ' + height);
  return [svg, shown];
}
const xOf = (left, right) => i => left + (right - left) * (data.steps.length > 1 ? i / (data.steps.length - 1) : .5);
function path(values, x, y) {
  let d = '', on = false;
  values.forEach((v, i) => {
    if (v === null || !isFinite(v)) { on = false; return; }
    d += (on ? 'L' : 'M') + x(i).toFixed(1) + ' ' + y(v).toFixed(1);
    if (!on && (i + 1 === values.length || values[i + 1] === null)) d += 'h1';
    on = true;
  });
  return d;
}
function stepAxis(svg, x, top, label) {
  const n = data.steps.length;
  const wanted = [...new Set([0, .25, .5, .75, 1].map(t => Math.round(t * (n - 1))))];
  for (const i of wanted) {
    if (i < 0) continue;
    const anchor = n === 1 ? 'middle' : i === 0 ? 'start' : i === n - 1 ? 'end' : 'middle';
    svg.append(svgNode('text', {x: x(i), y: top, 'text-anchor': anchor}, (i === 0 ? label : '') + data.steps[i]));
  }
}

function drawLoss() {
  const values = data.loss.filter(v => v !== null);
  const box = pick('loss');
  if (values.length < 2) { box.style.display = 'none'; return; }
  const [svg, width] = sized('loss', 64);
  const low = Math.min(...values), high = Math.max(...values), x = xOf(0, width - 48);
  const y = v => 58 - 50 * (high > low ? (v - low) / (high - low) : .5);
  svg.append(svgNode('path', {d: path(data.loss, x, y), fill: 'none', stroke: css('mark'), 'stroke-width': 1.8}));
  const end = y(values[values.length - 1]);
  svg.append(svgNode('text', {x: width - 40, y: end - 2}, 'loss'));
  svg.append(svgNode('text', {x: width - 40, y: end + 11}, show(values[values.length - 1])));
}

function drawLegend(left) {
  const [svg, width] = sized('legend', 30);
  const bar = Math.min(320, width - left - 260), count = 64;
  for (let i = 0; i < count; ++i) {
    svg.append(svgNode('rect', {x: left + bar * i / count, y: 2, width: bar / count + .6, height: 9,
      fill: ramp(i / (count - 1))}));
  }
  for (const v of scale.ticks) {
    svg.append(svgNode('text', {x: left + bar * scale.share(v), y: 24, 'text-anchor': 'middle'}, power(v)));
  }
  let x = left + bar + 36;
  for (const [name, colour] of [['0', 'zero'], ['NaN or infinite', 'bad'], ['none', 'none']]) {
    svg.append(svgNode('rect', {x, y: 1, width: 12, height: 11, fill: css(colour), rx: 2}));
    svg.append(svgNode('text', {x: x + 17, y: 11}, name));
    x += 34 + name.length * 6;
  }
}

// Neighbouring cells of one colour become one rectangle; a row stays some hundred nodes at most.
function drawHeat() {
  const rowHeight = rows.length > 120 ? 7 : rows.length > 60 ? 11 : 17;
  const longest = Math.max(0, ...rows.map(w => w.name.length));
  const left = Math.min(250, 14 + longest * 6.7), fits = Math.floor((left - 14) / 6.7);
  const height = rows.length * rowHeight + 24, columns = data.steps.length;
  drawLegend(left);
  const [svg, width] = sized('heat', height);
  const bars = Math.min(220, width * .2), right = width - bars - 34, cell = (right - left) / columns;
  const colourOf = (w, v, i) => isBad(w, i) ? css('bad') : v === null ? css('none') :
    view.log && v === 0 ? css('zero') : ramp(scale.share(v));
  const bad = css('bad'), start = right + 34;
  for (const v of scale.ticks) {
    const x = start + bars * scale.share(v);
    svg.append(svgNode('line', {x1: x, x2: x, y1: 0, y2: height - 22, class: 'axis'}));
    if (scale.ticks.indexOf(v) % Math.ceil(scale.ticks.length / 4) === 0)
      svg.append(svgNode('text', {x, y: height - 6, 'text-anchor': 'middle'}, power(v)));
  }
  rows.forEach((w, r) => {
    const y = r * rowHeight, values = view.of(w);
    const group = svgNode('g', {class: 'row', tabindex: 0, role: 'button', 'aria-label': w.name});
    const named = rowHeight > 9 || r % 2 === 0;
    if (named) {
      const name = w.name.length > fits ? '…' + w.name.slice(w.name.length - fits + 1) : w.name;
      const mark = svgNode('text', {x: left - 8, y: y + rowHeight / 2 + 4, 'text-anchor': 'end',
        class: 'name' + (picked === w ? ' picked' : '')}, name);
      if (accused.has(w.index) && picked !== w) mark.style.fill = css(accused.get(w.index));
      if (accused.has(w.index)) mark.style.fontWeight = 700;
      group.append(mark);
    }
    for (let i = 0; i < columns;) {
      const fill = colourOf(w, values[i], i);
      let end = i + 1;
      while (end < columns && colourOf(w, values[end], end) === fill) ++end;
      group.append(svgNode('rect', {x: (left + i * cell).toFixed(2), y: y + .5,
        width: ((end - i) * cell + .35).toFixed(2), height: rowHeight - 1, fill}));
      i = end;
    }
    const last = lastOf(values);
    if (last !== null && isFinite(last)) {
      const zero = view.log && last === 0, share = zero ? 0 : Math.min(Math.max(scale.share(last), 0.004), 1);
      group.append(svgNode('rect', {x: start, y: y + rowHeight * .2, width: Math.max(2, bars * share),
        height: rowHeight * .6, rx: 2, fill: zero ? css('zero') : ramp(scale.share(last))}));
    }
    if (isBad(w, columns - 1)) group.append(svgNode('text', {x: start + bars - 4,
      y: y + rowHeight / 2 + 4, 'text-anchor': 'end', style: 'fill:' + bad + ';font-weight:600'}, 'NaN'));
    const hit = svgNode('rect', {x: 0, y, width, height: rowHeight, class: 'hit'});
    hit.addEventListener('mousemove', event => {
      const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * width / box.width;
      tell(event, describe(w, Math.min(columns - 1, Math.max(0, Math.floor((x - left) / cell)))));
    });
    group.addEventListener('mouseleave', hush);
    group.addEventListener('click', () => choose(w));
    group.addEventListener('keydown', event => { if (event.key === 'Enter' || event.key === ' ') choose(w); });
    group.append(hit);
    svg.append(group);
  });
  stepAxis(svg, i => left + (right - left) * (columns > 1 ? i / (columns - 1) : .5), height - 6, 'step ');
}

function drawCurves() {
  const [svg, width] = sized('curves', 260), left = 46, bottom = 236, x = xOf(left, width - 8);
  const y = v => {
    const share = view.log && v <= 0 ? 0 : Math.min(Math.max(scale.share(v), 0), 1);
    return bottom - share * (bottom - 10);
  };
  for (const v of scale.ticks) {
    svg.append(svgNode('line', {x1: left, x2: width - 8, y1: y(v), y2: y(v), class: 'axis'}));
    svg.append(svgNode('text', {x: left - 6, y: y(v) + 4, 'text-anchor': 'end'}, power(v)));
  }
  const order = rows.filter(w => w !== picked).sort((a, b) => accused.has(a.index) - accused.has(b.index));
  for (const w of [...order, picked]) {
    const mine = w === picked, colour = accused.has(w.index) ? css(accused.get(w.index)) : css('faint');
    const line = svgNode('path', {d: path(view.of(w), x, y), fill: 'none', stroke: mine ? css('mark') : colour,
      'stroke-width': mine ? 2.6 : accused.has(w.index) ? 1.6 : 1, 'stroke-linejoin': 'round',
      opacity: mine ? 1 : accused.has(w.index) ? .9 : .55});
    svg.append(line);
  }
  stepAxis(svg, x, bottom + 18, 'step ');
  const cursor = svgNode('line', {y1: 10, y2: bottom, stroke: css('mark'), opacity: 0});
  const cover = svgNode('rect', {x: left, y: 0, width: width - left, height: bottom, class: 'hit'});
  cover.addEventListener('mousemove', event => {
    const box = svg.getBoundingClientRect(), px = (event.clientX - box.left) * width / box.width;
    const py = (event.clientY - box.top) * width / box.width, n = data.steps.length;
    const i = Math.min(n - 1, Math.max(0, Math.round((px - left) / (width - 8 - left) * (n - 1))));
    let near = picked, best = Infinity;
    for (const w of rows) {
      const v = view.of(w)[i];
      if (v !== null && Math.abs(y(v) - py) < best) best = Math.abs(y(v) - py), near = w;
    }
    for (const key of ['x1', 'x2']) cursor.setAttribute(key, x(i));
    cursor.setAttribute('opacity', .5);
    tell(event, describe(near, i));
  });
  cover.addEventListener('mouseleave', () => { cursor.setAttribute('opacity', 0); hush(); });
  svg.append(cursor, cover);
}

// One ridge per step, the newest in front; the last one is filled with colour.
function drawBins() {
  const [svg, width] = sized('bins', 260), left = 66, right = width - 8, bottom = 236;
  const list = view.bins(picked);
  pick('bins-about').textContent = list.length ? 'share of ' + picked.name + (view.bins(picked) === picked.valueBins ?
    '' : '’s gradient') + ' by size, over the steps' : '';
  if (!list.length) { svg.append(svgNode('text', {x: left, y: 120}, 'nothing was recorded here')); return; }
  let first = Infinity, last = -Infinity, top = 0;
  for (const h of list) h.shares.forEach((s, b) => {
    if (s > 0) { first = Math.min(first, b); last = Math.max(last, b); top = Math.max(top, s); }
  });
  if (first > last) {
    svg.append(svgNode('text', {x: left, y: 120}, 'every element is exactly 0'));
    return;
  }
  first = Math.max(0, first - 1), last = Math.min(list[0].shares.length - 1, last + 1);
  while (last - first < 12) { first = Math.max(0, first - 1); last = Math.min(list[0].shares.length - 1, last + 1); }
  const x = b => left + (right - left) * (b - first) / (last - first + 1);
  const peak = list.length > 1 ? 90 : 180, gap = list.length > 1 ? (bottom - peak - 14) / (list.length - 1) : 0;
  const decade = Math.log2(10);
  const step = Math.max(1, Math.ceil((last - first) / decade / 7));
  for (let e = Math.ceil((data.lowest + first) / decade); e <= (data.lowest + last + 1) / decade; e += step) {
    const at = x(e * decade - data.lowest);
    svg.append(svgNode('line', {x1: at, x2: at, y1: 10, y2: bottom, class: 'axis'}));
    svg.append(svgNode('text', {x: at, y: bottom + 18, 'text-anchor': 'middle'}, raised(e)));
  }
  list.forEach((h, k) => {
    const base = bottom - (list.length - 1 - k) * gap, newest = k === list.length - 1;
    let d = 'M' + x(first) + ' ' + base;
    for (let b = first; b <= last; ++b) {
      const y = base - peak * Math.sqrt((h.shares[b] || 0) / (top || 1));
      d += 'L' + x(b).toFixed(1) + ' ' + y.toFixed(1) + 'H' + x(b + 1).toFixed(1);
    }
    const ridge = svgNode('path', {d: d + 'L' + x(last + 1) + ' ' + base + 'Z', fill: newest ? css('mark') : css('card'),
      'fill-opacity': newest ? .75 : .9, stroke: newest ? css('mark') : css('faint'), 'stroke-width': 1});
    ridge.addEventListener('mousemove', event => {
      const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) * width / box.width;
      const b = Math.min(last, Math.max(first, Math.floor(first + (at - left) / (right - left) * (last - first + 1))));
      tell(event, 'step ' + h.step + ': ' + percent(h.shares[b]) + ' from ' + show(2 ** (b + data.lowest)) + ' to ' +
        show(2 ** (b + data.lowest + 1)) + '\n' + percent(h.zeros) + ' exactly 0');
    });
    ridge.addEventListener('mouseleave', hush);
    svg.append(ridge);
    if (k === 0 || newest || k % Math.ceil(list.length / 4) === 0 && list.length - 1 - k > 2) {
      svg.append(svgNode('text', {x: left - 8, y: base + 3, 'text-anchor': 'end'}, 'step ' + h.step));
    }
  });
}

// ---- the page ----
function drawAll() {
  rows = all.filter(w => w.kind === view.kind && (view.of(w).some(v => v !== null) || view.kind === 'parameter'));
  if (!rows.includes(picked)) {
    const suspect = data.suspects.find(s => rows.includes(all[s.which]));
    picked = suspect ? all[suspect.which] : rows[rows.length - 1];
  }
  scale = scaleOf(rows.map(view.of));
  pick('about').textContent = view.about + '; the bars on the right are the last step';
  pick('curves-title').textContent = picked.name;
  pick('curves-about').textContent = view.about + ', the other rows thin behind it';
  for (const button of document.querySelectorAll('.tabs button'))
    button.setAttribute('aria-pressed', button.textContent === view.key);
  drawLoss();
  drawHeat();
  drawCurves();
  drawBins();
}
function choose(w) { picked = w; drawAll(); }
function accuse() {
  const list = document.querySelector('.suspects'), few = 6;
  pick('verdict').textContent = data.suspects.length ? '' : 'None: every parameter gets a gradient and moves.';
  pick('verdict').className = data.suspects.length ? '' : 'well';
  const entry = s => {
    const item = document.createElement('li'), kind = document.createElement('b'), text = document.createElement('span');
    item.style.setProperty('--colour', 'var(--' + s.trouble + ')');
    item.tabIndex = 0;
    kind.textContent = s.trouble;
    text.textContent = s.text;
    item.append(kind, text);
    item.onclick = item.onkeydown = event => {
      if (event.type === 'keydown' && event.key !== 'Enter') return;
      const w = all[s.which];
      if (w.kind !== view.kind) view = views.find(v => v.kind === w.kind) || view;
      choose(w);
      pick('heat').scrollIntoView({behavior: 'smooth', block: 'center'});
    };
    return item;
  };
  list.append(...data.suspects.slice(0, few).map(entry));
  if (data.suspects.length > few) {
    const more = document.createElement('li');
    more.className = 'more';
    more.tabIndex = 0;
    more.textContent = 'show ' + (data.suspects.length - few) + ' more';
    more.onclick = () => more.replaceWith(...data.suspects.slice(few).map(entry));
    list.append(more);
  }
}
function start() {
  document.querySelector('h1').textContent = data.title;
  const count = kind => all.filter(w => w.kind === kind).length, loss = data.loss.filter(v => v !== null);
  const facts = [(data.steps.length ? data.steps[data.steps.length - 1] + 1 : 0) + ' steps', count('parameter') +
    ' parameters', count('activation') + ' activations'];
  if (loss.length > 1) facts.push('loss ' + show(loss[0]) + ' → ' + show(loss[loss.length - 1]));
  pick('facts').textContent = facts.join('  ·  ');
  accuse();
  if (!views.length) { pick('about').textContent = 'Nothing was recorded.'; return; }
  for (const v of views) {
    const button = document.createElement('button');
    button.textContent = v.key;
    button.onclick = () => { view = v; drawAll(); };
    document.querySelector('.tabs').append(button);
  }
  drawAll();
  addEventListener('resize', drawAll);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
}
start();
)js";

}  // namespace

std::string report_page(const std::string& title, const std::string& json) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n"
      "<style>{}</style>\n</head>\n<body>{}<script type=\"application/json\" id=\"data\">{}</script>\n"
      "<script>{}</script>\n</body>\n</html>\n",
      markup(title), style, body, json, script);
}

}  // namespace weft::detail
