// Appended to a report's page by page.sh: looks at it as a reader would and tells the frame's parent what it found.
addEventListener('load', () => {
  const faults = [], name = location.pathname.match(/(\w+)\.html$/)[1];
  const expect = (holds, words) => { if (!holds) faults.push(words); };
  const shapes = id => document.querySelectorAll(`#${id} :is(rect, path, line)`).length;

  const readable = view => {
    for (const node of document.querySelectorAll('h1, h2, p, li b, li span, li i, td, th, button, footer, svg text')) {
      if (!node.textContent || !shown(node)) continue;
      const style = getComputedStyle(node), colour = node instanceof SVGElement ? style.fill : style.color;
      const ratio = contrast(colour, ground(node)), box = node.getBoundingClientRect();
      expect(ratio >= 4.5, `${view}: "${node.textContent.slice(0, 20)}" has a contrast of ${ratio.toFixed(1)}`);
      expect(box.left >= 0 && box.right <= innerWidth, `${view}: "${node.textContent.slice(0, 20)}" leaves the window`);
    }
    expect(document.documentElement.scrollWidth <= innerWidth, `${view}: wider than the window`);
  };
  // Neighbours from top to bottom and left to right are enough: a label lies over one of the next few, if over any.
  const apart = view => {
    for (const svg of document.querySelectorAll('svg')) {
      const boxes = [...svg.querySelectorAll('text')].filter(shown).map(t => [t.getBoundingClientRect(), t.textContent])
        .sort(([a], [b]) => a.top - b.top);
      boxes.forEach(([a, one], i) => {
        for (let k = i + 1; k < boxes.length && boxes[k][0].top < a.bottom - 3; ++k) {
          const [b, other] = boxes[k];
          expect(a.right <= b.left + 1 || b.right <= a.left + 1, `${view}: ${svg.id}: "${one}" lies over "${other}"`);
        }
      });
    }
  };
  const numbersOf = id => [...document.querySelectorAll(`#${id} text`)].map(t => t.textContent)
    .filter(t => /^(step )?\d+$/.test(t)).map(t => +t.replace('step ', ''));
  const rounded = (view, id) => {
    const steps = numbersOf(id), wide = steps[1] - steps[0];
    expect(steps.length > 0, `${view}: ${id} has no steps`);
    if (steps.length < 2) return;
    expect(/^[125]0*$/.test(String(wide)) && steps.every((s, i) => s % wide === 0 && s === steps[0] + i * wide),
      `${view}: ${id} has the steps ${steps}`);
  };
  const rowsWhole = view => {
    for (const row of document.querySelectorAll('#heat .row')) {
      const words = [...row.querySelectorAll('.name')].map(t => t.textContent).join('');
      expect(words === row.getAttribute('aria-label'), `${view}: the row ${row.getAttribute('aria-label')} says "${words}"`);
      const bad = [...row.querySelectorAll('text')].some(t => /NaN/.test(t.textContent));
      expect(!bad || !row.querySelector('rect[rx]'), `${view}: ${words} has a bar beside NaN`);
    }
  };

  const look = view => {
    for (const [id, least] of [['legend', 20], ['heat', 2], ['curves', 3]])
      expect(shapes(id) >= least, `${view}: ${id} has ${shapes(id)} shapes`);
    expect(shapes('bins') >= 4 || document.getElementById('bins').textContent, `${view}: no histogram`);
    for (const node of document.querySelectorAll('svg *')) {
      for (const a of node.attributes)
        expect(!/NaN|undefined|Infinity/.test(a.value), `${view}: ${node.tagName} ${a.name}="${a.value.slice(0, 40)}"`);
    }
    readable(view);
    apart(view);
    rowsWhole(view);
    for (const id of ['heat-axis', 'curves']) rounded(view, id);
    expect(document.querySelectorAll('.place li').length > 0 || data.watched.length === 1, `${view}: it stands nowhere`);
  };

  // Two runs beside each other.
  if (data.runs) {
    const rows = [...document.querySelectorAll('tbody tr')];
    readable('two runs'), apart('two runs');
    if (name === 'both') {
      expect(rows.length === 24 && document.querySelectorAll('.runs .alone').length > 0, `${rows.length} rows`);
      rows[3].click();
      expect(document.getElementById('picked').textContent === rows[3].cells[0].textContent, 'a click on a row does not pick it');
      for (const id of ['loss', 'gradient', 'ratio', 'value']) expect(shapes(id) >= 4, `${id} has ${shapes(id)} shapes`);
      readable('picked'), apart('picked');
    }
  }

  const tabs = [...document.querySelectorAll('.tabs button')], suspects = [...document.querySelectorAll('.suspects li')];
  const title = document.getElementById('curves-title');
  readable('at first');
  if (suspects.length && tabs.length && !data.runs) {
    const item = suspects[0];
    expect(item.hasAttribute('aria-current'), 'the worst suspect is not picked at first');
    const ofTheRun = ['run', 'broadcast'].includes(item.querySelector('b').textContent);
    expect(ofTheRun || item.textContent.includes(title.textContent), `"${title.textContent}" is picked, not: ${item.textContent}`);
    expect(document.querySelectorAll('[aria-current]').length === 1, 'several suspects are picked');
  }
  const first = tabs.find(t => t.getAttribute('aria-pressed') === 'true');
  for (const tab of tabs) {
    tab.click();
    look(tab.textContent);
  }
  if (first) first.click();

  const tip = document.getElementById('tip');
  for (const id of tabs.length ? ['heat', 'curves'] : []) {
    const box = document.querySelector(`#${id} .hit`).getBoundingClientRect();
    document.querySelector(`#${id} .hit`).dispatchEvent(
      new MouseEvent('mousemove', {clientX: box.left + box.width / 2, clientY: box.top + 5, bubbles: true}));
    expect(tip.style.visibility === 'visible' && /steps? \d+/.test(tip.textContent), `${id}: no tip`);
    expect(!/NaN|undefined/.test(tip.textContent), `${id}: the tip says ${tip.textContent}`);
    expect(tip.getBoundingClientRect().width <= innerWidth, `${id}: the tip is wider than the window`);
  }
  expect(performance.getEntriesByType('resource').length === 0, 'it loads something');

  const facts = document.getElementById('facts').textContent, verdict = (document.getElementById('verdict') || {}).textContent;
  const loss = document.getElementById('loss');
  const of = {
    demo: () => {
      expect(tabs.length === 7, `${tabs.length} views`);
      for (const [id, least] of [['loss', 6], ['heat', 40], ['curves', 10]])
        expect(shapes(id) >= least, `${id} has ${shapes(id)} shapes`);
      expect(suspects.length >= 5, `${suspects.length} suspects`);
      expect(/NaN/.test(suspects[0].textContent), 'the first suspect is not the NaN');
      suspects.find(s => /dead/.test(s.textContent)).click();
      expect(/^dead/.test(title.textContent), 'a click on a suspect does not pick it');
      suspects.find(s => /vanishing/.test(s.textContent)).click();
      const here = document.querySelector('.place .here').textContent, next = document.querySelector('.place li:not(.here) button');
      expect(/^deep1.weight is read by linear at \S*find_the_nan.cpp:\d+/.test(here), `its line: ${here}`);
      const wanted = next.textContent;
      next.click();
      expect(title.textContent === wanted, `a click on the neighbour ${wanted} picks ${title.textContent}`);
    },
    names: () => expect(numbersOf('loss').length > 1 && loss.querySelectorAll('.axis').length > 3, 'the loss has no axis'),
    many: () => {
      const box = document.getElementById('heat-box'), seen = new Set();
      expect(box.clientHeight <= innerHeight && box.scrollHeight > 2000, `a box of ${box.clientHeight}, ${box.scrollHeight} inside`);
      for (box.scrollTop = 0; ; box.scrollTop += box.clientHeight / 2) {
        box.dispatchEvent(new Event('scroll'));
        document.querySelectorAll('#heat .row').forEach(row => seen.add(row.getAttribute('aria-label')));
        if (box.scrollTop + box.clientHeight >= box.scrollHeight - 2) break;
      }
      expect(seen.size === 200, `${seen.size} rows are drawn`);
    },
    long: () => {
      const at = data.watched[7].gradient.rms.indexOf(5000);
      expect(at > 0 && data.from[at] <= 1234 && data.steps[at] >= 1234, 'the peak of one step is lost');
      expect(Math.abs(data.watched[7].gradient.least[at] - .08) < 1e-9, 'the least beside the peak is lost');
      expect(/^3000 steps/.test(facts) && /steps \d+ to \d+/.test(tip.textContent), `${facts}; ${tip.textContent}`);
    },
    noted: () => expect(shown(document.getElementById('note')) && /SIGSEGV/.test(document.getElementById('note').textContent),
      'why it ended is not said'),
    still: () => {
      document.querySelector('.suspects .more').click();
      expect(!document.querySelector('.suspects .more'), '"show more" stays');
    },
    one: () => expect(/^1 step  ·  1 parameter  /.test(facts), facts),
    bad: () => {
      expect(tabs.length > 0 && document.querySelectorAll('#heat .row').length === 3, 'rows of NaN are not shown');
      expect(/loss NaN → NaN/.test(facts), facts);
      expect(suspects.length === 1, `${suspects.length} suspects, though gradients came`);
    },
    extreme: () => expect(/^10⁻³⁰⁰/.test(document.getElementById('legend').textContent), 'no decade is round'),
    unmoved: () => suspects[0].click(),
    late: () => expect(/loss 3 → ∞/.test(facts) && shown(loss), facts),
    empty: () => expect(verdict === 'Nothing was recorded.' && !shown(document.querySelector('.tabs')), verdict),
  };
  if (of[name]) of[name]();

  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  parent.postMessage(faults.length ?
    [...new Set(faults)].slice(0, 12).map(f => `${name} at ${innerWidth}: ${f}`).join('\n') :
    `ok: ${name} at ${innerWidth} on ${dark ? 'dark' : 'light'} ground`, '*');
});
