#!/usr/bin/env bash
# Checks the scripts, styles and bodies of pages, and the scripts that test them: usage: page_lint.sh ROOT
# Text: no eval, no markup from data, nothing loaded from outside. In a browser: see page_lint.js.
set -euo pipefail
tests=$(cd "$(dirname "$0")" && pwd)
cd "$1"
mapfile -t files < <(find hooks train tests/package -name '*.js' -o -name '*.css' -o -name '*.html' | sort)
(( ${#files[@]} >= 11 )) || { echo "only ${#files[@]} files were found"; exit 1; }
status=0
# refuse WHAT REGEX FILES...
refuse() {
  local what=$1 regex=$2
  shift 2
  if grep -nE "$regex" "$@" /dev/null | grep -vF "'http://www.w3.org/2000/svg'"; then
    echo "FAILED: $what"
    status=1
  fi
}
pages=() scripts=()
for file in "${files[@]}"; do
  [[ $file == tests/* ]] || pages+=("$file")
  [[ $file != *.js || $file == tests/* ]] || scripts+=("$file")
done
refuse "scripts run no text and write no markup" \
  '\beval\b|\bFunction\(|innerHTML|outerHTML|insertAdjacentHTML|document\.write|srcdoc|setTimeout\(['\''"]' "${scripts[@]}"
refuse "a script or style does not end its element" '</|<!--' $(printf '%s\n' "${pages[@]}" | grep -v 'html$')
refuse "pages load nothing" 'https?:|['\''"(]//|@import|url\(|<link|<script|<iframe|src="|\bimport\b|XMLHttpRequest|sendBeacon|WebSocket' \
  "${pages[@]}"
refuse "lines of pages have at most 120 characters" '.{121}' "${pages[@]}"
refuse "lines end without spaces or tabs" '[[:space:]]$' "${files[@]}"
[[ $status == 0 ]] || exit 1

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
  { echo "SKIPPED: no Chromium was found"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The files are data of this document, in base64, so that none of them runs.
{
  echo '<!DOCTYPE html><meta charset="utf-8"><pre id="checks"></pre>'
  for file in "${files[@]}"; do
    printf '<template data-name="%s">%s</template>\n' "$file" "$(base64 -w0 "$file")"
  done
  printf '<script>%s</script>\n' "$(cat "$tests/page_lint.js")"
} >"$work/lint.html"
"$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/profile" \
  --dump-dom "file://$work/lint.html" >"$work/dom" 2>"$work/log" ||
  { echo "SKIPPED: $browser does not start here: $(tail -1 "$work/log")"; exit 77; }
sed -n '/<pre id="checks">/,/<\/pre>/p' "$work/dom" | sed 's/.*<pre id="checks">//; s/<\/pre>.*//' >"$work/words"
grep -v '^ok: ' "$work/words" | grep . && { echo "FAILED"; exit 1; }
grep -q "^ok: ${#files[@]} files" "$work/words" || { echo "the browser did not answer"; exit 1; }
cat "$work/words"
