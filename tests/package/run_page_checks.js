// Appended to a run's page by page.sh: looks at it as a reader would and tells the frame's parent what it found.
addEventListener('load', () => {
  const faults = [], name = location.pathname.match(/(\w+)\.html$/)[1];
  const expect = (holds, words) => { if (!holds) faults.push(words); };
  const look = view => {
    for (const node of document.querySelectorAll('svg *'))
      for (const a of node.attributes)
        expect(!/NaN|undefined|Infinity/.test(a.value), `${view}: ${node.tagName} ${a.name}="${a.value.slice(0, 40)}"`);
    for (const node of document.querySelectorAll('h1, h2, p, b, span, button, label, td, pre, figcaption, footer, .state, svg text')) {
      if (!node.textContent || !shown(node)) continue;
      const style = getComputedStyle(node), colour = node instanceof SVGElement ? style.fill : style.color;
      const ratio = contrast(colour, ground(node)), box = node.getBoundingClientRect(), words = node.textContent.slice(0, 20);
      expect(ratio >= 4.5, `${view}: "${words}" has a contrast of ${ratio.toFixed(1)}`);
      expect(box.left >= 0 && box.right <= innerWidth, `${view}: "${words}" leaves the window`);
    }
    expect(document.documentElement.scrollWidth <= innerWidth, `${view}: wider than the window`);
    for (const svg of document.querySelectorAll('#plots svg')) {
      const boxes = [...svg.querySelectorAll('text')].map(t => [t.getBoundingClientRect(), t.textContent]);
      boxes.forEach(([a, one], i) => boxes.slice(i + 1).forEach(([b, other]) =>
        expect(a.right <= b.left + 1 || b.right <= a.left + 1 || a.bottom <= b.top + 3 || b.bottom <= a.top + 3,
          `${view}: "${one}" lies over "${other}"`)));
      expect(svg.querySelectorAll('path, circle').length > 0 || svg.textContent, `${view}: ${svg.getAttribute('aria-label')} is empty`);
    }
  };

  const run = data.runs[0];
  look('linear');
  expect(document.querySelector('h1').textContent === run.title, 'the title is another');
  expect(document.querySelectorAll('#tiles > div').length === run.figures.length, 'a figure has no tile');
  expect(document.querySelectorAll('#plots svg').length === new Set(run.figures.map(f => f.name.replace(/^(train|val)_/, ''))).size,
    'a figure has no plot');
  if (run.figures.length) {
    document.getElementById('log').click();
    look('log');
    document.getElementById('linear').click();
    const cover = document.querySelector('#plots svg .hit'), box = cover && cover.getBoundingClientRect();
    if (cover) {
      cover.dispatchEvent(new MouseEvent('mousemove', {clientX: box.left + box.width / 2, clientY: box.top + 20, bubbles: true}));
      const tip = document.getElementById('tip');
      expect(tip.style.visibility === 'visible' && /^step [\d,]+\n/.test(tip.textContent), `the tip says "${tip.textContent}"`);
      cover.dispatchEvent(new MouseEvent('mouseleave'));
    }
    for (const button of document.querySelectorAll('#runs button')) {
      const before = document.querySelectorAll('#plots path').length;
      button.click();
      expect(document.querySelectorAll('#plots path').length < before, 'a run that is hidden is drawn');
    }
    if (data.runs.length > 1) look('no run');
    for (const button of document.querySelectorAll('#runs button')) button.click();
  }
  for (const node of document.querySelectorAll('script[src], link, img')) {
    expect(node.tagName === 'IMG' && node.src.startsWith('data:'), `${node.tagName} loads ${node.src}`);
  }
  const side = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  parent.postMessage((faults.length ? `${name} at ${innerWidth} on ${side} ground: ${[...new Set(faults)].slice(0, 5).join('; ')}` :
    `ok: ${name} at ${innerWidth} on ${side} ground`), '*');
});
