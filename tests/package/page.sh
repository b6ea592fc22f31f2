#!/usr/bin/env bash
# The page of `weft demo hooks` in a browser, on light and on dark ground: nothing in its console, every chart drawn,
# text that can be read, nothing loaded. usage: page.sh PROGRAM CHECKS
set -euo pipefail
program=$1 checks=$2
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  { echo "SKIPPED: no Chromium was found"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
browse() {
  "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/profile" "$@"
}
browse --dump-dom about:blank >/dev/null 2>"$work/log" ||
  { echo "SKIPPED: $browser does not start here: $(tail -1 "$work/log")"; exit 77; }
"$program" "$work/run" >/dev/null
{
  cat "$work/run/gradients.html"
  printf '<script>%s</script>\n' "$(cat "$checks")"
} >"$work/page.html"

scheme=0
for ground in dark light; do
  browse --window-size=1240,1400 \
    --blink-settings=preferredColorScheme=$scheme --virtual-time-budget=5000 --enable-logging=stderr --v=0 \
    --dump-dom "file://$work/page.html" >"$work/dom" 2>"$work/log"
  if grep 'CONSOLE' "$work/log"; then
    echo "the console is not empty on $ground ground"
    exit 1
  fi
  grep -o '<pre id="checks">[^<]*' "$work/dom" | sed 's/^<pre id="checks">//' | tee "$work/words"
  grep -q "^ok: .* on $ground ground" "$work/words" || { echo "FAILED on $ground ground"; exit 1; }
  scheme=1
done
