// Script of the report page. report_json (report.cpp) writes its `data`.
// Restores the lists that report_json leaves out if they are trivial.
for (const w of data.watched) for (const side of ['gradient', 'value']) {
  const s = w[side];
  s.bad = s.bad || data.steps.map(() => 0);
  s.least = s.least || s.rms;
}
const merged = data.from.some((step, i) => step !== data.steps[i]);
const stepsOf = i => data.from[i] === data.steps[i] ? 'step ' + data.steps[i] :
  'steps ' + data.from[i] + ' to ' + data.steps[i];
const seenIn = (v, w) => v.of(w).some(x => x !== null) || w[v.badSide || v.side].bad.some(n => n > 0);

// ---- views: one quantity per row and step, on a logarithmic scale or as a fraction ----
const views = [
  {key: 'Gradient', about: 'rms of each parameter’s gradient', kind: 'parameter', side: 'gradient',
   of: w => w.gradient.rms, log: true},
  {key: 'Update ÷ weight', about: 'norm of each update divided by the norm of its parameter', kind: 'parameter',
   side: 'gradient', badSide: 'value', of: w => w.ratio, log: true},
  {key: 'Zeros', about: 'fraction of each gradient that is exactly 0', kind: 'parameter', side: 'gradient',
   of: w => w.gradient.zeros, log: false},
  {key: 'Weights', about: 'rms of each parameter', kind: 'parameter', side: 'value', of: w => w.value.rms, log: true},
  {key: 'Activations', about: 'rms of each activation', kind: 'activation', side: 'value', of: w => w.value.rms,
   log: true},
  {key: 'Activation gradients', about: 'rms of the gradient of each activation', kind: 'activation', side: 'gradient',
   of: w => w.gradient.rms, log: true},
  {key: 'Activation zeros', about: 'fraction of each activation that is exactly 0', kind: 'activation', side: 'value',
   of: w => w.value.zeros, log: false},
].filter(v => data.watched.some(w => w.kind === v.kind && seenIn(v, w)));
const all = data.watched.map((w, index) => ({...w, index}));
const accused = new Map();
const ofTheRun = s => s.trouble === 'run' || s.trouble === 'broadcast';
for (const s of data.suspects) if (!ofTheRun(s) && !accused.has(s.which)) accused.set(s.which, s.trouble);
for (const s of data.suspects) for (const f of s.followers) if (!accused.has(f)) accused.set(f, s.trouble);
let view = views[0], rows = [], picked = null, blamed = null;

const lastOf = list => {
  for (let i = list.length - 1; i >= 0; --i) if (list[i] !== null) return list[i];
  return null;
};
const isBad = (w, i) => w[view.badSide || view.side].bad[i] > 0;

// ---- colours: dark is small, bright is large; missing values, 0 and NaN have separate colours ----
const stops = [[48, 18, 98], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
function ramp(t) {
  const at = Math.min(Math.max(t, 0), 1) * (stops.length - 1), i = Math.min(Math.floor(at), stops.length - 2);
  return 'rgb(' + stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * (at - i))) + ')';
}
function scaleOf(lists) {
  if (!view.log) return {share: v => v, ticks: [0, .25, .5, .75, 1].map(v => ({share: v, text: percent(v)}))};
  const values = lists.flat().filter(v => v !== null && v > 0).sort((a, b) => a - b);
  if (!values.length) values.push(1e-3, 1);
  // Ignores the outer 0.5 %, so that outliers do not squeeze all other values into one colour.
  let low = Math.floor(Math.log10(values[Math.floor(values.length * .005)]));
  let high = Math.ceil(Math.log10(values[Math.ceil((values.length - 1) * .995)]));
  while (high - low < 2) { high += 1; if (high - low < 2) low -= 1; }
  const step = [1, 2, 5, 10, 20, 50, 100].find(s => s * 8 >= high - low), ticks = [];
  for (let e = Math.ceil(low / step) * step; e <= high; e += step)
    ticks.push({share: (e - low) / (high - low), text: raised(e)});
  return {share: v => (Math.log10(v) - low) / (high - low), ticks};
}
let scale;

// Returns the tooltip of a tensor in column i.
function describe(w, i) {
  const lines = [w.name + '  ·  ' + stepsOf(i)];
  const part = (name, s) => {
    if (s.rms[i] === null && s.bad[i]) lines.push(name + ': all ' + s.bad[i] + ' elements are not finite');
    if (s.rms[i] === null) return;
    const norm = s.rms[i] * Math.sqrt(w.count - s.bad[i]);
    const least = s.least[i] < s.rms[i] ? ' (minimum ' + show(s.least[i]) + ')' : '';
    lines.push(name + ': rms ' + show(s.rms[i]) + least + ', norm ' + show(norm) + ', mean ' + show(s.mean[i]) +
      ', standard deviation ' + show(s.deviation[i]));
    lines.push('   from ' + show(s.low[i]) + ' to ' + show(s.high[i]) + ', zeros ' + percent(s.zeros[i]) +
      (s.bad[i] ? ', not finite: ' + s.bad[i] : ''));
  };
  part('gradient', w.gradient);
  part('value', w.value);
  if (w.ratio[i] !== null) lines.push('update ÷ weight: ' + show(w.ratio[i]));
  return lines.join('\n');
}

