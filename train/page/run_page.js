// Script of the page of a training run. RunFolder::State::json (run_folder.cpp) writes each of `data.runs`. The first
// is the run of this page.
let runs = data.runs;
const key = 'weft ' + location.pathname;
const settings = Object.assign({log: false, smooth: 45, hidden: []}, JSON.parse(sessionStorage.getItem(key) || '{}'));
const saveSettings = () => sessionStorage.setItem(key, JSON.stringify(settings));
const make = (name, attributes, ...inside) => {
  const node = document.createElement(name);
  for (const key in attributes) key === 'style' ? node.style.cssText = attributes[key] : node[key] = attributes[key];
  node.append(...inside);
  return node;
};

// ---- texts ----
const number = v => typeof v === 'string' ? v : v === null ? '–' : v === 0 ? '0' :
  Math.abs(v) >= 1e6 || Math.abs(v) < 1e-4 ? v.toExponential(2).replace('e+', 'e') :
  Math.abs(v) >= 100 ? v.toLocaleString('en', {maximumFractionDigits: Math.abs(v) < 1000 ? 1 : 0}) :
  String(+v.toPrecision(4));
const span = s => s < 90 ? Math.round(s) + ' s' : s < 5400 ? Math.round(s / 60) + ' min' :
  s < 172800 ? (s / 3600).toFixed(1) + ' h' : (s / 86400).toFixed(1) + ' days';
const titleOf = name => name.endsWith('_per_s') ? name.slice(0, -6).replaceAll('_', ' ') + ' per second' :
  name === 'lr' ? 'learning rate' : name.replaceAll('_', ' ');
const groupOf = name => name.replace(/^(train|val|valid|validation|test)_/, '');
const sideOf = name => (name.match(/^(train|val|valid|validation|test)_/) || ['', ''])[1];
const isHeldBack = name => !['', 'train'].includes(sideOf(name));
const isSpeed = name => name.endsWith('_per_s');
const isSetting = name => name === 'lr' || name === 'loss_scale';
const higherIsBetter = name => /accuracy|precision|recall|f1|auc|r2|score|top\d/.test(name);
const lowerIsBetter = name => /loss|error|perplexity|mae|mse/.test(name);
const place = run => run.last > 0 ? number(run.step) + ' of ' + number(run.last) : number(run.step);

// Runs with the same title are distinguished by their folders.
const nameOf = run => runs.filter(r => r.title === run.title).length > 1 ?
  run.title + ' (' + run.folder + ')' : run.title;

// ---- head ----
function drawHead() {
  const run = runs[0], silent = Date.now() / 1000 - run.written;
  const lost = run.state === 'running' && silent > 60 + 10 * run.every;
  document.querySelector('h1').textContent = run.title;
  const words = ['step ' + place(run),
    run.state === 'running' ? span(run.spent) + ' so far' : 'took ' + span(run.spent)];
  if (run.state === 'running' && run.left !== null && !lost) words.push(span(run.left) + ' left');
  if (lost) words.push('no update for ' + span(silent));
  words.push('started ' + new Date(run.started * 1000).toLocaleString('sv').slice(0, 16));
  pick('about').textContent = words.join('  ·  ');
  const state = lost ? 'silent' : run.state;
  pick('state').textContent = state;
  const colours = {running: '#2da44e', done: 'var(--mark)', failed: 'var(--bad)'};
  pick('state').style.setProperty('--colour', colours[state] || 'var(--zero)');
  pick('done').style.width = run.last > 0 ? Math.min(100, 100 * run.step / run.last) + '%' : '0';
  document.querySelector('.bar').hidden = run.last <= 0;
  pick('failure').hidden = !run.failure;
  pick('failure').textContent = run.failure || '';
}
function drawTiles() {
  pick('tiles').replaceChildren(...runs[0].figures.map(f => {
    const last = f.points[f.points.length - 1];
    const best = higherIsBetter(f.name) ? f.greatest : lowerIsBetter(f.name) ? f.least : null;
    const under = best ? 'best ' + number(best[1]) + ' at ' + number(best[0]) : 'at step ' + number(last[0]);
    return make('div', {}, make('span', {}, titleOf(f.name)), make('b', {}, number(last[1])), make('span', {}, under));
  }));
}

