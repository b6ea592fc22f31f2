#!/usr/bin/env bash
# The page of `weft demo hooks`, unless DEMO is -, and pages that are hard to show, in a browser, on light and on dark ground,
# in windows of four widths: nothing in the console, every chart drawn, every name whole, text that can be read and lies
# over no other, nothing loaded. usage: page.sh DEMO CASES CHECKS
set -euo pipefail
demo=$1 cases=$2 checks=$3
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  { echo "SKIPPED: no Chromium was found"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
browse() {
  "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/profile" "$@"
}
browse --dump-dom about:blank >/dev/null 2>"$work/log" ||
  { echo "SKIPPED: $browser does not start here: $(tail -1 "$work/log")"; exit 77; }
mkdir "$work/pages"
"$cases" "$work/pages"
if [[ $demo != - ]]; then
  "$demo" "$work/run" >/dev/null
  mv "$work/run/gradients.html" "$work/pages/demo.html"
fi

# One document holds all pages in frames; each tells it what it found.
{
  echo '<!DOCTYPE html><pre id="checks"></pre><script>
    addEventListener("message", e => { document.getElementById("checks").textContent += e.data + "\n"; });</script>'
  for page in "$work"/pages/*.html; do
    printf '<script>{%s}</script>\n' "$(cat "$(dirname "$0")/page_tools.js" "$checks")" >>"$page"
    for width in 360 600 1000 1600; do
      printf '<iframe src="%s" width="%s" height="900" style="border:0"></iframe>\n' "${page#"$work/"}" $width
    done
  done
} >"$work/all.html"
count=$(grep -c '<iframe' "$work/all.html")

scheme=0
for ground in dark light; do
  browse --window-size=1700,1400 \
    --blink-settings=preferredColorScheme=$scheme --virtual-time-budget=60000 --enable-logging=stderr --v=0 \
    --dump-dom "file://$work/all.html" >"$work/dom" 2>"$work/log"
  if grep -m 5 'CONSOLE' "$work/log"; then
    echo "the console is not empty on $ground ground"
    exit 1
  fi
  sed -n '/<pre id="checks">/,/<\/pre>/p' "$work/dom" | sed 's/.*<pre id="checks">//; s/<\/pre>.*//' >"$work/words"
  grep -v '^ok: ' "$work/words" | grep . && { echo "FAILED on $ground ground"; exit 1; }
  passed=$(grep -c "^ok: .* on $ground ground" "$work/words") || true
  [[ $passed == "$count" ]] || { echo "$passed of $count pages answered on $ground ground"; exit 1; }
  echo "ok: $passed pages on $ground ground"
  scheme=1
done