// ---- charts ----
function sized(id, height, room) {
  const svg = pick(id);
  room = room || Math.max(240, svg.parentNode.clientWidth);
  const width = id === 'loss' ? Math.min(340, room) : room;
  svg.replaceChildren();
  svg.setAttribute('viewBox', '0 0 ' + width + ' ' + height);
  return [svg, width];
}
// Returns the column of a step. It is fractional for steps that were not recorded.
function columnOf(step) {
  const steps = data.steps, i = steps.findIndex(s => s >= step);
  return i < 0 ? steps.length - 1 : i === 0 ? 0 : i - (steps[i] - step) / (steps[i] - steps[i - 1]);
}
const stepLabels = (svg, x, y, from, to) =>
  labels(svg, data.stepTicks, y, from, to, step => ({at: x(columnOf(step)), text: String(step)}));
function scaleLabels(svg, y, from, to) {
  const lists = scale.ticks.map((_, k) => scale.ticks.filter((_, i) => i % (k + 1) === 0));
  labels(svg, lists, y, from - 16, to + 16, tick => ({at: from + (to - from) * tick.share, text: tick.text}));
}
const xOf = (left, right) => i => left + (right - left) * (data.steps.length > 1 ? i / (data.steps.length - 1) : .5);

function markBad(svg, x, bottom, bad) {
  for (let i = 0; i < data.steps.length; ++i)
    if (bad(i)) svg.append(svgNode('rect', {x: x(i) - 1.5, y: bottom - 6, width: 3, height: 6, fill: css('bad')}));
}

const lossText = v => typeof v === 'number' ? show(v) : v;
function drawLoss() {
  const values = [...data.loss, ...(data.lossLow || []), ...(data.lossHigh || [])].filter(v => typeof v === 'number');
  const bad = data.loss.some(v => typeof v === 'string');
  pick('loss').toggleAttribute('hidden', values.length < 2 && !bad);
  if (values.length < 2 && !bad) return;
  const [svg, width] = sized('loss', 96), bottom = 76, low = Math.min(...values), high = Math.max(...values);
  const ticks = data.lossTicks.map(v => ({v, text: show(v)}));
  const lastLoss = lossText(lastOf(data.loss)), tail = 12 + Math.max(widthOf('loss'), widthOf(lastLoss));
  const left = 12 + Math.max(24, ...ticks.map(t => widthOf(t.text))), right = width - tail;
  const x = xOf(left, right), share = v => high > low ? (v / 2 - low / 2) / (high / 2 - low / 2) : .5;
  const y = v => bottom - 6 - (bottom - 20) * share(v);
  for (const {v, text} of ticks) {
    svg.append(svgNode('line', {x1: left, x2: right, y1: y(v), y2: y(v), class: 'axis'}));
    svg.append(svgNode('text', {x: left - 6, y: y(v) + 4, 'text-anchor': 'end'}, text));
  }
  svg.append(svgNode('line', {x1: left, x2: right, y1: bottom, y2: bottom, class: 'axis'}));
  svg.append(svgNode('text', {x: left - 6, y: bottom + 15, 'text-anchor': 'end'}, 'step'));
  stepLabels(svg, x, bottom + 15, left, width);
  if (data.lossLow)
    svg.append(svgNode('path', {d: band(data.lossLow, data.lossHigh, x, y), fill: css('mark'), opacity: .3}));
  svg.append(svgNode('path', {d: path(data.loss, x, y), fill: 'none', stroke: css('mark'), 'stroke-width': 1.8,
    'stroke-linecap': 'round', 'stroke-linejoin': 'round'}));
  markBad(svg, x, bottom, i => typeof data.loss[i] === 'string');
  const last = lastOf(data.loss), end = typeof last === 'number' ? y(last) : bottom - 8;
  svg.append(svgNode('text', {x: right + 6, y: end - 2}, 'loss'));
  svg.append(svgNode('text', {x: right + 6, y: end + 11}, lastLoss));
}

