#!/usr/bin/env bash
# Makes the pictures of this folder: a simulator, the same 10 % slower, and the report of the two.
# Needs Chromium. Usage: docs/screenshots.sh [folder of an earlier run of this script]
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-$(mktemp -d)}
if [ ! -d "$out/report" ]; then
    cargo build --release
    run=(target/release/inferometer run docs/screenshots.toml --simulate h200-qwen2.5-7b --starts 5 --output-dir "$out")
    "${run[@]}" --save-baseline main
    INFEROMETER_SIM_SLOWDOWN=1.10 "${run[@]}" --baseline main || true # it regressed: exit code 1
fi
shoot() { # picture, page, width and height, more flags
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size="$3" "${@:4}" \
        --screenshot="$PWD/docs/$1" "file://$(realpath "$out")/report/$2"
}
shoot report.png index.html 1400,900
shoot report-group.png chat/index.html 1400,900 --blink-settings=preferredColorScheme=0
shoot report-point.png chat/long-context-c2.html 1400,900
