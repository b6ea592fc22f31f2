// Functions of all pages. The scripts of the pages are appended to this file.
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

// ---- tooltip beside the pointer ----
const tip = pick('tip');
function showTip(event, text) {
  tip.textContent = text;
  tip.style.visibility = 'visible';
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.min(event.clientX + 14, innerWidth - box.width - 8) + 'px';
  tip.style.top = Math.min(event.clientY + 14, innerHeight - box.height - 8) + 'px';
}
const hideTip = () => { tip.style.visibility = 'hidden'; };

// ---- drawing ----
const pen = document.createElement('canvas').getContext('2d');
function widthOf(text, font) {
  pen.font = font || '11px ' + getComputedStyle(document.body).fontFamily;
  return pen.measureText(text).width;
}
// Returns the path data of a line through `values`. It has a gap where a value is not a number.
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
// Returns the path data of the area between two curves. An area of a single column is half a pixel wide.
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
// Draws labels in a row under an axis. `lists` are ordered from dense to sparse. Uses and returns the first one whose
// labels do not overlap.
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
// Returns 10 to the power of e, with a superscript.
const raised = e => '10' + String(e).replace(/./g, c => c === '-' ? '⁻' : '⁰¹²³⁴⁵⁶⁷⁸⁹'[c]);