function drawLegend(left) {
  const words = [['0', 'zero'], ['NaN or infinite', 'bad'], ['none', 'none']];
  const room = Math.max(240, pick('legend').parentNode.clientWidth), swatches = 230;
  const start = Math.max(left, 16), below = room - start - swatches < 160;
  const bar = Math.min(320, room - start - 16 - (below ? 0 : swatches)), count = 64;
  const [svg] = sized('legend', below ? 50 : 30);
  for (let i = 0; i < count; ++i) {
    svg.append(svgNode('rect', {x: start + bar * i / count, y: 2, width: bar / count + .6, height: 9,
      fill: ramp(i / (count - 1))}));
  }
  scaleLabels(svg, 24, start, start + bar);
  let x = below ? start : start + bar + 36, y = below ? 36 : 1;
  for (const [name, colour] of words) {
    svg.append(svgNode('rect', {x, y, width: 12, height: 11, fill: css(colour), rx: 2}));
    svg.append(svgNode('text', {x: x + 17, y: y + 10}, name));
    x += 36 + widthOf(name);
  }
}

// Names are drawn beside their rows if all of them fit, else above them, on as many lines as needed.
function heatLayout(width) {
  const small = rows.length > 60, band = small ? 12 : 17, letter = small ? 10 : 11;
  const family = getComputedStyle(document.documentElement).getPropertyValue('--mono');
  const each = Math.max(1, widthOf('m'.repeat(20), 'bold ' + letter + 'px ' + family) / 20);
  const longest = Math.max(0, ...rows.map(w => w.name.length)) * each;
  const beside = longest + 14 < width * .42, fits = Math.floor(width / each) - 1;
  let height = 0;
  const places = rows.map(w => {
    const lines = beside ? [w.name] : broken(w.name, fits), top = height;
    const cells = beside ? top : top + lines.length * (letter + 3) + 5;
    height = cells + band + (beside ? 0 : 6);
    return {lines, top, cells};
  });
  return {small, band, letter, beside, places, height, left: beside ? longest + 14 : 0};
}
// Splits a name into lines of at most `most` characters, preferably after a dot.
function broken(name, most) {
  const lines = [];
  while (name.length > most) {
    const dot = name.lastIndexOf('.', most - 1), end = dot > most / 3 ? dot + 1 : most;
    lines.push(name.slice(0, end));
    name = name.slice(end);
  }
  return [...lines, name];
}
// Merges neighbouring cells of the same colour into one rectangle.
function drawCells(group, w, top, high, left, cell) {
  const values = view.of(w), columns = data.steps.length;
  const colourOf = i => isBad(w, i) ? css('bad') : values[i] === null ? css('none') :
    view.log && values[i] === 0 ? css('zero') : ramp(scale.share(values[i]));
  for (let i = 0; i < columns;) {
    const fill = colourOf(i);
    let end = i + 1;
    while (end < columns && colourOf(end) === fill) ++end;
    group.append(svgNode('rect', {x: (left + i * cell).toFixed(2), y: top + .5,
      width: ((end - i) * cell + .35).toFixed(2), height: high - 1, fill}));
    i = end;
  }
}
function drawBar(group, w, top, high, start, bars) {
  const last = lastOf(view.of(w));
  if (isBad(w, data.steps.length - 1)) {
    group.append(svgNode('text', {x: start + 2, y: top + high / 2 + 4, class: 'bad',
      style: 'fill:' + css('bad') + ';font-weight:600'}, 'NaN/inf'));
  } else if (last !== null) {
    const zero = view.log && last === 0, share = zero ? 0 : Math.min(Math.max(scale.share(last), .004), 1);
    group.append(svgNode('rect', {x: start, y: top + high * .2, width: Math.max(2, bars * share), height: high * .6,
      rx: 2, class: 'bar', fill: zero ? css('zero') : ramp(scale.share(last))}));
  }
}
// Draws the rows that scrolling made visible.
let drawRows = () => {};
function drawHeat() {
  const box = pick('heat-box'), room = Math.max(240, box.parentNode.clientWidth), top = box.scrollTop;
  box.classList.toggle('long', rows.length > 60);
  const {small, band, letter, beside, places, height, left} = heatLayout(room - 16), columns = data.steps.length;
  drawLegend(left);
  const [svg] = sized('heat', height + 4, room), width = room;
  const bars = Math.max(46, Math.min(220, width * .2)), right = width - bars - 46, cell = (right - left) / columns;
  const start = right + 24;
  for (const {share} of scale.ticks) {
    const x = start + bars * share;
    svg.append(svgNode('line', {x1: x, x2: x, y1: 0, y2: height + 4, class: 'axis'}));
  }
  const drawRow = r => {
    const w = rows[r], {lines, top, cells} = places[r];
    const group = svgNode('g', {class: 'row', tabindex: 0, role: 'button', 'aria-label': w.name});
    lines.forEach((text, k) => {
      const mark = svgNode('text', {x: beside ? left - 8 : 0,
        y: beside ? top + band / 2 + 4 : top + (k + 1) * (letter + 3),
        'text-anchor': beside ? 'end' : 'start',
        class: 'name' + (small ? ' small' : '') + (picked === w ? ' picked' : '')}, text);
      if (accused.has(w.index) && picked !== w) mark.style.fill = css(accused.get(w.index));
      if (accused.has(w.index)) mark.style.fontWeight = 700;
      group.append(mark);
    });
    drawCells(group, w, cells, band, left, cell);
    drawBar(group, w, cells, band, start, bars);
    const hit = svgNode('rect', {x: 0, y: top, width, height: cells + band - top, class: 'hit'});
    hit.addEventListener('mousemove', event => {
      const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * width / box.width;
      showTip(event, describe(w, Math.min(columns - 1, Math.max(0, Math.floor((x - left) / cell)))));
    });
    group.addEventListener('mouseleave', hideTip);
    group.addEventListener('click', () => choose(w));
    group.addEventListener('keydown', event => { if (event.key === 'Enter' || event.key === ' ') choose(w); });
    group.append(hit);
    svg.append(group);
  };
  const drawn = new Set();
  drawRows = () => {
    const all = rows.length <= 60, from = box.scrollTop - 400, to = box.scrollTop + Math.max(innerHeight, 800) + 400;
    rows.forEach((w, r) => {
      const inSight = all || places[r].top < to && places[r].cells + band > from;
      if (drawn.has(r) || !inSight) return;
      drawn.add(r);
      drawRow(r);
    });
  };
  const here = rows.indexOf(picked), place = places[here];
  box.scrollTop = top;
  if (place && (place.top < box.scrollTop || place.cells + band > box.scrollTop + box.clientHeight))
    box.scrollTop = Math.max(0, place.top - box.clientHeight / 2);
  drawRows();
  const [axis] = sized('heat-axis', beside ? 26 : 40, room);
  axis.append(beside ? svgNode('text', {x: left - 8, y: 19, 'text-anchor': 'end'}, 'step') :
    svgNode('text', {x: 0, y: 33}, 'step'));
  stepLabels(axis, i => left + (i + .5) * cell, 19, left, right);
  scaleLabels(axis, 19, start, start + bars);
}

