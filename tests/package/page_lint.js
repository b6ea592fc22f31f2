// Checks the files that page_lint.sh put into this document:
//   - each script can be parsed, alone and after page_frame.js, with which it shares its scope;
//   - braces of styles match, and the browser understands each declaration;
//   - tags of bodies match, ids are unique, and scripts use only ids that the page has.
const faults = [];
const expect = (holds, words) => { if (!holds) faults.push(words); };
const files = new Map([...document.querySelectorAll('template')].map(node => {
  const bytes = Uint8Array.from(atob(node.content.textContent), c => c.charCodeAt(0));
  return [node.dataset.name, new TextDecoder('utf-8', {fatal: true}).decode(bytes)];
}));
const textOf = ending => [...files].filter(([name]) => name.endsWith(ending));
const frame = textOf('/page_frame.js')[0][1];

function parse(name, text) {
  try {
    new Function(text);
  } catch (error) {
    faults.push(name + ': ' + error);
  }
}
for (const [name, text] of textOf('.js')) {
  parse(name, text);
  if (!name.startsWith('tests/') && text !== frame) parse('page_frame.js with ' + name, frame + text);
}

for (const [name, text] of textOf('.css')) {
  const bare = text.replace(/\/\*.*?\*\/|"[^"\n]*"|'[^'\n]*'/gs, '""');
  let depth = 0;
  for (const c of bare) {
    if (c === '{') ++depth;
    if (c === '}' && --depth < 0) break;
  }
  expect(depth === 0, name + ': braces do not match');
  const blocks = /(?:^|[{}])([^{}]*)\{([^{}]*)(?=\})/g;
  for (const [, selector, block] of bare.matchAll(blocks)) {
    for (const declaration of block.split(';').map(d => d.trim()).filter(d => d)) {
      const [, property, value] = declaration.match(/^([\w-]+):\s*(.+?)(?: !important)?$/s) || [];
      const known = property && (value.includes('""') || CSS.supports(property, value));
      expect(known, name + ':' + selector + '{ ' + declaration + ' }');
    }
  }
}

const empty = ['input', 'br', 'img', 'meta', 'hr'];
for (const [name, text] of textOf('.html')) {
  const open = [];
  for (const [, closes, tag] of text.replace(/<!--.*?-->/gs, '').matchAll(/<(\/?)([a-z]\w*)/g)) {
    if (!closes && !empty.includes(tag)) open.push(tag);
    if (closes) expect(open.pop() === tag, name + ': </' + tag + '> closes another tag');
  }
  expect(!open.length, name + ': not closed: ' + open);
  const ids = [...text.matchAll(/ id="([^"]*)"/g)].map(m => m[1]), script = files.get(name.replace('.html', '.js'));
  expect(new Set(ids).size === ids.length, name + ': an id is used twice: ' + ids);
  for (const [, id] of (frame + script).matchAll(/(?:\bpick|getElementById)\('([^']*)'\)/g))
    expect(id === 'data' || ids.includes(id), name + ': its script uses the missing id ' + id);
}
document.getElementById('checks').textContent = faults.length ? faults.join('\n') + '\n' : 'ok: ' + files.size + ' files\n';
