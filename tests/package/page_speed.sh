#!/usr/bin/env bash
# How long a browser takes to open the page of a long run of many layers: writes its log, makes the page, and prints bytes
# and milliseconds until DOMContentLoaded and load, of three times each. usage: page_speed.sh BUILD [LAYERS] [STEPS]
set -euo pipefail
build=$1 layers=${2:-500} steps=${3:-10000}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$build/tests/package/weft_page_cases" --log "$work/gradients.jsonl" "$layers" "$steps"
printf 'log   %d bytes\n' "$(stat -c %s "$work/gradients.jsonl")"
{ time "$build/examples/weft-page" "$work" >/dev/null; } 2>&1 | awk '/real/ { print "made  in " $2 }'
printf 'page  %d bytes\n' "$(stat -c %s "$work/gradients.html")"
cat >>"$work/gradients.html" <<'EOF'
<script>addEventListener('load', () => setTimeout(() => {
  const t = performance.getEntriesByType('navigation')[0];
  document.title = `DOMContentLoaded ${Math.round(t.domContentLoadedEventEnd)} ms, load ${Math.round(t.loadEventEnd)} ms`;
}));</script>
EOF
for _ in 1 2 3; do
  "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/profile" --timeout=20000 \
    --dump-dom "file://$work/gradients.html" 2>/dev/null | grep -o '<title>[^<]*' | head -1 | sed 's/<title>//'
done