function drawCurves() {
  const [svg, width] = sized('curves', 260), bottom = 236;
  const left = 10 + Math.max(widthOf('step'), ...scale.ticks.map(t => widthOf(t.text))), x = xOf(left, width - 8);
  const y = v => {
    const share = view.log && v <= 0 ? 0 : Math.min(Math.max(scale.share(v), 0), 1);
    return bottom - share * (bottom - 10);
  };
  for (const {share, text} of scale.ticks) {
    const at = bottom - share * (bottom - 10);
    svg.append(svgNode('line', {x1: left, x2: width - 8, y1: at, y2: at, class: 'axis'}));
    svg.append(svgNode('text', {x: left - 6, y: at + 4, 'text-anchor': 'end'}, text));
  }
  const line = (list, colour, broad, opacity) => svg.append(svgNode('path', {
    d: list.map(w => path(view.of(w), x, y)).join(''), fill: 'none', stroke: colour,
    'stroke-width': data.steps.length === 1 ? 7 : broad, 'stroke-linejoin': 'round',
    'stroke-linecap': 'round', opacity}));
  const others = rows.filter(w => w !== picked), plain = others.filter(w => !accused.has(w.index));
  // At most about 200 of the grey lines, and at most 200 of each coloured kind.
  line(plain.filter((_, i) => i % Math.ceil(plain.length / 200) === 0), css('faint'), 1, .55);
  for (const trouble of new Set(accused.values()))
    line(others.filter(w => accused.get(w.index) === trouble).slice(0, 200), css(trouble), 1.6, .9);
  const least = merged && view.log && view.of(picked) === picked[view.side].rms ? picked[view.side].least : null;
  if (least) svg.append(svgNode('path', {d: band(least, view.of(picked), x, y), fill: css('mark'), opacity: .3}));
  line([picked], css('mark'), 2.6, 1);
  markBad(svg, x, bottom, i => isBad(picked, i));
  svg.append(svgNode('text', {x: left - 6, y: bottom + 18, 'text-anchor': 'end'}, 'step'));
  stepLabels(svg, x, bottom + 18, left, width);
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
    showTip(event, describe(near, i));
  });
  cover.addEventListener('mouseleave', () => { cursor.setAttribute('opacity', 0); hideTip(); });
  svg.append(cursor, cover);
}

