// Script of the page that compares two runs. comparison_json (report.cpp) writes its `data`.
const runs = data.runs, byName = runs.map(r => new Map(r.watched.map(w => [w.name, w])));
const names = [...new Set(runs.flatMap(r => r.watched.map(w => w.name)))];
let picked = null;
const lastOf = list => {
  for (let i = (list || []).length - 1; i >= 0; --i) if (list[i] !== null) return list[i];
  return null;
};

// Draws the curves of both runs over a common axis of steps.
function drawBoth(id, height, courses, log) {
  const svg = pick(id), width = Math.max(240, svg.parentNode.clientWidth), bottom = height - 24;
  svg.replaceChildren();
  svg.setAttribute('viewBox', '0 0 ' + width + ' ' + height);
  const fits = v => typeof v === 'number' && (!log || v > 0);
  const values = courses.flatMap(c => c || []).filter(fits);
  if (!values.length) { svg.append(svgNode('text', {x: 4, y: 24}, 'no data was recorded')); return; }
  let low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b)), ticks = [];
  if (log) {
    low = Math.floor(Math.log10(low)), high = Math.ceil(Math.log10(high));
    if (high === low) high += 1;
    const step = [1, 2, 5, 10, 20, 50, 100].find(s => s * 5 >= high - low);
    for (let e = Math.ceil(low / step) * step; e <= high; e += step) ticks.push({at: e, text: raised(e)});
  } else {
    if (high === low) high = low + (Math.abs(low) || 1);
    for (const at of [low, low * .5 + high * .5, high]) ticks.push({at, text: show(at)});
  }
  const left = 10 + Math.max(widthOf('step'), ...ticks.map(t => widthOf(t.text))), right = width - 10;
  const first = Math.min(...runs.map(r => r.steps.length ? r.from[0] : Infinity));
  const last = Math.max(...runs.map(r => r.steps.length ? r.steps[r.steps.length - 1] : -Infinity), first + 1);
  const xAt = step => left + (right - left) * (step - first) / (last - first);
  const yAt = v => bottom - (bottom - 10) * ((log ? Math.log10(v) : v) / 2 - low / 2) / (high / 2 - low / 2);
  for (const {at, text} of ticks) {
    const y = yAt(log ? 10 ** at : at);
    svg.append(svgNode('line', {x1: left, x2: right, y1: y, y2: y, class: 'axis'}));
    svg.append(svgNode('text', {x: left - 6, y: y + 4, 'text-anchor': 'end'}, text));
  }
  svg.append(svgNode('text', {x: left - 6, y: bottom + 18, 'text-anchor': 'end'}, 'step'));
  const lastStep = run => run.steps[run.steps.length - 1] || 0;
  const longest = runs.reduce((a, b) => lastStep(b) > lastStep(a) ? b : a);
  labels(svg, longest.stepTicks, bottom + 18, left, width, step => ({at: xAt(step), text: String(step)}));
  courses.forEach((course, k) => {
    if (!course) return;
    svg.append(svgNode('path', {d: path(course.map(v => fits(v) ? v : null), i => xAt(runs[k].steps[i]), yAt),
      fill: 'none', stroke: css('run' + k), 'stroke-width': 1.8, 'stroke-dasharray': k ? '6 4' : 'none',
      'stroke-linejoin': 'round', 'stroke-linecap': 'round'}));
    course.forEach((v, i) => {
      if (typeof v !== 'string') return;
      const x = xAt(runs[k].steps[i]) - 1.5;
      svg.append(svgNode('rect', {x, y: bottom - 6, width: 3, height: 6, fill: css('bad')}));
    });
  });
  const cursor = svgNode('line', {y1: 10, y2: bottom, stroke: css('mark'), opacity: 0});
  const cover = svgNode('rect', {x: left, y: 0, width: width - left, height: bottom, class: 'hit'});
  cover.addEventListener('mousemove', event => {
    const box = svg.getBoundingClientRect(), px = (event.clientX - box.left) * width / box.width;
    const step = first + (px - left) / (right - left) * (last - first);
    const words = runs.map((r, k) => {
      let near = 0;
      r.steps.forEach((s, i) => { if (Math.abs(s - step) < Math.abs(r.steps[near] - step)) near = i; });
      const v = courses[k] && courses[k][near];
      return r.title + ', step ' + r.steps[near] + ': ' + (typeof v === 'string' ? v : show(v));
    });
    for (const key of ['x1', 'x2']) cursor.setAttribute(key, Math.min(right, Math.max(left, px)));
    cursor.setAttribute('opacity', .5);
    showTip(event, words.join('\n'));
  });
  cover.addEventListener('mouseleave', () => { cursor.setAttribute('opacity', 0); hideTip(); });
  svg.append(cursor, cover);
}
function drawAll() {
  drawBoth('loss', 200, runs.map(r => r.loss), false);
  if (picked === null) return;
  pick('picked').textContent = picked;
  const of = take => byName.map(m => m.has(picked) ? take(m.get(picked)) : null);
  drawBoth('gradient', 200, of(w => w.gradient.rms), true);
  drawBoth('ratio', 200, of(w => w.ratio), true);
  drawBoth('value', 200, of(w => w.value.rms), true);
  for (const row of document.querySelectorAll('tbody tr')) row.toggleAttribute('aria-current', row.name === picked);
}
function onPress(node, act) {
  node.tabIndex = 0;
  node.onclick = act;
  node.onkeydown = event => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); act(); } };
}
function accuse(run, k) {
  const column = document.querySelectorAll('.runs > div')[k], other = runs[1 - k];
  const title = document.createElement('h2'), facts = document.createElement('p'), list = document.createElement('ul');
  title.style.setProperty('--colour', 'var(--run' + k + ')');
  title.textContent = run.title;
  const loss = run.loss.filter(v => v !== null);
  facts.textContent = run.recorded + (run.recorded === 1 ? ' step' : ' steps') + (loss.length ? '  ·  loss ' +
    [loss[0], loss[loss.length - 1]].map(v => typeof v === 'number' ? show(v) : v).join(' → ') : '') +
    (run.suspects.length ? '' : '  ·  no suspects');
  list.className = 'suspects';
  const whom = (r, s) => s.trouble + ' ' + (r.watched[s.which] ? r.watched[s.which].name : '');
  for (const s of run.suspects.slice(0, 40)) {
    const item = document.createElement('li'), kind = document.createElement('b');
    item.style.setProperty('--colour', 'var(--' + s.trouble + ')');
    kind.textContent = s.trouble;
    item.append(kind, s.text);
    // A dashed outline marks a suspect that the other run does not have.
    item.classList.toggle('alone', !other.suspects.some(t => whom(other, t) === whom(run, s)));
    onPress(item, () => { if (run.watched[s.which]) choose(run.watched[s.which].name, true); });
    list.append(item);
  }
  column.append(title, facts, list);
}
function choose(name, scroll) {
  picked = name;
  drawAll();
  if (scroll) pick('picked').scrollIntoView({behavior: 'smooth', block: 'start'});
}
function fillTable() {
  const far = (a, b) => a > 0 && b > 0 ? Math.abs(Math.log(a / b)) : a === b ? 0 :
    a === null || b === null ? -1 : Infinity;
  const rows = names.map(name => {
    const of = take => byName.map(m => m.has(name) ? lastOf(take(m.get(name))) : null);
    const gradient = of(w => w.gradient.rms), value = of(w => w.value.rms);
    return {name, gradient, value, far: Math.max(far(...gradient), far(...value))};
  }).sort((a, b) => b.far - a.far);
  const cells = (row, kind, texts) => texts.forEach(text => {
    const cell = document.createElement(kind);
    cell.textContent = text;
    row.append(cell);
  });
  const head = document.createElement('tr');
  cells(head, 'th', ['', 'gradient: left', 'right', 'ratio', 'value: left', 'right', 'ratio']);
  document.querySelector('thead').append(head);
  const ratio = (a, b) => a > 0 && b > 0 ? show(b / a) + ' ×' : '–';
  for (const r of rows.slice(0, 2000)) {
    const row = document.createElement('tr');
    row.name = r.name;
    cells(row, 'td', [r.name, show(r.gradient[0]), show(r.gradient[1]), ratio(...r.gradient), show(r.value[0]),
      show(r.value[1]), ratio(...r.value)]);
    onPress(row, () => choose(r.name));
    document.querySelector('tbody').append(row);
  }
  return rows;
}
document.querySelector('h1').textContent = data.title;
const shared = names.filter(n => byName.every(m => m.has(n))).length;
pick('facts').textContent = shared + ' of ' + names.length +
  ' tensors are in both runs; a dashed outline marks a suspect of only one run';
runs.forEach(accuse);
const table = fillTable();
choose(table[0] ? table[0].name : null);
addEventListener('resize', drawAll);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
