// What the checks of pages look with; page.sh appends it before them.
const shown = node => node.getClientRects().length > 0;
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