// One ridge per step. The newest is in front and is coloured.
function drawBins() {
  const [svg, width] = sized('bins', 260), right = width - 8, bottom = 236;
  const list = (view.side === 'value' ? picked.valueBins : picked.gradientBins).map(h => ({...h, shares:
    Array.from({length: data.bins}, (_, b) => h.shares[b - h.first] || 0)}));
  const left = 14 + Math.max(52, ...list.map(h => widthOf('step ' + h.step)));
  pick('bins-about').textContent = !list.length ? '' :
    'elements of ' + picked.name + (view.side === 'value' ? '' : '’s gradient') +
      ' by magnitude, one histogram per step';
  if (!list.length) { svg.append(svgNode('text', {x: left, y: 120}, 'no data was recorded')); return; }
  let first = Infinity, last = -Infinity, top = 0;
  for (const h of list) h.shares.forEach((s, b) => {
    if (s > 0) { first = Math.min(first, b); last = Math.max(last, b); top = Math.max(top, s); }
  });
  if (first > last) {
    svg.append(svgNode('text', {x: left, y: 120}, list.some(h => h.zeros > 0) ? 'every finite element is exactly 0' :
      'no element is finite'));
    return;
  }
  first = Math.max(0, first - 1), last = Math.min(list[0].shares.length - 1, last + 1);
  while (last - first < 12) { first = Math.max(0, first - 1); last = Math.min(list[0].shares.length - 1, last + 1); }
  const x = b => left + (right - left) * (b - first) / (last - first + 1);
  const peak = list.length > 1 ? 90 : 180, gap = list.length > 1 ? (bottom - peak - 14) / (list.length - 1) : 0;
  const decade = Math.log2(10), powers = [], at = e => x(e * decade - data.lowest);
  for (let e = Math.ceil((data.lowest + first) / decade); e <= (data.lowest + last + 1) / decade; ++e) powers.push(e);
  const lists = powers.map((_, k) => powers.filter(e => e % (k + 1) === 0));
  for (const e of labels(svg, lists, bottom + 18, left - 16, width, e => ({at: at(e), text: raised(e)})))
    svg.append(svgNode('line', {x1: at(e), x2: at(e), y1: 10, y2: bottom, class: 'axis'}));
  let named = -Infinity;
  list.forEach((h, k) => {
    const base = bottom - (list.length - 1 - k) * gap, newest = k === list.length - 1;
    let d = 'M' + x(first) + ' ' + base;
    for (let b = first; b <= last; ++b) {
      const y = base - peak * Math.sqrt((h.shares[b] || 0) / (top || 1));
      d += 'L' + x(b).toFixed(1) + ' ' + y.toFixed(1) + 'H' + x(b + 1).toFixed(1);
    }
    const ridge = svgNode('path', {d: d + 'L' + x(last + 1) + ' ' + base + 'Z',
      fill: newest ? css('mark') : css('card'),
      'fill-opacity': newest ? .75 : .9, stroke: newest ? css('mark') : css('faint'), 'stroke-width': 1});
    ridge.addEventListener('mousemove', event => {
      const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) * width / box.width;
      const b = Math.min(last, Math.max(first, Math.floor(first + (at - left) / (right - left) * (last - first + 1))));
      showTip(event, 'step ' + h.step + ': ' + percent(h.shares[b]) + ' from ' + show(2 ** (b + data.lowest)) + ' to ' +
        show(2 ** (b + data.lowest + 1)) + '\n' + percent(h.zeros) + ' exactly 0');
    });
    ridge.addEventListener('mouseleave', hideTip);
    svg.append(ridge);
    if (newest || base - named >= 24 && bottom - base >= 16) {
      svg.append(svgNode('text', {x: left - 8, y: base + 3, 'text-anchor': 'end'}, 'step ' + h.step));
      named = base;
    }
  });
}

// ---- location of a tensor: its source line, and its neighbours in the graph ----
const trace = data.trace;
function passageOf(w) {
  if (!trace) return -1;
  const arrival = trace.arrivals.find(([which]) => which === w.index);
  if (arrival) return arrival[1];
  const isAt = site => trace.sites[site].op === w.op && trace.sites[site].place === w.place;
  return w.op ? trace.passages.findIndex(([site]) => isAt(site)) : -1;
}
// Returns the parameters that a site reads, and its outputs.
const tensorsAt = site => [...new Set([...site.parameters.map(i => all[i]),
  ...all.filter(w => w.op === site.op && w.place === site.place)])].filter(w => w);
