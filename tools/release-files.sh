#!/bin/sh
# Writes what a release has besides programs into dist-files: the notes of a version, which are its section of CHANGELOG.md, and the
# manifests with the tag of its image. Usage: tools/release-files.sh 0.1.0
set -eu
version=v${1#v}
mkdir -p dist-files
awk -v want="## $version " 'index($0 " ", want) == 1 { found = 1; next } /^## / { found = 0 } found' CHANGELOG.md > dist-files/notes.md
case $version in
*-*) ;; # a pre-release or a snapshot has none
*) grep -q . dist-files/notes.md || { echo "CHANGELOG.md: no section \"## $version (DATE)\": move the lines of Unreleased there" >&2; exit 1; } ;;
esac
rm -rf dist-files/kustomize
cp -R deploy/kustomize dist-files/kustomize
images=dist-files/kustomize/images/kustomization.yaml
[ "$(grep -c 'newTag: devel$' "$images")" = 1 ] || { echo "$images: want one tag devel to set" >&2; exit 1; }
sed -i.bak "s/newTag: devel$/newTag: $version/" "$images"
rm "$images.bak"