// ---- curves ----
const colourOf = index => css('run' + index % 9);
const shownRuns = () => runs.map((run, index) => ({run, index})).filter(r => !settings.hidden.includes(r.run.folder));
const finite = p => typeof p[1] === 'number' && (!settings.log || p[1] > 0);
// Exponential moving average with bias correction. Its window is a fixed fraction of the curve, independent of the
// number of points.
function smoothed(points, strength) {
  const share = 1 - 1 / Math.max(1, points.length * .1 * strength ** 3);
  let sum = 0, weight = 0;
  return points.map(([step, v]) => {
    if (typeof v !== 'number') return [step, v];
    sum = share * sum + (1 - share) * v, weight = share * weight + 1 - share;
    return [step, sum / weight];
  });
}
function roundStep(length, most) {
  const rough = length / most, power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5].find(f => f * power >= rough * (1 - 1e-9)) || 10) * power;
}
function ticksOf(low, high, most, least) {
  if (!(high > low)) return [low];
  const step = Math.max(roundStep(high - low, most), least || 0), out = [];
  for (let i = Math.ceil(low / step - 1e-9); i <= high / step + 1e-9; ++i) out.push(+(i * step).toPrecision(12));
  return out;
}
function logTicks(low, high) {
  const decades = high - low, out = [];
  const factors = decades < 1.5 ? [1, 2, 3, 5, 7] : decades < 3.5 ? [1, 3] : [1];
  const every = Math.max(1, Math.ceil(decades / 6));
  for (let e = Math.floor(low); e <= high; e += every)
    for (const f of factors) {
      const at = e + Math.log10(f);
      if (at >= low - 1e-9 && at <= high + 1e-9) out.push(+(f * 10 ** e).toPrecision(6));
    }
  return out.length > 1 ? out : [10 ** low, 10 ** high];
}
// Limits the range, so that outliers, as at the start of a run, do not squeeze the rest.
function rangeOf(lines) {
  const values = lines.flatMap(l => l.points.filter(finite).map(p => settings.log ? Math.log10(p[1]) : p[1]))
    .sort((a, b) => a - b);
  if (!values.length) return null;
  const at = share => values[Math.round((values.length - 1) * share)];
  let low = values[0], high = values[values.length - 1];
  const wide = at(.98) - at(.02);
  if (values.length > 60 && wide > 0) {
    if (high - at(.98) > 3 * wide) high = at(.98) + wide * .5;
    if (at(.02) - low > 3 * wide) low = at(.02) - wide * .5;
  }
  const room = high > low ? (high - low) * .04 : settings.log ? 1 : Math.abs(high) * .1 || 1;
  return [low - room, high + room];
}
function linesOf(group) {
  const alone = shownRuns().length === 1;
  return shownRuns().flatMap(({run, index}) => run.figures.filter(f => groupOf(f.name) === group).map(f => ({
    ...f, run, held: isHeldBack(f.name), rare: f.points.length < 40,
    colour: alone && isHeldBack(f.name) ? css('second') : colourOf(index),
    label: [alone ? '' : nameOf(run), alone ? titleOf(f.name) : sideOf(f.name)].filter(t => t).join(' · ') ||
      titleOf(f.name)})));
}
function drawPlot(group) {
  const lines = linesOf(group), room = Math.max(240, Math.min(pick('plots').clientWidth, 2000));
  const box = make('div', {}, make('h2', {}, titleOf(group)));
  pick('plots').append(box);
  const width = box.clientWidth || room, height = 220, bottom = height - 24, top = 10, range = rangeOf(lines);
  const svg = svgNode('svg', {viewBox: '0 0 ' + width + ' ' + height, role: 'img',
    'aria-label': titleOf(group) + ' by step'});
  box.append(svg);
  if (!range) {
    const reason = lines.length ? 'no values to plot' : 'not recorded by the visible runs';
    svg.append(svgNode('text', {x: 8, y: height / 2}, reason));
    return;
  }
  const [low, high] = range, y = v => {
    const at = bottom - (bottom - top) * ((settings.log ? Math.log10(v) : v) - low) / (high - low);
    return Math.max(top - 6, Math.min(bottom, at));
  };
  const ticks = settings.log ? logTicks(low, high) : ticksOf(low, high, 4).filter(v => v >= low && v <= high);
  const left = 10 + Math.max(...ticks.map(v => widthOf(number(v)))), right = width - 10;
  const steps = lines.flatMap(l => [l.points[0][0], l.points[l.points.length - 1][0]]);
  const from = Math.min(...steps), to = Math.max(...steps);
  const x = s => to > from ? left + (right - left) * (s - from) / (to - from) : (left + right) / 2;
  for (const v of ticks) {
    svg.append(svgNode('line', {x1: left, x2: right, y1: y(v), y2: y(v), class: 'axis'}));
    svg.append(svgNode('text', {x: left - 6, y: y(v) + 4, 'text-anchor': 'end'}, number(v)));
  }
  const lists = [9, 7, 5, 4, 3, 2, 1].map(most => ticksOf(from, to, most, 1).filter(s => s >= from && s <= to))
    .concat([[to]]);
  labels(svg, lists, height - 6, left - 6, right + 8, s => ({at: x(s), text: number(s)}));
  const draw = (points, more) => svg.append(svgNode('path', {
    d: path(points.map(p => finite(p) ? p[1] : null), i => x(points[i][0]), y), fill: 'none',
    'stroke-linejoin': 'round', 'stroke-linecap': 'round', ...more}));
  for (const l of [...lines].reverse()) {  // the own run last, so that it is drawn over the others
    const smooth = settings.smooth > 0 && !l.rare && !l.held && !isSetting(l.name);
    if (smooth) draw(l.points, {stroke: l.colour, 'stroke-width': 1, opacity: .28});
    l.drawn = smooth ? smoothed(l.points, settings.smooth / 100) : l.points;
    draw(l.drawn, {stroke: l.colour, 'stroke-width': l.points.length === 1 ? 6 : 1.8,
      ...(l.held && shownRuns().length > 1 ? {'stroke-dasharray': '5 4'} : {})});
    if (l.rare) for (const p of l.points.filter(finite))
      svg.append(svgNode('circle', {cx: x(p[0]).toFixed(1), cy: y(p[1]).toFixed(1), r: 2.6, fill: l.colour}));
    for (const p of l.points) if (typeof p[1] === 'string')
      svg.append(svgNode('rect', {x: x(p[0]) - 1.5, y: bottom - 6, width: 3, height: 6, fill: css('bad')}));
  }
  if (lines.length > 1) drawNames(box, lines);
  watch(svg, lines, {x, left, right, top, bottom, width, from, to});
}
function drawNames(box, lines) {
  const names = make('p', {style: 'display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: 12px'});
  for (const l of lines) {
    const stroke = l.held && shownRuns().length > 1 ? 'dashed ' : 'solid ';
    const key = make('i', {style: 'display: inline-block; width: 14px; height: 0; margin-right: 5px; ' +
      'vertical-align: middle; border-top: 2.5px ' + stroke + l.colour});
    names.append(make('span', {}, key, l.label));
  }
  box.append(names);
}
function nearest(points, step) {
  let low = 0, high = points.length - 1;
  while (low < high) {
    const middle = low + high >> 1;
    if (points[middle][0] < step) low = middle + 1; else high = middle;
  }
  return low > 0 && step - points[low - 1][0] < points[low][0] - step ? low - 1 : low;
}
function watch(svg, lines, {x, left, right, top, bottom, width, from, to}) {
  const cursor = svgNode('line', {y1: top, y2: bottom, stroke: css('mark'), opacity: 0});
  const cover = svgNode('rect', {x: left, y: 0, width: Math.max(1, right - left), height: bottom, class: 'hit'});
  cover.addEventListener('mousemove', event => {
    const box = svg.getBoundingClientRect();
    const share = ((event.clientX - box.left) * width / box.width - left) / (right - left);
    const step = from + (to - from) * share, [first] = lines, at = first.points[nearest(first.points, step)][0];
    for (const key of ['x1', 'x2']) cursor.setAttribute(key, x(at));
    cursor.setAttribute('opacity', .5);
    showTip(event, ['step ' + number(at), ...lines.map(l => {
      const i = nearest(l.points, at), p = l.points[i], s = l.drawn[i];
      return l.label + ': ' + number(p[1]) +
        (s !== p && typeof s[1] === 'number' ? '  (smoothed ' + number(s[1]) + ')' : '') +
        (p[0] !== at ? '  at ' + number(p[0]) : '');
    })].join('\n'));
  });
  cover.addEventListener('mouseleave', () => { cursor.setAttribute('opacity', 0); hideTip(); });
  svg.append(cursor, cover);
}
function drawCurves() {
  const groups = [...new Set(runs.flatMap(r => r.figures.map(f => groupOf(f.name))))];
  const rank = g => g === 'loss' ? 0 : isSpeed(g) ? 3 : g === 'lr' || g === 'grad_norm' || g === 'loss_scale' ? 2 : 1;
  groups.sort((a, b) => rank(a) - rank(b));
  pick('curves').hidden = !groups.length;
  pick('log').setAttribute('aria-pressed', settings.log);
  pick('linear').setAttribute('aria-pressed', !settings.log);
  pick('runs').replaceChildren(...(runs.length < 2 ? [] : runs.map((run, index) => {
    const button = make('button', {onclick: () => {
      settings.hidden = settings.hidden.includes(run.folder) ?
        settings.hidden.filter(f => f !== run.folder) : [...settings.hidden, run.folder];
      saveSettings();
      drawCurves();
    }}, nameOf(run));
    button.style.setProperty('--colour', colourOf(index));
    button.setAttribute('aria-pressed', !settings.hidden.includes(run.folder));
    return button;
  })));
  const tall = pick('plots').clientHeight;
  pick('plots').style.minHeight = tall + 'px';
  pick('plots').replaceChildren();
  groups.forEach(drawPlot);
  pick('plots').style.minHeight = '';
}