function placeItem(words, tensors, kind) {
  const item = document.createElement('li'), label = document.createElement('i');
  label.textContent = words + (tensors.length ? '  ·  ' : '');
  item.className = kind;
  item.append(label);
  tensors.slice(0, 8).forEach((w, k) => {
    const button = document.createElement('button');
    button.textContent = w.name;
    button.onclick = () => pickAny(w);
    item.append(...(k ? [' ', button] : [button]));
  });
  if (tensors.length > 8) item.append(' …');
  return item;
}
// Selects a tensor. Changes to another view if the current one does not contain it.
function pickAny(w) {
  if (!rows.includes(w)) view = views.find(v => v.kind === w.kind && seenIn(v, w)) || view;
  choose(w);
}
// Norms that are NaN or infinite are null in JSON.
const normText = v => v === null ? 'NaN or infinity' : show(v);
function drawPlace() {
  const list = document.querySelector('.place'), here = passageOf(picked);
  list.replaceChildren();
  if (here < 0) {
    const same = all.filter(w => w.kind === picked.kind), at = same.indexOf(picked);
    pick('place-about').textContent = trace ? 'not reached by the last traced backward pass; neighbours in the model:' :
      'no backward pass was traced; neighbours in the model:';
    if (same[at - 1]) list.append(placeItem('before it', [same[at - 1]], ''));
    if (same[at + 1]) list.append(placeItem('after it', [same[at + 1]], ''));
    return;
  }
  const calls = site => trace.passages.filter(p => p[0] === site).length;
  const words = k => {
    const [site, , arrived, left] = trace.passages[k], s = trace.sites[site], n = calls(site);
    return s.op + (s.place ? ' at ' + s.place : '') + (n > 1 ? ', one of ' + n + ' calls' : '') +
      ': gradient norm ' + normText(arrived) + ' in, ' + normText(left) + ' out';
  };
  const item = (k, kind, before) => placeItem(before + words(k),
    tensorsAt(trace.sites[trace.passages[k][0]]).filter(w => w !== picked), kind);
  pick('place-about').textContent = 'path of the gradient from the loss in step ' + trace.step +
    '; norms before and after each operation';
  const above = [];
  for (let k = trace.passages[here][1]; k >= 0 && above.length < 3; k = trace.passages[k][1]) above.unshift(k);
  if (!above.length) list.append(placeItem('the loss', [], ''));
  else if (trace.passages[above[0]][1] >= 0) list.append(placeItem('… from the loss', [], ''));
  for (const k of above) list.append(item(k, '', ''));
  list.append(item(here, 'here', picked.name + (picked.kind === 'parameter' ? ' is read by ' : ' is the output of ')));
  const behind = [];
  trace.passages.forEach((p, k) => { if (p[1] === here) behind.push(k); });
  for (const k of behind.slice(0, 4)) list.append(item(k, '', '→ '));
  const leaves = trace.arrivals.filter(([which, from]) => from === here && which !== picked.index)
    .map(([which]) => all[which]);
  if (leaves.length) list.append(placeItem('→ also reads', leaves, ''));
}

