// Appended to the report's page by page.sh: looks at it as a reader would and writes what it found into the document.
addEventListener('load', () => {
  const faults = [];
  const expect = (holds, words) => { if (!holds) faults.push(words); };
  const shapes = id => document.querySelectorAll(`#${id} :is(rect, path, line)`).length;

  const channel = c => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4;
  const luminance = colour => {
    const [r, g, b] = colour.match(/[\d.]+/g).map(v => channel(v / 255));
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + .05) / (low + .05);
  };
  const ground = node => {
    for (; node; node = node.parentElement) {
      const colour = getComputedStyle(node).backgroundColor;
      if (!/, 0\)$/.test(colour)) return colour;
    }
    return 'rgb(255, 255, 255)';
  };

  const look = view => {
    for (const [id, least] of [['loss', 1], ['legend', 20], ['heat', 40], ['curves', 10]])
      expect(shapes(id) >= least, `${view}: ${id} has ${shapes(id)} shapes`);
    expect(shapes('bins') >= 4 || document.getElementById('bins').textContent, `${view}: no histogram`);
    for (const node of document.querySelectorAll('svg *')) {
      for (const a of node.attributes)
        expect(!/NaN|undefined|Infinity/.test(a.value), `${view}: ${node.tagName} ${a.name}="${a.value.slice(0, 40)}"`);
    }
    for (const node of document.querySelectorAll('h1, h2, p, li b, li span, button, footer, svg text')) {
      if (!node.textContent) continue;
      const style = getComputedStyle(node), colour = node instanceof SVGElement ? style.fill : style.color;
      const ratio = contrast(colour, ground(node));
      expect(ratio >= 4.5, `${view}: "${node.textContent.slice(0, 20)}" has a contrast of ${ratio.toFixed(1)}`);
    }
    expect(document.documentElement.scrollWidth <= innerWidth, `${view}: wider than the window`);
  };

  const tabs = document.querySelectorAll('.tabs button');
  expect(tabs.length === 7, `${tabs.length} views`);
  for (const tab of tabs) {
    tab.click();
    look(tab.textContent);
  }
  tabs[0].click();

  const suspects = [...document.querySelectorAll('.suspects li')];
  expect(suspects.length >= 5, `${suspects.length} suspects`);
  expect(/NaN/.test(suspects[0].textContent), 'the first suspect is not the NaN');
  suspects.find(s => /dead/.test(s.textContent)).click();
  expect(/^dead/.test(document.getElementById('curves-title').textContent), 'a click on a suspect does not pick it');
  document.querySelector('.suspects .more').click();
  expect(!document.querySelector('.suspects .more'), '"show more" stays');

  const tip = document.getElementById('tip');
  for (const id of ['heat', 'curves']) {
    const box = document.querySelector(`#${id} .hit`).getBoundingClientRect();
    document.querySelector(`#${id} .hit`).dispatchEvent(
      new MouseEvent('mousemove', {clientX: box.left + box.width / 2, clientY: box.top + 5, bubbles: true}));
    expect(tip.style.visibility === 'visible' && /step \d+/.test(tip.textContent), `${id}: no tip`);
    expect(!/NaN|undefined/.test(tip.textContent), `${id}: the tip says ${tip.textContent}`);
  }
  expect(performance.getEntriesByType('resource').length === 0, 'it loads something');

  const words = document.createElement('pre'), dark = matchMedia('(prefers-color-scheme: dark)').matches;
  words.id = 'checks';
  words.textContent = faults.length ? [...new Set(faults)].slice(0, 20).join('\n') :
    `ok: ${tabs.length} views on ${dark ? 'dark' : 'light'} ground, ${shapes('heat')} shapes in the heat map`;
  document.body.append(words);
});