// ---- samples and facts ----
function drawSamples() {
  const all = [...runs[0].samples].reverse(), few = 6, list = settings.older ? all : all.slice(0, few);
  pick('sampled').hidden = !all.length;
  pick('older').hidden = all.length <= few;
  pick('older').textContent = settings.older ? 'show fewer' : 'show ' + (all.length - few) + ' older';
  const imageOf = text => 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(text);
  pick('samples').replaceChildren(...list.map(s => make('figure', {className: s.kind === 'svg' ? 'wide' : ''},
    make('figcaption', {}, s.name + '  ·  step ' + number(s.step)),
    s.kind === 'svg' ? make('img', {alt: s.name, src: imageOf(s.content)}) : make('pre', {}, s.content))));
}
// Returns the pairs of dotted name and text of a configuration. A list without objects is one text.
const flat = (value, name) => value !== null && typeof value === 'object' &&
  !(Array.isArray(value) && value.every(v => typeof v !== 'object')) ?
  Object.entries(value).flatMap(([k, v]) => flat(v, name ? name + '.' + k : k)) :
  [[name, Array.isArray(value) ? value.join(', ') : String(value)]];
const rowsOf = pairs => pairs.map(([name, ...rest]) =>
  make('tr', {}, make('td', {}, name), ...rest.map(r => make('td', {}, r))));