// ---- memory: one step over time by kind, the largest tensors at its peak, and totals by step ----
const kinds = ['parameter', 'gradient', 'activation', 'optimizer', 'other'];
function bytesText(v) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let unit = 0;
  while (v >= 1024 && unit < units.length - 1) { v /= 1024; ++unit; }
  return +v.toPrecision(3) + ' ' + units[unit];
}
// Returns round numbers of bytes, in the largest fitting unit, from 0 to `most`.
function bytesTicks(most) {
  let unit = 1;
  while (most / unit >= 1024) unit *= 1024;
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].flatMap(s => [s * unit / 10, s * unit])
    .sort((a, b) => a - b);
  const step = steps.find(s => most / s <= 5) || most, ticks = [];
  for (let v = 0; v <= most; v += step) ticks.push(v);
  return ticks;
}
function memoryAxes(svg, width, bottom, most) {
  const ticks = bytesTicks(most), left = 10 + Math.max(...ticks.map(v => widthOf(bytesText(v))));
  const y = v => bottom - (bottom - 10) * v / most;
  for (const v of ticks) {
    svg.append(svgNode('line', {x1: left, x2: width - 8, y1: y(v), y2: y(v), class: 'axis'}));
    svg.append(svgNode('text', {x: left - 6, y: y(v) + 4, 'text-anchor': 'end'}, bytesText(v)));
  }
  return [left, y];
}
function memoryCanvas(block, height, label) {
  const svg = svgNode('svg', {role: 'img', 'aria-label': label}), width = Math.max(240, block.clientWidth);
  svg.setAttribute('viewBox', '0 0 ' + width + ' ' + height);
  block.append(svg);
  return [svg, width];
}
function drawCourse(block, m) {
  const sum = p => p.slice(1).reduce((a, b) => a + b, 0), most = Math.max(1, ...m.curve.map(sum));
  const [svg, width] = memoryCanvas(block, 236, 'Memory over one step, by kind'), bottom = 212;
  const [left, y] = memoryAxes(svg, width, bottom, most), right = width - 8, x = at => left + (right - left) * at;
  // A step curve: memory is constant between two moments.
  kinds.forEach((kind, k) => {
    const below = p => p.slice(1, k + 1).reduce((a, b) => a + b, 0);
    let upper = '', lower = '';
    m.curve.forEach((p, i) => {
      const from = x(p[0]).toFixed(1), to = x(i + 1 < m.curve.length ? m.curve[i + 1][0] : 1).toFixed(1);
      const low = y(below(p)).toFixed(1), high = y(below(p) + p[k + 1]).toFixed(1);
      upper += (i ? 'L' : 'M') + from + ' ' + high + 'H' + to;
      lower = 'L' + to + ' ' + low + 'H' + from + lower;
    });
    svg.append(svgNode('path', {d: upper + lower + 'Z', fill: css('m-' + kind)}));
  });
  const peak = m.curve.reduce((a, b) => sum(b) > sum(a) ? b : a, m.curve[0]), at = x(peak[0]);
  svg.append(svgNode('line', {x1: at, x2: at, y1: 10, y2: bottom, stroke: css('bad'), 'stroke-dasharray': '4 3'}));
  svg.append(svgNode('text', {x: left, y: bottom + 18}, 'start of step ' + m.step));
  svg.append(svgNode('text', {x: right, y: bottom + 18, 'text-anchor': 'end'}, 'end'));
  const cover = svgNode('rect', {x: left, y: 0, width: right - left, height: bottom, class: 'hit'});
  cover.addEventListener('mousemove', event => {
    const box = svg.getBoundingClientRect(), px = (event.clientX - box.left) * width / box.width;
    const p = [...m.curve].reverse().find(p => x(p[0]) <= px) || m.curve[0];
    const lines = kinds.map((kind, k) => kind + ': ' + bytesText(p[k + 1]));
    showTip(event, [...lines, 'total: ' + bytesText(sum(p))].join('\n'));
  });
  cover.addEventListener('mouseleave', hideTip);
  svg.append(cover);
}
function drawTotals(block, m) {
  const most = Math.max(1, ...m.totals.map(t => t[1])), [svg, width] = memoryCanvas(block, 136, 'Memory by step');
  const bottom = 112, [left, y] = memoryAxes(svg, width, bottom, most), right = width - 8;
  const first = m.totals[0][0], last = m.totals[m.totals.length - 1][0];
  const x = step => left + (right - left) * (last > first ? (step - first) / (last - first) : .5);
  const line = (which, colour) => svg.append(svgNode('path', {
    d: path(m.totals.map(t => t[which]), i => x(m.totals[i][0]), y), fill: 'none', stroke: colour,
    'stroke-width': 1.8, 'stroke-linejoin': 'round', 'stroke-linecap': 'round'}));
  line(1, css('faint'));
  line(2, css('mark'));
  svg.append(svgNode('text', {x: left - 6, y: bottom + 18, 'text-anchor': 'end'}, 'step'));
  labels(svg, data.stepTicks.map(list => list.filter(s => s >= first && s <= last)), bottom + 18, left, width,
    step => ({at: x(step), text: String(step)}));
}
function drawMemory() {
  const section = pick('memory'), shown = data.memory.filter(m => m.curve.length);
  section.replaceChildren();
  section.toggleAttribute('hidden', !shown.length);
  const add = (to, name, text, kind) => {
    const node = document.createElement(name);
    node.textContent = text || '';
    if (kind) node.className = kind;
    to.append(node);
    return node;
  };
  for (const m of shown) {
    const block = add(section, 'div'), most = Math.max(...m.curve.map(p => p.slice(1).reduce((a, b) => a + b, 0)));
    add(block, 'h2', 'Memory of ' + m.device);
    add(block, 'p', 'step ' + m.step + ' over time; the dashed line marks the peak of ' + bytesText(most));
    const legend = add(block, 'div', '', 'kinds');
    for (const kind of kinds) add(legend, 'span', kind).style.setProperty('--colour', 'var(--m-' + kind + ')');
    drawCourse(block, m);
    add(block, 'p', 'Allocated at the peak');
    const list = add(block, 'ul', '', 'place');
    for (const text of m.atPeak) add(list, 'li', text);
    if (m.totals.length > 1) {
      const about = add(block, 'p', 'Allocated at the end of each step (blue) and at its peak (grey)');
      about.style.marginTop = '14px';
      drawTotals(block, m);
    }
    if (m.growth.length) {
      add(block, 'p', 'Growing from step to step').style.marginTop = '14px';
      const growth = add(block, 'ul', '', 'place');
      for (const text of m.growth) add(growth, 'li', text, 'grows');
    }
  }
}