function drawFacts() {
  const run = runs[0], configured = flat(run.config, '').filter(([name]) => name);
  pick('saved').hidden = !run.checkpoints.length;
  pick('states').replaceChildren(...rowsOf([...run.checkpoints].reverse().map(s =>
    ['step ' + number(s.step) + (s.best ? ', best' : ''), s.path])));
  pick('configured').hidden = !configured.length;
  pick('config').replaceChildren(...rowsOf(configured));
  pick('machine').replaceChildren(...rowsOf(Object.entries(run.machine)));
  pick('foot').replaceChildren('Written by Weft at ' + new Date(run.written * 1000).toLocaleString('sv') + '.',
    ...(run.gradients ? [' ', make('a', {href: 'gradients.html'}, 'Gradient report')] : []));
}
function drawAll() {
  drawHead();
  drawTiles();
  drawCurves();
  drawSamples();
  drawFacts();
}

// ---- updates while the run is in progress ----
let moved = 0;
addEventListener('mousemove', () => { moved = Date.now(); });
async function refresh() {
  const served = location.protocol.startsWith('http'), busy = Date.now() - moved < 1500;
  if (runs[0].state !== 'running') return;
  if (!served && !busy) location.reload();
  if (served && !busy) try {
    const page = new DOMParser().parseFromString(await (await fetch(location.href, {cache: 'no-store'})).text(),
      'text/html');
    const fresh = JSON.parse(page.getElementById('data').textContent).runs;
    if (fresh[0].written !== runs[0].written) { runs = fresh; drawAll(); } else drawHead();
  } catch (error) { drawHead(); }
  setTimeout(refresh, served ? 2000 : 1000);
}
pick('smooth').value = settings.smooth;
pick('smooth').oninput = event => { settings.smooth = +event.target.value; saveSettings(); drawCurves(); };
pick('log').onclick = () => { settings.log = true; saveSettings(); drawCurves(); };
pick('linear').onclick = () => { settings.log = false; saveSettings(); drawCurves(); };
pick('older').onclick = () => { settings.older = !settings.older; saveSettings(); drawSamples(); };
addEventListener('resize', drawCurves);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
drawAll();
setTimeout(refresh, location.protocol.startsWith('http') ? 2000 : Math.max(2, runs[0].every) * 1000);