// ---- the page ----
function drawAll() {
  rows = all.filter(w => w.kind === view.kind && (view.kind === 'parameter' || seenIn(view, w)));
  if (!rows.includes(picked)) {
    const suspect = data.suspects.find(s => rows.includes(all[s.which]));
    picked = suspect ? all[suspect.which] : rows[rows.length - 1];
  }
  scale = scaleOf(rows.map(view.of));
  pick('about').textContent = view.about + '; the bars on the right show the last recorded values';
  pick('curves-title').textContent = picked.name;
  pick('curves-about').textContent = view.about + '; thin lines are the other rows';
  for (const button of document.querySelectorAll('.tabs button'))
    button.setAttribute('aria-pressed', button.textContent === view.key);
  for (const item of document.querySelectorAll('.suspects li'))
    item.toggleAttribute('aria-current', blamed !== null && item.suspect === blamed &&
      (ofTheRun(blamed) || all[blamed.which] === picked));
  drawLoss();
  drawHeat();
  drawCurves();
  drawBins();
  drawPlace();
  drawMemory();
}
function choose(w) { picked = w; drawAll(); }
// Returns the view that shows a suspect's trouble best.
function viewOf(suspect) {
  const w = all[suspect.which], mine = views.filter(v => v.kind === w.kind);
  const wanted = {
    'non-finite': v => w[v.side].bad.some(n => n > 0),
    dead: v => !v.log && lastOf(v.of(w)) > .95,
    frozen: v => v.of(w) === w.ratio && seenIn(v, w),
    updates: v => v.of(w) === w.ratio,
  }[suspect.trouble] || (v => v.of(w) === w.gradient.rms);
  return mine.find(wanted) || mine[0] || view;
}
function blame(suspect) {
  blamed = suspect;
  if (ofTheRun(suspect)) return drawAll();
  view = viewOf(suspect);
  choose(all[suspect.which]);
}
function onPress(node, act) {
  node.tabIndex = 0;
  node.onclick = act;
  node.onkeydown = event => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); act(); } };
}
function accuse() {
  const list = document.querySelector('.suspects'), few = 6, none = !data.suspects.length;
  const verdict = !views.length ? 'Nothing was recorded.' : 'None: every parameter receives a gradient and is updated.';
  pick('verdict').textContent = none ? verdict : '';
  pick('verdict').className = none && views.length ? 'well' : '';
  const entry = s => {
    const item = document.createElement('li'), kind = document.createElement('b');
    const text = document.createElement('span');
    item.style.setProperty('--colour', 'var(--' + s.trouble + ')');
    item.suspect = s;
    kind.textContent = s.trouble;
    text.textContent = s.text;
    item.append(kind, text);
    onPress(item, () => {
      if (!views.length) return;
      blame(s);
      pick('charts').scrollIntoView({behavior: 'smooth', block: 'start'});
    });
    return item;
  };
  list.append(...data.suspects.slice(0, few).map(entry));
  if (data.suspects.length > few) {
    const more = document.createElement('li');
    more.className = 'more';
    more.textContent = 'show ' + (data.suspects.length - few) + ' more';
    onPress(more, () => more.replaceWith(...data.suspects.slice(few).map(entry)));
    list.append(more);
  }
}
function start() {
  document.querySelector('h1').textContent = data.title;
  const loss = data.loss.filter(v => v !== null);
  const last = data.steps[data.steps.length - 1], whole = last - data.steps[0] + 1;
  const counted = (n, word) => n + ' ' + word + (n === 1 ? '' : 's');
  const facts = [data.recorded > 1 && data.recorded < whole ? data.recorded + ' recorded steps up to step ' + last :
    counted(data.recorded, 'step'), ...['parameter', 'activation'].map(kind =>
    counted(all.filter(w => w.kind === kind).length, kind))];
  if (loss.length === 1) facts.push('loss ' + lossText(loss[0]));
  if (loss.length > 1) facts.push('loss ' + lossText(loss[0]) + ' → ' + lossText(loss[loss.length - 1]));
  pick('facts').textContent = facts.join('  ·  ');
  pick('note').textContent = data.note;
  pick('note').toggleAttribute('hidden', !data.note);
  accuse();
  for (const section of ['layers', 'charts', 'place', 'memory']) pick(section).toggleAttribute('hidden', !views.length);
  if (!views.length) {
    drawLoss();
    addEventListener('resize', drawLoss);
    return;
  }
  for (const v of views) {
    const button = document.createElement('button');
    button.textContent = v.key;
    button.onclick = () => { view = v; drawAll(); };
    document.querySelector('.tabs').append(button);
  }
  if (data.suspects.length) blame(data.suspects[0]);
  else drawAll();
  pick('heat-box').addEventListener('scroll', () => drawRows());
  addEventListener('resize', drawAll);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
}
start();
